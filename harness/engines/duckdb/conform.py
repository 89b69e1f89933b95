"""DuckDB's Arrow output in the plan's exact types."""

from __future__ import annotations

import pyarrow as pa

from harness.model.arrow_rebuild import child_types, children_of, is_rebuilt, nullable, with_children


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the names of `schema` and its types as `conformed` has them, column by column in order.

    DuckDB's lossless Arrow output has its own booleans (bytes) and UUIDs (an extension type); both are unwrapped at any
    level. Nothing is rounded: a value that does not fit raises pyarrow.ArrowInvalid.
    """
    loose = conformed(schema)
    columns = [
        pa.chunked_array([_conform(chunk, f.type) for chunk in column.chunks], f.type)
        for column, f in zip(rows.columns, loose, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=loose)


def conformed(schema: pa.Schema) -> pa.Schema:
    """`schema` with fields that may all be null, at every level.

    Tables hold nulls in required columns (iceberg 5.13), and Arrow wants a value even where a parent is null.
    """
    return pa.schema([f.with_type(nullable(f.type)).with_nullable(True) for f in schema])


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch as `conform` gives its rows; `schema`: from `conformed`. Without fields, rows are still counted."""
    if not len(schema):
        return batch.select([])
    columns = [_conform(column, f.type) for column, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if pa.types.is_null(wanted) and array.null_count == len(array):
        return pa.nulls(len(array))  # DuckDB 1.5 hands out nulls without a type as int32, which no cast undoes
    if isinstance(array.type, pa.BaseExtensionType):
        return _conform(array.storage, wanted)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, _conform(array, wanted.storage_type))
    if pa.types.is_boolean(wanted) and pa.types.is_int8(array.type):
        return array.cast(pa.bool_())
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        if array.type.tz is not None and wanted.tz is not None:
            return array.cast(wanted)
        return array.cast(pa.timestamp(array.type.unit)).cast(pa.timestamp(wanted.unit)).cast(wanted)
    if is_rebuilt(wanted):
        pairs = zip(children_of(array), child_types(wanted), strict=True)
        return with_children(array, [_conform(child, type_) for child, type_ in pairs], wanted)
    return array.cast(wanted)
