"""Arrow data in types that DuckDB takes as they are.

DuckDB has no instants in nanoseconds, no durations, no dates in milliseconds and no halves: it would round or convert
them. They go in as the integers that they are, or as the next wider float; `harness.differ.hashing` is told what
they stand for. Encodings (dictionaries, run ends, views) are taken off, extension types too.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from harness.differ.forms import large
from harness.differ.schemas import is_hugeint
from harness.metadata.model.arrow_values import children_of, is_list, is_rebuilt, with_children

_INTEGERS = (pa.types.is_date64, pa.types.is_time64, pa.types.is_timestamp, pa.types.is_duration)


def storage_type(type_: pa.DataType) -> pa.DataType:
    """The type in which DuckDB gets values of `type_`.

    Raises:
        UnsupportedError: it has none.
    """
    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        if is_hugeint(type_):
            raise large(type_)
        return storage_type(pa.bool_() if type_.extension_name == "arrow.bool8" else type_.storage_type)
    if kind.is_dictionary(type_) or kind.is_run_end_encoded(type_):
        return storage_type(type_.value_type)
    if any(test(type_) for test in _INTEGERS):
        return pa.int64()
    if kind.is_time32(type_):
        return pa.int32()
    if kind.is_float16(type_):
        return pa.float32()
    if kind.is_large_string(type_) or kind.is_string_view(type_):
        return pa.string()
    if kind.is_large_binary(type_) or kind.is_binary_view(type_) or kind.is_fixed_size_binary(type_):
        return pa.binary()
    if kind.is_decimal(type_):
        return _decimal(type_)
    if kind.is_struct(type_):
        return pa.struct([pa.field(f.name, storage_type(f.type)) for f in type_])
    if kind.is_map(type_):
        return pa.map_(storage_type(type_.key_type), storage_type(type_.item_type))
    if is_list(type_):
        return pa.list_(pa.field("element", storage_type(type_.value_type)))
    if kind.is_union(type_) or kind.is_interval(type_):
        raise large(type_)
    return type_


def carried(rows: pa.Table) -> pa.Table:
    """The same rows in types that DuckDB takes.

    Raises:
        UnsupportedError: a column has none.
    """
    columns = [
        pa.chunked_array([_carried(chunk) for chunk in column.chunks], storage_type(column.type))
        for column in rows.columns
    ]
    return pa.table(columns, schema=pa.schema([(f"c{i}", column.type) for i, column in enumerate(columns)]))


def plain(type_: pa.DataType) -> pa.DataType:
    """The type in which values of `type_` are shown: the same values without their encoding."""
    kind = pa.types
    if kind.is_dictionary(type_) or kind.is_run_end_encoded(type_):
        return plain(type_.value_type)
    if isinstance(type_, pa.UuidType):
        return type_
    if isinstance(type_, pa.BaseExtensionType):
        return plain(pa.bool_() if type_.extension_name == "arrow.bool8" else type_.storage_type)
    if kind.is_struct(type_):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in type_])
    if kind.is_map(type_):
        return pa.map_(plain(type_.key_type), plain(type_.item_type))
    if is_list(type_):
        return pa.list_(pa.field("element", plain(type_.value_type)))
    if kind.is_large_string(type_) or kind.is_string_view(type_):
        return pa.string()
    if kind.is_large_binary(type_) or kind.is_binary_view(type_):
        return pa.binary()
    return type_


def _decimal(type_: pa.DataType) -> pa.DataType:
    scale = max(type_.scale, 0)
    precision = type_.precision - min(type_.scale, 0)
    if precision > 38:
        raise large(type_)
    return pa.decimal128(precision, scale)


def _carried(array: pa.Array) -> pa.Array:
    type_, wanted, kind = array.type, storage_type(array.type), pa.types
    if type_.equals(wanted):
        return array
    if isinstance(type_, pa.BaseExtensionType):
        storage = array.storage
        return _carried(storage.cast(pa.bool_()) if type_.extension_name == "arrow.bool8" else storage)
    if kind.is_dictionary(type_):
        return _carried(array.dictionary_decode())
    if kind.is_run_end_encoded(type_):
        return _carried(pc.run_end_decode(array))
    if is_rebuilt(wanted):
        return with_children(array, [_carried(child) for child in children_of(array)], wanted)
    return array.cast(wanted)
