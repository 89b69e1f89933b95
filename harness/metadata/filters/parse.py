"""Filters from SQL text: a boolean expression over a table's columns becomes a `Filter`.

The text is kept as the user wrote it; only the names of columns are replaced by the schema's spelling in quotes, so
that what the engine runs is what was asked. (Generating the text anew from the parsed form changes the meaning of some
operators: sqlglot 30 turns DuckDB's `~`, which matches a whole string, into a search.) Text in another dialect has to
be translated. What planning cannot use stays in the text and is `Undecided` in the predicate.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import TokenType, exp
from sqlglot.errors import ErrorLevel, SqlglotError

from harness.errors import RequestError
from harness.metadata.filters.column_names import Names, Resolved
from harness.metadata.filters.conditions import predicate_of
from harness.metadata.filters.dialects import language
from harness.metadata.filters.operands import tagged
from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.value_texts import refuse_half_characters
from harness.metadata.model.schema import METADATA, Schema
from harness.storage.records import dataclass

# References to columns in SQL text: where they are. What they mean is said by `harness.metadata.filters.column_names`.


@dataclass(frozen=True, slots=True)
class Path:
    """A column reference: its outermost node, and its identifiers from the left."""

    node: exp.Expr
    identifiers: tuple[exp.Identifier, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, from the left."""
        return tuple(i.name for i in self.identifiers)


def paths_of(condition: exp.Expr) -> Iterator[Path]:
    """Every reference to a column, without the variables of lambdas and list comprehensions."""
    for node in condition.find_all(exp.Column, exp.Dot):
        inner = node.this
        if isinstance(node, exp.Column):
            identifiers = tuple(part for part in node.parts if isinstance(part, exp.Identifier))
            if identifiers and not _is_variable(node, identifiers[0].name):
                yield _extended(node, identifiers)
        # `name.upper()` has a bare identifier where other expressions have a column.
        elif isinstance(inner, exp.Identifier) and not _is_variable(node, inner.name):
            yield _extended(inner, (inner,))


def _extended(node: exp.Expr, identifiers: tuple[exp.Identifier, ...]) -> Path:
    """The path with the fields after it, up to a method call."""
    parent = node.parent
    while isinstance(parent, exp.Dot) and parent.this is node and isinstance(parent.expression, exp.Identifier):
        node, identifiers = parent, (*identifiers, parent.expression)
        parent = node.parent
    return Path(node, identifiers)


def _is_variable(node: exp.Expr, name: str) -> bool:
    ancestor = node.parent
    while ancestor is not None:
        if isinstance(ancestor, exp.Lambda) and any(v.name == name for v in ancestor.expressions):
            return True
        if isinstance(ancestor, exp.Comprehension) and ancestor.expression.name == name:
            return True
        ancestor = ancestor.parent
    return False


def parse_filter(
    sql: str, schema: Schema, *, dialect: str = "duckdb", case_sensitive: bool = True, table: str | None = None
) -> Filter:
    """The filter that `sql` asks for: a boolean expression over the columns of `schema` and the metadata columns.

    A name means the column of that very spelling; where there is none, the one column that differs only in case, as
    DuckDB would have it. With `case_sensitive` false, spelling never decides (iceberg 5.21). A column of the table
    hides a metadata column of its name (iceberg 5.19). `a.b` is field b of the struct a, else column b of the table a.

    Args:
        dialect: the name that sqlglot gives to the dialect of `sql`; the filter's own text is DuckDB's.
        table: a name that may stand before column names.

    Raises:
        RequestError: the text is no expression, or more than a condition on one row (subquery, aggregate, window).
        UnknownColumnError: a name that no column has, or that several have.
    """
    refuse_half_characters(sql, "filter")
    condition, text = _parse(sql, dialect)
    try:
        return _filter(condition, text, schema, Names(schema=schema, case_sensitive=case_sensitive, table=table))
    except RecursionError:
        raise RequestError(
            "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."
        ) from None


def filter_of(condition: exp.Expr, schema: Schema) -> Filter:
    """The filter that a parsed condition makes, whose columns stand without a table's name; its text is generated.

    Raises:
        UnknownColumnError: a name that no column has, or that several have.
    """
    return _filter(condition.copy(), None, schema, Names(schema=schema, case_sensitive=True, table=None))


# Parsing.


def _parse(sql: str, dialect: str) -> tuple[exp.Expr, str | None]:
    """The condition, and its text if that is DuckDB's already; both without comments at the end."""
    try:
        read = language(dialect)
        tokens = read.tokenize(sql)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            raise RequestError("The filter is empty. Leave it out to read all rows.")
        text = sql[: tokens[-1].end + 1]
        parsed = read.parse_into(exp.Condition, text)
    except (SqlglotError, ValueError) as error:
        raise RequestError(f"Cannot parse the filter as {dialect} SQL: {reason(error)}.") from error
    except RecursionError:
        raise RequestError(
            "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."
        ) from None
    if len(parsed) != 1 or parsed[0] is None:
        raise RequestError("The filter must be one boolean expression, such as: id > 5 AND name = 'a'.")
    return parsed[0], text if dialect == "duckdb" else None


def reason(error: Exception) -> str:
    """What an error of the SQL parser says, in one line without a full stop."""
    for detail in getattr(error, "errors", ()):
        return f"{detail['description']} at line {detail['line']}, near '{detail['highlight']}'"
    return str(error).split("\n")[0].rstrip(".")


def _refuse_more_than_rows(condition: exp.Expr) -> None:
    for node in condition.walk():
        match node:
            case exp.Query() | exp.Exists():
                problem = "a subquery"
            case exp.Window():
                problem = "a window function"
            case exp.AggFunc():
                problem = f"the aggregate {node.sql_name()}"
            case exp.Placeholder() | exp.Parameter():
                problem = "a parameter"
            case exp.Pseudocolumn():
                problem = f"the pseudo-column {node.name}"
            case exp.Star() | exp.Columns():
                problem = "a star"
            case _:
                continue
        raise RequestError(f"A filter is a condition on one row, got {problem}. Use it in a query instead.")


# Building the filter.


def _filter(condition: exp.Expr, text: str | None, schema: Schema, names: Names) -> Filter:
    _refuse_more_than_rows(condition)
    paths = list(paths_of(condition))
    resolved = [names.resolve(path.names) for path in paths]
    for path, found in zip(paths, resolved, strict=True):
        tagged(path.node, found.leaf)
    predicate = predicate_of(condition)
    used = {r.fields[0].id: r.fields[0] for r in resolved}
    columns = tuple(f for f in (*schema.fields, *METADATA.values()) if used.get(f.id) is f)
    sql = _generated(condition, paths, resolved) if text is None else _spliced(text, paths, resolved)
    return Filter(sql=sql, predicate=predicate, columns=columns)


def _spliced(text: str, paths: list[Path], resolved: list[Resolved]) -> str:
    edits = [
        (p.identifiers[0].meta["start"], p.identifiers[-1].meta["end"] + 1, r.sql())
        for p, r in zip(paths, resolved, strict=True)
    ]
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text.strip()


def _generated(condition: exp.Expr, paths: list[Path], resolved: list[Resolved]) -> str:
    root = exp.Paren(this=condition)
    for path, found in zip(paths, resolved, strict=True):
        first, *others = (*(f.name for f in found.fields), *found.rest)
        node: exp.Expr = exp.column(exp.to_identifier(first, quoted=True))
        for index, name in enumerate(others):
            base = exp.Paren(this=node) if index == 0 else node
            node = exp.Dot(this=base, expression=exp.to_identifier(name, quoted=True))
        path.node.replace(node)
    try:
        return str(root.this.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise RequestError(f"Cannot translate the filter to DuckDB's dialect: {reason(error)}.") from error
