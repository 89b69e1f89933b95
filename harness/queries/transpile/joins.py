"""Joins. The columns of USING are spelled out: which side a key comes from is not left to Spark."""

from __future__ import annotations

from sqlglot import exp

from harness.model.schema import Type
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.scopes import Scope, Source
from harness.queries.transpile.values import Typed

_SIDES = {"": "INNER", "LEFT": "LEFT OUTER", "RIGHT": "RIGHT OUTER", "FULL": "FULL OUTER"}


def join(node: exp.Join, sql: str, source: Source, scope: Scope, expressions: Expressions) -> str:
    """A join as text; `scope` gains what queries may name after it. Raises UnsupportedError."""
    if node.method == "NATURAL":
        node = _with_common_columns(node, source, scope)
    side, kind = node.side, node.kind
    if scope.conditions and side in ("RIGHT", "FULL"):
        raise refused(node, f"a {side} JOIN behind one whose condition names a query around")
    if node.method or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or side not in _SIDES:
        raise refused(node, f"a {' '.join(filter(None, (node.method, side, kind)))} JOIN")
    if kind in ("SEMI", "ANTI"):
        return _filtering(node, kind, sql, source, scope, expressions)
    using = node.args.get("using")
    merged = _keys(node, source, scope) if using else {}
    left = dict(scope.merged)
    scope.sources.append(source)
    if merged:
        condition = " AND ".join(f"{a.sql} = {b.sql}" for a, b in merged.values())
        scope.merged = {**left, **{name: _merged(side, a, b) for name, (a, b) in merged.items()}}
        return f" {_SIDES[side]} JOIN {sql} ON {condition}"
    on = node.args.get("on")
    if on is None:
        if side:
            raise refused(node, "an outer join without a condition")
        return f" CROSS JOIN {sql}"
    condition = _condition(on, source, scope, expressions)
    # Spark 4.3 fails on some queries whose names of the query around stand in a JOIN.
    if not side and scope.mentions_outer(condition):
        scope.conditions.append(condition)
        return f" CROSS JOIN {sql}"
    return f" {_SIDES[side]} JOIN {sql} ON {condition}"


def _with_common_columns(node: exp.Join, source: Source, scope: Scope) -> exp.Join:
    """A natural join as one by the columns that both sides have."""
    names = [c.name for c in source.columns if c.name is not None and scope.unqualified(c.name) is not None]
    if not names:
        raise refused(node, "a NATURAL JOIN without common columns")
    node = node.copy()
    node.set("method", None)
    node.set("using", [exp.to_identifier(name, quoted=True) for name in names])
    return node


def _filtering(node: exp.Join, kind: str, sql: str, source: Source, scope: Scope, expressions: Expressions) -> str:
    """A semi or anti join: its table cannot be named after it."""
    if node.args.get("using"):
        keys = _keys(node, source, scope)
        condition = " AND ".join(f"{a.sql} = {b.sql}" for a, b in keys.values())
    elif node.args.get("on") is not None:
        scope.sources.append(source)
        condition = _condition(node.args["on"], source, scope, expressions)
        scope.sources.remove(source)
    else:
        raise refused(node, f"a {kind} JOIN without a condition")
    return f" LEFT {kind} JOIN {sql} ON {condition}"


def _condition(on: exp.Expr, source: Source, scope: Scope, expressions: Expressions) -> str:
    """The condition after ON, where Spark takes no query that names columns of both sides."""
    for node in on.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            text = expressions.translate(node).sql
            sides = {other is source for other in scope.sources if f"{other.alias}." in text}
            if len(sides) > 1:
                raise refused(node, "a query in the condition of a JOIN that is about both of its sides")
    return expressions.boolean(on)


def _keys(node: exp.Join, source: Source, scope: Scope) -> dict[str, tuple[Typed, Typed]]:
    """The columns that USING compares, left and right, by name in lower case."""
    found = {}
    for identifier in node.args["using"]:
        left, right = scope.unqualified(identifier.name), source.named(identifier.name)
        if left is None or len(right) != 1 or not _same(left.type, right[0].type):
            raise refused(node, f"USING ({identifier.name}) of columns of different types")
        found[identifier.name.casefold()] = (left, source.column(right[0]))
    return found


def _same(left: Type, right: Type) -> bool:
    return str(left) == str(right)


def _merged(side: str, left: Typed, right: Typed) -> Typed:
    match side:
        case "RIGHT":
            return right
        case "FULL":
            return Typed(f"COALESCE({left.sql}, {right.sql})", left.type)
        case _:
            return left
