"""Files that reach DuckDB through Arrow: Avro, ORC, and the Parquet files that DuckDB would not read right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.engines.duckdb.footers import FileName, check_file
from harness.errors import CorruptFileError, HarnessError, UnsupportedError
from harness.files.avro import read_avro
from harness.files.orc import read_orc
from harness.files.variant import variant_to_json
from harness.projection import PhysicalField, PhysicalSchema, Source, Stored
from harness.schema import Field, TimestampType, VariantType, children
from harness.storage import Storage

_VIRTUAL_COLUMNS = frozenset({"file_index", "file_row_number", "filename"})
_OLD_DUCKDB = int(duckdb.__version__.split(".")[0]) < 2


def needs_arrow(schema: PhysicalSchema, fields: Sequence[Field], sources: Sequence[Source]) -> bool:
    """Whether DuckDB's own Parquet reader would give something else than the file's rows.

    - A column named like one of the reader's virtual columns hides it, and with it positions (delta E2).
    - A variant column is read as its encoded parts, and decoded by harness (iceberg 6.15).
    - DuckDB before 2.0 reads instants in nanoseconds as micros.
    """
    if any(f.name.lower() in _VIRTUAL_COLUMNS for f in schema):
        return True
    if any(variants(fields, sources)):
        return True
    return _OLD_DUCKDB and any(TimestampType("ns", utc=True) == f.type for f in _used(sources))


def variants(fields: Sequence[Field], sources: Sequence[Source]) -> Iterable[tuple[int, ...]]:
    """The stored columns, at any level, that the table reads as variant: their places from the top level down."""
    for target, source in zip(fields, sources, strict=True):
        if not isinstance(source, Stored):
            continue
        if isinstance(target.type, VariantType):
            yield (source.place,)
        else:
            yield from ((source.place, *inner) for inner in variants(children(target.type), source.parts))


def load(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, pa.Table]:
    """All rows of an Avro or ORC file in physical order, and its physical schema.

    Raises:
        UnsupportedError: another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError: naming the file.
    """
    if file_format not in ("avro", "orc"):
        raise UnsupportedError(
            f"Cannot read file: its format {file_format!r} is not supported",
            cause="UnsupportedFormat",
            table=table,
            file=str(file),
            rule="iceberg 7.5",
        )
    check_file(file, storage, table=table)
    try:
        data = storage.read(file.physical)
        return read_avro(data, file=str(file)) if file_format == "avro" else read_orc(data, file=str(file))
    except HarnessError as error:
        raise error.within(table=table) from error.__cause__


def load_parquet(
    file: FileName,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[Source],
    storage: Storage,
    *,
    table: str,
) -> pa.Table:
    """All rows of a Parquet file in physical order; variant columns become JSON text.

    Raises:
        CorruptFileError: the file or a variant value cannot be decoded.
    """
    try:
        rows = pq.read_table(
            pa.BufferReader(storage.read(file.physical)),
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
        )
        encoded = set(variants(fields, sources))
        columns = [_decode(rows.column(i).combine_chunks(), (i,), encoded) for i in range(len(schema))]
        return pa.table(columns, names=[str(i) for i in range(len(columns))])
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"Cannot read file: {error}", cause="CorruptDataFile", table=table, file=str(file)
        ) from error
    except HarnessError as error:
        raise error.within(table=table, file=str(file)) from error.__cause__


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


def _decode(array: pa.Array, place: tuple[int, ...], encoded: set[tuple[int, ...]]) -> pa.Array:
    """`array` with the variant columns in it, at any level, turned into JSON text."""
    if place in encoded:
        return variant_to_json(array)
    if not any(path[: len(place)] == place for path in encoded):
        return array
    if pa.types.is_struct(array.type):
        arrays = [_decode(array.field(i), (*place, i), encoded) for i in range(array.type.num_fields)]
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(arrays, names=names, mask=pc.is_null(array))
    if pa.types.is_map(array.type):
        keys, items = _decode(array.keys, (*place, 0), encoded), _decode(array.items, (*place, 1), encoded)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=pc.is_null(array))
    return pa.ListArray.from_arrays(array.offsets, _decode(array.values, (*place, 0), encoded), mask=pc.is_null(array))
