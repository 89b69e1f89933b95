"""Wall-clock times moved by units, and the units that they lie in, as SQL has it; nanoseconds since 1970-01-01.

Only the years 1 to 9999: nothing is said of others.
"""

from __future__ import annotations

import calendar
import datetime

from harness.filters.value_texts import DAY_NS

_FIXED = {"SECOND": 10**9, "MINUTE": 60 * 10**9, "HOUR": 3600 * 10**9, "DAY": DAY_NS, "WEEK": 7 * DAY_NS}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def later(nanoseconds: int, count: int, unit: str) -> int | None:
    """A wall-clock time so many units later; None outside the years 1 to 9999, or of a unit that is not known.

    Months keep the day, or take the last one that the month has.
    """
    unit = unit.upper().removesuffix("S")
    if unit in _FIXED:
        moved = nanoseconds + count * _FIXED[unit]
    elif unit in _MONTHS:
        days, of_day = divmod(nanoseconds, DAY_NS)
        day = _later_month(days, count * _MONTHS[unit])
        if day is None:
            return None
        moved = day * DAY_NS + of_day
    else:
        return None
    return moved if _FIRST_DAY * DAY_NS <= moved < (_LAST_DAY + 1) * DAY_NS else None


_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = 1 - _EPOCH, datetime.date.max.toordinal() - _EPOCH


def _later_month(days: int, months: int) -> int | None:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    date = datetime.date.fromordinal(days + _EPOCH)
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        return None
    last = calendar.monthrange(year, month + 1)[1]
    return datetime.date(year, month + 1, min(date.day, last)).toordinal() - _EPOCH


def period_of(nanoseconds: int, unit: str) -> tuple[int, int] | None:
    """The unit that a time lies in, as `date_trunc` has it: its first nanosecond, and that of the next one.

    None where one of them is outside the years, or of a unit that is not known. Weeks begin on Mondays.
    """
    unit = unit.upper().removesuffix("S")
    days = nanoseconds // DAY_NS
    if unit == "WEEK":
        start = ((days + _THURSDAY) // 7 * 7 - _THURSDAY) * DAY_NS  # 1970-01-01 was one
    elif unit in _FIXED:
        start = nanoseconds // _FIXED[unit] * _FIXED[unit]
    elif unit in _MONTHS and _FIRST_DAY <= days <= _LAST_DAY:
        date = datetime.date.fromordinal(days + _EPOCH)
        month = (date.month - 1) // _MONTHS[unit] * _MONTHS[unit] + 1
        start = (datetime.date(date.year, month, 1).toordinal() - _EPOCH) * DAY_NS
    else:
        return None
    end = later(start, 1, unit)
    return None if end is None or later(start, 0, unit) is None else (start, end)


_THURSDAY = 3
