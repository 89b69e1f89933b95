"""Columns of other engines in the types of the expected ones, where Arrow has several ways to hold a value.

    uuid                           as text, in any case, also in maps, lists and structs
    map                            as a list of structs of a key and a value

Anything else is left as it is: `harness.differ` compares by value what can be compared, and says what cannot.
"""

from __future__ import annotations

import uuid

import pyarrow as pa

from harness.differ.schemas import normal_type
from harness.model.arrow_rebuild import children_of, elements_of, is_list, nested_type, plain, with_children


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
    if kind.is_map(wanted) and (kind.is_map(type_) or _holds_entries(type_)):
        return _map(array, wanted)
    if kind.is_struct(wanted) and kind.is_struct(type_):
        return _struct(array, wanted)
    if is_list(wanted) and is_list(type_):
        elements = _array(plain(elements_of(array)), wanted.value_type)
        return with_children(array, [elements], pa.list_(elements.type))
    return array


def _uuids(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    texts = array.to_pylist()
    try:
        values = [None if text is None else uuid.UUID(text).bytes for text in texts]
    except ValueError:
        return array  # not the text of a UUID: the comparison will show it
    return pa.ExtensionArray.from_storage(wanted, pa.array(values, pa.binary(16)))


def _holds_entries(type_: pa.DataType) -> bool:
    return is_list(type_) and bool(pa.types.is_struct(type_.value_type)) and type_.value_type.num_fields == 2


def _map(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    parts = children_of(array)
    keys, items = map(plain, parts if pa.types.is_map(array.type) else children_of(*parts))
    if keys.null_count:
        return array  # no map has such a key
    changed = [_array(keys, wanted.key_type), _array(items, wanted.item_type)]
    if pa.types.is_map(array.type) and [part.type for part in changed] == [keys.type, items.type]:
        return array
    return with_children(array, changed, pa.map_(*[part.type for part in changed]))


def _struct(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    places = [wanted.get_field_index(field.name) for field in array.type]
    parts = [
        part if place < 0 else _array(part, wanted.field(place).type)
        for part, place in zip(children_of(array), places, strict=True)
    ]
    return with_children(array, parts, nested_type(array.type, [part.type for part in parts]))
