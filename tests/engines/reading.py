"""Rows of a table that was built for a test, read both ways that DuckDB offers: at once, and through a relation."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import on_oracle
import pyarrow as pa

import harness
from harness.engines.column_values import conform
from harness.engines.duckdb.instance import cursor
from harness.testing.writing.iceberg.builder import IcebergTable


def arrow(table: IcebergTable, **how: Any) -> pa.Table:
    """The current rows; asserts that `to_duckdb` gives the same ones."""
    return snapshot_arrow(harness.open_table(str(table.store.directory)).snapshot(), **how)


def snapshot_arrow(snapshot: harness.Snapshot, **how: Any) -> pa.Table:
    """The rows of a snapshot; asserts that `to_duckdb` gives the same ones."""
    at_once = on_oracle.to_arrow(snapshot.plan(**how))
    if at_once.num_columns and len({name.lower() for name in at_once.column_names}) == at_once.num_columns:
        relation = conform(pa.table(snapshot.to_duckdb(cursor(), **how)), at_once.schema)
        assert values(relation) == values(at_once)
    return at_once


def rows(table: IcebergTable, **how: Any) -> list[tuple[Any, ...]]:
    """The current rows as tuples in a fixed order."""
    return values(arrow(table, **how))


def column(table: IcebergTable, name: str, *, by: str = "id", **how: Any) -> list[Any]:
    """The values of one column in the order of another."""
    found = arrow(table, columns=[by, name], **how)
    pairs = zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
    return [value for _, value in sorted(pairs, key=lambda pair: repr(pair[0]))]


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples in a fixed order; what Python has no type for is an int, NaN is the text `nan`."""
    if table.num_rows == 0:
        return []
    columns = [[_plain(v) for v in _countable(c.combine_chunks()).to_pylist()] for c in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def bits(value: float) -> bytes:
    """A double by its bits, which tell -0.0 from 0.0."""
    return struct.pack(">d", value)


def _countable(array: pa.Array) -> pa.Array:
    """Dates and times at the top level as their ints, because Python's end at the year 9999."""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.view(pa.int32())
    return array.view(pa.int64()) if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) else array


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value
