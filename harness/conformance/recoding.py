"""Columns of other engines in the types of the expected ones, where Arrow has several ways to hold a value.

    uuid                           as text, in any case, also in maps, lists and structs
    map                            as a list of structs of a key and a value

Anything else is left as it is: `harness.differ` compares by value what can be compared, and says what cannot.
"""

from __future__ import annotations

import uuid

import pyarrow as pa

from harness.differ.schemas import is_list, normal_type


def recoded(table: pa.Table, wanted: pa.Schema) -> tuple[pa.Table, tuple[str, ...]]:
    """The table, and a note for each column that changed."""
    notes = []
    for number, field in enumerate(table.schema):
        if wanted.get_field_index(field.name) < 0 or table.schema.get_field_index(field.name) < 0:
            continue
        column = table.column(number)
        chunks = column.chunks or [pa.array([], column.type)]
        changed = pa.chunked_array([_array(chunk, wanted.field(field.name).type) for chunk in chunks])
        if not changed.type.equals(column.type):
            notes.append(f"{field.name} is {column.type}, read as {changed.type}")
            table = table.set_column(number, field.with_type(changed.type), changed)
    return table, tuple(notes)


def _array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    kind, type_ = pa.types, array.type
    if isinstance(wanted, pa.UuidType) and kind.is_string(normal_type(type_)):
        return _uuids(array, wanted)
    if kind.is_map(wanted) and kind.is_map(type_):
        plain = _plain(array, type_)
        changed = _map(plain, plain.keys, plain.items, wanted)
        return array if changed is plain else changed
    if kind.is_map(wanted) and is_list(type_) and _is_entry(type_.value_type):
        plain = _list(array)
        return _map(plain, plain.values.field(0), plain.values.field(1), wanted)
    if kind.is_struct(wanted) and kind.is_struct(type_):
        return _struct(array, wanted)
    if is_list(wanted) and is_list(type_):
        plain = _list(array)
        values = _array(plain.values, wanted.value_type)
        return array if values is plain.values else pa.ListArray.from_arrays(plain.offsets, values, mask=_nulls(plain))
    return array


def _list(array: pa.Array) -> pa.ListArray:
    """A list of any layout in the plain one, without an offset and without values that no row shows."""
    return _plain(array, pa.list_(array.type.value_field))


def _plain(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same rows in a type, but views, without an offset and without entries that no row shows."""
    plain = array.cast(_without_views(type_))  # Arrow cannot take views
    return plain.take(pa.array(range(len(plain)), pa.int64()))


def _without_views(type_: pa.DataType) -> pa.DataType:
    kind = pa.types
    if kind.is_string_view(type_):
        return pa.string()
    if kind.is_binary_view(type_):
        return pa.binary()
    if is_list(type_):
        return pa.list_(type_.value_field.with_type(_without_views(type_.value_type)))
    if kind.is_map(type_):
        return pa.map_(_without_views(type_.key_type), type_.item_field.with_type(_without_views(type_.item_type)))
    if kind.is_struct(type_):
        return pa.struct([field.with_type(_without_views(field.type)) for field in type_])
    return type_


def _uuids(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    texts = array.to_pylist()
    try:
        values = [None if text is None else uuid.UUID(text).bytes for text in texts]
    except ValueError:
        return array  # not the text of a UUID: the comparison will show it
    return pa.ExtensionArray.from_storage(wanted, pa.array(values, pa.binary(16)))


def _is_entry(type_: pa.DataType) -> bool:
    return bool(pa.types.is_struct(type_)) and type_.num_fields == 2


def _map(array: pa.Array, keys: pa.Array, items: pa.Array, wanted: pa.DataType) -> pa.Array:
    if keys.null_count:
        return array  # no map has such a key
    keys, items = _array(keys, wanted.key_type), _array(items, wanted.item_type)
    if pa.types.is_map(array.type) and array.type.key_type == keys.type and array.type.item_type == items.type:
        return array
    return pa.MapArray.from_arrays(array.offsets, keys, items, mask=_nulls(array))


def _struct(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    parts, fields = [], []
    for field, part in zip(array.type, array.flatten(), strict=True):
        place = wanted.get_field_index(field.name)
        changed = part if place < 0 else _array(part, wanted.field(place).type)
        parts.append(changed)
        fields.append(field.with_type(changed.type))
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
