"""Polars: its own reader for Iceberg, and deltalake's log with its own reader for Delta."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl


class Unsupported(Exception):
    """Polars has no call for it."""


def version() -> str:
    """Polars' version."""
    return str(pl.__version__)


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, by a lazy scan."""
    frame = _iceberg(table) if table.format == "iceberg" else _delta(table)
    if where is not None:
        frame = frame.filter(pl.sql_expr(where))
    return (frame if columns is None else frame.select(list(columns))).collect()


def _iceberg(table: SimpleNamespace) -> pl.LazyFrame:
    if table.at is None:
        return pl.scan_iceberg(table.metadata_path, reader_override="native")
    if table.at.kind == "snapshot_id":
        return pl.scan_iceberg(table.metadata_path, snapshot_id=int(table.at.value), reader_override="native")
    raise Unsupported(f"Polars does not read Iceberg tables by {table.at.kind}")


def _delta(table: SimpleNamespace) -> pl.LazyFrame:
    if table.at is None:
        return pl.scan_delta(table.location)
    if table.at.kind == "version":
        return pl.scan_delta(table.location, version=int(table.at.value))
    if table.at.kind == "timestamp_ms":
        from datetime import UTC, datetime

        return pl.scan_delta(table.location, version=datetime.fromtimestamp(table.at.value / 1000, UTC))
    raise Unsupported(f"Polars does not read Delta tables by {table.at.kind}")
