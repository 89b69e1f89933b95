"""PyIceberg, over a table's metadata file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyiceberg
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.parser import parse
from pyiceberg.table import StaticTable


class Unsupported(Exception):
    """PyIceberg has no call for it."""


def version() -> str:
    """PyIceberg's version, and that of what reads its files."""
    return f"{pyiceberg.__version__}, pyarrow {pa.__version__}"


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, by a scan that PyIceberg plans and reads."""
    if table.format != "iceberg":
        raise Unsupported("PyIceberg reads Iceberg tables only")
    opened = StaticTable.from_metadata(table.metadata_path)
    scan = opened.scan(row_filter=_filter(where), snapshot_id=_snapshot_id(opened, table.at))
    if columns is not None:
        scan = scan.select(*columns)
    rows = scan.to_arrow()
    return rows if columns is None else rows.select(list(columns))


def _filter(where: str | None) -> Any:
    if where is None:
        return AlwaysTrue()
    try:
        return parse(where)
    except Exception as error:  # of the parser library beneath it
        raise Unsupported(f"PyIceberg's filters have no such expression: {where}") from error


def _snapshot_id(opened: Any, at: SimpleNamespace | None) -> int | None:
    if at is None:
        return None
    if at.kind == "snapshot_id":
        return int(at.value)
    found = opened.snapshot_by_name(at.value) if at.kind == "ref" else opened.snapshot_as_of_timestamp(at.value)
    if found is None:
        raise ValueError(f"There is no snapshot for {at.kind} {at.value}")
    return int(found.snapshot_id)
