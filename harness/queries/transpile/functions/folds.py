"""What is made of the elements of a list: lambdas, sums, texts, the least and the greatest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from harness.metadata.model.schema import DecimalType, FloatType, IntegerType, ListType, Type, UnknownType
from harness.queries.transpile.functions.lists import (
    ORDERED,
    check_elements,
    element_of,
    list_function,
    list_of,
    the_list,
    without_nulls,
)
from harness.queries.transpile.functions.registry import ANY_TEXT, VARCHAR, Call, Function, FunctionKind, Lowering, said
from harness.queries.transpile.values import BOOLEAN, DOUBLE, HUGE, LONG, TEXT, Typed, added_as, coerced, type_name

# Aggregates of a list.


def _least(function: str) -> Lowering:
    def lower(call: Call) -> Typed | None:
        listed = the_list(call)
        check_elements(call, listed, ORDERED)
        return Typed(f"{function}({listed.sql})", element_of(listed))

    return lower


def _sum(call: Call) -> Typed | None:
    listed = the_list(call)
    element = element_of(listed)
    match element:
        case IntegerType():
            result: Type = HUGE
        case DecimalType(scale=scale):
            result = DecimalType(38, scale)
        case FloatType(bits=64):
            result = DOUBLE
        case _:
            raise call.refused(f"{call.name} of {listed.type}")
    values = without_nulls(listed.sql)
    return Typed(f"CASE WHEN SIZE({values}) > 0 THEN {total(values, result)} END", result)


def total(values: str, type_: Type) -> str:
    """The sum of a list without nulls, 0 if it is empty."""
    spare = added_as(type_)
    name = type_name(spare)
    added = f"AGGREGATE({values}, CAST(0 AS {name}), (s, v) -> CAST(s + CAST(v AS {name}) AS {name}))"
    return added if spare is type_ else f"CAST({added} AS {type_name(type_)})"


def _count(call: Call) -> Typed | None:
    listed = the_list(call)
    return Typed(f"CAST(SIZE({without_nulls(listed.sql)}) AS BIGINT)", LONG)


def _aggregated(call: Call) -> Typed | None:
    """`list_aggregate(l, 'sum')`, as `list_sum(l)`."""
    if len(call.arguments) != 2:
        return None
    named = said(call.value(1))
    lowering = _AGGREGATES.get(str(named).lower())
    if lowering is None:
        raise call.refused(f"{call.name} by {named or 'what no literal names'}", _INSTEAD)
    return lowering(replace(call, arguments=call.arguments[:1]))


_AGGREGATES: Mapping[str, Lowering] = {
    "sum": _sum,
    "count": _count,
    "min": _least("ARRAY_MIN"),
    "max": _least("ARRAY_MAX"),
}
_INSTEAD = "use list_sum(), list_min(), list_max() or list_count()"


def _text(call: Call) -> Typed | None:
    """`array_to_string`."""
    if len(call.arguments) != 2:
        return None
    listed, between = the_list(call), VARCHAR.taken(call.value(1)) if said(call.value(1)) is not None else None
    item = ANY_TEXT.taken(Typed("v", element_of(listed)))
    if item is None or between is None:
        raise call.refused(f"{call.name} of {listed.type}", "use list_transform() to make texts")
    nothing = f"SIZE({listed.sql}) > 0 AND SIZE({without_nulls(listed.sql)}) = 0"
    joined = f"ARRAY_JOIN(TRANSFORM({listed.sql}, v -> {item}), {between})"
    return Typed(f"CASE WHEN {nothing} THEN NULL ELSE {joined} END", TEXT)


# Lambdas.


def _transformed(call: Call) -> Typed | None:
    listed, head, body = _lambda(call)
    return Typed(f"TRANSFORM({listed.sql}, {head} -> {body.sql})", list_of(body.type))


def _filtered(call: Call) -> Typed | None:
    listed, head, body = _lambda(call)
    if body.type != BOOLEAN:
        raise call.refused(f"a {body.type} as a condition")
    return Typed(f"FILTER({listed.sql}, {head} -> {body.sql})", listed.type)


def _lambda(call: Call) -> tuple[Typed, str, Typed]:
    """The list, the variables in Spark's words, and the body."""
    if len(call.arguments) != 2 or not isinstance(call.arguments[1], exp.Lambda):
        raise call.refused(f"{call.name} without a lambda")
    listed, node = the_list(call), call.arguments[1]
    names = [str(item.name) for item in node.expressions]
    if not 1 <= len(names) <= 2:
        raise call.refused(f"{call.name} with a lambda of {len(names)} variables")
    head, inner = call.expressions.within(names, element_of(listed))
    body = inner.translate(node.this)
    if isinstance(body.type, UnknownType):
        raise call.refused(f"{call.name} to null")
    if body.literal is not None:
        body = Typed(coerced(body, body.type, call.name), body.type)
    return listed, head, body


def comprehended(call: Call, node: exp.Comprehension) -> Typed:
    """`[x + 1 for x in l if x > 2]`."""
    listed = call.expressions.translate(node.args["iterator"])
    if not isinstance(listed.type, ListType) or node.args.get("position") is not None:
        raise call.refused("this list comprehension", "use list_transform()")
    head, inner = call.expressions.within([str(node.args["expression"].name)], element_of(listed))
    condition = node.args.get("condition")
    sql = listed.sql if condition is None else f"FILTER({listed.sql}, {head} -> {inner.boolean(condition)})"
    body = inner.translate(node.this)
    if isinstance(body.type, UnknownType):
        raise call.refused("this list comprehension")
    return Typed(f"TRANSFORM({sql}, {head} -> {body.sql})", list_of(body.type))


_ZEROS = "of 0.0 and -0.0, which are equal, either may come"

FUNCTIONS = (
    list_function(
        ("array_to_string", "list_to_string"),
        _text,
        "list, VARCHAR",
        "ARRAY_JOIN; null where all elements are",
        "array_to_string({texts}, ',')",
        "array_to_string({ints}, '')",
        agree="elements of text, integers, decimals, booleans, dates",
        outside="refused: use list_transform() to make texts",
    ),
    *(
        list_function(
            (f"list_{name}",),
            _least(f"ARRAY_{name.upper()}"),
            "list",
            f"ARRAY_{name.upper()}(a)",
            f"list_{name}({{ints}})",
            f"list_{name}({{doubles}})",
            allowance=_ZEROS,
        )
        for name in ("min", "max")
    ),
    list_function(
        ("list_sum",),
        _sum,
        "list of numbers",
        "AGGREGATE",
        "list_sum({ints})",
        "list_sum({doubles})",
        "list_sum([{decimal}, 0.0000000003])",
    ),
    list_function(("list_count",), _count, "list", "SIZE of what is not null", "list_count({texts})"),
    list_function(
        ("list_transform", "list_apply", "array_transform", "array_apply", "apply"),
        _transformed,
        "list, lambda",
        "TRANSFORM",
        "list_transform({ints}, lambda x: coalesce(x, 0) // 2)",
        "list_transform({texts}, lambda x, i: concat(x, i))",
        "[x % 3 for x in {ints} if x > 1]",
    ),
    list_function(
        ("list_filter", "array_filter", "filter"),
        _filtered,
        "list, lambda",
        "FILTER",
        "list_filter({ints}, lambda x: x > {int})",
        "list_filter({texts}, lambda x, i: i > 1)",
    ),
    list_function(
        ("list_aggregate", "array_aggregate", "list_aggr", "array_aggr", "aggregate"),
        _aggregated,
        "list, name",
        "as `list_sum`, `list_min`, `list_max`, `list_count`",
        "list_aggregate({ints}, 'sum')",
        "list_aggr({doubles}, 'max')",
        "array_aggregate({texts}, 'count')",
        outside=f"refused: {_INSTEAD}",
        allowance=_ZEROS,
    ),
    Function(
        names=("list_reduce", "array_reduce", "reduce", "list_avg", "list_zip"),
        kind=FunctionKind.LISTS,
        refused=_INSTEAD,
    ),
)
