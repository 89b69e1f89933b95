"""Points in time: as users write them, and as messages show them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Literal, TypeAlias

from harness.errors import RequestError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS = re.compile(r"[0-9]{12,18}")
_INSTANT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)"
    r" ?(?P<zone>Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.IGNORECASE,
)


def timestamp_ms(value: int | str | datetime, *, rounding: Literal["down", "up"] = "down") -> int:
    """Return a point in time as milliseconds since 1970-01-01 UTC.

    Args:
        value: An int is milliseconds already, and so is a text of 12 to 18 digits. Other texts are ISO dates, for
            example `2024-12-31` (its first instant), or times, for example `2024-12-31 23:59:59.999`, with an offset or
            else in UTC. A naive datetime is in UTC.
        rounding: The rounding direction for fractions of a millisecond, down to microseconds.

    Raises:
        RequestError: The value is none of these.
    """
    if isinstance(value, datetime):
        return _to_ms(value, rounding)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip()
        if _MILLIS.fullmatch(text):
            return int(text)
        if (match := _INSTANT.fullmatch(text)) is not None:
            zone = (match["zone"] or "Z").upper().replace("UTC", "Z")
            try:
                return _to_ms(datetime.fromisoformat(f"{match['date']}T{match['time'] or '00:00'}{zone}"), rounding)
            except (ValueError, OverflowError) as error:
                raise RequestError(f"Invalid timestamp: got {value!r}, {error}") from error
    raise RequestError(
        f"Invalid timestamp: got {value!r}, expected a time such as '2024-12-31 23:59:59' (UTC) "
        "or '2024-12-31T23:59:59+01:00', or milliseconds since 1970"
    )


When: TypeAlias = int | str | datetime | None


ParsedMoment: TypeAlias = tuple[Literal["snapshot", "timestamp", "ref"], int | str | datetime]
"""The selection of a `When`: a snapshot id or version, a time for `timestamp_ms`, or the name of a branch or tag."""


_DIGITS = 19
"""The maximum number of digits of a 64-bit number."""


def parse_moment(at: When, name: str = "at") -> ParsedMoment | None:
    """Return what `at` selects, or None if it is None.

    A number is a snapshot id or version. A datetime is a time. A text of digits is an id, a text like `2024-12…` is a
    time, and other text is a branch or tag. The prefixes `snapshot=`, `timestamp=`, and `ref=` state explicitly which
    it is, for example `ref=2024-12`.

    Args:
        at: The moment as the user wrote it.
        name: The name of the argument, for messages.

    Raises:
        RequestError: `snapshot=` is not followed by a number, the time is invalid, or the value has another type.
    """
    if not isinstance(at, str):
        if at is None:
            return None
        if isinstance(at, datetime):
            return "timestamp", at
        if isinstance(at, bool) or not hasattr(at, "__index__"):  # NumPy's integers have __index__
            raise RequestError(
                f"Invalid {name}: got {at!r:.40}, expected a snapshot id, a time, or text", options=(name,)
            )
        return "snapshot", index(at)
    kind, separator, value = at.partition("=")
    if not separator or kind not in ("snapshot", "timestamp", "ref"):
        is_time = re.match(r"\d{4}-\d{2}", at)
        kind, value = ("snapshot" if at.isdecimal() else "timestamp" if is_time else "ref"), at
    match kind:
        case "snapshot":
            if not value.isdecimal() or len(value) > _DIGITS:
                raise RequestError(f"Invalid {name}={at[:40]!r}: a snapshot is a 64-bit number", options=(name,))
            return "snapshot", int(value)
        case "timestamp":
            time = int(value) if value.removeprefix("-").isdecimal() and len(value) <= _DIGITS + 1 else value
            timestamp_ms(time)
            return "timestamp", time
        case _:
            return "ref", value


def show_ms(time_ms: int) -> str:
    """Return milliseconds since 1970-01-01 UTC as ISO text, or as a number if the year is outside of 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{time_ms} ms"


def year_month_day(days: int) -> tuple[int, int, int]:
    """Return the date of a day since 1970-01-01 in the proleptic Gregorian calendar, for any year."""
    # Days are counted from March 1 of year 0, so that a leap day is the last day of its year. All eras of 400 years are
    # equal.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return era * 400 + year + (month <= 2), month, day


def _to_ms(instant: datetime, rounding: Literal["down", "up"]) -> int:
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    elapsed, unit = aware - _EPOCH, timedelta(milliseconds=1)
    return elapsed // unit if rounding == "down" else -(-elapsed // unit)
