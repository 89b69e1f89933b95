"""Avro data files: ids, unions, logical types, codecs, and damage. Expectations are from the Avro specification."""

import io
from decimal import Decimal
from uuid import UUID

import bombs
import fastavro
import pyarrow as pa
import pytest

from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.files.avro import read_avro
from harness.metadata.model import schema as dt


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": list(fields)}


def column(name, type_):
    return {"name": name, "type": type_}


def plain(schema):
    """The schema without logical types, so that the writer accepts raw values."""
    if isinstance(schema, list):
        return [plain(s) for s in schema]
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def avro(schema, rows):
    """A container that declares logical types, with values written as the underlying types."""
    block, bare = io.BytesIO(), fastavro.parse_schema(plain(schema))
    for row in rows:
        fastavro.schemaless_writer(block, bare, row)
    return bombs.avro(schema, len(rows), block.getvalue())


def read_column(type_, values):
    fields, table = read_avro(avro(record(column("c", type_)), [{"c": v} for v in values]), file="f")
    return fields[0].type, table.column("c")


def integers(values):
    return values.combine_chunks().view(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()


LAST_MICROS_OF_3332 = 42_998_256_000_000_000 - 1


@pytest.mark.parametrize(
    ("schema", "stored", "expected", "expected_type"),
    [
        ({"type": "int", "logicalType": "date"}, [-719162, 2932896 * 3], [-719162, 8798688], dt.DateType()),
        ({"type": "int", "logicalType": "time-millis"}, [86399999], [86399999], dt.TimeType("ms")),
        ({"type": "long", "logicalType": "time-micros"}, [1], [1], dt.TimeType("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, [-1], [-1], dt.TimestampType("ms")),
        (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            [LAST_MICROS_OF_3332, -62135596800000000],
            [LAST_MICROS_OF_3332, -62135596800000000],
            dt.TimestampType("us", True),
        ),
        ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}, [5], [5], dt.TimestampType("us")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, [7], [7], dt.TimestampType("ns")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, [7], [7], dt.TimestampType("us")),
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
            dt.DecimalType(9, 2),
        ),
        (
            {"type": "fixed", "size": 17, "name": "d", "logicalType": "decimal", "precision": 38, "scale": 0},
            [(10**38 - 1).to_bytes(17, "big"), None],
            [Decimal(10**38 - 1), None],
            dt.DecimalType(38, 0),
        ),
        ({"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}, [bytes(16)], [UUID(int=0)], dt.UuidType()),
        ({"type": "string", "logicalType": "uuid"}, ["a" * 36], ["a" * 36], dt.StringType()),
        ({"type": "fixed", "size": 2, "name": "x"}, [b"ab", None], [b"ab", None], dt.FixedType(2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, [b"\x01"], [b"\x01"], dt.BinaryType()),
        ({"type": "int", "logicalType": "made-up"}, [4], [4], dt.IntegerType(32)),
    ],
    ids=["decimal-bytes", "decimal-fixed", "uuid", "uuid-text", "fixed", "decimal-too-wide", "unknown-logical"],
)
def test_other_types(schema, stored, expected, expected_type):
    type_, values = read_column(["null", schema], stored)
    assert (type_, values.to_pylist()) == (expected_type, expected)


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


def test_a_root_that_is_not_a_record_is_refused():
    raw = io.BytesIO()
    fastavro.writer(raw, "long", [1])
    with pytest.raises(UnsupportedError, match="root is not a record"):
        read_avro(raw.getvalue(), file="f")
