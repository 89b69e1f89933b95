"""DuckDB's Arrow output in the plan's exact types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the names and types of `schema`, column by column in order.

    DuckDB's lossless Arrow output has its own booleans (bytes) and UUIDs (an extension type); both are unwrapped at any
    level. Nothing is rounded: a value that does not fit raises pyarrow.ArrowInvalid.
    """
    columns = [
        pa.chunked_array([_conform(chunk, f.type) for chunk in column.chunks], f.type)
        for column, f in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _conform(array.storage, wanted)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, _conform(array, wanted.storage_type))
    if pa.types.is_boolean(wanted) and pa.types.is_int8(array.type):
        return array.cast(pa.bool_())
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp(array.type.unit)).cast(pa.timestamp(wanted.unit)).cast(wanted) if (
            array.type.tz is None or wanted.tz is None
        ) else array.cast(wanted)
    if pa.types.is_struct(wanted):
        parts = [_conform(array.field(i), wanted.field(i).type) for i in range(wanted.num_fields)]
        fields = [wanted.field(i).with_nullable(True) for i in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=pc.is_null(array)).cast(wanted)
    if pa.types.is_map(wanted):
        keys, items = _conform(array.keys, wanted.key_type), _conform(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=_mask(array)).cast(wanted)
    if pa.types.is_list(wanted):
        values = _conform(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, mask=_mask(array)).cast(wanted)
    return array.cast(wanted)


def _mask(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None
