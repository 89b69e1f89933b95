"""Conditions in Iceberg's JSON and predicates select the same rows, by an evaluator based on the REST specification."""

import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

import pytest
from drawn.profiles import property_settings
from hypothesis import given
from hypothesis import strategies as st
from predicate_values import evaluate

from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
)
from harness.metadata.iceberg.server.expressions import expression_of, parse_expression
from harness.metadata.iceberg.server.values import single_value
from harness.metadata.model import schema as dt

FLOATS = (-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan)
DAY_US = 86_400 * 10**6
TEXTS = ("", "a", "ab", "ab%", "b", "\U0001f600", "\uffff")
LATE = 2_932_897  # the day 10000-01-01
UNWRITABLE = (-719_163, LATE, LATE * DAY_US)  # dates and times outside the range of Python's dates
# For each column: its type, the values of rows and literals, and values that occur only as literals.
COLUMNS: Mapping[str, tuple[dt.Type, tuple[Any, ...], tuple[Any, ...]]] = {
    "int": (dt.IntegerType(32), (-(2**31), -1, 0, 1, 2**31 - 1), (2**31, -(2**31) - 1)),
    "long": (dt.IntegerType(64), (-(2**63), 0, 2**53 + 1, 2**63 - 1), (2**63,)),
    "float": (dt.FloatType(32), FLOATS, ()),
    "double": (dt.FloatType(64), FLOATS, ()),
    "decimal": (
        dt.DecimalType(5, 2),
        (Decimal("-999.99"), Decimal("0.00"), Decimal("1.50")),
        (Decimal("1.5"), Decimal("1E+3"), Decimal("0.001")),
    ),
    "date": (dt.DateType(), (-719_163, -719_162, 0, 19_723, LATE - 1, LATE), ()),
    "time": (dt.TimeType(), (0, 1, DAY_US - 1), (DAY_US,)),
    "timestamp": (dt.TimestampType(), (-1, 0, 1, LATE * DAY_US - 1, LATE * DAY_US), ()),
    "instant": (dt.TimestampType(utc=True), (-1, 0, 1, LATE * DAY_US), ()),
    "nanos": (dt.TimestampType("ns"), (-1, 0, 1, 999), ()),
    "string": (dt.StringType(), TEXTS, ()),
    "boolean": (dt.BooleanType(), (False, True), ()),
    "uuid": (dt.UuidType(), (b"\x00" * 16, b"\x80" * 16), ()),
    "fixed": (dt.FixedType(2), (b"\x00\x01", b"\xff\x00"), ()),
    "binary": (dt.BinaryType(), (b"", b"\x00", b"\xff"), ()),
}
INNER = tuple(
    dt.Field(id=100 + id_, name=name, type=type_) for id_, (name, (type_, _, _)) in enumerate(COLUMNS.items(), start=1)
)
FIELDS = (
    *(dt.Field(id=field.id - 100, name=field.name, type=field.type) for field in INNER),
    dt.Field(id=50, name="struct", type=dt.StructType(INNER)),
    dt.Field(id=51, name="nothing", type=dt.UnknownType()),
)
SCHEMA = dt.Schema(fields=FIELDS)
LEAVES = [field for _, field in SCHEMA.walk() if field.id != 50]
NAMES = {field.id: ".".join(path) for path, field in SCHEMA.walk()}
Row = Mapping[int, Any]


def leaf_predicates(field: dt.Field) -> Iterator[Predicate]:
    """Yield all conditions on one column."""
    yield from (IsNull(field, negated) for negated in (False, True))
    if field.name == "nothing":
        return
    values = tuple(x for each in COLUMNS[field.name][1:] for x in each)
    yield from (Comparison(field, op, value) for op in Op for value in (*values, None))
    for negated in (False, True):
        yield from (In(field, members, negated) for members in ((x, y) for x in values for y in values))
        if isinstance(field.type, dt.FloatType):
            yield IsNan(field, negated)
        if isinstance(field.type, dt.StringType):
            yield from (StartsWith(field, prefix, negated) for prefix in TEXTS)


PREDICATES = [leaf for field in LEAVES for leaf in leaf_predicates(field)]


def parts(below: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(below, min_size=1, max_size=4).map(tuple)
    return several.map(And) | several.map(Or)


constants = st.sampled_from([Constant(True), Constant(False), Constant(None), Undecided()])
predicates = st.recursive(st.sampled_from(PREDICATES) | constants, parts, max_leaves=8)


def rows_of(seed: int) -> Iterator[Row]:
    """Yield some rows.

    Hypothesis draws only the seed, because drawing each value would take most of the time.
    """
    random = Random(seed)
    for _ in range(6):
        row = {50: random.choice((True, None)), 51: None}
        for field in LEAVES:
            if field.name != "nothing":
                value = random.choice((None, *COLUMNS[field.name][1]))
                row[field.id] = None if field.id > 100 and row[50] is None else value
        yield row


OPERATIONS = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "lt-eq": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gt-eq": lambda a, b: a >= b,
}
NEGATIONS = {
    "not-eq": "eq",
    "not-in": "in",
    "not-null": "is-null",
    "not-nan": "is-nan",
    "not-starts-with": "starts-with",
}


def holds(condition: Any, row: Row, *, signed_zeros: bool = False, ordered_nan: bool = True) -> bool:
    """Return whether a row satisfies a condition in Iceberg's JSON.

    Args:
        condition: The condition.
        row: Internal values by field id.
        signed_zeros: True for servers that order -0.0 below 0.0, as Java does.
        ordered_nan: False for servers that evaluate bounds. Bounds leave NaN out, so no NaN satisfies `gt`.
    """

    def key(value: Any) -> Any:
        if not isinstance(value, float):
            return value
        if math.isnan(value):
            return (math.inf, 1)
        return (value, 0 if not signed_zeros or value != 0 else math.copysign(0.5, value))

    def compare(type_: str, value: Any, literal: Any) -> bool:
        if isinstance(value, float) and math.isnan(value) and not ordered_nan and type_ != "eq":
            return False
        return bool(OPERATIONS[type_](key(value), key(literal)))

    def visit(part: Any) -> bool:
        if isinstance(part, bool):
            return part
        type_ = part["type"]
        match type_:
            case "true" | "false":
                return bool(type_ == "true")
            case "and":
                return visit(part["left"]) and visit(part["right"])
            case "or":
                return visit(part["left"]) or visit(part["right"])
            case "not":
                return not visit(part["child"])
        if type_ in NEGATIONS:
            return not visit({**part, "type": NEGATIONS[type_]})
        field = next(field for field in LEAVES if NAMES[field.id] == part["term"])
        value = row[field.id]
        match type_:
            case "is-null":
                return value is None
            case "is-nan":
                return value is not None and math.isnan(value)
            case "starts-with":
                return value is not None and value.startswith(part["value"])
            case "in":
                return value is not None and any(compare("eq", value, decode(x, field.type)) for x in part["values"])
            case _:
                return value is not None and compare(type_, value, decode(part["value"], field.type))

    return visit(condition)


def decode(literal: Any, type_: dt.Type) -> Any:
    """Return the internal value of a literal, decoded with the standard library."""
    day, second = timedelta(days=1), timedelta(seconds=1)
    match type_:
        case dt.DateType():
            return (date.fromisoformat(literal) - date(1970, 1, 1)) // day
        case dt.TimeType():
            moment = datetime.combine(date(1970, 1, 1), time.fromisoformat(literal))
            return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        case dt.TimestampType(unit=unit, utc=utc):
            text, fraction = literal.removesuffix("+00:00").split(".")
            assert literal.endswith("+00:00") is utc
            assert len(fraction) == (6 if unit == "us" else 9)
            seconds = (datetime.fromisoformat(f"{text}+00:00") - datetime(1970, 1, 1, tzinfo=UTC)) // second
            return seconds * 10 ** len(fraction) + int(fraction)
        case dt.DecimalType(scale=scale):
            assert len(literal.split(".")[1]) == scale
            return Decimal(literal)
        case dt.UuidType():
            return uuid.UUID(literal).bytes
        case dt.FixedType() | dt.BinaryType():
            return bytes.fromhex(literal)
        case dt.FloatType():
            return float(literal)
        case _:
            assert type(literal) is {"boolean": bool, "string": str}.get(str(type_), int)
            return literal


def value_of(row: Row) -> Any:
    return lambda field: row[field.id]


def check_written(predicate: Predicate, rows: Iterable[Row]) -> None:
    """Check that every row that satisfies a predicate also satisfies the condition that is written for it."""
    expression = expression_of(predicate, SCHEMA)
    if expression is None:
        return
    for row in rows:
        if evaluate(predicate, value_of(row)) is True:
            for signed_zeros, ordered_nan in product((False, True), (False, True)):
                assert holds(expression, row, signed_zeros=signed_zeros, ordered_nan=ordered_nan), (row, expression)


def column_rows(field: dt.Field) -> list[Row]:
    """Return a row for each value of a column, with null in all other columns."""
    nothing: Row = dict.fromkeys([50, *(leaf.id for leaf in LEAVES)])
    return [{**nothing, 50: True, field.id: value} for value in (None, *COLUMNS.get(field.name, ((), (), ()))[1])]


@pytest.mark.parametrize("field", LEAVES, ids=lambda field: NAMES[field.id])
def test_a_condition_on_a_column_is_true_for_the_rows_of_its_predicate(field: dt.Field) -> None:
    for predicate in leaf_predicates(field):
        check_written(predicate, column_rows(field))


@property_settings(100, fresh=20)
@given(predicate=predicates, seed=st.integers(0, 2**32))
def test_a_condition_is_true_for_the_rows_of_its_predicate(predicate: Predicate, seed: int) -> None:
    check_written(predicate, rows_of(seed))


def leaf_conditions(field: dt.Field) -> Iterator[Any]:
    """Yield all conditions on one column in Iceberg's JSON."""
    term = NAMES[field.id]
    yield from ({"type": type_, "term": term} for type_ in ("is-null", "not-null"))
    if field.name == "nothing":
        return
    values = [single_value(x, field.type) for x in COLUMNS[field.name][1] if x not in UNWRITABLE]
    yield from ({"type": type_, "term": term, "value": x} for type_ in (*OPERATIONS, "not-eq") for x in values)
    for type_ in ("in", "not-in"):
        yield from (
            {"type": type_, "term": term, "values": members}
            for members in ([], *([x, y] for x in values for y in values))
        )
    if isinstance(field.type, dt.FloatType):
        yield from ({"type": type_, "term": term} for type_ in ("is-nan", "not-nan"))
    if isinstance(field.type, dt.StringType):
        yield from (
            {"type": type_, "term": term, "value": x} for type_ in ("starts-with", "not-starts-with") for x in TEXTS
        )


@pytest.mark.parametrize("field", LEAVES, ids=lambda field: NAMES[field.id])
def test_a_parsed_condition_on_a_column_means_the_same(field: dt.Field) -> None:
    for leaf in leaf_conditions(field):
        for condition in (leaf, {"type": "not", "child": leaf}):
            predicate = parse_expression(condition, SCHEMA)
            for row in column_rows(field):
                assert (evaluate(predicate, value_of(row)) is True) is holds(condition, row), (condition, row)


CONDITIONS = [condition for field in LEAVES for condition in leaf_conditions(field)]


def combined(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pair = st.builds(
        lambda type_, left, right: {"type": type_, "left": left, "right": right},
        st.sampled_from(["and", "or"]),
        below,
        below,
    )
    return pair | below.map(lambda child: {"type": "not", "child": child})


conditions = st.recursive(
    st.sampled_from(CONDITIONS) | st.sampled_from([True, False, {"type": "true"}, {"type": "false"}]),
    combined,
    max_leaves=8,
)


@property_settings(100, fresh=20)
@given(condition=conditions, seed=st.integers(0, 2**32))
def test_a_parsed_condition_means_the_same(condition: Any, seed: int) -> None:
    predicate = parse_expression(condition, SCHEMA)
    for row in rows_of(seed):
        assert (evaluate(predicate, value_of(row)) is True) is holds(condition, row)
