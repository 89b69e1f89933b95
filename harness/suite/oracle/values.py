"""Values parsed from text, conversions between stored and table types, and normalized geometries.

Spec: Iceberg, "JSON single-value serialization" (iceberg 5.15), "Schema Evolution", "Appendix A" (section 6); Delta,
"Partition Value Serialization" (delta V2 to V7), "Type Widening" (T16 to T24). Each function raises ValueError or
ArithmeticError if a value does not belong to the type.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, TypeAlias

from harness.errors import CorruptFileError
from harness.suite.oracle import types as dt
from harness.suite.oracle.documents import ByteReader

EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
"""Timestamp units per second."""
DAY_SECONDS = 86_400
_CYCLE = 146_097
"""Days in 400 years. The calendar repeats after that."""
_EPOCH = date(1970, 1, 1).toordinal()
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True)
class Grammar:
    """The textual forms of values.

    Attributes:
        date: A regular expression for dates.
        time: A regular expression for times, with groups for hour, minute, second, and fraction.
        separator: A regular expression for the text between date and time.
        zone: A regular expression for time zones, with groups for sign, hours, minutes, and seconds.
        booleans: Boolean values by lower-case text.
        max_offset_s: The largest offset of a time zone in seconds.
    """

    date: str
    time: str
    separator: str
    zone: str
    booleans: Mapping[str, bool]
    max_offset_s: int


_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?"
ICEBERG = Grammar(r"([+-]?\d{4,9})-(\d{2})-(\d{2})", _CLOCK, "T", r"([+])(00):(00)()", {}, 0)
DELTA = Grammar(
    r"([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})",
    _CLOCK,
    "[ T]",
    r" ?(?:Z|([+-])(\d{2})(?::?(\d{2}))?(?::?(\d{2}))?)",
    {"true": True, "false": False},
    18 * 3600,
)


def parse_text(text: str, type_: dt.ColumnType, grammar: Grammar) -> object:
    """Return the value of a type that a text represents."""
    match type_:
        case dt.STRING:
            return text
        case dt.BOOLEAN if text.lower() in grammar.booleans:
            return grammar.booleans[text.lower()]
        case dt.IntegerType(bits=bits):
            return within_bits(int(_match(r"[+-]?\d{1,40}", text)[0]), bits)
        case dt.FloatType(bits=bits):
            special = re.fullmatch(r"([+-]?)(nan|inf|infinity)", text.lower())
            number = float(text if special else _match(_NUMBER, text)[0])
            rounded = number if bits == 64 else to_float32(number)
            if math.isinf(rounded) and not special:
                raise ValueError("it is out of range")
            return rounded
        case dt.DecimalType():
            return to_decimal(Decimal(_match(_NUMBER, text)[0]), type_)
        case dt.DATE:
            return within_bits(_day(_match(grammar.date, text)), 32)
        case dt.TimeType(unit=unit):
            return _time(_match(grammar.time, text).groups(), UNITS[unit])
        case dt.TimestampType():
            return _timestamp(text, type_, grammar)
        case dt.UUID:
            return uuid.UUID(_match(_UUID, text)[0]).bytes
        case _:
            raise ValueError(f"{type_} has no text form")


def _match(pattern: str, text: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise ValueError("its text has the wrong form")
    return match


def _day(match: re.Match[str]) -> int:
    """Return the number of days since 1970 for a matched year, month, and day. Years are not limited to 1 to 9999."""
    year, month, day = map(int, match.groups())
    cycles, year_of_cycle = divmod(year, 400)
    return date(400 + year_of_cycle, month, day).toordinal() - _EPOCH + (cycles - 1) * _CYCLE


def _time(parts: tuple[str | None, ...], per_second: int) -> int:
    """Return a time of day in units of 1/`per_second` seconds. Finer fractions are an error."""
    hour, minute, second = (int(part or 0) for part in parts[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("the time of day does not exist")
    units, rest = divmod(int((parts[3] or "").ljust(9, "0")) * per_second, 10**9)
    if rest:
        raise ValueError("too many digits after the second")
    return ((hour * 60 + minute) * 60 + second) * per_second + units


def _timestamp(text: str, type_: dt.TimestampType, grammar: Grammar) -> int:
    """Return a timestamp as the number of units since 1970.

    Text without a time zone is in UTC. A time zone requires a time of day and a type with a time zone.
    """
    per_second, form = (
        UNITS[type_.unit],
        f"{grammar.date}(?:{grammar.separator}{grammar.time}(?P<zone>{grammar.zone})?)?",
    )
    match = _match(form, text)
    sign, h, m, s = match.groups()[8:]
    offset = (int(h or 0) * 60 + int(m or 0)) * 60 + int(s or 0)
    zone = (match["zone"] or "").strip()
    if not type_.utc and zone not in (("", "Z") if grammar is DELTA else ("",)):
        raise ValueError("a type without a time zone does not accept a time zone")
    if grammar is ICEBERG and (match[4] is None or (type_.utc and not zone)):
        raise ValueError("it lacks the time or the time zone")
    if int(m or 0) > 59 or int(s or 0) > 59 or offset > grammar.max_offset_s:
        raise ValueError("the time zone offset does not exist")
    days = _day(_match(grammar.date, "-".join(match.groups()[:3])))
    seconds = days * DAY_SECONDS - (-offset if sign == "-" else offset)
    return within_bits(seconds * per_second + _time(match.groups()[3:7], per_second), 64)


def within_bits(value: int, bits: int) -> int:
    """Return the number. Raise ValueError if it does not fit into a signed integer of `bits` bits."""
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"{value} does not fit {bits} bits")
    return value


def to_decimal(value: Decimal, type_: dt.DecimalType) -> Decimal:
    """Return the number with exactly the scale of the type. Raise ValueError or ArithmeticError if digits are lost."""
    scaled = value.quantize(Decimal((0, (1,), -type_.scale)), context=EXACT)
    if scaled != 0 and scaled.adjusted() >= type_.precision - type_.scale:
        raise ValueError(f"{value} does not fit {type_}")
    return abs(scaled) if scaled == 0 else scaled


def to_float32(value: float) -> float:
    """Return the nearest 32-bit float, or an infinity if the value is out of range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def date_text(days: int) -> str:
    """Return a date as text like 2017-11-16. Years outside 0 to 9999 have a sign."""
    cycles, rest = divmod(days + _EPOCH - 1, _CYCLE)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    name = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{name}-{day.month:02}-{day.day:02}"


Conversion: TypeAlias = Callable[[Any], Any]
"""Converts a stored value that is not null to the table's type. Raises ValueError if it does not fit."""

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # decimal digits that hold every integer of so many bits


def iceberg_conversion(stored: dt.ColumnType, target: dt.ColumnType) -> Conversion | None:
    """Return the conversion from a stored type to a type of an Iceberg table, or None (iceberg 5.12, 6.1 to 6.13)."""
    match target, stored:
        case dt.IntegerType(bits=bits), dt.IntegerType(bits=width) if width <= bits:
            return identity
        case dt.IntegerType(bits=bits), dt.UnsignedType(bits=width) if width < bits:
            return identity
        case dt.FloatType(bits=bits), dt.FloatType(bits=width) if 32 <= width <= bits:
            return identity
        case dt.DecimalType(), dt.DecimalType() if (
            stored.scale == target.scale and stored.precision <= target.precision
        ):
            return lambda value: to_decimal(value, target)
        case dt.TimeType(unit="us"), dt.TimeType(unit="ms"):
            return lambda value: value * 1000
        case dt.TimestampType(), dt.TimestampType():
            return lambda value: _ticks(value, stored.unit, target.unit)
        case dt.TimestampType(utc=False), dt.DATE:
            return lambda value: _ticks(value * DAY_SECONDS * 10**6, "us", target.unit)
        case dt.STRING, dt.STRING | dt.BINARY:
            return bytes.decode
        case (
            (dt.UUID, dt.UUID | dt.FixedType(length=16))
            | (dt.DATE, dt.IntegerType(bits=32))
            | (dt.TimestampType(unit="us"), dt.INT96)
        ):
            return identity
        case dt.UUID, dt.STRING:
            return _uuid
        case dt.GeoType(), dt.BINARY | dt.GeoType():
            return canonical_geometry
        case ((dt.BOOLEAN | dt.FixedType() | dt.DATE | dt.TimeType() | dt.BINARY), _) if stored == target:
            return identity
        case _:
            return None


def delta_conversion(stored: dt.ColumnType, target: dt.ColumnType) -> Conversion | None:
    """Return the conversion from a stored type to a type of a Delta table, or None (delta T16, T18, T22 to T24)."""
    match target, stored:
        case dt.IntegerType(bits=bits), dt.IntegerType(bits=width) if width <= max(bits, 32):
            return lambda value: within_bits(value, bits)
        case dt.IntegerType(bits=bits), dt.UnsignedType(bits=width) if width < bits:
            return identity
        case dt.DecimalType(), dt.DecimalType() if (
            stored.scale == target.scale or 0 <= target.scale - stored.scale <= target.precision - stored.precision
        ):
            return lambda value: to_decimal(value, target)
        case dt.DecimalType(), dt.IntegerType(bits=width) if target.precision - target.scale >= _DIGITS[width]:
            return lambda value: to_decimal(Decimal(value), target)
        case dt.FloatType(bits=64), dt.IntegerType(bits=width) if width <= 32:
            return float
        case dt.FloatType(bits=64), dt.FloatType(bits=32):
            return identity
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="ms" | "us"):
            return lambda value: _ticks(value, stored.unit, "us")
        case dt.TimestampType(unit="us"), dt.INT96:
            return identity
        case dt.TimestampType(unit="us", utc=False), dt.DATE:
            return lambda value: _ticks(value * DAY_SECONDS * 10**6, "us", "us")
        case dt.STRING, dt.STRING | dt.BINARY:
            return bytes.decode
        case dt.BINARY, dt.BINARY | dt.STRING | dt.FixedType():
            return identity
        case ((dt.BOOLEAN | dt.FloatType() | dt.DATE), _) if stored == target:
            return identity
        case _:
            return None


def identity(value: object) -> object:
    """Return the value unchanged."""
    return value


def _ticks(value: int, unit: str, target: str) -> int:
    """Convert a timestamp to another unit. Coarser units round down, also before 1970 (iceberg 6.8)."""
    return within_bits(value * UNITS[target] // UNITS[unit], 64)


def _uuid(value: bytes) -> bytes:
    if len(value.decode()) != 36:
        raise ValueError(f"{value!r} is not a UUID")
    return uuid.UUID(value.decode()).bytes


def canonical_geometry(data: bytes) -> bytes:
    """Return a geometry as little-endian ISO well-known binary without an SRID.

    Raise CorruptFileError if the bytes are not a geometry (frontier F1.7).
    """
    source = ByteReader(data)
    try:
        geometry, _ = _geometry(source)
        source.end()
    except ValueError as error:
        raise CorruptFileError(
            f"Cannot read a geometry: {error}; restore the file", cause="CorruptDataFile", rule="frontier F1.7"
        ) from error
    return geometry


def _geometry(source: ByteReader) -> tuple[bytes, int]:
    """Return the next geometry and the ISO code of its type."""
    order = {b"\0": "big", b"\1": "little"}.get(source.take(1))
    if order is None:
        raise ValueError("it does not begin with a byte order")
    code = source.number(4, order)
    flags, code = code >> 28, code & 0x1FFFFFFF
    if flags & 2:
        source.number(4, order)  # the SRID
    kind, dimensions = code % 1000, code // 1000
    if kind not in range(1, 8) or dimensions not in range(4):
        raise ValueError(f"{code} is not a geometry type")
    has_z, has_m = dimensions in (1, 3) or flags & 8, dimensions in (2, 3) or flags & 4
    iso = kind + (1000 if has_z else 0) + (2000 if has_m else 0)
    head = struct.pack("<BI", 1, iso)
    width = 2 + bool(has_z) + bool(has_m)
    match kind:
        case 1:
            return head + _doubles(source, order, width), iso
        case 2 | 3:  # a line string is a single ring without the ring count
            count = source.number(4, order) if kind == 3 else 1
            rings = [(n := source.number(4, order), _doubles(source, order, n * width)) for _ in range(count)]
            data = b"".join(struct.pack("<I", points) + numbers for points, numbers in rings)
            return head + (struct.pack("<I", count) if kind == 3 else b"") + data, iso
        case _:
            parts = [_geometry(source) for _ in range(source.number(4, order))]
            for _, part in parts:
                if part // 1000 != iso // 1000 or (kind != 7 and part % 1000 != kind - 3):
                    raise ValueError(f"a geometry of type {iso} contains a geometry of type {part}")
            return head + struct.pack("<I", len(parts)) + b"".join(data for data, _ in parts), iso


def _doubles(source: ByteReader, order: str, count: int) -> bytes:
    data = source.take(8 * count)
    numbers = [data[i : i + 8] for i in range(0, len(data), 8)]
    return b"".join(number if order == "little" else number[::-1] for number in numbers)
