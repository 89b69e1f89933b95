"""The items of SELECT: expressions, stars, and UNNEST of structs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from harness.queries.transpile import unnest
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.order_limit import place_of
from harness.queries.transpile.scopes import Scope
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import Typed, type_name

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


# GROUP BY: keys, their numbers and names, ALL, ROLLUP, CUBE and GROUPING SETS.


_SETS: dict[type[exp.Expr], str] = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}


def group_by(node: exp.Select, scope: Scope, expressions: Expressions, outputs: Sequence[Typed]) -> str:
    """The clause as text; empty where there is none. Raises UnsupportedError.

    outputs: the projection, for the numbers that stand for its expressions.
    """
    group = node.args.get("group")
    if group is None:
        return ""
    if any(value for key, value in group.args.items() if key not in ("all", "expressions")):
        raise refused(group)
    if group.args.get("all"):
        texts = [key.sql for key in _all_keys(node, scope, expressions)]
    else:
        texts = [_item(item, expressions, outputs) for item in group.expressions]
    return f" GROUP BY {', '.join(dict.fromkeys(texts))}" if texts else ""


def _item(node: exp.Expr, expressions: Expressions, outputs: Sequence[Typed]) -> str:
    """A key, or several sets of keys."""
    word = _SETS.get(type(node))
    if word is None:
        return _key(node, expressions, outputs)
    items = [_element(inner, expressions, outputs) for inner in node.expressions]
    return f"{word} ({', '.join(items)})"


def _element(node: exp.Expr, expressions: Expressions, outputs: Sequence[Typed]) -> str:
    if isinstance(node, exp.Tuple):
        return f"({', '.join(_key(key, expressions, outputs) for key in node.expressions)})"
    return _item(node, expressions, outputs)


def _key(node: exp.Expr, expressions: Expressions, outputs: Sequence[Typed]) -> str:
    """An expression, or the projection that a number stands for."""
    place = place_of(node)
    if place is None:
        return _no_ordinal(expressions.translate(node))
    if not 1 <= place <= len(outputs):
        raise refused(node, "a number in GROUP BY")
    return _no_ordinal(outputs[place - 1])


def _no_ordinal(value: Typed) -> str:
    """A constant that Spark cannot take for the number of a column."""
    return value.sql if value.literal is None else f"CAST({value.sql} AS {type_name(value.type)})"


def _all_keys(node: exp.Select, scope: Scope, expressions: Expressions) -> list[Typed]:
    """What GROUP BY ALL groups by: every expression of the projection without an aggregate."""
    keys: list[Typed] = []
    for item in node.expressions:
        if item.find(exp.Window, exp.Query) is not None:
            raise refused(item, "GROUP BY ALL with a window function or a subquery")
        if not any(_aggregates(item)):
            keys += [Typed(_no_ordinal(v), v.type) for _, v in projected(item, scope, expressions)]
    return keys


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    for inner in node.walk():
        if isinstance(inner, exp.AggFunc) or (isinstance(inner, exp.Anonymous) and inner.name.lower() == "count_star"):
            yield inner
