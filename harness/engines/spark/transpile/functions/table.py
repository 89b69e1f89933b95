"""The table of all functions, and the translation of calls by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.engines.spark.transpile.functions import moments, nested, numbers, patterns, text, times
from harness.engines.spark.transpile.functions.registry import Call, Function
from harness.engines.spark.transpile.values import TypedSql, with_common_type
from harness.metadata.model import schema as dt

if TYPE_CHECKING:
    from harness.engines.spark.transpile.expressions import Expressions


# Calls are identified by DuckDB's name and have their arguments in DuckDB's order. Some sqlglot classes represent
# functions of other dialects. So the parser keeps calls of functions in the table generic, and this module converts
# constructs with their own syntax, like `x ILIKE y` and `EXTRACT(year FROM x)`, to calls.


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
    exp.RegexpLike: "a ~ b",
}


def _trim(node: exp.Expr) -> Parts:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return name, (node.this, node.expression) if node.args.get("expression") is not None else (node.this,)


def _position(node: exp.Expr) -> Parts | None:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        return None
    return "strpos", (node.this, node.args["substr"])


_SYNTAX: dict[type[exp.Expr], Callable[[exp.Expr], Parts | None]] = {
    exp.Array: lambda node: ("list_value", tuple(node.expressions)),
    exp.Struct: lambda node: ("struct_pack", tuple(node.expressions)),
    exp.Abs: lambda node: ("abs", (node.this,)),  # the operator @
    exp.AtTimeZone: lambda node: ("AT TIME ZONE", (node.this, node.args["zone"])),
    exp.CurrentDate: lambda node: ("current_date", ()),
    exp.CurrentTimestamp: lambda node: ("current_timestamp", ()),
    exp.BitwiseNot: lambda node: ("~", (node.this,)),
    exp.Extract: lambda node: ("date_part", (exp.Literal.string(node.name), node.expression)),
    exp.StrPosition: _position,
    exp.Substring: lambda node: ("substring", (node.this, *filter(None, map(node.args.get, ("start", "length"))))),
    exp.Trim: _trim,
}


def _greatest_or_least(call: Call) -> TypedSql:
    """Translate `greatest` and `least`."""
    extreme = _with_several_values(call, call.name.upper())
    if isinstance(extreme.type, dt.ListType | dt.StructType | dt.MapType):
        raise call.refusal(f"{call.name} of {extreme.type}")
    return extreme


def _with_several_values(call: Call, name: str) -> TypedSql:
    values = call.values()
    if len(values) == 1:
        return values[0]
    texts, type_ = with_common_type(values, name)
    return TypedSql(f"{name}({', '.join(texts)})", type_)


def _null_if(call: Call) -> TypedSql:
    subject = call.value(0)
    equal = exp.EQ(this=call.arguments[0].copy(), expression=call.arguments[1].copy())
    return TypedSql(f"CASE WHEN {call.expressions.translate(equal).sql} THEN NULL ELSE {subject.sql} END", subject.type)


GENERAL = (
    Function(("coalesce", "ifnull"), lambda call: _with_several_values(call, "COALESCE")),
    Function(("greatest",), _greatest_or_least),
    Function(("least",), _greatest_or_least),
    Function(("nullif",), _null_if, 2),
    Function(("typeof", "pg_typeof"), alternative="write the type as a text"),
    Function(("hash",), alternative="use md5() of a text"),
)


SCALARS: tuple[Function, ...] = (
    *GENERAL,
    *text.FUNCTIONS,
    *patterns.FUNCTIONS,
    *numbers.FUNCTIONS,
    *moments.FUNCTIONS,
    *times.FUNCTIONS,
    *nested.FOLDS,
    *moments.SERIES,
    *nested.FUNCTIONS,
)
"""All supported functions, and functions that are refused with an alternative."""

_BY_NAME: Mapping[str, Function] = {name.lower(): function for function in SCALARS for name in function.names}
NAMES = frozenset(_BY_NAME)
"""The names of these functions, in lower case."""


def translate(expressions: Expressions, node: exp.Expr) -> TypedSql | None:
    """Translate a call. Return None if the function is not in the table."""
    kind, parts = type(node), None
    if kind is exp.Anonymous:
        parts = str(node.this).lower(), tuple(node.expressions)
    elif kind in _OPERATORS:
        parts = _OPERATORS[kind], (node.this, node.expression)
    elif kind in _SYNTAX:
        parts = _SYNTAX[kind](node)
    if parts is None:
        return None
    name, arguments = parts
    function = _BY_NAME.get(name.lower())
    return None if function is None else function.lower(Call(expressions, node, name, arguments))
