"""Queries in Spark's SQL with the columns that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from harness.model.schema import Type
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.scopes import Output
from harness.queries.transpile.values import type_name


@dataclass(frozen=True, slots=True)
class Lowered:
    """A query, and its columns; these are called `c0`, `c1`, ... on Spark."""

    sql: str
    columns: tuple[Output, ...]


def check_parts(node: exp.Expr, known: set[str]) -> None:
    """Refuses a clause that the caller does not look at."""
    for key, value in node.args.items():
        if value and key not in known:
            raise refused(node, f"{key.strip('_').upper().replace('_', ' ')}")


def renamed(columns: tuple[Output, ...], node: exp.Expr) -> tuple[Output, ...]:
    """The columns of a source under the names that its alias gives them."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    changed = [Output(name, c.type, c.sql) for name, c in zip(names, columns, strict=False)]
    return (*changed, *columns[len(changed) :])


def as_types(query: Lowered, types: Sequence[Type]) -> str:
    """The query with its columns in other types."""
    if all(str(c.type) == str(t) for c, t in zip(query.columns, types, strict=True)):
        return query.sql
    parts = [
        c.sql if str(c.type) == str(t) else f"CAST({c.sql} AS {type_name(t)}) AS {c.sql}"
        for c, t in zip(query.columns, types, strict=True)
    ]
    return f"SELECT {', '.join(parts)} FROM ({query.sql})"
