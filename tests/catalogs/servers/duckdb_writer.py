"""Runs statements with DuckDB's Iceberg extension on a REST catalog, whose name is `lake`: its URI, then each of them.

A process of its own, because the extension is made for a DuckDB that is not the one of the tests.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import duckdb


def run(uri: str, statements: list[str]) -> None:
    """Each by itself, so that each that writes is a snapshot."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (file,) = package.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    options = "TYPE iceberg, AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
    connection.execute(f"ATTACH '' AS lake ({options}, ENDPOINT '{uri}')")
    for statement in statements:
        connection.execute(statement)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
