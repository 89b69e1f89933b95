"""A hashable Python value per Arrow value, such that two values are equal when they mean the same.

    null                        None
    boolean, integer            bool, int
    decimal                     Decimal, equal by value whatever the scale; equal to an int of that value
    float                       float, exact at any width; NaN_TOKEN for every NaN; NEGATIVE_ZERO for -0.0
    string, JSON                bytes (UTF-8)
    binary, fixed, uuid, geo    bytes
    date, time, timestamp,      int, nanoseconds, of dates and timestamps since 1970-01-01; instants in UTC; no year is
      duration                    out of range
    interval                    (months, days, nanoseconds)
    struct                      tuple of the fields' values in the order of their names
    list                        tuple
    map                         tuple of (key, value), sorted

Only columns that `harness.diff.schemas` finds comparable may be compared: values say nothing of their types.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.diff.schemas import is_binary, is_hugeint, is_text, is_ticks, nanos
from harness.errors import UnsupportedError
from harness.metadata.model.arrow_values import children_of, elements_of, entry_lists, is_list

_T = TypeVar("_T")
CanonicalRow: TypeAlias = tuple[Hashable, ...]

NAN_TOKEN = "NaN"
NEGATIVE_ZERO = "-0.0"
"""Text, which no other canonical value is, so a token equals nothing but itself."""


def canonical_rows(table: pa.Table, columns: Sequence[str]) -> list[CanonicalRow]:
    """The rows of a table, in its order, as tuples of canonical values in the order of `columns`.

    Raises UnsupportedError: a column holds a type that has no canonical form, such as a union.
    """
    if not columns:
        return [()] * table.num_rows
    values = [canonical_values(table.column(name)) for name in columns]
    return list(zip(*values, strict=True))


def canonical_values(array: pa.Array | pa.ChunkedArray) -> list[Hashable]:
    """The canonical value of each entry. Raises UnsupportedError: as `canonical_rows`."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _values(chunk)]
    return _values(array)


def order_key(value: Hashable) -> tuple[object, ...]:
    """A key to sort canonical values of a column, or rows of them: nulls first, -0.0 below 0.0, NaN last."""
    match value:
        case None:
            return (0,)
        case "NaN":
            return (2,)
        case "-0.0":
            return (1, 0.0, -1)
        case bool() | int() | float() | Decimal():
            return (1, value, 0)
        case bytes():
            return (3, value)
        case tuple():
            return (4, tuple(map(order_key, value)))
        case other:
            raise AssertionError(f"no canonical value is a {type(other).__name__}")


def decode_array(array: pa.Array) -> pa.Array:
    """The same values without an encoding, or an extension of Arrow's for booleans."""
    if pa.types.is_dictionary(array.type):
        return decode_array(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return decode_array(pc.run_end_decode(array))
    is_bool8 = isinstance(array.type, pa.BaseExtensionType) and array.type.extension_name == "arrow.bool8"
    return array.storage.cast(pa.bool_()) if is_bool8 else array


def _values(array: pa.Array) -> list[object]:
    array = decode_array(array)
    type_, kind = array.type, pa.types
    if is_hugeint(type_):
        signed = type_.type_name == "hugeint"
        raw = array.storage.to_pylist()
        return [None if value is None else int.from_bytes(value, "little", signed=signed) for value in raw]
    if isinstance(type_, pa.BaseExtensionType):
        return _values(array.storage)
    if kind.is_floating(type_):
        return _floats(array)
    if kind.is_struct(type_):
        names = [field.name for field in type_]
        parts = children_of(array)
        columns = [_values(parts[i]) for i in sorted(range(len(names)), key=names.__getitem__)]
        return _with_nulls(list(zip(*columns, strict=True)) if columns else [()] * len(array), array)
    if kind.is_map(type_):
        entries = list(zip(*(_values(part) for part in children_of(array)), strict=True))
        return [None if row is None else tuple(sorted(row, key=order_key)) for row in group_elements(entries, array)]
    if is_list(type_):
        elements = _values(elements_of(array))
        return [None if row is None else tuple(row) for row in group_elements(elements, array)]
    return _flat_values(array)


def group_elements(elements: Sequence[_T], array: pa.Array) -> Iterator[Sequence[_T] | None]:
    """The elements of each list, or entries of each map, of an array; None: it is null. elements: of all of them."""
    lists = entry_lists(array) if pa.types.is_map(array.type) else array
    start = 0
    for length in pc.list_value_length(lists).to_pylist():
        yield None if length is None else elements[start : start + length]
        start += length or 0


def stored_values(array: pa.Array) -> pa.Array:
    """Values without parts as Arrow stores them: moments as integers, as `datetime` lacks most years, text as bytes."""
    type_ = array.type
    if is_ticks(type_):
        return array.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return array.cast(pa.large_binary()) if is_text(type_) else array


def _flat_values(array: pa.Array) -> list[object]:
    """Values without parts."""
    type_, kind = array.type, pa.types
    taken = (kind.is_null, kind.is_boolean, kind.is_integer, kind.is_decimal, is_text, is_binary)
    values: list[object]
    if is_ticks(type_):
        ints, unit = stored_values(array), nanos(type_)
        try:
            values = pc.multiply_checked(ints.cast(pa.int64()), unit).to_pylist()
        except pa.ArrowInvalid:  # years that 64 bits of nanoseconds do not reach; Python's ints do
            values = [None if value is None else value * unit for value in ints.to_pylist()]
    elif kind.is_interval(type_):
        values = [None if value is None else tuple(value) for value in array.to_pylist()]
    elif any(test(type_) for test in taken):
        values = stored_values(array).to_pylist()
    else:
        raise UnsupportedError(f"Cannot compare values of type {type_}: cast them, or leave the column out")
    return values


def _floats(array: pa.Array) -> list[object]:
    raw = pc.fill_null(array, pa.scalar(0, array.type)) if array.null_count else array
    numbers = raw.to_numpy(zero_copy_only=False).astype(np.float64)
    values: list[object] = numbers.tolist()
    for i in np.flatnonzero(np.isnan(numbers)).tolist():
        values[i] = NAN_TOKEN
    for i in np.flatnonzero((numbers == 0) & np.signbit(numbers)).tolist():
        values[i] = NEGATIVE_ZERO
    return _with_nulls(values, array)


def _with_nulls(values: list[Any], array: pa.Array) -> list[object]:
    if array.null_count:
        for i in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[i] = None
    return values
