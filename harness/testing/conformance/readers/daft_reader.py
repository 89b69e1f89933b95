"""Daft: files that PyIceberg or deltalake plan, read by Daft."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import daft


class Unsupported(Exception):
    """Daft has no call for it."""


def version() -> str:
    """Daft's version."""
    return str(daft.__version__)


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, by a lazy frame."""
    frame = _iceberg(table) if table.format == "iceberg" else _delta(table)
    if where is not None:
        frame = frame.where(daft.sql_expr(where))
    return (frame if columns is None else frame.select(*columns)).to_arrow()


def _iceberg(table: SimpleNamespace) -> Any:
    if table.at is None:
        return daft.read_iceberg(table.metadata_path)
    if table.at.kind == "snapshot_id":
        return daft.read_iceberg(table.metadata_path, snapshot_id=int(table.at.value))
    if table.at.kind == "ref":
        from pyiceberg.table import StaticTable

        found = StaticTable.from_metadata(table.metadata_path).refs().get(table.at.value)
        if found is None:
            raise ValueError(f"There is no branch or tag {table.at.value}")
        kind = found.snapshot_ref_type.value
        return daft.read_iceberg(table.metadata_path, **{kind: table.at.value})
    raise Unsupported(f"Daft does not read Iceberg tables by {table.at.kind}")


def _delta(table: SimpleNamespace) -> Any:
    if table.at is None:
        return daft.read_deltalake(table.location)
    if table.at.kind == "version":
        return daft.read_deltalake(table.location, version=int(table.at.value))
    if table.at.kind == "timestamp_ms":
        from datetime import UTC, datetime

        return daft.read_deltalake(table.location, version=datetime.fromtimestamp(table.at.value / 1000, UTC))
    raise Unsupported(f"Daft does not read Delta tables by {table.at.kind}")
