"""The partition tuples of a snapshot's files: each distinct tuple typed once, and per file the number of its tuple.

The log gives every file a map of texts. A table has few values and many files, so the maps are taken apart column by
column, and each distinct text is looked at once.

Spec: Delta, "Partition Value Serialization".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.partition_values import parse_partition_value
from harness.model.arrow_rebuild import offsets_of
from harness.model.arrow_values import from_numpy, to_numpy
from harness.model.schema import Field
from harness.plan.column_mapping import stored_name
from harness.records import dataclass

_Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTuples:
    """The partition tuples of many files.

    tuples: the distinct tuples, in the order of their first files: internal values by field id. Two spellings of a
        value are one (delta V5), 0.0 and -0.0 are two.
    indexes: per file, an index into `tuples`.
    """

    tuples: tuple[Mapping[int, Any], ...]
    indexes: npt.NDArray[np.int32]


def partition_tuples(files: pa.Table, columns: Sequence[Field]) -> PartitionTuples:
    """The tuples of a `FILES_STATE` table. A value that a file does not record is null (delta V2).

    Args:
        files: with columns `path` and `partition_values`.
        columns: the partition columns; a key in another letter case counts where the exact one is missing (V8).

    Raises:
        InvalidTableError, UnsupportedError: a text is no value of its column's type; names a file that has it.
    """
    size = files.num_rows
    encoded = _encoded(files.column("partition_values"), columns)
    typed = [_typed(each, column, files.column("path")) for column, each in zip(columns, encoded, strict=True)]
    combined: _Codes = np.zeros(size, dtype=np.int64)
    for codes, distinct in typed:
        combined = _numbered(combined * len(distinct) + codes)
    firsts = _firsts(combined, int(combined.max(initial=-1)) + 1)
    tuples = tuple(
        {column.id: distinct[int(codes[file])] for column, (codes, distinct) in zip(columns, typed, strict=True)}
        for file in firsts.tolist()
    )
    return PartitionTuples(tuples=tuples, indexes=combined.astype(np.int32))


def _numbered(codes: _Codes) -> _Codes:
    """Numbers for distinct codes, in the order in which these come."""
    found: _Codes = to_numpy(pc.dictionary_encode(from_numpy(codes)).indices).astype(np.int64)
    return found


def _firsts(numbers: npt.NDArray[Any], count: int) -> _Codes:
    """Of each number below `count`, the first place."""
    firsts = np.zeros(count, dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return firsts


@dataclass(slots=True)
class _Encoded:
    """What the files have for one column. codes: per file the number of its text, chunk by chunk. texts: by number,
    with the first file that has it; null is a text, too."""

    codes: list[_Codes] = field(default_factory=list)
    texts: dict[str | None, int] = field(default_factory=dict)
    firsts: list[int] = field(default_factory=list)

    def append(self, texts: pa.Array, start: int) -> None:
        """The texts of the next files, the first of which has the number `start`."""
        encoded = pc.dictionary_encode(texts, null_encoding="encode")
        own = to_numpy(encoded.indices)
        distinct = encoded.dictionary.to_pylist()
        firsts = start + _firsts(own, len(distinct))
        renumbered = np.zeros(len(distinct), dtype=np.int64)
        for place, text in enumerate(distinct):
            if text not in self.texts:
                self.texts[text] = len(self.texts)
                self.firsts.append(int(firsts[place]))
            renumbered[place] = self.texts[text]
        self.codes.append(renumbered[own])


def _encoded(values: pa.ChunkedArray, columns: Sequence[Field]) -> list[_Encoded]:
    """Per column. Chunk by chunk, as arrays of all files cost more to make room for than to fill."""
    found = [_Encoded() for _ in columns]
    start = 0
    for maps in values.chunks:
        for encoded, texts in zip(found, _texts(maps, columns), strict=True):
            encoded.append(texts, start)
        start += len(maps)
    return found


def _texts(maps: pa.MapArray, columns: Sequence[Field]) -> Iterator[pa.Array]:
    """Per column, the text that each map gives it; null where it gives none."""
    offsets = to_numpy(offsets_of(maps))
    start, stop = int(offsets[0]), int(offsets[-1])
    keys, texts = maps.keys.slice(start, stop - start).dictionary_encode(), maps.items.slice(start, stop - start)
    names = keys.dictionary.to_pylist()
    codes = to_numpy(keys.indices)
    owners = np.repeat(np.arange(len(maps)), np.diff(offsets))
    for column in columns:
        name = stored_name(column)
        alike = [i for i, key in enumerate(names) if key.lower() == name.lower()]
        places = np.full(len(maps), -1, dtype=np.int64)
        # The exact name wins, and of others the last that a map has (V8).
        for wanted in ([i for i in alike if names[i] != name], [i for i in alike if names[i] == name]):
            if wanted:
                is_wanted = np.zeros(len(names), dtype=np.bool_)
                is_wanted[wanted] = True
                hits = np.flatnonzero(is_wanted[codes])
                places[owners[hits]] = hits
        yield texts.take(from_numpy(places, missing=places < 0))


def _typed(encoded: _Encoded, column: Field, paths: pa.ChunkedArray) -> tuple[_Codes, list[Any]]:
    """Per file a code, and the distinct values by code."""
    numbers: dict[Hashable, int] = {}
    distinct: list[Any] = []
    renumbered = []
    for text, first in zip(encoded.texts, encoded.firsts, strict=True):
        value = parse_partition_value(text, column.type, column=column.name, file=paths[first].as_py())
        number = numbers.setdefault(_identity(value), len(distinct))
        if number == len(distinct):
            distinct.append(value)
        renumbered.append(number)
    codes = np.concatenate(encoded.codes) if encoded.codes else np.zeros(0, dtype=np.int64)
    return np.array(renumbered, dtype=np.int64)[codes], distinct


def _identity(value: Any) -> Hashable:
    """Equal for values that are one partition: floats by bits, NaN as one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return (value,)
