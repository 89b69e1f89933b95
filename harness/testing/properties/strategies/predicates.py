"""Filters as trees: SQL text for the engines, and plain three-valued Python for the model.

    predicate = Join("AND", Compare("id", IntegerType(64), ">", 1), IsNull("note"))
    sql(predicate)                        # ("id" > 1) AND ("note" IS NULL)
    holds(predicate, {"id": 2, "note": None})

`holds` gives True, False or None (unknown); a row passes where it is True. Values are as internal values (see
`harness.model.schema`). NaN equals itself and is above all other numbers, as DuckDB has it; -0.0 equals 0.0.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, assert_never

from hypothesis import strategies as st

from harness.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
)
from harness.testing.properties.strategies.values import pool
from harness.testing.scenarios.values import stored_value

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
_OPERATORS: tuple[Operator, ...] = ("=", "<", ">=", "<>", "<=", ">")
_EPOCH = dt.datetime(1970, 1, 1)
_YEARS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value. value: internal values, not null."""

    column: str
    type: Type
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """A column among values. values: internal values, not null."""

    column: str
    type: Type
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column of any type that is null."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary, unknown where it is unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class Join:
    """Two conditions, both or either of which must hold."""

    word: Literal["AND", "OR"]
    left: Predicate
    right: Predicate


Predicate: TypeAlias = Compare | In | IsNull | Not | Join


def sql(predicate: Predicate) -> str:
    """The condition as a boolean SQL expression in DuckDB's dialect."""
    match predicate:
        case Compare(column, type_, operator, value):
            return f"{quoted(column)} {operator} {literal(type_, value)}"
        case In(column, type_, values):
            return f"{quoted(column)} IN ({', '.join(literal(type_, v) for v in values)})"
        case IsNull(column):
            return f"{quoted(column)} IS NULL"
        case Not(part):
            return f"NOT ({sql(part)})"
        case Join(word, left, right):
            return f"({sql(left)}) {word} ({sql(right)})"
        case _:
            assert_never(predicate)


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Whether a row meets the condition; None: unknown. row: stored values by name of column."""
    match predicate:
        case Compare(column, _, operator, value):
            return None if row[column] is None else _compared(operator, row[column], value)
        case In(column, _, values):
            return None if row[column] is None else any(_compared("=", row[column], v) for v in values)
        case IsNull(column):
            return row[column] is None
        case Not(part):
            inner = holds(part, row)
            return None if inner is None else not inner
        case Join(word, left, right):
            return _joined(word, holds(left, row), holds(right, row))
        case _:
            assert_never(predicate)


def predicates(fields: Sequence[Field]) -> st.SearchStrategy[Predicate]:
    """Conditions over columns; for comparisons those of types that have literals."""
    leaves: list[st.SearchStrategy[Predicate]] = []
    for f in fields:
        if literals := _literals(f.type):
            value = st.sampled_from(literals)
            operator = st.sampled_from(_OPERATORS)
            leaves.append(st.builds(Compare, st.just(f.name), st.just(f.type), operator, value))
            several = st.lists(value, min_size=1, max_size=3).map(tuple)
            leaves.append(st.builds(In, st.just(f.name), st.just(f.type), several))
        leaves.append(st.just(IsNull(f.name)))
    words: st.SearchStrategy[Literal["AND", "OR"]] = st.sampled_from(("AND", "OR"))
    return st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(st.builds(Not, inner), st.builds(Join, words, inner, inner)),
        max_leaves=3,
    )


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(type_: Type, value: Any) -> str:
    """A stored value in SQL."""
    match type_:
        case BooleanType():
            return "TRUE" if value else "FALSE"
        case StringType():
            return "'" + str(value).replace("'", "''") + "'"
        case DateType():
            return f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
        case TimestampType(utc=utc):
            moment = (_EPOCH + dt.timedelta(microseconds=value)).isoformat(sep=" ", timespec="microseconds")
            return f"TIMESTAMPTZ '{moment}+00:00'" if utc else f"TIMESTAMP '{moment}'"
        case DecimalType():
            return format(value, "f")
        case _:
            return repr(value)


def _literals(type_: Type) -> tuple[Any, ...]:
    """Stored values of the type that SQL can spell for both engines; none: it has no literals here."""
    match type_:
        case IntegerType(bits=bits):
            return tuple(v for v in pool(type_, "extreme") if v != -(2**63)) + ((2**31,) if bits < 64 else ())
        case FloatType():
            return tuple(v for v in pool(type_, "reasonable"))
        case DateType():
            return tuple(v for v in pool(type_, "extreme") if v * 86_400_000_000 in _YEARS)
        case TimestampType(unit="us"):
            return tuple(v for v in pool(type_, "extreme") if v in _YEARS)
        case BooleanType() | StringType() | DecimalType():
            return tuple(stored_value(type_, v) for v in pool(type_, "extreme"))
        case _:
            return ()


def _compared(operator: Operator, left: Any, right: Any) -> bool:
    a, b = _ordered(left), _ordered(right)
    match operator:
        case "=":
            return bool(a == b)
        case "<>":
            return bool(a != b)
        case "<":
            return bool(a < b)
        case "<=":
            return bool(a <= b)
        case ">":
            return bool(a > b)
        case ">=":
            return bool(a >= b)


def _ordered(value: Any) -> Any:
    """What stands for a value in comparisons by Python's operators."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode("utf-8")
    return Decimal(value) if isinstance(value, int) else value


def _joined(word: Literal["AND", "OR"], left: bool | None, right: bool | None) -> bool | None:
    decisive = word == "OR"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive
