"""Avro data files: ids, unions, logical types, codecs and damage. Expectations by hand from the Avro specification."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError
from harness.metadata.files.avro import read_avro
from harness.metadata.files.avro_values import decode_long
from harness.metadata.model.file_schema import STORED_LIST, STORED_MAP, STORED_STRUCT, PhysicalField
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    UuidType,
)


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": list(fields)}


def column(name, type_, field_id=None):
    return {"name": name, "type": type_} | ({} if field_id is None else {"field-id": field_id})


def plain(schema):
    """The schema without logical types, so that the writer takes raw values."""
    if isinstance(schema, list):
        return [plain(s) for s in schema]
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def with_schema(data, schema):
    """The same container, declaring another schema of the same layout."""
    start = data.index(b"avro.schema") + len(b"avro.schema")
    length, start = decode_long(data, start)
    text = json.dumps(schema).encode()
    return data[: start - len(zigzag(length))] + zigzag(len(text)) + text + data[start + length :]


def zigzag(number):
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*encoded, rest))


def avro(schema, rows, codec="null", sync_interval=16000):
    raw = io.BytesIO()
    fastavro.writer(raw, plain(schema), rows, codec=codec, sync_interval=sync_interval)
    return with_schema(raw.getvalue(), schema)


def read_column(type_, values):
    fields, table = read_avro(avro(record(column("c", type_)), [{"c": v} for v in values]), file="f")
    return fields[0].type, table.column("c")


def integers(values):
    return values.combine_chunks().view(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()


def test_ids_come_from_every_level():
    schema = record(
        column("a", "int", 1),
        column("l", {"type": "array", "items": "string", "element-id": 4}, 2),
        column("m", {"type": "map", "values": ["null", "long"], "key-id": 5, "value-id": 6}, 3),
        column("s", ["null", record(column("x", "int", 8), name="inner")], 7),
        column("n", "int"),
    )
    rows = [
        {"a": 1, "l": ["p", "q"], "m": {"k": None}, "s": {"x": 9}, "n": 0},
        {"a": 2, "l": [], "m": {}, "s": None, "n": 0},
    ]
    fields, table = read_avro(avro(schema, rows), file="f")
    assert fields == (
        PhysicalField(name="a", id=1, type=IntegerType(32)),
        PhysicalField(
            name="l", id=2, type=STORED_LIST, children=(PhysicalField(name="element", id=4, type=StringType()),)
        ),
        PhysicalField(
            name="m",
            id=3,
            type=STORED_MAP,
            children=(
                PhysicalField(name="key", id=5, type=StringType()),
                PhysicalField(name="value", id=6, type=IntegerType(64)),
            ),
        ),
        PhysicalField(
            name="s", id=7, type=STORED_STRUCT, children=(PhysicalField(name="x", id=8, type=IntegerType(32)),)
        ),
        PhysicalField(name="n", id=None, type=IntegerType(32)),
    )
    assert table.to_pylist() == [
        {"a": 1, "l": ["p", "q"], "m": [("k", None)], "s": {"x": 9}, "n": 0},
        {"a": 2, "l": [], "m": [], "s": None, "n": 0},
    ]


def test_map_as_array_of_records_keeps_null_and_empty_apart():
    pair = record(column("key", "int", 2), column("value", ["null", "string"], 3), name="k2_v3")
    schema = record(column("m", ["null", {"type": "array", "logicalType": "map", "items": pair}], 1))
    rows = [{"m": [{"key": 7, "value": None}, {"key": 8, "value": "x"}]}, {"m": None}, {"m": []}]
    (field,), table = read_avro(avro(schema, rows), file="f")
    assert (field.id, [c.id for c in field.children]) == (1, [2, 3])
    assert table.column("m").to_pylist() == [[(7, None), (8, "x")], None, []]


@pytest.mark.parametrize(
    ("type_", "value", "encoded"),
    [
        (["long"], 5, "000a"),
        (["null"], None, "00"),
        ({"type": "array", "items": ["int"]}, [1, -1], "04000200" + "0100"),
        ([{"type": "array", "items": "int"}], [1], "00020200"),
        ([record(column("x", "int"), name="inner")], {"x": 2}, "0004"),
    ],
)
def test_a_union_of_one_type_has_its_branch_before_each_value(type_, value, encoded):
    schema = record(column("c", type_), column("last", "int"))
    rows = [{"c": value, "last": 7}] * 2
    data = avro(schema, rows)
    assert bytes.fromhex(encoded + "0e") * 2 in data  # 7 is the byte 0e
    assert read_avro(data, file="f")[1].to_pylist() == rows


def test_another_branch_than_the_only_one_is_damage():
    data = avro(record(column("c", ["long"])), [{"c": 5}])
    with pytest.raises(CorruptFileError, match="union branch 1 does not exist"):
        read_avro(data.replace(b"\x02\x04\x00\x0a", b"\x02\x04\x02\x0a"), file="f")


@pytest.mark.parametrize("union", [["null", ["null", "int"]], [["int"]], ["null", {"type": ["int", "null"]}]])
def test_a_union_right_inside_a_union_is_no_schema(union):
    data = with_schema(avro(record(column("c", "int")), [{"c": 1}]), record(column("c", union)))
    with pytest.raises(CorruptFileError, match="a union right inside a union at c"):
        read_avro(data, file="f")


LAST_MICROS_OF_3332 = 42_998_256_000_000_000 - 1


@pytest.mark.parametrize(
    ("schema", "stored", "expected", "expected_type"),
    [
        ({"type": "int", "logicalType": "date"}, [-719162, 2932896 * 3], [-719162, 8798688], DateType()),
        ({"type": "int", "logicalType": "time-millis"}, [86399999], [86399999], TimeType("ms")),
        ({"type": "long", "logicalType": "time-micros"}, [1], [1], TimeType("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, [-1], [-1], TimestampType("ms")),
        (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            [LAST_MICROS_OF_3332, -62135596800000000],
            [LAST_MICROS_OF_3332, -62135596800000000],
            TimestampType("us", True),
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
            [5],
            [5],
            TimestampType("us"),
        ),
        ({"type": "long", "logicalType": "timestamp-nanos"}, [7], [7], TimestampType("ns")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, [7], [7], TimestampType("us")),
    ],
    ids=["date", "time-ms", "time-us", "ts-ms", "tz-us", "ts-us", "ts-ns", "local"],
)
def test_dates_and_times_keep_their_numbers(schema, stored, expected, expected_type):
    type_, values = read_column(schema, stored)
    assert (type_, integers(values)) == (expected_type, expected)


@pytest.mark.parametrize(
    ("schema", "stored", "expected", "expected_type"),
    [
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            [b"\x00\xff", b"\xff", None, b"\x00" * 20 + b"\x01"],
            [Decimal("2.55"), Decimal("-0.01"), None, Decimal("0.01")],
            DecimalType(9, 2),
        ),
        (
            {"type": "fixed", "size": 17, "name": "d", "logicalType": "decimal", "precision": 38, "scale": 0},
            [(10**38 - 1).to_bytes(17, "big"), None],
            [Decimal(10**38 - 1), None],
            DecimalType(38, 0),
        ),
        ({"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}, [bytes(16)], [UUID(int=0)], UuidType()),
        ({"type": "string", "logicalType": "uuid"}, ["a" * 36], ["a" * 36], StringType()),
        ({"type": "fixed", "size": 2, "name": "x"}, [b"ab", None], [b"ab", None], FixedType(2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, [b"\x01"], [b"\x01"], BinaryType()),
        ({"type": "int", "logicalType": "made-up"}, [4], [4], IntegerType(32)),
    ],
    ids=["decimal-bytes", "decimal-fixed", "uuid", "uuid-text", "fixed", "decimal-too-wide", "unknown-logical"],
)
def test_other_types(schema, stored, expected, expected_type):
    type_, values = read_column(["null", schema], stored)
    assert (type_, values.to_pylist()) == (expected_type, expected)


def test_named_types_are_found_through_their_namespace():
    inner = record(column("x", "int"), name="in")
    schema = {**record(column("a", inner), column("b", "in"), column("c", "n.s.in")), "namespace": "n.s"}
    _, table = read_avro(avro(schema, [{"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}]), file="f")
    assert table.to_pylist() == [{"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}]


def test_names_that_avro_forbids():
    data = avro(record(column("a", "int", 1)), [{"a": 1}])
    _, table = read_avro(with_schema(data, record(column("a b.é", "int", 1), name="1 2")), file="f")
    assert table.to_pylist() == [{"a b.é": 1}]


def three_blocks():
    return avro(record(column("a", "long", 1)), [{"a": i} for i in range(300)], sync_interval=200)


@pytest.mark.parametrize("kept", [0, 3, 20, -1, -16, -17, -100], ids=str)
def test_cut_files_are_refused(kept):
    with pytest.raises(CorruptFileError):
        read_avro(three_blocks()[:kept], file="f")


def test_every_cut_is_refused_except_between_blocks():
    data = three_blocks()
    sync = data[-16:]
    for length in range(len(data)):
        if data[:length].endswith(sync):
            continue
        with pytest.raises(CorruptFileError):
            read_avro(data[:length], file="f")


def test_damaged_compressed_block_is_refused():
    data = bytearray(avro(record(column("a", "string", 1)), [{"a": "x" * 500}], "deflate"))
    data[-20] ^= 0xFF
    data[-24] ^= 0xFF
    with pytest.raises(CorruptFileError):
        read_avro(bytes(data), file="f")


def test_text_that_is_no_utf8_is_refused():
    data = avro(record(column("a", "bytes", 1)), [{"a": b"\xff\xfe"}])
    with pytest.raises(CorruptFileError):
        read_avro(with_schema(data, record(column("a", "string", 1))), file="f")


def test_decimal_with_too_many_digits_is_refused():
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
    with pytest.raises(CorruptFileError, match="more digits than decimal"):
        read_column(schema, [b"\x64"])


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        (record(column("a", ["int", "string"])), {"a": 1}),
        (record(column("a", ["null", "int", "string"])), {"a": 1}),
        (record(column("a", ["null", "r"]), name="r"), {"a": None}),
    ],
    ids=["two-types", "three-branches", "recursive"],
)
def test_unsupported_schemas_are_refused(schema, row):
    with pytest.raises(UnsupportedError) as caught:
        read_avro(avro(schema, [row]), file="data.avro")
    assert (caught.value.cause, caught.value.file, caught.value.rule) == ("UnsupportedType", "data.avro", "iceberg 7.3")


def test_union_message():
    with pytest.raises(UnsupportedError) as caught:
        read_avro(avro(record(column("a", ["int", "string"])), [{"a": 1}]), file="data.avro")
    assert str(caught.value) == (
        "Cannot read Avro file: column a is a union of 2 types, expected null and one other; rewrite it "
        "[UnsupportedType; file data.avro, rule iceberg 7.3]"
    )


def test_root_that_is_no_record_is_refused():
    raw = io.BytesIO()
    fastavro.writer(raw, "long", [1])
    with pytest.raises(UnsupportedError, match="root is not a record"):
        read_avro(raw.getvalue(), file="f")


def test_unknown_codec_is_refused():
    data = avro(record(column("a", "int")), [{"a": 1}])
    with pytest.raises(UnsupportedError) as caught:
        read_avro(data.replace(b"\x08null", b"\x08lz4x", 1), file="f")
    assert str(caught.value) == (
        "Cannot read Avro codec 'lz4x': expected one of bzip2, deflate, null, snappy, xz, zstandard; rewrite the file "
        "[UnsupportedCodec; file f, rule iceberg 2.14]"
    )


def test_encrypted_file_is_refused():
    with pytest.raises(EncryptedTableError):
        read_avro(b"AGS1" + bytes(40), file="f")
