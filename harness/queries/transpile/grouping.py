"""GROUP BY: keys, their numbers and names, ALL, ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.order_limit import place_of
from harness.queries.transpile.projection import projected
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.scopes import Scope
from harness.queries.transpile.values import Typed, type_name

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
