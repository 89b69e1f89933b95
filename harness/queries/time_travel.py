"""Time travel clauses: `FROM orders AT (VERSION => 3)`, `FROM orders TIMESTAMP AS OF '2024-06-01'`.

A table with a time travel clause becomes a table with a new name, so one query may read several versions of a table.
A call of `changes` (see `harness.queries.changes`) becomes such a table too. The clauses of DuckDB and of Spark work in
both dialects:

    AT (VERSION => 3)                       AT (TIMESTAMP => TIMESTAMP '2024-06-01 12:00:00')
    [FOR] VERSION AS OF 3, or 'audit'       [FOR] TIMESTAMP AS OF '2024-06-01'
                                            FOR SYSTEM_TIME AS OF '2024-06-01'
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect

from harness.errors import RequestError
from harness.metadata.catalogs.catalog import Name
from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.metadata.filters.sqltext import whole_number
from harness.queries.changes import ChangesCall, changes_calls
from harness.queries.rewrite import (
    Reference,
    SqlStatement,
    apply_edits,
    closing_bracket,
    parse_statement,
    quote_of,
    references,
    shorten,
)

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Moment:
    """The version or time in a clause.

    Attributes:
        kind: `version` for a snapshot id, a version, a branch, or a tag. Else `timestamp`.
        value: The value. A timestamp is text, or milliseconds since 1970-01-01 UTC.
    """

    kind: Literal["version", "timestamp"]
    value: int | str

    @property
    def at(self) -> int | str:
        """The argument for `Table.snapshot`. A numeric version is a snapshot id, or a version of a Delta table."""
        if self.kind == "timestamp":
            return f"timestamp={self.value}"
        number = self.value if isinstance(self.value, int) else whole_number(self.value)
        return f"ref={self.value}" if number is None else number

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A query in which each table with a time travel clause, and each call of `changes`, has a new name.

    Attributes:
        query: The query.
        moments: The table and its moment or changes by the new name.
    """

    query: str
    moments: Mapping[str, tuple[Name, Moment | ChangesCall]]


def pin(statement: SqlStatement, is_bound: Callable[[Name], bool]) -> Pinned | None:
    """Give tables with time travel clauses and calls of `changes` new names. Return None if there are none.

    Args:
        statement: The statement.
        is_bound: Returns whether the parts of a name refer to a bound table.

    Raises:
        RequestError: A moment is not a literal, or the clause is not supported, for example BEFORE.
    """
    moved = [r for r in references(statement) if _is_moved(r.node) and is_bound(r.name)]
    calls = [call for call in changes_calls(statement) if is_bound(call.name)]
    if not moved and not calls:
        return None
    dialect = statement.dialect
    tokens = Dialect.get_or_raise(dialect).tokenize(statement.text)
    used_names = {identifier.name.casefold() for identifier in statement.tree.find_all(exp.Identifier)}
    quote = quote_of(dialect)
    moments: dict[str, tuple[Name, Moment | ChangesCall]] = {}
    names: dict[tuple[Name, Moment | ChangesCall], str] = {}

    def new_name(table: Name, moment: Moment | ChangesCall) -> str:
        key = (table, moment)
        if key not in names:
            base = moment.text if isinstance(moment, ChangesCall) else f"{'.'.join(table)} at {moment}"
            free = (base if number == 1 else f"{base} {number}" for number in itertools.count(1))
            names[key] = next(name for name in free if name.casefold() not in used_names)
            used_names.add(names[key].casefold())
            moments[names[key]] = key
        return quote(names[key])

    aliased = {id(reference.node) for reference in moved if reference.node.alias}
    edits = shorten(statement, moved, quote)
    for reference in moved:
        moment = _moment(reference.node)
        alias = "" if id(reference.node) in aliased else f" AS {quote(reference.node.alias or reference.name[-1])}"
        edits.append((reference.start, reference.end, new_name(reference.name, moment) + alias))
        edits.append((*_clause(statement, reference, tokens, moment), ""))
    for call in calls:
        may_have_alias = not isinstance(call.node.parent, exp.Summarize)
        alias = f" AS {quote(call.node.this.name)}" if may_have_alias and not call.node.alias else ""
        edits.append((call.start, call.end, new_name(call.name, call) + alias))
    return Pinned(statement.explain + apply_edits(statement.text, edits), moments)


def _is_moved(table: exp.Table) -> bool:
    return table.args.get("when") is not None or table.args.get("version") is not None


def _moment(table: exp.Table) -> Moment:
    clause = table.args.get("when") or table.args["version"]
    if isinstance(clause, exp.HistoricalData):
        is_known, kind = str(clause.this).upper() == "AT", str(clause.args["kind"]).lower()
    else:
        is_known, kind = clause.args["kind"] == "AS OF", str(clause.this).lower()
    value = _value(clause.expression, kind) if is_known and clause.expression is not None else None
    if value is None or kind not in ("version", "timestamp"):
        raise RequestError(
            f"Cannot read table {table.name} {clause.sql('duckdb')}: write AT (VERSION => …) or AT (TIMESTAMP => …) "
            "with a literal: a version, a snapshot id, the name of a branch or tag, or a time as text"
        )
    return Moment("version" if kind == "version" else "timestamp", value)


def _value(node: exp.Expr, kind: str) -> int | str | None:
    literal = literal_of(node)
    if literal is None:
        return None
    match literal.kind, kind:
        case LiteralKind.STRING, _:
            return str(literal.value)
        case LiteralKind.INTEGER, "version":
            return int(literal.value)
        case ((LiteralKind.TIMESTAMP | LiteralKind.INSTANT), "timestamp"):
            return int(literal.value) // 1_000_000
        case LiteralKind.DATE, "timestamp":
            return int(literal.value) * _DAY_MS
        case _:
            return None


def _clause(statement: SqlStatement, reference: Reference, tokens: Sequence[Token], moment: Moment) -> tuple[int, int]:
    """Return the start and end of the clause after a table's name or alias. The parser does not record its position."""
    first = next(i for i, token in enumerate(tokens) if token.start >= reference.end)
    for start in range(first, min(first + 4, len(tokens))):
        end = _end(tokens, start)
        if end is None:
            continue
        begin, stop = tokens[start].start, tokens[end - 1].end + 1
        # The clause is complete if it has the same meaning alone.
        with contextlib.suppress(RequestError):
            alone = parse_statement(f"SELECT * FROM t {statement.text[begin:stop]}", statement.dialect).tree
            table = alone.find(exp.Table)
            if isinstance(table, exp.Table) and _is_moved(table) and _moment(table) == moment:
                return begin, stop
    raise RequestError(
        f"Cannot read the time of table {'.'.join(reference.name)}: write AT (VERSION => …) or AT (TIMESTAMP => …) "
        "after its name"
    )


def _end(tokens: Sequence[Token], start: int) -> int | None:
    """Return the index after the clause that begins at a token, or None if no clause begins there."""
    words = [token.text.upper() for token in tokens[start : start + 4]]
    if words[:2] == ["AT", "("]:
        return closing_bracket(tokens, start + 1)
    if words[:1] == ["FOR"]:
        start, words = start + 1, words[1:]
    elif words:
        words[0] = words[0].removeprefix("FOR ")  # one token before sqlglot 30.30
    if len(words) < 3 or words[0] not in ("VERSION", "TIMESTAMP", "SYSTEM_TIME") or words[1:3] != ["AS", "OF"]:
        return None
    value = start + 3
    if value < len(tokens) and tokens[value].token_type is TokenType.L_PAREN:
        return closing_bracket(tokens, value)
    is_typed = value + 1 < len(tokens) and tokens[value].token_type is not TokenType.STRING
    is_typed = is_typed and tokens[value + 1].token_type is TokenType.STRING
    return min(value + (2 if is_typed else 1), len(tokens))
