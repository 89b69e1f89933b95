"""Rewritten queries, and those of one table without conditions, which are rewritten without sqlglot (decision 15).

    query := SELECT item, ... FROM table [[AS] alias]
             [GROUP BY sum, ...] [ORDER BY sum [ASC | DESC], ...] [LIMIT number]
    item  := * | sum [[AS] alias]
    sum   := part {::type} {(+ | - | * | / | %) part {::type}}
    part  := number | text | function([DISTINCT] sum, ...) | count(*) | [alias .] column | (sum) | - part

All others, and texts that might mean something else to DuckDB or to sqlglot, are left to `harness.queries.rewrite`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field

from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.sqltext import quoted, refuse_half_characters, whole_number
from harness.metadata.model.schema import METADATA, Schema
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A place where a query reads a bound table.

    view: the name in the rewritten query, for a view to be made. aliased: an alias follows, as a subquery needs.
    table: the bound table. metadata: its metadata table that is read; None: the table itself.
    where: a filter for the table's schema; None: none. columns: all that the query may use; None: any.
    put, original: the words of the rewritten query, with an alias where the user gave none, and the user's words.
    enough: the number of rows that suffice, whichever they are; None: the query needs all.
    """

    view: str
    table: str
    where: Filter | None
    columns: tuple[str, ...] | None
    put: str
    original: str
    aliased: bool = True
    metadata: str | None = None
    enough: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A query that reads views, and the views that it reads, in the order of the text."""

    sql: str
    references: tuple[TableReference, ...]

    @property
    def originals(self) -> dict[str, str]:
        """The user's words by the words that replace them."""
        return {reference.put: reference.original for reference in self.references}

    def as_written(self, text: str) -> str:
        """A part of the query with the user's words."""
        for put, original in self.originals.items():
            text = text.replace(put, original)
        return text


_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|([0-9]+(?:\.[0-9]+)?(?![\w.]))|('[^'\\]*')|(::|[-+*/%(),.]))")
_FUNCTIONS = frozenset({"abs", "avg", "count", "length", "lower", "max", "min", "round", "sum", "upper"})
_TYPES = frozenset({"bigint", "date", "double", "float", "hugeint", "int", "integer", "text", "timestamp", "varchar"})
_TAKEN = """
all analyse analyze and anti any array as asc asof asymmetric at authorization between bigint binary bit boolean both by
case cast char character check coalesce collate collation column columns concurrently constraint create cross dec
decimal default deferrable desc describe distinct do else end except exists extract false fetch float for foreign freeze
from full generated glob group grouping grouping_id having ilike in initially inner inout int integer intersect interval
into is isnull join lambda lateral leading left like limit map national natural nchar none not notnull null nullif
numeric offset on only or order out outer overlaps overlay pivot pivot_longer pivot_wider placing position positional
precision primary qualify real references returning right row select semi setof show similar smallint some struct
substring summarize symmetric table tablesample then time timestamp to trailing treat trim true try_cast tuple union
unique unpack unpivot using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement
xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""
KEYWORDS = frozenset(_TAKEN.split())
"""DuckDB's keywords (1.5, 2.0) of `duckdb_keywords()`, without those that it takes for any name."""


def rewrite_plain(query: str, tables: Mapping[str, Schema], *, prefix: str) -> Rewritten | None:
    """The result of `rewrite` for a query in DuckDB's dialect; None: ask the rewriter. tables, prefix: as there."""
    refuse_half_characters(query, "query")
    text = query.rstrip().removesuffix(";").rstrip()
    tokens = _tokens(text)
    if tokens is None or len({name.casefold() for name in tables}) < len(tables):
        return None
    try:
        return _Query(text, tokens, tables).rewritten(prefix)
    except (_NotPlainError, IndexError, RecursionError):
        return None


def may_name_moments(query: str) -> bool:
    """Tells whether a query may name a moment of a table, for `harness.queries.time_travel`."""
    return _MOMENT.search(query) is not None


_MOMENT = re.compile(r"\bAT\s*\(|\bAS\s+OF\b", re.IGNORECASE)


class _NotPlainError(Exception):
    """The query is none of these."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


_KINDS = ("word", "number", "text", "sign")


def _tokens(text: str) -> list[_Token] | None:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        group = match.lastindex or 0
        found.append(_Token(_KINDS[group - 1], match[group], match.start(group)))
        at = match.end()
    return [*found, _Token("end", "", at)]


@dataclass(slots=True)
class _Query:
    text: str
    tokens: list[_Token]
    tables: Mapping[str, Schema]
    at: int = 0
    all_columns: bool = False
    row_by_row: bool = True
    columns: list[tuple[str, ...]] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)

    def rewritten(self, prefix: str) -> Rewritten:
        self._word("select")
        self._each(self._item)
        self._word("from")
        table = self._name()
        if table.text not in self.tables:
            raise _NotPlainError
        alias = self._alias() or table.text
        is_renamed = self.at - 1 > self.tokens.index(table)
        if self._is("group"):
            self.row_by_row = False
            self._word("by")
            self._each(self._sum)
        if self._is("order"):
            self.row_by_row = False
            self._word("by")
            self._each(self._key)
        limit = self._take("number").text if self._is("limit") else ""
        self._take("end")
        schema = self.tables[table.text]
        known = {name.casefold() for name in (*schema.names(), *METADATA)} | self.aliases
        for path in self.columns:
            if path[-1] not in known or path[:-1] not in ((), (alias.casefold(),)) or path == (alias.casefold(),):
                raise _NotPlainError
        used = {name for path in self.columns for name in path} | self.aliases | {alias.casefold()}
        view = f"{prefix}_1_{table.text}"
        named = quoted(view) + ("" if is_renamed else f" AS {table.text}")
        end = table.start + len(table.text)
        names = dict.fromkeys((*schema.names(), *METADATA))
        columns = None if self.all_columns else tuple(name for name in names if name.casefold() in used)
        enough = whole_number(limit) if self.row_by_row else None
        reference = TableReference(
            view=view, table=table.text, where=None, columns=columns, put=named, original=table.text, enough=enough
        )
        return Rewritten(sql=self.text[: table.start] + named + self.text[end:], references=(reference,))

    def _each(self, one: Callable[[], None]) -> None:
        one()
        while self._is(","):
            one()

    def _item(self) -> None:
        if self._is("*"):
            self.all_columns = True
            return
        self._sum()
        alias = self._alias()
        if alias is not None:
            self.aliases.add(alias.casefold())

    def _alias(self) -> str | None:
        token = self.tokens[self.at]
        is_name = token.kind == "word" and token.text.lower() not in KEYWORDS
        return self._name().text if self._is("as") or is_name else None

    def _key(self) -> None:
        self._sum()
        if not self._is("asc"):
            self._is("desc")

    def _sum(self) -> None:
        self._cast()
        while any(self._is(sign) for sign in "+-*/%"):
            self._cast()

    def _cast(self) -> None:
        self._part()
        while self._is("::"):
            if self._take("word").text.lower() not in _TYPES:
                raise _NotPlainError

    def _part(self) -> None:
        if self._is("-"):
            self._cast()
        elif self._is("("):
            self._sum()
            self._word(")")
        elif self.tokens[self.at].kind in ("number", "text"):
            self.at += 1
        else:
            name = self._name().text.casefold()
            if not self._is("("):
                self.columns.append((name, self._name().text.casefold()) if self._is(".") else (name,))
                return
            if name not in _FUNCTIONS:
                raise _NotPlainError
            self.row_by_row = False
            if name != "count" or not self._is("*"):
                self._is("distinct")
                self._each(self._sum)
            self._word(")")

    def _is(self, text: str) -> bool:
        """Tells whether a text comes next, and then passes it."""
        found = self.tokens[self.at].text.lower() == text
        self.at += found
        return found

    def _word(self, text: str) -> None:
        if not self._is(text):
            raise _NotPlainError

    def _take(self, kind: str) -> _Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise _NotPlainError
        self.at += 1
        return token

    def _name(self) -> _Token:
        token = self._take("word")
        if token.text.lower() in KEYWORDS:
            raise _NotPlainError
        return token
