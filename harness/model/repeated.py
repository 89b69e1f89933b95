"""Whether a text is there twice among a million: by their hashes, which take a tenth of the memory of the texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.arrow_values import from_numpy, text_bytes

Hashes = npt.NDArray[np.uint64]

_SLICE_ROWS = 1 << 14
"""What is hashed at a time stays in the processor's cache."""
_WORD = 8
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_BELOW = np.array([(1 << 8 * count) - 1 for count in range(_WORD)] + [2**64 - 1], dtype=np.uint64)
"""The first bytes of a little-endian word, by how many these are."""


def first_repeated(texts: pa.ChunkedArray) -> str | None:
    """A text that is there more than once; None: all differ. texts: strings without nulls."""
    slices = ((chunk, start) for chunk in texts.chunks for start in range(0, len(chunk), _SLICE_ROWS))
    parts = [_hashes(chunk.slice(start, _SLICE_ROWS)) for chunk, start in slices]
    hashes = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return None
    # Texts with one hash may differ all the same.
    counts = pc.value_counts(texts.filter(pa.chunked_array([from_numpy(np.isin(hashes, twice))])))
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return str(repeated[0]) if len(repeated) else None


def _hashes(texts: pa.Array) -> Hashes:
    """A number for each text, equal for equal ones."""
    data, offsets = text_bytes(texts)
    padded = data.tobytes() + bytes(_WORD)
    words = np.ndarray((len(padded) - _WORD + 1,), np.dtype("<u8"), padded, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes: Hashes = lengths.astype(np.uint64)
    for place in range(0, int(lengths.max()) if len(lengths) else 0, _WORD):
        left = lengths - place
        if left.min() >= _WORD:
            hashes = _mixed(hashes, words[starts + place])
            continue
        longer = np.flatnonzero(left > 0)
        word = words[starts[longer] + place] & _BELOW[np.minimum(left[longer], _WORD)]
        hashes[longer] = _mixed(hashes[longer], word)
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = (hashes ^ words) * _FACTOR
    return mixed ^ (mixed >> np.uint64(29))
