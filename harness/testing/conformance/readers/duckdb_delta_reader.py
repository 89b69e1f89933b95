"""DuckDB's own delta extension, from its package and not from the network."""

from __future__ import annotations

from importlib.metadata import version as installed
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import duckdb_extension_delta


class Unsupported(Exception):
    """The extension has no option for it."""


def version() -> str:
    """DuckDB's version and the extension's."""
    return f"{duckdb.__version__}, extension {installed('duckdb-extension-delta')}"


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, by `delta_scan`."""
    if table.format != "delta":
        raise Unsupported("The extension delta reads Delta tables only")
    shown = "*" if columns is None else ", ".join(_quoted(name) for name in columns)
    condition = "" if where is None else f" WHERE {where}"
    scan = f"delta_scan({_text(table.location)}{_at(table.at)})"
    return _connection().sql(f"SELECT {shown} FROM {scan}{condition}").to_arrow_table()


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    (file,) = Path(str(duckdb_extension_delta.__file__)).parent.rglob("delta.duckdb_extension")
    connection.load_extension(str(file))
    return connection


def _at(at: SimpleNamespace | None) -> str:
    if at is None:
        return ""
    if at.kind == "version":
        return f", version => {int(at.value)}"
    raise Unsupported(f"delta_scan does not read by {at.kind}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
