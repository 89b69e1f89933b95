"""The live files of an Iceberg snapshot from its manifests, with their partition tuples.

Spec: Iceberg, "Manifest Lists", "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance" (section 2).
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from harness import errors
from harness.suite.oracle import types as dt
from harness.suite.oracle.avro import UnsupportedAvroError, open_avro
from harness.suite.oracle.documents import expect_type, parse_json
from harness.suite.oracle.iceberg_metadata import ListedSnapshot, MetadataValues, Spec, spec_fields, value_type
from harness.suite.oracle.paths import PathPrefixes
from harness.suite.oracle.scan import DataFile
from harness.suite.oracle.types import RawColumn
from harness.suite.oracle.values import EXACT, UNITS

_Record: TypeAlias = dict[int | str, Any]
"""Values by field id, or by name if the writer gave no id (iceberg 2.1), in the writer's order."""

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_EXISTING, _ADDED, _DELETED = 0, 1, 2


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveFile(DataFile):
    """A data or delete file of the snapshot with the fields of its manifest entry, after inheritance."""

    manifest: str
    content: int
    spec: Spec
    sequence_number: int
    equality_ids: tuple[int, ...]
    referenced: str | None
    offset: int | None
    length: int | None


@dataclass(frozen=True, kw_only=True)
class _Manifest:
    path: str
    spec_id: int | None
    is_deletes: bool = False
    snapshot_id: int | None = None
    sequence_number: int = 0
    first_row_id: int | None = None


def live_files(
    metadata: MetadataValues, snapshot: ListedSnapshot, paths: PathPrefixes, *, before: bool = False
) -> tuple[LiveFile, ...]:
    """Return all live data and delete files of the snapshot, in manifest order.

    With `before`, return the files that were live before the snapshot, for a parent that is not in the table any more:
    the files that the snapshot did not add, and the files that it deleted (iceberg 8.2).
    """
    after = snapshot.id if before else None
    return tuple(file for m in _manifests(snapshot, paths) for file in _ManifestReader(metadata, m, paths).live(after))


def read_avro(data: bytes, *, file: str) -> tuple[dict[str, str], tuple[RawColumn, ...], list[_Record]]:
    """Return the header, columns, and records of a manifest or manifest list (iceberg 2.14, 2.19)."""
    if data[:4] == b"AGS1":
        raise errors.EncryptedTableError("Cannot read an encrypted file", cause="EncryptedTable", file=file)
    try:
        stored = open_avro(data, is_manifest=True)
        records = [_record(stored.columns, row) for row in stored.rows]
    except UnsupportedAvroError as error:
        message = f"Cannot read Avro file: {error}"
        raise errors.UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        message = f"Cannot decode Avro file: {error!r}"
        raise errors.CorruptFileError(message, cause="CorruptManifest", file=file, rule="iceberg 2.14") from error
    return {key: value.decode("utf-8", "replace") for key, value in stored.header.items()}, stored.columns, records


def _record(columns: Sequence[RawColumn], values: Sequence[object]) -> _Record:
    return {c.key: _value(c, value) for c, value in zip(columns, values, strict=True)}


def _value(column: RawColumn, value: Any) -> object:
    if value is None or column.type == "map":
        return value
    if column.type == "struct":
        return _record(column.parts, value)
    if column.type == "list":
        return [_value(column.parts[0], item) for item in value]
    return value.decode() if column.type == dt.STRING else value


def _get(record: _Record, field_id: int, name: str) -> Any:
    """Return the value with a field id, otherwise by name (iceberg 2.1).

    None means that the value is null or that the writer's schema has no such field.
    """
    return record.get(field_id, record.get(name))


def _manifests(snapshot: ListedSnapshot, paths: PathPrefixes) -> Iterator[_Manifest]:
    if snapshot.manifest_list is None:
        yield from (_Manifest(path=path, spec_id=None) for path in snapshot.manifests)  # iceberg 1.27
        return
    for row in read_avro(paths.read(snapshot.manifest_list), file=snapshot.manifest_list)[2]:
        path, spec_id = _get(row, 500, "manifest_path"), _get(row, 502, "partition_spec_id")
        content = _get(row, 517, "content") or 0
        if path is None or spec_id is None or content not in (0, 1):
            message = f"A manifest has path {path!r}, spec {spec_id!r} and content {content!r}"
            raise errors.CorruptFileError(
                message, cause="CorruptManifest", file=snapshot.manifest_list, rule="iceberg 2.2"
            )
        if _get(row, 519, "key_metadata"):
            raise errors.EncryptedTableError("Cannot read an encrypted manifest", file=path, rule="iceberg 2.19")
        yield _Manifest(
            path=path,
            spec_id=spec_id,
            is_deletes=content == 1,
            snapshot_id=_get(row, 503, "added_snapshot_id"),
            sequence_number=_get(row, 515, "sequence_number") or 0,
            first_row_id=_get(row, 520, "first_row_id"),
        )


class _ManifestReader:
    """A reader of one manifest. `next_row_id` is None if no file inherits row ids."""

    def __init__(self, metadata: MetadataValues, manifest: _Manifest, paths: PathPrefixes) -> None:
        self.metadata, self.manifest, self.paths = metadata, manifest, paths
        self.header, columns, self.records = read_avro(paths.read(manifest.path), file=manifest.path)
        for field_id in (2, 102):  # descend to the columns of the partition tuple
            columns = next((c.parts for c in columns if c.id == field_id), ())
        self.types = {c.key: c.type for c in columns}
        self.spec = self._spec()
        self.next_row_id = None if manifest.is_deletes else manifest.first_row_id

    def live(self, before: int | None) -> Iterator[LiveFile]:
        """Yield the files whose entries are not deleted, or those that were live before the snapshot `before`."""
        for entry in self.records:
            status, record = _get(entry, 0, "status"), _get(entry, 2, "data_file")
            if status not in (_EXISTING, _ADDED, _DELETED) or record is None:
                raise self._corrupt(f"an entry has status {status!r}", "iceberg 2.6")
            is_live, snapshot_id = status != _DELETED, _get(entry, 1, "snapshot_id")
            if before is not None and before == (self.manifest.snapshot_id if snapshot_id is None else snapshot_id):
                is_live = status != _ADDED
            if is_live:
                path = _get(record, 100, "file_path")
                if path is None:
                    raise self._corrupt("an entry has no path", "iceberg 2.7")
                try:
                    number = self._sequence_number(_get(entry, 3, "sequence_number"), status)
                    yield self._file(path, record, number, inherits_row_id=status != _DELETED)
                except errors.HarnessError as error:
                    raise error.within(file=path) from error.__cause__

    def _file(self, path: str, record: _Record, sequence_number: int, *, inherits_row_id: bool) -> LiveFile:
        content, count = _get(record, 134, "content"), _get(record, 103, "record_count")
        if content is None and self.header.get("content") == "deletes" and not self.manifest.is_deletes:
            raise self._corrupt(
                "its header declares deletes, its list declares data, and an entry has no content type", "iceberg 2.4"
            )
        count = None if count is None or count < 0 else count  # iceberg 2.21
        if _get(record, 131, "key_metadata"):
            raise errors.EncryptedTableError(
                "Cannot read an encrypted file", cause="EncryptedTable", rule="iceberg 2.19"
            )
        partition = self._partition(_get(record, 102, "partition") or {})
        first_row_id = _get(record, 142, "first_row_id")
        identities = [f for f in self.spec.fields if f.transform == "identity" and f.source is not None]
        return LiveFile(
            manifest=self.manifest.path,
            content=content or 0,
            path=path,
            physical=self.paths.physical(path),
            format=self._format(content or 0, _get(record, 101, "file_format")),
            spec=self.spec,
            spec_id=self.spec.id,
            partition=partition,
            constants={f.source or 0: partition.get(f.id) for f in identities},  # iceberg 5.2
            record_count=count,
            sequence_number=sequence_number,
            first_row_id=self._first_row_id(first_row_id, count) if inherits_row_id else first_row_id,
            equality_ids=tuple(_get(record, 135, "equality_ids") or ()),
            referenced=_get(record, 143, "referenced_data_file"),
            offset=_get(record, 144, "content_offset"),
            length=_get(record, 145, "content_size_in_bytes"),
        )

    def _format(self, content: int, format_: str | None) -> str:
        is_kind = content in (DATA, POSITION_DELETES, EQUALITY_DELETES)
        if not is_kind or (content == DATA) is self.manifest.is_deletes:
            raise self._corrupt(f"content {content!r} in a manifest of the other kind", "iceberg 2.20")
        if format_ is None:
            raise self._corrupt("an entry has no file format", "iceberg 2.7")
        name = format_.lower()
        if name not in ("parquet", "avro", "orc") and (name, content) != ("puffin", POSITION_DELETES):
            message = f"Cannot read a file of format {name!r}"
            raise errors.UnsupportedError(message, cause="UnsupportedFormat", rule="iceberg 2.20")
        return name

    def _sequence_number(self, written: int | None, status: int) -> int:
        """Return the data sequence number (iceberg 2.9).

        Older files in a v1 manifest have 0, which precedes all numbers.
        """
        if written is not None:
            return written
        if self.manifest.sequence_number == 0 or status == _ADDED:
            return self.manifest.sequence_number
        if self.header.get("format-version") == "1":
            return 0
        message = "An existing entry has no sequence number, so which deletes hit it is unknown"
        raise errors.InvalidTableError(message, cause="MissingSequenceNumber", rule="iceberg 2.9")

    def _first_row_id(self, written: int | None, count: int | None) -> int | None:
        """Return the id of the file's first row. Files inherit it in entry order (iceberg 2.11)."""
        running = self.next_row_id
        if running is None or written is not None:
            return None if running is None else written
        if count is None:
            raise self._corrupt("row ids need record counts", "iceberg 2.11")
        self.next_row_id = running + count
        return running

    def _spec(self) -> Spec:
        """Return the table's partition spec, otherwise the spec in the manifest's header (iceberg 1.27, 2.22)."""
        written, spec_id = self.header.get("partition-spec-id", ""), self.manifest.spec_id
        if spec_id is None:
            spec_id = int(written) if written.isdecimal() else 0
        if spec_id in self.metadata.specs:
            return self.metadata.specs[spec_id]
        text = self.header.get("partition-spec")
        if text is None or written not in ("", str(spec_id)):
            message = f"There is no partition spec {spec_id}"
            raise errors.InvalidTableError(message, cause="MissingSpec", file=self.manifest.path, rule="iceberg 2.22")
        value = parse_json(text)
        fields = value.get("fields") if isinstance(value, dict) else value
        if not isinstance(fields, list):
            raise self._corrupt("its header has no partition spec", "iceberg 2.22")
        return Spec(spec_id, spec_fields(fields))

    def _partition(self, written: _Record) -> dict[int, object]:
        """Return the partition tuple by field id. Absent values are null (iceberg 2.17).

        Values match by position if a v1 writer gave no ids.
        """
        has_ids = any(isinstance(key, int) for key in written)
        values: dict[int, object] = {}
        for place, part in enumerate(self.spec.fields):
            key: int | str = part.id if has_ids else next(iter([*written][place : place + 1]), "")
            value, type_ = written.get(key), value_type(part, self.metadata)
            try:
                is_null = value is None or part.transform == "void"
                values[part.id] = None if is_null else _partition_value(value, type_, self.types.get(key))
            except ValueError as error:
                raise self._corrupt(f"partition field {part.name!r}: {error}", "iceberg 2.18") from error
        return values

    def _corrupt(self, reason: str, rule: str) -> errors.CorruptFileError:
        message = f"Invalid manifest: {reason}"
        return errors.CorruptFileError(message, cause="CorruptManifest", file=self.manifest.path, rule=rule)


def partition_key(file: LiveFile) -> Hashable:
    """Return a key that is equal only for equal tuples of one spec (iceberg 2.18, 4.1).

    Nulls are equal. Floats are compared by their bits, except that all NaNs are equal.
    """
    values = [file.partition.get(f.id) for f in file.spec.fields if f.transform != "void"]
    # repr() distinguishes all floats by their bits, and all NaNs have the same text
    return (file.spec.id, *map(repr, values))


def _partition_value(value: object, type_: dt.ColumnType, written: object) -> Any:
    """Return a partition value that was written with type `written`.

    Raise ValueError if it does not fit (iceberg 2.18).
    """
    match type_:
        case dt.BOOLEAN:
            return expect_type(value, bool)
        case dt.IntegerType() | dt.DATE:
            return expect_type(value, int)
        case dt.TimestampType(unit=unit) if written in (dt.DATE, dt.IntegerType(32)):
            return expect_type(value, int) * 86_400 * UNITS[unit]
        case dt.TimestampType(unit=unit) | dt.TimeType(unit=unit):
            per_second = UNITS[written.unit if isinstance(written, dt.TimestampType | dt.TimeType) else unit]
            return expect_type(value, int) * UNITS[unit] // per_second
        case dt.FloatType():
            return expect_type(value, float)
        case dt.DecimalType(scale=scale):
            unscaled = int.from_bytes(expect_type(value, bytes), "big", signed=True)
            return Decimal(unscaled).scaleb(-scale, context=EXACT)
        case dt.STRING:
            return value.decode() if isinstance(value, bytes) else expect_type(value, str)
        case dt.UUID | dt.FixedType():
            data: bytes = uuid.UUID(value).bytes if isinstance(value, str) else expect_type(value, bytes)
            if len(data) != (type_.length if isinstance(type_, dt.FixedType) else 16):
                raise ValueError(f"{data!r} has another length")
            return data
        case dt.BINARY:
            return expect_type(value, bytes)
        case _:
            return value
