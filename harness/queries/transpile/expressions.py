"""Expressions in Spark's SQL, operator by operator; what is not here is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from harness.filters.literals import Kind, Literal, literal_of
from harness.model.schema import (
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StructType,
    Type,
)
from harness.queries.transpile import aggregates, casts, comparisons, spark_text
from harness.queries.transpile.functions import table
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import (
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGE,
    LONG,
    Typed,
    alike,
    as_decimal,
    coerced,
    of_literal,
)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Lowers expressions whose names mean what `resolve` says.

    resolve: the expression that a path of names stands for; raises where it does not know.
    subquery: a query inside an expression as Spark's SQL, and the types of its columns; None where there can be none.
    """

    resolve: Callable[[tuple[str, ...]], Typed]
    subquery: Callable[[exp.Query], tuple[str, tuple[Type, ...]]] | None = None

    def translate(self, node: exp.Expr) -> Typed:
        """The expression with its type.

        Raises:
            UnsupportedError: it holds something that may mean different things on the two engines.
        """
        literal = literal_of(node)
        if literal is not None:
            return of_literal(literal)
        match node:
            case exp.Paren():
                return self.translate(node.this)
            case exp.Column():
                return self.resolve(tuple(part.name for part in node.parts))
            case exp.Dot():
                return self._dot(node)
            case exp.And() | exp.Or():
                word = " AND " if isinstance(node, exp.And) else " OR "
                return Typed(f"({word.join(self.boolean(part) for part in node.flatten())})", BOOLEAN)
            case exp.Not():
                return Typed(f"(NOT {self.boolean(node.this)})", BOOLEAN)
            case exp.Neg():
                return self._negative(node)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(node)
            case exp.Div() | exp.IntDiv() | exp.Mod():
                return self._division(node)
            case exp.Bracket():
                return self._element(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Cast() if type(node) is exp.Cast:
                return casts.cast(self.translate(node.this), node)
            case exp.Subquery() if self.subquery is not None and isinstance(node.this, exp.Query):
                return self._scalar_subquery(node.this)
            case exp.Exists() if self.subquery is not None:
                return Typed(f"EXISTS ({self.subquery(node.this)[0]})", BOOLEAN)
            case _:
                return self._other(node)

    def _other(self, node: exp.Expr) -> Typed:
        for lower in (comparisons.translate, table.translate, aggregates.translate):
            found = lower(self, node)
            if found is not None:
                return Typed(f"(NOT {found.sql})", BOOLEAN) if node.args.get("negate") else found
        raise refused(node)

    def boolean(self, node: exp.Expr) -> str:
        """A condition."""
        value = self.translate(node)
        if value.literal is not None and value.literal.kind is Kind.NULL:
            return "CAST(NULL AS BOOLEAN)"
        if value.type != BOOLEAN:
            raise refused(node, f"a {value.type} as a condition")
        return value.sql

    def _dot(self, node: exp.Dot) -> Typed:
        base, part = self.translate(node.this), node.expression
        if not isinstance(part, exp.Identifier):
            raise refused(node)
        return member(base, part.name, node)

    def _negative(self, node: exp.Neg) -> Typed:
        value = self.translate(node.this)
        if not isinstance(value.type, IntegerType | FloatType | DecimalType):
            raise refused(node)
        return Typed(f"(- {value.sql})", value.type)

    def _arithmetic(self, node: exp.Binary) -> Typed:
        left, right = self.translate(node.this), self.translate(node.expression)
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        if isinstance(left.type, DateType) and not isinstance(node, exp.Mul):
            return _date_arithmetic(node, left, sign, right)
        types = (left.type, right.type)
        if not all(isinstance(t, IntegerType | DecimalType | FloatType) for t in types):
            raise refused(node, f"{left.type} {sign} {right.type}")
        if any(isinstance(t, DecimalType) for t in types) and not any(isinstance(t, FloatType) for t in types):
            return _decimal_arithmetic(node, left, sign, right)
        (a, b), type_ = alike((left, right), f"{sign}")
        return Typed(f"({a} {sign} {b})", type_)

    def _division(self, node: exp.Binary) -> Typed:
        left, right = self.translate(node.this), self.translate(node.expression)
        if isinstance(node, exp.Div):
            numbers = (IntegerType, DecimalType, FloatType)
            if any(not isinstance(v.type, numbers) and v.type != HUGE for v in (left, right)):
                raise refused(node)
            if FloatType(32) in (left.type, right.type):
                raise refused(node, "a division of 32-bit floats")
            return Typed(f"({coerced(left, DOUBLE, '/')} / {coerced(right, DOUBLE, '/')})", DOUBLE)
        if not isinstance(left.type, IntegerType) or not isinstance(right.type, IntegerType):
            raise refused(node, f"{'//' if isinstance(node, exp.IntDiv) else '%'} of {left.type} and {right.type}")
        (a, b), type_ = alike((left, right), "//")
        if isinstance(node, exp.Mod):
            return Typed(f"({a} % {b})", type_)
        # DIV gives a BIGINT. The one quotient that does not fit is an overflow in the cast as well.
        return Typed(f"CAST(({a} DIV {b}) AS {spark_text.type_name(type_)})", type_)

    def _element(self, node: exp.Bracket) -> Typed:
        base = self.translate(node.this)
        if len(node.expressions) != 1:
            raise refused(node)
        key = node.expressions[0]
        if isinstance(base.type, StructType) and isinstance(key, exp.Literal) and key.is_string:
            return member(base, key.name, node)
        literal = literal_of(key)
        if literal is None or literal.kind not in (Kind.INTEGER, Kind.STRING):
            raise refused(node, "an element that no literal names")
        if literal.kind is Kind.INTEGER:
            # sqlglot has subtracted one, for dialects that count from zero.
            literal = Literal(Kind.INTEGER, literal.value + 1)
        if isinstance(base.type, MapType):
            wanted = coerced(of_literal(literal), base.type.key.type, "a key of a map")
            return Typed(f"TRY_ELEMENT_AT({base.sql}, {wanted})", base.type.value.type)
        if not isinstance(base.type, ListType) or literal.kind is not Kind.INTEGER or not literal.value:
            raise refused(node, f"element {literal.value!r} of a {base.type}")
        return Typed(f"TRY_ELEMENT_AT({base.sql}, {literal.value})", base.type.element.type)

    def _case(self, node: exp.Case | exp.If) -> Typed:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        subject = node.this if isinstance(node, exp.Case) else None
        default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
        results = [self.translate(b.args["true"]) for b in branches]
        results.append(self.translate(default if default is not None else exp.Null()))
        texts, type_ = alike(results, "CASE")
        tests = [self._test(subject, branch.this) for branch in branches]
        whens = " ".join(f"WHEN {test} THEN {text}" for test, text in zip(tests, texts[:-1], strict=True))
        return Typed(f"CASE {whens} ELSE {texts[-1]} END", type_)

    def _test(self, subject: exp.Expr | None, test: exp.Expr) -> str:
        return self.boolean(test if subject is None else exp.EQ(this=subject.copy(), expression=test.copy()))

    def _scalar_subquery(self, query: exp.Query) -> Typed:
        assert self.subquery is not None
        sql, types = self.subquery(query)
        if len(types) != 1:
            raise refused(query, "a subquery of several columns")
        return Typed(f"({sql})", types[0])


def member(base: Typed, name: str, node: exp.Expr) -> Typed:
    """A field of a struct; names match in their case first, as DuckDB has it."""
    fields = base.type.fields if isinstance(base.type, StructType) else ()
    alike_ = [f for f in fields if f.name == name] or [f for f in fields if f.name.casefold() == name.casefold()]
    if len(alike_) != 1:
        raise refused(node, f"field {name} of {base.type}")
    return Typed(f"({base.sql}).{spark_text.name(alike_[0].name)}", alike_[0].type)


def _date_arithmetic(node: exp.Binary, left: Typed, sign: str, right: Typed) -> Typed:
    if isinstance(right.type, IntegerType) and right.type.bits <= 32:
        function = "DATE_ADD" if sign == "+" else "DATE_SUB"
        return Typed(f"{function}({left.sql}, {right.sql})", DATE)
    if sign == "-" and isinstance(right.type, DateType):
        return Typed(f"CAST(DATEDIFF({left.sql}, {right.sql}) AS BIGINT)", LONG)
    raise refused(node, f"date {sign} {right.type}")


def _decimal_arithmetic(node: exp.Binary, left: Typed, sign: str, right: Typed) -> Typed:
    a, b = as_decimal(left.type), as_decimal(right.type)
    if sign == "*":
        precision, scale = a.precision + b.precision, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    # Beyond 38 digits, Spark cuts digits after the point down to six; it takes one digit more for a product.
    if precision + 1 > 38 and scale > 6:
        raise refused(node, f"{left.type} {sign} {right.type}, which may need more than 38 digits,")
    result = DecimalType(min(precision, 38), scale)
    texts = [coerced(v, t, sign) for v, t in ((left, a), (right, b))]
    return Typed(f"CAST(({texts[0]} {sign} {texts[1]}) AS {spark_text.type_name(result)})", result)
