"""SQL text of DuckDB's dialect, parsed so that functions of the table stay the calls that were written."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import groupconcat_sql
from sqlglot.dialects.duckdb import DuckDB

from harness.filters.dialects import language
from harness.queries.transpile.functions.table import NAMES

_WITH_SYNTAX = {"CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"}
"""Functions whose arguments may stand otherwise than with commas between them."""
_BASE: Any = language("duckdb").parser_class
_WRITER: Any = DuckDB.Generator


class _Parser(_BASE):  # type: ignore[misc]
    FUNCTIONS = {name: build for name, build in _BASE.FUNCTIONS.items() if name.lower() not in NAMES}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse
        for name, parse in _BASE.FUNCTION_PARSERS.items()
        if name in _WITH_SYNTAX or name.lower() not in NAMES
    }
    FUNCTIONS["LIST"] = lambda arguments: _list(*arguments)


class _Generator(_WRITER):  # type: ignore[misc]
    """Writes what was read: sqlglot would add casts, separators and words of its own."""

    TRANSFORMS = {  # noqa: RUF012
        **_WRITER.TRANSFORMS,
        exp.ArrayAgg: lambda self, e: self.func(e.meta.get("name", "ARRAY_AGG"), e.this),
        exp.GroupConcat: lambda self, e: groupconcat_sql(self, e, "STRING_AGG", sep=None, within_group=False),
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false")),
        exp.LogicalAnd: lambda self, e: self.func("BOOL_AND", e.this),
        exp.LogicalOr: lambda self, e: self.func("BOOL_OR", e.this),
    }

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """`FROM t, UNNEST(l)` as it is; sqlglot would give it a condition."""
        is_bare = isinstance(expression.this, exp.Unnest) and not any(
            v for k, v in expression.args.items() if k != "this"
        )
        return f", {self.sql(expression.this)}" if is_bare else str(super().join_sql(expression, join_op))


class _Dialect(DuckDB):
    """Elements of lists keep their places: sqlglot would subtract one from those whose type it thinks it knows."""

    INDEX_OFFSET = 0
    Generator = _Generator


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


def written_back(statement: exp.Expr) -> str:
    """The query as the parser has read it, in DuckDB's SQL: it must mean what the text did, or the text was misread."""
    return _Dialect().generate(statement, comments=False)


def parse_condition(text: str) -> exp.Expr:
    """A condition. Raises SqlglotError."""
    dialect = _Dialect()
    (condition,) = _Parser(dialect=dialect).parse_into(exp.Condition, dialect.tokenize(text), text)
    assert isinstance(condition, exp.Expr)
    return condition


def _list(*arguments: exp.Expr) -> exp.Expr:
    """`list(x ORDER BY x)`, which DuckDB 1.5 takes for `list_sort(list(x))`, unlike the same of `array_agg`."""
    call = exp.ArrayAgg.from_arg_list(list(arguments))
    call.meta["name"] = "LIST"
    return call


def _plainer(node: exp.Expr) -> exp.Expr | None:
    """The same in a node that stands for it more often; None: there is none."""
    match node:
        case exp.Select() if (values := _wrapped_values(node)) is not None:
            return values
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


def _wrapped_values(select: exp.Select) -> exp.Values | None:
    """VALUES, where sqlglot has put a SELECT around it: as all of a CTE."""
    source = select.args.get("from_")
    values = source.this if source is not None and isinstance(select.parent, exp.CTE) else None
    if not isinstance(values, exp.Values) or values.alias != "_values":
        return None
    values.set("alias", None)
    return values
