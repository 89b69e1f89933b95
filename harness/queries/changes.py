"""Calls of the table function `changes` in queries: `FROM changes('orders', 3, 5, mode := 'net')`.

The arguments are those of `Table.changes` after the name of a table, as literals. A call becomes a table with a new
name, as for `harness.queries.time_travel`, so conditions on it skip files. A call whose first argument does not name a
table of the query is left in the text, because it may be a function of the user's connection.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from dataclasses import dataclass, field

import duckdb
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from harness.errors import RequestError
from harness.metadata.catalogs.catalog import Name, parse_name
from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.queries.rewrite import SqlStatement, closing_bracket, parse_statement, references
from harness.storage.paths import is_path

_POSITIONAL = ("from_", "to")
_NAMED = ("from_inclusive", "mode", "keys", "allow_out_of_range")


@dataclass(frozen=True)
class ChangesCall:
    """A call of `changes`. Calls with the same text are equal.

    Attributes:
        node: The table in the syntax tree.
        name: The parts of the table's name.
        start: The start of the call in the statement's text.
        end: The position after its end.
        text: The call as written.
    """

    node: exp.Table = field(repr=False, compare=False)
    name: Name = field(compare=False)
    start: int = field(compare=False)
    end: int = field(compare=False)
    text: str

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments for `Table.changes`.

        Raises:
            RequestError: There are too many arguments, an argument is unknown or repeated, or it is not a literal.
        """
        arguments: dict[str, object] = {}
        for place, node in enumerate(self.node.this.expressions[1:]):
            is_named = isinstance(node, exp.PropertyEQ | exp.Kwarg)
            if is_named:
                name = node.this.name
            elif place < len(_POSITIONAL):
                name = _POSITIONAL[place]
            else:
                raise self._error("the table, the beginning, and the end come first; name further arguments: mode := …")
            if name not in (*_POSITIONAL, *_NAMED):
                raise self._error(f"unknown argument {name}; the arguments are {', '.join((*_POSITIONAL, *_NAMED))}")
            if name in arguments:
                raise self._error(f"the argument {name} is given twice")
            try:
                arguments[name] = _constant(node.expression if is_named else node)
            except ValueError:
                raise self._error(
                    f"the argument {name} must be a whole number, a text, a time, or another literal"
                ) from None
        return arguments

    def _error(self, reason: str) -> RequestError:
        return RequestError(f"Cannot read {self.text}: {reason}")

    def __str__(self) -> str:
        return self.text


def _constant(node: exp.Expr) -> object:
    """Return the Python value of a literal or of a list of literals. Raise ValueError for other expressions."""
    if isinstance(node, exp.Array):
        return tuple(map(_constant, node.expressions))
    literal = literal_of(node)
    match None if literal is None else literal.kind:
        case LiteralKind.NULL | LiteralKind.BOOLEAN | LiteralKind.INTEGER | LiteralKind.STRING:
            return literal.value  # type: ignore[union-attr]
        case LiteralKind.DATE:
            return _instant(datetime.timedelta(days=literal.value))  # type: ignore[union-attr]
        case LiteralKind.TIMESTAMP | LiteralKind.INSTANT:
            return _instant(datetime.timedelta(microseconds=literal.value // 1000))  # type: ignore[union-attr]
        case _:
            raise ValueError


def _instant(since_epoch: datetime.timedelta) -> datetime.datetime:
    try:
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + since_epoch
    except OverflowError:
        raise ValueError from None


def changes_calls(statement: SqlStatement) -> list[ChangesCall]:
    """Return the calls of `changes` in a statement that begin with the name of a table as text."""
    calls = []
    for node in statement.tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Anonymous) or node.this.name.casefold() != "changes" or node.db:
            continue
        first = next(iter(node.this.expressions), None)
        name = _table_name(first.name) if isinstance(first, exp.Literal) and first.is_string else None
        if name is not None:
            tokens = Dialect.get_or_raise(statement.dialect).tokenize(statement.text)
            start = int(node.this.meta["start"])
            bracket = next(i for i, token in enumerate(tokens) if token.start > start)
            end = tokens[closing_bracket(tokens, bracket) - 1].end + 1
            calls.append(ChangesCall(node, name, start, end, statement.text[start:end]))
    return calls


def table_names(statement: SqlStatement) -> list[Name]:
    """Return the names of the tables that a statement reads, also as the first argument of `changes`."""
    return [*(each.name for each in references(statement)), *(each.name for each in changes_calls(statement))]


def unknown_table(error: duckdb.Error, query: str) -> Name | None:
    """Return the table whose changes a query reads if DuckDB has rejected the query because it is no table, or None.

    Raises:
        RequestError: The query calls `changes` without the name of a table as text.
    """
    if not isinstance(error, duckdb.CatalogException) or _UNKNOWN.search(str(error)) is None:
        return None
    calls = changes_calls(parse_statement(query))
    if not calls:
        raise RequestError("Cannot read changes: write the name of a table as text first: changes('orders', 3, 5)")
    return calls[0].name


_UNKNOWN = re.compile(r"Table Function with name \"?changes\"? does not exist", re.IGNORECASE)


def _table_name(text: str) -> Name | None:
    if is_path(text) and '"' not in text:
        return (text,)
    with contextlib.suppress(RequestError):
        return parse_name(text)
    return None
