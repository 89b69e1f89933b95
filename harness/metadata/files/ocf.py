"""Avro object container files: the header, and the plain bytes of each block, checked before any record is decoded.

Manifests and data files are such containers alike. A decoder that meets the end of a file takes it for the last block,
so a cut file would lose rows without a word.
"""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError
from harness.metadata.files.avro_numbers import decode_bytes, decode_long
from harness.metadata.files.decompression import TooLongError, all_streams, inflate, unsnappy, unzstd
from harness.metadata.files.documents import check_document
from harness.storage.limits import DEFAULT, Limits, refusal
from harness.storage.records import dataclass

# Block codecs of Avro containers (iceberg 2.14). A block must be used up to its last byte: a rest is damage.


CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})
"""The codecs that Iceberg's Avro files may use (iceberg 2.14)."""

_CRC_BYTES = 4


def decompress(codec: str, block: bytes, *, file: str, cause: str, limits: Limits) -> bytes:
    """The plain bytes of one block of a codec in `CODECS`. `file` and `cause` are for messages.

    Raises:
        UnsupportedError: the package for the codec is missing. Cause `UnsupportedCodec`.
        CorruptFileError: the block is damaged. Cause `cause`.
        LimitError: it holds more than `limits.block_bytes`.
    """
    try:
        return _decompress(codec, block, limits.block_bytes)
    except TooLongError as error:
        asked = f"a block ({codec}) of {len(block):,} bytes holds {error.found:,} or more, {limits.block_bytes:,} are"
        raise refusal("block_bytes", f"{asked} allowed", file=file) from error
    except ImportError as error:
        raise UnsupportedError(
            f"Cannot read Avro codec {codec!r} without the package cramjam; install it",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 2.14",
        ) from error
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"Cannot decompress a block ({codec}): {error}", cause=cause, file=file, rule="iceberg 2.14"
        ) from error


def _decompress(codec: str, block: bytes, most: int) -> bytes:
    match codec:
        case "deflate":
            return _inflate(block, most)
        case "bzip2" | "xz":
            return all_streams(block, codec=codec, most=most)
        case "zstandard":
            return unzstd(block, most=most)
        case "snappy":
            return _unsnappy(block, most)
        case _:
            return block


def _inflate(block: bytes, most: int) -> bytes:
    plain, rest = inflate(block, most=most)
    # Python's writers cut a zlib stream out of its wrapping and leave most of the checksum behind it.
    if rest and not zlib.adler32(plain).to_bytes(4, "big").startswith(rest):
        raise ValueError(f"{len(rest)} bytes follow its stream")
    return plain


def _unsnappy(block: bytes, most: int) -> bytes:
    # Avro puts a big-endian CRC-32 of the plain bytes behind the snappy data.
    plain = unsnappy(block[:-_CRC_BYTES], most=most)
    if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:
        raise ValueError("the checksum is wrong")
    return plain


Cause: TypeAlias = Literal["CorruptManifest", "CorruptDataFile"]
"""What damage is called, by what the file is to the table."""

MAGIC = b"Obj\x01"
SYNC_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a container.

    schema: the writer's schema as JSON.
    metadata: the header's values by key, the `avro.` ones too.
    codec: one of `CODECS`.
    sync: the 16 bytes after every block.
    end: where the first block starts, in bytes.
    """

    schema: Any = field(hash=False, repr=False)
    metadata: Mapping[str, bytes] = field(hash=False, repr=False)
    codec: str
    sync: bytes
    end: int


def read_header(data: bytes, *, file: str, cause: Cause, limits: Limits = DEFAULT) -> Header:
    """The container's header.

    Raises:
        EncryptedTableError: the file is an encrypted stream (iceberg 2.19).
        CorruptFileError: no Avro container, or a damaged header.
        UnsupportedError: a codec that is not in `CODECS` (iceberg 2.14).
        LimitError: its schema is a document beyond `limits`.
    """
    if data.startswith(b"AGS1"):
        raise EncryptedTableError(
            "Cannot read an encrypted Avro file: harness holds no keys",
            cause="EncryptedTable",
            file=file,
            rule="iceberg 2.19",
        )
    if not data.startswith(MAGIC):
        raise corrupt(f"it starts with {data[:4]!r}, expected {MAGIC!r}", file, cause)
    try:
        metadata, position = _metadata(data)
    except (IndexError, ValueError) as error:
        raise corrupt("its header is cut or damaged", file, cause) from error
    sync = data[position : position + SYNC_BYTES]
    if len(sync) < SYNC_BYTES:
        raise corrupt("it ends inside the header", file, cause)
    check_document(metadata.get("avro.schema", b""), file=file, limits=limits)
    try:
        schema = _schema(metadata["avro.schema"])
    except (KeyError, ValueError, RecursionError) as error:
        raise corrupt("its header has no readable avro.schema", file, cause) from error
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in CODECS:
        raise UnsupportedError(
            f"Cannot read Avro codec {codec!r}: expected one of {', '.join(sorted(CODECS))}; rewrite the file",
            cause="UnsupportedCodec",
            file=file,
            rule="iceberg 2.14",
        )
    return Header(schema=schema, metadata=metadata, codec=codec, sync=sync, end=position + SYNC_BYTES)


@lru_cache(maxsize=8)
def _schema(text: bytes) -> Any:
    """The document; manifests of one table have one schema, and nobody changes it."""
    return json.loads(text)


def _metadata(data: bytes) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}
    position = len(MAGIC)
    while True:
        count, position = decode_long(data, position)
        if count == 0:
            return metadata, position
        if count < 0:
            _, position = decode_long(data, position)
        # A count that lies ends with the data: each pair takes two bytes or more.
        for _ in range(abs(count)):
            key, position = decode_bytes(data, position)
            metadata[key.decode()], position = decode_bytes(data, position)


def blocks(
    data: bytes, header: Header, *, file: str, cause: Cause, limits: Limits = DEFAULT
) -> Iterator[tuple[int, bytes]]:
    """The number of records and the plain bytes of every block, in order.

    Raises:
        CorruptFileError: a block is damaged, or the blocks do not end with the file.
        UnsupportedError: the package for the codec is missing.
        LimitError: a block holds more than `limits.block_bytes`.
    """
    position = header.end
    while position < len(data):
        try:
            count, position = decode_long(data, position)
            size, position = decode_long(data, position)
        except (IndexError, ValueError) as error:
            raise corrupt("it ends inside a number; it was cut", file, cause) from error
        end = position + size
        if count < 0 or size < 0 or end + SYNC_BYTES > len(data):
            raise corrupt("it ends inside a block; it was cut", file, cause)
        if data[end : end + SYNC_BYTES] != header.sync:
            raise corrupt("a block does not end with the sync marker", file, cause)
        yield count, decompress(header.codec, data[position:end], file=file, cause=cause, limits=limits)
        position = end + SYNC_BYTES


def corrupt(reason: str, file: str, cause: Cause, column: str | None = None) -> CorruptFileError:
    """The error for an Avro file that cannot be decoded."""
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause=cause, file=file, field=column)
