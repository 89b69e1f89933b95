"""Parts of dates and times, and the differences between two of them in a unit."""

from __future__ import annotations

from typing import Unpack

from harness.metadata.model.schema import DateType, TimestampType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.intervals import SPAN, is_moment, micros
from harness.queries.transpile.functions.registry import Call, Domain, Form, Function, FunctionKind, Lowering, said
from harness.queries.transpile.functions.text import guarded
from harness.queries.transpile.values import DOUBLE, LONG, Typed

_CLOCK = TimestampType()
_INSTANT = TimestampType(utc=True)

# Parts of a moment: {0} is a DATE or a TIMESTAMP of Spark.
_YEAR = "YEAR({0})"
_DATES = {
    "year": _YEAR,
    "quarter": "QUARTER({0})",
    "month": "MONTH({0})",
    "day": "DAY({0})",
    "dow": "(DAYOFWEEK({0}) - 1)",
    "isodow": "(WEEKDAY({0}) + 1)",
    "doy": "DAYOFYEAR({0})",
    "week": "WEEKOFYEAR({0})",
    "isoyear": "EXTRACT(YEAROFWEEK FROM {0})",
    "yearweek": "(EXTRACT(YEAROFWEEK FROM {0}) * 100 + WEEKOFYEAR({0}))",
    "decade": f"({_YEAR} DIV 10)",
    "century": f"((({_YEAR} - 1) DIV 100) + 1)",
    "millennium": f"((({_YEAR} - 1) DIV 1000) + 1)",
    "era": f"IF({_YEAR} > 0, 1, 0)",
}
_CLOCKS = {
    "hour": "HOUR({0})",
    "minute": "MINUTE({0})",
    "second": "SECOND({0})",
    "millisecond": "FLOOR(EXTRACT(SECOND FROM {0}) * 1000)",
    "microsecond": "FLOOR(EXTRACT(SECOND FROM {0}) * 1000000)",
}
_OTHER_NAMES = {
    "year": ("y", "yr", "yrs", "years"),
    "quarter": ("quarters",),
    "month": ("mon", "mons", "months"),
    "day": ("d", "days", "dayofmonth"),
    "dow": ("dayofweek", "weekday"),
    "doy": ("dayofyear",),
    "week": ("w", "weeks", "weekofyear"),
    "decade": ("decades",),
    "century": ("centuries",),
    "millennium": ("millennia",),
    "hour": ("h", "hr", "hrs", "hours"),
    "minute": ("m", "min", "mins", "minutes"),
    "second": ("s", "sec", "secs", "seconds"),
    "millisecond": ("ms", "msec", "msecs", "milliseconds"),
    "microsecond": ("us", "usec", "usecs", "microseconds"),
}
_PART = {other: part for part, others in _OTHER_NAMES.items() for other in (part, *others)}
_UNITS_US = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1}
_BEFORE_CHRIST = ("decade", "century", "millennium", "yearweek", "era")
"""Parts that DuckDB counts otherwise before the year 1."""


def _named(call: Call, place: int) -> str:
    """The part of a moment that an argument names; refused if it is no literal."""
    name = said(call.value(place))
    if name is None:
        raise call.refused("a part of a date that no literal names")
    return _PART.get(name.lower(), name.lower())


def _part_of(part: str) -> Lowering:
    """`year(x)`."""
    return lambda call: _part(call, part, call.value(0)) if len(call.arguments) == 1 else None


def _date_part(call: Call) -> Typed | None:
    if len(call.arguments) != 2:
        return None
    return _part(call, _named(call, 0), call.value(1))


def _part(call: Call, part: str, value: Typed) -> Typed:
    if value.type == SPAN:
        return _part_of_span(call, part, value)
    if not is_moment(value):
        raise call.refused(f"{part} of {value.type}")
    if part == "epoch" and value.type == _INSTANT:
        raise call.refused("epoch of a TIMESTAMP WITH TIME ZONE", "use epoch(… AT TIME ZONE 'UTC')")
    if part == "epoch":
        return Typed(f"(CAST({micros(value)} AS DOUBLE) / 1000000D)", DOUBLE)
    text = _DATES.get(part) or _CLOCKS.get(part)
    if text is None:
        raise call.refused(f"{part} of {value.type}")
    if isinstance(value.type, DateType) and part in _CLOCKS:
        return Typed(f"CASE WHEN {value.sql} IS NOT NULL THEN 0L END", LONG)
    sql = f"CAST({text.format(value.sql)} AS BIGINT)"
    if part in _BEFORE_CHRIST:
        message = f"{part} before the year 1"
        sql = f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE {guarded(f'YEAR({value.sql}) > 0', sql, message)} END"
    return Typed(sql, LONG)


def _part_of_span(call: Call, part: str, value: Typed) -> Typed:
    """Of a difference of two timestamps, which is so many days and the rest of one."""
    day = 86_400_000_000
    within, unit = {
        "day": (0, day),
        "hour": (day, _UNITS_US["hour"]),
        "minute": (_UNITS_US["hour"], _UNITS_US["minute"]),
        "second": (_UNITS_US["minute"], _UNITS_US["second"]),
        "epoch": (0, 0),
    }.get(part, (-1, 0))
    if within < 0:
        raise call.refused(f"{part} of a difference of timestamps", "use date_diff()")
    if part == "epoch":
        whole, rest = f"{value.sql} DIV {day}L * 86400L", f"{value.sql} % {day}L"
        return Typed(f"(CAST({whole} AS DOUBLE) + CAST({rest} AS DOUBLE) / 1000000D)", DOUBLE)
    rest = f"({value.sql} % {within}L)" if within else value.sql
    return Typed(f"({rest} DIV {unit}L)", LONG)


# Beginnings.

_TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
_YEARS = {"decade": 10, "century": 100, "millennium": 1000}


def _truncated(call: Call) -> Typed | None:
    if len(call.arguments) != 2:
        return None
    unit, value = _named(call, 0), call.value(1)
    if not is_moment(value):
        raise call.refused(f"date_trunc of {value.type}")
    type_ = value.type if isinstance(value.type, TimestampType) else _CLOCK
    if unit in _TRUNCATED:
        # Spark's is an instant whatever it is given, in the session's zone, which is UTC here.
        sql = f"DATE_TRUNC('{unit.upper()}', {value.sql})"
    elif unit in _YEARS:
        start = f"MAKE_DATE(YEAR({value.sql}) DIV {_YEARS[unit]} * {_YEARS[unit]}, 1, 1)"
        done = guarded(f"YEAR({value.sql}) > 0", start, f"{unit} before the year 1")
        sql = f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE {done} END"
    elif unit == "isoyear":
        sql = f"DATE_TRUNC('WEEK', MAKE_DATE(EXTRACT(YEAROFWEEK FROM {value.sql}), 1, 4))"
    else:
        raise call.refused(f"date_trunc to {unit}")
    return Typed(f"CAST({sql} AS {spark_text.type_name(type_)})", type_)


# Differences.

_COUNTED = {
    "year": _YEAR,
    "quarter": f"({_YEAR} * 4 + QUARTER({{0}}))",
    "month": f"({_YEAR} * 12 + MONTH({{0}}))",
    "decade": f"({_YEAR} DIV 10)",
    "century": f"({_YEAR} DIV 100)",
    "millennium": f"({_YEAR} DIV 1000)",
    "isoyear": "EXTRACT(YEAROFWEEK FROM {0})",
}


def _ends(call: Call) -> tuple[str, list[Typed]] | None:
    if len(call.arguments) != 3:
        return None
    ends = [call.value(1), call.value(2)]
    if not all(is_moment(v) for v in ends):
        raise call.refused(f"{call.name} of {', '.join(str(v.type) for v in ends)}")
    return _named(call, 0), ends


def _between(call: Call) -> Typed | None:
    """Boundaries of a unit that lie between two moments."""
    found = _ends(call)
    if found is None:
        return None
    unit, (first, last) = found
    if unit in ("day", "dow", "doy", "isodow"):
        return Typed(f"CAST(DATEDIFF(CAST({last.sql} AS DATE), CAST({first.sql} AS DATE)) AS BIGINT)", LONG)
    if unit in _COUNTED:
        sql = f"({_COUNTED[unit].format(last.sql)} - {_COUNTED[unit].format(first.sql)})"
        return Typed(f"CAST({sql} AS BIGINT)", LONG)
    if unit in _UNITS_US:
        begun = [micros(Typed(f"DATE_TRUNC('{unit.upper()}', {v.sql})", _INSTANT)) for v in (last, first)]
        return Typed(f"(({begun[0]} - {begun[1]}) DIV {_UNITS_US[unit]}L)", LONG)
    raise call.refused(f"{call.name} in {unit}s", "use date_diff('day', …)")


def _whole_between(call: Call) -> Typed | None:
    """Whole units between two moments."""
    found = _ends(call)
    if found is None:
        return None
    unit, (first, last) = found
    units = {"week": 7 * 86_400_000_000, "day": 86_400_000_000, **_UNITS_US}
    if unit not in units:
        raise call.refused(f"{call.name} in {unit}s", "use date_diff()")
    if _INSTANT in (first.type, last.type):
        raise call.refused(f"{call.name} of a TIMESTAMP WITH TIME ZONE", "use AT TIME ZONE 'UTC'")
    return Typed(f"(({micros(last)} - {micros(first)}) DIV {units[unit]}L)", LONG)


def time_function(
    names: tuple[str, ...],
    lowering: Lowering | None = None,
    *,
    written: str = "",
    draws: tuple[str, ...],
    takes: str = "DATE or TIMESTAMP",
    forms: tuple[Form, ...] = (),
    **domain: Unpack[Domain],
) -> Function:
    """An entry of this section."""
    return Function(
        names=names,
        kind=FunctionKind.TIMES,
        forms=forms,
        lowering=lowering,
        takes=takes,
        written=written,
        draws=draws,
        **domain,
    )


_NAMED_PARTS = {
    "year": ("year",),
    "quarter": ("quarter",),
    "month": ("month",),
    "day": ("day", "dayofmonth"),
    "dow": ("dayofweek", "weekday"),
    "isodow": ("isodow",),
    "doy": ("dayofyear",),
    "week": ("week", "weekofyear"),
    "isoyear": ("isoyear",),
    "yearweek": ("yearweek",),
    "decade": ("decade",),
    "century": ("century",),
    "millennium": ("millennium",),
    "era": ("era",),
    "hour": ("hour",),
    "minute": ("minute",),
    "second": ("second",),
    "millisecond": ("millisecond",),
    "microsecond": ("microsecond",),
    "epoch": ("epoch",),
}
_ALL_PARTS = ", ".join(_NAMED_PARTS)
_AFTER = "an error before the year 1"

FUNCTIONS = (
    *(
        time_function(
            names,
            _part_of(part),
            written=(_DATES.get(part) or _CLOCKS.get(part) or "UNIX_MICROS(a) / 1e6").format("a"),
            agree="from the year 1 on" if part in _BEFORE_CHRIST else "",
            outside=_AFTER if part in _BEFORE_CHRIST else "",
            draws=tuple(
                f"{names[0]}({{{kind}}})"
                for kind in ("date", "timestamp", "instant")
                if (part, kind) != ("epoch", "instant")
            ),
        )
        for part, names in _NAMED_PARTS.items()
    ),
    time_function(
        ("date_part", "datepart", "extract"),
        _date_part,
        takes="literal, DATE or TIMESTAMP, or a difference of TIMESTAMPs",
        written="as the function of the part",
        agree=f"{_ALL_PARTS}, and their other names",
        outside="refused: julian, time zones; lists of parts",
        draws=(
            "date_part('year', {date})",
            "extract(minute FROM {timestamp})",
            "date_part('epoch', {timestamp} - {timestamp})",
        ),
    ),
    time_function(
        ("date_trunc", "datetrunc"),
        _truncated,
        takes="literal, DATE or TIMESTAMP",
        written="DATE_TRUNC",
        agree=", ".join([*_TRUNCATED, *_YEARS, "isoyear"]),
        outside="refused: other units",
        draws=(
            *(f"date_trunc('{unit}', {{timestamp}})" for unit in ("year", "week", "hour", "second")),
            "date_trunc('month', {date})",
            "date_trunc('quarter', {instant})",
            "date_trunc('decade', {near})",
        ),
    ),
    time_function(
        ("date_diff", "datediff"),
        _between,
        takes="literal, two of DATE or TIMESTAMP",
        written="a difference of numbers",
        agree=", ".join([*_COUNTED, "day", *_UNITS_US]),
        outside="refused: weeks",
        draws=(
            *(f"date_diff('{unit}', {{timestamp}}, {{timestamp}})" for unit in ("day", "month", "hour", "second")),
            "date_diff('quarter', {date}, {timestamp})",
            "date_diff('year', {instant}, {instant})",
        ),
    ),
    time_function(
        ("date_sub", "datesub"),
        _whole_between,
        takes="literal, two of DATE or TIMESTAMP",
        written="a difference of microseconds",
        agree=", ".join(["week", "day", *_UNITS_US]),
        outside="refused: months and longer units; use date_diff()",
        draws=("date_sub('hour', {timestamp}, {timestamp})", "date_sub('day', {date}, {timestamp})"),
    ),
)
