"""One statement as sqlglot reads it, and the tables that it names."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from harness.errors import RequestError
from harness.filters.dialects import language
from harness.filters.parse import reason
from harness.filters.value_texts import refuse_half_characters
from harness.records import dataclass

_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?(\s*\(\s*(FORMAT|ANALYZE)\b[^()]*\))?\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement.

    explain: what stands before it: `EXPLAIN`, with its options and the space behind, or nothing.
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
        """Where the name begins in the statement's text."""
        return int(self.node.parts[0].meta["start"])

    @property
    def end(self) -> int:
        """Where it ends: the place behind it."""
        return int(self.node.parts[-1].meta["end"]) + 1


def parse_statement(query: str, dialect: str = "duckdb") -> Statement:
    """The one statement of a text.

    Raises:
        RequestError: it cannot be parsed, or there is not one statement.
    """
    explain, text = _without_explain(query)
    tree, text = _parse(text, dialect)
    return Statement(explain=explain, text=text, tree=tree, dialect=dialect)


def references(statement: Statement) -> list[Reference]:
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
    """Keeps sqlglot from logging that it leaves a statement unparsed: who runs it says what becomes of it."""

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
    """Whether a WITH clause in reach defines the name: all of one's CTEs for its query, earlier ones for a CTE."""
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
