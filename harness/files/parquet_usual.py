"""Parquet footers as all known writers make them, checked by regular expressions: a tenth of the time of a parser.

A footer that is not as is usual, or not right, is left to `harness.files.parquet_counts`. What is found right here is
right there, but for places: of these only the signs are looked at.
"""

from __future__ import annotations

import re
from functools import cache

from harness.files.parquet_counts import Leaf, leaves_before
from harness.files.parquet_tail import varint

_FIELD_LIST, _FIELD_COUNT, _STRUCT, _MANY = 0x19, 0x16, 12, 15


def is_usual(footer: bytes, schema: bytes) -> bool:
    """Tells whether a footer is as is usual, and its counts are true of each other.

    schema: what it begins with, `harness.files.parquet_tail.Tail.schema`.
    """
    try:
        return _is_usual(footer, len(schema), leaves_before(schema))
    except (IndexError, ValueError):
        return False


def _is_usual(footer: bytes, at: int, leaves: tuple[Leaf, ...]) -> bool:
    if footer[at] != _FIELD_COUNT:
        return False
    rows, at = varint(footer, at + 1)
    groups, at = _list(footer, at)
    counted = 0
    for _ in range(groups):
        columns, at = _list(footer, at)
        if columns != len(leaves):
            return False
        found = []
        for leaf in leaves:
            before = _before_path().match(footer, at)
            if before is None or not leaf.path or not footer.startswith(leaf.path, before.end()):
                return False
            behind = _behind_path().match(footer, before.end() + len(leaf.path))
            if behind is None or before[1] != bytes((leaf.type << 1,)):
                return False
            found.append(behind[1])
            at = behind.end()
        end = _end_of_group().match(footer, at)
        if end is None:
            return False
        of_group = end[1]
        count, _ = varint(of_group, 0)
        for leaf, values in zip(leaves, found, strict=True):
            if values != of_group and (not leaf.repeated or varint(values, 0)[0] < count):
                return False
        counted += count
        at = end.end()
    return counted == rows


def _list(footer: bytes, at: int) -> tuple[int, int]:
    """Of a field that is a list of structs: how many it has, and where the first begins."""
    if footer[at] != _FIELD_LIST or footer[at + 1] & 0x0F != _STRUCT:
        raise ValueError
    count = footer[at + 1] >> 4
    return varint(footer, at + 2) if count == _MANY else (count, at + 2)


_NUMBER = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"


def _class(numbers: range) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % number for number in numbers) + b"]"


_COUNT = b"(?:%b|%b[\\x80-\\xff]{0,4}+[\\x00-\\x7f])" % (_class(range(0, 0x80, 2)), _class(range(0x80, 0x100, 2)))
"""A number that is not negative, and below 2^41."""
_LONGEST = 64
"""Of the bounds in statistics: of longer ones a parser is quicker, as writers cut them or leave them out."""


def _times(part: bytes, kind: int, most: int) -> bytes:
    """A list of up to so many values of a type."""
    return b"(?:%b)" % b"|".join(b"\\x%02x(?:%b){%d}" % (n << 4 | kind, part, n) for n in range(most + 1))


@cache
def _before_path() -> re.Pattern[bytes]:
    """A column chunk up to the names of its column; group 1: the physical type."""
    encodings = _times(_NUMBER, 5, 6)
    return re.compile(rb"(?:\x26%b)?+\x1c\x15(%b)\x19%b\x19" % (_NUMBER, _NUMBER, encodings))


@cache
def _behind_path() -> re.Pattern[bytes]:
    """The rest of it: codec, counts and places, statistics, encodings of pages, Bloom filter, sizes, page index."""
    lengths = sorted(range(_LONGEST + 1), key=lambda n: (n not in (8, 4, 1, 2, 16), n))
    text = b"(?:%b)" % b"|".join(b"\\x%02x[\\x00-\\xff]{%d}" % (n, n) for n in lengths)
    statistics = rb"[\x1c\x2c\x3c](?:[\x18\x28\x38\x48\x58\x68]%b|[\x16\x26\x36\x46]%b|[\x11\x12\x21\x22])*+\x00"
    pages = _times(rb"\x15%b\x15%b\x15%b\x00" % ((_NUMBER,) * 3), 12, 4)
    sizes = rb"[\x1c\x2c\x3c](?:\x16%b|[\x19\x29\x39]%b)*+\x00" % (_NUMBER, _times(_NUMBER, 6, 4))
    parts = (
        rb"\x15%b\x16(%b)\x16%b\x16%b[\x26\x46]%b" % (_NUMBER, _COUNT, _COUNT, _COUNT, _COUNT),
        rb"(?:\x26%b)?+" % _COUNT,
        rb"(?:%b)?+" % (statistics % (text, _NUMBER)),
        rb"(?:\x19%b)?+" % pages,
        rb"(?:[\x16\x26]%b|\x15%b)*+" % (_NUMBER, _NUMBER),
        rb"(?:%b)?+\x00" % sizes,
        rb"(?:[\x15\x16\x25\x26]%b)*+\x00" % _NUMBER,
    )
    return re.compile(b"".join(parts))


@cache
def _end_of_group() -> re.Pattern[bytes]:
    """A row group behind its columns; group 1: the rows."""
    return re.compile(rb"\x16%b\x16(%b)(?:[\x16\x26]%b|\x14%b)*+\x00" % (_NUMBER, _COUNT, _NUMBER, _NUMBER))
