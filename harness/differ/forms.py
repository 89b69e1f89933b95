"""Forms of columns: the part of a value that is hashed, and the types in which DuckDB takes Arrow data.

A form is made from the types of both sides, and stands for the values that `harness.differ.canonical` gives: integers
and decimals by value, times in the coarser unit and the rest, floats by the bits of the double, text and bytes by
bytes. So both sides hash equal values alike (`harness.differ.hashing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from harness.differ.canonical import SignedZeros, unwrapped
from harness.differ.schemas import is_binary, is_hugeint, is_text, is_ticks, nanos, normal_type, plain, remade
from harness.errors import UnsupportedError
from harness.metadata.model.arrow_values import children_of, is_rebuilt, with_children


class Simple(Enum):
    """Forms without parameters."""

    NOTHING = "all values are null on both sides"
    WHOLE = "an integer or boolean, by its 64 bits"
    BYTES = "text, bytes or a UUID, by bytes"


class Digits(Enum):
    """The number of words that the digits of a number take."""

    NARROW = "narrow"  # up to 18 digits at the common scale: 64 bits
    WIDE = "wide"  # up to 38 digits at the common scale: 128 bits
    SPLIT = "split"  # more: the integer part, and the rest at the common scale, 128 bits each


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or decimal, unscaled at the larger scale of both sides."""

    scale: int
    digits: Digits


@dataclass(frozen=True, slots=True)
class Ticks:
    """A date, time, timestamp or duration.

    base: the coarser unit of both sides, in nanoseconds. split: the units differ, so that the count of base units and
    the rest are hashed: no count of a finer unit could overflow.
    """

    base: int
    split: bool


@dataclass(frozen=True, slots=True)
class Float:
    """A float, by the bits of the double of the same value; all NaNs are one."""

    signed_zeros: SignedZeros


@dataclass(frozen=True, slots=True)
class StructFields:
    """A struct, by the names of its fields, sorted."""

    fields: tuple[tuple[str, HashForm], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    element: HashForm


@dataclass(frozen=True, slots=True)
class Entries:
    """A map, whose order means nothing."""

    key: HashForm
    value: HashForm


HashForm: TypeAlias = Simple | Number | Ticks | Float | StructFields | Items | Entries

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
INCOMPARABLE = "IncomparableType"
"""The cause of errors that are no failure of the side that has such a column."""


def form(left: pa.DataType, right: pa.DataType, *, signed_zeros: SignedZeros = "distinct") -> HashForm:
    """The form of a column with these types, which `harness.differ.schemas` found comparable.

    Raises UnsupportedError: values of the type can be compared in small numbers only.
    """
    a, b = (normal_type(plain(normal_type(type_))) for type_ in (left, right))
    kind = pa.types
    a, b = (b if kind.is_null(a) else a), (a if kind.is_null(b) else b)
    if kind.is_null(a):
        return Simple.NOTHING
    if kind.is_boolean(a):
        return Simple.WHOLE
    if kind.is_integer(a) or kind.is_decimal(a):
        return _number(a, b)
    if kind.is_floating(a):
        return Float(signed_zeros)
    if is_text(a) or is_binary(a):
        return Simple.BYTES
    if is_ticks(a):
        units = nanos(a), nanos(b)
        return Ticks(max(units), units[0] != units[1])
    both = partial(form, signed_zeros=signed_zeros)
    if kind.is_struct(a):
        names = sorted(field.name for field in a)
        return StructFields(tuple((name, both(a.field(name).type, b.field(name).type)) for name in names))
    if kind.is_map(a):
        return Entries(both(a.key_type, b.key_type), both(a.item_type, b.item_type))
    if kind.is_list(a):
        return Items(both(a.value_type, b.value_type))
    raise large(a)


def incomparable(what: str, type_: object, *, column: str | None = None) -> UnsupportedError:
    """The error for a type whose values cannot be compared: no failure of the side that has it."""
    return UnsupportedError(
        f"Cannot compare {what} of type {type_}: cast it, or leave it out with columns=",
        cause=INCOMPARABLE,
        field=column,
        options=("columns",),
    )


def large(type_: pa.DataType) -> UnsupportedError:
    """The error for a type whose values are compared one by one only."""
    return incomparable("large inputs by values", type_)


def _number(a: pa.DataType, b: pa.DataType) -> HashForm:
    if pa.types.is_integer(a) and pa.types.is_integer(b) and (pa.types.is_uint64(a) == pa.types.is_uint64(b)):
        return Simple.WHOLE
    sizes = [digits_of(type_) for type_ in (a, b)]
    scale = max(scale for _, scale in sizes)
    width = max(whole for whole, _ in sizes) + scale
    digits = Digits.NARROW if width <= 18 else Digits.WIDE if width <= 38 else Digits.SPLIT
    return Number(scale, digits)


def digits_of(type_: pa.DataType) -> tuple[int, int]:
    """Digits before the point, and after it."""
    if pa.types.is_decimal(type_):
        return type_.precision - type_.scale, max(type_.scale, 0)
    return _INTEGER_DIGITS[type_.bit_width], 0


# Arrow data in types that DuckDB takes without rounding. Instants in nanoseconds, durations and dates in milliseconds
# go in as integers, and halves as the next wider float; `harness.differ.hashing` is told what they stand for. Encodings
# (dictionaries, run ends, views) and extension types are taken off.


_INTEGERS = (pa.types.is_date64, pa.types.is_time64, pa.types.is_timestamp, pa.types.is_duration)


def storage_type(type_: pa.DataType) -> pa.DataType:
    """The type in which DuckDB gets values of `type_`. Raises UnsupportedError: it has none."""
    return remade(type_, _storage)


def _storage(type_: pa.DataType) -> pa.DataType:
    kind = pa.types
    if kind.is_union(type_) or kind.is_interval(type_) or is_hugeint(type_):
        raise large(type_)
    if isinstance(type_, pa.BaseExtensionType):
        return storage_type(type_.storage_type)
    if any(test(type_) for test in _INTEGERS):
        return pa.int64()
    if kind.is_time32(type_):
        return pa.int32()
    if kind.is_float16(type_):
        return pa.float32()
    if is_binary(type_):
        return pa.binary()
    if kind.is_decimal(type_):
        precision = type_.precision - min(type_.scale, 0)
        if precision > 38:
            raise large(type_)
        return pa.decimal128(precision, max(type_.scale, 0))
    return pa.string() if is_text(type_) else type_


def carried(rows: pa.Table) -> pa.Table:
    """The same rows in types that DuckDB takes. Raises UnsupportedError: a column has none."""
    columns = [
        pa.chunked_array([_carried(chunk) for chunk in column.chunks], storage_type(column.type))
        for column in rows.columns
    ]
    return pa.table(columns, schema=pa.schema([(f"c{i}", column.type) for i, column in enumerate(columns)]))


def _carried(array: pa.Array) -> pa.Array:
    array, wanted = unwrapped(array), storage_type(array.type)
    if array.type.equals(wanted):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _carried(array.storage)
    if is_rebuilt(wanted):
        return with_children(array, [_carried(child) for child in children_of(array)], wanted)
    return array.cast(wanted)
