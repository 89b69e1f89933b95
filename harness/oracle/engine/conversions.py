"""Single stored values as values of the table's type: which pairs of types have an exact meaning, and what it is.

Spec: Iceberg, "Schema Evolution" and "Appendix A" (iceberg section 6); Delta, "Type Widening" (T16 to T24).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, TypeAlias

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
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnsignedType,
    UuidType,
)
from harness.oracle.engine.wkb import canonical

Conversion: TypeAlias = Callable[[Any], Any]
"""From a stored value that is not null to the table's; raises ValueError for one that does not fit."""

_DAY_MICROS = 86_400_000_000
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # before the point, for all integers of so many bits
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])


def iceberg_conversion(stored: Type, wanted: Type) -> Conversion | None:
    """How an Iceberg table reads a stored type (iceberg 5.12, 6.1 to 6.13); None: it cannot."""
    match wanted, stored:
        case IntegerType(bits=bits), IntegerType(bits=width) if width <= bits:
            return _same
        case IntegerType(bits=bits), UnsignedType(bits=width) if width < bits:
            return _same
        case FloatType(bits=bits), FloatType(bits=width) if 32 <= width <= bits:
            return _same
        case DecimalType(), DecimalType() if stored.scale == wanted.scale and stored.precision <= wanted.precision:
            return lambda value: _decimal(value, wanted)
        case DateType(), IntegerType(bits=32):
            return _same
        case TimeType(unit="us"), TimeType(unit="ms"):
            return lambda value: value * 1000
        case TimestampType(unit="us"), Int96Type():
            return _same
        case TimestampType(), TimestampType():
            return lambda value: _timestamp(value, stored.unit, wanted.unit)
        case TimestampType(utc=False), DateType():
            return lambda value: _timestamp(value * _DAY_MICROS, "us", wanted.unit)
        case StringType(), StringType() | BinaryType():
            return _text
        case UuidType(), UuidType() | FixedType(length=16):
            return _same
        case UuidType(), StringType():
            return _uuid
        case GeometryType() | GeographyType(), BinaryType() | GeometryType() | GeographyType():
            return canonical
        case ((BooleanType() | FixedType() | DateType() | TimeType() | BinaryType()), _) if stored == wanted:
            return _same
        case _:
            return None


def delta_conversion(stored: Type, wanted: Type) -> Conversion | None:
    """How a Delta table reads a stored type (delta T16, T18, T22 to T24); None: it cannot."""
    match wanted, stored:
        case IntegerType(bits=bits), IntegerType(bits=width) if width <= max(bits, 32):
            return lambda value: _integer(value, bits)
        case IntegerType(bits=bits), UnsignedType(bits=width) if width < bits:
            return _same
        case DecimalType(), DecimalType() if stored.scale == wanted.scale or _holds(wanted, stored):
            return lambda value: _decimal(value, wanted)
        case DecimalType(), IntegerType(bits=width) if wanted.precision - wanted.scale >= _DIGITS[width]:
            return lambda value: _decimal(Decimal(value), wanted)
        case FloatType(bits=64), IntegerType(bits=width) if width <= 32:
            return float
        case FloatType(bits=64), FloatType(bits=32):
            return _same
        case TimestampType(unit="us"), TimestampType(unit="ms" | "us"):
            return lambda value: _timestamp(value, stored.unit, "us")
        case TimestampType(unit="us"), Int96Type():
            return _same
        case TimestampType(unit="us", utc=False), DateType():
            return lambda value: _timestamp(value * _DAY_MICROS, "us", "us")
        case StringType(), StringType() | BinaryType():
            return _text
        case BinaryType(), BinaryType() | StringType() | FixedType():
            return _same
        case ((BooleanType() | FloatType() | DateType()), _) if stored == wanted:
            return _same
        case _:
            return None


def single(value: float) -> float:
    """The nearest 32-bit float; an infinity beyond their range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _same(value: Any) -> Any:
    return value


def _holds(wanted: DecimalType, stored: DecimalType) -> bool:
    more = wanted.scale - stored.scale
    return more >= 0 and wanted.precision - stored.precision >= more


def _integer(value: int, bits: int) -> int:
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"{value} does not fit {bits} bits")
    return value


def _decimal(value: Decimal, wanted: DecimalType) -> Decimal:
    scaled = value.quantize(Decimal((0, (1,), -wanted.scale)), context=_EXACT)
    if scaled.adjusted() >= wanted.precision - wanted.scale and scaled != 0:
        raise ValueError(f"{value} does not fit {wanted}")
    return scaled


def _timestamp(value: int, unit: str, wanted: str) -> int:
    """Ticks of another unit: finer ones exactly, coarser ones rounded down, also before 1970 (iceberg 6.8)."""
    ticks = value * _PER_SECOND[wanted] // _PER_SECOND[unit]
    if not -(2**63) <= ticks < 2**63:
        raise ValueError(f"{value} {unit} since 1970 is out of the range of {wanted}")
    return ticks


def _text(value: bytes) -> str:
    return value.decode()


def _uuid(value: bytes) -> bytes:
    text = value.decode()
    if len(text) != 36:
        raise ValueError(f"{text!r} is no UUID")
    return uuid.UUID(text).bytes
