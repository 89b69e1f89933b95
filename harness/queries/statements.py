"""A statement as sqlglot reads it, and the tables that it names."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from harness.errors import RequestError
from harness.metadata.filters.column_names import quoted
from harness.metadata.filters.literals import language
from harness.metadata.filters.parse import reason
from harness.metadata.filters.value_texts import refuse_half_characters
from harness.queries.sources import select_of
from harness.storage.records import dataclass

_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?(\s*\(\s*(FORMAT|ANALYZE)\b[^()]*\))?\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStatement:
    """One statement.

    explain: `EXPLAIN` before it, with its options and the space behind, or nothing.
    text: the rest, without semicolons and comments at the end. Positions of the tree's nodes are in it.
    dialect: sqlglot's name of its dialect.
    """

    explain: str
    text: str
    tree: exp.Expr
    dialect: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A place where a statement names a table that no WITH clause defines."""

    node: exp.Table

    @property
    def name(self) -> tuple[str, ...]:
        """The parts of the name as they are written, without quotes."""
        return tuple(part.name for part in self.node.parts)

    @property
    def start(self) -> int:
        """The start of the name in the statement's text."""
        return int(self.node.parts[0].meta["start"])

    @property
    def end(self) -> int:
        """The end of the name: the place behind it."""
        return int(self.node.parts[-1].meta["end"]) + 1


def parse_statement(query: str, dialect: str = "duckdb") -> SqlStatement:
    """The one statement of a text. Raises RequestError: it cannot be parsed, or there is not one statement."""
    explain, text = _without_explain(query)
    tree, text = _parse(text, dialect)
    return SqlStatement(explain=explain, text=text, tree=tree, dialect=dialect)


def quote_of(dialect: str) -> Callable[[str], str]:
    """Quotes names as Spark does, or else as DuckDB."""
    return quoted if dialect != "spark" else lambda name: "`" + name.replace("`", "``") + "`"


def spliced(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with other words at some places: start, end, and the new words."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def references(statement: SqlStatement) -> list[Reference]:
    """The tables that a statement names, in the order of its text; a table once for each place."""
    return sorted(_references(statement.tree), key=lambda found: found.start)


def _without_explain(query: str) -> tuple[str, str]:
    match = _EXPLAIN.match(query)
    return (query[: match.end()], query[match.end() :]) if match is not None else ("", query)


def _parse(text: str, dialect: str) -> tuple[exp.Expr, str]:
    """The statement, and its text without semicolons and comments at the end."""
    refuse_half_characters(text, "query")
    try:
        read = language(dialect)
        tokens = read.tokenize(text)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        text = text[: tokens[-1].end + 1] if tokens else ""
        with _unsaid():
            parsed = read.parser().parse(tokens, text)
    except (SqlglotError, ValueError) as error:
        raise RequestError(f"Cannot parse the query as {dialect} SQL: {reason(error)}.") from error
    except RecursionError:
        raise RequestError("The query is nested too deeply. Split it with WITH, or use IN for long lists.") from None
    if len(parsed) != 1 or parsed[0] is None:
        count = len([p for p in parsed if p is not None])
        raise RequestError(f"Expected one query, got {count} statements. Run them one by one.")
    return parsed[0], text


@contextlib.contextmanager
def _unsaid() -> Iterator[None]:
    """Keeps sqlglot from logging that it leaves a statement unparsed."""

    def is_of_use(record: logging.LogRecord) -> bool:  # one of its own for each thread
        return "Falling back to parsing as a 'Command'" not in record.getMessage()

    log = logging.getLogger("sqlglot")
    log.addFilter(is_of_use)
    try:
        yield
    finally:
        log.removeFilter(is_of_use)


def _references(tree: exp.Expr) -> Iterator[Reference]:
    for node in tree.find_all(exp.Table):
        named = all(isinstance(part, exp.Identifier) for part in node.parts)
        if named and (len(node.parts) > 1 or not _is_cte(node)):
            yield Reference(node)


def _is_cte(table: exp.Table) -> bool:
    """Tells whether a WITH clause in reach defines the name: all its CTEs for its query, earlier ones for a CTE."""
    name = table.name.casefold()
    child: exp.Expr = table
    parent = table.parent
    within: exp.Expr | None = None
    while parent is not None:
        if isinstance(child, exp.CTE):
            within = child
        clause = parent.args.get("with_")
        if isinstance(clause, exp.With) and any(
            cte.alias.casefold() == name for cte in _visible(clause, child, within)
        ):
            return True
        child, parent = parent, parent.parent
    return False


def _visible(clause: exp.With, child: exp.Expr, within: exp.Expr | None) -> list[exp.Expr]:
    ctes: list[exp.Expr] = clause.expressions
    if child is not clause or within is None:
        return ctes
    position = next(i for i, cte in enumerate(ctes) if cte is within)
    return ctes[: position + 1] if clause.args.get("recursive") else ctes[:position]


# Names with a schema in front, `sales.orders`, and columns behind them, `sales.orders.id`. The subquery in the table's
# place has an alias without a schema: the last part of the name, or the whole name in quotes where two tables of one
# FROM share the last part. Their columns go by the alias too.


@dataclass(frozen=True, slots=True)
class ColumnPrefix:
    """A table's qualified name before a column, by its place in the statement, and the alias that replaces it."""

    start: int
    end: int
    alias: str


def shorten(statement: SqlStatement, found: Sequence[Reference]) -> list[ColumnPrefix]:
    """Lets tables with a schema, and their columns, go by an alias; changes the tree accordingly.

    Args:
        found: the references that views will stand for.

    Returns:
        Where columns of them are named with their schema.

    Raises:
        RequestError: a column may be of two tables whose names end alike.
    """
    short = [reference for reference in found if len(reference.name) > 1 and not reference.node.alias]
    clashing = [reference for reference in short if _is_clashing(reference.node, statement.tree)]
    for reference in clashing:
        _refuse_short_names(reference, statement.tree)
    for reference in clashing:
        whole = exp.to_identifier(".".join(reference.name), quoted=True)
        reference.node.set("alias", exp.TableAlias(this=whole))
    columns = list(statement.tree.find_all(exp.Column)) if short else []
    return [prefix for column in columns if (prefix := _shortened(column, short)) is not None]


def _is_clashing(table: exp.Table, tree: exp.Expr) -> bool:
    select = select_of(table)
    return any(select_of(other) is select for other in _others(table, tree))


def _others(table: exp.Table, tree: exp.Expr) -> list[exp.Expr]:
    """The other tables and subqueries of the table's name."""
    alike = (exp.Table, exp.Subquery)
    name = table.alias_or_name.casefold()
    return [other for other in tree.find_all(*alike) if other is not table and other.alias_or_name.casefold() == name]


def _refuse_short_names(reference: Reference, tree: exp.Expr) -> None:
    last = reference.name[-1]
    for column in tree.find_all(exp.Column):
        if len(column.parts) < 3 and column.parts[0].name.casefold() == last.casefold():
            raise RequestError(
                f"Column {'.'.join(part.name for part in column.parts)} may be of two tables named {last}: write "
                f"{'.'.join(reference.name)} before it, or give the tables aliases"
            )


def _shortened(column: exp.Column, tables: Collection[Reference]) -> ColumnPrefix | None:
    parts = column.parts
    for length in range(len(parts), 1, -1):
        reference = _nearest(column, tuple(part.name.casefold() for part in parts[:length]), tables)
        if reference is None:
            continue
        start, end = int(parts[0].meta["start"]), int(parts[length - 1].meta["end"]) + 1
        alias = reference.node.alias_or_name
        left = [exp.to_identifier(alias, quoted=True), *parts[length:]]
        for key, part in zip(("this", "table", "db", "catalog"), [*reversed(left), *[None] * 3], strict=False):
            column.set(key, part)
        return ColumnPrefix(start, end, alias)
    return None


def _nearest(column: exp.Column, qualifier: tuple[str, ...], tables: Collection[Reference]) -> Reference | None:
    """The table of the innermost SELECT around the column that the qualifier may name."""
    between: list[exp.Select] = []
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for reference in tables:
            if select_of(reference.node) is select and _names(qualifier, reference.name):
                _refuse_hidden(column, reference, between)
                return reference
        between.append(select)
        select = select.find_ancestor(exp.Select)
    return None


def _refuse_hidden(column: exp.Column, reference: Reference, between: Sequence[exp.Select]) -> None:
    """Refuses an alias that would mean another table, of the same last name in a subquery."""
    if any(select_of(other) in between for other in _others(reference.node, column.root())):
        name = ".".join(part.name for part in column.parts)
        raise RequestError(f"Column {name} may be of two tables named {reference.name[-1]}: give the tables aliases")


def _names(qualifier: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Tells whether one is the end of the other: `sales.orders` names `prod.sales.orders`, and the other way round."""
    folded = tuple(part.casefold() for part in name)
    shared = min(len(qualifier), len(folded))
    return qualifier[-shared:] == folded[-shared:]
