"""Avro object containers, from the header to records: manifest lists, manifests, data files, and delete files.

Every block is checked before its records are decoded. Otherwise, a decoder that reaches the end of a truncated file
would stop there as if the last block had ended, and silently lose rows. This module decodes manifest lists, of which
each caller requests some fields (`RequestedField`). Manifests are decoded by `harness.metadata.iceberg.columns`, and
data files by `harness.metadata.files.avro`.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

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

CODECS = frozenset({"null", "deflate", "snappy", "zstandard", "bzip2", "xz"})
"""The codecs that Iceberg's Avro files may use (iceberg 2.14)."""

_CRC_BYTES = 4


def decompress(codec: str, block: bytes, *, file: str, cause: str, limits: Limits) -> bytes:
    """Decompress a block.

    Args:
        codec: The codec, one of `CODECS` (iceberg 2.14).
        block: The compressed bytes. They must be used up to the last byte.
        file: The path of the file, for errors.
        cause: The cause of the error for a damaged block.
        limits: The limits on the size of the result.

    Raises:
        UnsupportedError: The installed pyarrow was built without the codec. Cause `UnsupportedCodec`.
        CorruptFileError: The block is damaged.
        LimitError: The block contains more than `limits.block_bytes`.
    """
    max_bytes = limits.block_bytes
    try:
        match codec:
            case "deflate":
                plain, rest = inflate(block, max_bytes=max_bytes)
                # Python's writers remove the header of the zlib stream but leave most of its checksum at the end.
                if rest and not zlib.adler32(plain).to_bytes(4, "big").startswith(rest):
                    raise ValueError(f"{len(rest)} bytes follow its stream")
                return plain
            case "bzip2" | "xz":
                return decompress_streams(block, codec=codec, max_bytes=max_bytes)
            case "zstandard":
                return unzstd(block, max_bytes=max_bytes)
            case "snappy":
                # Avro appends a big-endian CRC-32 of the uncompressed bytes.
                plain = unsnappy(block[:-_CRC_BYTES], max_bytes=max_bytes)
                if zlib.crc32(plain).to_bytes(_CRC_BYTES, "big") != block[-_CRC_BYTES:]:
                    raise ValueError("the checksum is wrong")
                return plain
            case _:
                return block
    except TooLongError as error:
        claim = f"a block ({codec}) of {len(block):,} bytes decompresses to {error.length:,} or more"
        raise limit_error("block_bytes", f"{claim}, {max_bytes:,} are allowed", file=file) from error
    except NotImplementedError as error:
        message = (
            f"Cannot read Avro codec {codec!r}: the installed pyarrow was built without it; install pyarrow from PyPI"
        )
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
        # A count that is too large fails at the end of the data, because each pair takes at least 2 bytes.
        for _ in range(abs(count)):
            key, position = decode_bytes(data, position)
            metadata[key.decode()], position = decode_bytes(data, position)


def corrupt_error(reason: str, file: str | None, cause: Cause, column: str | None = None) -> CorruptFileError:
    """Return the error for an Avro file that cannot be decoded."""
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause=cause, file=file, field=column)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestedField:
    """A field to decode.

    Attributes:
        id: The field id.
        names: The names of the field, used only in files without field ids.
        kinds: The Avro types that the field may have, in addition to null. Empty: any type.
        fields: The requested fields of a record, or of the records in an array. Empty: the whole value, which is a list
            of values for a record or an array, and a list of pairs for a map.
    """

    id: int
    names: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    fields: tuple[RequestedField, ...] = ()


LONG, TEXT, BYTES, BOOLEAN, ARRAY = (
    frozenset(kinds) for kinds in (("int", "long"), ("string", "enum"), ("bytes", "fixed"), ("boolean",), ("array",))
)
"""The kinds of fields that readers expect."""


def check_kind(node: Node, kinds: frozenset[str], name: str) -> None:
    """Check that the values of a field are null or of one of `kinds`. An empty set allows all kinds.

    Raises:
        TypeError: The field may have values of another kind.
    """
    for branch in node.children if node.kind == "union" else (node,):
        if kinds and branch.kind != "null" and branch.kind not in kinds:
            raise TypeError(f"field {name!r} is of type {branch.kind}, expected {' or '.join(sorted(kinds))}")


def _value_picker(node: Node | None, requested: Sequence[RequestedField]) -> Callable[[Any], Any]:
    """Return a function that reduces a decoded record to the requested values, in the order of `requested`.

    If `node` is an array of records, the function reduces each record of a list.
    """
    record = node.value if node is not None else None
    if record is not None and record.kind == "array":
        pick = _value_picker(record.children[0], requested)
        return lambda items: None if items is None else [pick(item) for item in items]
    if record is None or record.kind != "record":
        raise TypeError(f"expected a record, got {'nothing' if record is None else record.kind}")
    picks: list[tuple[int | None, Callable[[Any], Any] | None]] = []
    for each in requested:
        place = record.field_index(each.id, *each.names)
        if place is not None:
            check_kind(record.children[place], each.kinds, record.names[place])
        inner = None if place is None or not each.fields else _value_picker(record.children[place], each.fields)
        picks.append((place, inner))

    def picked(row: list[Any] | None) -> list[Any]:
        if row is None:
            raise TypeError("a record of a list is null")
        values = [(None if place is None else row[place], inner) for place, inner in picks]
        return [value if inner is None else inner(value) for value, inner in values]

    return picked


def decode_error(error: Exception, *, file: str | None = None) -> CorruptFileError:
    """Return the CorruptFileError for an error that occurred while a manifest was decoded."""
    path = ".".join(error.path) if isinstance(error, FieldError) else None
    return CorruptFileError(
        f"Cannot decode Avro record: {error_reason(error)}", cause="CorruptManifest", file=file, field=path or None
    )


@dataclass(frozen=True, slots=True)
class Container:
    """An opened Avro file.

    Attributes:
        file: The path of the file, for errors.
        data: The content of the file.
        cause: The cause of errors, which depends on the role of the file.
        limits: The limits on types, values, and memory.
        schema: The writer's schema.
        metadata: The header values by key, including keys that start with `avro.`.
        codec: The codec, one of `CODECS`.
        sync: The 16 bytes after every block.
        end: The position of the first block.
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
        """Return an optional header value as text, or None if the key is missing or the value is not UTF-8."""
        value = self.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    def records(self, requested: Sequence[RequestedField]) -> list[list[Any]]:
        """Return the records of a manifest list in order, as values of the requested fields. Missing fields are None.

        Raises:
            CorruptFileError: The file is damaged or truncated, or a field cannot be decoded.
            LimitError: The file exceeds the limits.
        """
        return self.made_records(requested, list, {})

    def made_records(
        self, requested: Sequence[RequestedField], make: Callable[[list[Any]], T], known: dict[bytes, tuple[bytes, T]]
    ) -> list[T]:
        """Return what `make` returns for each record, as `records`. A record that is known is not decoded again.

        Args:
            requested: The fields.
            make: A function of the values of a record.
            known: Records of files with the same schema, as their bytes and what `make` returned, by the bytes of their
                first field. Further records are added.

        Raises:
            CorruptFileError: The file is damaged or truncated, or a field cannot be decoded.
            LimitError: The file exceeds the limits.
        """
        rows: list[T] = []
        try:
            pick = _value_picker(self.schema, requested)
            column = column_of(self.schema, Tally(self.limits, self.file))
            starts_with_text = [child.kind for child in self.schema.children[:1]] == ["string"]

            def read(block: bytes, start: int) -> int:
                key = b""
                if starts_with_text:
                    length, position = decode_long(block, start)
                    key = block[start : position + length]
                    if key in known and block.startswith(known[key][0], start):
                        rows.append(known[key][1])
                        return start + len(known[key][0])
                end = column.read(block, start)
                made = make(pick(column.take()[0]))
                rows.append(made)
                if key:
                    known[key] = block[start:end], made
                return end

            for count, block in self.record_blocks():
                self.read_block(read, count, block)
        except DAMAGE as error:
            raise decode_error(error, file=self.file) from error
        return rows

    def record_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks of a manifest or manifest list, in which each record takes at least one byte.

        Raises:
            HarnessError: As for `blocks`.
            LimitError: The file has many more records than bytes.
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
        """Yield the number of records and the uncompressed bytes of every block, in order.

        Raises:
            CorruptFileError: A block is damaged, or the blocks do not end with the file.
            UnsupportedError: The installed pyarrow was built without the codec.
            LimitError: A block contains more than `limits.block_bytes`.
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
        """Read the records of a block by calling `read` once for each record.

        Raises:
            CorruptFileError: Bytes are left after the last record.
            Exception: One of `DAMAGE`, if a record is damaged.
        """
        position = 0
        for _ in range(count):
            position = read(block, position)
        if position != len(block):
            rest = f"{len(block) - position} bytes"
            raise corrupt_error(f"a block holds {rest} after its last record", self.file, self.cause)


def open_container(data: bytes, *, file: str, cause: Cause = "CorruptManifest", limits: Limits = DEFAULT) -> Container:
    """Open the container in `data`, which must hold the whole header. No block is read.

    Raises:
        EncryptedTableError: The file is an encrypted stream (rule iceberg 2.19).
        CorruptFileError: The file is not an Avro container, or its header is damaged.
        UnsupportedError: The codec is not in `CODECS` (rule iceberg 2.14), or a type contains itself.
        LimitError: The schema is larger than `limits` allow, or has more types or levels.
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
