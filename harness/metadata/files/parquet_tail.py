"""The end of a Parquet file, as far as it says what many files can be held against each other by, without parsing it.

Files of one writer have footers that begin alike: the version, then the schema, byte for byte. So a schema that was
parsed once is known again by its bytes, and the row count stands right behind it. The spec: Apache Parquet,
`FileMetaData` in Thrift's compact protocol, whose fields 1 to 3 are version, schema and num_rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.storage.records import dataclass

TAIL_BYTES = 1 << 16
"""What to read of the end of a file: most footers are shorter."""

FRAME = 8
"""Bytes of the footer's length and the magic."""
_MAGIC = b"PAR1"
_VERSION, _SCHEMA, _NUM_ROWS = 0x15, 0x19, 0x16  # headers of fields 1 (i32), 2 (list) and 3 (i64), each after the last
_MOST_DEEP = 16

_SPARK = b"org.apache.spark."
_VERSIONED = re.compile(rb"version\x18[\x01-\x7f]([0-9]{1,4})\.")
_GREGORIAN_SINCE = 3
_GEO_KEY = b"geo"


@dataclass(frozen=True, slots=True)
class Tail:
    """What the end of one file says.

    schema: the bytes of version and schema: files that agree in them have the same schema.
    rows: the row count.
    may_be_legacy: whether a key of the file's metadata may say that its writer counted days in the old calendar.
    may_be_geo: whether the file's metadata may have the key `geo`.
    """

    schema: bytes
    rows: int
    may_be_legacy: bool
    may_be_geo: bool


def tail_length(data: bytes) -> int:
    """How many bytes of the end of a file hold its footer, as its last bytes say; 0 where they are not of Parquet."""
    if data[-4:] != _MAGIC or len(data) < FRAME:
        return 0
    return int.from_bytes(data[-FRAME:-4], "little") + FRAME


def claims_too_much(data: bytes) -> bool:
    """Whether a footer may claim a list of a million elements and more, for which DuckDB takes memory at once.

    It may be a text or a statistic that looks so: a parser with limits has to tell. For a text that it claims, however
    long, DuckDB takes no memory before it has read it (1.5, 2.0).

    data: the end of a file that holds all of its footer.
    """
    # The pages before the footer are full of such bytes.
    footer = data[max(0, len(data) - tail_length(data)) : len(data) - FRAME]
    kinds = footer.translate(_KINDS)
    return any(number in kinds for number in _LONG) and _LONG_LIST.search(footer) is not None


_KINDS = b"s" * 0x40 + b"L" * 0x40 + b"+" * 0x80
"""By byte of a varint: one that another follows, or the last one: small or large."""
_LONG = (b"++L", b"+++")
"""Parts of numbers from 2^20 on. A regular expression takes ten times as long, and is only asked where there is one."""
_LONG_LIST = re.compile(rb"[\xf0-\xff](?:[\x80-\xff]{2}[\x40-\x7f]|[\x80-\xff]{3})")
"""The header of a list whose size follows, and a size from 2^20 on, or of more bytes than that takes."""


def parse_tail(data: bytes, known: Iterable[bytes] = ()) -> Tail | None:
    """What the last bytes of a file say; None if they do not hold all of the footer, or it is not as is usual.

    Where None is given, a reader of Parquet must tell what is wrong, if anything is.

    Args:
        data: the end of the file, or all of it.
        known: schemas of other tails, which save parsing.
    """
    if data[-4:] != _MAGIC or len(data) <= FRAME:
        return None
    length = int.from_bytes(data[-FRAME:-4], "little")
    if length > len(data) - FRAME:
        return None
    footer = data[-FRAME - length : -FRAME]
    schema = next((schema for schema in known if footer.startswith(schema)), None)
    try:
        end = _end_of_schema(footer) if schema is None else len(schema)
        if footer[end] != _NUM_ROWS:
            return None
        rows, _ = varint(footer, end + 1)
    except (IndexError, ValueError):
        return None
    if rows & 1:  # zigzag: a negative count
        return None
    return Tail(footer[:end], rows >> 1, _may_be_legacy(footer), _GEO_KEY in footer)


def _may_be_legacy(footer: bytes) -> bool:
    """Whether there is a mention of Spark in the footer that may be its legacy mode, or an old version of it."""
    return _SPARK in footer and any(_is_doubtful(mention) for mention in footer.split(_SPARK)[1:])


def _is_doubtful(mention: bytes) -> bool:
    version = _VERSIONED.match(mention)
    if version is not None:
        return int(version[1]) < _GREGORIAN_SINCE
    return mention.startswith((b"legacy", b"version"))


def _end_of_schema(footer: bytes) -> int:
    if footer[0] != _VERSION:
        raise ValueError
    _, at = varint(footer, 1)
    if footer[at] != _SCHEMA:
        raise ValueError
    return _skip_list(footer, at + 1, 0)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and where the next byte is."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError


def skip_value(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where a value of a Thrift type ends that begins at `at`, in so many structs and lists."""
    if depth > _MOST_DEEP:
        raise ValueError
    match kind:
        case 1 | 2:  # a Boolean field, whose value is its type
            return at
        case 3:
            return at + 1
        case 4 | 5 | 6:
            return varint(data, at)[1]
        case 7:
            return at + 8
        case 8:
            length, at = varint(data, at)
            return at + length
        case 9 | 10:
            return _skip_list(data, at, depth + 1)
        case 12:
            return _skip_struct(data, at, depth + 1)
        case _:
            raise ValueError


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    while True:
        header = data[at]
        at += 1
        if header == 0:
            return at
        if header < 0x10:  # the field's number follows, rather than its distance from the last
            _, at = varint(data, at)
        at = skip_value(data, at, header & 0x0F, depth)


def _skip_list(data: bytes, at: int, depth: int) -> int:
    header = data[at]
    count, kind, at = header >> 4, header & 0x0F, at + 1
    if count == 0x0F:
        count, at = varint(data, at)
    for _ in range(count):
        at = at + 1 if kind in (1, 2) else skip_value(data, at, kind, depth)  # in a list, a Boolean is a byte
        if at > len(data):
            raise ValueError
    return at
