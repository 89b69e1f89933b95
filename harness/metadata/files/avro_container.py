"""Avro object containers: manifest lists, manifests, data files and delete files, from header to records.

Every block is checked before a record is decoded: a decoder that meets the end of a file takes it for the last block,
so a cut file would lose rows without a word. Manifest lists are read by `RequestedField` fields, found by field id; manifests
by `harness.metadata.iceberg.columns`. Data files are read whole, by `harness.metadata.files.avro`.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from harness.errors import CorruptFileError, EncryptedTableError, UnsupportedError
from harness.metadata.files.avro_schema import Cause, Node, parse_schema
from harness.metadata.files.avro_values import (
    DAMAGE,
    FieldError,
    ReadStep,
    Tally,
    column_of,
    decode_bytes,
    decode_long,
    error_reason,
)
from harness.metadata.files.documents import TooLongError, decompress_streams, inflate, unsnappy, unzstd
from harness.storage.limits import DEFAULT, Limits, limit_error
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
    max_bytes = limits.block_bytes
    try:
        match codec:
            case "deflate":
                plain, rest = inflate(block, max_bytes=max_bytes)
                # Python's writers cut a zlib stream out of its wrapping and leave most of the checksum behind it.
                if rest and not zlib.adler32(plain).to_bytes(4, "big").startswith(rest):
                    raise ValueError(f"{len(rest)} bytes follow its stream")
                return plain
            case "bzip2" | "xz":
                return decompress_streams(block, codec=codec, max_bytes=max_bytes)
            case "zstandard":
                return unzstd(block, max_bytes=max_bytes)
            case "snappy":
                # Avro puts a big-endian CRC-32 of the plain bytes behind the snappy data.
                plain = unsnappy(block[:-_CRC_BYTES], max_bytes=max_bytes)
                if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:
                    raise ValueError("the checksum is wrong")
                return plain
            case _:
                return block
    except TooLongError as error:
        asked = f"a block ({codec}) of {len(block):,} bytes holds {error.found:,} or more, {max_bytes:,} are"
        raise limit_error("block_bytes", f"{asked} allowed", file=file) from error
    except NotImplementedError as error:
        message = f"Cannot read Avro codec {codec!r}: the installed pyarrow was built without it; use PyPI's"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14") from error
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"Cannot decompress a block ({codec}): {error}", cause=cause, file=file, rule="iceberg 2.14"
        ) from error


MAGIC = b"Obj\x01"
SYNC_BYTES = 16


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


def corrupt_error(reason: str, file: str | None, cause: Cause, column: str | None = None) -> CorruptFileError:
    """The error for an Avro file that cannot be decoded."""
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause=cause, file=file, field=column)


@dataclass(frozen=True, slots=True)
class RequestedField:
    """A field to decode.

    names: What it is called in files that give no field ids; never used otherwise.
    kinds: The Avro types that it may have beside null; empty: any.
    fields: The wanted fields of a record, or of the records of an array; empty: the value as it is, which is the list
        of its values for a record or an array, and of pairs for a map.
    """

    id: int
    names: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    fields: tuple[RequestedField, ...] = ()


LONG, TEXT, BYTES, BOOLEAN, ARRAY = (
    frozenset(kinds) for kinds in (("int", "long"), ("string", "enum"), ("bytes", "fixed"), ("boolean",), ("array",))
)
"""Kinds of fields, as readers expect them."""


def check_kind(node: Node, kinds: frozenset[str], name: str) -> None:
    """Raise TypeError if a field may have values of other types than `kinds` and null; no kinds are all."""
    for branch in node.children if node.kind == "union" else (node,):
        if kinds and branch.kind != "null" and branch.kind not in kinds:
            raise TypeError(f"field {name!r} is of type {branch.kind}, expected {' or '.join(sorted(kinds))}")


def _picker(node: Node | None, wanted: Sequence[RequestedField]) -> Callable[[Any], Any]:
    """Return a function from all values of a record, or of each record of an array, to the wanted ones."""
    record = node.value if node is not None else None
    if record is not None and record.kind == "array":
        pick = _picker(record.children[0], wanted)
        return lambda items: None if items is None else [pick(item) for item in items]
    if record is None or record.kind != "record":
        raise TypeError(f"expected a record, got {'nothing' if record is None else record.kind}")
    picks: list[tuple[int | None, Callable[[Any], Any] | None]] = []
    for each in wanted:
        place = record.field_index(each.id, *each.names)
        if place is not None:
            check_kind(record.children[place], each.kinds, record.names[place])
        inner = None if place is None or not each.fields else _picker(record.children[place], each.fields)
        picks.append((place, inner))

    def picked(row: list[Any] | None) -> list[Any]:
        if row is None:
            raise TypeError("a record of a list is null")
        values = [(None if place is None else row[place], inner) for place, inner in picks]
        return [value if inner is None else inner(value) for value, inner in values]

    return picked


def decode_error(error: Exception, *, file: str | None = None) -> CorruptFileError:
    """Return the error to raise for one that a decoder of a manifest met."""
    path = ".".join(error.path) if isinstance(error, FieldError) else None
    return CorruptFileError(
        f"Cannot decode Avro record: {error_reason(error)}", cause="CorruptManifest", file=file, field=path or None
    )


@dataclass(frozen=True, slots=True)
class Container:
    """An opened Avro file.

    schema: the writer's. metadata: the header's values by key, the `avro.` ones too. codec: one of `CODECS`.
    sync: the 16 bytes after every block. end: where the first block starts, in bytes.
    """

    file: str
    data: bytes = field(repr=False)
    cause: Cause
    limits: Limits
    schema: Node = field(repr=False)
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

    def records(self, wanted: Sequence[RequestedField]) -> Iterator[list[Any]]:
        """Every record of a manifest list, in order, as the values of `wanted`; None for fields that the file lacks.

        Raises:
            CorruptFileError: the file is damaged or cut, or a field cannot be decoded. Nothing of a damaged block is
                returned.
            LimitError: it asks for more than the limits allow.
        """
        try:
            pick = _picker(self.schema, wanted)
        except DAMAGE as error:
            raise decode_error(error, file=self.file) from error
        column = column_of(self.schema, Tally(self.limits, self.file))
        for count, block in self.record_blocks():
            try:
                self.read_block(column.read, count, block)
                rows = [pick(row) for row in column.take()]
            except DAMAGE as error:
                raise decode_error(error, file=self.file) from error
            yield from rows

    def record_blocks(self) -> Iterator[tuple[int, bytes]]:
        """The blocks of a manifest or manifest list, whose records take a byte or more.

        Raises as `blocks`; a LimitError, too, if there are many more records than bytes.
        """
        records = 0
        for count, block in self.blocks():
            if count > len(block):
                raise corrupt_error(f"a block of {len(block)} bytes claims {count} records", self.file, self.cause)
            records += count
            allowed = len(self.data) + self.limits.spare_records
            self.limits.check("spare_records", records, "records", file=self.file, allowed=allowed)
            yield count, block

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
                raise corrupt_error("it ends inside a number; it was cut", self.file, self.cause) from error
            end = position + size
            if count < 0 or size < 0 or end + SYNC_BYTES > len(data):
                raise corrupt_error("it ends inside a block; it was cut", self.file, self.cause)
            if data[end : end + SYNC_BYTES] != self.sync:
                raise corrupt_error("a block does not end with the sync marker", self.file, self.cause)
            block = data[position:end]
            yield count, decompress(self.codec, block, file=self.file, cause=self.cause, limits=self.limits)
            position = end + SYNC_BYTES

    def read_block(self, read: ReadStep, count: int, block: bytes) -> None:
        """Read the records of a block, each with one step. Raises `DAMAGE`, or an error if bytes are left."""
        position = 0
        for _ in range(count):
            position = read(block, position)
        if position != len(block):
            rest = f"{len(block) - position} bytes"
            raise corrupt_error(f"a block holds {rest} after its last record", self.file, self.cause)


def open_container(data: bytes, *, file: str, cause: Cause = "CorruptManifest", limits: Limits = DEFAULT) -> Container:
    """The container in `data`, which must hold the whole header; no block is read.

    Raises:
        EncryptedTableError: the file is an encrypted stream (iceberg 2.19).
        CorruptFileError: no Avro container, or a damaged header.
        UnsupportedError: a codec that is not in `CODECS` (iceberg 2.14), or a type that contains itself.
        LimitError: its schema is a document beyond `limits`, or has more types or levels.
    """
    if data.startswith(b"AGS1"):
        message = "Cannot read an encrypted Avro file: harness holds no keys"
        raise EncryptedTableError(message, cause="EncryptedTable", file=file, rule="iceberg 2.19")
    if not data.startswith(MAGIC):
        raise corrupt_error(f"it starts with {data[:4]!r}, expected {MAGIC!r}", file, cause)
    try:
        metadata, position = _metadata(data)
    except (IndexError, ValueError) as error:
        raise corrupt_error("its header is cut or damaged", file, cause) from error
    sync = data[position : position + SYNC_BYTES]
    if len(sync) < SYNC_BYTES:
        raise corrupt_error("it ends inside the header", file, cause)
    if "avro.schema" not in metadata:
        raise corrupt_error("its header has no readable avro.schema", file, cause)
    schema = parse_schema(metadata["avro.schema"], file=file, cause=cause, limits=limits)
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in CODECS:
        message = f"Cannot read Avro codec {codec!r}: expected one of {', '.join(sorted(CODECS))}; rewrite the file"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14")
    return Container(file, data, cause, limits, schema, metadata, codec, sync, position + SYNC_BYTES)
