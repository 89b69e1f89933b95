"""Window functions: windows with names, and frames (ROWS, RANGE, and the GROUPS that are RANGE)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.metadata.model import schema as dt
from harness.queries.transpile.aggregates import Aggregate, lowered
from harness.queries.transpile.functions import moments
from harness.queries.transpile.ordered_aggregates import direction, ordered, whole
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import DOUBLE, LONG, Typed, alike, is_moment, type_name

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


_BOUNDS = ("start", "end")
_DAY_US = 86_400_000_000
_EVERYTHING = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def _frame(expressions: Expressions, frame: exp.WindowSpec, order: list[exp.Expr]) -> str:
    """The frame in Spark's SQL. Raises UnsupportedError."""
    kind, left_out = str(frame.args.get("kind") or "").upper(), frame.args.get("exclude")
    if left_out is not None and left_out.name.upper() != "NO OTHERS":
        raise refused(frame, f"EXCLUDE {left_out.name.upper()}", "write the frame without EXCLUDE")
    if kind == "GROUPS":
        if any(isinstance(frame.args.get(end), exp.Expr) for end in _BOUNDS):
            raise refused(frame, "GROUPS by numbers", "use RANGE over a dense_rank() of a query inside")
        kind = "RANGE"  # which goes by groups of equal rows where it counts nothing
    if kind not in ("ROWS", "RANGE"):
        raise refused(frame, "this frame")
    spans = [moments.interval(frame.args[end]) for end in _BOUNDS if isinstance(frame.args.get(end), exp.Interval)]
    if len({span is not None and span[0] > 0 for span in spans}) > 1:
        raise refused(frame, "a frame of months on one side and days on the other")
    if kind == "RANGE" and not order:  # where all rows are peers; Spark has no RANGE there
        return _EVERYTHING
    only = order[0].this if len(order) == 1 else None
    counted = kind == "ROWS" or (only is not None and isinstance(expressions.translate(only).type, dt.IntegerType))
    start = _bound(frame, "start", counted=counted)
    end = _bound(frame, "end", counted=counted) if frame.args.get("end") is not None else "CURRENT ROW"
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(frame: exp.WindowSpec, end: str, *, counted: bool) -> str:
    bound, side = frame.args.get(end), str(frame.args.get(f"{end}_side") or "").upper()
    if isinstance(bound, str) and bound.upper() in ("UNBOUNDED", "CURRENT ROW"):
        return f"{bound.upper()} {side}".strip()
    if isinstance(bound, exp.Literal) and bound.name.isdigit() and not bound.is_string and counted and side:
        return f"{bound.name} {side}"
    span = moments.interval(bound) if isinstance(bound, exp.Interval) else None
    if span is not None and side and min(span) >= 0:
        months, days, clock = span
        if not months:
            micros = days * _DAY_US + clock
            return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND {side}"
        if not days and not clock:
            return f"INTERVAL '{months}' MONTH {side}"
    raise refused(frame, "this frame")


_RANKS: dict[type[exp.Expr], tuple[str, dt.Type]] = {
    exp.RowNumber: ("ROW_NUMBER", LONG),
    exp.Rank: ("RANK", LONG),
    exp.DenseRank: ("DENSE_RANK", LONG),
    exp.PercentRank: ("PERCENT_RANK", DOUBLE),
    exp.CumeDist: ("CUME_DIST", DOUBLE),
}
_IN_ORDER = (
    *(*_RANKS, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.First, exp.Last, exp.NthValue),
)
"""Functions that mean something in an order only."""


def with_windows(select: exp.Select) -> exp.Select:
    """The SELECT with the windows of its WINDOW clause in the places where their names stand."""
    definitions = select.args.get("windows")
    if not definitions:
        return select
    named: dict[str, exp.Window] = {}
    for definition in definitions:
        named[definition.name.casefold()] = _filled(definition, named)
    for window in list(select.find_all(exp.Window)):
        if window.find_ancestor(exp.Select) is select and window.args.get("alias") and window not in definitions:
            window.replace(_filled(window, named))
    select.set("windows", None)
    return select


def _filled(window: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
    """A window with the clauses of the window that it names."""
    name = window.args.get("alias")
    if name is None:
        return window
    base = named.get(name.name.casefold())
    if base is None:
        raise refused(window, f"the window {name.name}")
    window = window.copy()
    window.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        said = base.args.get(part)
        if said and not window.args.get(part):
            window.set(part, [p.copy() for p in said] if isinstance(said, list) else said.copy())
    return window


def translate(expressions: Expressions, node: exp.Expr) -> Typed | None:
    """The window function; None if the node is none. Raises UnsupportedError."""
    if not isinstance(node, exp.Window):
        return None
    if node.args.get("alias") or node.args.get("first") is not None:
        raise refused(node, "a named window")
    over = _over(expressions, node)
    call, nulls = node.this, ""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) and not isinstance(call.this, exp.AnyValue):
        nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
        call = call.this
    if isinstance(call, _IN_ORDER) and node.args.get("order") is None:
        raise refused(node, "a place in a window without an order", "add ORDER BY to the window")
    match call:
        case _ if type(call) in _RANKS:
            rank, type_ = _RANKS[type(call)]
            return Typed(f"CAST({rank}(){over} AS {type_name(type_)})", type_)
        case exp.Ntile():
            return Typed(f"CAST(NTILE({whole(call, call.this)}){over} AS BIGINT)", LONG)
        case exp.Lag() | exp.Lead():
            offset = call.args.get("offset")
            if offset is not None and (not isinstance(offset, exp.Literal) or offset.is_string):
                raise refused(call, "an offset that is no literal")
            shown = [call.this, *filter(None, [call.args.get("default")])]
            texts, type_ = alike(map(expressions.translate, shown), call.sql_name())
            arguments = [texts[0], "1" if offset is None else offset.name, *texts[1:]]
            return Typed(f"{call.sql_name()}({', '.join(arguments)}){nulls}{over}", type_)
        case exp.FirstValue() | exp.LastValue() | exp.First() | exp.Last() if not isinstance(call.this, exp.Order):
            value = expressions.translate(call.this)
            name = "FIRST_VALUE" if isinstance(call, exp.FirstValue | exp.First) else "LAST_VALUE"
            return Typed(f"{name}({value.sql}){nulls}{over}", value.type)
        case exp.NthValue():
            value = expressions.translate(call.this)
            return Typed(f"NTH_VALUE({value.sql}, {whole(call, call.args['offset'])}){nulls}{over}", value.type)
        case _:
            found = None if nulls else lowered(Aggregate(expressions, call, over=over))
            if found is None:
                raise refused(node, f"the window function {call.sql('duckdb')}")
            return found


def _over(expressions: Expressions, node: exp.Window) -> str:
    """OVER with PARTITION BY, ORDER BY and the frame, in Spark's SQL."""
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        parts.append(f"PARTITION BY {', '.join(expressions.translate(p).sql for p in partition)}")
    order, frame = node.args.get("order"), node.args.get("spec")
    items = [] if order is None else order.expressions
    if frame is not None and any(isinstance(frame.args.get(end), exp.Interval) for end in _BOUNDS):
        value = expressions.translate(items[0].this) if len(items) == 1 else None
        if value is None or not is_moment(value.type):
            raise refused(node, "a RANGE of an interval over what is no date or timestamp")
        sql = f"CAST({value.sql} AS TIMESTAMP_NTZ)" if isinstance(value.type, dt.DateType) else value.sql
        parts.append(f"ORDER BY {sql}{direction(items[0])}")
    elif order is not None:
        parts.append(f"ORDER BY {', '.join(ordered(expressions, o) for o in items)}")
    if frame is not None:
        parts.append(_frame(expressions, frame, items))
    return f" OVER ({' '.join(parts)})"
