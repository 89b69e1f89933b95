"""Calls in parsed SQL: each by the name that DuckDB knows and its arguments in their order.

For sqlglot a function is a class of nodes with named arguments, and some classes stand for functions of other dialects
that mean something else. So what the table of functions knows is parsed as a plain call (`parser`), and this module
makes calls of what SQL has a syntax of its own for: `x ILIKE y`, `EXTRACT(year FROM x)`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

Parts = tuple[str, tuple[exp.Expr, ...]]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.ArrayContainsAll: "@>",
    exp.ArrayOverlaps: "&&",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
    exp.Glob: "GLOB",
    exp.SimilarTo: "SIMILAR TO",
    exp.StartsWith: "starts_with",  # the operator ^@
    exp.Mod: "%",
    exp.Pow: "pow",
}


def call_of(node: exp.Expr) -> Parts | None:
    """The name of a function in lower case, or an operator, and its arguments; None: the node is no call."""
    kind = type(node)
    if kind is exp.Anonymous:
        return str(node.this).lower(), tuple(node.expressions)
    if kind in _OPERATORS:
        return _OPERATORS[kind], (node.this, node.expression)
    reading = _SYNTAX.get(kind)
    return reading(node) if reading is not None else None


def _trim(node: exp.Expr) -> Parts:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return name, (node.this, node.expression) if node.args.get("expression") is not None else (node.this,)


def _substring(node: exp.Expr) -> Parts:
    given = [node.this, node.args.get("start"), node.args.get("length")]
    return "substring", tuple(part for part in given if part is not None)


def _tilde(node: exp.Expr) -> Parts:
    return "a ~ b", (node.this, node.expression)


def _extract(node: exp.Expr) -> Parts:
    return "date_part", (exp.Literal.string(node.name), node.expression)


def _position(node: exp.Expr) -> Parts | None:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        return None
    return "strpos", (node.this, node.args["substr"])


def _unary(name: str) -> Callable[[exp.Expr], Parts]:
    return lambda node: (name, (node.this,))


_SYNTAX: dict[type[exp.Expr], Callable[[exp.Expr], Parts | None]] = {
    exp.Array: lambda node: ("list_value", tuple(node.expressions)),
    exp.Struct: lambda node: ("struct_pack", tuple(node.expressions)),
    exp.Abs: _unary("abs"),  # the operator @
    exp.AtTimeZone: lambda node: ("AT TIME ZONE", (node.this, node.args["zone"])),
    exp.CurrentDate: lambda node: ("current_date", ()),
    exp.CurrentTimestamp: lambda node: ("current_timestamp", ()),
    exp.BitwiseNot: _unary("~"),
    exp.Extract: _extract,
    exp.RegexpLike: _tilde,
    exp.StrPosition: _position,
    exp.Substring: _substring,
    exp.Trim: _trim,
}
