"""Which rows of nulls a condition drops: those that an outer join puts in place of a row that is missing."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from harness.filters.literals import Kind, literal_of

_Sources = frozenset[int]
_NONE: _Sources = frozenset()
_OF_ONE = {exp.Paren, exp.Cast, exp.TryCast, exp.Neg, exp.Not, exp.Year, exp.TimestampTrunc, exp.IsNan, exp.Between}
"""Null where `this` is."""
_OF_TWO = {
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Like,
    exp.StartsWith,
    exp.Add,
    exp.Sub,
    exp.Mul,
}
"""Null where `this` or `expression` is."""


def rejected(condition: exp.Expr, index_of: Callable[[exp.Column], int | None]) -> frozenset[int]:
    """The sources that the condition is not true for, where all columns of one of them are null.

    index_of: which source a column is of; None: it is not known.
    """
    kind = type(condition)
    if kind is exp.Paren:
        return rejected(condition.this, index_of)
    if kind is exp.And:
        return frozenset().union(*(rejected(part, index_of) for part in condition.flatten()))
    if kind is exp.Or:
        first, *others = (rejected(part, index_of) for part in condition.flatten())
        return first.intersection(*others)
    if kind is exp.Not and type(condition.this) is exp.Is and isinstance(condition.this.expression, exp.Null):
        return _null_with(condition.this.this, index_of)
    if kind is exp.Is and isinstance(condition.expression, exp.Boolean):
        return _null_with(condition.this, index_of)
    if kind is exp.NullSafeEQ:
        literal = literal_of(condition.expression)
        is_value = literal is not None and literal.kind is not Kind.NULL
        return _null_with(condition.this, index_of) if is_value else _NONE
    return _null_with(condition, index_of)


def _null_with(node: exp.Expr, index_of: Callable[[exp.Column], int | None]) -> _Sources:
    """The sources with whose nulls an expression is null; of parts that are not understood, none."""
    kind = type(node)
    if isinstance(node, exp.Column):
        index = index_of(node)
        return _NONE if index is None else frozenset({index})
    if kind in _OF_ONE or (kind is exp.In and node.expressions and not node.args.get("query")):
        return _null_with(node.this, index_of)
    if kind in _OF_TWO:
        return _null_with(node.this, index_of) | _null_with(node.expression, index_of)
    if kind in (exp.And, exp.Or):
        return _null_with(node.this, index_of) & _null_with(node.expression, index_of)
    return _NONE
