"""Translation of expressions to Spark's SQL, operator by operator. An unsupported operator is refused with its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from harness.engines.spark.transpile import aggregates, comparisons, ordered_aggregates, spark_text
from harness.engines.spark.transpile.functions import moments, nested, table
from harness.engines.spark.transpile.functions.registry import Call
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import (
    BOOLEAN,
    BOUND,
    DOUBLE,
    HUGE,
    LONG,
    TypedSql,
    as_decimal,
    cast,
    coerce,
    is_number,
    try_cast,
    type_name,
    typed_literal,
    with_common_type,
)
from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.metadata.model import schema as dt

# Arithmetic of decimals and 128-bit integers: DuckDB's result has at most 38 digits, and a larger value is an error. If
# 38 digits are not enough, Spark reduces the digits after the point, down to 6. To prevent this, the operands are first
# cast to narrower types; a value that does not fit is an error there, too.


_MOST = 38
_FEWEST_BEFORE_POINT = 12
"""The fewest digits before the point that a narrowed operand keeps. With fewer, ordinary values would be refused."""


def arithmetic(node: exp.Expr, left: TypedSql, sign: str, right: TypedSql) -> TypedSql | None:
    """Translate a sum, difference, or product of exact numbers. Return None for other types."""
    types = (left.type, right.type)
    if not all(isinstance(t, dt.IntegerType | dt.DecimalType) or t == HUGE for t in types):
        return None
    if any(isinstance(t, dt.DecimalType) for t in types):
        return _decimals(node, left, sign, right)
    if HUGE in types:
        a, b = (coerce(v, HUGE, sign) for v in (left, right))
        return TypedSql(f"CAST(({a} {sign} {b}) AS {type_name(HUGE)})", HUGE)
    return None


def _decimals(node: exp.Expr, left: TypedSql, sign: str, right: TypedSql) -> TypedSql:
    a, b = (dt.DecimalType(_MOST, 0) if v.type == HUGE else as_decimal(v.type) for v in (left, right))
    if sign == "*":
        precision, scale = a.precision + b.precision, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    # Spark's result type for a product has one more digit.
    if precision + 1 > _MOST and scale > 6:
        narrow_types = _narrow(a, b, sign, scale)
        if narrow_types is None:
            raise refusal(node, f"{left.type} {sign} {right.type}, which may need more than 38 digits,")
        a, b = narrow_types
    result = dt.DecimalType(min(precision, _MOST), scale)
    # A 128-bit integer is represented as a decimal already.
    texts = [
        v.sql if v.type == HUGE and t == dt.DecimalType(_MOST, 0) else coerce(v, t, sign)
        for v, t in ((left, a), (right, b))
    ]
    return TypedSql(f"CAST(({texts[0]} {sign} {texts[1]}) AS {type_name(result)})", result)


def _narrow(a: dt.DecimalType, b: dt.DecimalType, sign: str, scale: int) -> list[dt.DecimalType] | None:
    """Return operand types with which Spark keeps all digits. None if too few digits would be left before the point."""
    if sign != "*":
        narrow = dt.DecimalType(_MOST - 1, scale)
        fits = narrow.precision - scale >= _FEWEST_BEFORE_POINT
        return [narrow, narrow] if fits else None
    left = min(a.precision, _MOST - 1 - b.precision) if a.precision >= b.precision else a.precision
    right = min(b.precision, _MOST - 1 - left)
    narrow_a, narrow_b = dt.DecimalType(left, a.scale), dt.DecimalType(right, b.scale)
    narrowed = [new for new, old in ((narrow_a, a), (narrow_b, b)) if new != old]
    fits = scale <= _MOST and all(n.precision - n.scale >= _FEWEST_BEFORE_POINT for n in narrowed)
    return [narrow_a, narrow_b] if fits else None


@dataclass(frozen=True, slots=True)
class Expressions:
    """Translates expressions.

    Attributes:
        resolve: Returns the expression that a path of names refers to.
        subquery: Translates a subquery and returns its SQL and column types. None if subqueries are not allowed.
        unnested: Returns the element of a list that the projection unnests. None if UNNEST is not allowed.
        variables: The variables of the surrounding lambdas, by name in lower case.
    """

    resolve: Callable[[tuple[str, ...]], TypedSql]
    subquery: Callable[[exp.Query], tuple[str, tuple[dt.Type, ...]]] | None = None
    unnested: Callable[[exp.Explode], TypedSql] | None = None
    variables: Mapping[str, TypedSql] = field(default_factory=dict)

    def within(self, names: Sequence[str], element: dt.Type) -> tuple[str, Expressions]:
        """Return the head of a lambda and the `Expressions` for its body.

        Args:
            names: The names of the element and, optionally, of its index from 1.
            element: The type of the element.
        """
        depth = len(self.variables)
        texts = [f"v{depth + place}" for place in range(len(names))]
        typed = [TypedSql(texts[0], element), *(TypedSql(f"CAST({text} + 1 AS BIGINT)", LONG) for text in texts[1:])]
        parameters = {name.casefold(): value for name, value in zip(names, typed, strict=True)}
        head = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        return head, Expressions(self.resolve, variables={**self.variables, **parameters})

    def translate(self, node: exp.Expr) -> TypedSql:
        """Translate an expression.

        Raises:
            UnsupportedError: A part may mean something else on Spark.
        """
        literal = literal_of(node)
        if literal is not None:
            return typed_literal(literal)
        match node:
            case exp.Paren():
                return self.translate(node.this)
            case exp.Placeholder() if BOUND in node.meta:
                bound: TypedSql = node.meta[BOUND]
                return bound
            case exp.Identifier() if node.name.casefold() in self.variables:
                return self.variables[node.name.casefold()]
            case exp.Column() if node.parts[0].name.casefold() in self.variables:
                first, *others = (part.name for part in node.parts)
                return nested.members(self.variables[first.casefold()], others, node)
            case exp.Column():
                return self.resolve(tuple(part.name for part in node.parts))
            case exp.Dot(expression=exp.Identifier()):
                return nested.members(self.translate(node.this), [node.expression.name], node)
            case exp.And() | exp.Or():
                word = " AND " if isinstance(node, exp.And) else " OR "
                return TypedSql(f"({word.join(self.boolean(part) for part in node.flatten())})", BOOLEAN)
            case exp.Not():
                return TypedSql(f"(NOT {self.boolean(node.this)})", BOOLEAN)
            case exp.Neg():
                value = self.translate(node.this)
                if not is_number(value.type):
                    raise refusal(node)
                return TypedSql(f"(- {value.sql})", value.type)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(node)
            case exp.Div() | exp.IntDiv():
                return self._division(node)
            case exp.Interval():
                is_literal = node.this is None or moments.interval(node) is not None
                span = moments.interval_of_node(node, None if is_literal else self.translate(node.this))
                if span is None:
                    raise refusal(node)
                return span
            case exp.Bracket():
                return self._element(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Cast() if type(node) is exp.Cast:
                return cast(self.translate(node.this), node)
            case exp.Comprehension():
                return nested.comprehension(Call(self, node, "list_transform", ()), node)
            case exp.Array() if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Comprehension):
                return self.translate(node.expressions[0])
            case exp.ToMap(this=exp.Struct() as pairs):
                entries = [item for item in pairs.expressions if isinstance(item, exp.PropertyEQ)]
                call = Call(self, pairs, "MAP", ())
                if len(entries) < len(pairs.expressions):
                    raise call.refusal("this MAP")
                return nested.map_from_lists(call, [p.this for p in entries], [p.expression for p in entries])
            case exp.ToMap(this=exp.Bracket(this=exp.Struct() as pairs) as looked_up):
                # sqlglot reads `MAP {k: v}[k]` as MAP of an element.
                return self._element(exp.Bracket(this=exp.ToMap(this=pairs), expressions=looked_up.expressions))
            case exp.TryCast():
                return try_cast(self.translate(node.this), node)
            case exp.Subquery() if self.subquery is not None and isinstance(node.this, exp.Query):
                sql, types = self.subquery(node.this)
                if len(types) != 1:
                    raise refusal(node.this, "a subquery of several columns")
                return TypedSql(f"({sql})", types[0])
            case exp.Explode() if self.unnested is not None:
                return self.unnested(node)
            case exp.Exists() if self.subquery is not None:
                return TypedSql(f"EXISTS ({self.subquery(node.this)[0]})", BOOLEAN)
            case _:
                node = ordered_aggregates.in_any_order(node) or node
                expression = (
                    comparisons.translate(self, node)
                    or table.translate(self, node)
                    or aggregates.window_function(self, node)
                    or aggregates.lower_aggregate(aggregates.Aggregate(self, node))
                )
                if expression is None:
                    raise refusal(node)
                return TypedSql(f"(NOT {expression.sql})", BOOLEAN) if node.args.get("negate") else expression

    def boolean(self, node: exp.Expr) -> str:
        """Translate a condition."""
        value = self.translate(node)
        if value.literal is not None and value.literal.kind is LiteralKind.NULL:
            return "CAST(NULL AS BOOLEAN)"
        if value.type != BOOLEAN:
            raise refusal(node, f"a {value.type} as a condition")
        return value.sql

    def _arithmetic(self, node: exp.Binary) -> TypedSql:
        left, right = self.translate(node.this), self.translate(node.expression)
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        if any(isinstance(v.type, dt.DateType | dt.TimestampType) or v.type == moments.INTERVAL for v in (left, right)):
            result = moments.arithmetic(left, sign, right)
            if result is None:
                raise refusal(node, f"{left.type} {sign} {right.type}")
            return result
        exact = arithmetic(node, left, sign, right)
        if exact is not None:
            return exact
        if not is_number(left.type) or not is_number(right.type):
            raise refusal(node, f"{left.type} {sign} {right.type}")
        (a, b), type_ = with_common_type((left, right), sign)
        return TypedSql(f"({a} {sign} {b})", type_)

    def _division(self, node: exp.Binary) -> TypedSql:
        left, right = self.translate(node.this), self.translate(node.expression)
        if isinstance(node, exp.Div):
            if not is_number(left.type) or not is_number(right.type):
                raise refusal(node)
            if dt.FloatType(32) in (left.type, right.type):
                raise refusal(node, "a division of 32-bit floats")
            return _quotient(node, left, right)
        if not isinstance(left.type, dt.IntegerType) or not isinstance(right.type, dt.IntegerType):
            raise refusal(node, f"// of {left.type} and {right.type}")
        (a, b), type_ = with_common_type((left, right), "//")
        # DIV returns a BIGINT. The only quotient that does not fit also overflows in the cast.
        return TypedSql(f"CAST(({a} DIV {b}) AS {spark_text.type_name(type_)})", type_)

    def _element(self, node: exp.Bracket) -> TypedSql:
        base = self.translate(node.this)
        call = Call(self, node, "an element", (node.this, *node.expressions))
        if len(node.expressions) != 1:
            raise refusal(node)
        key = node.expressions[0]
        if isinstance(base.type, dt.StructType) and isinstance(key, exp.Literal) and key.is_string:
            return nested.members(base, [key.name], node)
        if isinstance(base.type, dt.MapType):
            return nested.lookup(call)
        if not isinstance(base.type, dt.ListType | dt.StringType):
            raise refusal(node, f"an element of a {base.type}")
        if isinstance(key, exp.Slice):
            if key.args.get("step") is not None:
                raise refusal(node, "a slice with a step")
            bounds = [None if key.args.get(end) is None else self.translate(key.args[end]) for end in _BOUNDS]
            return nested.slice_list(call, base, *bounds)
        if isinstance(base.type, dt.StringType):
            return nested.character(call, base, self.translate(key))
        return nested.element_at(call, base, self.translate(key))

    def _case(self, node: exp.Case | exp.If) -> TypedSql:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        subject = node.this if isinstance(node, exp.Case) else None
        default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
        results = [self.translate(b.args["true"]) for b in branches]
        results.append(self.translate(default if default is not None else exp.Null()))
        texts, type_ = with_common_type(results, "CASE")
        tests = [
            self.boolean(b.this if subject is None else exp.EQ(this=subject.copy(), expression=b.this.copy()))
            for b in branches
        ]
        whens = " ".join(f"WHEN {test} THEN {text}" for test, text in zip(tests, texts[:-1], strict=True))
        return TypedSql(f"CASE {whens} ELSE {texts[-1]} END", type_)


_BOUNDS = ("this", "expression")


def _quotient(node: exp.Binary, left: TypedSql, right: TypedSql) -> TypedSql:
    """Translate a division of doubles. A division by 0 is infinity or NaN on DuckDB, but an error on Spark."""
    a, b = coerce(left, DOUBLE, "/"), coerce(right, DOUBLE, "/")
    divisor = literal_of(node.expression)
    if (
        divisor is not None
        and divisor.kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE)
        and divisor.value
    ):
        return TypedSql(f"({a} / {b})", DOUBLE)
    infinity, negative = (spark_text.literal(value, DOUBLE) for value in (math.inf, -math.inf))
    if isinstance(right.type, dt.FloatType):  # the only type with a negative zero
        infinity = f"IF(CAST({b} AS STRING) = '-0.0', {negative}, {infinity})"
    return TypedSql(f"IF({b} = 0, {a} * {infinity}, {a} / {b})", DOUBLE)
