"""Avro object container files: the header, and the plain bytes of each block, checked before any record is decoded.

Manifests and data files are such containers alike. A decoder that meets the end of a file takes it for the last block,
so a cut file would lose rows without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError
from harness.files.avro_codecs import CODECS, decompress
from harness.files.avro_numbers import decode_bytes, decode_long
from harness.files.documents import check_document
from harness.limits import DEFAULT, Limits
from harness.records import dataclass

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
