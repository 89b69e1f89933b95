"""Intervals, and the differences of timestamps: neither leaves a query, both move and measure."""

from __future__ import annotations

import re

from sqlglot import exp

from harness.metadata.filters.literals import Kind, literal_of
from harness.metadata.model.schema import DateType, IntegerType, OpaqueType, TimestampType, UnknownType
from harness.queries.transpile.functions.lists import list_function, list_of
from harness.queries.transpile.functions.registry import BIGINT, CLOCK, Call, whole
from harness.queries.transpile.values import LONG, Typed

INTERVAL = OpaqueType("interval")
"""Months, days and microseconds; on Spark a CalendarInterval."""
SPAN = OpaqueType("difference of timestamps")
"""What DuckDB gives for `timestamp - timestamp`, an interval without months; on Spark its microseconds, a BIGINT."""

_MONTHS = {"year": 12, "quarter": 3, "month": 1, "decade": 120, "century": 1200, "millennium": 12000}
_DAYS = {"week": 7, "day": 1}
_CLOCK = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1}
_DAY_US = 86_400_000_000


def is_timestamp(value: Typed) -> bool:
    """Whether it is a moment that has microseconds."""
    return isinstance(value.type, TimestampType) and value.type.unit == "us"


def is_moment(value: Typed) -> bool:
    """Whether it is a date or a timestamp."""
    return isinstance(value.type, DateType) or is_timestamp(value)


def micros(value: Typed) -> str:
    """Microseconds since 1970 of a DATE or TIMESTAMP."""
    if isinstance(value.type, DateType):
        return f"(CAST(UNIX_DATE({value.sql}) AS BIGINT) * {_DAY_US}L)"
    instant = value.sql if value.type == TimestampType(utc=True) else f"CAST({value.sql} AS TIMESTAMP)"
    return f"UNIX_MICROS({instant})"


def amount(value: Typed, unit: str) -> Typed | None:
    """An interval of so many units; None if that is no number of 32 bits."""
    if not isinstance(value.type, IntegerType) or value.type.bits > 32:
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
    return Typed(f"MAKE_INTERVAL({', '.join(arguments)})", INTERVAL)


def interval(node: exp.Expr) -> tuple[int, int, int] | None:
    """Months, days and microseconds of an interval that is a literal; None if it is none that is understood."""
    if not isinstance(node, exp.Interval) or node.this is None:
        return None
    unit, literal = node.args.get("unit"), literal_of(node.this)
    if literal is None:
        return None
    if isinstance(unit, exp.Var):
        text = str(literal.value) if literal.kind in (Kind.INTEGER, Kind.STRING) else ""
        return _of_text(f"{text.strip()} {unit.name}")
    return _of_text(str(literal.value)) if unit is None and literal.kind is Kind.STRING else None


def _of_text(text: str) -> tuple[int, int, int] | None:
    parts = re.findall(r"\s*([+-]?\d{1,9})\s+([A-Za-z]+)(?=\s|$)", text)
    if not parts or re.sub(r"\s*([+-]?\d{1,9})\s+([A-Za-z]+)(?=\s|$)", "", text).strip():
        return None
    months = days = clock = 0
    for count, name in parts:
        unit = name.lower() if name.lower() in _UNITS else name.lower().removesuffix("s")
        if unit in _MONTHS:
            months += int(count) * _MONTHS[unit]
        elif unit in _DAYS:
            days += int(count) * _DAYS[unit]
        elif unit in _CLOCK:
            clock += int(count) * _CLOCK[unit]
        else:
            return None
    return months, days, clock


_UNITS = {*_MONTHS, *_DAYS, *_CLOCK}


def written(parts: tuple[int, int, int]) -> Typed:
    """An interval in Spark's SQL."""
    months, days, clock = parts
    sign = "-" if clock < 0 else ""
    seconds = f"{sign}{abs(clock) // 1_000_000}.{abs(clock) % 1_000_000:06d}BD"
    return Typed(f"MAKE_INTERVAL(0, {months}, 0, {days}, 0, 0, {seconds})", INTERVAL)


def span(parts: tuple[int, int, int]) -> Typed | None:
    """An interval without months, as a difference of timestamps."""
    months, days, clock = parts
    return None if months else Typed(f"{days * _DAY_US + clock}L", SPAN)


def of_node(node: exp.Expr, count: Typed | None) -> Typed | None:
    """`INTERVAL …`; count: its amount, lowered, where it is no literal."""
    parts = interval(node)
    if parts is not None:
        return written(parts)
    unit = node.args.get("unit")
    if count is None or not isinstance(unit, exp.Var):
        return None
    return amount(count, unit.name.lower().removesuffix("s"))


def moved(base: Typed, by: Typed, sign: str) -> Typed | None:
    """A DATE or TIMESTAMP plus or minus an interval; None for other types."""
    if by.type != INTERVAL:
        return None
    if isinstance(base.type, DateType):
        return Typed(f"(CAST({base.sql} AS TIMESTAMP_NTZ) {sign} {by.sql})", TimestampType())
    return Typed(f"({base.sql} {sign} {by.sql})", base.type) if is_timestamp(base) else None


def difference(left: Typed, right: Typed) -> Typed | None:
    """A timestamp minus a timestamp or a date; None for other types."""
    values = (left, right)
    if not all(is_timestamp(v) or isinstance(v.type, DateType) for v in values):
        return None
    if TimestampType(utc=True) in (left.type, right.type) and left.type != right.type:
        return None
    return Typed(f"({micros(left)} - {micros(right)})", SPAN)


def times(factor: Typed, by: Typed) -> Typed | None:
    """A whole number of 32 bits times an interval."""
    if by.type != INTERVAL or not isinstance(factor.type, IntegerType) or factor.type.bits > 32:
        return None
    return Typed(f"({by.sql} * {factor.sql})", INTERVAL)


# Series of numbers and of moments, as lists; in FROM they are rows.


def _series(call: Call) -> Typed | None:
    """`range` leaves its end out, `generate_series` does not."""
    if not 1 <= len(call.arguments) <= 3:
        return None
    values = [call.value(place) for place in range(min(2, len(call.arguments)))]
    if all(isinstance(v.type, IntegerType | UnknownType) for v in values):
        return _numbers(call, values)
    if all(is_moment(v) and v.type != TimestampType(utc=True) for v in values) and len(call.arguments) == 3:
        return _moments(call, *values)
    return None


def _numbers(call: Call, values: list[Typed]) -> Typed:
    step = 1 if len(call.arguments) < 3 else whole(call.value(2))
    if step is None or step == 0:
        raise call.refused(f"{call.name}() with a step that is no literal")
    start, end = ("0L" if v is None else BIGINT.taken(v) for v in (values if len(values) == 2 else [None, *values]))
    if call.name == "range":
        end = f"({end} {'-' if step > 0 else '+'} 1L)"
    forward, back = (">=", "<") if step > 0 else ("<=", ">")
    made = f"SEQUENCE({start}, {end}, CAST({step} AS BIGINT))"
    nothing = "CAST(ARRAY() AS ARRAY<BIGINT>)"
    sql = f"CASE WHEN {end} {forward} {start} THEN {made} WHEN {end} {back} {start} THEN {nothing} END"
    return Typed(sql, list_of(LONG))


def _moments(call: Call, first: Typed, last: Typed) -> Typed:
    parts = interval(call.arguments[2])
    if parts is None or min(parts) < 0 or max(parts) == 0 or (parts[0] and any(parts[1:])):
        raise call.refused(f"{call.name}() of dates by this step", "write it as an INTERVAL of one unit, from 1 on")
    start, end = CLOCK.taken(first), CLOCK.taken(last)
    made = f"SEQUENCE({start}, {end}, {written(parts).sql})"
    if call.name == "range":
        made = f"FILTER({made}, v -> v < {end})"
    if parts[0]:
        # DuckDB goes on from the month before, whose last day may be an earlier one.
        message = "'harness: a series by months from behind the 28th differs between the engines'"
        made = f"CASE WHEN DAY({start}) > 28 THEN RAISE_ERROR({message}) ELSE {made} END"
    nothing = "CAST(ARRAY() AS ARRAY<TIMESTAMP_NTZ>)"
    sql = f"CASE WHEN {end} >= {start} THEN {made} WHEN {end} < {start} THEN {nothing} END"
    return Typed(sql, list_of(TimestampType()))


FUNCTIONS = tuple(
    list_function(
        (name,),
        _series,
        "[BIGINT,] BIGINT[, a literal]; DATE or TIMESTAMP twice, INTERVAL",
        "SEQUENCE",
        f"{name}({{count}})",
        f"{name}({{count}}, {{small}} % 100)",
        f"{name}({{count}}, 0, -2)",
        f"{name}(DATE '2024-01-01' - {{count}}, DATE '2024-01-05', INTERVAL 36 HOURS)",
        f"{name}(TIMESTAMP '2024-01-28 10:00:00', TIMESTAMP '2025-01-28 10:00:00', INTERVAL 1 MONTH)",
        agree="in FROM and in UNNEST too",
        outside="an error for months from behind the 28th; refused: steps that are no literals",
    )
    for name in ("range", "generate_series")
)
