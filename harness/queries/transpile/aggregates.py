"""Aggregates and window functions. Where they may stand was DuckDB's to say, when it bound the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.model.schema import (
    BooleanType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StructType,
    UuidType,
    VariantType,
)
from harness.queries.transpile import spark_text
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import BOOLEAN, DOUBLE, HUGE, LONG, Typed, alike

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions

_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)
_RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "ROW_NUMBER", exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK"}


def translate(expressions: Expressions, node: exp.Expr) -> Typed | None:
    """The aggregate or window function; None if the node is none that is known. Raises UnsupportedError."""
    match node:
        case exp.Filter() if isinstance(node.this, _AGGREGATES):
            condition = expressions.boolean(node.expression.this)
            return _aggregate(expressions, node.this, f" FILTER (WHERE {condition})")
        case exp.Window():
            return _window(expressions, node)
        case exp.Anonymous() if node.name.lower() == "count_star" and not node.expressions:
            return Typed("COUNT(*)", LONG)
        case _ if isinstance(node, _AGGREGATES):
            return _aggregate(expressions, node, "")
        case _:
            return None


def _aggregate(expressions: Expressions, node: exp.Expr, after: str) -> Typed:
    """`after`: what follows the call, FILTER and OVER."""
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return Typed(f"COUNT(*){after}", LONG)
    inner = node.this
    distinct = isinstance(inner, exp.Distinct)
    if distinct:
        if len(inner.expressions) != 1 or inner.args.get("on") is not None:
            raise refused(node)
        inner = inner.expressions[0]
    if node.expressions or isinstance(inner, exp.Order | exp.Limit | exp.IgnoreNulls | exp.HavingMax):
        raise refused(node)
    value = expressions.translate(inner)
    word = "DISTINCT " if distinct else ""
    match node:
        case exp.Count():
            if distinct and isinstance(value.type, MapType | VariantType):
                raise refused(node, f"count of distinct {value.type}")
            return Typed(f"COUNT({word}{value.sql}){after}", LONG)
        case exp.Sum():
            return _sum(node, value, word, after)
        case exp.Avg():
            return _average(node, value, word, after)
        case exp.Min() | exp.Max():
            if isinstance(value.type, ListType | StructType | MapType | VariantType | UuidType):
                raise refused(node, f"{node.sql_name().lower()} of {value.type}")
            return Typed(f"{node.sql_name()}({value.sql}){after}", value.type)
        case _:
            if not isinstance(value.type, BooleanType):
                raise refused(node)
            name = "BOOL_AND" if isinstance(node, exp.LogicalAnd) else "BOOL_OR"
            return Typed(f"{name}({value.sql}){after}", BOOLEAN)


def _sum(node: exp.Expr, value: Typed, word: str, after: str) -> Typed:
    match value.type:
        case IntegerType():
            # Spark adds in 64 bits and raises an error beyond; DuckDB goes on to 128.
            return Typed(f"CAST(SUM({word}{value.sql}){after} AS DECIMAL(38, 0))", HUGE)
        case FloatType():
            return Typed(f"SUM({word}{_double(value)}){after}", DOUBLE)
        case DecimalType(scale=scale):
            type_ = DecimalType(38, scale)
            wide = f"CAST({value.sql} AS {spark_text.type_name(type_)})"
            return Typed(f"SUM({word}{wide}){after}", type_)
        case _:
            raise refused(node, f"sum of {value.type}")


def _average(node: exp.Expr, value: Typed, word: str, after: str) -> Typed:
    match value.type:
        case FloatType() | IntegerType(bits=(8 | 16 | 32)):
            return Typed(f"AVG({word}{_double(value)}){after}", DOUBLE)
        case IntegerType() | DecimalType():
            # As DuckDB: an exact sum, divided as DOUBLE. Spark would give a decimal, or add doubles.
            scale = value.type.scale if isinstance(value.type, DecimalType) else 0
            total = f"SUM({word}CAST({value.sql} AS DECIMAL(38, {scale}))){after}"
            return Typed(f"(CAST({total} AS DOUBLE) / NULLIF(COUNT({word}{value.sql}){after}, 0))", DOUBLE)
        case _:
            raise refused(node, f"avg of {value.type}")


def _double(value: Typed) -> str:
    return value.sql if value.type == DOUBLE else f"CAST({value.sql} AS DOUBLE)"


# Windows.


def _window(expressions: Expressions, node: exp.Window) -> Typed:
    if node.args.get("alias") or node.args.get("first") is not None:
        raise refused(node, "a named window")
    over = f" OVER ({_specification(expressions, node)})"
    call = node.this
    match call:
        case exp.Filter() if isinstance(call.this, _AGGREGATES):
            condition = expressions.boolean(call.expression.this)
            return _aggregate(expressions, call.this, f" FILTER (WHERE {condition}){over}")
        case exp.RowNumber() | exp.Rank() | exp.DenseRank():
            return Typed(f"CAST({_RANKS[type(call)]}(){over} AS BIGINT)", LONG)
        case exp.Lag() | exp.Lead():
            return _neighbour(expressions, call, over)
        case exp.FirstValue() | exp.LastValue():
            value = expressions.translate(call.this)
            name = "FIRST_VALUE" if isinstance(call, exp.FirstValue) else "LAST_VALUE"
            return Typed(f"{name}({value.sql}){over}", value.type)
        case _ if isinstance(call, _AGGREGATES):
            return _aggregate(expressions, call, over)
        case _:
            raise refused(node, f"the window function {call.sql('duckdb')}")


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


def _specification(expressions: Expressions, node: exp.Window) -> str:
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        parts.append(f"PARTITION BY {', '.join(expressions.translate(p).sql for p in partition)}")
    order = node.args.get("order")
    if order is not None:
        parts.append(f"ORDER BY {', '.join(ordered(expressions, o) for o in order.expressions)}")
    frame = node.args.get("spec")
    if frame is not None:
        parts.append(_frame(frame))
    return " ".join(parts)


def ordered(expressions: Expressions, node: exp.Expr) -> str:
    """An item of ORDER BY. Nulls come last on DuckDB unless it is said otherwise."""
    subject = node.this if isinstance(node, exp.Ordered) else node
    value = expressions.translate(subject)
    if isinstance(value.type, ListType | StructType | MapType | VariantType | UuidType):
        raise refused(node, f"an order of {value.type}")
    return f"{value.sql}{direction(node)}"


def direction(node: exp.Expr) -> str:
    """What follows an expression in ORDER BY: which way, and where nulls are."""
    if not isinstance(node, exp.Ordered):
        return " ASC NULLS LAST"
    if node.args.get("with_fill") is not None:
        raise refused(node)
    return f" {'DESC' if node.args.get('desc') else 'ASC'} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def _frame(frame: exp.WindowSpec) -> str:
    kind = str(frame.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE") or frame.args.get("exclude") is not None:
        raise refused(frame, "this frame")
    start = _bound(frame, kind, "start")
    end = _bound(frame, kind, "end") if frame.args.get("end") is not None else "CURRENT ROW"
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(frame: exp.WindowSpec, kind: str, end: str) -> str:
    bound, side = frame.args.get(end), str(frame.args.get(f"{end}_side") or "").upper()
    if isinstance(bound, str) and bound.upper() in ("UNBOUNDED", "CURRENT ROW"):
        return f"{bound.upper()} {side}".strip()
    if isinstance(bound, exp.Literal) and not bound.is_string and kind == "ROWS" and side:
        return f"{bound.name} {side}"
    raise refused(frame, "this frame")
