"""Which schema differences are found, and which columns remain to be compared; expectations by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.differ.result import SchemaDifference, SchemaKind
from harness.differ.schemas import compare_schemas
from harness.errors import RequestError, UnsupportedError

HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
US, NS, UTC = pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")
BYTE, INT, LONG, TEXT, BYTES = pa.int8(), pa.int32(), pa.int64(), pa.string(), pa.binary()


def one(type_: pa.DataType) -> pa.Schema:
    return pa.schema([("a", type_)])


ENCODINGS = [
    *((TEXT, pa.large_string()), (TEXT, pa.string_view()), (TEXT, pa.dictionary(BYTE, TEXT)), (pa.json_(), TEXT)),
    *((BYTES, pa.large_binary()), (BYTES, pa.binary_view()), (pa.uuid(), pa.binary(16)), (pa.bool8(), pa.bool_())),
    *((LONG, pa.run_end_encoded(INT, LONG)), (pa.decimal32(9, 2), pa.decimal256(9, 2))),
    *((HUGEINT, pa.decimal256(39, 0)), (UTC, pa.timestamp("us", "Europe/Berlin"))),
    *((pa.list_(INT), pa.large_list(INT)), (pa.list_(INT), pa.list_(INT, 2))),
    (pa.list_(pa.field("item", INT)), pa.list_(pa.field("element", INT))),
    (pa.struct([("x", TEXT), ("y", BYTE)]), pa.struct([("y", BYTE), ("x", pa.string_view())])),
    (pa.map_(TEXT, pa.uuid()), pa.map_(pa.large_string(), pa.binary(16))),
]
COMPARABLE = [
    *((INT, LONG), (pa.uint8(), LONG), (LONG, HUGEINT), (LONG, pa.decimal128(20, 0)), (pa.float32(), pa.float64())),
    *((pa.decimal128(9, 2), pa.decimal128(9, 3)), (pa.decimal128(9, 2), pa.decimal128(10, 2)), (US, NS)),
    *((pa.timestamp("ms", "UTC"), pa.timestamp("ns", "+02:00")), (pa.time32("s"), pa.time64("ns"))),
    *((pa.binary(4), BYTES), (pa.date32(), pa.date64()), (pa.null(), pa.struct([("x", BYTE)]))),
]
INCOMPARABLE = [
    *((TEXT, LONG), (TEXT, BYTES), (US, UTC), (pa.date32(), US), (LONG, pa.float64()), (pa.bool_(), BYTE)),
    *((pa.decimal128(9, 2), pa.float64()), (pa.uuid(), TEXT), (pa.duration("us"), pa.month_day_nano_interval())),
    *((pa.list_(BYTE), BYTE), (pa.list_(BYTE), pa.struct([("element", BYTE)]))),
]


@pytest.mark.parametrize(("left", "right"), ENCODINGS, ids=str)
def test_encodings_of_one_type_are_equal(left, right):
    assert compare_schemas(one(left), one(right)) == ((), ("a",))


@pytest.mark.parametrize(
    ("left", "right", "kind", "common"),
    [
        *((left, right, SchemaKind.TYPE, ("a",)) for left, right in COMPARABLE),
        *((left, right, SchemaKind.INCOMPARABLE, ()) for left, right in INCOMPARABLE),
    ],
    ids=str,
)
def test_types_differ_and_are_compared_where_values_can_be(left, right, kind, common):
    (found,), compared = compare_schemas(one(left), one(right))
    assert found == SchemaDifference("a", kind, str(left), str(right))
    assert (found.counts, compared) == (True, common)


@pytest.mark.parametrize(
    ("left", "right", "expected", "common"),
    [
        (
            *(pa.struct([("b", pa.list_(INT))]), pa.struct([("b", pa.list_(LONG))])),
            *([("a.b.element", SchemaKind.TYPE, "int32", "int64")], ("a",)),
        ),
        (
            *(pa.map_(TEXT, pa.struct([("x", BYTE)])), pa.map_(BYTES, pa.struct([("x", TEXT)]))),
            [
                ("a.key", SchemaKind.INCOMPARABLE, "string", "binary"),
                ("a.value.x", SchemaKind.INCOMPARABLE, "int8", "string"),
            ],
            (),
        ),
        (
            *(pa.struct([("x", BYTE), ("y", BYTE)]), pa.struct([("x", BYTE), ("z", BYTE)])),
            [("a.y", SchemaKind.ONLY_LEFT, "int8", None), ("a.z", SchemaKind.ONLY_RIGHT, None, "int8")],
            (),
        ),
        (
            *(pa.list_(pa.field("element", BYTE, nullable=False)), pa.list_(BYTE)),
            *([("a.element", SchemaKind.NULLABLE, "not nullable", "nullable")], ("a",)),
        ),
    ],
    ids=["type in a list in a struct", "key and value", "fields of one side", "nullability of elements"],
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
