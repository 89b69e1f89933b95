"""Intervals, differences of timestamps, parts of dates and times, and series.

An interval or a difference of timestamps cannot be a column of the result.
"""

from __future__ import annotations

import re

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions.registry import (
    BIGINT,
    CLOCK,
    Call,
    Function,
    Lowering,
    checked_value,
)
from harness.engines.spark.transpile.values import DATE, DOUBLE, LONG, TypedSql, is_moment, is_timestamp, list_of
from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.metadata.model import schema as dt

INTERVAL = dt.OpaqueType("interval")
"""Months, days, and microseconds. On Spark it is a CalendarInterval."""
SPAN = dt.OpaqueType("difference of timestamps")
"""The type of `timestamp - timestamp`: on DuckDB an interval without months, on Spark microseconds as a BIGINT."""

_CLOCK, _INSTANT = dt.TimestampType(), dt.TimestampType(utc=True)
_MONTHS = {"year": 12, "quarter": 3, "month": 1, "decade": 120, "century": 1200, "millennium": 12000}
_DAYS = {"week": 7, "day": 1}
_CLOCK_US = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1}
_DAY_US = 86_400_000_000


def micros(value: TypedSql) -> str:
    """Return microseconds since 1970 for a DATE or TIMESTAMP."""
    if isinstance(value.type, dt.DateType):
        return f"(CAST(UNIX_DATE({value.sql}) AS BIGINT) * {_DAY_US}L)"
    instant = value.sql if value.type == dt.TimestampType(utc=True) else f"CAST({value.sql} AS TIMESTAMP)"
    return f"UNIX_MICROS({instant})"


def amount(value: TypedSql, unit: str) -> TypedSql | None:
    """Return an interval of `value` units. None if the value is not an integer of at most 32 bits."""
    if not _is_small(value):
        return None
    sql = f"CAST({value.sql} AS INT)"
    arguments = ["0"] * 7
    if unit in _MONTHS:
        arguments[1] = f"({sql} * {_MONTHS[unit]})"
    elif unit in _DAYS:
        arguments[3] = f"({sql} * {_DAYS[unit]})"
    elif unit in ("hour", "minute", "second"):
        arguments[{"hour": 4, "minute": 5, "second": 6}[unit]] = sql
    else:
        return None
    return TypedSql(f"MAKE_INTERVAL({', '.join(arguments)})", INTERVAL)


def interval(node: exp.Expr) -> tuple[int, int, int] | None:
    """Return the months, days, and microseconds of an interval literal. None for other or unsupported nodes."""
    if not isinstance(node, exp.Interval) or node.this is None:
        return None
    unit, literal = node.args.get("unit"), literal_of(node.this)
    if literal is None:
        return None
    if isinstance(unit, exp.Var):
        text = str(literal.value) if literal.kind in (LiteralKind.INTEGER, LiteralKind.STRING) else ""
        return _amounts_of_text(f"{text.strip()} {unit.name}")
    return _amounts_of_text(str(literal.value)) if unit is None and literal.kind is LiteralKind.STRING else None


def _amounts_of_text(text: str) -> tuple[int, int, int] | None:
    parts = _COUNTED_UNIT.findall(text)
    if not parts or _COUNTED_UNIT.sub("", text).strip():
        return None
    sums = [0, 0, 0]
    for count, name in parts:
        unit = name.lower() if name.lower() in _UNITS else name.lower().removesuffix("s")
        if unit not in _UNITS:
            return None
        for place, units in enumerate((_MONTHS, _DAYS, _CLOCK_US)):
            sums[place] += int(count) * units.get(unit, 0)
    return sums[0], sums[1], sums[2]


_COUNTED_UNIT = re.compile(r"\s*([+-]?\d{1,9})\s+([A-Za-z]+)(?=\s|$)")
_UNITS = {*_MONTHS, *_DAYS, *_CLOCK_US}


def interval_text(parts: tuple[int, int, int]) -> TypedSql:
    """Return an interval as an expression."""
    months, days, clock = parts
    sign = "-" if clock < 0 else ""
    seconds = f"{sign}{abs(clock) // 1_000_000}.{abs(clock) % 1_000_000:06d}BD"
    return TypedSql(f"MAKE_INTERVAL(0, {months}, 0, {days}, 0, 0, {seconds})", INTERVAL)


def span(parts: tuple[int, int, int]) -> TypedSql | None:
    """Return an interval as a difference of timestamps. None if it has months."""
    months, days, clock = parts
    return None if months else TypedSql(f"{days * _DAY_US + clock}L", SPAN)


def interval_of_node(node: exp.Expr, count: TypedSql | None) -> TypedSql | None:
    """Translate `INTERVAL …`. `count` is the translated number of units if it is not a literal."""
    parts = interval(node)
    if parts is not None:
        return interval_text(parts)
    unit = node.args.get("unit")
    if count is None or not isinstance(unit, exp.Var):
        return None
    return amount(count, unit.name.lower().removesuffix("s"))


def arithmetic(left: TypedSql, sign: str, right: TypedSql) -> TypedSql | None:
    """Translate a sum, difference, or product of dates, timestamps, and intervals. None for other types."""
    if sign != "-" and not isinstance(left.type, dt.DateType | dt.TimestampType):
        left, right = right, left
    if sign == "*":
        by, factor = (left, right) if left.type == INTERVAL else (right, left)
        fits = by.type == INTERVAL and _is_small(factor)
        return TypedSql(f"({by.sql} * {factor.sql})", INTERVAL) if fits else None
    is_date = isinstance(left.type, dt.DateType)
    if is_date and _is_small(right):
        return TypedSql(f"{'DATE_ADD' if sign == '+' else 'DATE_SUB'}({left.sql}, {right.sql})", DATE)
    if right.type == INTERVAL and is_date:
        return TypedSql(f"(CAST({left.sql} AS TIMESTAMP_NTZ) {sign} {right.sql})", _CLOCK)
    if right.type == INTERVAL:
        return TypedSql(f"({left.sql} {sign} {right.sql})", left.type) if is_timestamp(left.type) else None
    if sign == "+" or not is_moment(left.type) or not is_moment(right.type):
        return None
    if is_date and isinstance(right.type, dt.DateType):
        return TypedSql(f"CAST(DATEDIFF({left.sql}, {right.sql}) AS BIGINT)", LONG)
    if left.type != right.type and _INSTANT in (left.type, right.type):
        return None
    return TypedSql(f"({micros(left)} - {micros(right)})", SPAN)


def _is_small(value: TypedSql) -> bool:
    return isinstance(value.type, dt.IntegerType) and value.type.bits <= 32


# Series of numbers and timestamps are lists, which become rows in FROM.


def _series(call: Call) -> TypedSql | None:
    """Translate `range`, which excludes its end, or `generate_series`, which includes it."""
    if not 1 <= len(call.arguments) <= 3:
        return None
    values = call.values()[:2]
    if all(isinstance(v.type, dt.IntegerType | dt.UnknownType) for v in values):
        return _numbers(call, values)
    if all(is_moment(v.type) and v.type != dt.TimestampType(utc=True) for v in values) and len(call.arguments) == 3:
        return _moments(call, *values)
    return None


def _numbers(call: Call, values: list[TypedSql]) -> TypedSql:
    step = 1 if len(call.arguments) < 3 else call.value(2).number
    if step is None or step == 0:
        raise call.refusal(f"{call.name}() with a step that is not a literal")
    start, end = ("0L" if v is None else BIGINT(v) for v in (values if len(values) == 2 else [None, *values]))
    if call.name == "range":
        end = f"({end} {'-' if step > 0 else '+'} 1L)"
    forward, back = (">=", "<") if step > 0 else ("<=", ">")
    series = f"SEQUENCE({start}, {end}, CAST({step} AS BIGINT))"
    return _series_list(f"{end} {forward} {start}", series, f"{end} {back} {start}", LONG)


def _moments(call: Call, first: TypedSql, last: TypedSql) -> TypedSql:
    parts = interval(call.arguments[2])
    if parts is None or min(parts) < 0 or max(parts) == 0 or (parts[0] and any(parts[1:])):
        raise call.refusal(f"{call.name}() of dates by this step", "write it as an INTERVAL of one unit, from 1 on")
    start, end = CLOCK(first), CLOCK(last)
    series = f"SEQUENCE({start}, {end}, {interval_text(parts).sql})"
    if call.name == "range":
        series = f"FILTER({series}, v -> v < {end})"
    if parts[0]:
        # DuckDB adds a month to the previous value, whose day may have been reduced to the last of a month.
        message = "'harness: a series by months that starts after the 28th differs between the engines'"
        series = f"CASE WHEN DAY({start}) > 28 THEN RAISE_ERROR({message}) ELSE {series} END"
    return _series_list(f"{end} >= {start}", series, f"{end} < {start}", _CLOCK)


def _series_list(forward: str, series: str, back: str, element: dt.Type) -> TypedSql:
    empty_list = f"CAST(ARRAY() AS ARRAY<{spark_text.type_name(element)}>)"
    return TypedSql(f"CASE WHEN {forward} THEN {series} WHEN {back} THEN {empty_list} END", list_of(element))


SERIES = (Function(("range",), _series), Function(("generate_series",), _series))


# Parts of a date or time. {0} is a DATE or a TIMESTAMP on Spark.
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
_BEFORE_CHRIST = ("decade", "century", "millennium", "yearweek", "era")
"""Parts that DuckDB counts differently before the year 1."""


def _part_name(call: Call, place: int) -> str:
    """Return the part of a date that an argument names. An argument that is not a literal is refused."""
    name = call.value(place).text
    if name is None:
        raise call.refusal("a part of a date that is not a literal")
    return _PART.get(name.lower(), name.lower())


def _part_of(part: str) -> Lowering:
    """Return the lowering of `year(x)` and similar functions."""
    return lambda call: _part(call, part, call.value(0))


def _part(call: Call, part: str, value: TypedSql) -> TypedSql:
    if value.type == SPAN:
        return _part_of_span(call, part, value)
    if not is_moment(value.type):
        raise call.refusal(f"{part} of {value.type}")
    if part == "epoch" and value.type == _INSTANT:
        raise call.refusal("epoch of a TIMESTAMP WITH TIME ZONE", "use epoch(… AT TIME ZONE 'UTC')")
    if part == "epoch":
        return TypedSql(f"(CAST({micros(value)} AS DOUBLE) / 1000000D)", DOUBLE)
    text = _DATES.get(part) or _CLOCKS.get(part)
    if text is None:
        raise call.refusal(f"{part} of {value.type}")
    if isinstance(value.type, dt.DateType) and part in _CLOCKS:
        return TypedSql(f"CASE WHEN {value.sql} IS NOT NULL THEN 0L END", LONG)
    sql = f"CAST({text.format(value.sql)} AS BIGINT)"
    if part in _BEFORE_CHRIST:
        sql = checked_value(value.sql, f"YEAR({value.sql}) > 0", sql, f"{part} before the year 1")
    return TypedSql(sql, LONG)


def _part_of_span(call: Call, part: str, value: TypedSql) -> TypedSql:
    """Translate a part of a difference of timestamps, which consists of days and the rest of a day."""
    within, unit = {
        "day": (0, _DAY_US),
        "hour": (_DAY_US, _CLOCK_US["hour"]),
        "minute": (_CLOCK_US["hour"], _CLOCK_US["minute"]),
        "second": (_CLOCK_US["minute"], _CLOCK_US["second"]),
        "epoch": (0, 0),
    }.get(part, (-1, 0))
    if within < 0:
        raise call.refusal(f"{part} of a difference of timestamps", "use date_diff()")
    if part == "epoch":
        whole, rest = f"{value.sql} DIV {_DAY_US}L * 86400L", f"{value.sql} % {_DAY_US}L"
        return TypedSql(f"(CAST({whole} AS DOUBLE) + CAST({rest} AS DOUBLE) / 1000000D)", DOUBLE)
    rest = f"({value.sql} % {within}L)" if within else value.sql
    return TypedSql(f"({rest} DIV {unit}L)", LONG)


_TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
_YEARS = {"decade": 10, "century": 100, "millennium": 1000}


def _truncate(call: Call) -> TypedSql | None:
    unit, value = _part_name(call, 0), call.value(1)
    if not is_moment(value.type):
        raise call.refusal(f"date_trunc of {value.type}")
    type_ = value.type if isinstance(value.type, dt.TimestampType) else _CLOCK
    if unit in _TRUNCATED:
        # Spark truncates an instant in the session's zone, which is UTC here.
        sql = f"DATE_TRUNC('{unit.upper()}', {value.sql})"
    elif unit in _YEARS:
        start = f"MAKE_DATE(YEAR({value.sql}) DIV {_YEARS[unit]} * {_YEARS[unit]}, 1, 1)"
        sql = checked_value(value.sql, f"YEAR({value.sql}) > 0", start, f"{unit} before the year 1")
    elif unit == "isoyear":
        sql = f"DATE_TRUNC('WEEK', MAKE_DATE(EXTRACT(YEAROFWEEK FROM {value.sql}), 1, 4))"
    else:
        raise call.refusal(f"date_trunc to {unit}")
    return TypedSql(f"CAST({sql} AS {spark_text.type_name(type_)})", type_)


_COUNTED = {
    "year": _YEAR,
    "quarter": f"({_YEAR} * 4 + QUARTER({{0}}))",
    "month": f"({_YEAR} * 12 + MONTH({{0}}))",
    "decade": f"({_YEAR} DIV 10)",
    "century": f"({_YEAR} DIV 100)",
    "millennium": f"({_YEAR} DIV 1000)",
    "isoyear": "EXTRACT(YEAROFWEEK FROM {0})",
}


def _ends(call: Call) -> tuple[str, list[TypedSql]]:
    """Return the unit and the two dates or timestamps of a difference."""
    ends = [call.value(1), call.value(2)]
    if not all(is_moment(v.type) for v in ends):
        raise call.refusal(f"{call.name} of {', '.join(str(v.type) for v in ends)}")
    return _part_name(call, 0), ends


def _date_difference(call: Call) -> TypedSql | None:
    """Translate `date_diff`: the number of unit boundaries between two values."""
    unit, (first, last) = _ends(call)
    if unit in ("day", "dow", "doy", "isodow"):
        return TypedSql(f"CAST(DATEDIFF(CAST({last.sql} AS DATE), CAST({first.sql} AS DATE)) AS BIGINT)", LONG)
    if unit in _COUNTED:
        sql = f"({_COUNTED[unit].format(last.sql)} - {_COUNTED[unit].format(first.sql)})"
        return TypedSql(f"CAST({sql} AS BIGINT)", LONG)
    if unit in _CLOCK_US:
        truncated = [micros(TypedSql(f"DATE_TRUNC('{unit.upper()}', {v.sql})", _INSTANT)) for v in (last, first)]
        return TypedSql(f"(({truncated[0]} - {truncated[1]}) DIV {_CLOCK_US[unit]}L)", LONG)
    raise call.refusal(f"{call.name} in {unit}s", "use date_diff('day', …)")


def _whole_between(call: Call) -> TypedSql | None:
    """Translate `date_sub`: the number of whole units between two values."""
    unit, (first, last) = _ends(call)
    units = {"week": 7 * _DAY_US, "day": _DAY_US, **_CLOCK_US}
    if unit not in units:
        raise call.refusal(f"{call.name} in {unit}s", "use date_diff()")
    if _INSTANT in (first.type, last.type):
        raise call.refusal(f"{call.name} of a TIMESTAMP WITH TIME ZONE", "use AT TIME ZONE 'UTC'")
    return TypedSql(f"(({micros(last)} - {micros(first)}) DIV {units[unit]}L)", LONG)


_NAMES = {
    "day": ("day", "dayofmonth"),
    "dow": ("dayofweek", "weekday"),
    "doy": ("dayofyear",),
    "week": ("week", "weekofyear"),
}
"""The function names of parts, if they are not only the part's name."""

FUNCTIONS = (
    *(Function(_NAMES.get(part, (part,)), _part_of(part), 1) for part in (*_DATES, *_CLOCKS, "epoch")),
    Function(("date_part", "datepart", "extract"), lambda call: _part(call, _part_name(call, 0), call.value(1)), 2),
    Function(("date_trunc", "datetrunc"), _truncate, 2),
    Function(("date_diff", "datediff"), _date_difference, 3),
    Function(("date_sub", "datesub"), _whole_between, 3),
)
