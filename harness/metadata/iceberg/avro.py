"""Avro object containers as Iceberg's manifests use them: only the wanted fields, found by field id, decoded fast.

A decoder of our own, because manifests are read by the hundred thousand entries and most of an entry is statistics that
a plan does not need: skipping those here costs a tenth of what building their Python values does. It also sees the
schema as it is written, so names may be anything (iceberg 2.16), logical types have no say (iceberg 2.15), and an error
knows its field. Data files in Avro are another matter, see `harness.metadata.files.avro`.

The caller says what it wants as a tuple of `Wanted`; every record comes back as a list in that order, with None for
what the writer's schema lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from harness.metadata.files.avro_numbers import DAMAGE
from harness.metadata.files.ocf import Cause, Header, blocks, corrupt, read_header
from harness.metadata.iceberg.avro_decoding import (
    Wanted,
    decode_error,
    plain_decoder,
    record_decoder,
    schema_error,
    union_branches,
)
from harness.metadata.iceberg.avro_leaves import Decoder, Tally
from harness.storage.limits import DEFAULT, Limits
from harness.storage.records import dataclass

__all__ = ["Container", "Wanted", "WriterField", "open_container"]

_CAUSE: Cause = "CorruptManifest"


@dataclass(frozen=True, slots=True)
class WriterField:
    """A field as the writer declared it. kind: logical type, else primitive type, of its non-null branch."""

    id: int | None
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Container:
    """An opened Avro file."""

    file: str
    header: Header
    data: bytes = field(repr=False)
    limits: Limits = DEFAULT

    def text(self, key: str) -> str | None:
        """A header value as text; None if there is no such key, or its value is not UTF-8 (headers are optional)."""
        value = self.header.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    def fields(self, *path: Wanted) -> tuple[WriterField, ...]:
        """The writer's fields of the record at `path` from the top; empty if there is no such record.

        Raises:
            CorruptFileError: the schema is not Avro. Cause `CorruptManifest`.
        """
        try:
            return _fields(self.header.schema, path)
        except (*DAMAGE, RecursionError) as error:
            raise schema_error(error, file=self.file) from error

    def decoder(self, *path: Wanted) -> Decoder:
        """A decoder of the values of the field at `path` from the top; LookupError if there is no such field."""
        names: dict[str, Any] = {}
        type_: Any = self.header.schema
        for step in path:
            declared = _resolved(type_, names)
            type_ = next((f["type"] for f in declared.get("fields", ()) if _is(f, step)), None)
            if type_ is None:
                raise LookupError(step.id)
        return plain_decoder(self.header.schema, type_, Tally(self.limits, self.file), file=self.file)

    def records(self, wanted: tuple[Wanted, ...]) -> Iterator[list[Any]]:
        """Every record of the file, in order, as the values of `wanted`.

        Raises:
            CorruptFileError: the file is damaged or cut, or a field cannot be decoded. Nothing of a damaged block is
                returned. Cause `CorruptManifest`.
            LimitError: it asks for more than the limits allow.
        """
        tally = Tally(self.limits, self.file)
        decode = record_decoder(self.header.schema, wanted, file=self.file, tally=tally)
        records = 0
        for count, block in blocks(self.data, self.header, file=self.file, cause=_CAUSE, limits=self.limits):
            if count > len(block):
                raise corrupt(f"a block of {len(block)} bytes claims {count} records", self.file, _CAUSE)
            records += count
            allowed = len(self.data) + self.limits.spare_records
            self.limits.check("spare_records", records, "records", file=self.file, allowed=allowed)
            position = 0
            rows = []
            try:
                for _ in range(count):
                    row, position = decode(block, position)
                    rows.append(row)
            except (*DAMAGE, RecursionError) as error:
                raise decode_error(error, file=self.file) from error
            if position != len(block):
                rest = f"{len(block) - position} bytes"
                raise corrupt(f"a block holds {rest} after its last record", self.file, _CAUSE)
            yield from rows


def open_container(data: bytes, *, file: str, limits: Limits = DEFAULT) -> Container:
    """The container in `data`, with its header read.

    Raises:
        EncryptedTableError: the bytes are an encrypted stream (iceberg 2.19).
        UnsupportedError: a codec that harness does not know (iceberg 2.14).
        CorruptFileError: not an Avro file, or the header is damaged. Cause `CorruptManifest`.
        LimitError: the header asks for more than `limits` allow.
    """
    return Container(file, read_header(data, file=file, cause=_CAUSE, limits=limits), data, limits)


def _fields(schema: Any, path: tuple[Wanted, ...]) -> tuple[WriterField, ...]:
    names: dict[str, Any] = {}
    record = _resolved(schema, names)
    for step in path:
        found = [f["type"] for f in record.get("fields", ()) if _is(f, step)]
        if not found:
            return ()
        record = _resolved(found[0], names)
    return tuple(_writer_field(f) for f in record.get("fields", ()))


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
