"""What SQL text stands for as a value of a type, as internal values, as DuckDB reads it.

Only the usual forms; UnsupportedError for the rest, whether DuckDB reads it in a way of its own or refuses it.
"""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from typing import Any

from harness.errors import UnsupportedError
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from harness.oracle.engine.conversions import single

_TIME = r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?"
_DATE = r"(\d{1,6})-(\d{1,2})-(\d{1,2})"
_ZONE = r"(Z|[+-]\d{2}(?::?\d{2})?)?"
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def value_of_text(text: str, type_: Type) -> Any:
    """The value of `type_` that DuckDB makes of a text.

    Raises:
        UnsupportedError: it makes none, or the form is not a usual one.
    """
    value = _parsed(text, type_)
    if value is None:
        raise UnsupportedError(f"Cannot evaluate the filter: the oracle does not read {text!r} as {type_}")
    return value


def _parsed(text: str, type_: Type) -> Any:
    match type_:
        case StringType():
            return text
        case BooleanType():
            return {"true": True, "false": False, "t": True, "f": False}.get(text.lower())
        case IntegerType(bits=bits):
            fits = re.fullmatch(r"[+-]?\d{1,20}", text) and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)
            return int(text) if fits else None
        case FloatType(bits=bits):
            return _float(text, bits)
        case DecimalType():
            return _decimal(text, type_)
        case DateType():
            found = re.fullmatch(_DATE, text)
            return None if found is None else _days(*map(int, found.groups()))
        case TimeType():
            found = re.fullmatch(_TIME, text)
            nanos = None if found is None else _nanos_of_day(*found.groups())
            return None if nanos is None or nanos % 1000 else nanos // 1000
        case TimestampType():
            return _timestamp(text, type_)
        case UuidType():
            return (
                uuid.UUID(text).bytes
                if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text)
                else None
            )
        case BinaryType():
            return _bytes(text)
        case _:
            return None


def _float(text: str, bits: int) -> float | None:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
        return None
    return float(text) if bits == 64 else single(float(text))


def _decimal(text: str, type_: DecimalType) -> Decimal | None:
    """A number whose digits all fit; DuckDB would round others."""
    found = re.fullmatch(r"([+-]?)(\d+)(?:\.(\d*))?", text)
    if found is None or len((found[3] or "").rstrip("0")) > type_.scale:
        return None
    digits = int(found[2] + (found[3] or "").rstrip("0").ljust(type_.scale, "0"))
    if digits >= 10**type_.precision:
        return None
    return Decimal((int(found[1] == "-"), tuple(map(int, str(digits))), -type_.scale))


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 of a day in the Gregorian calendar, from the year 1 on."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1] + (leap and month == 2):
        return None
    before = year - 1
    in_year = sum(_DAYS_IN_MONTH[: month - 1]) + (leap and month > 2) + day - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + in_year - 719_162


def _nanos_of_day(hours: str, minutes: str, seconds: str, fraction: str | None) -> int | None:
    if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        return None
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 10**9 + int((fraction or "").ljust(9, "0"))


def _timestamp(text: str, type_: TimestampType) -> int | None:
    """Ticks since 1970; a text for an instant without a zone is in UTC, as the engines' sessions are."""
    found = re.fullmatch(rf"{_DATE}(?:[ T]{_TIME})?{_ZONE}", text)
    if found is None or (found[8] is not None and (not type_.utc or found[4] is None)):
        return None
    days = _days(int(found[1]), int(found[2]), int(found[3]))
    time = 0 if found[4] is None else _nanos_of_day(found[4], found[5], found[6], found[7])
    offset = _offset(found[8] or "Z")
    if days is None or time is None or offset is None:
        return None
    nanos = days * 86_400 * 10**9 + time - offset
    if type_.unit == "ns":
        return nanos if -(2**63) < nanos < 2**63 else None
    return nanos // 1000 if nanos % 1000 == 0 else None


def _offset(zone: str) -> int | None:
    """Nanoseconds east of UTC."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 15 or minutes > 59:
        return None
    return (hours * 60 + minutes) * 60 * 10**9 * (-1 if zone[0] == "-" else 1)


def _bytes(text: str) -> bytes | None:
    """ASCII, other bytes as \\xAA."""
    if not re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):
        return None
    return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())
