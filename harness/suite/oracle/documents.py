"""JSON documents, checked as their values are taken, and compressed bytes; no claim of a file is without a bound.

The oracle reads what tests wrote, so that it needs no more than to end, whatever bytes it reads.
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

MAX_BYTES = 256 << 20  # of a block or a document after decompression
MAX_VALUES = 8_000_000  # of a JSON document, an object's keys counted too
MAX_EMPTY = 1 << 20  # values of a file that take no byte of it
MAX_POSITIONS = 1 << 24  # deleted rows of one data file
MAX_TYPES = 100_000  # of a schema, a named type counted at each use


def check(found: int, most: int, kind: str) -> None:
    """Refuses, by ValueError, more than the oracle takes."""
    if found > most:
        raise ValueError(f"{found} {kind} are more than the oracle reads, which is {most}")


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text, integers exact. Raises CorruptFileError; the caller knows the file."""
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        check(sum(map(decoded.count, "{[,:")), MAX_VALUES, "values")
        return json.loads(decoded, parse_constant=int)  # which refuses NaN and Infinity
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot parse JSON: {error}") from error


def optional_value(document: Document, key: str, kind: type[T]) -> T | None:
    """The value of a key; None where it is null or absent. Raises InvalidTableError for a value of another kind."""
    value = document.get(key)
    if value is None or type(value) is kind:
        return value
    raise InvalidTableError(f"Invalid {key}: got {value!r:.80}, expected {kind.__name__}", field=key)


def required_value(document: object, key: str, kind: type[T], *, cause: str | None = None) -> T:
    """The value of a key. Raises InvalidTableError if the value is null, absent, or of another kind."""
    value = optional_value(mapping(document), key, kind)
    if value is None:
        raise InvalidTableError(f"Missing {key}, expected {kind.__name__}", cause=cause, field=key)
    return value


def mapping(value: object) -> dict[str, object]:
    """The value as a JSON object. Raises InvalidTableError for any other."""
    if not isinstance(value, dict):
        raise InvalidTableError(f"Invalid document: got {value!r:.80}, expected an object")
    return value


def expect_type(value: object, kind: type) -> Any:
    """The value, of this type and no subclass. Raises ValueError for any other."""
    if type(value) is not kind:
        raise ValueError(f"got {value!r:.80}, expected {kind.__name__}")
    return value


class ByteReader:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        """So many bytes. Raises ValueError if there are fewer."""
        part = self.data[self.at : self.at + length]
        if length < 0 or len(part) != length:
            raise ValueError(f"it ends early, after {len(self.data)} bytes")
        self.at += length
        return part

    def number(self, width: int, order: str = "little", *, signed: bool = False) -> int:
        """The next number of so many bytes."""
        return int.from_bytes(self.take(width), "big" if order == "big" else "little", signed=signed)

    @property
    def remaining(self) -> int:
        """The number of bytes that are left."""
        return len(self.data) - self.at

    def end(self) -> None:
        """Refuses, by ValueError, bytes that are left."""
        if self.remaining:
            raise ValueError(f"{self.remaining} bytes follow it")


_STREAMS: dict[str, Callable[[], Any]] = {
    "deflate": lambda: zlib.decompressobj(wbits=-15),
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=MAX_BYTES),  # its dictionary may be as large as the content
}


def one_stream(codec: str, data: bytes) -> tuple[bytes, bytes]:
    """The content of one stream, and the bytes behind it. Raises ValueError, or the codec's own error."""
    stream = _STREAMS[codec]()
    plain = bytes(stream.decompress(data, MAX_BYTES + 1))
    check(len(plain), MAX_BYTES, "bytes")
    if not stream.eof:
        raise ValueError("it ends early")
    return plain, bytes(stream.unused_data)


def streams(codec: str, data: bytes) -> bytes:
    """The content of all streams that follow one another; zeros behind gzip are padding."""
    plain, rest = one_stream(codec, data)
    while rest and not (codec == "gzip" and not rest.strip(b"\0")):
        more, rest = one_stream(codec, rest)
        plain += more
        check(len(plain), MAX_BYTES, "bytes")
    return plain


def unzstd(data: bytes) -> bytes:
    """The content of a zstandard stream. Raises ValueError if it is too long, OSError for damage."""
    plain = io.BytesIO()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(1 << 20):
            plain.write(piece)
            check(plain.tell(), MAX_BYTES, "bytes")
    return plain.getvalue()
