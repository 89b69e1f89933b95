"""Values that are written as text: in SQL, in Iceberg's default values, in Delta's partition values.

Three grammars write the same things: Iceberg, "JSON single-value serialization" (iceberg 5.15); Delta, "Partition Value
Serialization" (delta V2 to V7); and DuckDB's casts of text. Each function raises ValueError or ArithmeticError for a
text that says no value of the type.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from harness.testing.oracle import types as dt

EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of a timestamp per second."""
DAY_SECONDS = 86_400
_CYCLE = 146_097
"""Days in 400 years, after which the calendar repeats itself."""
_EPOCH = date(1970, 1, 1).toordinal()
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True)
class Grammar:
    """The forms of texts. A time's groups are hour, minute, second and fraction; a zone's are sign, h, m and s.

    date, time, between, zone, number: regular expressions; `between` of what stands between date and time.
    booleans: by lower-case text.
    most: seconds of the largest offset of a zone.
    """

    date: str
    time: str
    between: str
    zone: str
    number: str
    booleans: dict[str, bool]
    most: int


_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?"
ICEBERG = Grammar(r"([+-]?\d{4,9})-(\d{2})-(\d{2})", _CLOCK, "T", r"([+])(00):(00)()", _NUMBER, {}, 0)
DELTA = Grammar(
    r"([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})",
    _CLOCK,
    "[ T]",
    r" ?(?:Z|([+-])(\d{2})(?::?(\d{2}))?(?::?(\d{2}))?)",
    _NUMBER,
    {"true": True, "false": False},
    18 * 3600,
)
SQL = Grammar(
    r"(?!0+-)(\d{1,6})-(\d{1,2})-(\d{1,2})",
    r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?",
    "[ T]",
    r"(?:Z|([+-])(\d{2})(?::?(\d{2}))?())",
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?",
    {"true": True, "false": False, "t": True, "f": False},
    16 * 3600 - 1,
)


def parsed(text: str, type_: dt.Type, grammar: Grammar) -> Any:
    """The value of a type that a text says."""
    match type_:
        case dt.STRING:
            return text
        case dt.BOOLEAN if text.lower() in grammar.booleans:
            return grammar.booleans[text.lower()]
        case dt.IntegerType(bits=bits):
            return within_bits(int(_match(r"[+-]?\d{1,40}", text)[0]), bits)
        case dt.FloatType(bits=bits):
            special = re.fullmatch(r"([+-]?)(nan|inf|infinity)", text.lower())
            number = float(text if special else _match(grammar.number, text)[0])
            rounded = number if bits == 64 else single(number)
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
            raise ValueError(f"no text says a {type_}")


def _match(pattern: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text, re.ASCII)
    if found is None:
        raise ValueError("its text has another form")
    return found


def _day(found: re.Match[str]) -> int:
    """The day of a year, a month and a day, in any year."""
    year, month, day = map(int, found.groups())
    cycles, year_of_cycle = divmod(year, 400)
    return date(400 + year_of_cycle, month, day).toordinal() - _EPOCH + (cycles - 1) * _CYCLE


def _time(parts: tuple[str | None, ...], per_second: int) -> int:
    """A time of day in units of which `per_second` make a second; none may be finer."""
    hour, minute, second = (int(part or 0) for part in parts[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time of day")
    units, rest = divmod(int((parts[3] or "").ljust(9, "0")) * per_second, 10**9)
    if rest:
        raise ValueError("too many digits after the second")
    return ((hour * 60 + minute) * 60 + second) * per_second + units


def _timestamp(text: str, type_: dt.TimestampType, grammar: Grammar) -> int:
    """Ticks since 1970. Without a zone the text is in UTC; a zone needs a time before it, and an instant."""
    per_second, form = UNITS[type_.unit], f"{grammar.date}(?:{grammar.between}{grammar.time}(?P<zone>{grammar.zone})?)?"
    found = _match(form, text)
    sign, h, m, s = found.groups()[8:]
    offset = (int(h or 0) * 60 + int(m or 0)) * 60 + int(s or 0)
    zone = (found["zone"] or "").strip()
    if not type_.utc and zone not in (("", "Z") if grammar is DELTA else ("",)):
        raise ValueError("a time without a zone has a zone")
    if grammar is ICEBERG and (found[4] is None or (type_.utc and not zone)):
        raise ValueError("it has no time, or no zone")
    if int(m or 0) > 59 or int(s or 0) > 59 or offset > grammar.most:
        raise ValueError("there is no such zone")
    days = _day(_match(grammar.date, "-".join(found.groups()[:3])))
    seconds = days * DAY_SECONDS - (-offset if sign == "-" else offset)
    return within_bits(seconds * per_second + _time(found.groups()[3:7], per_second), 64)


def within_bits(value: int, bits: int) -> int:
    """The number. Raises ValueError for one that so many bits do not hold."""
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"{value} does not fit {bits} bits")
    return value


def to_decimal(value: Decimal, type_: dt.DecimalType) -> Decimal:
    """The number with the digits of the type, exactly."""
    scaled = value.quantize(Decimal((0, (1,), -type_.scale)), context=EXACT)
    if scaled != 0 and scaled.adjusted() >= type_.precision - type_.scale:
        raise ValueError(f"{value} does not fit {type_}")
    return abs(scaled) if scaled == 0 else scaled


def single(value: float) -> float:
    """The nearest 32-bit float; an infinity beyond their range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def date_text(days: int) -> str:
    """A day as text, such as 2017-11-16; years outside 0 to 9999 carry a sign."""
    cycles, rest = divmod(days + _EPOCH - 1, _CYCLE)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    name = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{name}-{day.month:02}-{day.day:02}"
