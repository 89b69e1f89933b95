"""Conversions between Python values, NumPy arrays, and Arrow arrays, without importing pandas.

If pandas is installed, pyarrow imports it for the first value that `pa.array`, `pa.scalar`, or `to_numpy` converts,
which costs 0.2 s in every process. This module therefore builds the values that every read of a table needs from
buffers. All other types are passed to `pa.array`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.model.schema import CellValue, unscaled

Mask: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = npt.NDArray[np.int64]
"""Indices of rows or entries, offsets in bytes, or other whole numbers."""

_KINDS: dict[pa.DataType, tuple[type, type[np.generic]]] = {
    pa.bool_(): (bool, np.bool_),
    pa.int8(): (int, np.int8),
    pa.int32(): (int, np.int32),
    pa.int64(): (int, np.int64),
    pa.uint64(): (int, np.uint64),
    pa.float32(): (float, np.float32),
    pa.float64(): (float, np.float64),
}
_TEXTS = pa.map_(pa.string(), pa.string())
_OFFSETS: dict[pa.DataType, type[np.integer[Any]]] = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_binary(): np.int64,
}
"""The types of texts and bytes, with the types of their offsets."""


def array_of(values: Sequence[CellValue], type_: pa.DataType) -> pa.Array:
    """Return values as an array of a type, without importing pandas.

    Args:
        values: Python values, or None for null: str, bytes, bool, int, float, Decimal, or lists of pairs of strings for
            maps.
        type_: Any Arrow type. pyarrow, which imports pandas, converts the types that are not built from buffers here.

    Raises:
        OverflowError, UnicodeError, TypeError, ValueError, pa.ArrowException: A value does not fit the type.
    """
    if type_ in _OFFSETS or pa.types.is_fixed_size_binary(type_):
        return _texts(values, type_)
    if type_ in _KINDS:
        python, kind = _KINDS[type_]
        missing = _missing(values, python)
        present = values if missing is None else [0 if value is None else value for value in values]
        return from_numpy(np.fromiter(present, kind, len(values)), missing=missing)
    if pa.types.is_decimal128(type_) or pa.types.is_decimal256(type_):
        return _decimals(values, type_)
    return _maps(values) if type_ == _TEXTS else pa.array(values, type_)


CONVERSION_ERRORS = (OverflowError, UnicodeError, TypeError, ValueError, pa.ArrowException)
"""The errors of `array_of` for a value that does not fit the type."""


def _decimals(values: Sequence[CellValue], type_: pa.DataType) -> pa.Array:
    missing = _missing(values, Decimal)
    # A power of ten with an exponent of nine digits does not fit into memory.
    if any(abs(value.adjusted()) > type_.precision for value in values if value):
        raise OverflowError(f"a value has more digits than {type_}")
    numbers = [unscaled(value, type_.scale) if value else 0 for value in values]
    if any(abs(number) >= 10**type_.precision for number in numbers):
        raise OverflowError(f"a value has more digits than {type_}")
    data = b"".join(number.to_bytes(type_.byte_width, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(type_, len(values), [_validity(missing), pa.py_buffer(data)])


def _texts(values: Sequence[CellValue], type_: pa.DataType) -> pa.Array:
    """Return strings or bytes as an array."""
    sizes: Iterable[int]
    if pa.types.is_fixed_size_binary(type_):
        width = type_.byte_width
        missing = _missing(values, bytes)
        if any(len(value) != width for value in values if value is not None):
            raise pa.ArrowInvalid(f"expected {width} bytes in every value")
        data = b"".join(bytes(width) if value is None else value for value in values)
        return pa.Array.from_buffers(type_, len(values), [_validity(missing), pa.py_buffer(data)])
    if type_ != pa.string():
        missing = _missing(values, bytes)
        pieces = [value or b"" for value in values]
        data, sizes = b"".join(pieces), map(len, pieces)
    else:
        missing = _missing(values, str)
        texts = [value or "" for value in values]
        text = "".join(texts)
        data = text.encode()
        sizes = map(len, texts) if len(text) == len(data) else (len(value.encode()) for value in texts)
    kind = _OFFSETS[type_]
    if len(data) > np.iinfo(kind).max:
        return pa.array(values, type_)
    buffers = [_validity(missing), pa.py_buffer(_offsets(sizes, len(values), kind)), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, len(values), buffers)


def _maps(values: Sequence[Sequence[tuple[str, str | None]] | None]) -> pa.Array:
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    present = [value or () for value in values]
    keys, texts = (array_of([pair[i] for pair in chain.from_iterable(present)], pa.string()) for i in (0, 1))
    if keys.null_count:  # pyarrow would end the process
        raise ValueError("a key of a map is null")
    entries = pa.StructArray.from_arrays([keys, texts], fields=[_TEXTS.key_field, _TEXTS.item_field])
    offsets = _offsets(map(len, present), len(present))
    return pa.Array.from_buffers(_TEXTS, len(values), [_validity(missing), pa.py_buffer(offsets)], children=[entries])


def _missing(values: Sequence[Any], python: type) -> npt.NDArray[np.bool_] | None:
    """Return which values are None, or None if no value is."""
    kinds = set(map(type, values))
    if not kinds <= {python, NoneType}:
        raise TypeError(f"expected {python.__name__}, got {', '.join(sorted(kind.__name__ for kind in kinds))}")
    if NoneType not in kinds:
        return None
    return np.fromiter((value is None for value in values), np.bool_, len(values))


def _offsets(sizes: Iterable[int], count: int, kind: type[np.integer[Any]] = np.int32) -> npt.NDArray[np.integer[Any]]:
    offsets = np.zeros(count + 1, kind)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=offsets[1:], dtype=kind)
    return offsets


def scalar_of(value: object, type_: pa.DataType) -> pa.Scalar:
    """Return a value as a scalar of a type. Types and errors are as for `array_of`."""
    return array_of([value], type_)[0]


def from_numpy(values: npt.NDArray[Any], *, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers or Booleans as an array, with null for the entries that `missing` marks."""
    validity = None if missing is None else _validity(missing)
    if values.dtype == np.bool_:
        data, type_ = np.packbits(values, bitorder="little"), pa.bool_()
    else:
        data, type_ = np.ascontiguousarray(values), pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(data)])


def to_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return integers or Booleans without nulls as a NumPy array, which may be read-only."""
    if values.null_count:
        raise ValueError(f"{values.null_count} of the values are null")
    array = combine_chunks(values) if isinstance(values, pa.ChunkedArray) else values
    if not len(array):
        return np.zeros(0, np.bool_ if array.type == pa.bool_() else array.type.to_pandas_dtype())
    data, start = array.buffers()[1], array.offset
    if array.type == pa.bool_():
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=start + len(array), bitorder="little")
        return bits[start:].astype(np.bool_)
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(data, kind, count=len(array), offset=start * kind.itemsize)


def true_mask(values: pa.Array) -> Mask:
    """Return a mask of the Booleans that are true, neither false nor null."""
    mask: Mask = to_numpy(pc.fill_null(values, scalar_of(False, pa.bool_())) if values.null_count else values)
    return mask


def null_where(values: pa.Array, where: Mask) -> pa.Array:
    """Return the values with null at the true entries of the mask."""
    return pc.if_else(from_numpy(where), pa.nulls(1, values.type)[0], values) if where.any() else values


def combine_chunks(values: pa.ChunkedArray) -> pa.Array:
    """Return all chunks as one array. pyarrow's own method imports pandas if there are no chunks."""
    return values.combine_chunks() if values.num_chunks else pa.nulls(0, values.type)


def to_list(values: Sequence[object] | pa.Array) -> Sequence[CellValue]:
    """Return Python values: `values` itself, or the values of an Arrow array."""
    return values.to_pylist() if isinstance(values, pa.Array) else values


def text_bytes(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the concatenated bytes of strings or binary values, and the offset of each value.

    The offsets are followed by the end of the last value. Bytes under null values, if any, are included.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1].astype(np.int64)
    data = texts.buffers()[2]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return content, offsets - offsets[0]


def distinct_values(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct numbers, ascending.

    Without further arguments, `np.unique` would import NumPy's masked arrays.
    """
    numbers: npt.NDArray[Any] = np.unique(values, return_counts=True)[0]
    return numbers


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _validity(missing: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))


# The following functions take nested arrays apart and rebuild them with other children. `children_of` returns only the
# values that rows show, and `with_children` replaces them by as many other values. A conversion therefore neither fails
# at hidden values nor spends time on them. Children share the memory of the array, unless null lists or maps have
# entries. Extension types, dictionaries, and run ends must be removed before.


def can_rebuild(type_: pa.DataType) -> bool:
    """Return whether `with_children` can build arrays of a type: structs, maps, and lists with offsets."""
    return bool(pa.types.is_struct(type_)) or _has_offsets(type_)


def child_types(type_: pa.DataType) -> list[pa.DataType]:
    """Return the types of struct fields, of map keys and values, or of list elements."""
    if pa.types.is_struct(type_):
        return [field.type for field in type_]
    if pa.types.is_map(type_):
        return [type_.key_type, type_.item_type]
    return [type_.value_type]


def nested_type(type_: pa.DataType, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type with other child types. Lists get offsets, and entries may be null."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(other) for field, other in zip(type_, types, strict=True)])
    if pa.types.is_map(type_):
        return pa.map_(*types)
    return pa.large_list(*types) if pa.types.is_large_list(type_) else pa.list_(*types)


_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
_WITHOUT_VIEW = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def is_list(type_: pa.DataType) -> bool:
    """Return whether a type is a list, in any layout."""
    return isinstance(type_, _LISTS)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return a type in the layout that every Arrow function supports.

    It has no views or dictionaries, and its lists have offsets.

    Parquet files do not store a layout, but may name the layout that their writer used, and pyarrow then returns it.
    """
    match type_:
        case pa.DictionaryType():
            return plain_type(type_.value_type)
        case pa.MapType():
            key, item = (field.with_type(plain_type(field.type)) for field in (type_.key_field, type_.item_field))
            return pa.map_(key, item, type_.keys_sorted)
        case pa.StructType():
            return pa.struct([field.with_type(plain_type(field.type)) for field in type_])
        case _ if is_list(type_):
            return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)))
        case _:
            return _WITHOUT_VIEW.get(type_, type_)


def to_plain(array: pa.Array) -> pa.Array:
    """Return the values in the layout of `plain_type`."""
    type_ = plain_type(array.type)
    return array if type_ == array.type else array.cast(type_)


def nullable_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with every field nullable at every level, except for the keys of maps."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, nullable_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(nullable_type(type_.key_type), nullable_type(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", nullable_type(type_.value_type)))
    return type_


def children_of(array: pa.Array) -> list[pa.Array]:
    """Return the children that rows show: fields of structs, keys and values of maps, elements of lists."""
    if pa.types.is_struct(array.type):
        return list(array.flatten())  # unlike field(), this applies the nulls of the struct itself
    if pa.types.is_map(array.type):
        return list(elements_of(entry_lists(array)).flatten())
    return [elements_of(array)]


def with_children(array: pa.Array, children: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Return the rows of `array` as `type_`, with other children.

    Lists in every layout become lists with offsets. Lists whose elements were taken apart become maps.

    Args:
        array: The rows.
        children: As many values as `children_of(array)` returns, with the types of `child_types(type_)`.
        type_: A type that `can_rebuild` accepts.

    Raises:
        pa.ArrowException: A child has another type, or a key is null.
    """
    if pa.types.is_struct(type_):
        validity = pc.is_valid(array).buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(type_, len(array), [validity], children=list(children))
    offsets = _packed_offsets(array, len(children[0]))
    mask = pc.is_null(array) if array.null_count else None
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(offsets, *children, type=type_, mask=mask)
    if pa.types.is_large_list(type_):
        return pa.LargeListArray.from_arrays(offsets, *children, type=type_, mask=mask)
    return pa.ListArray.from_arrays(offsets, *children, type=type_, mask=mask)


def field_at(array: pa.Array, path: Sequence[str]) -> pa.Array | None:
    """Return the field at a path of structs, or None if there is no such field.

    The field is null in rows with a null struct on the path.
    """
    for name in path:
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if index < 0:
            return None
        array = pc.struct_field(array, index)
    return array


def elements_of(array: pa.Array) -> pa.Array:
    """Return the elements of the lists that are not null, in order, also for a slice of a larger array."""
    if _has_offsets(array.type):
        filled = pc.not_equal(array.offsets[1:], array.offsets[:-1]) if array.null_count else None
        hides_entries = filled is not None and pc.any(pc.and_not(filled, pc.is_valid(array))).as_py()
        if not hides_entries:
            first, stop = _span(array)
            return array.values.slice(first, stop - first)
    if not pc.sum(pc.list_value_length(array)).as_py():
        return array.values[:0]  # Arrow 26 cannot build empty arrays of extension types inside of structs and lists
    return array.flatten()


def offsets_of(array: pa.Array) -> pa.Array:
    """Return the offsets of a list or map array into all its entries, one more than it has rows.

    In Arrow's format, an array without rows need not have offsets, and Spark's arrays have none. pyarrow would return
    whatever follows the buffer in memory.
    """
    if len(array):
        return array.offsets
    return from_numpy(np.zeros(1, np.int64 if pa.types.is_large_list(array.type) else np.int32))


def _has_offsets(type_: pa.DataType) -> bool:
    kind = pa.types
    return bool(kind.is_list(type_) or kind.is_large_list(type_) or kind.is_map(type_))


def _span(array: pa.Array) -> tuple[int, int]:
    """Return the index of the first entry of an array with offsets, and the index after the last entry."""
    offsets = offsets_of(array)
    return offsets[0].as_py(), offsets[-1].as_py()


def entry_lists(array: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of structs, sharing memory."""
    entries, buffers = array.values, array.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(entries.type), len(array), buffers, offset=array.offset, children=[entries])


def _packed_offsets(array: pa.Array, count: int) -> pa.Array:
    """Return the offsets of the rows in the `count` entries that belong to them. Unused entries do not count."""
    if _has_offsets(array.type):
        offsets, (first, stop) = offsets_of(array), _span(array)
        if stop - first == count:
            return pc.subtract(offsets, offsets[0]) if first or offsets.offset else offsets
    lists = entry_lists(array) if pa.types.is_map(array.type) else array
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    offsets = pc.cumulative_sum(pa.concat_arrays([from_numpy(np.zeros(1, np.int64)), lengths]))
    if offsets[-1].as_py() != count:
        raise pa.ArrowInvalid(f"{count} entries for lists of {offsets[-1].as_py()}")
    return offsets


Hashes = npt.NDArray[np.uint64]

_SLICE_ROWS = 1 << 14
"""Rows hashed at a time, so that they stay in the processor's cache."""
_WORD = 8
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_BELOW = np.array([(1 << 8 * count) - 1 for count in range(_WORD)] + [2**64 - 1], dtype=np.uint64)
"""Masks of the first bytes of a little-endian word, by the number of bytes."""


def first_repeated(texts: pa.ChunkedArray) -> str | None:
    """Return a text that occurs more than once, or None if all texts differ.

    Hashes of the texts are compared, because they take a tenth of the memory.

    Args:
        texts: Strings without nulls.
    """
    slices = ((chunk, start) for chunk in texts.chunks for start in range(0, len(chunk), _SLICE_ROWS))
    parts = [_hashes(chunk.slice(start, _SLICE_ROWS)) for chunk, start in slices]
    hashes = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return None
    # Different texts may have the same hash.
    counts = pc.value_counts(texts.filter(pa.chunked_array([from_numpy(np.isin(hashes, twice))])))
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), scalar_of(1, pa.int64())))
    return str(repeated[0]) if len(repeated) else None


def _hashes(texts: pa.Array) -> Hashes:
    """Return a hash of each text."""
    data, offsets = text_bytes(texts)
    padded = data.tobytes() + bytes(_WORD)
    words = np.ndarray((len(padded) - _WORD + 1,), np.dtype("<u8"), padded, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes: Hashes = lengths.astype(np.uint64)
    for place in range(0, int(lengths.max()) if len(lengths) else 0, _WORD):
        left = lengths - place
        if left.min() >= _WORD:
            hashes = _mix(hashes, words[starts + place])
            continue
        longer = np.flatnonzero(left > 0)
        word = words[starts[longer] + place] & _BELOW[np.minimum(left[longer], _WORD)]
        hashes[longer] = _mix(hashes[longer], word)
    return hashes


def _mix(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = (hashes ^ words) * _FACTOR
    return mixed ^ (mixed >> np.uint64(29))
