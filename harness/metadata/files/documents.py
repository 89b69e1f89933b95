"""Documents that take no more memory than allowed: JSON is measured before it is parsed, decompression stops in time.

A JSON value of two bytes takes up to ninety of memory, and a compressed byte may claim any number of bytes.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from harness.metadata.files.avro_values import decode_unsigned
from harness.storage.limits import Limits

_FOUR = re.compile(rb"[\xf0-\xf7]|\\u[dD][89abAB]")  # characters for which Python holds four bytes for each
_TOKENS = (b"{", b"[", b",", b":")


def check_document(data: bytes, *, file: str, limits: Limits) -> None:
    """Refuses a JSON document that takes too much memory to parse, by its text and by its values.

    Raises LimitError: it has more than `limits.document_bytes`, or more values than `limits.document_values`.
    """
    # Python holds all characters as wide as the widest.
    width = 1 if data.isascii() and b"\\u" not in data else 4 if _FOUR.search(data) else 2
    limits.check("document_bytes", len(data) * width, "bytes of text", file=file)
    # Marks inside of texts count, too: this need not be exact, and is faster than any parser.
    limits.check("document_values", sum(map(data.count, _TOKENS)), "values", file=file)


HEAD = 4096
"""The bytes at the start of a file that tell its kind."""
_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"PARE", "an encrypted Parquet file"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"PFA1", "a Puffin file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file"),
)
_SEPARATED = (".csv", ".tsv")


def kind_of(head: bytes, name: str) -> str:
    """Such as `a Parquet file`, given the first `HEAD` bytes of a file and its name."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[8:12] == b"DUCK":
        return "a DuckDB database"
    if not head:
        return "an empty file"
    try:
        head.decode("utf-8")
        is_text = True
    except UnicodeDecodeError as error:
        is_text = len(head) == HEAD and error.start > HEAD - 4  # a character cut in two
    if not is_text or b"\0" in head:
        return "a binary file"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return "a JSON file"
    return "a CSV file" if name.lower().endswith(_SEPARATED) else "a text file"


# Decompression. Libraries believe a declared length and allocate it first, and end the process where the memory is not
# there (snappy); or they go on until the stream ends (the others). So a declared length is read before the library sees
# it, and streams are taken in pieces.


_PIECE = 1 << 20  # bytes
_FIRST_PIECE = 1 << 9  # bytes of the second stream and of those after it, twice as many with each piece
_ZEROS, _NOTHING = re.compile(rb"\0*"), re.compile(b"")
_SNAPPY_RATIO = 32  # no element of three bytes gives more than 64
_XZ_MEMORY = 128 << 20  # bytes; of the dictionary, which takes 64 MiB at level 9


class TooLongError(Exception):
    """The content is longer than allowed. `found`: bytes that it has at least."""

    def __init__(self, found: int) -> None:
        super().__init__(f"{found:,} bytes")
        self.found = found


def inflate(data: bytes, *, most: int) -> tuple[bytes, bytes]:
    """The content of a raw deflate stream, and what follows the stream.

    Raises:
        TooLongError: the content has more than `most` bytes.
        ValueError, zlib.error: the stream is damaged, or ends early.
    """
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    plain = stream.decompress(data, most + 1)
    if len(plain) > most:
        raise TooLongError(len(plain))
    if not stream.eof:
        plain += stream.flush()
    if not stream.eof:
        raise ValueError("it ends inside its stream")
    return plain, stream.unused_data


def all_streams(data: bytes, *, codec: str, most: int) -> bytes:
    """The content of one or more streams of gzip, bzip2 or xz, one after the other to the last byte.

    Zeros behind a gzip stream are padding.

    Raises:
        TooLongError: as `inflate`.
        EOFError, OSError, zlib.error, lzma.LZMAError: a stream is damaged, or ends early.
    """
    if codec == "gzip":
        return _streams(lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), data, most, padding=_ZEROS)
    if codec == "bzip2":
        return _streams(bz2.BZ2Decompressor, data, most)
    return _streams(lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, most)


def _streams(start: Callable[[], Any], data: bytes, most: int, padding: re.Pattern[bytes] = _NOTHING) -> bytes:
    """All streams, or as much as shows that they are too long. padding: what may stand between them."""
    parts: list[bytes] = []
    left, at = most, 0
    # Of a stream's input, what comes after the stream is copied: of many short ones, that would be all of the rest.
    while True:
        stream, piece = start(), _FIRST_PIECE if parts else len(data)
        while not stream.eof:
            given = data[at : at + piece]
            if not given:
                raise EOFError("it ends inside a stream")
            plain = stream.decompress(given, left + 1)
            if len(plain) > left:
                raise TooLongError(most - left + len(plain))
            parts.append(plain)
            left -= len(plain)
            at, piece = at + len(given) - len(stream.unused_data), piece * 2
        after = padding.match(data, at)
        at = at if after is None else after.end()
        if at == len(data):
            return b"".join(parts)


def unzstd(data: bytes, *, most: int) -> bytes:
    """The content of the frames of a zstandard stream.

    Raises:
        TooLongError: as `inflate`.
        OSError: a frame is damaged, or ends early.
    """
    if len(data) >= 5:  # the length that the first frame declares (RFC 8878, 3.1.1.1)
        is_single, code = data[4] >> 5 & 1, data[4] >> 6
        width, start = (is_single, 2, 4, 8)[code], 5 + (1 - is_single) + (0, 1, 2, 4)[data[4] & 3]
        if width and len(data) >= start + width:
            declared = int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)
            if declared > most:
                raise TooLongError(declared)
    found = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(_PIECE):
            found += piece
            if len(found) > most:
                raise TooLongError(len(found))
    return bytes(found)


def unsnappy(data: bytes, *, most: int) -> bytes:
    """The content of a raw snappy block.

    Raises:
        TooLongError: as `inflate`; the declared length counts.
        ValueError: it is damaged, or declares more than it can hold. ImportError: the package for it is missing.
    """
    import cramjam

    try:
        declared, _ = decode_unsigned(data, 0)
    except IndexError:
        raise ValueError("it ends inside its length") from None
    if declared > most:
        raise TooLongError(declared)
    if declared > _SNAPPY_RATIO * len(data):
        raise ValueError(f"it declares {declared} bytes, more than its {len(data)} can hold")
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
