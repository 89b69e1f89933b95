"""Avro object container files: header and block boundaries, checked before any record is decoded.

A decoder that meets the end of a file takes it for the last block, so a cut file would lose rows without a word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})
"""The codecs that Iceberg's Avro files may use (iceberg 2.14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a container.

    schema: the writer's schema as JSON.
    codec: one of `CODECS`.
    sync: the 16 bytes after every block.
    end: where the first block starts, in bytes.
    """

    schema: Any = field(hash=False)
    codec: str
    sync: bytes
    end: int


def read_header(data: bytes, *, file: str) -> Header:
    """The container's header.

    Raises:
        EncryptedTableError: the file is an encrypted stream.
        CorruptFileError: no Avro container, or a damaged header.
        UnsupportedError: a codec that is not in `CODECS` (iceberg 2.14).
    """
    if data.startswith(b"AGS1"):
        raise EncryptedTableError("Cannot read an encrypted Avro file: harness holds no keys", file=file)
    if not data.startswith(MAGIC):
        raise corrupt(f"it starts with {data[:4]!r}, expected {MAGIC!r}", file)
    metadata, position = _metadata(data, file)
    sync = data[position : position + SYNC_BYTES]
    if len(sync) < SYNC_BYTES:
        raise corrupt("it ends inside the header", file)
    try:
        schema = json.loads(metadata["avro.schema"])
    except (KeyError, ValueError, RecursionError) as error:
        raise corrupt("its header has no readable avro.schema", file) from error
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in CODECS:
        raise UnsupportedError(
            f"Cannot read Avro codec {codec!r}: expected one of {', '.join(sorted(CODECS))}; rewrite the file",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 2.14",
        )
    return Header(schema=schema, codec=codec, sync=sync, end=position + SYNC_BYTES)


def _metadata(data: bytes, file: str) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}
    position = len(MAGIC)
    while True:
        count, position = read_long(data, position, file=file)
        if count == 0:
            return metadata, position
        if count < 0:
            _, position = read_long(data, position, file=file)
        for _ in range(abs(count)):
            key, position = _read_bytes(data, position, file)
            metadata[key.decode(errors="replace")], position = _read_bytes(data, position, file)


def count_records(data: bytes, header: Header, *, file: str) -> int:
    """The number of records in all blocks. Raises CorruptFileError if the blocks do not end with the file."""
    position, records = header.end, 0
    while position < len(data):
        count, position = read_long(data, position, file=file)
        size, position = read_long(data, position, file=file)
        end = position + size
        if count < 0 or size < 0 or end + SYNC_BYTES > len(data):
            raise corrupt("it ends inside a block; it was cut", file)
        if data[end : end + SYNC_BYTES] != header.sync:
            raise corrupt("a block does not end with the sync marker", file)
        position, records = end + SYNC_BYTES, records + count
    return records


def with_schema(data: bytes, header: Header, schema: Any) -> bytes:
    """The same container, declaring another schema of the same layout."""
    metadata: Mapping[str, bytes] = {"avro.schema": json.dumps(schema).encode(), "avro.codec": header.codec.encode()}
    pairs = b"".join(_bytes(key.encode()) + _bytes(value) for key, value in metadata.items())
    return MAGIC + _long(len(metadata)) + pairs + _long(0) + header.sync + data[header.end :]


def read_long(data: bytes, position: int, *, file: str) -> tuple[int, int]:
    """The zigzag variable-length number at `position`, and the position after it."""
    number = shift = 0
    for index in range(position, min(position + 10, len(data))):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), index + 1
        shift += 7
    raise corrupt("it ends inside a number; it was cut", file)


def _read_bytes(data: bytes, position: int, file: str) -> tuple[bytes, int]:
    length, position = read_long(data, position, file=file)
    if length < 0 or position + length > len(data):
        raise corrupt("it ends inside the header", file)
    return data[position : position + length], position + length


def _long(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def corrupt(reason: str, file: str) -> CorruptFileError:
    """The error for an Avro data file that cannot be decoded."""
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause="CorruptDataFile", file=file)
