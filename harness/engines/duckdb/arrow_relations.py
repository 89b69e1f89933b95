"""Which files DuckDB gets through Arrow, and the tables that it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import duckdb
import pyarrow as pa

from harness.engines.shared.arrow_files import geometries, variants
from harness.engines.shared.file_groups import FileGroup
from harness.model.schema import BinaryType, Field, TimestampType
from harness.plan.projection import ColumnSource, PhysicalField, Stored

_VIRTUAL_COLUMNS = frozenset({"file_index", "file_row_number", "filename"})
_LISTED_ROWS = 10_000
_OLD_DUCKDB = int(duckdb.__version__.split(".")[0]) < 2


def needs_arrow(group: FileGroup, fields: Sequence[Field]) -> bool:
    """Whether DuckDB's own Parquet reader would give something else than the file's rows.

    - A column named like one of the reader's virtual columns hides it, and with it positions (delta E2).
    - A variant column is read as its encoded parts, and decoded by harness (iceberg 6.15).
    - DuckDB before 2.0 reads instants in nanoseconds as micros, and lets bytes pass that are no WKB (frontier F1.7).
    - On a user's connection, binary columns may be converted to geometries and back (frontier F0.2).
    """
    if any(f.name.lower() in _VIRTUAL_COLUMNS for f in group.schema):
        return True
    if any(variants(fields, group.sources)):
        return True
    if group.converted and any(BinaryType() == f.type for f in _used(group.sources)):
        return True
    if _OLD_DUCKDB and any(geometries(fields, group.sources)):
        return True
    return _OLD_DUCKDB and any(TimestampType("ns", utc=True) == f.type for f in _used(group.sources))


def stack(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables one after another, columns renamed by place, with `file_index` and `file_row_number`."""
    stacked = []
    for index, rows in enumerate(tables):
        fields = [pa.field(f"p{i}", _without_zoned_nanos(f.type)) for i, f in enumerate(rows.schema)]
        renamed = rows.rename_columns([f.name for f in fields]).cast(pa.schema(fields))
        renamed = renamed.append_column("file_index", pa.array([index] * rows.num_rows, pa.uint64()))
        stacked.append(renamed.append_column("file_row_number", pa.array(range(rows.num_rows), pa.int64())))
    return pa.concat_tables(stacked)


def counted(rows: Sequence[int], register: Callable[[pa.Table], str]) -> str:
    """The FROM item of files without columns, that have so many rows: `file_index` and `file_row_number`.

    Rows are made as they are read, since a small file may say that it has any number of them. A arm per file costs
    planning (a second for 1,000), a list per file memory: files with many rows are arms.
    """
    few = [(i, count) for i, count in enumerate(rows) if count <= _LISTED_ROWS]
    arms = [
        f"SELECT CAST({i} AS UBIGINT) AS file_index, range AS file_row_number FROM range({count})"
        for i, count in enumerate(rows)
        if count > _LISTED_ROWS
    ]
    if few:
        indexes, counts = zip(*few, strict=True)
        name = register(pa.table({"i": pa.array(indexes, pa.uint64()), "n": pa.array(counts, pa.int64())}))
        arms.append(f"SELECT i AS file_index, unnest(range(n)) AS file_row_number FROM {name}")
    return f"({' UNION ALL '.join(arms)})"


def _without_zoned_nanos(type_: pa.DataType) -> pa.DataType:
    """The type with instants in nanoseconds as readings in UTC, which every DuckDB takes as they are."""
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("ns")
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_without_zoned_nanos(f.type)) for f in type_])
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(*(f.with_type(_without_zoned_nanos(f.type)) for f in (key, item)))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_without_zoned_nanos(type_.value_type)))
    return type_


def _used(sources: Iterable[ColumnSource]) -> Iterable[PhysicalField]:
    for source in sources:
        if isinstance(source, Stored):
            yield source.physical
            yield from _used(source.parts)
