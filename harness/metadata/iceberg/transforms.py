"""Partition transforms: their names, and their results for internal values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import distinct_values, to_numpy
from harness.metadata.model.murmur3 import murmur3, murmur3_of
from harness.metadata.model.times import year_month_day
from harness.storage.records import dataclass


class _NamedTransform:
    """A transform without parameters, whose text is its class name in lower case."""

    __slots__ = ()

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True, slots=True)
class Identity(_NamedTransform):
    """The source value itself."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A hash of the source value, modulo `n`."""

    n: int

    def __str__(self) -> str:
        return f"bucket[{self.n}]"


@dataclass(frozen=True, slots=True)
class Truncate:
    """Numbers rounded down to a multiple of `width`, or the first `width` code points or bytes.

    For decimals, `width` applies to the unscaled value.
    """

    width: int

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True, slots=True)
class Year(_NamedTransform):
    """Years since 1970."""


@dataclass(frozen=True, slots=True)
class Month(_NamedTransform):
    """Months since 1970-01."""


@dataclass(frozen=True, slots=True)
class Day(_NamedTransform):
    """Days since 1970-01-01."""


@dataclass(frozen=True, slots=True)
class Hour(_NamedTransform):
    """Hours since 1970-01-01T00."""


@dataclass(frozen=True, slots=True)
class Void(_NamedTransform):
    """Always null: the transform of a removed partition field."""


@dataclass(frozen=True, slots=True)
class UnknownTransform:
    """A transform that harness does not know.

    It skips no files, but its values still separate partitions (iceberg 3.10).
    """

    text: str

    def __str__(self) -> str:
        return self.text


Transform: TypeAlias = Identity | Bucket | Truncate | Year | Month | Day | Hour | Void | UnknownTransform

_PARAMETRIC = re.compile(r"(bucket|truncate)\s*\[\s*(\d{1,18})\s*\]", re.IGNORECASE)
_PLAIN: dict[str, Transform] = {
    "identity": Identity(),
    "year": Year(),
    "month": Month(),
    "day": Day(),
    "hour": Hour(),
    "void": Void(),
}


def parse_transform(text: str) -> Transform:
    """Return the transform with this name, in any letter case.

    A name outside the specification is an `UnknownTransform`.

    A width or count of zero has no meaning, so it also is unknown.

    Spec: Iceberg, "Partition Transforms" (rule iceberg 3.10).
    """
    name = text.strip()
    match = _PARAMETRIC.fullmatch(name)
    if match is not None and int(match.group(2)) > 0:
        number = int(match.group(2))
        return Bucket(number) if match.group(1).lower() == "bucket" else Truncate(number)
    return _PLAIN.get(name.lower(), UnknownTransform(text))


def result_type(transform: Transform, source: dt.Type | None) -> dt.Type:
    """Return the type of the partition values (iceberg 1.21, 3.8).

    `day` returns a date, as engines show it. Its internal value is the same int.

    Args:
        transform: The transform.
        source: The type of the source column; None if it was dropped.
    """
    match transform:
        case Identity() | Truncate() | Void():
            return dt.OpaqueType(f"{transform} of a dropped column") if source is None else source
        case Bucket():
            return dt.IntegerType(32)
        case Year():
            return dt.IntegerType(32, "Y")
        case Month():
            return dt.IntegerType(32, "M")
        case Hour():
            return dt.IntegerType(32, "h")
        case Day():
            return dt.DateType()
        case UnknownTransform(text=text):
            return dt.OpaqueType(text)
        case _:
            assert_never(transform)


def apply(transform: Transform, source: dt.Type) -> Callable[[dt.CellValue], dt.CellValue]:
    """Return the transform as a function on internal values. The result for null is null.

    Raises:
        UnsupportedError: The transform is unknown or not defined for the type.

    Spec: Iceberg, "Partition Transforms" (rules iceberg 3.11-3.13).
    """
    function = _function(transform, source)
    if function is None:
        raise UnsupportedError(f"Cannot apply transform {transform} to a column of type {source}", rule="iceberg 3.10")
    return lambda value: None if value is None else function(value)


def is_defined(transform: Transform, source: dt.Type) -> bool:
    """Return whether the transform is known and defined for the type."""
    return _function(transform, source) is not None


def _function(transform: Transform, source: dt.Type) -> Callable[[dt.CellValue], dt.CellValue] | None:
    """Return the transform as a function on non-null values, or None if it is not defined."""
    match transform:
        case Identity():
            return lambda value: value
        case Bucket(n=n):
            hashed = _hash_function(source)
            return None if hashed is None else lambda value: (hashed(value) & 0x7FFFFFFF) % n
        case Truncate(width=width):
            match source:
                case dt.IntegerType(bits=bits):
                    return lambda value: wrap(value - value % width, bits)
                case dt.DecimalType(scale=scale):
                    return lambda value: dt.from_unscaled((n := dt.unscaled(value, scale)) - n % width, scale)
                case dt.StringType() | dt.BinaryType():
                    return lambda value: value[:width]
                case _:
                    return None
        case Year() | Month() | Day() | Hour():
            return _time_function(transform, source)
        case Void():
            return lambda value: None
        case UnknownTransform():
            return None
        case _:
            assert_never(transform)


def _hash_long(value: int) -> int:
    return murmur3(value.to_bytes(8, "little", signed=True))


def _hash_unscaled(number: int) -> int:
    # The shortest two's complement: -128 needs one byte, 128 needs two.
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return murmur3(number.to_bytes(length, "big", signed=True))


def _hash_function(source: dt.Type) -> Callable[[dt.CellValue], int] | None:
    match source:
        case dt.IntegerType() | dt.DateType() | dt.TimeType(unit="us") | dt.TimestampType(unit="us"):
            return _hash_long
        case dt.TimestampType(unit="ns") | dt.TimeType(unit="ns"):
            return lambda value: _hash_long(value // 1000)
        case dt.DecimalType(scale=scale):
            return lambda value: _hash_unscaled(dt.unscaled(value, scale))
        case dt.StringType():
            return lambda value: murmur3(value.encode())
        case dt.UuidType() | dt.FixedType() | dt.BinaryType():
            return murmur3
        case _:
            return None


def wrap(value: int, bits: int) -> int:
    """Wrap a value to `bits` bits in two's complement, as Java overflows below a type's minimum (iceberg 3.12)."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _time_function(transform: Year | Month | Day | Hour, source: dt.Type) -> Callable[[int], int] | None:
    match source:
        case dt.DateType():
            per_hour, per_day = None, 1
        case dt.TimestampType(unit=unit):
            per_hour = 3600 * _PER_SECOND[unit]
            per_day = 24 * per_hour
        case _:
            return None
    match transform:
        case Year():
            return lambda value: _months(value // per_day) // 12
        case Month():
            return lambda value: _months(value // per_day)
        case Day():
            return lambda value: value // per_day
        case Hour():
            return None if per_hour is None else lambda value: value // per_hour
        case _:
            assert_never(transform)


def _months(days: int) -> int:
    """Convert days since 1970-01-01 to months since 1970-01."""
    year, month, _ = year_month_day(days)
    return (year - 1970) * 12 + month - 1


# Hashing a batch takes 20 NumPy steps, instead of as many Python steps for each value.


def buckets_of(bucket: Bucket, source: dt.Type) -> Callable[[pa.Array], pa.Array]:
    """Return the transform as a function on Arrow arrays without nulls.

    The arrays hold int64 internal values, decimals, texts, or bytes. Raises the errors of `apply`.
    """
    function = apply(bucket, source)
    divisor = 1_000 if isinstance(source, dt.TimestampType | dt.TimeType) and source.unit == "ns" else 1

    def run(values: pa.Array) -> pa.Array:
        if isinstance(source, dt.DecimalType):
            coded = values.dictionary_encode()
            return pa.array(map(function, coded.dictionary.to_pylist()), pa.int32()).take(coded.indices)
        if pa.types.is_integer(values.type):
            numbers = np.floor_divide(to_numpy(values).astype("<i8"), divisor)
            words = murmur3_of(numbers.view(np.uint8).reshape(-1, 8))
        else:
            words = _hash_byte_strings(values.cast(pa.large_binary()))
        return pa.array((words & np.uint32(0x7FFFFFFF)).astype(np.int64) % bucket.n, pa.int32())

    return run


def _hash_byte_strings(values: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the hashes of byte strings. Byte strings of the same length are hashed together."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(values), np.uint32)
    for length in distinct_values(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        hashes[places] = murmur3_of(data[offsets[places][:, None] + np.arange(length)])
    return hashes
