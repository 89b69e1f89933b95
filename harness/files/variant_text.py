"""The JSON text of single variant values; what `harness.files.variant` promises about each type is decided here."""

from __future__ import annotations

import base64
import json
import math
import struct
import uuid
from collections.abc import Mapping, Sequence


def text(value: str) -> str:
    """A JSON string; only what JSON demands is escaped."""
    return json.dumps(value, ensure_ascii=False)


def binary(value: bytes) -> str:
    """A JSON string of padded base64."""
    return f'"{base64.b64encode(value).decode()}"'


def uuid_text(value: bytes) -> str:
    """A JSON string of the lower-case form with hyphens, from 16 big-endian bytes."""
    return f'"{uuid.UUID(bytes=value)}"'


def boolean(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def double(value: float) -> str:
    """The shortest number that reads back as the same value; NaN and infinities as strings."""
    return repr(value) if math.isfinite(value) else f'"{_not_finite(value)}"'


def single(value: float) -> str:
    """As `double`, for a value of 32 bits: the shortest number that reads back as the same 32 bits."""
    if not math.isfinite(value):
        return f'"{_not_finite(value)}"'
    bits = struct.pack("<f", value)
    shortest = next(digits for digits in range(1, 18) if struct.pack("<f", float(f"{value:.{digits}g}")) == bits)
    return repr(float(f"{value:.{shortest}g}"))


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decimal(unscaled: int, scale: int) -> str:
    """A number with exactly `scale` digits after the point."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{whole}.{fraction}" if scale else f"{sign}{whole}"


def date(days: int) -> str:
    """A JSON string such as "2017-11-16", from days since 1970-01-01."""
    return f'"{_date(days)}"'


def time(micros: int) -> str:
    """A JSON string such as "22:31:08.123456", from micros since midnight."""
    return f'"{_time(micros, 6)}"'


def timestamp(ticks: int, *, digits: int, utc: bool) -> str:
    """A JSON string such as "2017-11-16T22:31:08.123456", followed by +00:00 if it is an instant.

    ticks: since 1970-01-01, of which 10 to the power of `digits` are a second (6 or 9).
    """
    days, rest = divmod(ticks, 86_400 * 10**digits)
    return f'"{_date(days)}T{_time(rest, digits)}{"+00:00" if utc else ""}"'


def array(items: Sequence[str]) -> str:
    """A JSON array of values that are JSON text already."""
    return f"[{','.join(items)}]"


def record(fields: Mapping[str, str]) -> str:
    """A JSON object of values that are JSON text already, by ascending name (code points)."""
    return "{" + ",".join(f"{text(name)}:{fields[name]}" for name in sorted(fields)) + "}"


def _time(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:0{digits}}"


def _date(days: int) -> str:
    """Proleptic Gregorian; `datetime` holds only the years 1 to 9999. Eras of 400 years start on 1 March of year 0."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era + (month <= 2)
    name = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{name}-{month:02}-{day:02}"
