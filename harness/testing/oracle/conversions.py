"""Conversions of single stored values to the table's type: the pairs of types with an exact meaning.

Spec: Iceberg, "Schema Evolution" and "Appendix A" (iceberg section 6); Delta, "Type Widening" (T16 to T24).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from harness.errors import CorruptFileError
from harness.testing.oracle import types as dt
from harness.testing.oracle.documents import Source
from harness.testing.oracle.texts import DAY_SECONDS, UNITS, to_decimal, within_bits


def canonical(data: bytes) -> bytes:
    """The geometry in that form. Raises CorruptFileError for bytes that are none (frontier F1.7)."""
    source = Source(data)
    try:
        geometry, _ = _geometry(source)
        source.end()
    except ValueError as error:
        raise CorruptFileError(
            f"Cannot read a geometry: {error}; restore the file", cause="CorruptDataFile", rule="frontier F1.7"
        ) from error
    return geometry


def _geometry(source: Source) -> tuple[bytes, int]:
    """A geometry, and the ISO code of its type."""
    order = {b"\0": "big", b"\1": "little"}.get(source.take(1))
    if order is None:
        raise ValueError("it begins with no byte order")
    code = source.number(4, order)
    flags, code = code >> 28, code & 0x1FFFFFFF
    if flags & 2:
        source.number(4, order)  # the SRID
    kind, dimensions = code % 1000, code // 1000
    if kind not in range(1, 8) or dimensions not in range(4):
        raise ValueError(f"{code} is no type of geometry")
    has_z, has_m = dimensions in (1, 3) or flags & 8, dimensions in (2, 3) or flags & 4
    iso = kind + (1000 if has_z else 0) + (2000 if has_m else 0)
    head = struct.pack("<BI", 1, iso)
    width = 2 + bool(has_z) + bool(has_m)
    match kind:
        case 1:
            return head + _doubles(source, order, width), iso
        case 2:
            return head + _points(source, order, width), iso
        case 3:
            rings = [_points(source, order, width) for _ in range(source.number(4, order))]
            return head + struct.pack("<I", len(rings)) + b"".join(rings), iso
        case _:
            parts = [_geometry(source) for _ in range(source.number(4, order))]
            for _, part in parts:
                if part // 1000 != iso // 1000 or (kind != 7 and part % 1000 != kind - 3):
                    raise ValueError(f"a geometry of type {part} is part of one of type {iso}")
            return head + struct.pack("<I", len(parts)) + b"".join(data for data, _ in parts), iso


def _points(source: Source, order: str, width: int) -> bytes:
    count = source.number(4, order)
    return struct.pack("<I", count) + _doubles(source, order, count * width)


def _doubles(source: Source, order: str, count: int) -> bytes:
    data = source.take(8 * count)
    numbers = [data[i : i + 8] for i in range(0, len(data), 8)]
    return b"".join(number if order == "little" else number[::-1] for number in numbers)


Conversion: TypeAlias = Callable[[Any], Any]
"""Converts a stored value that is not null to the table's. Raises ValueError if it does not fit."""

DAY_MICROS = DAY_SECONDS * 10**6
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # before the point, for all integers of so many bits


def iceberg_conversion(stored: dt.Type, wanted: dt.Type) -> Conversion | None:
    """The conversion of a stored type in an Iceberg table (iceberg 5.12, 6.1 to 6.13); None: there is none."""
    match wanted, stored:
        case dt.IntegerType(bits=bits), dt.IntegerType(bits=width) if width <= bits:
            return same
        case dt.IntegerType(bits=bits), dt.UnsignedType(bits=width) if width < bits:
            return same
        case dt.FloatType(bits=bits), dt.FloatType(bits=width) if 32 <= width <= bits:
            return same
        case dt.DecimalType(), dt.DecimalType() if (
            stored.scale == wanted.scale and stored.precision <= wanted.precision
        ):
            return lambda value: to_decimal(value, wanted)
        case dt.TimeType(unit="us"), dt.TimeType(unit="ms"):
            return lambda value: value * 1000
        case dt.TimestampType(), dt.TimestampType():
            return lambda value: _timestamp(value, stored.unit, wanted.unit)
        case dt.TimestampType(utc=False), dt.DATE:
            return lambda value: _timestamp(value * DAY_MICROS, "us", wanted.unit)
        case dt.STRING, dt.STRING | dt.BINARY:
            return bytes.decode
        case (
            (dt.UUID, dt.UUID | dt.FixedType(length=16))
            | (dt.DATE, dt.IntegerType(bits=32))
            | (dt.TimestampType(unit="us"), dt.INT96)
        ):
            return same
        case dt.UUID, dt.STRING:
            return _uuid
        case dt.GeoType(), dt.BINARY | dt.GeoType():
            return canonical
        case ((dt.BOOLEAN | dt.FixedType() | dt.DATE | dt.TimeType() | dt.BINARY), _) if stored == wanted:
            return same
        case _:
            return None


def delta_conversion(stored: dt.Type, wanted: dt.Type) -> Conversion | None:
    """The conversion of a stored type in a Delta table (delta T16, T18, T22 to T24); None: there is none."""
    match wanted, stored:
        case dt.IntegerType(bits=bits), dt.IntegerType(bits=width) if width <= max(bits, 32):
            return lambda value: within_bits(value, bits)
        case dt.IntegerType(bits=bits), dt.UnsignedType(bits=width) if width < bits:
            return same
        case dt.DecimalType(), dt.DecimalType() if (
            stored.scale == wanted.scale or 0 <= wanted.scale - stored.scale <= wanted.precision - stored.precision
        ):
            return lambda value: to_decimal(value, wanted)
        case dt.DecimalType(), dt.IntegerType(bits=width) if wanted.precision - wanted.scale >= _DIGITS[width]:
            return lambda value: to_decimal(Decimal(value), wanted)
        case dt.FloatType(bits=64), dt.IntegerType(bits=width) if width <= 32:
            return float
        case dt.FloatType(bits=64), dt.FloatType(bits=32):
            return same
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="ms" | "us"):
            return lambda value: _timestamp(value, stored.unit, "us")
        case dt.TimestampType(unit="us"), dt.INT96:
            return same
        case dt.TimestampType(unit="us", utc=False), dt.DATE:
            return lambda value: _timestamp(value * DAY_MICROS, "us", "us")
        case dt.STRING, dt.STRING | dt.BINARY:
            return bytes.decode
        case dt.BINARY, dt.BINARY | dt.STRING | dt.FixedType():
            return same
        case ((dt.BOOLEAN | dt.FloatType() | dt.DATE), _) if stored == wanted:
            return same
        case _:
            return None


def same(value: Any) -> Any:
    """The value as it is."""
    return value


def _timestamp(value: int, unit: str, wanted: str) -> int:
    """Ticks of another unit: finer ones exactly, coarser ones rounded down, also before 1970 (iceberg 6.8)."""
    return within_bits(value * UNITS[wanted] // UNITS[unit], 64)


def _uuid(value: bytes) -> bytes:
    if len(value.decode()) != 36:
        raise ValueError(f"{value!r} is no UUID")
    return uuid.UUID(value.decode()).bytes
