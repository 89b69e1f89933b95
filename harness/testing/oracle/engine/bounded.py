"""Limits of the oracle: one number for each kind of claim of a file, and no option.

The oracle reads what tests wrote, and judges; so it needs no more than to end, whatever it is given. Its numbers are
those of `harness.storage.limits`, said again, because it shares nothing with what it judges.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 256 << 20
"""Bytes of a block or a document after decompression."""

MOST_VALUES = 8_000_000
"""Values of a JSON document, an object's keys counted too."""

MOST_EMPTY = 1 << 20
"""Values of a file that take no byte of it."""

MOST_POSITIONS = 1 << 24
"""Deleted rows of one data file, each of which is a number of Python's in a set."""

MOST_TYPES = 100_000
"""Types of a schema, a named type counted at each use."""

_PIECE = 1 << 20


@dataclass(slots=True)
class Budget:
    """The number of things that may still come. what: their name in the error."""

    left: int
    what: str

    def spend(self) -> None:
        """Takes one. Raises ValueError if none is left."""
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"it has more {self.what} than the oracle reads")


def check(found: int, most: int, what: str) -> None:
    """Refuses, by ValueError, more than the oracle takes."""
    if found > most:
        raise ValueError(f"{found} {what} are more than the oracle reads, which is {most}")


def take(stream: io.BytesIO, length: int) -> bytes:
    """So many bytes. Raises ValueError if there are fewer."""
    data = stream.read(length) if length >= 0 else b""
    if len(data) != length:
        raise ValueError("it ends early")
    return data


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "deflate": lambda: zlib.decompressobj(wbits=-15),
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=MOST_BYTES),  # its dictionary may be as large as the content
}


def streams(codec: str, data: bytes) -> bytes:
    """The content of all streams that follow one another; zeros behind gzip are padding."""
    plain, rest = one_stream(codec, data)
    while rest and not (codec == "gzip" and not rest.strip(b"\0")):
        more, rest = one_stream(codec, rest)
        plain += more
        check(len(plain), MOST_BYTES, "bytes")
    return plain


def one_stream(codec: str, data: bytes) -> tuple[bytes, bytes]:
    """The content of one stream, and the bytes behind it. Raises ValueError, or the codec's own error."""
    stream = _DECOMPRESSORS[codec]()
    plain = bytes(stream.decompress(data, MOST_BYTES + 1))
    check(len(plain), MOST_BYTES, "bytes")
    if not stream.eof:
        raise ValueError("it ends early")
    return plain, bytes(stream.unused_data)


def unzstd(data: bytes) -> bytes:
    """The content of a zstandard stream, taken in pieces. Raises ValueError if it is too long, OSError for damage."""
    import pyarrow as pa

    plain = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(_PIECE):
            plain += piece
            check(len(plain), MOST_BYTES, "bytes")
    return bytes(plain)


def unsnappy(data: bytes) -> bytes:
    """The content of a raw snappy block; its declared length is looked at first. Raises ValueError."""
    import cramjam

    last = next((place for place, byte in enumerate(data[:10]) if byte < 0x80), 9)
    declared = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data[: last + 1]))
    check(declared, MOST_BYTES, "bytes")
    return bytes(cramjam.snappy.decompress_raw(data))
