"""Which stored types a table type may be read from: a table for Iceberg (5.12, section 6), and one for Delta (T16-T25).

Only single values; structs, lists and maps are taken apart by `harness.plan.projection`.
"""

from __future__ import annotations

from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    Int96Type,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UnsignedType,
    UuidType,
    VariantType,
)

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits before the point that a decimal needs for all integers of so many bits.

The Delta protocol asks for 10 from 32 bits down (delta T22); Delta on Spark records less, and every value fits.
"""


def readable(stored: Type, wanted: Type) -> bool:
    """Whether every stored value has one exact meaning as the table type `wanted`.

    An instant flag in the file never matters, the table's type decides (iceberg 6.8). Some pairs can still fail on a
    value: a date or micros out of the range of nanos (5.12, 6.10), text that is no UUID (6.12), bytes that are no UTF-8
    (6.11). Nested types and variants are never readable here.
    """
    match wanted:
        case BooleanType() | FixedType():
            return stored == wanted
        case IntegerType(bits=bits):
            return _as_integer(stored, bits)
        case FloatType(bits=bits):
            return isinstance(stored, FloatType) and 32 <= stored.bits <= bits
        case DecimalType(precision=precision, scale=scale):
            return isinstance(stored, DecimalType) and stored.scale == scale and stored.precision <= precision
        case DateType():
            return stored in (DateType(), IntegerType(32))
        case TimeType():
            return isinstance(stored, TimeType) and stored.unit in ("ms", "us")
        case TimestampType():
            return _as_timestamp(stored, wanted)
        case StringType():
            return isinstance(stored, StringType | BinaryType)
        case UuidType():
            return isinstance(stored, UuidType | StringType) or stored == FixedType(16)
        case BinaryType():
            return isinstance(stored, BinaryType)
        case GeometryType() | GeographyType():
            return isinstance(stored, BinaryType | GeometryType | GeographyType)
        case UnknownType():
            return True
        case VariantType() | OpaqueType() | UnsignedType() | Int96Type() | StructType() | ListType() | MapType():
            return False


def _as_integer(stored: Type, bits: int) -> bool:
    match stored:
        case IntegerType(bits=width):
            return width <= bits
        case UnsignedType(bits=width):
            return width < bits
        case _:
            return False


def _as_timestamp(stored: Type, wanted: TimestampType) -> bool:
    match stored:
        case TimestampType():
            return True
        case Int96Type():
            # Engines read it in micros, so nanos would be lost without a word.
            return wanted.unit == "us"
        case DateType():
            return not wanted.utc
        case _:
            return False


def readable_in_delta(stored: Type, wanted: Type) -> bool:
    """Whether a file's values of type `stored` may be read as the Delta table's type `wanted` (delta T16, T18, T22).

    A stored type may be wider than the table's where only its values, not their meaning, can fail to fit: integers of
    up to 32 bits (files have no narrower ones), and decimals of the same scale. Some pairs can fail on a value, then:
    such an integer or decimal out of range, bytes that are no UTF-8. Nested types and variants are never readable here.
    """
    match wanted, stored:
        case IntegerType(bits=bits), IntegerType(bits=width):
            return width <= max(bits, 32)
        case IntegerType(bits=bits), UnsignedType(bits=width):
            return width < bits
        case DecimalType(scale=scale), DecimalType(scale=stored_scale):
            return scale == stored_scale or widens(stored, wanted)
        case TimestampType(unit="us"), TimestampType(unit=unit):
            # The flag in the file never matters; nanos would lose digits.
            return unit != "ns"
        case TimestampType(unit="us"), Int96Type():
            return True
        case StringType(), BinaryType():
            return True
        case BinaryType(), StringType() | FixedType():
            return True
        case UnknownType(), _:
            return True
        case BooleanType() | FloatType() | DateType() | StringType() | BinaryType(), _ if stored == wanted:
            return True
        case _:
            return widens(stored, wanted)


def widens(before: Type, after: Type) -> bool:
    """Whether a column of type `before` may become one of type `after` in a Delta table, whose old files stay (T22)."""
    match before, after:
        case IntegerType(bits=old), IntegerType(bits=new):
            return old < new
        case FloatType(bits=32), FloatType(bits=64):
            return True
        case IntegerType(bits=old), FloatType(bits=64):
            return old <= 32
        case IntegerType(bits=old), DecimalType(precision=precision, scale=scale):
            return precision - scale >= _DIGITS[old]
        case DecimalType(precision=p, scale=s), DecimalType(precision=precision, scale=scale):
            return before != after and scale >= s and precision - scale >= p - s
        case DateType(), TimestampType(unit="us", utc=False):
            return True
        case _:
            return False
