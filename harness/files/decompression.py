"""Decompression that stops: no codec makes more bytes than the caller allows, whatever the compressed ones claim.

Libraries believe a declared length and allocate it first, and end the process where the memory is not there (snappy);
or they go on until the stream ends (the others). So a declared length is read before the library sees it, and streams
are taken in pieces.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Any

import pyarrow as pa

from harness.files.avro_numbers import decode_unsigned

_PIECE = 1 << 20  # bytes
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


def gunzip(data: bytes, *, most: int) -> bytes:
    """The content of the members of a gzip file; zeros behind the last one are padding.

    Raises:
        TooLongError: as `inflate`.
        EOFError, OSError, zlib.error: a member is damaged, or ends early.
    """
    parts: list[bytes] = []
    left = most
    while data:
        stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        parts.append(_some(stream, data, left, most))
        left -= len(parts[-1])
        data = stream.unused_data.lstrip(b"\0")
    return b"".join(parts)


def all_streams(data: bytes, *, codec: str, most: int) -> bytes:
    """The content of one or more streams of bzip2 or xz, one after the other to the last byte.

    Raises:
        TooLongError: as `inflate`.
        EOFError, OSError, lzma.LZMAError: a stream is damaged, or ends early.
    """
    parts: list[bytes] = []
    left = most
    while data or not parts:
        stream: Any = bz2.BZ2Decompressor() if codec == "bzip2" else lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
        parts.append(_some(stream, data, left, most))
        left -= len(parts[-1])
        data = stream.unused_data
    return b"".join(parts)


def _some(stream: Any, data: bytes, left: int, most: int) -> bytes:
    """All of one stream, or as much as shows that it is too long."""
    plain: bytes = stream.decompress(data, left + 1)
    if len(plain) > left:
        raise TooLongError(most - left + len(plain))
    if not stream.eof:
        raise EOFError("it ends inside a stream")
    return plain


def unzstd(data: bytes, *, most: int) -> bytes:
    """The content of the frames of a zstandard stream.

    Raises:
        TooLongError: as `inflate`.
        OSError: a frame is damaged, or ends early.
    """
    declared = _zstd_declared(data)
    if declared is not None and declared > most:
        raise TooLongError(declared)
    parts: list[bytes] = []
    found = 0
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(_PIECE):
            parts.append(piece)
            found += len(piece)
            if found > most:
                raise TooLongError(found)
    return b"".join(parts)


def _zstd_declared(data: bytes) -> int | None:
    """What the first frame says of the length of its content (RFC 8878, 3.1.1.1); None: nothing."""
    if len(data) < 5:
        return None
    descriptor = data[4]
    is_single = descriptor >> 5 & 1
    width = (is_single, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[descriptor & 3]
    if width == 0 or len(data) < start + width:
        return None
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


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
