"""Partition transforms over the rows of a query: as SQL where they are plain arithmetic, buckets by a function of ours.

Murmur3 of a batch of values takes 20 steps of NumPy, not as many of Python for each value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from duckdb.func import PythonUDFType

from harness.metadata.iceberg.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Transform,
    Truncate,
    Year,
    apply,
    is_defined,
)
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import to_numpy
from harness.tools.check.values import internal

_numbers = itertools.count()
_Words = npt.NDArray[np.uint32]


@contextmanager
def bucket_function(connection: duckdb.DuckDBPyConnection, bucket: Bucket, type_: dt.Type) -> Iterator[str]:
    """An SQL function on a connection that gives the bucket of a value as `hashed` shows it; a null has none."""
    name = f"harness_bucket_{next(_numbers)}"
    connection.create_function(name, _buckets(bucket, type_), [_shown(type_)], "INTEGER", type=PythonUDFType.ARROW)
    try:
        yield name
    finally:
        connection.remove_function(name)


def _shown(type_: dt.Type) -> str:
    match type_:
        case dt.StringType():
            return "VARCHAR"
        case dt.UuidType() | dt.BinaryType() | dt.FixedType():
            return "BLOB"
        case dt.DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case _:
            return "BIGINT"


def hashed(value: str, type_: dt.Type) -> str:
    """An SQL value as the functions of buckets take it."""
    match type_:
        case dt.UuidType():
            return f"unhex(replace({value}::VARCHAR, '-', ''))"
        case dt.StringType() | dt.BinaryType() | dt.FixedType() | dt.DecimalType():
            return value
        case dt.TimestampType(utc=True):
            return f"epoch_us({value})"  # also of nanos: DuckDB shows them in micros
        case _:
            return f"({internal(value, type_)})::BIGINT"


def _buckets(bucket: Bucket, type_: dt.Type) -> Callable[[pa.ChunkedArray], pa.Array]:
    """The buckets of a batch of values without nulls."""
    function = apply(bucket, type_)
    divisor = 1_000 if isinstance(type_, dt.TimestampType) and type_.unit == "ns" and not type_.utc else 1

    def run(batch: pa.ChunkedArray | pa.Array) -> pa.Array:
        values = batch.combine_chunks() if isinstance(batch, pa.ChunkedArray) else batch
        if isinstance(type_, dt.DecimalType):
            coded = values.dictionary_encode()
            found = pa.array([function(value) for value in coded.dictionary.to_pylist()], pa.int32())
            return found.take(coded.indices)
        if pa.types.is_integer(values.type):
            numbers = np.floor_divide(to_numpy(values).astype("<i8"), divisor)
            words = murmur3(numbers.view(np.uint8).reshape(-1, 8))
        else:
            words = _of_bytes(values.cast(pa.large_binary()))
        return pa.array((words & np.uint32(0x7FFFFFFF)) % np.uint32(bucket.n), pa.int32())

    return run


def _of_bytes(values: pa.Array) -> _Words:
    """The hashes of byte strings, those of one length together."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    found = np.zeros(len(values), np.uint32)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        found[places] = murmur3(data[offsets[places][:, None] + np.arange(length)])
    return found


def murmur3(rows: npt.NDArray[np.uint8]) -> _Words:
    """MurmurHash3, x86 variant, 32 bits, seed 0, of each row of bytes (iceberg 3.11)."""
    count, length = rows.shape
    padded = np.zeros((count, length + -length % 4), np.uint8)
    padded[:, :length] = rows
    words = padded.view("<u4")
    state = np.zeros(count, np.uint32)
    for place in range(words.shape[1]):
        word = words[:, place] * np.uint32(0xCC9E2D51)
        state ^= _rotated(word, 15) * np.uint32(0x1B873593)
        if place < length // 4:
            state = _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(length)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> np.uint32(shift)) * np.uint32(factor)
    return np.asarray(state ^ state >> np.uint32(16), np.uint32)


def _rotated(words: _Words, bits: int) -> _Words:
    return np.asarray(words << np.uint32(bits) | words >> np.uint32(32 - bits), np.uint32)


def ordered(transform: Transform, value: str, type_: dt.Type) -> str | None:
    """An SQL value that is ordered as a transform of `value` is; None: there is none, or it is a bucket."""
    if isinstance(transform, Identity):
        return value
    if isinstance(transform, Bucket) or not is_defined(transform, type_):
        return None
    match transform, type_:
        case Truncate(width=width), dt.StringType():
            return f"left({value}, {width})"
        case Truncate(width=width), dt.IntegerType():
            number = f"{value}::HUGEINT"
            return f"{number} - (({number} % {width}) + {width}) % {width}"
        case Day() | Hour() | Month() | Year(), dt.DateType() | dt.TimestampType(unit="us"):
            # In UTC, whatever the zone of the session.
            moment = value if isinstance(type_, dt.DateType) else f"make_timestamp(epoch_us({value}))"
            return f"date_trunc('{transform}', {moment})"
        case _:
            return None
