"""Variant values, written by hand after the Parquet specifications of variant encoding and shredding."""

import struct
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.files.variant import value_text, variant_to_json

EMPTY = bytes([0x01, 0x00, 0x00])
AB = bytes([0x01, 0x02, 0x00, 0x01, 0x02]) + b"ab"
BA = bytes([0x01, 0x02, 0x00, 0x01, 0x02]) + b"ba"


def primitive(type_id, data=b""):
    return bytes([type_id << 2]) + data


def array(*items):
    offsets = [sum(map(len, items[:n])) for n in range(len(items) + 1)]
    return bytes([0x03, len(items), *offsets]) + b"".join(items)


def record(ids, *items):
    offsets = [sum(map(len, items[:n])) for n in range(len(items) + 1)]
    return bytes([0x02, len(items), *ids, *offsets]) + b"".join(items)


ONE = primitive(3, b"\x01")
NULL = primitive(0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00", "null"),
        (b"\x04", "true"),
        (b"\x08", "false"),
        (primitive(3, b"\xff"), "-1"),
        (primitive(4, b"\x00\x80"), "-32768"),
        (primitive(5, b"\x01\x00\x00\x00"), "1"),
        (primitive(6, struct.pack("<q", 2**63 - 1)), "9223372036854775807"),
        (primitive(7, struct.pack("<d", 0.1)), "0.1"),
        (primitive(7, struct.pack("<d", 1.0)), "1.0"),
        (primitive(7, struct.pack("<d", -0.0)), "-0.0"),
        (primitive(7, struct.pack("<d", float("nan"))), '"NaN"'),
        (primitive(7, struct.pack("<d", float("-inf"))), '"-Infinity"'),
        (primitive(14, struct.pack("<f", 0.1)), "0.1"),
        (primitive(14, struct.pack("<f", 16777216.0)), "16777216.0"),
        (primitive(14, struct.pack("<f", float("inf"))), '"Infinity"'),
        (primitive(8, b"\x02" + struct.pack("<i", -150)), "-1.50"),
        (primitive(8, b"\x02" + struct.pack("<i", -5)), "-0.05"),
        (primitive(9, b"\x00" + struct.pack("<q", 10**17)), "100000000000000000"),
        (primitive(10, b"\x26" + (10**38 - 1).to_bytes(16, "little")), "0." + "9" * 38),
        (primitive(11, struct.pack("<i", 17486)), '"2017-11-16"'),
        (primitive(11, struct.pack("<i", -719162)), '"0001-01-01"'),
        (primitive(11, struct.pack("<i", -719163)), '"0000-12-31"'),
        (primitive(11, struct.pack("<i", -719529)), '"-0001-12-31"'),
        (primitive(11, struct.pack("<i", 2932897)), '"+10000-01-01"'),
        (primitive(11, struct.pack("<i", -141428)), '"1582-10-14"'),
        (primitive(12, struct.pack("<q", 1510871468123456)), '"2017-11-16T22:31:08.123456+00:00"'),
        (primitive(13, struct.pack("<q", -1)), '"1969-12-31T23:59:59.999999"'),
        (primitive(18, struct.pack("<q", -1)), '"1969-12-31T23:59:59.999999999+00:00"'),
        (primitive(19, struct.pack("<q", 1)), '"1970-01-01T00:00:00.000000001"'),
        (primitive(17, struct.pack("<q", 81068123456)), '"22:31:08.123456"'),
        (primitive(15, b"\x03\x00\x00\x00\x00\x01\xff"), '"AAH/"'),
        (primitive(16, b"\x04\x00\x00\x00" + 'é"\n'.encode()), '"é\\"\\n"'),
        (bytes([3 << 2 | 1]) + b"n/a", '"n/a"'),
        (b"\x01", '""'),
        (primitive(20, bytes.fromhex("f24f9b64819a4ea68e3ef89dabc9a9f1")), '"f24f9b64-819a-4ea6-8e3e-f89dabc9a9f1"'),
        (array(), "[]"),
        (array(ONE, NULL, array(ONE)), "[1,null,[1]]"),
    ],
)
def test_values_without_names(value, expected):
    assert value_text(EMPTY, value) == expected


@pytest.mark.parametrize(
    ("metadata", "value", "expected"),
    [
        (AB, record([]), "{}"),
        (AB, record([0, 1], ONE, NULL), '{"a":1,"b":null}'),
        (BA, record([1, 0], ONE, NULL), '{"a":1,"b":null}'),
        (AB, bytes([0x02, 2, 0, 1, 1, 0, 3]) + NULL + ONE, '{"a":1,"b":null}'),
        (AB, bytes([0x02 | 0x15 << 2, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]) + NULL, '{"b":null}'),
        (bytes([0x51, 1, 0, 0, 0, 1, 0]) + b"k", record([0], record([0], ONE)), '{"k":{"k":1}}'),
    ],
    ids=["empty", "two", "unsorted-dictionary", "values-in-other-order", "wide", "nested-wide-metadata"],
)
def test_objects(metadata, value, expected):
    assert value_text(metadata, value) == expected


def shared_bytes():
    """Arrays whose elements all point to one array, 16 levels deep: 2**16 values in 100 bytes."""
    value = array(ONE)
    for _ in range(16):
        value = bytes([0x03, 2, 0, 0, len(value)]) + value
    return value


def deep(levels):
    value = b"\x00"
    for _ in range(levels):
        value = bytes([0x03 | 0x01 << 2, 1]) + struct.pack("<HH", 0, len(value)) + value
    return value


MALFORMED = {
    "no-value": (EMPTY, b"", CorruptFileError),
    "no-metadata": (b"", NULL, CorruptFileError),
    "version-2": (b"\x02\x00\x00", NULL, UnsupportedError),
    "cut-dictionary": (b"\x01\x05", NULL, CorruptFileError),
    "name-beyond-end": (b"\x01\x01\x00\x09a", NULL, CorruptFileError),
    "descending-names": (bytes([0x01, 2, 0, 2, 1]) + b"ab", NULL, CorruptFileError),
    "unknown-type": (EMPTY, primitive(21), UnsupportedError),
    "short-int": (EMPTY, primitive(6, b"\x00" * 7), CorruptFileError),
    "long-string": (EMPTY, primitive(16, b"\xff\xff\xff\x7f"), CorruptFileError),
    "not-utf8": (EMPTY, bytes([2 << 2 | 1]) + b"\xff\xfe", CorruptFileError),
    "scale-39": (EMPTY, primitive(8, b"\x27\x00\x00\x00\x00"), CorruptFileError),
    "negative-time": (EMPTY, primitive(17, struct.pack("<q", -1)), CorruptFileError),
    "unknown-name": (EMPTY, record([0], ONE), CorruptFileError),
    "name-twice": (AB, record([0, 0], ONE, ONE), CorruptFileError),
    "count-too-high": (EMPTY, bytes([0x03 | 0x04 << 2]) + b"\xff\xff\xff\xff", CorruptFileError),
    "offset-beyond-end": (EMPTY, bytes([0x03, 1, 5, 2]) + ONE, CorruptFileError),
    "shared-bytes": (EMPTY, shared_bytes(), CorruptFileError),
    "too-deep": (EMPTY, deep(129), UnsupportedError),
}


@pytest.mark.parametrize(("metadata", "value", "error"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_values_are_refused(metadata, value, error):
    with pytest.raises(error):
        value_text(metadata, value)


def test_every_cut_is_refused():
    value = record([0, 1], array(ONE, primitive(16, b"\x01\x00\x00\x00x")), primitive(10, b"\x01" + bytes(16)))
    assert value_text(AB, value) == '{"a":[1,"x"],"b":0.0}'
    for length in range(len(value)):
        with pytest.raises(CorruptFileError):
            value_text(AB, value[:length])


def group(typed=None, *, value=True):
    fields = [pa.field("metadata", pa.binary(), False)] if typed != "part" else []
    fields += [pa.field("value", pa.binary())] if value else []
    return pa.struct([*fields, *([] if typed is None else [pa.field("typed_value", typed)])])


def part(typed):
    return pa.struct([pa.field("value", pa.binary()), pa.field("typed_value", typed)])


def json_of(type_, *rows):
    return variant_to_json(pa.array(rows, type_)).to_pylist()


def row(value=None, typed=None, metadata=EMPTY):
    return {"metadata": metadata, "value": value, "typed_value": typed}


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -1, "-1"),
        (pa.int64(), 2**62, str(2**62)),
        (pa.float32(), 0.1, "0.1"),
        (pa.float64(), 1e300, "1e+300"),
        (
            pa.decimal128(38, 2),
            Decimal("123456789012345678901234567890123456.70"),
            "123456789012345678901234567890123456.70",
        ),
        (pa.decimal128(4, 2), Decimal("0.00"), "0.00"),
        (pa.string(), 'a"', '"a\\""'),
        (pa.binary(), b"\x00", '"AA=="'),
        (pa.binary(16), uuid.UUID(int=1).bytes, '"00000000-0000-0000-0000-000000000001"'),
    ],
    ids=str,
)
def test_shredded_primitives(type_, value, expected):
    assert json_of(group(type_), row(None, value), row(NULL), row(None), None) == [expected, "null", "null", None]


@pytest.mark.parametrize(
    ("type_", "number", "expected"),
    [
        (pa.date32(), -719529, '"-0001-12-31"'),
        (pa.time64("us"), 1, '"00:00:00.000001"'),
        (pa.timestamp("us"), -62135596800000001, '"0000-12-31T23:59:59.999999"'),
        (pa.timestamp("us", "UTC"), 0, '"1970-01-01T00:00:00.000000+00:00"'),
        (pa.timestamp("ns", "UTC"), 1, '"1970-01-01T00:00:00.000000001+00:00"'),
    ],
    ids=str,
)
def test_shredded_dates_and_times_of_any_year(type_, number, expected):
    numbers = pa.array([number, None], pa.int32() if type_ == pa.date32() else pa.int64())
    column = pa.StructArray.from_arrays(
        [pa.array([EMPTY, EMPTY]), pa.array([None, ONE], pa.binary()), numbers.view(type_)],
        names=["metadata", "value", "typed_value"],
    )
    assert variant_to_json(column).to_pylist() == [expected, "1"]


def test_shredded_objects_follow_the_specification_table():
    event = pa.struct([pa.field("a", part(pa.string()), False), pa.field("b", part(pa.int64()), False)])
    names = bytes([0x01, 3, 0, 1, 2, 3]) + b"abc"

    def typed(a=None, b=None, a_value=None, b_value=None):
        return {"a": {"value": a_value, "typed_value": a}, "b": {"value": b_value, "typed_value": b}}

    rows = {
        "fully": row(None, typed("noop", 7), names),
        "partially": row(record([2], ONE), typed("login", 8), names),
        "all missing": row(record([2], ONE), typed(), names),
        "not an object": row(bytes([1 << 2 | 1]) + b"x", None, names),
        "field is null": row(None, typed(None, 9, a_value=NULL), names),
        "other type": row(None, typed("noop", None, b_value=bytes([1 << 2 | 1]) + b"d"), names),
        "empty": row(None, typed(), names),
        "null": row(NULL, None, names),
        "missing": row(None, None, names),
        "in both": row(record([0, 2], ONE, ONE), typed("wins", 1), names),
        "sql null": None,
    }
    assert dict(zip(rows, json_of(group(event), *rows.values()), strict=True)) == {
        "fully": '{"a":"noop","b":7}',
        "partially": '{"a":"login","b":8,"c":1}',
        "all missing": '{"c":1}',
        "not an object": '"x"',
        "field is null": '{"a":null,"b":9}',
        "other type": '{"a":"noop","b":"d"}',
        "empty": "{}",
        "null": "null",
        "missing": "null",
        "in both": '{"a":"wins","b":1,"c":1}',
        "sql null": None,
    }


def test_elements_use_the_metadata_of_their_row():
    items = pa.list_(pa.struct([pa.field("value", pa.binary())]))
    rows = [row(None, [{"value": record([0], ONE)}] * 2, AB), row(None, [{"value": record([0], ONE)}], BA)]
    assert json_of(group(items), *rows) == ['[{"a":1},{"a":1}]', '[{"b":1}]']


def test_nested_objects_in_arrays_without_value_columns():
    inner = pa.struct([pa.field("x", pa.struct([pa.field("typed_value", pa.int32())]))])
    items = pa.list_(pa.struct([pa.field("typed_value", inner)]))
    typed = [{"typed_value": {"x": {"typed_value": 1}}}, {"typed_value": {"x": None}}]
    assert json_of(group(items, value=False), row(None, typed)) == ['[{"x":1},{}]']


@pytest.mark.parametrize(
    ("type_", "bad"),
    [
        (group(pa.int64()), row(ONE, 5)),
        (group(pa.list_(part(pa.int64()))), row(ONE, [])),
        (group(pa.struct([pa.field("a", part(pa.int64()))])), row(ONE, {"a": None})),
        (pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), row(ONE, metadata=None)),
        (pa.struct([("metadata", pa.binary()), ("value", pa.string())]), {"metadata": AB, "value": "x"}),
        (pa.struct([("metadata", pa.list_(pa.int8())), ("value", pa.binary())]), {"metadata": [1], "value": ONE}),
    ],
    ids=["primitive", "array", "object", "no-metadata", "text", "list-as-metadata"],
)
def test_contradicting_columns_are_refused(type_, bad):
    with pytest.raises(CorruptFileError):
        json_of(type_, bad)


def test_unknown_shredded_type_is_refused():
    with pytest.raises(UnsupportedError, match="shredded as uint32"):
        json_of(group(pa.uint32()), row(None, 5))
