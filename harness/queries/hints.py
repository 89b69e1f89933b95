"""Names that neither tables nor columns have: errors whose hints are the user's own, and paths into structs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import duckdb

from harness.engines.duckdb.instance import error_text
from harness.errors import EngineError, HarnessError, TableNotFoundError
from harness.metadata.catalogs.catalog import nearest, written
from harness.metadata.model.schema import Field, Schema, StructType
from harness.storage.paths import is_path

_TABLE = re.compile(r"Table with name (.+?) does not exist!")
_COLUMN = re.compile(
    r'Referenced table "(?P<owner>[^"]+)" not found!|Referenced column "(?P<column>[^"]+)" not found'
    r'|Table "[^"]+" does not have a column named "(?P<of_table>[^"]+)"'
)
_HINT = re.compile(r"\s*Candidate (?:bindings|tables):[ :]*(.*)", re.DOTALL)
_EXCERPT = re.compile(r"\s*LINE \d+:.*", re.DOTALL)
"""The place in the rewritten query, which nobody wrote."""


def told(error: duckdb.Error, query: str, tables: Mapping[str, Schema], own: Collection[str] = ()) -> HarnessError:
    """The error about a query that DuckDB refuses; about an unknown name, with hints of the user's own.

    tables: those that the query could name, with the schemas of those that were read. own: tables of the connection.
    """
    text = _EXCERPT.sub("", error_text(error))
    absent = _TABLE.search(text)
    if isinstance(error, duckdb.CatalogException) and absent is not None:
        return no_table(absent[1], [*tables, *own])
    found = _COLUMN.search(text)
    if not isinstance(error, duckdb.BinderException) or found is None:
        return _refused(text)
    paths = [".".join(path) for schema in tables.values() for path in _paths(schema.fields)]
    if found["owner"] is not None:
        # Of `addr.city` DuckDB says `addr`.
        after = re.search(rf'(?<![\w.]){re.escape(found["owner"])}"?\s*\.\s*"?(\w+)', query, re.IGNORECASE)
        wanted = found["owner"] if after is None else f"{found['owner']}.{after[1]}"
        paths = [path for path in paths if "." in path]
    else:
        wanted = found["column"] or found["of_table"]
    folded = {path.casefold(): path for path in paths if path.casefold() != wanted.casefold()}
    exact = [path for fold, path in folded.items() if fold.endswith(f".{wanted.casefold()}")]
    close = [folded[fold] for fold in difflib.get_close_matches(wanted.casefold(), folded, n=3)]
    near = list(dict.fromkeys([*exact, *close]))[:3]
    of_duckdb = _HINT.search(text)
    names = [] if of_duckdb is None else [each.strip() for each in of_duckdb[1].split(",")]
    said_already = {wanted.casefold(), *map(str.casefold, near)}
    others = [each for each in names if each.strip('"').casefold() not in said_already]
    hints = [f"Did you mean {' or '.join(near)}?"] if near else []
    if wanted in paths:
        hints = [f"Did you mean the field {wanted}, without quotes around the whole?"]
    if others:
        kind = "tables" if found["owner"] is not None else "bindings"
        hints.append(f"Candidate {kind}: {', '.join(others)}")
    return _refused(" ".join([_HINT.sub("", text), *hints]))


def _refused(reason: str) -> EngineError:
    return EngineError(f"DuckDB cannot run the query: {reason}")


def no_table(name: str, known: Collection[str]) -> TableNotFoundError:
    """The error about a table that is neither among `known` nor at a location of that name."""
    from harness.metadata.catalogs.warehouse import nearby, table_here

    if is_path(name):
        hint = nearby(name.rstrip("/")) or "check the path"
        return TableNotFoundError(
            f"There is no table at {name!r}: it is no directory of an Iceberg or Delta table; {hint}",
            cause="NoSuchTable",
        )
    near = [each for (each,) in nearest((name,), [(each,) for each in known])] or sorted(known)[:3]
    hint = f"the nearest are {', '.join(near)}" if near else "no tables are given; name them, or write their locations"
    hint = table_here((name,)) or hint
    return TableNotFoundError(f"There is no table {written((name,))}; {hint}", cause="NoSuchTable")


def _paths(fields: Iterable[Field], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The columns and the fields of structs in them."""
    for field in fields:
        path = (*prefix, field.name)
        yield path
        if isinstance(field.type, StructType):
            yield from _paths(field.type.fields, path)
