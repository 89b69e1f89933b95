"""Aggregates, each with an entry in a table, and window functions. DuckDB has already checked that they are allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.engines.spark.transpile import ordered_aggregates, spark_text
from harness.engines.spark.transpile.functions import moments
from harness.engines.spark.transpile.ordered_aggregates import check_ordered, direction, order_item, positive_literal
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import (
    DOUBLE,
    HUGE,
    LONG,
    TypedSql,
    coerce,
    is_moment,
    is_number,
    list_of,
    type_name,
    with_common_type,
)
from harness.metadata.model import schema as dt

if TYPE_CHECKING:
    from harness.engines.spark.transpile.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate in a query.

    Attributes:
        expressions: The translator of its arguments.
        node: The call.
        conditions: Conditions in Spark's SQL. The aggregate uses only rows that satisfy all of them.
        over: The window clause that follows the call. Empty if there is none.
    """

    expressions: Expressions
    node: exp.Expr
    conditions: tuple[str, ...] = ()
    over: str = ""

    @property
    def suffix(self) -> str:
        """FILTER and OVER, which follow the call."""
        where = f" FILTER (WHERE {' AND '.join(self.conditions)})" if self.conditions else ""
        return where + self.over

    def with_conditions(self, *conditions: str) -> Aggregate:
        """Return the aggregate with further conditions on its rows."""
        return replace(self, conditions=(*self.conditions, *conditions))

    def argument(self) -> tuple[str, TypedSql]:
        """Return `DISTINCT ` or an empty text, and the only argument. Calls with other modifiers are refused."""
        inner, word = self.node.this, ""
        if isinstance(inner, exp.Distinct):
            if len(inner.expressions) != 1 or inner.args.get("on") is not None:
                raise refusal(self.node)
            inner, word = inner.expressions[0], "DISTINCT "
        if self.node.expressions or isinstance(inner, exp.Order | exp.Limit | exp.IgnoreNulls | exp.HavingMax):
            raise refusal(self.node)
        if word and self.over:
            raise refusal(self.node, "DISTINCT in a window function")
        if isinstance(inner, exp.Tuple) and isinstance(self.node, exp.Count):
            # Several values are counted as one tuple. A tuple of nulls is not null.
            values = [self.expressions.translate(item) for item in inner.expressions]
            if any(isinstance(v.type, dt.FloatType | dt.MapType | dt.VariantType | dt.UnknownType) for v in values):
                raise refusal(self.node, f"count of {', '.join(str(v.type) for v in values)}")
            return word, TypedSql(f"STRUCT({', '.join(v.sql for v in values)})", dt.UnknownType())
        return word, self.expressions.translate(inner)

    def number(self, node: exp.Expr) -> str:
        """Return an argument as a DOUBLE."""
        value = self.expressions.translate(node)
        if not is_number(value.type):
            raise refusal(self.node, f"{_name(self.node)} of {value.type}")
        return coerce(value, DOUBLE, _name(self.node))


def lower_aggregate(call: Aggregate) -> TypedSql | None:
    """Translate an aggregate, with or without FILTER. Return None if the node is not a supported aggregate."""
    node = call.node
    if isinstance(node, exp.Filter):
        inner = simplify(replace(call, node=node.this)).node
        entry = _BY_NODE.get(type(inner))
        if call.over and entry is not None and entry.skips_nulls and not inner.args.get("count"):
            # Rows that FILTER excludes become nulls, because Spark 4.0 and 4.1 do not support FILTER in a window.
            inner = inner.copy()
            value = exp.Literal.number(1) if isinstance(inner.this, exp.Star) else inner.this
            condition = exp.If(this=node.expression.this.copy(), true=value.copy())
            inner.set("this", exp.Case(ifs=[condition]))
            return lower_aggregate(replace(call, node=inner))
        return lower_aggregate(
            replace(call, node=node.this).with_conditions(call.expressions.boolean(node.expression.this))
        )
    call = simplify(call)
    entry = _BY_NODE.get(type(call.node))
    return None if entry is None else entry.lower(call)


def simplify(call: Aggregate) -> Aggregate:
    """Replace a call by an equivalent call in the form that the table contains."""
    match call.node:
        case exp.Anonymous(expressions=[]) as node if node.name.lower() == "count_star":
            return replace(call, node=exp.Count(this=exp.Star()))
        case exp.Anonymous(expressions=[value]) as node if node.name.lower() == "mean":
            return replace(call, node=exp.Avg(this=value))
        case exp.IgnoreNulls(this=exp.AnyValue() as node):
            return replace(call, node=node)
        case _:
            return call


def _name(node: exp.Expr) -> str:
    return str(getattr(node, "sql_name", lambda: node.key)()).lower()


def _count(call: Aggregate) -> TypedSql:
    if isinstance(call.node.this, exp.Star):
        return TypedSql(f"COUNT(*){call.suffix}", LONG)
    word, value = call.argument()
    if word and isinstance(value.type, dt.MapType | dt.VariantType):
        raise refusal(call.node, f"count of distinct {value.type}")
    return TypedSql(f"COUNT({word}{value.sql}){call.suffix}", LONG)


def _count_if(call: Aggregate) -> TypedSql:
    """Translate `count_if` to a sum of ones and zeros, which is null for an empty group."""
    condition = call.expressions.boolean(call.node.this)
    return TypedSql(f"CAST(SUM(CAST({condition} AS INT)){call.suffix} AS DECIMAL(38, 0))", HUGE)


def _sum(call: Aggregate) -> TypedSql:
    word, value = call.argument()
    match value.type:
        case dt.IntegerType():
            # Spark adds in 64 bits and raises an error on overflow; DuckDB continues in 128 bits.
            return TypedSql(f"CAST(SUM({word}{value.sql}){call.suffix} AS DECIMAL(38, 0))", HUGE)
        case dt.FloatType():
            return TypedSql(f"SUM({word}{coerce(value, DOUBLE, 'sum')}){call.suffix}", DOUBLE)
        case huge if huge == HUGE:
            return TypedSql(f"SUM({word}{value.sql}){call.suffix}", HUGE)
        case dt.DecimalType() as type_:
            return _decimal_sum(call, word, value, type_)
        case _:
            raise refusal(call.node, f"sum of {value.type}")


def _decimal_sum(call: Aggregate, word: str, value: TypedSql, type_: dt.DecimalType) -> TypedSql:
    """Translate a sum with 38 digits.

    Spark's sum has 10 digits more than the values, and raises an error beyond that.
    """
    wide = dt.DecimalType(38, type_.scale)
    if type_.precision + _DIGITS_OF_A_SUM > wide.precision:
        cast = f"CAST({value.sql} AS {spark_text.type_name(wide)})"
        return TypedSql(f"SUM({word}{cast}){call.suffix}", wide)
    return TypedSql(f"CAST(SUM({word}{value.sql}){call.suffix} AS {spark_text.type_name(wide)})", wide)


_DIGITS_OF_A_SUM = 10
"""The number of digits that Spark adds to those of decimals, enough for 10^10 rows.

Decimals with up to 8 digits are added as 64-bit integers.
"""


def _average(call: Aggregate) -> TypedSql:
    word, value = call.argument()
    match value.type:
        case dt.FloatType() | dt.IntegerType(bits=(8 | 16 | 32)):
            return TypedSql(f"AVG({word}{coerce(value, DOUBLE, 'avg')}){call.suffix}", DOUBLE)
        case exact if isinstance(exact, dt.IntegerType | dt.DecimalType) or exact == HUGE:
            # Like DuckDB, divide an exact sum as DOUBLE. Spark's own average is a decimal, or a sum of doubles.
            if isinstance(exact, dt.DecimalType):
                total = _decimal_sum(call, word, value, exact).sql
            else:
                total = f"SUM({word}CAST({value.sql} AS DECIMAL(38, 0))){call.suffix}"
            # With a COUNT in a correlated subquery, Spark would join the table a second time.
            counted = f"SUM(CASE WHEN ({value.sql}) IS NOT NULL THEN 1L END){call.suffix}"
            if word:
                counted = f"NULLIF(COUNT({word}{value.sql}){call.suffix}, 0)"
            return TypedSql(f"(CAST({total} AS DOUBLE) / {counted})", DOUBLE)
        case _:
            raise refusal(call.node, f"avg of {value.type}")


def _extreme(call: Aggregate) -> TypedSql:
    """Translate `min` or `max` of one or several values."""
    if call.node.args.get("count") is not None:
        descending = isinstance(call.node, exp.Max)
        return ordered_aggregates.greatest(call, call.node.this, call.node.this, descending=descending)
    _, value = call.argument()
    check_ordered(call.node, value.type)
    return TypedSql(f"{_name(call.node).upper()}({value.sql}){call.suffix}", value.type)


def _mode(call: Aggregate) -> TypedSql:
    """Translate `mode`. DuckDB returns the first of several most frequent values; the translation raises an error."""
    word, value = call.argument()
    check_ordered(call.node, value.type)
    if call.over or word or isinstance(value.type, dt.FloatType | dt.UnknownType):
        raise refusal(call.node, "mode as a window function, or of floats", "use count(*) with GROUP BY")
    first, last = (f"MODE() WITHIN GROUP (ORDER BY {value.sql}{way}){call.suffix}" for way in ("", " DESC"))
    message = spark_text.text("mode: several values are the most frequent; use arg_max() of their counts")
    return TypedSql(f"CASE WHEN {first} <=> {last} THEN {first} ELSE RAISE_ERROR({message}) END", value.type)


def _typed_aggregate(name: str, kind: type[dt.Type] = dt.IntegerType) -> AggregateLowering:
    """Return the lowering of an aggregate whose result has the type of its values, for example `bit_and`."""

    def lower(call: Aggregate) -> TypedSql:
        word, value = call.argument()
        if not isinstance(value.type, kind):
            raise refusal(call.node, f"{name.lower()} of {value.type}")
        return TypedSql(f"{name}({word}{value.sql}){call.suffix}", value.type)

    return lower


def _statistic(name: str) -> AggregateLowering:
    def lower(call: Aggregate) -> TypedSql:
        if isinstance(call.node.this, exp.Distinct | exp.Order):
            raise refusal(call.node)
        arguments = [call.number(n) for n in (call.node.this, call.node.args.get("expression")) if n is not None]
        return TypedSql(f"{name}({', '.join(arguments)}){call.suffix}", DOUBLE)

    return lower


def _correlation(call: Aggregate) -> TypedSql:
    """Translate `corr`. For a single pair DuckDB returns NaN, but Spark returns null."""
    pair = ", ".join(call.number(n) for n in (call.node.this, call.node.expression))
    value = f"COALESCE(CORR({pair}){call.suffix}, CAST('NaN' AS DOUBLE))"
    return TypedSql(f"CASE WHEN REGR_COUNT({pair}){call.suffix} > 0 THEN {value} END", DOUBLE)


def _quantile(call: Aggregate) -> TypedSql:
    """Translate `median(x)`, `quantile_cont(x, 0.3)`, and `quantile_cont(x, [0.3, 0.6])`."""
    fraction = call.node.args.get("expression")
    shares = [Decimal("0.5")] if fraction is None else ordered_aggregates.fractions(call, fraction)
    value = call.expressions.translate(call.node.this)
    if call.over:
        raise refusal(call.node, f"{_name(call.node)} as a window function")
    if isinstance(value.type, dt.DecimalType) and isinstance(call.node, exp.Median):
        return ordered_aggregates.exact_median(call, value)
    if not isinstance(value.type, dt.IntegerType) and value.type != DOUBLE:
        raise refusal(call.node, f"{_name(call.node)} of {value.type}", "cast it to DOUBLE")
    several = isinstance(fraction, exp.Array)
    share = ", ".join(f"{share}D" for share in shares)
    sql = f"PERCENTILE({coerce(value, DOUBLE, 'a quantile')}, {f'ARRAY({share})' if several else share}){call.suffix}"
    return TypedSql(sql, list_of(DOUBLE) if several else DOUBLE)


def _arg_extreme(call: Aggregate) -> TypedSql:
    """Translate `arg_max` or `arg_min`. DuckDB skips rows with a null in either argument, Spark only in the second."""
    if call.node.args.get("count") is not None:
        descending = isinstance(call.node, exp.ArgMax)
        return ordered_aggregates.greatest(call, call.node.this, call.node.expression, descending=descending)
    value, by = call.expressions.translate(call.node.this), call.expressions.translate(call.node.expression)
    name = "MAX_BY" if isinstance(call.node, exp.ArgMax) else "MIN_BY"
    check_ordered(call.node, by.type)
    rows = call.with_conditions(f"({value.sql}) IS NOT NULL")
    return TypedSql(f"{name}({value.sql}, {by.sql}){rows.suffix}", value.type)


def _grouping(call: Aggregate) -> TypedSql:
    """Translate `grouping` to one bit for each key that a row of ROLLUP or similar omits.

    The last key has the lowest bit.
    """
    keys = [call.expressions.translate(key).sql for key in (call.node.this, *call.node.expressions) if key is not None]
    bits = [f"CAST(GROUPING({key}) AS BIGINT) * {1 << place}" for place, key in enumerate(reversed(keys))]
    return TypedSql(f"({' + '.join(reversed(bits))})", LONG)


AggregateLowering = Callable[[Aggregate], TypedSql]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An entry in the table of aggregates.

    Attributes:
        names: DuckDB's names. `agreement` treats them as equal.
        nodes: sqlglot's classes for its calls.
        lower: Translates a call.
        skips_nulls: True if nulls do not affect the result, so that in a window CASE can replace FILTER.
    """

    names: tuple[str, ...]
    nodes: tuple[type[exp.Expr], ...]
    lower: AggregateLowering
    skips_nulls: bool = True


_keeps_nulls = partial(AggregateFunction, skips_nulls=False)

AGGREGATES: tuple[AggregateFunction, ...] = (
    AggregateFunction(("count", "count_star"), (exp.Count,), _count),
    AggregateFunction(("count_if", "countif"), (exp.CountIf,), _count_if),
    AggregateFunction(("sum",), (exp.Sum,), _sum),
    AggregateFunction(("avg", "mean"), (exp.Avg,), _average),
    AggregateFunction(("min",), (exp.Min,), _extreme),
    AggregateFunction(("max",), (exp.Max,), _extreme),
    AggregateFunction(("bool_and",), (exp.LogicalAnd,), _typed_aggregate("BOOL_AND", dt.BooleanType)),
    AggregateFunction(("bool_or",), (exp.LogicalOr,), _typed_aggregate("BOOL_OR", dt.BooleanType)),
    AggregateFunction(("bit_and",), (exp.BitwiseAndAgg,), _typed_aggregate("BIT_AND")),
    AggregateFunction(("bit_or",), (exp.BitwiseOrAgg,), _typed_aggregate("BIT_OR")),
    AggregateFunction(("bit_xor",), (exp.BitwiseXorAgg,), _typed_aggregate("BIT_XOR")),
    AggregateFunction(("stddev_samp", "stddev"), (exp.Stddev, exp.StddevSamp), _statistic("STDDEV_SAMP")),
    AggregateFunction(("stddev_pop",), (exp.StddevPop,), _statistic("STDDEV_POP")),
    AggregateFunction(("var_samp", "variance"), (exp.Variance,), _statistic("VAR_SAMP")),
    AggregateFunction(("var_pop",), (exp.VariancePop,), _statistic("VAR_POP")),
    AggregateFunction(("covar_samp",), (exp.CovarSamp,), _statistic("COVAR_SAMP")),
    AggregateFunction(("covar_pop",), (exp.CovarPop,), _statistic("COVAR_POP")),
    AggregateFunction(("corr",), (exp.Corr,), _correlation),
    _keeps_nulls(("mode",), (exp.Mode,), _mode),
    _keeps_nulls(("median",), (exp.Median,), _quantile),
    _keeps_nulls(("quantile_cont",), (exp.PercentileCont,), _quantile),
    _keeps_nulls(
        ("quantile_disc", "quantile"), (exp.PercentileDisc, exp.Quantile), ordered_aggregates.discrete_quantile
    ),
    _keeps_nulls(("list", "array_agg"), (exp.ArrayAgg,), ordered_aggregates.ordered_list),
    _keeps_nulls(("first",), (exp.First,), ordered_aggregates.first),
    _keeps_nulls(("last",), (exp.Last,), ordered_aggregates.first),
    _keeps_nulls(("any_value",), (exp.AnyValue,), ordered_aggregates.first),
    _keeps_nulls(("arg_max", "argmax", "max_by"), (exp.ArgMax,), _arg_extreme),
    _keeps_nulls(("arg_min", "argmin", "min_by"), (exp.ArgMin,), _arg_extreme),
    _keeps_nulls(("string_agg", "group_concat", "listagg"), (exp.GroupConcat,), ordered_aggregates.joined_text),
    _keeps_nulls(("grouping", "grouping_id"), (exp.Grouping, exp.GroupingId), _grouping),
)

_BY_NODE = {node: entry for entry in AGGREGATES for node in entry.nodes}


_BOUNDS = ("start", "end")
_DAY_US = 86_400_000_000
_EVERYTHING = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def _frame(expressions: Expressions, frame: exp.WindowSpec, order: list[exp.Expr]) -> str:
    """Translate a frame to Spark's SQL."""
    kind, exclusion = str(frame.args.get("kind") or "").upper(), frame.args.get("exclude")
    if exclusion is not None and exclusion.name.upper() != "NO OTHERS":
        raise refusal(frame, f"EXCLUDE {exclusion.name.upper()}", "write the frame without EXCLUDE")
    if kind == "GROUPS":
        if any(isinstance(frame.args.get(end), exp.Expr) for end in _BOUNDS):
            raise refusal(frame, "GROUPS by numbers", "use RANGE over a dense_rank() of a query inside")
        kind = "RANGE"  # without offsets, RANGE also moves by groups of equal rows
    if kind not in ("ROWS", "RANGE"):
        raise refusal(frame, "this frame")
    spans = [moments.interval(frame.args[end]) for end in _BOUNDS if isinstance(frame.args.get(end), exp.Interval)]
    if len({span is not None and span[0] > 0 for span in spans}) > 1:
        raise refusal(frame, "a frame of months on one side and days on the other")
    if kind == "RANGE" and not order:  # all rows are peers; Spark requires an order for RANGE
        return _EVERYTHING
    order_key = order[0].this if len(order) == 1 else None
    counted = kind == "ROWS" or (
        order_key is not None and isinstance(expressions.translate(order_key).type, dt.IntegerType)
    )
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
    raise refusal(frame, "this frame")


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
"""Functions that have a meaning only in an ordered window."""


def with_windows(select: exp.Select) -> exp.Select:
    """Replace the names of windows in a SELECT by the definitions in its WINDOW clause."""
    definitions = select.args.get("windows")
    if not definitions:
        return select
    windows_by_name: dict[str, exp.Window] = {}
    for definition in definitions:
        windows_by_name[definition.name.casefold()] = _with_named_window(definition, windows_by_name)
    for window in list(select.find_all(exp.Window)):
        if window.find_ancestor(exp.Select) is select and window.args.get("alias") and window not in definitions:
            window.replace(_with_named_window(window, windows_by_name))
    select.set("windows", None)
    return select


def _with_named_window(window: exp.Window, windows_by_name: dict[str, exp.Window]) -> exp.Window:
    """Add the clauses of the window that a window refers to by name."""
    name = window.args.get("alias")
    if name is None:
        return window
    base = windows_by_name.get(name.name.casefold())
    if base is None:
        raise refusal(window, f"the window {name.name}")
    window = window.copy()
    window.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        base_part = base.args.get(part)
        if base_part and not window.args.get(part):
            window.set(part, [p.copy() for p in base_part] if isinstance(base_part, list) else base_part.copy())
    return window


def window_function(expressions: Expressions, node: exp.Expr) -> TypedSql | None:
    """Translate a window function. Return None if the node is not one."""
    if not isinstance(node, exp.Window):
        return None
    if node.args.get("alias") or node.args.get("first") is not None:
        raise refusal(node, "a named window")
    over = _over(expressions, node)
    call, nulls = node.this, ""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) and not isinstance(call.this, exp.AnyValue):
        nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
        call = call.this
    if isinstance(call, _IN_ORDER) and node.args.get("order") is None:
        raise refusal(node, "a position in an unordered window", "add ORDER BY to the window")
    match call:
        case _ if type(call) in _RANKS:
            rank, type_ = _RANKS[type(call)]
            return TypedSql(f"CAST({rank}(){over} AS {type_name(type_)})", type_)
        case exp.Ntile():
            return TypedSql(f"CAST(NTILE({positive_literal(call, call.this)}){over} AS BIGINT)", LONG)
        case exp.Lag() | exp.Lead():
            offset = call.args.get("offset")
            if offset is not None and (not isinstance(offset, exp.Literal) or offset.is_string):
                raise refusal(call, "an offset that is not a literal")
            operands = [call.this, *filter(None, [call.args.get("default")])]
            texts, type_ = with_common_type(map(expressions.translate, operands), call.sql_name())
            arguments = [texts[0], "1" if offset is None else offset.name, *texts[1:]]
            return TypedSql(f"{call.sql_name()}({', '.join(arguments)}){nulls}{over}", type_)
        case exp.FirstValue() | exp.LastValue() | exp.First() | exp.Last() if not isinstance(call.this, exp.Order):
            value = expressions.translate(call.this)
            name = "FIRST_VALUE" if isinstance(call, exp.FirstValue | exp.First) else "LAST_VALUE"
            return TypedSql(f"{name}({value.sql}){nulls}{over}", value.type)
        case exp.NthValue():
            value = expressions.translate(call.this)
            return TypedSql(
                f"NTH_VALUE({value.sql}, {positive_literal(call, call.args['offset'])}){nulls}{over}", value.type
            )
        case _:
            aggregate = None if nulls else lower_aggregate(Aggregate(expressions, call, over=over))
            if aggregate is None:
                raise refusal(node, f"the window function {call.sql('duckdb')}")
            return aggregate


def _over(expressions: Expressions, node: exp.Window) -> str:
    """Translate OVER with PARTITION BY, ORDER BY, and the frame to Spark's SQL."""
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        parts.append(f"PARTITION BY {', '.join(expressions.translate(p).sql for p in partition)}")
    order, frame = node.args.get("order"), node.args.get("spec")
    items = [] if order is None else order.expressions
    if frame is not None and any(isinstance(frame.args.get(end), exp.Interval) for end in _BOUNDS):
        value = expressions.translate(items[0].this) if len(items) == 1 else None
        if value is None or not is_moment(value.type):
            raise refusal(node, "a RANGE of an interval over a value that is not a date or timestamp")
        sql = f"CAST({value.sql} AS TIMESTAMP_NTZ)" if isinstance(value.type, dt.DateType) else value.sql
        parts.append(f"ORDER BY {sql}{direction(items[0])}")
    elif order is not None:
        parts.append(f"ORDER BY {', '.join(order_item(expressions, o) for o in items)}")
    if frame is not None:
        parts.append(_frame(expressions, frame, items))
    return f" OVER ({' '.join(parts)})"
