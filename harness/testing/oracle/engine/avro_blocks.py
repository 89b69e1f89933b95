"""Avro containers as header and blocks, and the numbers in them; records must use up their block (iceberg 2.14).

The planner of `harness.testing` reads manifests through it, too.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.testing.oracle.engine.bounded import (
    MOST_BYTES,
    MOST_EMPTY,
    bunzipped,
    check,
    inflated,
    unsnappy,
    unxzed,
    unzstd,
)

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4


class UnsupportedAvroError(Exception):
    """A legal Avro file that Iceberg has no meaning for. The text says what it has."""


@dataclass(frozen=True, slots=True)
class Container:
    """The header's values by key, and what is behind it: blocks up to the end."""

    header: Mapping[str, bytes]
    stream: io.BytesIO
    decompress: Callable[[bytes], bytes]
    sync: bytes

    def records(self, decode: Callable[[io.BytesIO], Any]) -> Iterator[Any]:
        """The records, in order. Raises ValueError for a block that is cut, damaged, or not used up by its records."""
        empty = 0
        while self.stream.tell() < len(self.stream.getbuffer()):
            count, size = read_long(self.stream), read_long(self.stream)
            if count < 0 or size < 0:
                raise ValueError(f"a block claims {count} records in {size} bytes")
            block = io.BytesIO(_unpacked(self.decompress, take(self.stream, size)))
            for _ in range(count):
                start = block.tell()
                yield decode(block)
                empty += block.tell() == start
                check(empty, MOST_EMPTY, "records without a byte")
            if block.read(1):
                raise ValueError("a block has more bytes than its records")
            if take(self.stream, _SYNC_BYTES) != self.sync:
                raise ValueError("a block does not end with the file's marker")


def open_container(data: bytes) -> Container:
    """The container in `data`.

    Raises:
        UnsupportedAvroError: a codec that Iceberg's files do not have.
        ValueError: no Avro container, cut, or damaged.
    """
    stream = io.BytesIO(data)
    if take(stream, len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin with Obj and a 1")
    header = dict(_map_of_bytes(stream))
    sync = take(stream, _SYNC_BYTES)
    codec = header.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise UnsupportedAvroError(f"its codec is {codec!r}, expected one of {', '.join(_CODECS)}")
    return Container(header, stream, _CODECS[codec], sync)


def read_long(stream: io.BytesIO) -> int:
    """A zigzag number of at most ten bytes."""
    number = 0
    for shift in range(0, 70, 7):
        (byte,) = take(stream, 1)
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError("a number has more than ten bytes")


def read_items(stream: io.BytesIO, decode: Callable[[io.BytesIO], Any]) -> Iterator[Any]:
    """Items in blocks, each behind its count; a negative count is followed by the block's bytes."""
    empty = 0
    while count := read_long(stream):
        size = read_long(stream) if count < 0 else None
        start = stream.tell()
        for _ in range(abs(count)):
            before = stream.tell()
            yield decode(stream)
            empty += stream.tell() == before
            check(empty, MOST_EMPTY, "items without a byte")
        if size is not None and stream.tell() != start + size:
            raise ValueError("a block of items is not as long as it says")


def take(stream: io.BytesIO, length: int) -> bytes:
    """That many bytes. Raises ValueError if there are fewer."""
    data = stream.read(length) if length >= 0 else b""
    if len(data) != length:
        raise ValueError("it ends early")
    return data


def _map_of_bytes(stream: io.BytesIO) -> Iterator[tuple[str, bytes]]:
    def pair(stream: io.BytesIO) -> tuple[str, bytes]:
        key = take(stream, read_long(stream)).decode()
        return key, take(stream, read_long(stream))

    return read_items(stream, pair)


def _unpacked(decompress: Callable[[bytes], bytes], data: bytes) -> bytes:
    try:
        return decompress(data)
    except Exception as error:  # each codec's library has its own
        raise ValueError(f"a block cannot be decompressed: {error}") from error


def _snappy(data: bytes) -> bytes:
    plain = unsnappy(data[:-_CRC_BYTES])
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != data[-_CRC_BYTES:]:
        raise ValueError("its checksum is wrong")
    return plain


def _deflate(data: bytes) -> bytes:
    plain, rest = inflated(data, wbits=-15)
    checksum = zlib.adler32(plain).to_bytes(4, "big")
    # Python's writers leave up to three bytes of zlib's checksum behind the stream.
    if rest not in [checksum[:length] for length in range(5)]:
        raise ValueError("it ends before its block does, or after it")
    return plain


def _streams(unpack: Callable[[bytes], tuple[bytes, bytes]], data: bytes) -> bytes:
    """All streams that follow one another."""
    plain, rest = unpack(data)
    while rest:
        more, rest = unpack(rest)
        plain += more
        check(len(plain), MOST_BYTES, "bytes")
    return plain


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": unzstd,
    "bzip2": lambda data: _streams(bunzipped, data),
    "xz": lambda data: _streams(unxzed, data),
}
