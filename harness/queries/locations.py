"""Locations of tables in a query: `FROM 'warehouse/orders'`, as DuckDB reads files by their paths."""

from __future__ import annotations

import os
import re

from harness.storage.paths import SCHEME, is_local, local_path

_METADATA_FILE = ".metadata.json"
_OF_TABLES = ("_delta_log", "metadata")
_FILE = re.compile(
    r"[*?\[]|\.(parquet|csv|tsv|json|jsonl|ndjson|xlsx|arrow|avro|txt|db|duckdb)(\.(gz|zst|bz2))?$", re.IGNORECASE
)
"""Names of files, and patterns of them: DuckDB's to read."""
_QUOTED_SLASH = re.compile(r"""['"`][^'"`]*/""")


def is_location(name: str) -> bool:
    """True if a table's name in a query is the directory of an Iceberg or Delta table, or a metadata file.

    A URI is, unless it ends as files do that DuckDB reads; what is there is seen when it is opened.
    """
    path = local_path(name)
    if name.endswith(_METADATA_FILE):
        return not is_local(path) or os.path.isfile(path)
    if not is_local(path):
        return SCHEME.match(path) is not None and _FILE.search(path) is None
    return "/" in path and any(os.path.isdir(os.path.join(path, inner)) for inner in _OF_TABLES)


def locations(query: str, dialect: str = "duckdb") -> list[str]:
    """The locations of tables that a query names. Raises RequestError: the query cannot be parsed."""
    if _QUOTED_SLASH.search(query) is None:
        return []
    from harness.queries.rewrite import parse_statement, references

    names = (reference.name[0] for reference in references(parse_statement(query, dialect)))
    return [name for name in dict.fromkeys(names) if is_location(name)]
