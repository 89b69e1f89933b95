"""Locations of tables in a query: `FROM 'warehouse/orders'`, as DuckDB reads files by their paths."""

from __future__ import annotations

import os
import re

from harness.connections.splitting import statements
from harness.errors import RequestError
from harness.storage.paths import SCHEME, is_local, local_path

_METADATA_FILE = ".metadata.json"
_OF_TABLES = ("_delta_log", "metadata")
_FILE = re.compile(
    r"[*?\[]|\.(parquet|csv|tsv|json|jsonl|ndjson|xlsx|arrow|avro|txt|db|duckdb)(\.(gz|zst|bz2))?$", re.IGNORECASE
)
"""Names of files, and patterns of them: DuckDB's to read."""


def is_location(name: str) -> bool:
    """Whether a table's name in a query is where one of Iceberg or Delta lies: a directory of it, or a metadata file.

    A URI is, unless it ends as files do that DuckDB reads; what is there is seen when it is opened.
    """
    path = local_path(name)
    if name.endswith(_METADATA_FILE):
        return not is_local(path) or os.path.isfile(path)
    if not is_local(path):
        return SCHEME.match(path) is not None and _FILE.search(path) is None
    return "/" in path and any(os.path.isdir(os.path.join(path, inner)) for inner in _OF_TABLES)


def locations_in(text: str) -> list[str]:
    """The locations of tables that statements name; none of a statement that cannot be parsed."""
    if "/" not in text:
        return []
    from harness.queries.statements import parse_statement, references

    found: dict[str, None] = {}
    for statement in statements(text):
        try:
            names = [reference.name for reference in references(parse_statement(statement))]
        except RequestError:
            continue
        found |= {name[0]: None for name in names if is_location(name[0])}
    return list(found)
