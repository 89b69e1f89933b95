"""Avro object containers: manifest lists, manifests, data files and delete files, from header to records.

Every block is checked before a record is decoded: a decoder that meets the end of a file takes it for the last block,
so a cut file would lose rows without a word. Manifests are read by `Wanted` fields, found by field id. Data files are
read whole, by `harness.metadata.files.avro`.
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
from harness.metadata.files.avro_decoding import (
    Plain,
    Struct,
    Wanted,
    column_of,
    decode_error,
    schema_error,
    union_branches,
)
from harness.metadata.files.avro_values import DAMAGE, AvroColumn, Tally, decode_bytes, decode_long
from harness.metadata.files.documents import TooLongError, all_streams, check_document, inflate, unsnappy, unzstd
from harness.storage.limits import DEFAULT, Limits, refusal
from harness.storage.records import dataclass

# Block codecs of Avro containers (iceberg 2.14). A block must be used up to its last byte: a rest is damage.


CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})
"""The codecs that Iceberg's Avro files may use (iceberg 2.14)."""

_CRC_BYTES = 4


def decompress(codec: str, block: bytes, *, file: str, cause: str, limits: Limits) -> bytes:
    """The plain bytes of one block of a codec in `CODECS`. `file` and `cause` are for messages.

    Raises:
        UnsupportedError: the installed pyarrow was built without the codec. Cause `UnsupportedCodec`.
        CorruptFileError: the block is damaged. Cause `cause`.
        LimitError: it holds more than `limits.block_bytes`.
    """
    most = limits.block_bytes
    try:
        match codec:
            case "deflate":
                plain, rest = inflate(block, most=most)
                # Python's writers cut a zlib stream out of its wrapping and leave most of the checksum behind it.
                if rest and not zlib.adler32(plain).to_bytes(4, "big").startswith(rest):
                    raise ValueError(f"{len(rest)} bytes follow its stream")
                return plain
            case "bzip2" | "xz":
                return all_streams(block, codec=codec, most=most)
            case "zstandard":
                return unzstd(block, most=most)
            case "snappy":
                # Avro puts a big-endian CRC-32 of the plain bytes behind the snappy data.
                plain = unsnappy(block[:-_CRC_BYTES], most=most)
                if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:
                    raise ValueError("the checksum is wrong")
                return plain
            case _:
                return block
    except TooLongError as error:
        asked = f"a block ({codec}) of {len(block):,} bytes holds {error.found:,} or more, {most:,} are"
        raise refusal("block_bytes", f"{asked} allowed", file=file) from error
    except NotImplementedError as error:
        message = f"Cannot read Avro codec {codec!r}: the installed pyarrow was built without it; use PyPI's"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14") from error
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"Cannot decompress a block ({codec}): {error}", cause=cause, file=file, rule="iceberg 2.14"
        ) from error


Cause: TypeAlias = Literal["CorruptManifest", "CorruptDataFile"]
"""The name of damage, by what the file is to the table."""

MAGIC = b"Obj\x01"
SYNC_BYTES = 16


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


def corrupt(reason: str, file: str, cause: Cause, column: str | None = None) -> CorruptFileError:
    """The error for an Avro file that cannot be decoded."""
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause=cause, file=file, field=column)


@dataclass(frozen=True, slots=True)
class WriterField:
    """A field as the writer declared it. kind: logical type, else primitive type, of its non-null branch."""

    id: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class Container:
    """An opened Avro file.

    schema: the writer's, as JSON. metadata: the header's values by key, the `avro.` ones too. codec: one of `CODECS`.
    sync: the 16 bytes after every block. end: where the first block starts, in bytes.
    """

    file: str
    data: bytes = field(repr=False)
    cause: Cause
    limits: Limits
    schema: Any = field(hash=False, repr=False)
    metadata: Mapping[str, bytes] = field(hash=False, repr=False)
    codec: str
    sync: bytes
    end: int

    def text(self, key: str) -> str | None:
        """A header value as text; None if there is no such key, or its value is not UTF-8 (headers are optional)."""
        value = self.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    def fields(self, *path: Wanted) -> tuple[WriterField, ...]:
        """The writer's fields of the record at `path` from the top; empty if there is no such record.

        Raises CorruptFileError: the schema is not Avro. Cause `CorruptManifest`.
        """
        names: dict[str, Any] = {}
        try:
            record = _resolved(_type_at(self.schema, path, names), names)
            found = []
            for declared in record.get("fields", ()):
                id_, branches = declared.get("field-id"), union_branches(declared["type"])
                branch = next((b for b in branches if b != "null"), "null")
                kind = branch if isinstance(branch, str) else str(branch.get("logicalType", branch.get("type")))
                found.append(WriterField(id_ if isinstance(id_, int) else None, kind))
            return tuple(found)
        except (*DAMAGE, RecursionError) as error:
            raise schema_error(error, file=self.file) from error

    def column(self, *path: Wanted) -> AvroColumn:
        """A column of the values of the field at `path` from the top; LookupError if there is no such field."""
        type_ = _type_at(self.schema, path, {})
        if type_ is None:
            raise LookupError(path)
        return column_of(self.schema, type_, Plain(), Tally(self.limits, self.file))

    def records(self, wanted: tuple[Wanted, ...]) -> Iterator[list[Any]]:
        """Every record of a manifest, in order, as the values of `wanted`; None for fields that the file lacks.

        Raises:
            CorruptFileError: the file is damaged or cut, or a field cannot be decoded. Nothing of a damaged block is
                returned.
            LimitError: it asks for more than the limits allow.
        """
        column = column_of(self.schema, self.schema, Struct(wanted), Tally(self.limits, self.file))
        records = 0
        for count, block in self.blocks():
            if count > len(block):
                raise corrupt(f"a block of {len(block)} bytes claims {count} records", self.file, self.cause)
            records += count
            allowed = len(self.data) + self.limits.spare_records
            self.limits.check("spare_records", records, "records", file=self.file, allowed=allowed)
            try:
                self.read_block(column, count, block)
            except (*DAMAGE, RecursionError) as error:
                raise decode_error(error, file=self.file) from error
            yield from column.take()

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records and the plain bytes of every block, in order.

        Raises:
            CorruptFileError: a block is damaged, or the blocks do not end with the file.
            UnsupportedError: the installed pyarrow was built without the codec.
            LimitError: a block holds more than `limits.block_bytes`.
        """
        data, position = self.data, self.end
        while position < len(data):
            try:
                count, position = decode_long(data, position)
                size, position = decode_long(data, position)
            except (IndexError, ValueError) as error:
                raise corrupt("it ends inside a number; it was cut", self.file, self.cause) from error
            end = position + size
            if count < 0 or size < 0 or end + SYNC_BYTES > len(data):
                raise corrupt("it ends inside a block; it was cut", self.file, self.cause)
            if data[end : end + SYNC_BYTES] != self.sync:
                raise corrupt("a block does not end with the sync marker", self.file, self.cause)
            block = data[position:end]
            yield count, decompress(self.codec, block, file=self.file, cause=self.cause, limits=self.limits)
            position = end + SYNC_BYTES

    def read_block(self, column: AvroColumn, count: int, block: bytes) -> None:
        """Adds the records of a block to a column. Raises `DAMAGE`, or an error if bytes of the block are left."""
        read, position = column.read, 0
        for _ in range(count):
            position = read(block, position)
        if position != len(block):
            rest = f"{len(block) - position} bytes"
            raise corrupt(f"a block holds {rest} after its last record", self.file, self.cause)


def open_container(data: bytes, *, file: str, cause: Cause = "CorruptManifest", limits: Limits = DEFAULT) -> Container:
    """The container in `data`, which must hold the whole header; no block is read.

    Raises:
        EncryptedTableError: the file is an encrypted stream (iceberg 2.19).
        CorruptFileError: no Avro container, or a damaged header.
        UnsupportedError: a codec that is not in `CODECS` (iceberg 2.14).
        LimitError: its schema is a document beyond `limits`.
    """
    if data.startswith(b"AGS1"):
        message = "Cannot read an encrypted Avro file: harness holds no keys"
        raise EncryptedTableError(message, cause="EncryptedTable", file=file, rule="iceberg 2.19")
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
        message = f"Cannot read Avro codec {codec!r}: expected one of {', '.join(sorted(CODECS))}; rewrite the file"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14")
    return Container(file, data, cause, limits, schema, metadata, codec, sync, position + SYNC_BYTES)


def _type_at(schema: Any, path: tuple[Wanted, ...], names: dict[str, Any]) -> Any:
    """The type of the field at `path` from the top; None: there is no such field. names: of records on the way."""
    for step in path:
        declared = _resolved(schema, names).get("fields", ())
        schema = next((f["type"] for f in declared if _is(f, step)), None)
        if schema is None:
            return None
    return schema


def _resolved(schema: Any, names: dict[str, Any]) -> dict[str, Any]:
    """The record that a type is, through unions and names; an empty dict if it is none."""
    for branch in union_branches(schema):
        if isinstance(branch, dict) and branch.get("type") in ("record", "error"):
            names[branch.get("name", "")] = branch
            return branch
        if isinstance(branch, dict) and isinstance(branch.get("type"), dict | list):
            return _resolved(branch["type"], names)
        if isinstance(branch, str) and branch in names:
            found: dict[str, Any] = names[branch]
            return found
    return {}


def _is(declared: dict[str, Any], wanted: Wanted) -> bool:
    id_ = declared.get("field-id")
    return declared.get("name") in wanted.names if id_ is None else bool(id_ == wanted.id)
