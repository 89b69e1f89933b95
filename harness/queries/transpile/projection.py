"""The items of SELECT: expressions, stars, and UNNEST of structs."""

from __future__ import annotations

import re
from dataclasses import replace

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
    if _is_star(node):
        return _expanded(node, scope, expressions)
    if isinstance(node, exp.Like) and _is_star(node.this):
        return [c for c in _expanded(node.this, scope, expressions) if _is_like(node, c[0] or "")]
    if isinstance(node, exp.Explode):
        return unnest.columns(expressions, node)
    if node.find(exp.Columns) is not None:
        return _of_columns(node, scope, expressions)
    if isinstance(node, exp.Alias):
        return [(node.alias, expressions.translate(node.this))]
    name = node.name if isinstance(node, exp.Column) else None
    return [(name, expressions.translate(node))]


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _expanded(node: exp.Expr, scope: Scope, expressions: Expressions) -> Columns:
    """The columns that a star stands for, in DuckDB's order: a column of USING once, where it is first."""
    star = node.this if isinstance(node, exp.Column) else node
    if any(value for key, value in star.args.items() if key not in ("except_", "replace", "rename")):
        raise refused(node, "this star")
    if any(isinstance(e, exp.Column) and e.table for e in star.args.get("except_") or ()):
        raise refused(node, "a star without a column of one table", "write t.* EXCLUDE (…)")
    left_out = {e.name.casefold() for e in star.args.get("except_") or ()}
    replaced = {e.alias.casefold(): e.this for e in star.args.get("replace") or ()}
    renamed = {e.this.name.casefold(): e.alias for e in star.args.get("rename") or ()}
    if isinstance(node, exp.Column):
        found = [
            (c.name, s.column(c))
            for s in scope.sources
            if s.name.casefold() == node.table.casefold()
            for c in s.columns
        ]
    else:
        found = _all(scope)
    columns: Columns = []
    for name, value in found:
        key = (name or "").casefold()
        if key not in left_out:
            value = expressions.translate(replaced[key]) if key in replaced else value
            columns.append((renamed.get(key, name), value))
    return columns


_EACH = "a column of columns"


def _of_columns(node: exp.Expr, scope: Scope, expressions: Expressions) -> Columns:
    """An expression with COLUMNS(…) in it, once for each of them."""
    calls = list(node.find_all(exp.Columns))
    if any(call.this != calls[0].this for call in calls):
        raise refused(node, "several different COLUMNS in one expression")
    found: Columns = []
    alias = node.alias if isinstance(node, exp.Alias) else None
    for name, value in _chosen(calls[0], scope, expressions):
        item = node.unalias().copy()
        each = exp.column(exp.to_identifier(_EACH, quoted=True))
        if isinstance(item, exp.Columns):
            item = each
        for call in list(item.find_all(exp.Columns)):
            call.replace(each.copy())
        inner = replace(expressions, variables={**expressions.variables, _EACH: value})
        own = name if alias is None else None if "\\" in alias else alias
        found.append((own, inner.translate(item)))
    return found


def _chosen(call: exp.Columns, scope: Scope, expressions: Expressions) -> Columns:
    """The columns that COLUMNS(…) names: a star, a list, a regular expression, a lambda with LIKE."""
    what = call.this
    if _is_star(what):
        return _expanded(what, scope, expressions)
    every = _all(scope)
    match what:
        case exp.Literal() if what.is_string and re.fullmatch(r"[\w .*+?|()^$]*", what.name, re.ASCII):
            return [c for c in every if re.search(what.name, c[0] or "") is not None]
        case exp.Array() if all(isinstance(e, exp.Literal) and e.is_string for e in what.expressions):
            names = [e.name.casefold() for e in what.expressions]
            return [c for name in names for c in every if (c[0] or "").casefold() == name]
        case exp.Lambda(this=exp.Like(this=exp.Identifier()) as like):
            return [c for c in every if _is_like(like, c[0] or "")]
        case _:
            raise refused(call, "this choice of columns", "name them in a list, or by a plain regular expression")


def _is_like(node: exp.Like, name: str) -> bool:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.name:
        raise refused(node)
    parts = {"%": ".*", "_": "."}
    fits = re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern.name), name, re.DOTALL) is not None
    return fits is not bool(node.args.get("negate"))


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
