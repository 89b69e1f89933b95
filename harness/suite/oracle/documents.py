"""JSON documents with checked values, byte readers, and decompression, all within fixed limits.

The oracle reads tables that tests wrote. The limits only ensure that it terminates, whatever bytes it reads.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from harness.errors import CorruptFileError, InvalidTableError

T = TypeVar("T")
Document: TypeAlias = Mapping[str, Any]

MAX_BYTES = 256 << 20  # bytes of a block or a document after decompression
MAX_VALUES = 8_000_000  # values in a JSON document, including the keys of objects
MAX_EMPTY = 1 << 20  # values in a file that occupy no bytes
MAX_POSITIONS = 1 << 24  # deleted rows of one data file
MAX_TYPES = 100_000  # types in a schema; a named type counts at each use


def check_limit(count: int, most: int, kind: str) -> None:
    """Raise ValueError if a count exceeds the limit `most`. `kind` names the counted things."""
    if count > most:
        raise ValueError(f"{count} {kind} exceed the oracle's limit of {most}")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, with exact integers.

    Raise CorruptFileError, without a file name, if it is invalid.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        check_limit(sum(map(decoded.count, "{[,:")), MAX_VALUES, "values")
        return json.loads(decoded, parse_constant=int)  # int() rejects NaN and Infinity
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot parse JSON: {error}") from error


def optional_value(document: Document, key: str, kind: type[T]) -> T | None:
    """Return the value of a key, None if it is null or absent. Raise InvalidTableError if it has another type."""
    value = document.get(key)
    if value is None or type(value) is kind:
        return value
    raise InvalidTableError(f"Invalid {key}: got {value!r:.80}, expected {kind.__name__}", field=key)


def required_value(document: object, key: str, kind: type[T], *, cause: str | None = None) -> T:
    """Return the value of a key. Raise InvalidTableError if it is null, absent, or has another type."""
    value = optional_value(mapping(document), key, kind)
    if value is None:
        raise InvalidTableError(f"Missing {key}, expected {kind.__name__}", cause=cause, field=key)
    return value


def mapping(value: object) -> dict[str, object]:
    """Return the value. Raise InvalidTableError if it is not a JSON object."""
    if not isinstance(value, dict):
        raise InvalidTableError(f"Invalid document: got {value!r:.80}, expected an object")
    return value


def expect_type(value: object, kind: type) -> Any:
    """Return the value. Raise ValueError if its type is not exactly this type."""
    if type(value) is not kind:
        raise ValueError(f"got {value!r:.80}, expected {kind.__name__}")
    return value


class ByteReader:
    """A reader that takes bytes from the front of a buffer."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes. Raise ValueError if fewer bytes remain."""
        part = self.data[self.at : self.at + length]
        if length < 0 or len(part) != length:
            raise ValueError(f"it ends early, after {len(self.data)} bytes")
        self.at += length
        return part

    def number(self, width: int, order: str = "little", *, signed: bool = False) -> int:
        """Return the next integer of `width` bytes."""
        return int.from_bytes(self.take(width), "big" if order == "big" else "little", signed=signed)

    @property
    def remaining(self) -> int:
        """The number of bytes that were not taken yet."""
        return len(self.data) - self.at

    def end(self) -> None:
        """Raise ValueError if bytes remain."""
        if self.remaining:
            raise ValueError(f"{self.remaining} bytes follow it")


_STREAMS: dict[str, Callable[[], Any]] = {
    "deflate": lambda: zlib.decompressobj(wbits=-15),
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=MAX_BYTES),  # the dictionary may be as large as the content
}


def one_stream(codec: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first compressed stream and the bytes after it.

    Damaged data raises ValueError or the codec's own error.
    """
    stream = _STREAMS[codec]()
    plain = bytes(stream.decompress(data, MAX_BYTES + 1))
    check_limit(len(plain), MAX_BYTES, "bytes")
    if not stream.eof:
        raise ValueError("it ends early")
    return plain, bytes(stream.unused_data)


def streams(codec: str, data: bytes) -> bytes:
    """Return the content of all consecutive streams. Zero bytes after a gzip stream are padding."""
    plain, rest = one_stream(codec, data)
    while rest and not (codec == "gzip" and not rest.strip(b"\0")):
        chunk, rest = one_stream(codec, rest)
        plain += chunk
        check_limit(len(plain), MAX_BYTES, "bytes")
    return plain


def unzstd(data: bytes) -> bytes:
    """Return the content of a zstandard stream. Raise ValueError if it is too long, OSError if it is damaged."""
    plain = io.BytesIO()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(1 << 20):
            plain.write(piece)
            check_limit(plain.tell(), MAX_BYTES, "bytes")
    return plain.getvalue()
