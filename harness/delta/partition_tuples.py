"""The partition tuples of a snapshot's files: each distinct tuple typed once, and per file the number of its tuple.

The log gives every file a map of texts. A table has few values and many files, so the maps are taken apart column by
column, and each distinct text is looked at once.

Spec: Delta, "Partition Value Serialization".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    texts = _texts(files.column("partition_values"), columns)
    typed = [_typed(text, column, files.column("path")) for column, text in zip(columns, texts, strict=True)]
    combined: _Codes = np.zeros(size, dtype=np.int64)
    for codes, distinct in typed:
        combined = np.unique(combined * len(distinct) + codes, return_inverse=True)[1].reshape(-1)
    _, firsts, groups = np.unique(combined, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    tuples = tuple(
        {column.id: distinct[int(codes[file])] for column, (codes, distinct) in zip(columns, typed, strict=True)}
        for file in firsts[order].tolist()
    )
    return PartitionTuples(tuples=tuples, indexes=ranks[groups.reshape(-1)])


def _texts(values: pa.ChunkedArray, columns: Sequence[Field]) -> Iterator[pa.Array]:
    """Per column, the text that each map gives it; null where it gives none."""
    maps = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
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
        for code in sorted(alike, key=lambda i: names[i] == name):  # the exact name last: it wins
            hits = np.flatnonzero(codes == code)
            places[owners[hits]] = hits
        yield texts.take(from_numpy(places, missing=places < 0))


def _typed(texts: pa.Array, column: Field, paths: pa.ChunkedArray) -> tuple[_Codes, list[Any]]:
    """Per file a code, and the distinct values by code."""
    encoded = pc.dictionary_encode(texts, null_encoding="encode")
    own = to_numpy(encoded.indices)
    distinct_texts = encoded.dictionary.to_pylist()
    firsts = np.zeros(len(distinct_texts), dtype=np.int64)
    firsts[own[::-1]] = np.arange(len(own))[::-1]
    numbers: dict[Hashable, int] = {}
    distinct: list[Any] = []
    renumbered = []
    for text, first in zip(distinct_texts, firsts.tolist(), strict=True):
        value = parse_partition_value(text, column.type, column=column.name, file=paths[first].as_py())
        number = numbers.setdefault(_identity(value), len(distinct))
        if number == len(distinct):
            distinct.append(value)
        renumbered.append(number)
    return np.array(renumbered, dtype=np.int64)[own], distinct


def _identity(value: Any) -> Hashable:
    """Equal for values that are one partition: floats by bits, NaN as one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return (value,)
