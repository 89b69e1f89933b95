"""DuckDB's own iceberg extension, from its package and not from the network."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version as installed
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg


class Unsupported(Exception):
    """The extension has no option for it."""


def version() -> str:
    """DuckDB's version and the extension's."""
    return f"{duckdb.__version__}, extension {installed('duckdb-extension-iceberg')}"


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, by `iceberg_scan` over the metadata file."""
    if table.format != "iceberg":
        raise Unsupported("The extension iceberg reads Iceberg tables only")
    shown = "*" if columns is None else ", ".join(_quoted(name) for name in columns)
    condition = "" if where is None else f" WHERE {where}"
    scan = f"iceberg_scan({_text(table.metadata_path)}{_at(table.at)})"
    return _connection().sql(f"SELECT {shown} FROM {scan}{condition}").to_arrow_table()


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for package, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
        (file,) = Path(str(package.__file__)).parent.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(file))
    return connection


def _at(at: SimpleNamespace | None) -> str:
    if at is None:
        return ""
    if at.kind == "snapshot_id":
        return f", snapshot_from_id => {int(at.value)}"
    if at.kind == "timestamp_ms":
        moment = datetime.fromtimestamp(at.value / 1000, UTC).replace(tzinfo=None)
        return f", snapshot_from_timestamp => TIMESTAMP '{moment.isoformat(sep=' ')}'"
    raise Unsupported(f"iceberg_scan does not read by {at.kind}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
