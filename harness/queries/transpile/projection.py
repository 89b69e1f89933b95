"""The items of SELECT: expressions, stars, and UNNEST of structs."""

from __future__ import annotations

from sqlglot import exp

from harness.queries.transpile import unnest
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.scopes import Scope
from harness.queries.transpile.values import Typed

Columns = list[tuple[str | None, Typed]]
"""Columns with their names, None where there is none."""


def projected(node: exp.Expr, scope: Scope, expressions: Expressions) -> Columns:
    """The columns that an item gives. Raises UnsupportedError."""
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        return _expanded(node, scope)
    if isinstance(node, exp.Explode):
        return unnest.columns(expressions, node)
    if isinstance(node, exp.Alias):
        return [(node.alias, expressions.translate(node.this))]
    name = node.name if isinstance(node, exp.Column) else None
    return [(name, expressions.translate(node))]


def _expanded(node: exp.Expr, scope: Scope) -> Columns:
    """The columns that a star stands for, in DuckDB's order: a column of USING once, where it is first."""
    star = node.this if isinstance(node, exp.Column) else node
    if any(value for key, value in star.args.items() if key not in ("except_",)):
        raise refused(node, "this star")
    left_out = {e.name.casefold() for e in star.args.get("except_") or ()}
    if isinstance(node, exp.Column):
        found = [
            (c.name, s.column(c))
            for s in scope.sources
            if s.name.casefold() == node.table.casefold()
            for c in s.columns
        ]
    else:
        found = _all(scope)
    return [(name, value) for name, value in found if name is None or name.casefold() not in left_out]


def _all(scope: Scope) -> Columns:
    found: Columns = []
    seen: set[str] = set()
    for source in scope.sources:
        for column in source.columns:
            key = (column.name or "").casefold()
            if key not in scope.merged:
                found.append((column.name, source.column(column)))
            elif key not in seen:
                found.append((column.name, scope.merged[key]))
                seen.add(key)
    return found
