"""delta-rs: deltalake's own SQL over a Delta table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import deltalake
from deltalake import DeltaTable, QueryBuilder


class Unsupported(Exception):
    """delta-rs has no call for it."""


def version() -> str:
    """Deltalake's version."""
    return str(deltalake.__version__)


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, by a query that DataFusion runs inside deltalake."""
    if table.format != "delta":
        raise Unsupported("delta-rs reads Delta tables only")
    shown = "*" if columns is None else ", ".join(_quoted(name) for name in columns)
    condition = "" if where is None else f" WHERE {where}"
    return QueryBuilder().register("t", _opened(table)).execute(f"SELECT {shown} FROM t{condition}")


def _opened(table: SimpleNamespace) -> DeltaTable:
    if table.at is None:
        return DeltaTable(table.location)
    if table.at.kind == "version":
        return DeltaTable(table.location, version=int(table.at.value))
    if table.at.kind == "timestamp_ms":
        from datetime import UTC, datetime

        opened = DeltaTable(table.location)
        opened.load_as_version(datetime.fromtimestamp(table.at.value / 1000, UTC))
        return opened
    raise Unsupported(f"delta-rs does not read by {table.at.kind}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
