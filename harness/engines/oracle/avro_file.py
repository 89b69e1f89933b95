"""Avro data files, decoded byte by byte: the container, its schema, and its records (iceberg 7.3)."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.engines.oracle.avro_types import AvroType, UnsupportedAvroError, parse_type, read_long
from harness.engines.oracle.stored import Row, StoredFile

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4


def open_avro(data: bytes) -> StoredFile:
    """The columns and rows of an Avro container.

    Raises:
        UnsupportedAvroError: a codec or a type that Iceberg's files do not have.
        ValueError: no Avro container, cut, or damaged; also while its rows are taken.
    """
    stream = io.BytesIO(data)
    if _take(stream, len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin with Obj and a 1")
    header = dict(_map_of_bytes(stream))
    sync = _take(stream, _SYNC_BYTES)
    if "avro.schema" not in header:
        raise ValueError("its header has no avro.schema")
    root = parse_type(json.loads(header["avro.schema"]))
    if root.column.type != "struct" or root.is_optional:
        raise UnsupportedAvroError("its root is not a record")
    codec = header.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise UnsupportedAvroError(f"its codec is {codec!r}, expected one of {', '.join(_CODECS)}")
    return StoredFile(columns=root.column.parts, rows=_rows(stream, root, _CODECS[codec], sync))


def _rows(stream: io.BytesIO, root: AvroType, decompress: Callable[[bytes], bytes], sync: bytes) -> Iterator[Row]:
    while stream.tell() < len(stream.getbuffer()):
        count, size = read_long(stream), read_long(stream)
        if count < 0 or size < 0:
            raise ValueError(f"a block claims {count} records in {size} bytes")
        block = io.BytesIO(_unpacked(decompress, _take(stream, size)))
        for _ in range(count):
            yield root.decode(block)
        if block.read(1):
            raise ValueError("a block has more bytes than its records")
        if _take(stream, _SYNC_BYTES) != sync:
            raise ValueError("a block does not end with the file's marker")


def _unpacked(decompress: Callable[[bytes], bytes], data: bytes) -> bytes:
    try:
        return decompress(data)
    except Exception as error:  # each codec's library has its own
        raise ValueError(f"a block cannot be decompressed: {error}") from error


def _map_of_bytes(stream: io.BytesIO) -> Iterator[tuple[str, bytes]]:
    while count := read_long(stream):
        if count < 0:
            read_long(stream)
        for _ in range(abs(count)):
            key = _take(stream, read_long(stream)).decode()
            yield key, _take(stream, read_long(stream))


def _take(stream: io.BytesIO, length: int) -> bytes:
    data = stream.read(length) if length >= 0 else b""
    if len(data) != length:
        raise ValueError("it ends early")
    return data


def _snappy(data: bytes) -> bytes:
    import cramjam

    plain = bytes(cramjam.snappy.decompress_raw(data[:-_CRC_BYTES]))
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != data[-_CRC_BYTES:]:
        raise ValueError("its checksum is wrong")
    return plain


def _zstandard(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.decompress(data))


def _deflate(data: bytes) -> bytes:
    return zlib.decompress(data, wbits=-15)


def _plain(data: Any) -> bytes:
    return bytes(data)


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
