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

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr:
        """`x IN [1, 2]` looks into a list; sqlglot takes it for `x IN (1, 2)`, which means another thing for nulls."""
        if self._curr is not None and self._curr.text == "[":
            return exp.In(this=this, field=self._parse_bitwise())
        found: exp.Expr = super()._parse_in(this, alias)
        return found


class _Dialect(DuckDB):
    """Elements of lists keep their places: sqlglot would subtract one from those whose type it thinks it knows."""

    INDEX_OFFSET = 0


def parse(text: str) -> list[exp.Expr | None]:
    """The statements of a text. Raises SqlglotError."""
    dialect = _Dialect()
    statements: list[exp.Expr | None] = _Parser(dialect=dialect).parse(dialect.tokenize(text), text)
    for statement in statements:
        for node in list(statement.walk()) if statement is not None else ():
            plainer = _plainer(node)
            if plainer is not None:
                node.replace(plainer)
    return statements


def parse_condition(text: str) -> exp.Expr:
    """A condition. Raises SqlglotError."""
    dialect = _Dialect()
    (condition,) = _Parser(dialect=dialect).parse_into(exp.Condition, dialect.tokenize(text), text)
    assert isinstance(condition, exp.Expr)
    return condition


def _plainer(node: exp.Expr) -> exp.Expr | None:
    """The same in a node that stands for it more often; None: there is none."""
    match node:
        case exp.RawString():
            return exp.Literal.string(node.name)
        case exp.Map():
            return exp.Anonymous(
                this="map", expressions=[v for v in (node.args.get("keys"), node.args.get("values")) if v]
            )
        case exp.Anonymous(expressions=[operand]) if str(node.this).upper() in ("ALL", "ANY", "SOME"):
            return exp.All(this=operand) if str(node.this).upper() == "ALL" else exp.Any(this=operand)
        case exp.EQ(expression=exp.Any(this=operand)) | exp.NEQ(expression=exp.All(this=operand)):
            query = operand.unnest()
            if not isinstance(query, exp.Query):
                return None
            found = exp.In(this=node.this, query=exp.Subquery(this=query))
            return found if isinstance(node, exp.EQ) else exp.Not(this=found)
        case _:
            return None
