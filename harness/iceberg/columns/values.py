"""Values from the places that a walk has noted: numbers, byte strings and maps of all entries at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.iceberg.columns.varints import Places, Unsure, Varints
from harness.iceberg.columns.walk import NOWHERE, Walk
from harness.model.arrow_values import from_numpy

Mask = npt.NDArray[np.bool_]

_INLINE = 12
"""Views hold byte strings up to this length in themselves."""
_VIEW = np.dtype([("length", "<i4"), ("head", "<u8"), ("tail", "<u4")])
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
"""The first bytes of a little-endian word, by how many these are."""


def numbers(found: Walk, slot: str) -> tuple[Places, Mask]:
    """The numbers of a slot, 0 where there is none, and where there is one."""
    return _numbers_at(found.varints, found.starts.get(slot), found.size)


def byte_strings(found: Walk, slot: str, entries: Places) -> pa.Array:
    """The bytes of a slot of some entries, as a binary array; null where it has none."""
    starts, ends = found.starts.get(slot), found.ends.get(slot)
    if starts is None or ends is None:
        return pa.nulls(len(entries), pa.binary())
    return _slices(found.varints, starts[entries], ends[entries])


def counts(found: Walk, slot: str, keys: Iterable[int], entries: Places) -> Mapping[int, tuple[Places, Mask]]:
    """Per wanted key of a map of counts: its values in some entries, and where there is exactly one (iceberg 2.8)."""
    wanted = tuple(keys)
    values = {key: np.zeros(len(entries), dtype=np.int64) for key in wanted}
    times = {key: np.zeros(len(entries), dtype=np.int64) for key in wanted}
    starts = found.starts.get(slot)
    if starts is not None and wanted:
        starts = starts[entries]
        there = np.flatnonzero(starts != NOWHERE)
        items, owners = _items(found.varints, starts[there], found.counts[slot][entries[there]])
        present, after = found.varints.numbers(items)
        for key in wanted:
            hit = present == key
            owner = there[owners[hit]]
            values[key][owner] = found.varints.numbers(after[hit])[0]
            np.add.at(times[key], owner, 1)
    return {key: (values[key], times[key] == 1) for key in wanted}


def lists(found: Walk, slot: str, entries: Places) -> pa.Array:
    """The lists of numbers of a slot of some entries; null where it has none, or an empty one."""
    if slot not in found.starts:
        return pa.nulls(len(entries), pa.list_(pa.int64()))
    starts = found.starts[slot][entries]
    there = starts != NOWHERE
    lengths = np.where(there, found.counts[slot][entries], 0)
    owners = np.repeat(np.arange(len(entries)), lengths)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    ordinal = np.arange(len(owners)) - offsets[owners]
    later = ordinal > 0
    places = starts[owners]
    places[later] = found.varints.skip_many(places[later], ordinal[later])
    items = from_numpy(found.varints.numbers(places)[0])
    validity = pa.py_buffer(np.packbits(there, bitorder="little"))
    parts = [validity, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(entries), parts, children=[items])


def bounds(found: Walk, slot: str, key: int, entries: Places) -> pa.Array:
    """The value of one key of a map of bounds of some entries; null where the key is missing or repeated."""
    if (slot, key) not in found.pairs:
        return pa.nulls(len(entries), pa.binary())
    places, times = (noted[entries] for noted in found.pairs[slot, key])
    there = np.flatnonzero(times == 1)
    starts = np.full(len(entries), NOWHERE, dtype=np.int64)
    ends = starts.copy()
    length, begin = found.varints.lengths(places[there])
    starts[there], ends[there] = begin, begin + length
    return _slices(found.varints, starts, ends)


def _numbers_at(varints: Varints, starts: Places | None, size: int) -> tuple[Places, Mask]:
    values = np.zeros(size, dtype=np.int64)
    if starts is None:
        return values, np.zeros(size, dtype=np.bool_)
    there = starts != NOWHERE
    if there.all():
        return varints.numbers(starts)[0], there
    values[there] = varints.numbers(starts[there])[0]
    return values, there


def _items(varints: Varints, starts: Places, counts: Places) -> tuple[Places, Places]:
    """The places of all items of maps of counts, and which map each belongs to."""
    owners = np.repeat(np.arange(len(starts)), counts)
    ordinal = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    later = ordinal > 0
    places = starts[owners]
    # The numbers of a map follow each other: the item's key is behind the value of the item before.
    places[later] = varints.skip_many(places[later], 2 * ordinal[later])
    return places, owners


def _slices(varints: Varints, starts: Places, ends: Places) -> pa.Array:
    """Slices of the buffer as a binary array, null where `starts` is `NOWHERE`. Arrow copies the bytes, from views."""
    there = starts != NOWHERE
    lengths = ends - starts if there.all() else np.where(there, ends - starts, 0)
    shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
    if longest >= 1 << 31 or int(lengths.sum()) >= 1 << 31:
        raise Unsure
    views = np.zeros(len(starts), dtype=_VIEW)
    views["length"] = lengths
    head = _overlapping(varints.data, "head")[starts]
    views["head"] = head if shortest >= 8 else head & _FIRST.take(np.minimum(lengths, 8))
    if shortest <= _INLINE and longest > 8:
        tail = _overlapping(varints.data, "tail")[starts + 8]
        views["tail"] = tail & _FIRST.take(np.clip(lengths - 8, 0, 4)).astype(np.uint32)
    if longest > _INLINE:
        long = slice(None) if shortest > _INLINE else np.flatnonzero(lengths > _INLINE)
        # Four bytes, the number of the buffer, which is 0, and the place in it.
        views["head"][long] &= _FIRST[4]
        views["tail"][long] = starts[long]
    validity = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    array = pa.Array.from_buffers(
        pa.binary_view(), len(starts), [validity, pa.py_buffer(views), pa.py_buffer(varints.data)]
    )
    return array.cast(pa.binary())


def _overlapping(data: npt.NDArray[np.uint8], part: str) -> npt.NDArray[Any]:
    """The word that begins at each byte, of the type of a part of a view."""
    type_ = _VIEW[part]
    return np.ndarray((len(data) - type_.itemsize + 1,), type_, data, strides=(1,))
