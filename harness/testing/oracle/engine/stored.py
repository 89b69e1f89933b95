"""A data file in the oracle's own words: its columns, and its rows as plain Python values.

A stored value is what the file's bytes say, before any table has a word in it:

    integers, dates, times, timestamps int, in the stored unit · floats float · decimals Decimal · booleans bool
    text and binary bytes · struct tuple of its fields, in the file's order · list list · map list of (key, value)
    null None
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.metadata.model.schema import Type

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawColumn:
    """A column or nested field of a file.

    id: the field id; None: the file gives none.
    type: of a single value, or the kind of a nested one.
    parts: fields of a struct; (element,); (key, value).
    """

    name: str
    id: int | None
    type: Type | Literal["struct", "list", "map"]
    parts: tuple[RawColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that has been opened.

    columns: at the top level, in the file's order.
    rows: every row in physical order; goes through once.
    old_calendar: kinds of columns whose oldest values are in the Julian calendar: `dates`, `int96` (delta T20).
    """

    columns: tuple[RawColumn, ...]
    rows: Iterator[Row]
    old_calendar: frozenset[str] = frozenset()


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch."""
    if batch.num_columns == 0:
        yield from [()] * batch.num_rows
        return
    yield from zip(*(values_of(column) for column in batch.columns), strict=True)


def values_of(array: pa.Array) -> list[Any]:
    """The values of an Arrow array, by what its bytes say."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return values_of(array.storage)
    if pa.types.is_dictionary(type_):
        return values_of(array.dictionary_decode())
    if pa.types.is_struct(type_):
        present = array.is_valid().to_pylist()
        parts = zip(*(values_of(part) for part in array.flatten()), strict=True)
        rows = parts if type_.num_fields else repeat((), len(array))
        return [row if there else None for there, row in zip(present, rows, strict=True)]
    if pa.types.is_map(type_):
        pairs = list(zip(values_of(array.keys), values_of(array.items), strict=True))
        return _lists(array, pairs)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _lists(array, values_of(array.values))
    # In types that Python holds exactly: text as bytes, dates and times as their integers.
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        array = array.cast(pa.large_binary())
    elif pa.types.is_date32(type_) or pa.types.is_time32(type_):
        array = array.view(pa.int32())
    elif pa.types.is_time64(type_) or pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        array = array.view(pa.int64())
    return list(array.to_pylist())


def _lists(array: pa.Array, items: Sequence[Any]) -> list[Any]:
    offsets, present = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [list(items[offsets[i] : offsets[i + 1]]) if there else None for i, there in enumerate(present)]
