"""Rewritten queries, and a fast rewriter for plain queries that does not need sqlglot (decision 15).

DuckDB's own parser returns the tree of a query. A query is plain if it is `SELECT ... FROM table`, optionally with
GROUP BY, ORDER BY, and LIMIT, and uses only columns, constants, casts, and certain functions. `harness.queries.rewrite`
handles all other queries. Getting a tree takes 0.4 ms, and 3 ms the first time. Importing sqlglot takes 80 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.sqltext import quoted, refuse_half_characters, whole_number
from harness.metadata.model.schema import METADATA, Schema
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """One mention of a bound table in a query.

    Attributes:
        view: The name of the view that replaces the table. The caller creates the view.
        table: The name of the bound table.
        where: A filter for the table's schema, or None.
        columns: All columns that the query may use, or None if it may use any column.
        put: The text in the rewritten query, with an alias if the user gave none.
        original: The user's text that `put` replaces.
        aliased: True if an alias follows, as a subquery requires.
        metadata: The name of the metadata table that is read, or None for the table itself.
        enough: The number of rows that suffice, whichever rows they are, or None if the query needs all rows.
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
    """A query that reads views, and its references to bound tables in the order of the text."""

    sql: str
    references: tuple[TableReference, ...]

    @property
    def originals(self) -> dict[str, str]:
        """The user's texts, by the text that replaces each of them."""
        return {reference.put: reference.original for reference in self.references}

    def as_written(self, text: str) -> str:
        """Return a part of the rewritten query with its replacements undone."""
        for put, original in self.originals.items():
            text = text.replace(put, original)
        return text


_NOT_PLAIN = re.compile(r"^\s*table\b|--|/\*|\b(?:where|join|with|union|having|over)\b", re.IGNORECASE)
"""A quick test for most queries that are not plain. It saves the 0.4 ms for DuckDB's tree."""
_OPERATORS = frozenset({"+", "-", "*", "/", "%"})
_FUNCTIONS = _OPERATORS | {
    *("abs", "avg", "count", "count_star", "length", "lower", "max", "min", "round", "sum", "upper"),
}
_ROW_BY_ROW = frozenset({"COLUMN_REF", "CONSTANT", "CAST", "STAR", "TYPE"})
"""Classes of expressions that compute one value per row if their parts do."""
_QUERY_KEYS = frozenset({"node", "named_param_map"})
_SELECT_KEYS = frozenset(
    {
        "type",
        "modifiers",
        "cte_map",
        "select_list",
        "from_table",
        "group_expressions",
        "group_sets",
        "aggregate_handling",
    }
)
_LOCATION_KEYS = frozenset({"query_location", "query_location_length"})
_TABLE_KEYS = frozenset({"type", "alias", "table_name", "qualified_name"}) | _LOCATION_KEYS
_STAR_KEYS = frozenset({"class", "type"}) | _LOCATION_KEYS
_LIMIT_KEYS = frozenset({"type", "limit"})
_LONGEST = 10_000
"""The maximum number of characters of a plain query."""
_MOST_BRACKETS = 100
"""The maximum number of opening brackets of a plain query.

DuckDB 2.0's parser takes 3 GB for 5,000 unclosed brackets, and disproportionately more for longer texts.
"""


def rewrite_plain(
    query: str, tables: Mapping[str, Schema], *, prefix: str, connection: duckdb.DuckDBPyConnection | None = None
) -> Rewritten | None:
    """Return the result of `rewrite` for a query in DuckDB's dialect, or None if the query is not plain.

    Args:
        query: As for `rewrite`.
        tables: As for `rewrite`.
        prefix: As for `rewrite`.
        connection: The user's connection that will run the query, or None.
    """
    refuse_half_characters(query, "query")
    text = query.rstrip().removesuffix(";").rstrip()
    if ";" in text or _NOT_PLAIN.search(text) is not None:
        return None
    if len(text) > _LONGEST or sum(map(text.count, "([{")) > _MOST_BRACKETS:
        return None
    if len({name.casefold() for name in tables}) < len(tables):
        return None
    from harness.engines.duckdb.relations import syntax_trees

    (tree,) = syntax_trees(text, connection=connection)
    try:
        return _rewrite_tree(text, json.loads(tree), tables, prefix)
    except _NotPlainError:
        return None


def may_time_travel(query: str) -> bool:
    """Return whether a query may contain a time travel clause or a call of `changes`.

    See `harness.queries.time_travel`.
    """
    return _MOMENT.search(query) is not None


_MOMENT = re.compile(r"\bAT\s*\(|\bAS\s+OF\b|\bchanges[\"`]?\s*\(", re.IGNORECASE)


class _NotPlainError(Exception):
    """Raised if the query is not plain."""


def _require(is_plain: bool) -> None:
    if not is_plain:
        raise _NotPlainError


def _rewrite_tree(text: str, tree: Mapping[str, Any], tables: Mapping[str, Schema], prefix: str) -> Rewritten:
    statements = tree.get("statements", ())
    _require(len(statements) == 1 and statements[0].keys() <= _QUERY_KEYS and not statements[0].get("named_param_map"))
    node = statements[0]["node"]
    _require(node["type"] == "SELECT_NODE" and node.keys() <= _SELECT_KEYS and not node.get("cte_map"))
    _require(node.get("aggregate_handling", "STANDARD_HANDLING") == "STANDARD_HANDLING")
    source = node["from_table"]
    _require(source["type"] == "BASE_TABLE" and source.keys() <= _TABLE_KEYS and source["table_name"] in tables)
    table, alias = source["table_name"], source.get("alias", "")
    written, start = text.encode(), source.get("query_location", 0)  # in bytes
    end = start + len(table.encode())
    _require(written[start:end] == table.encode())

    columns, functions = [], set()
    items = [item for item in node["select_list"] if not _is_star(item)]
    grouped, modifiers = node.get("group_expressions", []), node.get("modifiers", [])
    orders = [order for modifier in modifiers for order in modifier.get("orders", ())]
    for expression in _expressions([items, grouped, orders]):
        match expression["class"]:
            case "COLUMN_REF":
                columns.append(tuple(name.casefold() for name in expression["column_names"]))
            case "FUNCTION":
                functions.add(expression["function_name"])
            case kind:
                _require(kind in _ROW_BY_ROW and kind != "STAR")
    _require(functions <= _FUNCTIONS)
    schema, table_name = tables[table], (alias or table).casefold()
    aliases = {item["alias"].casefold() for item in items if "alias" in item}
    names = dict.fromkeys((*schema.names(), *METADATA))
    known_names = {name.casefold() for name in names} | aliases
    for path in columns:
        _require(path[-1] in known_names and path[:-1] in ((), (table_name,)) and path != (table_name,))

    used = {name for path in columns for name in path} | aliases | {table_name}
    limit = _limit(written, modifiers)
    is_row_by_row = functions <= _OPERATORS and not grouped and not orders
    view = f"{prefix}_1_{table}"
    put = quoted(view) + ("" if alias else f" AS {table}")
    reference = TableReference(
        view=view,
        table=table,
        where=None,
        columns=None if len(items) < len(node["select_list"]) else tuple(n for n in names if n.casefold() in used),
        put=put,
        original=table,
        enough=limit if is_row_by_row else None,
    )
    return Rewritten(sql=written[:start].decode() + put + written[end:].decode(), references=(reference,))


def _is_star(item: Mapping[str, Any]) -> bool:
    return item["class"] == "STAR" and item.keys() <= _STAR_KEYS


def _expressions(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the expressions in a part of a tree."""
    if isinstance(part, list):
        for each in part:
            yield from _expressions(each)
    elif isinstance(part, dict):
        if "class" in part:
            yield part
        for each in part.values():
            if isinstance(each, list | dict):
                yield from _expressions(each)


def _limit(written: bytes, modifiers: list[Mapping[str, Any]]) -> int | None:
    """Return the LIMIT of the query, or None if there is none. `written` is the query in UTF-8."""
    limit_ = None
    for modifier in modifiers:
        if modifier["type"] == "ORDER_MODIFIER":
            continue
        _require(modifier["type"] == "LIMIT_MODIFIER" and modifier.keys() <= _LIMIT_KEYS)
        limit = modifier["limit"]
        _require(limit["class"] == "CONSTANT" and "query_location" in limit)
        digits = re.match(rb"[0-9]+(?![\w.])", written[limit["query_location"] :])
        if digits is None:
            raise _NotPlainError
        limit_ = whole_number(digits[0].decode())
    return limit_
