"""Values of a query's parameters: `?`, `$1` and `$name`, which engines bind and planning reads."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.errors import RequestError

if TYPE_CHECKING:  # sqlglot is imported by the queries that need it
    from sqlglot import exp

Params: TypeAlias = "Sequence[Any] | Mapping[str, Any] | None"
"""Values by place, or by name."""


_PARAMETER_MESSAGE = re.compile(r"(following|excess|prepared)\b.*parameter|Parameter argument")


def numbered(query: str, dialect: str) -> str:
    """The query with `$1`, `$2`, … in place of `?`, so that a parameter keeps its value wherever its text goes."""
    if dialect != "duckdb":
        return query
    from harness.metadata.filters.literals import sqlglot_dialect

    tokens = sqlglot_dialect(dialect).tokenize(query)
    marks = [token for token in tokens if token.text == "?" and token.token_type.name == "PLACEHOLDER"]
    for number, token in reversed(list(enumerate(marks, 1))):
        query = f"{query[: token.start]}${number}{query[token.end + 1 :]}"
    return query


def by_name(params: Params) -> dict[str, object]:
    """The values by the names of their parameters, `1` for the first. Raises RequestError: they are no such values."""
    match params:
        case None:
            return {}
        case Mapping():
            return {str(name): value for name, value in params.items()}
        case str() | bytes():
            raise RequestError("Invalid option params: expected a list or a mapping, got a text", options=("params",))
        case Sequence():
            return {str(place): value for place, value in enumerate(params, 1)}
        case _:
            raise RequestError(
                f"Invalid option params: expected a list or a mapping, got {type(params).__name__}", options=("params",)
            )


def binding_error(error: Exception) -> RequestError | None:
    """The error about parameters and values that do not go together; None: DuckDB's is about other things."""
    reason = str(error).removeprefix("Invalid Input Error: ").removeprefix("Binder Error: ")
    if _PARAMETER_MESSAGE.search(reason) is None:
        return None
    return RequestError(
        f"Cannot bind the query's values: {reason}; give one for each ?, $1 or $name", options=("params",)
    )


def substitute_literals(tree: exp.Expr, values: Mapping[str, object]) -> None:
    """Puts literals in place of parameters in a tree that is planned by, and never written."""
    from sqlglot import exp

    for node in list(tree.find_all(exp.Placeholder)):
        literal = _literal(values[node.name]) if node.name in values else None
        if literal is not None:
            node.replace(literal)


def _literal(value: object) -> exp.Expr | None:
    """A literal of which DuckDB makes what it makes of the value; None: it may be another."""
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
