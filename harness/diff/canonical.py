"""Hashable Python values for Arrow values. Two of these values are equal if the Arrow values mean the same.

    null                        None
    boolean, integer            bool, int
    decimal                     Decimal, equal by value at any scale; equal to an int of the same value
    float                       float, exact at any width; NAN_TOKEN for every NaN; NEGATIVE_ZERO for -0.0
    string, JSON                bytes (UTF-8)
    binary, fixed, uuid, geo    bytes
    date, time, timestamp,      int, nanoseconds; for dates and timestamps since 1970-01-01, in any year; instants in
      duration                    UTC
    interval                    (months, days, nanoseconds)
    struct                      tuple of the fields' values in the order of their names
    list                        tuple
    map                         tuple of (key, value), sorted

Only compare columns that `harness.diff.schemas` finds comparable: a canonical value does not record its type.
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
"""A text, because no other canonical value is a text. The token therefore equals only itself."""


def canonical_rows(table: pa.Table, columns: Sequence[str]) -> list[CanonicalRow]:
    """Return the rows of a table as tuples of canonical values, in the table's order and in the order of `columns`.

    Raises:
        UnsupportedError: A column has a type without a canonical form, for example a union.
    """
    if not columns:
        return [()] * table.num_rows
    values = [canonical_values(table.column(name)) for name in columns]
    return list(zip(*values, strict=True))


def canonical_values(array: pa.Array | pa.ChunkedArray) -> list[Hashable]:
    """Return the canonical value of each entry of an array.

    Raises:
        UnsupportedError: The type has no canonical form.
    """
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _values(chunk)]
    return _values(array)


def order_key(value: Hashable) -> tuple[object, ...]:
    """Return a sort key for canonical values of one column, or for rows.

    Null sorts first, -0.0 before 0.0, and NaN last.
    """
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
    """Return the same values without dictionary or run-end encoding and without Arrow's boolean extension type."""
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
    """Yield the elements of each list, or the entries of each map, of an array. A null list yields None.

    Args:
        elements: The elements of all lists, in order.
        array: The lists or maps.
    """
    lists = entry_lists(array) if pa.types.is_map(array.type) else array
    start = 0
    for length in pc.list_value_length(lists).to_pylist():
        yield None if length is None else elements[start : start + length]
        start += length or 0


def stored_values(array: pa.Array) -> pa.Array:
    """Return values of a type without parts as Arrow stores them.

    Times become integers, because `datetime` supports only the years 1 to 9999. Text becomes bytes.
    """
    type_ = array.type
    if is_ticks(type_):
        return array.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return array.cast(pa.large_binary()) if is_text(type_) else array


def _flat_values(array: pa.Array) -> list[object]:
    type_, kind = array.type, pa.types
    type_tests = (kind.is_null, kind.is_boolean, kind.is_integer, kind.is_decimal, is_text, is_binary)
    values: list[object]
    if is_ticks(type_):
        ints, unit = stored_values(array), nanos(type_)
        try:
            values = pc.multiply_checked(ints.cast(pa.int64()), unit).to_pylist()
        except pa.ArrowInvalid:  # beyond 64 bits of nanoseconds; Python's integers have no limit
            values = [None if value is None else value * unit for value in ints.to_pylist()]
    elif kind.is_interval(type_):
        values = [None if value is None else tuple(value) for value in array.to_pylist()]
    elif any(test(type_) for test in type_tests):
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
