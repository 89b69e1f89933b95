"""Bounds, partition values and partition equality (iceberg 2.18, 3.21-3.24, 4.1)."""

from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal

import pytest

from harness.metadata.iceberg.values import decode_bound, partition_key, partition_value
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    IntegerType,
    ListType,
    OpaqueType,
    StringType,
    TimestampType,
    TimeType,
    UuidType,
    VariantType,
)

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (BooleanType(), b"\x01", True),
        (BooleanType(), b"\x00", False),
        (BooleanType(), b"\x02", None),
        (BooleanType(), b"", None),
        (IntegerType(32), b"\xfe\xff\xff\xff", -2),
        (IntegerType(32), b"\xfe\xff\xff\xff\xff\xff\xff\xff", None),
        (IntegerType(64), b"\x01\x00\x00\x00\x00\x00\x00\x80", -(2**63) + 1),
        (IntegerType(64), b"\xfe\xff\xff\xff", -2),  # written as int
        (IntegerType(64), b"\xfe\xff\xff", None),
        (DateType(), b"\xff\xff\xff\xff", -1),
        (DateType(), b"\xff" * 8, None),
        (TimeType(), b"\x01" + b"\x00" * 7, 1),
        (TimestampType("us"), b"\xff" * 8, -1),
        (TimestampType("us"), b"\xff" * 4, -86_400_000_000),  # written as date
        (TimestampType("ns"), b"\x01\x00\x00\x00", 86_400_000_000_000),
        (TimestampType("us"), b"\xff" * 6, None),
        (FloatType(32), struct.pack("<f", 1.5), 1.5),
        (FloatType(32), struct.pack("<d", 1.5), None),
        (FloatType(64), struct.pack("<d", -0.25), -0.25),
        (FloatType(64), struct.pack("<f", 1.5), 1.5),  # written as float
        (FloatType(64), struct.pack("<d", math.nan), None),
        (FloatType(32), struct.pack("<f", math.nan), None),
        (DecimalType(9, 2), b"\x05\x8c", Decimal("14.20")),
        (DecimalType(9, 2), b"\x00\x00\x00\x00\x00\x05\x8c", Decimal("14.20")),
        (DecimalType(9, 2), b"\xff", Decimal("-0.01")),
        (DecimalType(9, 2), b"", None),
        (StringType(), "😀".encode(), "😀"),
        (StringType(), b"", ""),
        (StringType(), "😀".encode()[:2], None),
        (UuidType(), UUID.bytes, UUID.bytes),
        (UuidType(), UUID.bytes[:15], None),
        (FixedType(4), b"ab", b"ab"),  # cut
        (FixedType(4), b"abcde", None),
        (BinaryType(), b"\xff", b"\xff"),
        (VariantType(), b"\x01", None),
        (GeographyType(), b"\x00" * 16, None),
    ],
    ids=str,
)
def test_decode_bound(type_, data, expected):
    decoded = decode_bound(type_, data)
    assert (decoded, type(decoded)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("type_", "kind", "value", "expected"),
    [
        (IntegerType(64), "int", 5, 5),
        (DateType(), "int", 5, 5),
        (DateType(), "date", 5, 5),
        (DecimalType(9, 2), "bytes", b"\x05\x8c", Decimal("14.20")),
        (DecimalType(38, 0), "decimal", b"\x00" * 15 + b"\x80", Decimal(128)),
        (UuidType(), "fixed", UUID.bytes, UUID.bytes),
        (UuidType(), "string", str(UUID), UUID.bytes),
        (FixedType(2), "fixed", b"ab", b"ab"),
        (BinaryType(), "bytes", b"", b""),
        (StringType(), "string", "x", "x"),
        (StringType(), "bytes", b"x", "x"),
        (FloatType(64), "float", 1.5, 1.5),
        (BooleanType(), "boolean", False, False),
        (TimestampType("us"), "long", -1, -1),
        (TimestampType("us"), "timestamp-micros", -1, -1),
        (TimestampType("us"), "timestamp-millis", -1, -1000),
        (TimestampType("ns"), "timestamp-nanos", -1, -1),
        (TimestampType("ns"), "timestamp-micros", -1, -1000),
        (TimestampType("us"), "local-timestamp-nanos", -1, -1),
        (TimestampType("us"), "date", -1, -86_400_000_000),
        (TimeType(), "time-millis", 2, 2000),
        (OpaqueType("x"), "string", "anything", "anything"),
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
        (IntegerType(64), "5"),
        (IntegerType(64), True),
        (DecimalType(9, 2), b""),
        (DecimalType(9, 2), 5),
        (UuidType(), b"short"),
        (UuidType(), "no uuid"),
        (FixedType(2), b"abc"),
        (StringType(), 5),
        (StringType(), b"\xff"),
        (BooleanType(), 1),
        (FloatType(64), "x"),
    ],
    ids=str,
)
def test_partition_value_refuses(type_, value):
    with pytest.raises(ValueError):  # noqa: PT011 (texts come from several libraries; the manifest's error names the field)
        partition_value(type_, "any")(value)


LONG, DOUBLE, STRING = IntegerType(64), FloatType(64), StringType()


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
        (DecimalType(9, 2), Decimal("1.0"), Decimal("1.00"), True),
        (STRING, "a", "A", False),
        (OpaqueType("x"), 1, True, False),
        (OpaqueType("x"), [1, None], [1, None], True),
        (OpaqueType("x"), [0.0], [-0.0], False),
        (OpaqueType("x"), {"a": 1}, {"a": 1}, True),
        (ListType, bytearray(b"x"), bytearray(b"x"), True),
    ],
    ids=str,
)
def test_partition_key_is_the_formats_equality(type_, left, right, equal):
    keys = [partition_key(1, {1000: value}, {1000: type_}) for value in (left, right)]
    assert (keys[0] == keys[1]) is equal
    assert (len(set(keys)) == 1) is equal
