"""Avro object containers as Iceberg's manifests use them: only the wanted fields, found by field id, decoded fast.

A decoder of our own, because manifests are read by the hundred thousand entries and most of an entry is statistics that
a plan does not need: skipping those here costs a tenth of what building their Python values does. It also sees the
schema as it is written, so names may be anything (iceberg 2.16), logical types have no say (iceberg 2.15), and an error
knows its field. Data files in Avro are another matter, see `harness.files.avro`.

The caller says what it wants as a tuple of `Wanted`; every record comes back as a list in that order, with None for
what the writer's schema lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.errors import CorruptFileError, EncryptedTableError
from harness.iceberg.avro_codecs import decompress
from harness.iceberg.avro_decoding import Wanted, decode_error, record_decoder, union_branches

__all__ = ["Container", "Wanted", "WriterField", "open_container"]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16


@dataclass(frozen=True, slots=True)
class WriterField:
    """A field as the writer declared it. kind: logical type, else primitive type, of its non-null branch."""

    id: int | None
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Container:
    """An opened Avro file. metadata: the header's keys, without the `avro.` ones decoded."""

    file: str
    schema: Any = field(repr=False)
    metadata: dict[str, bytes] = field(repr=False)
    codec: str
    data: bytes = field(repr=False)
    body: int
    sync: bytes

    def text(self, key: str) -> str | None:
        """A header value as text; None if there is no such key, or its value is not UTF-8 (headers are optional)."""
        value = self.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    def fields(self, *path: Wanted) -> tuple[WriterField, ...]:
        """The writer's fields of the record at `path` from the top; empty if there is no such record."""
        names: dict[str, Any] = {}
        schema = _resolved(self.schema, names)
        for step in path:
            found = [f["type"] for f in schema.get("fields", ()) if _is(f, step)]
            if not found:
                return ()
            schema = _resolved(found[0], names)
        return tuple(_writer_field(f) for f in schema.get("fields", ()))

    def records(self, wanted: tuple[Wanted, ...]) -> Iterator[list[Any]]:
        """Every record of the file, in order, as the values of `wanted`.

        Raises:
            CorruptFileError: the file is damaged or cut, or a field cannot be decoded. Nothing of a damaged block is
                returned. Cause `CorruptManifest`.
        """
        decode = record_decoder(self.schema, wanted, file=self.file)
        for count, block in self._blocks():
            position = 0
            rows = []
            try:
                for _ in range(count):
                    row, position = decode(block, position)
                    rows.append(row)
            except (ArithmeticError, LookupError, ValueError, TypeError, RecursionError) as error:
                raise decode_error(error, file=self.file) from error
            if position != len(block):
                raise _corrupt(f"a block holds {len(block) - position} bytes after its last record", self.file)
            yield from rows

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Record count and decompressed bytes of every block."""
        position = self.body
        while position < len(self.data):
            count, position = _long(self.data, position, self.file)
            size, position = _long(self.data, position, self.file)
            end = position + size
            if count < 0 or size < 0 or end + _SYNC_BYTES > len(self.data):
                raise _corrupt("a block is longer than the file; the file was cut", self.file)
            if self.data[end : end + _SYNC_BYTES] != self.sync:
                raise _corrupt("a block does not end with the sync marker", self.file)
            block = decompress(self.codec, self.data[position:end], file=self.file)
            if count > len(block):
                raise _corrupt(f"a block of {len(block)} bytes claims {count} records", self.file)
            yield count, block
            position = end + _SYNC_BYTES


def open_container(data: bytes, *, file: str) -> Container:
    """The container in `data`, with its header read.

    Raises:
        EncryptedTableError: the bytes are an encrypted stream (iceberg 2.19).
        CorruptFileError: not an Avro file, or the header is damaged. Cause `CorruptManifest`.
    """
    if data.startswith(b"AGS1"):
        raise EncryptedTableError(
            "Cannot read an encrypted manifest: harness holds no keys",
            cause="EncryptedTable",
            file=file,
            rule="iceberg 2.19",
        )
    if not data.startswith(_MAGIC):
        raise _corrupt(f"it starts with {data[:4]!r}, expected {_MAGIC!r}", file)
    metadata, position = _header(data, file)
    sync = data[position : position + _SYNC_BYTES]
    if len(sync) != _SYNC_BYTES:
        raise _corrupt("the header is cut", file)
    try:
        schema = json.loads(metadata["avro.schema"])
        codec = metadata.get("avro.codec", b"null").decode()
    except (KeyError, ValueError, RecursionError) as error:
        raise _corrupt("the header has no readable avro.schema", file) from error
    return Container(file, schema, metadata, codec, data, position + _SYNC_BYTES, sync)


def _header(data: bytes, file: str) -> tuple[dict[str, bytes], int]:
    """The header's key-value map, and the position after it."""
    metadata: dict[str, bytes] = {}
    position = len(_MAGIC)
    while True:
        count, position = _long(data, position, file)
        if count == 0:
            return metadata, position
        if count < 0:
            _, position = _long(data, position, file)
        for _ in range(abs(count)):
            key, position = _bytes(data, position, file)
            value, position = _bytes(data, position, file)
            metadata[key.decode(errors="replace")] = value


def _long(data: bytes, position: int, file: str) -> tuple[int, int]:
    number = shift = 0
    for index in range(position, min(position + 10, len(data))):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), index + 1
        shift += 7
    raise _corrupt("it ends inside a number; the file was cut", file)


def _bytes(data: bytes, position: int, file: str) -> tuple[bytes, int]:
    length, position = _long(data, position, file)
    if length < 0 or position + length > len(data):
        raise _corrupt("the header is cut", file)
    return data[position : position + length], position + length


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


def _writer_field(declared: dict[str, Any]) -> WriterField:
    id_ = declared.get("field-id")
    kind = "null"
    for branch in union_branches(declared["type"]):
        if branch != "null":
            kind = branch if isinstance(branch, str) else str(branch.get("logicalType", branch.get("type")))
            break
    return WriterField(id_ if isinstance(id_, int) else None, declared["name"], kind)


def _corrupt(reason: str, file: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot decode Avro file: {reason}", cause="CorruptManifest", file=file)
