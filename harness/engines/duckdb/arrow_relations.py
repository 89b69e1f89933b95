"""Which files DuckDB gets through Arrow, and the tables that it gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import pyarrow as pa

from harness.engines.arrow_files import variants
from harness.projection import PhysicalField, PhysicalSchema, Source, Stored
from harness.schema import Field, TimestampType

_VIRTUAL_COLUMNS = frozenset({"file_index", "file_row_number", "filename"})
_OLD_DUCKDB = int(duckdb.__version__.split(".")[0]) < 2


def needs_arrow(schema: PhysicalSchema, fields: Sequence[Field], sources: Sequence[Source]) -> bool:
    """Whether DuckDB's own Parquet reader would give something else than the file's rows.

    - It refuses files without columns.
    - A column named like one of the reader's virtual columns hides it, and with it positions (delta E2).
    - A variant column is read as its encoded parts, and decoded by harness (iceberg 6.15).
    - DuckDB before 2.0 reads instants in nanoseconds as micros.
    """
    if not schema or any(f.name.lower() in _VIRTUAL_COLUMNS for f in schema):
        return True
    if any(variants(fields, sources)):
        return True
    return _OLD_DUCKDB and any(TimestampType("ns", utc=True) == f.type for f in _used(sources))


def stack(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables one after another, columns renamed by place, with `file_index` and `file_row_number`."""
    stacked = []
    for index, rows in enumerate(tables):
        fields = [pa.field(f"p{i}", _without_zoned_nanos(f.type)) for i, f in enumerate(rows.schema)]
        renamed = rows.rename_columns([f.name for f in fields]).cast(pa.schema(fields))
        renamed = renamed.append_column("file_index", pa.array([index] * rows.num_rows, pa.uint64()))
        stacked.append(renamed.append_column("file_row_number", pa.array(range(rows.num_rows), pa.int64())))
    return pa.concat_tables(stacked)


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


def _used(sources: Iterable[Source]) -> Iterable[PhysicalField]:
    for source in sources:
        if isinstance(source, Stored):
            yield source.physical
            yield from _used(source.parts)
