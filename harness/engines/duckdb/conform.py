"""DuckDB's Arrow output in the plan's exact types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from harness.model.arrow_rebuild import offsets_of


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the names and types of `schema`, column by column in order.

    DuckDB's lossless Arrow output has its own booleans (bytes) and UUIDs (an extension type); both are unwrapped at any
    level. Nothing is rounded: a value that does not fit raises pyarrow.ArrowInvalid. Every field may be null, at every
    level: tables hold nulls in required columns (iceberg 5.13), and Arrow wants a value even where a parent is null.
    """
    loose = pa.schema([f.with_type(_nullable(f.type)).with_nullable(True) for f in schema])
    columns = [
        pa.chunked_array([_conform(chunk, f.type) for chunk in column.chunks], f.type)
        for column, f in zip(rows.columns, loose, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=loose)


def _nullable(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _nullable(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_nullable(type_.key_type), _nullable(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", _nullable(type_.value_type)))
    return type_


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
    if pa.types.is_struct(wanted):
        parts = [_conform(array.field(i), wanted.field(i).type) for i in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=_mask(array))
    if pa.types.is_map(wanted):
        keys, items = _conform(array.keys, wanted.key_type), _conform(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(offsets_of(array), keys, items, type=wanted, mask=_mask(array))
    if pa.types.is_list(wanted):
        values = _conform(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(offsets_of(array), values, type=wanted, mask=_mask(array))
    return array.cast(wanted)


def _mask(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None
