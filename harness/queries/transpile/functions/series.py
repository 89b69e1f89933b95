"""Series of numbers and of moments, as lists; in FROM they are rows."""

from __future__ import annotations

from harness.model.schema import IntegerType, TimestampType, UnknownType
from harness.queries.transpile.functions import intervals
from harness.queries.transpile.functions.lists import list_function, list_of
from harness.queries.transpile.functions.parameters import BIGINT, CLOCK, whole
from harness.queries.transpile.functions.registry import Call
from harness.queries.transpile.values import LONG, Typed


def _series(call: Call) -> Typed | None:
    """`range` leaves its end out, `generate_series` does not."""
    if not 1 <= len(call.arguments) <= 3:
        return None
    values = [call.value(place) for place in range(min(2, len(call.arguments)))]
    if all(isinstance(v.type, IntegerType | UnknownType) for v in values):
        return _numbers(call, values)
    if all(intervals.is_moment(v) and v.type != TimestampType(utc=True) for v in values) and len(call.arguments) == 3:
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
    parts = intervals.interval(call.arguments[2])
    if parts is None or min(parts) < 0 or max(parts) == 0 or (parts[0] and any(parts[1:])):
        raise call.refused(f"{call.name}() of dates by this step", "write it as an INTERVAL of one unit, from 1 on")
    start, end = CLOCK.taken(first), CLOCK.taken(last)
    made = f"SEQUENCE({start}, {end}, {intervals.written(parts).sql})"
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
