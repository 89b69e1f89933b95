"""All entries of the table of functions, and who lowers a call by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.queries.transpile.functions import (
    date_parts,
    folds,
    general,
    lists,
    nested,
    numbers,
    operators,
    patterns,
    series,
    text,
    times,
)
from harness.queries.transpile.functions.calls import call_of
from harness.queries.transpile.functions.registry import Call, Function
from harness.queries.transpile.values import Typed

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions

SCALARS: tuple[Function, ...] = (
    *general.FUNCTIONS,
    *operators.FUNCTIONS,
    *text.FUNCTIONS,
    *patterns.FUNCTIONS,
    *numbers.FUNCTIONS,
    *date_parts.FUNCTIONS,
    *times.FUNCTIONS,
    *lists.FUNCTIONS,
    *folds.FUNCTIONS,
    *series.FUNCTIONS,
    *nested.FUNCTIONS,
)
"""Those that this package lowers, by their names."""

_BY_NAME: Mapping[str, Function] = {
    name.lower(): function for function in SCALARS if not function.is_lowered_elsewhere for name in function.names
}
NAMES = frozenset(_BY_NAME)
"""What calls of them are named, in lower case."""


def translate(expressions: Expressions, node: exp.Expr) -> Typed | None:
    """The call; None if it is none of the functions known here. Raises UnsupportedError."""
    parts = call_of(node)
    if parts is None:
        return None
    name, arguments = parts
    function = _BY_NAME.get(name.lower())
    return (
        None
        if function is None or function.is_lowered_elsewhere
        else function.lower(Call(expressions, node, name, arguments))
    )
