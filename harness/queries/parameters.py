"""Values for the parameters of a query: `?`, `$1`, and `$name`. Engines bind them, and planning uses them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.errors import RequestError

if TYPE_CHECKING:  # only queries that need sqlglot import it
    from sqlglot import exp

Params: TypeAlias = "Sequence[Any] | Mapping[str, Any] | None"
"""Values by position or by name."""


_PARAMETER_MESSAGE = re.compile(r"(following|excess|prepared)\b.*parameter|Parameter argument")


def numbered(query: str, dialect: str) -> str:
    """Replace each `?` by `$1`, `$2`, …, so that a parameter keeps its value when its text is moved."""
    if dialect != "duckdb":
        return query
    from harness.metadata.filters.literals import sqlglot_dialect

    tokens = sqlglot_dialect(dialect).tokenize(query)
    marks = [token for token in tokens if token.text == "?" and token.token_type.name == "PLACEHOLDER"]
    for number, token in reversed(list(enumerate(marks, 1))):
        query = f"{query[: token.start]}${number}{query[token.end + 1 :]}"
    return query


def by_name(params: Params) -> dict[str, object]:
    """Return the values by parameter name, `1` for the first. Raise RequestError if `params` has the wrong type."""
    match params:
        case None:
            return {}
        case Mapping():
            return {str(name): value for name, value in params.items()}
        case str() | bytes():
            raise RequestError("Invalid option params: expected a list or a mapping, got text", options=("params",))
        case Sequence():
            return {str(place): value for place, value in enumerate(params, 1)}
        case _:
            raise RequestError(
                f"Invalid option params: expected a list or a mapping, got {type(params).__name__}", options=("params",)
            )


def binding_error(error: Exception) -> RequestError | None:
    """Return the error for parameters and values that do not match, or None if DuckDB's error has another reason."""
    reason = str(error).removeprefix("Invalid Input Error: ").removeprefix("Binder Error: ")
    if _PARAMETER_MESSAGE.search(reason) is None:
        return None
    return RequestError(
        f"Cannot bind the query's values: {reason}; give one for each ?, $1 or $name", options=("params",)
    )


def substitute_literals(tree: exp.Expr, values: Mapping[str, object]) -> None:
    """Replace parameters by literals in a tree that is only used for planning."""
    from sqlglot import exp

    for node in list(tree.find_all(exp.Placeholder)):
        literal = _literal(values[node.name]) if node.name in values else None
        if literal is not None:
            node.replace(literal)


def _literal(value: object) -> exp.Expr | None:
    """Return a literal that DuckDB reads as exactly this value, or None if there is none."""
    from sqlglot import exp

    match value:
        case bool():
            return exp.Boolean(this=value)
        case int():
            number = exp.Literal.number(abs(value))
            return exp.Neg(this=number) if value < 0 else number
        case str():
            return exp.Literal.string(value)
        case datetime.datetime(tzinfo=None):
            return exp.cast(exp.Literal.string(value.isoformat(" ")), exp.DType.TIMESTAMPNTZ)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)
        case _:
            return None
