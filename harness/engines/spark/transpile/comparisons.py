"""Translation of comparisons, IN, BETWEEN, and LIKE."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions import moments, nested
from harness.engines.spark.transpile.functions.registry import Call
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import BOOLEAN, TEXT, TypedSql, with_common_type
from harness.metadata.model import schema as dt

if TYPE_CHECKING:
    from harness.engines.spark.transpile.expressions import Expressions


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
}
_EQUALITY = ("=", "<>", "<=>")


def translate(expressions: Expressions, node: exp.Expr) -> TypedSql | None:
    """Translate a comparison to a condition. Return None if the node is not a comparison."""
    comparison = _quantified(expressions, node)
    if comparison is not None:
        return comparison
    match node:
        case exp.EQ(this=exp.Tuple() as first, expression=exp.Tuple() as second):
            if len(first.expressions) != len(second.expressions):
                raise refusal(node)
            return TypedSql(_same_tuple(expressions, node, first, second), BOOLEAN)
        case _ if type(node) in _OPERATORS:
            left, right = (_as_text(expressions.translate(n)) for n in (node.this, node.expression))
            left, right = _as_span(node.this, left, right), _as_span(node.expression, right, left)
            sql = _compare(node, _OPERATORS[type(node)], left, right)
            return TypedSql(f"(NOT {sql})" if isinstance(node, exp.NullSafeNEQ) else sql, BOOLEAN)
        case exp.Is():
            if isinstance(node.expression, exp.Null):
                return TypedSql(f"({expressions.translate(node.this).sql} IS NULL)", BOOLEAN)
            if isinstance(node.expression, exp.Boolean):
                truth = "true" if node.expression.this else "false"
                return TypedSql(f"({expressions.boolean(node.this)} <=> {truth})", BOOLEAN)
            raise refusal(node, "IS")
        case exp.In():
            return TypedSql(_in(expressions, node), BOOLEAN)
        case exp.Between() if not node.args.get("symmetric"):
            parts = [_as_text(expressions.translate(n)) for n in (node.this, node.args["low"], node.args["high"])]
            (subject, low, high), type_ = with_common_type(parts, "BETWEEN")
            _check_ordered(node, type_)
            subject = subject if _is_computed(parts[0], node.this) else _without_pushdown(subject, type_)
            # For a BETWEEN of an expression, Spark uses neither join keys nor filters on one side.
            return TypedSql(f"({subject} >= {low} AND {subject} <= {high})", BOOLEAN)
        case exp.Like() | exp.ILike():
            return TypedSql(_like(expressions, node, None), BOOLEAN)
        case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
            sql = _like(expressions, node.this, node.expression)
            return TypedSql(f"(NOT {sql})" if node.this.args.get("negate") else sql, BOOLEAN)
        case exp.IsNan():
            value = expressions.translate(node.this)
            if not isinstance(value.type, dt.FloatType):
                raise refusal(node, f"isnan of {value.type}")
            nan = spark_text.literal(float("nan"), value.type)
            return TypedSql(f"({_without_pushdown(value.sql, value.type)} = {nan})", BOOLEAN)
        case _:
            return None


def _quantified(expressions: Expressions, node: exp.Expr) -> TypedSql | None:
    """Translate `x = ANY (…)` and `x > ALL (…)` over a query or a list. Return None for other nodes.

    The result is null if a null decides.
    """
    if not isinstance(node, exp.Binary) or not isinstance(node.expression, exp.Any | exp.All):
        return None
    quantified, any_ = node.expression.this, isinstance(node.expression, exp.Any)
    while isinstance(quantified, exp.Paren | exp.Subquery):
        quantified = quantified.this
    if not isinstance(quantified, exp.Query):
        listed = expressions.translate(quantified)
        if not isinstance(listed.type, dt.ListType):
            raise refusal(node, f"ANY of {listed.type}")
        head, inner = expressions.within(["an element"], listed.type.element.type)
        comparison = inner.boolean(type(node)(this=node.this.copy(), expression=exp.column("an element")))
        function, default = ("EXISTS", "false") if any_ else ("FORALL", "true")
        return TypedSql(
            f"CASE WHEN {listed.sql} IS NULL THEN {default} ELSE {function}({listed.sql}, {head} -> {comparison}) END",
            BOOLEAN,
        )
    operator = _OPERATORS.get(type(node), "=")
    if operator in _EQUALITY or expressions.subquery is None:
        raise refusal(node)
    # Comparing with the minimum or maximum of the query decides for some value or for all values.
    subject = expressions.translate(node.this)
    sql, types = expressions.subquery(quantified)
    if len(types) != 1 or str(types[0]) != str(subject.type) or isinstance(subject.type, dt.FloatType):
        raise refusal(node, f"{subject.type} {operator} a query of {', '.join(map(str, types))}", "cast to one type")
    extreme = "MIN" if (operator[0] == ">") is any_ else "MAX"
    holds = f"{subject.sql} {operator} (SELECT {extreme}(c0) FROM ({sql}))"
    rows, values = f"(SELECT COUNT(*) FROM ({sql}))", f"(SELECT COUNT(c0) FROM ({sql}))"
    unknown = f"WHEN {values} < {rows} OR {subject.sql} IS NULL THEN NULL"
    default, condition, result = ("false", holds, "true") if any_ else ("true", f"NOT ({holds})", "false")
    sql = f"CASE WHEN {rows} = 0 THEN {default} WHEN {condition} THEN {result} {unknown} ELSE {default} END"
    return TypedSql(sql, BOOLEAN)


def _as_text(value: TypedSql) -> TypedSql:
    """Return a variant as its JSON text. Harness wrote the text, so it is the same on both engines."""
    return TypedSql(value.sql, TEXT, value.literal) if isinstance(value.type, dt.VariantType) else value


def _as_span(node: exp.Expr, value: TypedSql, other: TypedSql) -> TypedSql:
    """Return a side of a comparison. An interval compared with a difference of timestamps becomes a difference, too."""
    parts = moments.interval(node) if other.type == moments.SPAN else None
    return value if parts is None else moments.span(parts) or value


def _compare(node: exp.Expr, operator: str, left: TypedSql, right: TypedSql) -> str:
    (a, b), type_ = with_common_type((left, right), operator)
    _check_comparable(node, type_)
    if operator not in _EQUALITY:
        _check_ordered(node, type_)
    a, b = (
        text if v.literal is not None or _is_computed(v, part) else _without_pushdown(text, type_)
        for v, part, text in ((left, node.this, a), (right, node.expression, b))
    )
    return f"({a} {operator} {b})"


def _is_computed(value: TypedSql, node: exp.Expr) -> bool:
    """Return whether a value is certainly computed, so that it cannot be a float column of a file.

    Spark may then draw inferences from a comparison.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        return any(item.find(exp.AggFunc) is not None for item in node.this.expressions)
    return isinstance(value.type, dt.DecimalType) or isinstance(node, _ARITHMETIC)


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Avg, exp.Sum)


def _without_pushdown(sql: str, type_: dt.Type) -> str:
    """Return an equal expression that Spark does not compare with Parquet statistics, which ignore NaN."""
    return f"NANVL({sql}, {spark_text.literal(float('nan'), type_)})" if isinstance(type_, dt.FloatType) else sql


def _check_comparable(node: exp.Expr, type_: dt.Type) -> None:
    nested = (dt.ListType, dt.StructType, dt.MapType, dt.VariantType, dt.GeometryType, dt.GeographyType)
    if isinstance(type_, nested) or type_ == moments.INTERVAL:
        raise refusal(node, f"a comparison of {type_}")


def _check_ordered(node: exp.Expr, type_: dt.Type) -> None:
    _check_comparable(node, type_)
    if isinstance(type_, dt.UuidType):
        raise refusal(node, "an order of uuid")


def _in(expressions: Expressions, node: exp.In) -> str:
    if node.args.get("unnest"):
        raise refusal(node, "IN")
    if node.args.get("field") is not None:
        membership = nested.contains(Call(expressions, node, "IN", (node.args["field"], node.this)))
        if membership is None:
            raise refusal(node, "IN of a value that is not a list")
        return membership.sql
    query = node.args.get("query")
    if isinstance(node.this, exp.Tuple) and query is None:
        # Tuples are compared as values: null equals null.
        items = []
        for item in node.expressions:
            if not isinstance(item, exp.Tuple) or len(item.expressions) != len(node.this.expressions):
                raise refusal(node, "IN of a tuple and a value that is not a tuple")
            items.append(_same_tuple(expressions, node, node.this, item))
        return f"({' OR '.join(items)})"
    if query is not None:
        # with more parentheses, Spark would read a scalar subquery
        while isinstance(query, exp.Subquery) and query.is_wrapper:
            query = query.this
        return _in_query(expressions, node, query)
    subject = expressions.translate(node.this)
    texts, type_ = with_common_type(
        [_as_text(v) for v in (subject, *map(expressions.translate, node.expressions))], "IN"
    )
    _check_comparable(node, type_)
    if isinstance(type_, dt.FloatType):
        # Spark searches long lists with a hash set, in which -0.0 is not 0.0.
        return f"({' OR '.join(f'{_without_pushdown(texts[0], type_)} = {item}' for item in texts[1:])})"
    return f"({texts[0]} IN ({', '.join(texts[1:])}))"


def _in_query(expressions: Expressions, node: exp.In, query: exp.Expr) -> str:
    """Translate `x IN (SELECT …)` and `(a, b) IN (SELECT …)`."""
    if expressions.subquery is None or not isinstance(query, exp.Query):
        raise refusal(node, "a subquery")
    parts = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    values = [expressions.translate(part) for part in parts]
    sql, types = expressions.subquery(query)
    if len(types) == 1 == len(values) and all(isinstance(t, dt.IntegerType) for t in (types[0], values[0].type)):
        (text, _), wide_type = with_common_type(
            (TypedSql(values[0].sql, values[0].type), TypedSql("c0", types[0])), "IN"
        )
        if str(types[0]) != str(wide_type):
            sql = f"SELECT CAST(c0 AS {spark_text.type_name(wide_type)}) AS c0 FROM ({sql})"
        values, types = [TypedSql(text, wide_type)], (wide_type,)
    type_names = [str(v.type) for v in values]
    if type_names != [str(type_) for type_ in types] or any(isinstance(v.type, dt.FloatType) for v in values):
        raise refusal(node, f"{', '.join(type_names)} IN a query of {', '.join(map(str, types))}", "cast to one type")
    subject = values[0].sql if len(values) == 1 else f"({', '.join(v.sql for v in values)})"
    membership = f"({subject} IN ({sql}))"
    parent = node.parent.parent if isinstance(node.parent, exp.Not) else node.parent
    while isinstance(parent, exp.Paren | exp.And | exp.Or):
        parent = parent.parent
    if isinstance(parent, exp.Where | exp.Having | exp.Qualify | exp.Join):  # here null has the same effect as false
        return membership
    # Spark's IN as a value is false in cases in which SQL requires null.
    if len(values) > 1:
        raise refusal(node, "IN of several columns as a value", "put it into WHERE, alone or with AND and OR")
    has_rows, nulls = f"EXISTS ({sql})", f"EXISTS (SELECT 1 FROM ({sql}) WHERE c0 IS NULL)"
    return (
        f"CASE WHEN {membership} THEN true WHEN {nulls} OR ({subject} IS NULL AND {has_rows}) THEN NULL ELSE false END"
    )


def _same_tuple(expressions: Expressions, node: exp.Expr, left: exp.Tuple, right: exp.Tuple) -> str:
    parts = []
    for a, b in zip(left.expressions, right.expressions, strict=True):
        values = expressions.translate(a), expressions.translate(b)
        if all(isinstance(v.type, dt.UnknownType) for v in values):
            raise refusal(node, "a tuple with a null that has no type")
        parts.append(_compare(node, "<=>", *values))
    return f"({' AND '.join(parts)})"


def _like(expressions: Expressions, node: exp.Like | exp.ILike, escape: exp.Expr | None) -> str:
    subject, pattern = _as_text(expressions.translate(node.this)), expressions.translate(node.expression)
    if isinstance(pattern.type, dt.UnknownType):
        return "CAST(NULL AS BOOLEAN)"
    text = pattern.text
    if subject.type != TEXT or text is None:
        raise refusal(node, "LIKE with a pattern that is not a literal")
    if isinstance(node, exp.Like):
        return f"({subject.sql} LIKE {spark_text.text(_pattern(node, text, escape))})"
    if not text.isascii():
        raise refusal(node, "ILIKE with non-ASCII letters", "use LIKE")
    like = spark_text.text(_pattern(node, text.lower(), escape))
    return f"(TRANSLATE({subject.sql}, {_CAPITALS}, {_SMALL}) LIKE {like})"


# Letters whose lower-case letter is ASCII in every locale of the JVM. The last two are not ASCII themselves.
_CAPITALS = spark_text.text(string.ascii_uppercase + "\u0130\u212a")
_SMALL = spark_text.text(string.ascii_lowercase + "ik")


def _pattern(node: exp.Like | exp.ILike, pattern: str, escape: exp.Expr | None) -> str:
    """Return a LIKE pattern with Spark's escape character, a backslash, in place of DuckDB's."""
    sign = escape.name if isinstance(escape, exp.Literal) else None
    if escape is not None and (sign is None or len(sign) != 1):
        raise refusal(node, "this ESCAPE")
    result, characters = "", iter(pattern)
    for character in characters:
        if character == sign:
            character = next(characters, "")
            if not character:
                raise refusal(node, "a pattern that ends with its escape")
            result += f"\\{character}" if character in "%_\\" else character
        else:
            result += "\\\\" if character == "\\" else character
    return result
