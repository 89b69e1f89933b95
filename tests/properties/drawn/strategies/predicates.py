"""Drawn filters over the columns of a table."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from drawn.predicates import OPERATORS, ComparisonTest, InList, IsNullTest, JoinedTest, NotTest, Predicate
from drawn.strategies.types import Draw
from drawn.strategies.values import USUAL_FLOATS, pool
from harness.metadata.model import schema as dt
from harness.suite.scenarios.values import parse_value

_YEARS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)


@st.composite
def predicates(draw: Draw, fields: Sequence[dt.Field], *, depth: int = 2) -> Predicate:
    """Draw conditions over columns. Only columns with literals are compared. `depth` limits joins and NOT."""
    forms = [_leaf, _leaf, *([_not, _join] if depth else [])]
    return draw(st.sampled_from(forms))(draw, fields, depth)  # type: ignore[no-any-return]


def _leaf(draw: Draw, fields: Sequence[dt.Field], depth: int) -> Predicate:
    f = draw(st.sampled_from(fields))
    spelt = _literals(f.type)
    match draw(st.sampled_from(["compare", "compare", "in", "null"] if spelt else ["null"])):
        case "compare":
            return ComparisonTest(f.name, f.type, draw(st.sampled_from(OPERATORS)), draw(st.sampled_from(spelt)))
        case "in":
            return InList(f.name, f.type, tuple(draw(st.lists(st.sampled_from(spelt), min_size=1, max_size=3))))
        case _:
            return IsNullTest(f.name)


def _not(draw: Draw, fields: Sequence[dt.Field], depth: int) -> Predicate:
    return NotTest(draw(predicates(fields, depth=depth - 1)))


def _join(draw: Draw, fields: Sequence[dt.Field], depth: int) -> Predicate:
    parts = [draw(predicates(fields, depth=depth - 1)) for _ in "ab"]
    return JoinedTest(draw(st.sampled_from(("AND", "OR"))), *parts)


@cache
def _literals(type_: dt.Type) -> tuple[Any, ...]:
    """Return stored values of the type that SQL can write for both engines, or an empty tuple."""
    match type_:
        case dt.IntegerType(bits=bits):
            return tuple(v for v in pool(type_) if v != -(2**63)) + ((2**31,) if bits < 64 else ())
        case dt.FloatType():
            return USUAL_FLOATS
        case dt.DateType():
            return tuple(v for v in pool(type_) if v * 86_400_000_000 in _YEARS)
        case dt.TimestampType(unit="us"):
            return tuple(v for v in pool(type_) if v in _YEARS)
        case dt.BooleanType() | dt.StringType() | dt.DecimalType():
            return tuple(parse_value(type_, v) for v in pool(type_))
        case _:
            return ()
