"""Frames of windows: ROWS, RANGE over integers and moments, and the GROUPS that are RANGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.model.schema import DateType, IntegerType
from harness.queries.transpile.functions import intervals
from harness.queries.transpile.ordering import direction
from harness.queries.transpile.refusal import refused

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions

_BOUNDS = ("start", "end")
_DAY_US = 86_400_000_000


def _units(frame: exp.WindowSpec) -> set[bool]:
    """Whether the bounds that are intervals have months."""
    spans = [intervals.interval(frame.args[end]) for end in _BOUNDS if isinstance(frame.args.get(end), exp.Interval)]
    return {span is not None and span[0] > 0 for span in spans}


def is_of_moments(frame: exp.WindowSpec) -> bool:
    """Whether a bound of the frame is an interval."""
    return any(isinstance(frame.args.get(end), exp.Interval) for end in _BOUNDS)


def moment(expressions: Expressions, node: exp.Window, items: list[exp.Expr]) -> str:
    """The order of such a frame, of timestamps. Raises UnsupportedError."""
    value = expressions.translate(items[0].this) if len(items) == 1 else None
    if value is None or not intervals.is_moment(value):
        raise refused(node, "a RANGE of an interval over what is no date or timestamp")
    sql = f"CAST({value.sql} AS TIMESTAMP_NTZ)" if isinstance(value.type, DateType) else value.sql
    return f"{sql}{direction(items[0])}"


def written(expressions: Expressions, frame: exp.WindowSpec, order: list[exp.Expr]) -> str:
    """The frame in Spark's SQL. Raises UnsupportedError."""
    kind, left_out = str(frame.args.get("kind") or "").upper(), frame.args.get("exclude")
    if left_out is not None and str(left_out.name).upper() != "NO OTHERS":
        raise refused(frame, f"EXCLUDE {left_out.name}, which Spark has not,")
    if kind == "GROUPS" and not any(isinstance(frame.args.get(end), exp.Expr) for end in _BOUNDS):
        kind = "RANGE"  # which goes by groups of equal rows where it counts nothing
    if kind not in ("ROWS", "RANGE"):
        raise refused(frame, "this frame", "write it with ROWS, or with RANGE over a dense_rank() of a query inside")
    if len(_units(frame)) > 1:
        raise refused(frame, "a frame of months on one side and days on the other")
    counted = kind == "ROWS" or _is_whole(expressions, order)
    start = _bound(frame, "start", counted=counted)
    end = _bound(frame, "end", counted=counted) if frame.args.get("end") is not None else "CURRENT ROW"
    return f"{kind} BETWEEN {start} AND {end}"


def _is_whole(expressions: Expressions, order: list[exp.Expr]) -> bool:
    """Whether the order is one of integers, of which a RANGE may take a few more or less."""
    return len(order) == 1 and isinstance(expressions.translate(order[0].this).type, IntegerType)


def _bound(frame: exp.WindowSpec, end: str, *, counted: bool) -> str:
    bound, side = frame.args.get(end), str(frame.args.get(f"{end}_side") or "").upper()
    if isinstance(bound, str) and bound.upper() in ("UNBOUNDED", "CURRENT ROW"):
        return f"{bound.upper()} {side}".strip()
    if isinstance(bound, exp.Literal) and bound.name.isdigit() and not bound.is_string and counted and side:
        return f"{bound.name} {side}"
    span = intervals.interval(bound) if isinstance(bound, exp.Interval) else None
    if span is not None and side and min(span) >= 0:
        months, days, clock = span
        if not months:
            micros = days * _DAY_US + clock
            return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND {side}"
        if not days and not clock:
            return f"INTERVAL '{months}' MONTH {side}"
    raise refused(frame, "this frame")
