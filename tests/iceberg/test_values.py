"""Bounds, partition values, and equality of partitions (iceberg 2.18, 3.21-3.24, 4.1)."""

import math
import struct
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from harness.metadata.iceberg.skipping import decode_bounds
from harness.metadata.iceberg.values import decode_bound, partition_key, partition_value
from harness.metadata.model import schema as dt

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (dt.BooleanType(), b"\x02", None),
        (dt.BooleanType(), b"", None),
        (dt.IntegerType(32), b"\xfe\xff\xff\xff\xff\xff\xff\xff", None),
        (dt.IntegerType(64), b"\x01\x00\x00\x00\x00\x00\x00\x80", -(2**63) + 1),
        (dt.IntegerType(64), b"\xfe\xff\xff\xff", -2),  # written as int
        (dt.IntegerType(64), b"\xfe\xff\xff", None),
        (dt.DateType(), b"\xff" * 8, None),
        (dt.TimestampType("us"), b"\xff" * 4, -86_400_000_000),  # written as date
        (dt.TimestampType("us"), b"\xff\xff\xff\x7f", (2**31 - 1) * 86_400_000_000),
        (dt.TimestampType("ns"), b"\x01\x00\x00\x00", 86_400_000_000_000),
        (dt.TimestampType("us"), b"\xff" * 6, None),
        (dt.FloatType(32), struct.pack("<d", 1.5), None),
        (dt.FloatType(64), struct.pack("<f", 1.5), 1.5),  # written as float
        (dt.FloatType(64), struct.pack("<d", math.nan), None),
        (dt.FloatType(32), struct.pack("<f", math.nan), None),
        (dt.DecimalType(9, 2), b"\x00\x00\x00\x00\x00\x05\x8c", Decimal("14.20")),
        (dt.DecimalType(9, 2), b"\xff", Decimal("-0.01")),
        (dt.DecimalType(9, 2), b"", None),
        (dt.StringType(), b"", ""),
        (dt.StringType(), "😀".encode()[:2], None),
        (dt.UuidType(), UUID.bytes[:15], None),
        (dt.FixedType(4), b"ab", b"ab"),  # truncated
        (dt.FixedType(4), b"abcde", None),
        (dt.VariantType(), b"\x01", None),
        (dt.GeographyType(), b"\x00" * 16, None),
    ],
    ids=str,
)
def test_decode_bound(type_, data, expected):
    decoded = decode_bound(type_, data)
    assert (decoded, type(decoded)) == (expected, type(expected))
    # As an array, the bound is null if the number exceeds 64 bits.
    is_long = isinstance(expected, int) and expected >= 2**63
    assert decode_bounds(pa.array([data, None], pa.binary()), type_).to_pylist() == [
        None if is_long else expected,
        None,
    ]


@pytest.mark.parametrize(
    ("type_", "kind", "value", "expected"),
    [
        (dt.DateType(), "int", 5, 5),
        (dt.DecimalType(9, 2), "bytes", b"\x05\x8c", Decimal("14.20")),
        (dt.DecimalType(38, 0), "decimal", b"\x00" * 15 + b"\x80", Decimal(128)),
        (dt.UuidType(), "string", str(UUID), UUID.bytes),
        (dt.StringType(), "bytes", b"x", "x"),
        (dt.TimestampType("us"), "timestamp-millis", -1, -1000),
        (dt.TimestampType("ns"), "timestamp-micros", -1, -1000),
        (dt.TimestampType("us"), "local-timestamp-nanos", -1, -1),
        (dt.TimestampType("us"), "date", -1, -86_400_000_000),
        (dt.TimeType(), "time-millis", 2, 2000),
        (dt.OpaqueType("x"), "string", "anything", "anything"),
    ],
    ids=str,
)
def test_partition_value(type_, kind, value, expected):
    convert = partition_value(type_, kind)
    assert convert(value) == expected
    assert convert(None) is None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (dt.IntegerType(64), "5"),
        (dt.IntegerType(64), True),
        (dt.DecimalType(9, 2), b""),
        (dt.DecimalType(9, 2), 5),
        (dt.UuidType(), b"short"),
        (dt.UuidType(), "no uuid"),
        (dt.FixedType(2), b"abc"),
        (dt.StringType(), 5),
        (dt.StringType(), b"\xff"),
        (dt.BooleanType(), 1),
        (dt.FloatType(64), "x"),
    ],
    ids=str,
)
def test_partition_value_refuses(type_, value):
    with pytest.raises(ValueError):  # noqa: PT011 (texts come from several libraries; the manifest's error names the field)
        partition_value(type_, "any")(value)


LONG, DOUBLE, STRING = dt.IntegerType(64), dt.FloatType(64), dt.StringType()


@pytest.mark.parametrize(
    ("type_", "left", "right", "equal"),
    [
        (LONG, 1, 1, True),
        (LONG, 1, 2, False),
        (LONG, None, None, True),
        (LONG, None, 0, False),
        (DOUBLE, math.nan, -math.nan, True),
        (DOUBLE, math.nan, struct.unpack("<d", b"\x01" + b"\x00" * 5 + b"\xf8\x7f")[0], True),
        (DOUBLE, 0.0, -0.0, False),
        (DOUBLE, 0.0, 0.0, True),
        (DOUBLE, None, math.nan, False),
        (dt.DecimalType(9, 2), Decimal("1.0"), Decimal("1.00"), True),
        (STRING, "a", "A", False),
        (dt.OpaqueType("x"), 1, True, False),
        (dt.OpaqueType("x"), [1, None], [1, None], True),
        (dt.OpaqueType("x"), [0.0], [-0.0], False),
        (dt.OpaqueType("x"), {"a": 1}, {"a": 1}, True),
        (dt.ListType, bytearray(b"x"), bytearray(b"x"), True),
    ],
    ids=str,
)
def test_partition_key_is_the_formats_equality(type_, left, right, equal):
    keys = [partition_key(1, {1000: value}, {1000: type_}) for value in (left, right)]
    assert (keys[0] == keys[1]) is equal
    assert (len(set(keys)) == 1) is equal
