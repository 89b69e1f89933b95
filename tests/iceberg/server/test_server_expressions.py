"""The JSON of conditions: its exact form, omitted parts, and refused conditions. A property test checks its meaning."""

import contextlib
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from harness.errors import StorageError
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
from harness.metadata.iceberg.server.expressions import MOST_LEVELS, MOST_LITERALS, expression_of, parse_expression
from harness.metadata.model import schema as dt


def field(id_: int, name: str, type_: dt.Type, *, required: bool = False) -> dt.Field:
    return dt.Field(id=id_, name=name, type=type_, required=required)


ID = field(1, "id", dt.IntegerType(64))
X = field(2, "x", dt.FloatType(64))
NOTE = field(3, "note", dt.StringType())
AT = field(4, "at", dt.TimestampType(utc=True))
PRICE = field(5, "price", dt.DecimalType(9, 2))
CITY = field(7, "city", dt.StringType())
HOME = field(6, "home", dt.StructType((CITY,)))
TAG = field(9, "element", dt.StringType())
TAGS = field(8, "tags", dt.ListType(TAG))
KEY = field(10, "key", dt.UuidType())
DATA = field(11, "data", dt.BinaryType())
EXTRA = field(12, "extra", dt.VariantType())
# The full names of these two fields are equal.
DOTTED = field(13, "a.b", dt.IntegerType(32))
B = field(15, "b", dt.IntegerType(32))
A = field(14, "a", dt.StructType((B,)))
NANOS = field(16, "nanos", dt.TimestampType("ns"))
SCHEMA = dt.Schema(fields=(ID, X, NOTE, AT, PRICE, HOME, TAGS, KEY, DATA, EXTRA, DOTTED, A, NANOS))


def leaf(type_: str, term: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "term": term, **more}


def both(type_: str, left: Any, right: Any) -> dict[str, Any]:
    return {"type": type_, "left": left, "right": right}


FIVE = Comparison(ID, Op.EQ, 5)
IS_FIVE = leaf("eq", "id", value=5)
ZERO, ONE = "1970-01-01T00:00:00.000000000", "1970-01-01T00:00:00.000000001"
NEVER = both("and", leaf("is-null", "id"), leaf("not-null", "id"))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        pytest.param(FIVE, IS_FIVE, id="eq"),
        pytest.param(Comparison(ID, Op.NE, 5), leaf("not-eq", "id", value=5), id="not-eq"),
        pytest.param(Comparison(ID, Op.LT, 5), leaf("lt", "id", value=5), id="lt"),
        pytest.param(Comparison(ID, Op.LE, 5), leaf("lt-eq", "id", value=5), id="lt-eq"),
        pytest.param(Comparison(ID, Op.GT, 5), leaf("gt", "id", value=5), id="gt"),
        pytest.param(Comparison(ID, Op.GE, 5), leaf("gt-eq", "id", value=5), id="gt-eq"),
        pytest.param(In(ID, (5, 6)), leaf("in", "id", values=[5, 6]), id="in"),
        pytest.param(In(ID, (5, 6), negated=True), leaf("not-in", "id", values=[5, 6]), id="not-in"),
        pytest.param(
            In(NANOS, (0, 1)), both("or", leaf("eq", "nanos", value=ZERO), leaf("eq", "nanos", value=ONE)), id="in, ns"
        ),
        pytest.param(
            In(NANOS, (0, 1), negated=True),
            both("and", leaf("not-eq", "nanos", value=ZERO), leaf("not-eq", "nanos", value=ONE)),
            id="not-in, ns",
        ),
        pytest.param(IsNull(ID), leaf("is-null", "id"), id="is-null"),
        pytest.param(IsNull(ID, negated=True), leaf("not-null", "id"), id="not-null"),
        pytest.param(IsNan(X), leaf("is-nan", "x"), id="is-nan"),
        pytest.param(IsNan(X, negated=True), leaf("not-nan", "x"), id="not-nan"),
        pytest.param(StartsWith(NOTE, "ab"), leaf("starts-with", "note", value="ab"), id="starts-with"),
        pytest.param(StartsWith(NOTE, "ab", True), leaf("not-starts-with", "note", value="ab"), id="not-starts-with"),
        pytest.param(Comparison(CITY, Op.EQ, "Bonn"), leaf("eq", "home.city", value="Bonn"), id="inside a struct"),
        pytest.param(Comparison(PRICE, Op.EQ, Decimal("1.5")), leaf("eq", "price", value="1.50"), id="decimal"),
        pytest.param(
            Comparison(AT, Op.LT, 1), leaf("lt", "at", value="1970-01-01T00:00:00.000001+00:00"), id="instant"
        ),
        pytest.param(
            Comparison(KEY, Op.EQ, b"\xab" * 16),
            leaf("eq", "key", value="abababab-abab-abab-abab-abababababab"),
            id="uuid",
        ),
        pytest.param(And((FIVE, IsNull(X))), both("and", IS_FIVE, leaf("is-null", "x")), id="and"),
        pytest.param(Or((FIVE, IsNull(X))), both("or", IS_FIVE, leaf("is-null", "x")), id="or"),
        pytest.param(And((FIVE, Undecided())), IS_FIVE, id="and with a part that planning cannot evaluate"),
        pytest.param(Or((FIVE, Constant(None))), IS_FIVE, id="or with unknown"),
        pytest.param(Constant(False), NEVER, id="false"),
        pytest.param(Comparison(ID, Op.EQ, None), NEVER, id="null literal"),
        pytest.param(And((FIVE, Constant(False))), NEVER, id="and with false"),
        pytest.param(
            Comparison(X, Op.GT, 1.5), both("or", leaf("gt", "x", value=1.5), leaf("is-nan", "x")), id="NaN is above"
        ),
        pytest.param(Comparison(X, Op.EQ, math.nan), leaf("is-nan", "x"), id="equal to NaN"),
    ],
)
def test_written_conditions(predicate: Predicate, expected: Any) -> None:
    assert expression_of(predicate, SCHEMA) == expected


@pytest.mark.parametrize(
    "predicate",
    [
        pytest.param(Undecided(), id="not evaluated by planning"),
        pytest.param(Constant(True), id="true"),
        pytest.param(Or((FIVE, Undecided())), id="or with a part that planning cannot evaluate"),
        pytest.param(Comparison(X, Op.LT, math.inf), id="infinity has no JSON number"),
        pytest.param(Comparison(ID, Op.LT, 2**63), id="out of the column's range"),
        pytest.param(Comparison(AT, Op.LT, 10**18), id="year 33658"),
        pytest.param(Comparison(PRICE, Op.LT, Decimal("0.001")), id="more digits than the column"),
        pytest.param(Comparison(KEY, Op.LT, b"\xab" * 16), id="readers order UUIDs differently"),
        pytest.param(Comparison(DATA, Op.EQ, b"a"), id="Java reads no bytes"),
        pytest.param(IsNull(CITY), id="nulls inside structs are counted differently"),
        pytest.param(IsNull(HOME), id="a struct has no statistics"),
        pytest.param(IsNull(EXTRA), id="variant"),
        pytest.param(Comparison(TAG, Op.EQ, "a"), id="inside a list"),
        pytest.param(Comparison(B, Op.EQ, 1), id="two fields with one full name"),
        pytest.param(Comparison(dt.METADATA["_pos"], Op.EQ, 1), id="metadata column"),
        pytest.param(Comparison(field(1, "id", dt.IntegerType(32)), Op.EQ, 1), id="the server has another type"),
        pytest.param(StartsWith(NOTE, ""), id="every text"),
        pytest.param(In(ID, tuple(range(MOST_LITERALS + 1))), id="too many literals"),
    ],
)
def test_conditions_that_are_left_out(predicate: Predicate) -> None:
    assert expression_of(predicate, SCHEMA) is None
    assert expression_of(And((predicate, FIVE)), SCHEMA) == IS_FIVE


def test_a_field_has_its_name_in_the_schema_of_the_server() -> None:
    assert expression_of(Comparison(field(1, "old", dt.IntegerType(64)), Op.EQ, 5), SCHEMA) == IS_FIVE


def depth(condition: Any) -> int:
    return 1 + max(depth(condition["left"]), depth(condition["right"])) if "left" in condition else 1


def test_many_parts_need_few_levels() -> None:
    parts = tuple(Comparison(ID, Op.EQ, value) for value in range(1024))
    written = expression_of(Or(parts), SCHEMA)
    assert depth(written) == 11
    assert json.dumps(written).count('"eq"') == 1024


def test_deep_conditions_are_cut() -> None:
    predicate: Predicate = FIVE
    for _ in range(300):
        predicate = Or((And((predicate, FIVE)), IsNull(X)))
    assert depth(expression_of(predicate, SCHEMA)) <= MOST_LEVELS


EQUALS_5 = Comparison(ID, Op.EQ, 5)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param({"type": "true"}, Constant(True), id="true"),
        pytest.param({"type": "literal", "value": False}, Constant(False), id="literal of Java"),
        pytest.param(leaf("eq", "id", value={"type": "literal", "value": 5}), EQUALS_5, id="typed literal"),
        pytest.param({**IS_FIVE, "term": {"type": "reference", "term": "id"}}, EQUALS_5, id="typed reference"),
        pytest.param(
            {**IS_FIVE, "term": {"type": "transform", "transform": "identity", "term": "id"}}, EQUALS_5, id="identity"
        ),
        pytest.param(
            {**IS_FIVE, "term": {"type": "transform", "transform": "bucket[16]", "term": "id"}},
            Undecided(),
            id="transform",
        ),
        pytest.param({**IS_FIVE, "type": "EQ"}, EQUALS_5, id="upper case"),
        pytest.param(leaf("LT_EQ", "id", value=5), Comparison(ID, Op.LE, 5), id="name of a constant in Java"),
        pytest.param(leaf("eq", "tags.element", value="a"), Undecided(), id="inside a list"),
        pytest.param(leaf("eq", "extra", value=1), Undecided(), id="variant"),
        pytest.param(leaf("is-null", "home"), IsNull(HOME), id="null struct"),
        pytest.param(leaf("lt", "id", value=2**70), Comparison(ID, Op.LT, 2**70), id="out of range"),
        pytest.param(leaf("eq", "data", value="0aFF"), Comparison(DATA, Op.EQ, b"\x0a\xff"), id="bytes"),
        pytest.param(leaf("not-eq", "id", value=5), Or((IsNull(ID), Comparison(ID, Op.NE, 5))), id="null is not equal"),
        pytest.param(leaf("in", "id", values=[]), Constant(False), id="in nothing"),
        pytest.param({"type": "not", "child": {"type": "not", "child": IS_FIVE}}, EQUALS_5, id="not not"),
        pytest.param(
            {"type": "not", "child": both("and", IS_FIVE, leaf("is-null", "x"))},
            Or((Or((IsNull(ID), Comparison(ID, Op.NE, 5))), IsNull(X, negated=True))),
            id="not and",
        ),
    ],
)
def test_read_conditions(condition: Any, expected: Predicate) -> None:
    assert parse_expression(condition, SCHEMA) == expected


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        pytest.param(None, "expected true, false, or an object", id="null"),
        pytest.param("true", "expected true, false, or an object", id="text"),
        pytest.param({"type": 5}, "expected true, false, or an object", id="type"),
        pytest.param({"type": "xor"}, "its type is unknown", id="unknown type"),
        pytest.param({"type": "not"}, "expected true, false, or an object", id="no child"),
        pytest.param({"type": "and", "left": True}, "expected true, false, or an object", id="no right"),
        pytest.param({"type": "is-null"}, "full name of a column", id="no term"),
        pytest.param(leaf("is-null", "ID"), "full name of a column", id="unknown column"),
        pytest.param({**IS_FIVE, "term": {"type": "transform"}}, "full name of a column", id="transform of nothing"),
        pytest.param(leaf("eq", "id"), "expected a value", id="no value"),
        pytest.param(leaf("eq", "id", value=True), "64-bit integer", id="bool"),
        pytest.param(leaf("eq", "id", value="5"), "64-bit integer", id="text for a number"),
        pytest.param(leaf("eq", "at", value="2024-01-01"), "timestamp", id="date for an instant"),
        pytest.param(leaf("eq", "price", value="0.001"), "decimal", id="digits"),
        pytest.param(leaf("in", "id", value=5), "list of values", id="no values"),
        pytest.param(leaf("in", "id", values=[None]), "expected a value", id="null in values"),
        pytest.param(leaf("is-nan", "id"), "no NaN", id="NaN of an integer"),
        pytest.param(leaf("starts-with", "id", value=5), "expected string", id="prefix of an integer"),
    ],
)
def test_refused_conditions(condition: Any, problem: str) -> None:
    with pytest.raises(StorageError, match=problem) as caught:
        parse_expression(condition, SCHEMA)
    assert caught.value.cause == "CatalogAnswer"


@pytest.mark.parametrize("value", [None, True, 5, 1.5, "", [], [[]], {}, {"type": []}, {"type": "literal"}])
@pytest.mark.parametrize("key", ["type", "term", "value", "values", "left", "child", "transform"])
def test_strange_values_are_read_or_refused(key: str, value: Any) -> None:
    transform = {"type": "transform", "transform": "day", "term": "id"}
    conditions = [IS_FIVE, leaf("in", "id", values=[5]), both("and", True, True), {"type": "not", "child": True}]
    for condition in [*({**each, key: value} for each in conditions), {**IS_FIVE, "term": {**transform, key: value}}]:
        with contextlib.suppress(StorageError):
            parse_expression(condition, SCHEMA)


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_chains_are_read(side: str) -> None:
    condition: Any = IS_FIVE
    for _ in range(5_000):
        condition = both("or", IS_FIVE, IS_FIVE) | {side: condition}
    predicate = parse_expression(condition, SCHEMA)
    assert isinstance(predicate, Or)
    assert len(predicate.parts) == 5_001


@pytest.mark.parametrize("levels", [MOST_LEVELS, 10_000])
def test_deep_conditions_are_refused(levels: int) -> None:
    condition: Any = IS_FIVE
    for _ in range(levels):
        condition = {"type": "not", "child": condition}
    with pytest.raises(StorageError, match=f"more than {MOST_LEVELS} nested parts"):
        parse_expression(condition, SCHEMA)
