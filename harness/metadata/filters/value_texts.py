"""Texts of values as DuckDB reads them, exactly; nothing where an engine might read another value."""

from __future__ import annotations

import datetime
import re
import uuid
from decimal import Decimal

from harness.errors import RequestError

DAY_NS = 86_400_000_000_000


def refuse_half_characters(sql: str, what: str) -> None:
    """Refuses text that is not Unicode, such as arguments of a command that are not UTF-8: no engine takes it.

    Raises:
        RequestError: as said.
    """
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"Cannot parse the {what}: character {error.start + 1} is half of one, {sql[error.start]!a}; "
            "write it in UTF-8"
        ) from None


def parse_integer(text: str) -> int | None:
    """A whole number in plain digits."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,38}", text) else None


def whole_number(text: str) -> int | None:
    """A whole number in digits alone; None for more of them than a value of any type has, which Python may refuse."""
    return int(text) if re.fullmatch(r"[0-9]{1,38}", text) else None


def parse_decimal(text: str) -> Decimal | None:
    """A number in plain digits with a point, exactly."""
    return Decimal(text) if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", text) else None


def parse_float(text: str) -> float | None:
    """The nearest double, or an infinity, or NaN."""
    if re.fullmatch(r"-?[0-9]{1,38}(\.[0-9]{1,38})?([eE][+-]?[0-9]{1,2})?|nan|NaN|-?inf|-?Infinity|-?infinity", text):
        return float(text)
    return None


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01; None outside the years 1 to 9999."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return datetime.date.fromisoformat(text).toordinal() - datetime.date(1970, 1, 1).toordinal()
    except ValueError:
        return None


_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}(?::[0-9]{2})?)?"
)


def parse_timestamp(text: str, *, digits: int) -> int | None:
    """Nanoseconds since 1970-01-01 of a wall-clock time with at most `digits` digits of a second; no offset."""
    match = _TIMESTAMP.fullmatch(text)
    return None if match is None or match[4] is not None else _nanoseconds(match, digits)


def parse_instant(text: str, *, digits: int) -> int | None:
    """Nanoseconds since 1970-01-01 UTC; without an offset the text is in UTC, as engines' sessions are."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[2] is None and match[4] is not None):
        return None
    wall = _nanoseconds(match, digits)
    if wall is None or match[4] is None or match[4] == "Z":
        return wall
    hours, minutes = int(match[4][1:3]), int(match[4][4:6] or 0)
    if hours > 14 or minutes > 59:
        return None
    offset = (hours * 3600 + minutes * 60) * 10**9
    return wall + offset if match[4][0] == "-" else wall - offset


def _nanoseconds(match: re.Match[str], digits: int) -> int | None:
    days = parse_date(match[1])
    time = 0 if match[2] is None else _time_of_day(match[2], match[3] or "", digits)
    return None if days is None or time is None else days * DAY_NS + time


def parse_time(text: str) -> int | None:
    """Nanoseconds since midnight."""
    match = re.fullmatch(r"([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?", text)
    return None if match is None else _time_of_day(match[1], match[2] or "", 6)


def _time_of_day(clock: str, fraction: str, digits: int) -> int | None:
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    if hours > 23 or minutes > 59 or seconds > 59 or len(fraction) > digits:
        return None
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 + int(fraction.ljust(9, "0"))


def parse_uuid(text: str) -> bytes | None:
    """The 16 bytes of a UUID in its usual form."""
    return uuid.UUID(text).bytes if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) else None


def parse_bytes(text: str) -> bytes | None:
    """DuckDB's text form of a BLOB: ASCII, other bytes as \\xAA."""
    if not re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):
        return None
    return re.sub(rb"\\x(..)", lambda m: bytes.fromhex(m[1].decode()), text.encode())
