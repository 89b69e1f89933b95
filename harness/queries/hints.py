"""Errors about unknown table and column names, with suggestions from the user's own names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import duckdb

from harness.engines.duckdb.instance import error_text
from harness.errors import EngineError, HarnessError, TableNotFoundError
from harness.metadata.catalogs.catalog import name_text, nearest_names
from harness.metadata.model.schema import Field, Schema, StructType
from harness.storage.paths import is_path

_TABLE = re.compile(r"Table with name (.+?) does not exist!")
_COLUMN = re.compile(
    r'Referenced table "(?P<owner>[^"]+)" not found!|Referenced column "(?P<column>[^"]+)" not found'
    r'|Table "[^"]+" does not have a column named "(?P<of_table>[^"]+)"'
)
_HINT = re.compile(r"\s*Candidate (?:bindings|tables):[ :]*(.*)", re.DOTALL)
_EXCERPT = re.compile(r"\s*LINE \d+:.*", re.DOTALL)
"""DuckDB's excerpt of the query. It shows the rewritten text, which the user did not write."""


def explain_error(
    error: duckdb.Error, query: str, tables: Mapping[str, Schema], connection_tables: Collection[str] = ()
) -> HarnessError:
    """Return the error for a query that DuckDB rejects. For an unknown name, it suggests the user's own names.

    Args:
        error: DuckDB's error.
        query: The query as the user wrote it.
        tables: The tables that the query could name. Tables that were read have their schema.
        connection_tables: Tables of the user's connection.
    """
    text = _EXCERPT.sub("", error_text(error))
    missing_table = _TABLE.search(text)
    if isinstance(error, duckdb.CatalogException) and missing_table is not None:
        return table_not_found(missing_table[1], [*tables, *connection_tables])
    if isinstance(error, duckdb.CatalogException):
        from harness.queries.changes import unknown_table  # imports sqlglot, which plain queries do not need

        if (called := unknown_table(error, query)) is not None:
            return table_not_found(called[0] if len(called) == 1 else name_text(called), [*tables, *connection_tables])
    match = _COLUMN.search(text)
    if not isinstance(error, duckdb.BinderException) or match is None:
        return _query_error(text)
    paths = [".".join(path) for schema in tables.values() for path in _column_paths(schema.fields)]
    if match["owner"] is not None:
        # DuckDB reports only `addr` for `addr.city`.
        after = re.search(rf'(?<![\w.]){re.escape(match["owner"])}"?\s*\.\s*"?(\w+)', query, re.IGNORECASE)
        column = match["owner"] if after is None else f"{match['owner']}.{after[1]}"
        paths = [path for path in paths if "." in path]
    else:
        column = match["column"] or match["of_table"]
    folded = {path.casefold(): path for path in paths if path.casefold() != column.casefold()}
    exact = [path for fold, path in folded.items() if fold.endswith(f".{column.casefold()}")]
    close = [folded[fold] for fold in difflib.get_close_matches(column.casefold(), folded, n=3)]
    near = list(dict.fromkeys([*exact, *close]))[:3]
    duckdb_hint = _HINT.search(text)
    names = [] if duckdb_hint is None else [each.strip() for each in duckdb_hint[1].split(",")]
    suggested = {column.casefold(), *map(str.casefold, near)}
    others = [each for each in names if each.strip('"').casefold() not in suggested]
    hints = [f"Did you mean {' or '.join(near)}?"] if near else []
    if column in paths:
        hints = [f"Did you mean the field {column}, without quotes around the whole?"]
    if others:
        kind = "tables" if match["owner"] is not None else "bindings"
        hints.append(f"Candidate {kind}: {', '.join(others)}")
    return _query_error(" ".join([_HINT.sub("", text), *hints]))


def _query_error(reason: str) -> EngineError:
    return EngineError(f"DuckDB cannot run the query: {reason}")


def table_not_found(name: str, candidates: Collection[str]) -> TableNotFoundError:
    """Return the error for a name that is neither among `candidates` nor the location of a table."""
    from harness.metadata.catalogs.warehouse import local_table_hint, nearby_tables_hint

    if is_path(name):
        hint = nearby_tables_hint(name.rstrip("/")) or "check the path"
        return TableNotFoundError(
            f"There is no table at {name!r}: it is not the directory of an Iceberg or Delta table; {hint}",
            cause="NoSuchTable",
        )
    near = [each for (each,) in nearest_names((name,), [(each,) for each in candidates])] or sorted(candidates)[:3]
    hint = (
        f"the nearest are {', '.join(near)}"
        if near
        else "no tables were given; pass them by name, or write their locations"
    )
    hint = local_table_hint((name,)) or hint
    return TableNotFoundError(f"There is no table {name_text((name,))}; {hint}", cause="NoSuchTable")


def _column_paths(fields: Iterable[Field], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of columns and of struct fields in them."""
    for field in fields:
        path = (*prefix, field.name)
        yield path
        if isinstance(field.type, StructType):
            yield from _column_paths(field.type.fields, path)
