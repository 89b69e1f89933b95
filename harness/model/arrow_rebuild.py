"""Nested Arrow arrays taken apart and put together again with other children.

`children_of` gives what the rows of an array show, `with_children` puts the same number of other values in its place:

    def narrowed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
        if not is_rebuilt(wanted):
            return array.cast(wanted)
        pairs = zip(children_of(array), child_types(wanted), strict=True)
        return with_children(array, [narrowed(child, type_) for child, type_ in pairs], wanted)

Children hold nothing that no row shows: not what a slice leaves out, no entries of null lists and maps, and nulls where
a struct is null. Thus a change can neither fail at such a value nor pay for it. They share the memory of the array,
unless null lists or maps have entries. Extension types, dictionaries and run ends are not nested: take them off before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.arrow_values import from_numpy


def is_rebuilt(type_: pa.DataType) -> bool:
    """Whether `with_children` makes arrays of the type: structs, maps and the lists that have offsets."""
    return bool(pa.types.is_struct(type_)) or _has_offsets(type_)


def child_types(type_: pa.DataType) -> list[pa.DataType]:
    """The types of the fields of structs, of the keys and values of maps, of the elements of lists."""
    if pa.types.is_struct(type_):
        return [field.type for field in type_]
    if pa.types.is_map(type_):
        return [type_.key_type, type_.item_type]
    return [type_.value_type]


def nested_type(type_: pa.DataType, types: Sequence[pa.DataType]) -> pa.DataType:
    """The type with other types of its children; lists get offsets, and entries may be null."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(other) for field, other in zip(type_, types, strict=True)])
    if pa.types.is_map(type_):
        return pa.map_(*types)
    return pa.large_list(*types) if pa.types.is_large_list(type_) else pa.list_(*types)


def is_list(type_: pa.DataType) -> bool:
    """Tells whether values are lists, in any layout."""
    kind = pa.types
    return any(
        test(type_)
        for test in (
            kind.is_list,
            kind.is_large_list,
            kind.is_fixed_size_list,
            kind.is_list_view,
            kind.is_large_list_view,
        )
    )


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type in the layout that every function of Arrow takes: no views, no dictionaries, lists with offsets.

    A Parquet file stores no layout, but may name the one that its writer had, and pyarrow gives that one.
    """
    kind = pa.types
    if kind.is_string_view(type_):
        return pa.string()
    if kind.is_binary_view(type_):
        return pa.binary()
    if kind.is_dictionary(type_):
        return plain_type(type_.value_type)
    if is_list(type_):
        return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)))
    if kind.is_map(type_):
        key, item = (field.with_type(plain_type(field.type)) for field in (type_.key_field, type_.item_field))
        return pa.map_(key, item, type_.keys_sorted)
    if kind.is_struct(type_):
        return pa.struct([field.with_type(plain_type(field.type)) for field in type_])
    return type_


def plain(array: pa.Array) -> pa.Array:
    """The values in the layout of `plain_type`."""
    type_ = plain_type(array.type)
    return array if type_ == array.type else array.cast(type_)


def nullable(type_: pa.DataType) -> pa.DataType:
    """The type in which every field may be null, at every level, but the keys of maps."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, nullable(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(nullable(type_.key_type), nullable(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", nullable(type_.value_type)))
    return type_


def children_of(array: pa.Array) -> list[pa.Array]:
    """What the rows show: the fields of structs, the keys and values of maps, the elements of lists."""
    if pa.types.is_struct(array.type):
        return list(array.flatten())  # unlike field(), heeds the struct's own nulls
    if pa.types.is_map(array.type):
        return list(elements_of(_entry_lists(array)).flatten())
    return [elements_of(array)]


def with_children(array: pa.Array, children: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """The rows of `array` as `type_`, which has these children.

    children: as many values as those of `children_of(array)`, in the types of `child_types(type_)`. type_: as in
    `is_rebuilt`. Lists of every layout become such lists; lists whose elements are taken apart become maps.

    Raises:
        pa.ArrowException: a child has another type, or a key is null.
    """
    if pa.types.is_struct(type_):
        return pa.Array.from_buffers(type_, len(array), [_validity(array)], children=list(children))
    offsets = _packed_offsets(array, len(children[0]))
    mask = pc.is_null(array) if array.null_count else None
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(offsets, *children, type=type_, mask=mask)
    if pa.types.is_large_list(type_):
        return pa.LargeListArray.from_arrays(offsets, *children, type=type_, mask=mask)
    return pa.ListArray.from_arrays(offsets, *children, type=type_, mask=mask)


def elements_of(array: pa.Array) -> pa.Array:
    """The elements of the lists that are not null, in order, whatever slice of a larger array they are."""
    if _has_offsets(array.type) and not _hides_entries(array):
        first, stop = _span(array)
        return array.values.slice(first, stop - first)
    if not pc.sum(pc.list_value_length(array)).as_py():
        return array.values[:0]  # Arrow 26 has no builder of empty arrays for extension types below structs and lists
    return array.flatten()


def offsets_of(array: pa.Array) -> pa.Array:
    """The offsets of a list or map array into all its entries, one more than it has rows.

    An array without rows need not have any by Arrow's format, and Spark's have none; pyarrow would give what happens to
    lie behind the buffer.
    """
    if len(array):
        return array.offsets
    return from_numpy(np.zeros(1, np.int64 if pa.types.is_large_list(array.type) else np.int32))


def _has_offsets(type_: pa.DataType) -> bool:
    kind = pa.types
    return bool(kind.is_list(type_) or kind.is_large_list(type_) or kind.is_map(type_))


def _span(array: pa.Array) -> tuple[int, int]:
    """The first entry of an array with offsets, and the one behind its last."""
    offsets = offsets_of(array)
    return offsets[0].as_py(), offsets[-1].as_py()


def _hides_entries(array: pa.Array) -> bool:
    """Whether a null list or map has entries."""
    if not array.null_count:
        return False
    filled = pc.not_equal(array.offsets[1:], array.offsets[:-1])
    return bool(pc.any(pc.and_not(filled, pc.is_valid(array))).as_py())


def _entry_lists(array: pa.MapArray) -> pa.ListArray:
    """Maps as lists of structs, in the same memory."""
    entries, buffers = array.values, array.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(entries.type), len(array), buffers, offset=array.offset, children=[entries])


def _packed_offsets(array: pa.Array, count: int) -> pa.Array:
    """Where the rows begin and end in the `count` entries that they show."""
    if _has_offsets(array.type):
        offsets, (first, stop) = offsets_of(array), _span(array)
        if stop - first == count:
            return pc.subtract(offsets, offsets[0]) if first or offsets.offset else offsets
    lists = _entry_lists(array) if pa.types.is_map(array.type) else array
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int64()), lengths]))
    if offsets[-1].as_py() != count:
        raise pa.ArrowInvalid(f"{count} entries for lists of {offsets[-1].as_py()}")
    return offsets


def _validity(array: pa.Array) -> pa.Buffer | None:
    return pc.is_valid(array).buffers()[1] if array.null_count else None
