"""Days and times of day as the formats count them: days since 1970-01-01 of the proleptic Gregorian calendar."""

from __future__ import annotations

from datetime import date

_CYCLE = 146_097  # days in 400 years
_EPOCH = date(1970, 1, 1).toordinal()

UNITS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of a timestamp per second."""


def day_number(year: int, month: int, day: int) -> int:
    """The day of a date in any year.

    Raises:
        ValueError: there is no such date.
    """
    cycles, year_of_cycle = divmod(year, 400)
    return date(400 + year_of_cycle, month, day).toordinal() - _EPOCH + (cycles - 1) * _CYCLE


def time_of_day(hour: int, minute: int, second: int, fraction: str, *, per_second: int) -> int:
    """A time of day in units of which `per_second` make a second; `fraction` is the digits after the point.

    Raises:
        ValueError: there is no such time, or it is finer than a unit.
    """
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time of day")
    units, rest = divmod(int(fraction.ljust(9, "0")[:9] or "0") * per_second, 10**9)
    if rest or fraction[9:].strip("0"):
        raise ValueError("too many digits after the second")
    return ((hour * 60 + minute) * 60 + second) * per_second + units
