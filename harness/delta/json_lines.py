"""Many JSON texts in one piece, a line each, as pyarrow reads them: line breaks are only white space in JSON."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def without_line_breaks(texts: pa.Array) -> pa.Array:
    """The texts with spaces for line breaks; a string array, as it is given."""
    # What stands in null texts is looked at too: a search in each text takes ten times as long.
    whole = _data_of(texts, np.int32).to_pybytes() if len(texts) > texts.null_count else b""
    for separator in ("\n", "\r"):
        if separator.encode() in whole:
            texts = pc.replace_substring(texts, pattern=separator, replacement=" ")
    return texts


def as_lines(texts: pa.Array) -> pa.Buffer:
    """The texts with a line break after each."""
    text = pa.large_string()
    ended = pc.binary_join_element_wise(texts.cast(text), pa.scalar("", text), pa.scalar("\n", text))
    return _data_of(ended, np.int64)


def longest_line(texts: pa.Array) -> int:
    """More bytes than the longest of the texts and its line break have."""
    return 2 * int(pc.max(pc.binary_length(texts)).as_py()) + 2


def _data_of(texts: pa.Array, offsets: type[np.int32 | np.int64]) -> pa.Buffer:
    """String arrays hold their text in one piece."""
    _, bounds, data = texts.buffers()
    start, end = np.frombuffer(bounds, offsets)[[texts.offset, texts.offset + len(texts)]].tolist()
    return data.slice(start, end - start)
