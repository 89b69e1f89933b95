"""SQL text of DuckDB's dialect, parsed so that functions of the table stay the calls that were written."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from harness.queries.transpile.functions.table import NAMES

_WITH_SYNTAX = {"CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"}
"""Functions whose arguments may stand otherwise than with commas between them."""
_BASE: Any = DuckDB.Parser


class _Parser(_BASE):  # type: ignore[misc]
    FUNCTIONS = {name: build for name, build in _BASE.FUNCTIONS.items() if name.lower() not in NAMES}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse
        for name, parse in _BASE.FUNCTION_PARSERS.items()
        if name in _WITH_SYNTAX or name.lower() not in NAMES
    }


def parse(text: str) -> list[exp.Expr | None]:
    """The statements of a text. Raises SqlglotError."""
    dialect = DuckDB()
    statements: list[exp.Expr | None] = _Parser(dialect=dialect).parse(dialect.tokenize(text), text)
    return statements


def parse_condition(text: str) -> exp.Expr:
    """A condition. Raises SqlglotError."""
    dialect = DuckDB()
    (condition,) = _Parser(dialect=dialect).parse_into(exp.Condition, dialect.tokenize(text), text)
    assert isinstance(condition, exp.Expr)
    return condition
