"""Window functions, their frames, and windows with names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.queries.transpile import exclusions, frames
from harness.queries.transpile.aggregates import Aggregate, lowered
from harness.queries.transpile.frames import Exclusion
from harness.queries.transpile.ordering import ordered, whole
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import DOUBLE, LONG, Typed, alike

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions

_RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "ROW_NUMBER", exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK"}
_IN_ORDER = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead),
    *(exp.FirstValue, exp.LastValue, exp.First, exp.Last, exp.NthValue),
)
"""Functions that mean something in an order only."""
_SHARES: dict[type[exp.Expr], str] = {exp.PercentRank: "PERCENT_RANK", exp.CumeDist: "CUME_DIST"}


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
    """A window with what the one says whose name stands in it."""
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
    rows, frame = _window(expressions, node)
    over, call, nulls = frames.over(rows, frame), node.this, ""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) and not isinstance(call.this, exp.AnyValue):
        nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
        call = call.this
    if isinstance(call, _IN_ORDER) and node.args.get("order") is None:
        raise refused(node, "a place in a window without an order", "add ORDER BY to the window")
    left_out = _left_out(expressions, node, rows, frame)
    if left_out is not None:
        over_rest = Aggregate(expressions, call, over=over, left_out=left_out)
        return exclusions.translate(over_rest, ignore_nulls=bool(nulls))
    match call:
        case exp.RowNumber() | exp.Rank() | exp.DenseRank():
            return Typed(f"CAST({_RANKS[type(call)]}(){over} AS BIGINT)", LONG)
        case exp.PercentRank() | exp.CumeDist():
            return Typed(f"{_SHARES[type(call)]}(){over}", DOUBLE)
        case exp.Ntile():
            return Typed(f"CAST(NTILE({whole(call, call.this)}){over} AS BIGINT)", LONG)
        case exp.Lag() | exp.Lead():
            return _neighbour(expressions, call, nulls + over)
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


def _neighbour(expressions: Expressions, call: exp.Lag | exp.Lead, over: str) -> Typed:
    offset = call.args.get("offset")
    if offset is not None and (not isinstance(offset, exp.Literal) or offset.is_string):
        raise refused(call, "an offset that is no literal")
    values = [expressions.translate(call.this)]
    if call.args.get("default") is not None:
        values.append(expressions.translate(call.args["default"]))
    texts, type_ = alike(values, call.sql_name())
    arguments = [texts[0], "1" if offset is None else offset.name, *texts[1:]]
    return Typed(f"{call.sql_name()}({', '.join(arguments)}){over}", type_)


def _window(expressions: Expressions, node: exp.Window) -> tuple[str, frames.Frame | None]:
    """PARTITION BY and ORDER BY in Spark's SQL, and the frame if one is said."""
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        parts.append(f"PARTITION BY {', '.join(expressions.translate(p).sql for p in partition)}")
    order, frame = node.args.get("order"), node.args.get("spec")
    items = [] if order is None else order.expressions
    if frame is not None and frames.is_of_moments(frame):
        parts.append(f"ORDER BY {frames.moment(expressions, node, items)}")
    elif order is not None:
        parts.append(f"ORDER BY {', '.join(ordered(expressions, o) for o in items)}")
    return " ".join(parts), None if frame is None else frames.written(expressions, frame, items)


def _left_out(expressions: Expressions, node: exp.Window, rows: str, frame: frames.Frame | None) -> Exclusion | None:
    """What EXCLUDE leaves out of the frame; None: nothing."""
    kind = "" if frame is None else frames.excluded(node.args["spec"])
    if not kind or frame is None:
        return None
    if not frame.holds_its_row and frame.kind == "RANGE":
        raise refused(node, "EXCLUDE in a frame without the row", "write the frame without EXCLUDE")
    order = node.args.get("order")
    items = [] if order is None else order.expressions
    keys = tuple(expressions.translate(o.this if isinstance(o, exp.Ordered) else o).sql for o in items)
    return Exclusion(kind, rows, keys, frame)
