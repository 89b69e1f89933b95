"""Items of ORDER BY, and aggregates that depend on an order: lists, first values, and discrete quantiles.

The rows of a group are collected together with their sort keys and sorted in one expression, so that nulls are treated
as DuckDB treats them. Rows with equal keys may appear in a different order on each engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import TEXT, TypedSql, list_of, type_name
from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.metadata.model import schema as dt

if TYPE_CHECKING:
    from harness.engines.spark.transpile.aggregates import Aggregate
    from harness.engines.spark.transpile.expressions import Expressions


def order_item(expressions: Expressions, node: exp.Expr) -> str:
    """Translate an item of ORDER BY. By default, DuckDB sorts nulls last."""
    subject = node.this if isinstance(node, exp.Ordered) else node
    value = expressions.translate(subject)
    check_ordered(node, value.type)
    return f"{value.sql}{direction(node)}"


def check_ordered(node: exp.Expr, type_: dt.Type) -> None:
    """Refuse types whose values the engines order differently."""
    if isinstance(type_, dt.ListType | dt.StructType | dt.MapType | dt.VariantType | dt.UuidType):
        raise refusal(node, f"an order of {type_}")


def direction(node: exp.Expr) -> str:
    """Return the direction and the position of nulls for an item of ORDER BY."""
    if not isinstance(node, exp.Ordered):
        return " ASC NULLS LAST"
    if node.args.get("with_fill") is not None:
        raise refusal(node)
    return f" {'DESC' if node.args.get('desc') else 'ASC'} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def positive_literal(call: exp.Expr, node: exp.Expr, what: str = "a number") -> int:
    """Return the value of an argument that is a literal from 1 to 2^31 - 1.

    `what` is the argument's name in the error.
    """
    literal = literal_of(node)
    if literal is None or literal.kind is not LiteralKind.INTEGER or not 0 < literal.value < 2**31:
        raise refusal(call, f"{what} that is not a literal of 1 or more")
    return int(literal.value)


SortKey = tuple[TypedSql, bool, bool]
"""A sort key: its value, whether the order is descending, and whether nulls come first."""


def ordered_list(call: Aggregate) -> TypedSql:
    """Translate `list(x ORDER BY y)`, which is null for no rows."""
    value, rows = _ordered_rows(call)
    return TypedSql(f"TRANSFORM({rows}, x -> x.v)", list_of(value.type))


def first(call: Aggregate) -> TypedSql:
    """Translate `first(x ORDER BY y)`, `last`, and `any_value`. Only `any_value` skips nulls."""
    place = -1 if isinstance(call.node, exp.Last) else 1
    value, rows = _ordered_rows(call, without_nulls=isinstance(call.node, exp.AnyValue))
    return TypedSql(f"TRY_ELEMENT_AT({rows}, {place}).v", value.type)


def joined_text(call: Aggregate) -> TypedSql:
    """Translate `string_agg(x, sep ORDER BY y)`. Spark's LISTAGG fails if the query has several DISTINCT aggregates."""
    order, separator = call.node.this, call.node.args.get("separator")
    literal = None if separator is None else literal_of(separator)
    if separator is not None and (literal is None or literal.kind is not LiteralKind.STRING):
        raise refusal(call.node, "string_agg", "write the separator as a text")
    if not isinstance(order, exp.Order):
        raise refusal(call.node, "string_agg without an order", "add ORDER BY to its arguments")
    sign = spark_text.text("," if literal is None else str(literal.value))
    value, rows = _ordered_rows(call, without_nulls=True)
    if value.type != TEXT:
        raise refusal(call.node, f"string_agg of {value.type}", "cast it to VARCHAR")
    return TypedSql(f"ARRAY_JOIN(TRANSFORM({rows}, x -> x.v), {sign})", TEXT)


def greatest(call: Aggregate, value: exp.Expr, by: exp.Expr, *, descending: bool) -> TypedSql:
    """Translate `max(x, 3)` and `arg_max(x, y, 3)`. Rows with a null in either argument are skipped."""
    count = positive_literal(call.node, call.node.args["count"], "a number of values")
    output, key = call.expressions.translate(value), call.expressions.translate(by)
    check_ordered(call.node, key.type)
    only = call.with_conditions(*dict.fromkeys(f"({v.sql}) IS NOT NULL" for v in (output, key)))
    rows = _sorted_rows(only, output, [(key, descending, False)])
    return TypedSql(f"SLICE(TRANSFORM({rows}, x -> x.v), 1, {count})", list_of(output.type))


def discrete_quantile(call: Aggregate) -> TypedSql:
    """Translate `quantile_disc(x, 0.3)` with one or several fractions. The results are values of the group."""
    fraction = call.node.args.get("quantile") or call.node.args.get("expression")
    if call.over or fraction is None:
        raise refusal(call.node, "quantile_disc as a window function, or without a fraction")
    value = call.expressions.translate(call.node.this)
    check_ordered(call.node, value.type)
    if isinstance(value.type, dt.UnknownType):
        raise refusal(call.node)
    elements = []
    for share in fractions(call, fraction):
        digits = max(0, -int(share.as_tuple().exponent))
        if digits > 9:
            raise refusal(call.node, "a quantile of more than 9 digits")
        # The index of the smallest value such that at least this fraction of all values is not greater.
        ten = 10**digits
        place = f"GREATEST((SIZE(y) * {int(share * ten)}L + {ten - 1}L) DIV {ten}L, 1L)"
        elements.append(f"TRY_ELEMENT_AT(y, CAST({place} AS INT))")
    result: dt.Type = value.type
    body = elements[0]
    if isinstance(fraction, exp.Array):
        result, body = list_of(value.type), f"CASE WHEN SIZE(y) > 0 THEN ARRAY({', '.join(elements)}) END"
    return TypedSql(with_list(f"ARRAY_SORT(COLLECT_LIST({value.sql}){call.suffix})", body), result)


def fractions(call: Aggregate, node: exp.Expr) -> list[Decimal]:
    """Return the literal fractions of a quantile call. There is at least one."""
    shares = []
    for item in node.expressions if isinstance(node, exp.Array) else [node]:
        literal = literal_of(item)
        if (
            literal is None
            or literal.kind not in (LiteralKind.DECIMAL, LiteralKind.INTEGER)
            or not 0 <= literal.value <= 1
        ):
            raise refusal(call.node, "a quantile that is not a literal from 0 to 1")
        shares.append(Decimal(literal.value))
    if not shares:
        raise refusal(call.node)
    return shares


def exact_median(call: Aggregate, value: TypedSql) -> TypedSql:
    """Translate `median` of decimals. Between two values, it is half of their sum, truncated."""
    assert isinstance(value.type, dt.DecimalType)
    precision, scale = value.type.precision, value.type.scale
    if precision > 15:
        raise refusal(call.node, f"median of {value.type}", "cast it to DOUBLE")
    low, high = (
        "TRY_ELEMENT_AT(y, CAST(GREATEST((SIZE(y) + 1) DIV 2, 1) AS INT))",
        "TRY_ELEMENT_AT(y, CAST(SIZE(y) DIV 2 + 1 AS INT))",
    )
    unscaled = f"CAST(({low} + {high}) * CAST(1e{scale}BD AS DECIMAL({scale + 1}, 0)) AS BIGINT) DIV 2"
    unit = f"CAST(1e-{scale}BD AS DECIMAL({scale + 1}, {scale}))"
    half = f"CAST(CAST({unscaled} AS DECIMAL(19, 0)) * {unit} AS {type_name(value.type)})"
    return TypedSql(with_list(f"ARRAY_SORT(COLLECT_LIST({value.sql}){call.suffix})", half), value.type)


def with_list(values: str, body: str) -> str:
    """Return `body` as an expression with `y` bound to the list `values`. The list is computed once."""
    return f"TRY_ELEMENT_AT(TRANSFORM(ARRAY({values}), y -> {body}), 1)"


def _ordered_rows(call: Aggregate, *, without_nulls: bool = False) -> tuple[TypedSql, str]:
    """Return the value of an aggregate, and the rows of a group in the order of the call."""
    order = call.node.this
    if not isinstance(order, exp.Order):
        raise refusal(call.node, "a list or a choice of values without an order", "add ORDER BY to the arguments")
    inner, distinct = order.this, isinstance(order.this, exp.Distinct)
    if distinct:
        if len(inner.expressions) != 1 or inner.args.get("on") is not None:
            raise refusal(call.node)
        inner = inner.expressions[0]
    value = call.expressions.translate(inner)
    if isinstance(value.type, dt.UnknownType):
        raise refusal(call.node, "a list of nulls without a type")
    keys: list[SortKey] = []
    for item in order.expressions:
        if not isinstance(item, exp.Ordered) or item.args.get("with_fill") is not None:
            raise refusal(call.node)
        key = call.expressions.translate(item.this)
        if key.literal is not None:
            raise refusal(call.node, "an order by a literal")
        check_ordered(item, key.type)
        keys.append((key, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))))
    if distinct and (any(key.sql != value.sql for key, _, _ in keys) or isinstance(value.type, dt.FloatType)):
        raise refusal(call.node, "DISTINCT values in another order than their own")
    if distinct and call.over:
        raise refusal(call.node, "DISTINCT in a window function")
    if without_nulls:
        call = call.with_conditions(f"({value.sql}) IS NOT NULL")
    return value, _sorted_rows(call, value, keys, "DISTINCT " if distinct else "")


def _sorted_rows(call: Aggregate, value: TypedSql, keys: Sequence[SortKey], word: str = "") -> str:
    """Return the rows of a group as sorted structs with the field `v` for the value. Null for an empty group."""
    places = "".join(f", 'k{place}', {key.sql}" for place, (key, _, _) in enumerate(keys))
    row = f"NAMED_STRUCT('v', {value.sql}{places})"
    if call.over and call.conditions:  # Spark 4.0 and 4.1 do not support FILTER in a window
        row = f"CASE WHEN {' AND '.join(call.conditions)} THEN {row} END"
    rows = f"COLLECT_LIST({word}{row}){call.over or call.suffix}"
    some = f"TRY_ELEMENT_AT(FILTER(ARRAY({rows}), y -> SIZE(y) > 0), 1)"
    compared = "0"
    for place, (_, descending, nulls_first) in reversed(list(enumerate(keys))):
        a, b = f"a.k{place}", f"b.k{place}"
        null, less = ("-1", "1") if nulls_first else ("1", "-1"), ("1", "-1") if descending else ("-1", "1")
        compared = (
            f"CASE WHEN {a} IS NULL AND {b} IS NULL THEN {compared} WHEN {a} IS NULL THEN {null[0]} "
            f"WHEN {b} IS NULL THEN {null[1]} WHEN {a} < {b} THEN {less[0]} WHEN {a} > {b} THEN {less[1]} "
            f"ELSE {compared} END"
        )
    return f"ARRAY_SORT({some}, (a, b) -> {compared})"


# Functions whose result does not depend on the order of a list.
_ORDERLESS = frozenset(
    {
        *("list_sort", "array_sort", "list_reverse_sort", "array_reverse_sort", "len", "length", "array_length"),
        *("list_contains", "array_contains", "list_has", "array_has", "list_min", "list_max", "list_count"),
        *("list_distinct", "array_distinct", "list_has_any", "list_has_all"),
    }
)


def in_any_order(node: exp.Expr) -> exp.Expr | None:
    """Return a call like `len(list(x))` with an order for its list. None if the result may depend on the order."""
    if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in _ORDERLESS or not node.expressions:
        return None
    copy = node.copy()
    target = copy.expressions[0].this if isinstance(copy.expressions[0], exp.Filter) else copy.expressions[0]
    if not isinstance(target, exp.ArrayAgg) or isinstance(target.this, exp.Order):
        return None
    subject = target.this.expressions[0] if isinstance(target.this, exp.Distinct) else target.this
    target.set("this", exp.Order(this=target.this, expressions=[exp.Ordered(this=subject.copy())]))
    return copy
