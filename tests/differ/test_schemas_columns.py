"""Which schema differences are found, and which columns remain to be compared; expectations by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.differ.result import SchemaDifference, SchemaKind
from harness.differ.schemas import compare_schemas
from harness.errors import RequestError, UnsupportedError


def one(type_: pa.DataType) -> pa.Schema:
    return pa.schema([("a", type_)])


HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pa.string(), pa.large_string(), id="large string"),
        pytest.param(pa.string(), pa.string_view(), id="string view"),
        pytest.param(pa.string(), pa.dictionary(pa.int8(), pa.string()), id="dictionary"),
        pytest.param(pa.int64(), pa.run_end_encoded(pa.int32(), pa.int64()), id="run ends"),
        pytest.param(pa.binary(), pa.large_binary(), id="large binary"),
        pytest.param(pa.binary(), pa.binary_view(), id="binary view"),
        pytest.param(pa.uuid(), pa.binary(16), id="uuid"),
        pytest.param(pa.json_(), pa.string(), id="json"),
        pytest.param(pa.bool8(), pa.bool_(), id="bool8"),
        pytest.param(pa.decimal32(9, 2), pa.decimal256(9, 2), id="decimal widths"),
        pytest.param(HUGEINT, pa.decimal256(39, 0), id="hugeint"),
        pytest.param(pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), id="instants"),
        pytest.param(pa.list_(pa.int32()), pa.large_list(pa.int32()), id="large list"),
        pytest.param(pa.list_(pa.int32()), pa.list_(pa.int32(), 2), id="fixed-size list"),
        pytest.param(
            pa.list_(pa.field("item", pa.int32())), pa.list_(pa.field("element", pa.int32())), id="item names"
        ),
        pytest.param(
            pa.struct([("x", pa.string()), ("y", pa.int8())]),
            pa.struct([("y", pa.int8()), ("x", pa.string_view())]),
            id="struct by name",
        ),
        pytest.param(pa.map_(pa.string(), pa.uuid()), pa.map_(pa.large_string(), pa.binary(16)), id="map"),
    ],
)
def test_encodings_of_one_type_are_equal(left, right):
    assert compare_schemas(one(left), one(right)) == ((), ("a",))


@pytest.mark.parametrize(
    ("left", "right", "texts"),
    [
        pytest.param(pa.int32(), pa.int64(), ("int32", "int64"), id="integers"),
        pytest.param(pa.uint8(), pa.int64(), ("uint8", "int64"), id="unsigned"),
        pytest.param(pa.int64(), HUGEINT, None, id="hugeint"),
        pytest.param(pa.int64(), pa.decimal128(20, 0), ("int64", "decimal128(20, 0)"), id="integer and decimal"),
        pytest.param(pa.float32(), pa.float64(), ("float", "double"), id="floats"),
        pytest.param(pa.decimal128(9, 2), pa.decimal128(9, 3), None, id="scales"),
        pytest.param(pa.decimal128(9, 2), pa.decimal128(10, 2), None, id="precisions"),
        pytest.param(pa.timestamp("us"), pa.timestamp("ns"), ("timestamp[us]", "timestamp[ns]"), id="wall clocks"),
        pytest.param(pa.timestamp("ms", "UTC"), pa.timestamp("ns", "+02:00"), None, id="instants"),
        pytest.param(pa.binary(4), pa.binary(), ("fixed_size_binary[4]", "binary"), id="fixed"),
        pytest.param(pa.time32("s"), pa.time64("ns"), None, id="times"),
        pytest.param(pa.date32(), pa.date64(), None, id="dates"),
        pytest.param(pa.null(), pa.struct([("x", pa.int8())]), None, id="nulls"),
    ],
)
def test_comparable_types_differ_and_are_compared(left, right, texts):
    (found,), common = compare_schemas(one(left), one(right))
    assert found == SchemaDifference("a", SchemaKind.TYPE, *(texts or (str(left), str(right))))
    assert found.counts
    assert common == ("a",)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pa.string(), pa.int64(), id="text and number"),
        pytest.param(pa.string(), pa.binary(), id="text and bytes"),
        pytest.param(pa.timestamp("us"), pa.timestamp("us", "UTC"), id="wall clock and instant"),
        pytest.param(pa.date32(), pa.timestamp("us"), id="date and timestamp"),
        pytest.param(pa.int64(), pa.float64(), id="integer and float"),
        pytest.param(pa.decimal128(9, 2), pa.float64(), id="decimal and float"),
        pytest.param(pa.bool_(), pa.int8(), id="boolean and integer"),
        pytest.param(pa.uuid(), pa.string(), id="uuid and text"),
        pytest.param(pa.duration("us"), pa.month_day_nano_interval(), id="duration and interval"),
        pytest.param(pa.list_(pa.int8()), pa.int8(), id="list and element"),
        pytest.param(pa.list_(pa.int8()), pa.struct([("element", pa.int8())]), id="list and struct"),
    ],
)
def test_incomparable_types_are_left_out(left, right):
    found, common = compare_schemas(one(left), one(right))
    assert found == (SchemaDifference("a", SchemaKind.INCOMPARABLE, str(left), str(right)),)
    assert common == ()


@pytest.mark.parametrize(
    ("left", "right", "expected", "common"),
    [
        pytest.param(
            pa.struct([("b", pa.list_(pa.int32()))]),
            pa.struct([("b", pa.list_(pa.int64()))]),
            [("a.b.element", SchemaKind.TYPE, "int32", "int64")],
            ("a",),
            id="type in a list in a struct",
        ),
        pytest.param(
            pa.map_(pa.string(), pa.struct([("x", pa.int8())])),
            pa.map_(pa.binary(), pa.struct([("x", pa.string())])),
            [
                ("a.key", SchemaKind.INCOMPARABLE, "string", "binary"),
                ("a.value.x", SchemaKind.INCOMPARABLE, "int8", "string"),
            ],
            (),
            id="key and value",
        ),
        pytest.param(
            pa.struct([("x", pa.int8()), ("y", pa.int8())]),
            pa.struct([("x", pa.int8()), ("z", pa.int8())]),
            [("a.y", SchemaKind.ONLY_LEFT, "int8", None), ("a.z", SchemaKind.ONLY_RIGHT, None, "int8")],
            (),
            id="fields of one side",
        ),
        pytest.param(
            pa.list_(pa.field("element", pa.int8(), nullable=False)),
            pa.list_(pa.int8()),
            [("a.element", SchemaKind.NULLABLE, "not nullable", "nullable")],
            ("a",),
            id="nullability of elements",
        ),
    ],
)
def test_nested_differences_are_named_by_path(left, right, expected, common):
    assert compare_schemas(one(left), one(right)) == (tuple(SchemaDifference(*d) for d in expected), common)


def test_nullability_and_order_do_not_count():
    left = pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.int8()), pa.field("x", pa.int8())])
    right = pa.schema([pa.field("x", pa.int8()), pa.field("b", pa.int8()), pa.field("a", pa.int8())])
    found, common = compare_schemas(left, right)
    assert found == (
        SchemaDifference("a", SchemaKind.NULLABLE, "not nullable", "nullable"),
        SchemaDifference("a", SchemaKind.ORDER, "1", "3"),
        SchemaDifference("x", SchemaKind.ORDER, "3", "1"),
    )
    assert not any(d.counts for d in found)
    assert common == ("a", "b", "x")


def test_duplicate_names_are_refused():
    good, bad = pa.schema([("a", pa.int8())]), pa.schema([("a", pa.int8()), ("b", pa.int8()), ("b", pa.int8())])
    with pytest.raises(RequestError, match="the right side has 2 times a column called 'b'"):
        compare_schemas(good, bad)
    nested = one(pa.list_(pa.struct([("x", pa.int8()), ("x", pa.int8())])))
    with pytest.raises(RequestError, match=r"the left side has 2 times a field of a\.element called 'x'"):
        compare_schemas(nested, good)


def test_unions_are_refused():
    union = one(pa.struct([("u", pa.sparse_union([pa.field("x", pa.int8())]))]))
    with pytest.raises(UnsupportedError, match=r"Cannot compare a\.u on the left: it is a union"):
        compare_schemas(union, union)
