"""`x = ANY (…)` and `x > ALL (…)`, over a query or a list: unknown where a null decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.model.schema import FloatType, ListType
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import BOOLEAN, Typed

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions

_OPERATORS: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def translate(expressions: Expressions, node: exp.Expr) -> Typed | None:
    """The condition; None if it is none of these. Raises UnsupportedError."""
    if not isinstance(node, exp.Binary) or not isinstance(node.expression, exp.Any | exp.All):
        return None
    quantified, any_ = node.expression.this, isinstance(node.expression, exp.Any)
    while isinstance(quantified, exp.Paren | exp.Subquery):
        quantified = quantified.this
    if not isinstance(quantified, exp.Query):
        return _of_list(expressions, node, quantified, any_=any_)
    operator = _OPERATORS.get(type(node))
    if operator is None or expressions.subquery is None:
        raise refused(node)
    return _of_query(expressions, node, quantified, operator, any_=any_)


def _of_list(expressions: Expressions, node: exp.Binary, list_: exp.Expr, *, any_: bool) -> Typed:
    listed = expressions.translate(list_)
    if not isinstance(listed.type, ListType):
        raise refused(node, f"ANY of {listed.type}")
    head, inner = expressions.within(["an element"], listed.type.element.type)
    compared = inner.boolean(type(node)(this=node.this.copy(), expression=exp.column("an element")))
    function, nothing = ("EXISTS", "false") if any_ else ("FORALL", "true")
    return Typed(
        f"CASE WHEN {listed.sql} IS NULL THEN {nothing} ELSE {function}({listed.sql}, {head} -> {compared}) END",
        BOOLEAN,
    )


def _of_query(expressions: Expressions, node: exp.Binary, query: exp.Query, operator: str, *, any_: bool) -> Typed:
    """By the least or the greatest value of the query: what holds for that holds for some value, or for all."""
    assert expressions.subquery is not None
    subject = expressions.translate(node.this)
    sql, types = expressions.subquery(query)
    if len(types) != 1 or str(types[0]) != str(subject.type) or isinstance(subject.type, FloatType):
        raise refused(node, f"{subject.type} {operator} a query of {', '.join(map(str, types))}", "cast to one type")
    extreme = "MIN" if (operator[0] == ">") is any_ else "MAX"
    holds = f"{subject.sql} {operator} (SELECT {extreme}(c0) FROM ({sql}))"
    rows, values = f"(SELECT COUNT(*) FROM ({sql}))", f"(SELECT COUNT(c0) FROM ({sql}))"
    unknown = f"WHEN {values} < {rows} OR {subject.sql} IS NULL THEN NULL"
    if any_:
        return Typed(f"CASE WHEN {rows} = 0 THEN false WHEN {holds} THEN true {unknown} ELSE false END", BOOLEAN)
    return Typed(f"CASE WHEN {rows} = 0 THEN true WHEN NOT ({holds}) THEN false {unknown} ELSE true END", BOOLEAN)
