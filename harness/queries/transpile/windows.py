"""Window functions: windows with names, frames (ROWS, RANGE, and the GROUPS that are RANGE), and EXCLUDE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.metadata.model.schema import BooleanType, DateType, DecimalType, FloatType, IntegerType, Type
from harness.queries.transpile import ordered_aggregates
from harness.queries.transpile.aggregates import Aggregate, extreme, lowered, plainer
from harness.queries.transpile.functions import moments
from harness.queries.transpile.functions.nested import total
from harness.queries.transpile.ordered_aggregates import direction, of_list, ordered, whole
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import BOOLEAN, DOUBLE, HUGE, LONG, Typed, added_as, alike, coerced, type_name

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


_BOUNDS = ("start", "end")
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in Spark's words: ROWS or RANGE, and its bounds."""

    kind: str
    start: str
    end: str

    @property
    def sql(self) -> str:
        """The frame's words in the window."""
        return f"{self.kind} BETWEEN {self.start} AND {self.end}"

    @property
    def holds_its_row(self) -> bool:
        """Tells whether the frame's own row is always in it; if not, it never is, except for nulls of a RANGE."""
        return _reaches(self.start, "PRECEDING") and _reaches(self.end, "FOLLOWING")


def _reaches(bound: str, side: str) -> bool:
    return bound == "CURRENT ROW" or bound.endswith(side) or bound.startswith("0 ")


def over_clause(rows: str, frame: Frame | None) -> str:
    """OVER of a window with this PARTITION BY and ORDER BY, as it follows a call."""
    return f" OVER ({' '.join(part for part in (rows, frame.sql if frame else '') if part)})"


EVERYTHING = Frame("ROWS", "UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING")


def excluded(frame: exp.WindowSpec) -> str:
    """The word of EXCLUDE: CURRENT ROW, GROUP, TIES; empty: nothing is left out."""
    word = frame.args.get("exclude")
    said = "" if word is None else str(word.name).upper()
    return "" if said == "NO OTHERS" else said


def _units(frame: exp.WindowSpec) -> set[bool]:
    """Tells whether the bounds that are intervals have months."""
    spans = [moments.interval(frame.args[end]) for end in _BOUNDS if isinstance(frame.args.get(end), exp.Interval)]
    return {span is not None and span[0] > 0 for span in spans}


def counts_groups(frame: exp.WindowSpec) -> bool:
    """Tells whether the frame is of GROUPS and says how many."""
    is_groups = str(frame.args.get("kind") or "").upper() == "GROUPS"
    return is_groups and any(isinstance(frame.args.get(end), exp.Expr) for end in _BOUNDS)


def is_of_moments(frame: exp.WindowSpec) -> bool:
    """Tells whether a bound of the frame is an interval."""
    return any(isinstance(frame.args.get(end), exp.Interval) for end in _BOUNDS)


def moment(expressions: Expressions, node: exp.Window, items: list[exp.Expr]) -> str:
    """The order of such a frame, of timestamps. Raises UnsupportedError."""
    value = expressions.translate(items[0].this) if len(items) == 1 else None
    if value is None or not moments.is_moment(value):
        raise refused(node, "a RANGE of an interval over what is no date or timestamp")
    sql = f"CAST({value.sql} AS TIMESTAMP_NTZ)" if isinstance(value.type, DateType) else value.sql
    return f"{sql}{direction(items[0])}"


def written(expressions: Expressions, frame: exp.WindowSpec, order: list[exp.Expr]) -> Frame:
    """The frame in Spark's SQL. Raises UnsupportedError."""
    kind = str(frame.args.get("kind") or "").upper()
    if kind == "GROUPS" and not counts_groups(frame):
        kind = "RANGE"  # which goes by groups of equal rows where it counts nothing
    if kind not in ("ROWS", "RANGE"):
        raise refused(frame, "this frame")
    if len(_units(frame)) > 1:
        raise refused(frame, "a frame of months on one side and days on the other")
    if kind == "RANGE" and not order:  # where all rows are peers; Spark has no RANGE there
        return EVERYTHING
    counted = kind == "ROWS" or (len(order) == 1 and isinstance(expressions.translate(order[0].this).type, IntegerType))
    start = _bound(frame, "start", counted=counted)
    end = _bound(frame, "end", counted=counted) if frame.args.get("end") is not None else "CURRENT ROW"
    return Frame(kind, start, end)


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


# EXCLUDE, which Spark has not: the rest of a frame becomes a list. A row is known by its place among the rows of its
# frame, and its peers by having its order.


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The rows that EXCLUDE leaves out.

    kind: CURRENT ROW, GROUP or TIES. rows: PARTITION BY and ORDER BY of the window. keys: its order.
    """

    kind: str
    rows: str
    keys: tuple[str, ...]
    frame: Frame

    def left(self, fields: str, conditions: Sequence[str] = ()) -> str:
        """The rows that are left, in the order of the window.

        fields: names and values of a row, as NAMED_STRUCT takes them. conditions: those of rows that count.
        """
        own = "".join(f", 'p{i}', {key}" for i, key in enumerate(self.keys))
        counts = f", 'f', {' AND '.join(conditions)}" if conditions else ""
        rows = f"COLLECT_LIST(NAMED_STRUCT({fields}{own}{counts})){over_clause(self.rows, self.frame)}"
        peer = " AND ".join(f"y.p{i} <=> w.p{i}" for i in range(len(self.keys))) or "true"
        itself = "i + 1 = w.place"
        stays = {"CURRENT ROW": f"NOT ({itself})", "GROUP": f"NOT ({peer})", "TIES": f"(NOT ({peer}) OR {itself})"}[
            self.kind
        ] + (" AND y.f" if conditions else "")
        # A lambda may hold no window function and no aggregate: values of the row that it needs stand beside the list.
        given = f"NAMED_STRUCT('rows', {rows}, 'place', {self._place()}{own})"
        return f"TRY_ELEMENT_AT(TRANSFORM(ARRAY({given}), w -> FILTER(w.rows, (y, i) -> {stays})), 1)"

    def _place(self) -> str:
        """The place of the row among those of its frame; 0: it is not there."""
        if self.kind == "GROUP" or not self.frame.holds_its_row:
            return "0"
        number = self._count(Frame("ROWS", "UNBOUNDED PRECEDING", "CURRENT ROW"))
        if self.frame.start == "UNBOUNDED PRECEDING":
            return number
        up_to_here = self._count(Frame(self.frame.kind, self.frame.start, "CURRENT ROW"))
        if self.frame.kind == "ROWS":
            return up_to_here
        before = f"{self._count(Frame('RANGE', 'UNBOUNDED PRECEDING', 'CURRENT ROW'))} - {up_to_here}"
        return f"{number} - ({before})"

    def _count(self, frame: Frame) -> str:
        return f"COUNT(*){over_clause(self.rows, frame)}"


# Aggregates over a frame with EXCLUDE. Counts and exact sums are those of the frame, less those of the excluded rows.
# All others reduce the list of the rest, which is dear where frames are large.


_PEERS = Frame("RANGE", "CURRENT ROW", "CURRENT ROW")


def are_certain(left_out: Exclusion) -> bool:
    """Tells whether all that is left out stands in the frame."""
    return left_out.frame.holds_its_row and (left_out.kind == "CURRENT ROW" or left_out.frame.kind == "RANGE")


def counted(left_out: Exclusion, value: str) -> str:
    """The number of values that are not null."""
    own = f"CASE WHEN ({value}) IS NOT NULL THEN 1L ELSE 0L END"
    return _less(left_out, lambda window: f"COUNT({value}){window}", own, "BIGINT")


def subtracted_total(left_out: Exclusion, value: str, type_: Type) -> str:
    """The sum of the values, none of them a float; null for none."""
    name, shown = type_name(added_as(type_)), type_name(type_)
    cast, zero = f"CAST({value} AS {name})", f"CAST(0 AS {name})"
    left = _less(left_out, lambda window: f"COALESCE(SUM({cast}){window}, {zero})", f"COALESCE({cast}, {zero})", name)
    return f"CASE WHEN {counted(left_out, value)} > 0 THEN CAST({left} AS {shown}) END"


def _less(left_out: Exclusion, of: Callable[[str], str], own: str, type_: str) -> str:
    """The difference, in a type that each step keeps."""
    whole = f"CAST({of(over_clause(left_out.rows, left_out.frame))} AS {type_})"
    if left_out.kind == "CURRENT ROW":
        return f"CAST({whole} - {own} AS {type_})"
    others = f"CAST({whole} - CAST({of(over_clause(left_out.rows, _PEERS))} AS {type_}) AS {type_})"
    return others if left_out.kind == "GROUP" else f"CAST({others} + {own} AS {type_})"


def over_rest(call: Aggregate, *, ignore_nulls: bool) -> Typed:
    """The window function. Raises UnsupportedError: it is none that can be had from a list."""
    if isinstance(call.node, exp.Filter):
        condition = call.expressions.boolean(call.node.expression.this)
        return over_rest(replace(call, node=call.node.this).only(condition), ignore_nulls=ignore_nulls)
    call = plainer(call)
    node = call.node
    if isinstance(node, exp.FirstValue | exp.LastValue | exp.First | exp.Last | exp.NthValue) and not isinstance(
        node.this, exp.Order
    ):
        return _at(call, ignore_nulls=ignore_nulls)
    reduce = _REDUCED.get(type(node))
    if reduce is None or ignore_nulls:
        raise refused(node, f"{node.sql('duckdb')} with EXCLUDE")
    return reduce(call)


def _rows(call: Aggregate, value: str) -> str:
    assert call.left_out is not None
    rows = call.left_out.left(f"'v', {value}", call.conditions)
    return f"TRANSFORM({rows}, r -> r.v)"


def _some(call: Aggregate, value: str) -> str:
    """The values that are no nulls."""
    return f"FILTER({_rows(call, value)}, r -> r IS NOT NULL)"


def _of_some(call: Aggregate, value: str, body: str, type_: Type) -> Typed:
    """An expression of these values as `y`; null where there are none."""
    return Typed(of_list(_some(call, value), f"CASE WHEN SIZE(y) > 0 THEN {body} END"), type_)


def _count(call: Aggregate) -> Typed:
    is_star = isinstance(call.node.this, exp.Star)
    return Typed(_number_of(call, "true" if is_star else call.argument()[1].sql), LONG)


def _count_if(call: Aggregate) -> Typed:
    condition = call.expressions.boolean(call.node.this)
    return Typed(_total(call, f"CAST({condition} AS INT)", HUGE), HUGE)


def _sum(call: Aggregate) -> Typed:
    value, type_ = _number(call)
    return Typed(_total(call, value, type_), type_)


def _average(call: Aggregate) -> Typed:
    value, type_ = _number(call)
    return Typed(f"(CAST({_total(call, value, type_)} AS DOUBLE) / NULLIF({_number_of(call, value)}, 0))", DOUBLE)


def _number_of(call: Aggregate, value: str) -> str:
    """The number of values that are no nulls."""
    if call.left_out is not None and are_certain(call.left_out):
        return counted(call.left_out, _where(call, value))
    return f"CAST(SIZE({_some(call, value)}) AS BIGINT)"


def _total(call: Aggregate, value: str, type_: Type) -> str:
    """The sum of the values; null for none. Doubles are added, since a difference would not have their last bits."""
    if call.left_out is not None and are_certain(call.left_out) and type_ != DOUBLE:
        return subtracted_total(call.left_out, _where(call, value), type_)
    return _of_some(call, value, total("y", type_), type_).sql


def _where(call: Aggregate, value: str) -> str:
    """The value, null in rows that do not count."""
    return f"CASE WHEN {' AND '.join(call.conditions)} THEN {value} END" if call.conditions else value


def _number(call: Aggregate) -> tuple[str, Type]:
    """An argument, and the type of its sum."""
    value = call.argument()[1]
    match value.type:
        case FloatType():
            return coerced(value, DOUBLE, "sum"), DOUBLE
        case DecimalType(scale=scale):
            return value.sql, DecimalType(38, scale)
        case exact if isinstance(exact, IntegerType) or exact == HUGE:
            return value.sql, HUGE
        case _:
            raise refused(call.node, f"a sum of {value.type}")


def _extreme(call: Aggregate) -> Typed:
    name = "ARRAY_MAX" if isinstance(call.node, exp.Max) else "ARRAY_MIN"
    return extreme(call, lambda value: _of_some(call, value.sql, f"{name}(y)", value.type))


def _logical(call: Aggregate) -> Typed:
    value = call.argument()[1]
    if not isinstance(value.type, BooleanType):
        raise refused(call.node)
    name = "FORALL" if isinstance(call.node, exp.LogicalAnd) else "EXISTS"
    return _of_some(call, value.sql, f"{name}(y, b -> b)", BOOLEAN)


def _at(call: Aggregate, *, ignore_nulls: bool) -> Typed:
    """`first_value`, `last_value` and `nth_value`."""
    place = "-1" if isinstance(call.node, exp.LastValue | exp.Last) else "1"
    if isinstance(call.node, exp.NthValue):
        place = str(whole(call.node, call.node.args["offset"]))
    value = call.expressions.translate(call.node.this)
    values = _some(call, value.sql) if ignore_nulls else _rows(call, value.sql)
    return Typed(f"TRY_ELEMENT_AT({values}, {place})", value.type)


_REDUCED: Mapping[type[exp.Expr], Callable[[Aggregate], Typed]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _extreme,
    exp.Max: _extreme,
    exp.LogicalAnd: _logical,
    exp.LogicalOr: _logical,
    **ordered_aggregates.BY_ORDER,
}


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
    rows, frame = _window(expressions, node)
    call, nulls = node.this, ""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) and not isinstance(call.this, exp.AnyValue):
        nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
        call = call.this
    if isinstance(call, _IN_ORDER) and node.args.get("order") is None:
        raise refused(node, "a place in a window without an order", "add ORDER BY to the window")
    left_out = _left_out(expressions, node, rows, frame)
    over = over_clause(rows, frame)
    aggregate = Aggregate(expressions, call, over=over, left_out=left_out)
    if left_out is not None:
        return over_rest(aggregate, ignore_nulls=bool(nulls))
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
            found = None if nulls else lowered(aggregate)
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


def _window(expressions: Expressions, node: exp.Window) -> tuple[str, Frame | None]:
    """PARTITION BY and ORDER BY in Spark's SQL, and the frame if one is said."""
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        parts.append(f"PARTITION BY {', '.join(expressions.translate(p).sql for p in partition)}")
    order, frame = node.args.get("order"), node.args.get("spec")
    items = [] if order is None else order.expressions
    if frame is not None and is_of_moments(frame):
        parts.append(f"ORDER BY {moment(expressions, node, items)}")
    elif order is not None:
        parts.append(f"ORDER BY {', '.join(ordered(expressions, o) for o in items)}")
    return " ".join(parts), None if frame is None else written(expressions, frame, items)


def _left_out(expressions: Expressions, node: exp.Window, rows: str, frame: Frame | None) -> Exclusion | None:
    """The rows that EXCLUDE leaves out of the frame; None: nothing."""
    kind = "" if frame is None else excluded(node.args["spec"])
    if not kind or frame is None:
        return None
    if not frame.holds_its_row and frame.kind == "RANGE":
        raise refused(node, "EXCLUDE in a frame without the row", "write the frame without EXCLUDE")
    order = node.args.get("order")
    items = [] if order is None else order.expressions
    keys = tuple(expressions.translate(o.this if isinstance(o, exp.Ordered) else o).sql for o in items)
    return Exclusion(kind, rows, keys, frame)
