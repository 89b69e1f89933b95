"""The ends of Parquet and ORC files, as executors found them: the result of a `java/FooterJob.java`, decoded.

Per chunk of files: their number; a record of each; the number of texts; and of each text whether pages are in Brotli,
its length and its bytes. All numbers are big-endian. Of files that are alike but for their rows, one text comes back
from each chunk, an image of the footer; so what crosses does not grow with the width of the table times its files.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

import numpy as np

_RECORD = np.dtype([("kind", "i1"), ("text", ">i4"), ("size", ">i8"), ("modified", ">i8"), ("rows", ">i8")])
_COUNT = struct.Struct(">i")
_TEXT = struct.Struct(">?i")


class Found(enum.IntEnum):
    """What became of a look at a file."""

    PARSED = 0
    """The text is an image of the footer: version, schema, row count, first row group, metadata about calendars."""
    COLUMNLESS = 1
    """The file has rows and no columns; there is no text."""
    WHOLE = 2
    """The footer is not as is usual: the text is the file's first four bytes, and then its end."""
    FAULTY = 3
    """The text is a letter: `M` missing or empty, `D` denied, `R` no regular file, `S` its storage failed, and how."""


@dataclass(frozen=True, slots=True)
class Text:
    """What one or more files have in common. brotli: whether pages of the first row group are in that codec."""

    brotli: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Look:
    """A look at one file. size: in bytes. modified: ms since 1970. rows: by the footer; 0 unless that was parsed."""

    found: Found
    size: int
    modified: int
    rows: int
    text: Text | None


def decode(result: bytes) -> list[Look]:
    """The looks, in the order in which files were given."""
    looks: list[Look] = []
    at = 0
    while at < len(result):
        (count,) = _COUNT.unpack_from(result, at)
        records = np.frombuffer(result, _RECORD, count, at + _COUNT.size)
        texts, at = _texts(result, at + _COUNT.size + records.nbytes)
        columns = [records[name].tolist() for name in ("kind", "text", "size", "modified", "rows")]
        looks += [
            Look(Found(kind), size, modified, rows, None if text < 0 else texts[text])
            for kind, text, size, modified, rows in zip(*columns, strict=True)
        ]
    return looks


def _texts(result: bytes, at: int) -> tuple[list[Text], int]:
    (count,) = _COUNT.unpack_from(result, at)
    at += _COUNT.size
    texts = []
    for _ in range(count):
        brotli, length = _TEXT.unpack_from(result, at)
        at += _TEXT.size
        texts.append(Text(brotli, result[at : at + length]))
        at += length
    return texts, at
