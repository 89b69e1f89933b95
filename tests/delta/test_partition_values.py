import math
import struct
from decimal import Decimal

import pytest

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.delta.partition_values import parse_partition_value
from harness.metadata.model import schema as dt

BYTE, SHORT, INT, LONG = (dt.IntegerType(bits) for bits in (8, 16, 32, 64))
FLOAT, DOUBLE = dt.FloatType(32), dt.FloatType(64)
STRING, BINARY, BOOLEAN, DATE = dt.StringType(), dt.BinaryType(), dt.BooleanType(), dt.DateType()
INSTANT, WALL = dt.TimestampType(utc=True), dt.TimestampType()
MONEY = dt.DecimalType(10, 2)

DAY_US = 86_400_000_000
D2024 = 19_723  # 2024-01-01


def us(days, hour=0, minute=0, second=0, micros=0):
    return days * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros


def same(left, right):
    """Return whether values are equal, with -0.0 and 0.0, bool and int, and decimals of different scales distinct."""
    if isinstance(right, float):
        return isinstance(left, float) and struct.pack(">d", left) == struct.pack(">d", right)
    return left == right and type(left) is type(right) and repr(left) == repr(right)


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("-128", BYTE, -128),
        ("+7", SHORT, 7),
        ("007", INT, 7),
        ("-0", INT, 0),
        ("FALSE", BOOLEAN, False),
        ("-0.0", DOUBLE, -0.0),
        ("4.9E-324", DOUBLE, 5e-324),
        ("Infinity", FLOAT, math.inf),
        ("inf", DOUBLE, math.inf),
        ("3.4", FLOAT, 3.4000000953674316),
        ("1.4E-45", FLOAT, 1.401298464324817e-45),
        ("234.00000", MONEY, Decimal("234.00")),
        ("1E+3", MONEY, Decimal("1000.00")),
        ("-.5", MONEY, Decimal("-0.50")),
        ("-0.000", MONEY, Decimal("0.00")),
        ("0E-9999", MONEY, Decimal("0.00")),
        ("1" * 38, dt.DecimalType(38, 0), Decimal("1" * 38)),
        (
            "12345678901234567890.123456789012345678",
            dt.DecimalType(38, 18),
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("2024-2-9", DATE, D2024 + 39),
        ("0001-01-01", DATE, -719162),
        ("0000-02-29", DATE, -719469),
        ("-0001-12-31", DATE, -719529),
        ("+10000-01-01", DATE, 2932897),
        ("1582-10-10", DATE, -141432),
        ("2024-01-01 10:20:30.5", INSTANT, us(D2024, 10, 20, 30, 500_000)),
        ("2024-01-01 10:20:30.123456000", INSTANT, us(D2024, 10, 20, 30, 123_456)),
        ("1969-12-31 23:59:59.999999", INSTANT, -1),
        ("2024-01-01T10:20:30Z", INSTANT, us(D2024, 10, 20, 30)),
        ("2024-01-01T10:20Z", INSTANT, us(D2024, 10, 20)),
        ("2024-01-01T00:20:30+02:00", INSTANT, us(D2024 - 1, 22, 20, 30)),
        ("2024-01-01T10:20:30-0830", INSTANT, us(D2024, 18, 50, 30)),
        ("1850-01-01T00:00:00-00:52:58", INSTANT, us(-43829, 0, 52, 58)),
        ("2024-01-01T10:20:30.000001", WALL, us(D2024, 10, 20, 30, 1)),
        ("2024-01-01T10:20:30Z", WALL, us(D2024, 10, 20, 30)),
        ("2024-01-01", WALL, us(D2024)),
        ("\u0001\u0002\u00ff", BINARY, b"\x01\x02\xc3\xbf"),
        ("x", dt.UnknownType(), None),
    ],
)
def test_text_becomes_the_typed_value(text, type_, expected):
    assert same(parse_partition_value(text, type_), expected)


NO_VALUES = [
    (BYTE, ["128"]),
    (SHORT, ["-32769"]),
    (INT, ["2147483648", " 12 ", "1.5", "1.0", "1_000", "٣", "--1", "0x1"]),
    (LONG, ["9223372036854775808"]),
    (BOOLEAN, ["yes", "1"]),
    (DOUBLE, ["one", "1_0", "1.0f", "1e400", "--inf"]),
    (FLOAT, ["1e39"]),
    (MONEY, ["0.005", "100000000", "1E+9999", "1E-9999", "NaN", "1,5"]),
    (DATE, ["2024-13-01", "2023-02-29", "2024-01-00", "20240101", "2024-01-01 00:00:00", "9999999-01-01"]),
    (
        INSTANT,
        [
            "2024-01-01 24:00:00",
            "2024-01-01 10:60:00",
            "2024-01-01 10:20:60",
            "2024-01-01 10:20:30.1234567",
            "2024-01-01T10:20:30+19:00",
            "2024-01-01T10:20:30 Europe/Berlin",
            "2024-01-01 10",
            "yesterday",
            "400000-01-01 00:00:00",
        ],
    ),
    (WALL, ["2024-01-01T10:20:30+00:00", "2024-01-01T10:20:30+02:00"]),
]


@pytest.mark.parametrize(("text", "type_"), [(text, type_) for type_, found in NO_VALUES for text in found])
def test_invalid_partition_values_are_refused(text, type_):
    with pytest.raises(InvalidTableError) as error:
        parse_partition_value(text, type_, column="c")
    assert (error.value.cause, error.value.field) == ("PartitionValueError", "c")


@pytest.mark.parametrize(
    "type_",
    [
        dt.VariantType(),
        dt.OpaqueType("interval"),
        dt.StructType(()),
        dt.ListType(dt.Field(id=1, name="element", type=INT)),
    ],
    ids=str,
)
def test_types_that_no_partition_column_has_are_refused(type_):
    with pytest.raises(UnsupportedError) as error:
        parse_partition_value("x", type_, column="c")
    assert (error.value.cause, error.value.field) == ("UnsupportedType", "c")
