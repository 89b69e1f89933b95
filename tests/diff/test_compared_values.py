"""Values and types that are compared, and how a report prints them; expectations by hand."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from harness.diff.canonical import NAN_TOKEN, NEGATIVE_ZERO, canonical_values
from harness.diff.printing import show, show_pair
from harness.diff.result import SchemaDifference, SchemaKind
from harness.diff.schemas import compare_schemas
from harness.errors import RequestError, UnsupportedError

US, NS, UTC = pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")
HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
SECOND = 1_000_000_000
DAY = 86_400 * SECOND


def huge(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)


ENTRIES = pa.map_(pa.int8(), pa.string())
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([5, None]))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([None, None]), [None, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([Decimal("1.50"), Decimal("2.00"), None], pa.decimal128(9, 2)), [Decimal("1.5"), 2, None]),
        (pa.array(["é", "", "NaN", None]), ["é".encode(), b"", b"NaN", None]),
        (pa.array([b"\xff"]).view(pa.string()), [b"\xff"]),  # text that is not UTF-8
        (pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"]),
        (RUNS, [5, 5, None]),
        (pa.array([b"a" * 16], pa.uuid()), [b"a" * 16]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())), [True, False]),
        (pa.ExtensionArray.from_storage(HUGEINT, pa.array([huge(-3), None], pa.binary(16))), [-3, None]),
        (pa.array([1, 2**31 - 1, None], pa.date32()), [DAY, (2**31 - 1) * DAY, None]),
        (pa.array([86_400_000], pa.date64()), [DAY]),
        (pa.array([1], pa.time32("s")), [SECOND]),
        (pa.array([1, 2**62, None], pa.timestamp("us")), [1_000, 2**62 * 1_000, None]),
        (pa.array([-(2**62)], pa.timestamp("s", "UTC")), [-(2**62) * SECOND]),
        (pa.array([-1], pa.duration("ms")), [-1_000_000]),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), [(1, 2, 3)]),
        (pa.array([[1, None], None, []]), [(1, None), None, ()]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [(1, 2), None]),
        (pa.array([[1], None, [2]], pa.list_view(pa.int8())), [(1,), None, (2,)]),
        (pa.array([{"b": 1, "a": None}, None]), [(None, 1), None]),
        (pa.array([{}, None], pa.struct([])), [(), None]),
        (pa.array([[(2, "x"), (1, None)], None, []], ENTRIES), [((1, None), (2, b"x")), None, ()]),
        (pa.array([0.0, -0.0, float("nan"), 1.5, None]), [0.0, NEGATIVE_ZERO, NAN_TOKEN, 1.5, None]),
        (pa.array([0.1, -0.0], pa.float32()), [float(np.float32(0.1)), NEGATIVE_ZERO]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values(array, expected):
    assert canonical_values(array) == expected
    assert list(map(hash, canonical_values(array))) == list(map(hash, expected))
    for start in range(len(array) + 1):
        assert canonical_values(array.slice(start)) == expected[start:]
    assert canonical_values(pa.chunked_array([array.slice(1), array.slice(0, 1)])) == expected[1:] + expected[:1]


def test_unions_have_no_canonical_value():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(UnsupportedError, match="Cannot compare values of type sparse_union"):
        canonical_values(union)


def single(value, type_=None):
    return pa.array([value], type_)


def stored(storage, type_):
    return pa.ExtensionArray.from_storage(type_, storage)


DAYS_PER_ERA = 146_097


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (single(None), "NULL"),
        (single(None, pa.string()), "NULL"),
        (single("NULL"), "'NULL'"),
        (single(""), "''"),
        (single(" a\t"), r"' a\t'"),
        (single("it's \\n"), r"'it\'s \\n'"),
        (single("a\u200b\u00a0\n\x00\U000e0001"), r"'a\u200b\xa0\n\x00\U000e0001'"),
        (single("Grüße 漢"), "'Grüße 漢'"),
        (single("می\u200cخواهم 👩\u200d💻"), "'می\u200cخواهم 👩\u200d💻'"),
        (pa.array([b"a\xff"]).view(pa.string()), "x'61ff' (not UTF-8)"),
        (single("x", pa.dictionary(pa.int8(), pa.string())), "'x'"),
        (single(True), "true"),
        (stored(pa.array([0], pa.int8()), pa.bool8()), "false"),
        (single(-7, pa.int8()), "-7"),
        (stored(pa.array([huge(-255)], pa.binary(16)), HUGEINT), "-255"),
        (single(Decimal("1.50"), pa.decimal128(9, 2)), "1.50"),
        (single(Decimal("0E-9"), pa.decimal128(20, 9)), "0.000000000"),
        (single(0.1), "0.1"),
        (single(0.0), "0.0"),
        (single(-0.0), "-0.0 (0x8000000000000000)"),
        (single(float("nan")), "NaN (0x7ff8000000000000)"),
        (single(float("-inf")), "-inf"),
        (single(0.1, pa.float32()), "0.1 (0x3dcccccd)"),
        (single(0.5, pa.float32()), "0.5"),
        (single(-0.0, pa.float32()), "-0.0 (0x80000000)"),
        (single(b"\x00\xff"), "x'00ff'"),
        (single(b"\x01", pa.binary(1)), "x'01'"),
        (single(bytes(range(16)), pa.uuid()), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (single(0, pa.date32()), "1970-01-01"),
        (single(11_016, pa.date32()), "2000-02-29"),
        (single(-1, pa.date32()), "1969-12-31"),
        (single(11_017 - 5 * DAYS_PER_ERA, pa.date32()), "0000-03-01"),
        (single(11_016 - 6 * DAYS_PER_ERA, pa.date32()), "-0400-02-29"),
        (single(11_016 + 20 * DAYS_PER_ERA, pa.date32()), "+10000-02-29"),
        (single(86_400_000, pa.date64()), "1970-01-02"),
        (single(0, pa.timestamp("s")), "1970-01-01 00:00:00"),
        (single(-1, pa.timestamp("us")), "1969-12-31 23:59:59.999999"),
        (single(1, pa.timestamp("ns", "UTC")), "1970-01-01 00:00:00.000000001Z"),
        (single(0, pa.timestamp("ms", "Asia/Tokyo")), "1970-01-01 00:00:00.000Z"),
        (single(2**63 - 1, pa.timestamp("us")), "+294247-01-10 04:00:54.775807"),
        (single(3_661, pa.time32("s")), "01:01:01"),
        (single(1, pa.time64("ns")), "00:00:00.000000001"),
        (single(-1_500, pa.duration("ms")), "-1.5s"),
        (single(60, pa.duration("s")), "60s"),
        (single(100, pa.duration("us")), "0.0001s"),
        (single((1, -2, 3), pa.month_day_nano_interval()), "1 month -2 days 3 ns"),
        (single(["a", None]), "['a', NULL]"),
        (single([]), "[]"),
        (single(None, pa.list_(pa.int8())), "NULL"),
        (single({"b": [0.1], "a": None}), "{b: [0.1], a: NULL}"),
        (single([(2, "x"), (1, None)], pa.map_(pa.int8(), pa.string())), "map{1: NULL, 2: 'x'}"),
    ],
)
def test_show(value, expected):
    assert show(value, 0) == expected
    assert show(pa.chunked_array([value.slice(1), pa.concat_arrays([value, value])]), 1) == expected


def test_long_values_are_cut_alike_around_the_first_difference():
    left, right = show_pair(single("a" * 1000 + "b" + "c" * 1000), 0, single("a" * 1000 + "d" + "c" * 1000), 0)
    assert left == "'" + "a" * 99 + "…(841 of 2,003 characters)…" + "a" * 60 + "b" + "c" * 139 + (
        "…(802 of 2,003 characters)…" + "c" * 59 + "'"
    )
    assert right == left.replace("b", "d")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (single("\u00e9"), single("e\u0301"), (r"'\xe9'", r"'e\u0301'")),
        (single("\ufb01n"), single("fin"), (r"'\ufb01n'", "'fin'")),
        (single("ä"), single("ö"), ("'ä'", "'ö'")),
        (single(""), single(None, pa.string()), ("''", "NULL")),
        (single(0.0), single(-0.0), ("0.0", "-0.0 (0x8000000000000000)")),
        (single(0.1, pa.float32()), single(0.1), ("0.1 (0x3dcccccd)", "0.1")),
        (single(1, US), single(1_001, NS), ("1970-01-01 00:00:00.000001", "1970-01-01 00:00:00.000001001")),
        (single("ख\u200dख"), single("खख"), (r"'\u0916\u200d\u0916'", r"'\u0916\u0916'")),
        (single(1), single(1, pa.int8()), ("1 (int64)", "1 (int8)")),
    ],
)
def test_pairs_show_the_difference(left, right, expected):
    assert show_pair(left, 0, right, 0) == expected


BYTE, INT, LONG, TEXT, BYTES = pa.int8(), pa.int32(), pa.int64(), pa.string(), pa.binary()


def one_column(type_: pa.DataType) -> pa.Schema:
    return pa.schema([("a", type_)])


ENCODINGS = [
    (TEXT, pa.large_string()),
    (TEXT, pa.string_view()),
    (TEXT, pa.dictionary(BYTE, TEXT)),
    (pa.json_(), TEXT),
    (BYTES, pa.large_binary()),
    (BYTES, pa.binary_view()),
    (pa.uuid(), pa.binary(16)),
    (pa.bool8(), pa.bool_()),
    (LONG, pa.run_end_encoded(INT, LONG)),
    (pa.decimal32(9, 2), pa.decimal256(9, 2)),
    (HUGEINT, pa.decimal256(39, 0)),
    (UTC, pa.timestamp("us", "Europe/Berlin")),
    (pa.list_(INT), pa.large_list(INT)),
    (pa.list_(INT), pa.list_(INT, 2)),
    (pa.list_(pa.field("item", INT)), pa.list_(pa.field("element", INT))),
    (pa.struct([("x", TEXT), ("y", BYTE)]), pa.struct([("y", BYTE), ("x", pa.string_view())])),
    (pa.map_(TEXT, pa.uuid()), pa.map_(pa.large_string(), pa.binary(16))),
]
COMPARABLE = [
    (INT, LONG),
    (pa.uint8(), LONG),
    (LONG, HUGEINT),
    (LONG, pa.decimal128(20, 0)),
    (pa.float32(), pa.float64()),
    (pa.decimal128(9, 2), pa.decimal128(9, 3)),
    (pa.decimal128(9, 2), pa.decimal128(10, 2)),
    (US, NS),
    (pa.timestamp("ms", "UTC"), pa.timestamp("ns", "+02:00")),
    (pa.time32("s"), pa.time64("ns")),
    (pa.binary(4), BYTES),
    (pa.date32(), pa.date64()),
    (pa.null(), pa.struct([("x", BYTE)])),
]
INCOMPARABLE = [
    (TEXT, LONG),
    (TEXT, BYTES),
    (US, UTC),
    (pa.date32(), US),
    (LONG, pa.float64()),
    (pa.bool_(), BYTE),
    (pa.decimal128(9, 2), pa.float64()),
    (pa.uuid(), TEXT),
    (pa.duration("us"), pa.month_day_nano_interval()),
    (pa.list_(BYTE), BYTE),
    (pa.list_(BYTE), pa.struct([("element", BYTE)])),
]


@pytest.mark.parametrize(("left", "right"), ENCODINGS, ids=str)
def test_encodings_of_one_type_are_equal(left, right):
    assert compare_schemas(one_column(left), one_column(right)) == ((), ("a",))


@pytest.mark.parametrize(
    ("left", "right", "kind", "common"),
    [
        *((left, right, SchemaKind.TYPE, ("a",)) for left, right in COMPARABLE),
        *((left, right, SchemaKind.INCOMPARABLE, ()) for left, right in INCOMPARABLE),
    ],
    ids=str,
)
def test_types_differ_and_are_compared_where_values_can_be(left, right, kind, common):
    (found,), compared = compare_schemas(one_column(left), one_column(right))
    assert found == SchemaDifference("a", kind, str(left), str(right))
    assert (found.counts, compared) == (True, common)


@pytest.mark.parametrize(
    ("left", "right", "expected", "common"),
    [
        (
            pa.struct([("b", pa.list_(INT))]),
            pa.struct([("b", pa.list_(LONG))]),
            [("a.b.element", SchemaKind.TYPE, "int32", "int64")],
            ("a",),
        ),
        (
            pa.map_(TEXT, pa.struct([("x", BYTE)])),
            pa.map_(BYTES, pa.struct([("x", TEXT)])),
            [
                ("a.key", SchemaKind.INCOMPARABLE, "string", "binary"),
                ("a.value.x", SchemaKind.INCOMPARABLE, "int8", "string"),
            ],
            (),
        ),
        (
            pa.struct([("x", BYTE), ("y", BYTE)]),
            pa.struct([("x", BYTE), ("z", BYTE)]),
            [("a.y", SchemaKind.ONLY_LEFT, "int8", None), ("a.z", SchemaKind.ONLY_RIGHT, None, "int8")],
            (),
        ),
        (
            pa.list_(pa.field("element", BYTE, nullable=False)),
            pa.list_(BYTE),
            [("a.element", SchemaKind.NULLABLE, "not nullable", "nullable")],
            ("a",),
        ),
    ],
    ids=["type in a list in a struct", "key and value", "fields of one side", "nullability of elements"],
)
def test_nested_differences_are_named_by_path(left, right, expected, common):
    assert compare_schemas(one_column(left), one_column(right)) == (
        tuple(SchemaDifference(*d) for d in expected),
        common,
    )


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
    with pytest.raises(RequestError, match="the right side has 2 columns named 'b'"):
        compare_schemas(good, bad)
    nested = one_column(pa.list_(pa.struct([("x", pa.int8()), ("x", pa.int8())])))
    with pytest.raises(RequestError, match=r"the left side has 2 fields of a\.element named 'x'"):
        compare_schemas(nested, good)


def test_unions_are_refused():
    union = one_column(pa.struct([("u", pa.sparse_union([pa.field("x", pa.int8())]))]))
    with pytest.raises(UnsupportedError, match=r"Cannot compare a\.u on the left side: it is a union"):
        compare_schemas(union, union)
