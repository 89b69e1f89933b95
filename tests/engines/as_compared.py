"""Rows of two engines in comparable form, value by value."""

from typing import Any

import pyarrow as pa

import harness
from harness.engines.spark import engine
from harness.writing.iceberg.builder import IcebergTable


def comparable(rows: pa.Table) -> list[tuple[str, ...]]:
    """Return rows as sorted texts. -0.0 and NaN stay distinguishable, and dates and times are numbers."""
    if rows.num_columns == 0 or rows.num_rows == 0:  # pyarrow combines no empty extension columns
        return [()] * rows.num_rows
    columns = [[repr(value) for value in plain(column.combine_chunks())] for column in rows.columns]
    return sorted(zip(*columns, strict=True))


def plain(array: pa.Array) -> list[Any]:
    """Convert values to types that Python can hold, whatever their size."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_struct(kind):
        parts = [plain(part) for part in array.flatten()]
        return [tuple(p[i] for p in parts) if array[i].is_valid else None for i in range(len(array))]
    if pa.types.is_map(kind):
        keys, items = plain(array.keys), plain(array.items)
        return nested(array, lambda a, b: sorted(zip(keys[a:b], items[a:b], strict=True), key=repr))
    if pa.types.is_list(kind):
        values = plain(array.values)
        return nested(array, lambda a, b: values[a:b])
    return array.to_pylist()


def nested(array: pa.Array, part: Any) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return [part(offsets[i], offsets[i + 1]) if array[i].is_valid else None for i in range(len(array))]


def snapshot_of(table: IcebergTable) -> harness.Snapshot:
    return harness.open_table(table.location).snapshot()


def agreed(snapshot: harness.Snapshot, spark: Any, **how: Any) -> pa.Table:
    """Return the rows read by Spark, after asserting that DuckDB returns the same rows in the same types."""
    rows, other = engine.to_arrow(snapshot.plan(**how), spark), snapshot.to_arrow(**how)
    assert rows.schema == other.schema
    assert comparable(rows) == comparable(other)
    return rows
