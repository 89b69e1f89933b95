"""Aggregates over a frame with EXCLUDE: differences where these are exact, else reductions of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from harness.metadata.model.schema import BooleanType, DecimalType, FloatType, IntegerType, Type
from harness.queries.transpile import ordered_aggregates
from harness.queries.transpile.aggregates import Aggregate, extreme, plainer
from harness.queries.transpile.frames import Exclusion, Frame, over
from harness.queries.transpile.functions.folds import total
from harness.queries.transpile.ordered_aggregates import of_list
from harness.queries.transpile.ordering import whole
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import BOOLEAN, DOUBLE, HUGE, LONG, Typed, added_as, coerced, type_name

# Counts and exact sums over a frame with EXCLUDE: those of the frame, less those of what is left out.
#
# A list of the frame for each row, as `exclusions` has it, is dear where frames are large.


_PEERS = Frame("RANGE", "CURRENT ROW", "CURRENT ROW")


def are_certain(left_out: Exclusion) -> bool:
    """Whether all that is left out stands in the frame."""
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
    whole = f"CAST({of(over(left_out.rows, left_out.frame))} AS {type_})"
    if left_out.kind == "CURRENT ROW":
        return f"CAST({whole} - {own} AS {type_})"
    others = f"CAST({whole} - CAST({of(over(left_out.rows, _PEERS))} AS {type_}) AS {type_})"
    return others if left_out.kind == "GROUP" else f"CAST({others} + {own} AS {type_})"


def translate(call: Aggregate, *, ignore_nulls: bool) -> Typed:
    """The window function. Raises UnsupportedError: it is none that can be had from a list."""
    if isinstance(call.node, exp.Filter):
        condition = call.expressions.boolean(call.node.expression.this)
        return translate(replace(call, node=call.node.this).only(condition), ignore_nulls=ignore_nulls)
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
    """How many values are no nulls."""
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
    exp.ArrayAgg: ordered_aggregates.listed,
    exp.First: ordered_aggregates.first,
    exp.Last: ordered_aggregates.first,
    exp.AnyValue: ordered_aggregates.first,
    exp.GroupConcat: ordered_aggregates.joined,
}
