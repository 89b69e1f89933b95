"""The live files of an Iceberg snapshot, from all of its manifests (iceberg section 2), and their partition tuples."""

from __future__ import annotations

import decimal
import math
import struct
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from harness.errors import (
    CorruptFileError,
    EncryptedTableError,
    HarnessError,
    InvalidTableError,
    MissingFileError,
    UnsupportedError,
)
from harness.testing.oracle import types as dt
from harness.testing.oracle.avro import UnsupportedAvroError, open_avro
from harness.testing.oracle.conversions import UNITS
from harness.testing.oracle.documents import of_kind, parse_json
from harness.testing.oracle.iceberg_metadata import ListedSnapshot, MetadataValues, Spec, SpecField, spec_fields
from harness.testing.oracle.paths import Files, PathMap, shown
from harness.testing.oracle.types import Field, RawColumn, walk

_Record: TypeAlias = dict[int | str, Any]
"""Values by field id, or by name where the writer gave no id (iceberg 2.1); in the writer's order."""


@dataclass(frozen=True, slots=True)
class _AvroFile:
    """A container file: its header, its columns, and its records."""

    file: str
    header: Mapping[str, str]
    columns: tuple[RawColumn, ...]
    records: tuple[_Record, ...]

    def types(self, *ids: int) -> dict[int | str, dt.Type | Literal["struct", "list", "map"]]:
        """The types of the fields of the record that `ids` lead to."""
        columns = self.columns
        for field_id in ids:
            columns = next((c.parts for c in columns if c.id == field_id), ())
        return {_key(c): c.type for c in columns}


def read_avro(data: bytes, *, file: str) -> _AvroFile:
    """All of a container file; `file` is its path, for messages (iceberg 2.14, 2.19)."""
    if data[:4] == b"AGS1":
        raise EncryptedTableError("Cannot read an encrypted file", cause="EncryptedTable", file=file)
    try:
        stored = open_avro(data, is_manifest=True)
        records = tuple(_record(stored.columns, row) for row in stored.rows)
    except UnsupportedAvroError as error:
        message = f"Cannot read Avro file: {error}"
        raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 2.14") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"Cannot decode Avro file: {error!r}", cause="CorruptManifest", file=file, rule="iceberg 2.14"
        ) from error
    header = {key: value.decode("utf-8", "replace") for key, value in stored.header.items()}
    return _AvroFile(file, header, stored.columns, records)


def _value_of(record: _Record, field_id: int, *names: str) -> Any:
    """The value with an id, or without one by name (iceberg 2.1); None where the writer has no such field."""
    if field_id in record:
        return record[field_id]
    return next((record[name] for name in names if name in record), None)


def _record(columns: Sequence[RawColumn], values: Sequence[Any]) -> _Record:
    return {_key(c): _value(c, value) for c, value in zip(columns, values, strict=True)}


def _value(column: RawColumn, value: Any) -> Any:
    match column.type:
        case _ if value is None:
            return None
        case "struct":
            return _record(column.parts, value)
        case "list":
            return [_value(column.parts[0], item) for item in value]
        case dt.StringType():
            return value.decode()
        case _:
            return value


def _key(column: RawColumn) -> int | str:
    return column.name if column.id is None else column.id


_EXACT = decimal.Context(prec=100)


def _value_type(part: SpecField, metadata: MetadataValues) -> dt.Type:
    """The type of a partition field's values, by the newest type of its source column (iceberg 1.21, 2.18)."""
    name = part.transform.partition("[")[0]
    if name == "day":
        return dt.DateType()
    if name in ("bucket", "year", "month", "hour"):
        return dt.IntegerType(32)
    if name in ("identity", "truncate", "void"):
        for schema in metadata.schemas.values():
            for _, found in walk(schema.fields):
                if found.id == part.source:
                    return found.type
    return dt.OpaqueType(part.transform)


def _stored(value: Any, type_: dt.Type, written: object) -> Any:
    """The internal value of a partition value of a written type (iceberg 2.18). Raises ValueError."""
    if value is None:
        return None
    match type_:
        case dt.BooleanType():
            return of_kind(value, bool)
        case dt.IntegerType() | dt.DateType():
            return of_kind(value, int)
        case dt.TimestampType(unit=unit) if isinstance(written, dt.DateType) or written == dt.IntegerType(32):
            return of_kind(value, int) * 86_400 * UNITS[unit]
        case dt.TimestampType(unit=unit) | dt.TimeType(unit=unit):
            per_second = UNITS[written.unit if isinstance(written, dt.TimestampType | dt.TimeType) else unit]
            return of_kind(value, int) * UNITS[unit] // per_second
        case dt.FloatType():
            return float(of_kind(value, float))
        case dt.DecimalType(scale=scale):
            unscaled = int.from_bytes(of_kind(value, bytes), "big", signed=True)
            return Decimal(unscaled).scaleb(-scale, context=_EXACT)
        case dt.StringType():
            return value.decode() if isinstance(value, bytes) else of_kind(value, str)
        case dt.UuidType():
            return uuid.UUID(value).bytes if isinstance(value, str) else _sized(value, 16)
        case dt.FixedType(length=length):
            return _sized(value, length)
        case dt.BinaryType():
            return of_kind(value, bytes)
        case _:
            return value


def _sized(value: Any, length: int) -> bytes:
    data: bytes = of_kind(value, bytes)
    if len(data) != length:
        raise ValueError(f"{data!r} has not {length} bytes")
    return data


def partition_key(spec: Spec, values: Mapping[int, Any]) -> Hashable:
    """Equal for equal tuples of one spec only; nulls are equal, floats are told apart by bits (iceberg 2.18, 4.1)."""
    return (spec.id, *(_value_key(values.get(f.id)) for f in spec.fields if f.transform != "void"))


def _value_key(value: Any) -> Hashable:
    match value:
        case float():
            return "NaN" if math.isnan(value) else struct.pack(">d", value)
        case bool() | None | str() | bytes():
            return (type(value).__name__, value)
        case int() | Decimal():
            return value
        case _:
            return repr(value)


def partition_fields(metadata: MetadataValues) -> tuple[Field, ...]:
    """The fields of the metadata column `_partition`: those of all specs, by id (iceberg 5.17)."""
    found: dict[int, Field] = {}
    for part in (f for spec in metadata.specs.values() for f in spec.fields):
        if part.transform.startswith("unknown "):
            raise UnsupportedError(
                f"Cannot show _partition: transform {part.transform} of {part.name!r}",
                cause="UnsupportedType",
                rule="iceberg 5.17",
            )
        found.setdefault(part.id, Field(id=part.id, name=part.name, type=_value_type(part, metadata)))
    return tuple(found[id_] for id_ in sorted(found))


DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveFile:
    """A data or delete file of the snapshot; fields as in its manifest, after inheritance."""

    manifest: str
    content: int
    path: str
    physical: str
    format: str
    spec: Spec
    partition: Mapping[int, Any]
    record_count: int | None
    size: int | None
    sequence_number: int
    first_row_id: int | None
    equality_ids: tuple[int, ...]
    referenced: str | None
    offset: int | None
    length: int | None


@dataclass(frozen=True)
class TableFiles:
    """Opens a table's files by their recorded paths."""

    files: Files
    paths: PathMap

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises MissingFileError with both paths of a file that is not there (iceberg 1.12)."""
        physical = self.paths.physical(path)
        try:
            return self.files.read(physical)
        except MissingFileError as error:
            error.file = shown(path, physical)
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    path: str
    spec_id: int | None
    is_deletes: bool = False
    sequence_number: int = 0
    first_row_id: int | None = None


@dataclass(slots=True)
class _Reader:
    """A manifest while it is read. next_row_id: of the next file without a row id of its own; None: no file has."""

    metadata: MetadataValues
    files: TableFiles
    manifest: _Manifest
    avro: _AvroFile
    spec: Spec
    next_row_id: int | None


def live_files(metadata: MetadataValues, snapshot: ListedSnapshot, files: TableFiles) -> tuple[LiveFile, ...]:
    """Every live file of the snapshot, data and deletes, in the order of its manifests."""
    return tuple(file for manifest in _manifests(snapshot, files) for file in _entries(metadata, manifest, files))


def _manifests(snapshot: ListedSnapshot, files: TableFiles) -> Iterator[_Manifest]:
    if snapshot.manifest_list is None:
        yield from (_Manifest(path=path, spec_id=None) for path in snapshot.manifests)  # iceberg 1.27
        return
    for row in read_avro(files.read(snapshot.manifest_list), file=snapshot.manifest_list).records:
        path, spec_id = _value_of(row, 500, "manifest_path"), _value_of(row, 502, "partition_spec_id")
        content = _value_of(row, 517, "content") or 0
        if path is None or spec_id is None or content not in (0, 1):
            message = f"A manifest has path {path!r}, spec {spec_id!r} and content {content!r}"
            raise CorruptFileError(message, cause="CorruptManifest", file=snapshot.manifest_list, rule="iceberg 2.2")
        if _value_of(row, 519, "key_metadata"):
            raise EncryptedTableError("Cannot read an encrypted manifest", file=path, rule="iceberg 2.19")
        yield _Manifest(
            path=path,
            spec_id=spec_id,
            is_deletes=content == 1,
            sequence_number=_value_of(row, 515, "sequence_number") or 0,
            first_row_id=_value_of(row, 520, "first_row_id"),
        )


def _entries(metadata: MetadataValues, manifest: _Manifest, files: TableFiles) -> Iterator[LiveFile]:
    avro = read_avro(files.read(manifest.path), file=manifest.path)
    disputed = avro.header.get("content") == "deletes" and not manifest.is_deletes
    first_row_id = None if manifest.is_deletes else manifest.first_row_id
    reader = _Reader(metadata, files, manifest, avro, _spec(metadata, manifest, avro), first_row_id)
    for entry in avro.records:
        status, record = _value_of(entry, 0, "status"), _value_of(entry, 2, "data_file")
        if status not in (0, 1, 2) or record is None:
            raise _corrupt(f"an entry has status {status!r}", manifest.path, "iceberg 2.6")
        if status != _DELETED:
            if disputed and _value_of(record, 134, "content") is None:
                raise _corrupt("it holds deletes, its list says data, an entry neither", manifest.path, "iceberg 2.4")
            yield _file(reader, entry, record, status)


def _file(reader: _Reader, entry: _Record, record: _Record, status: int) -> LiveFile:
    path = _value_of(record, 100, "file_path")
    if path is None:
        raise _corrupt("an entry has no path", reader.manifest.path, "iceberg 2.7")
    try:
        content = _value_of(record, 134, "content") or 0
        count = _value_of(record, 103, "record_count")
        count = None if count is None or count < 0 else count  # iceberg 2.21
        if _value_of(record, 131, "key_metadata"):
            raise EncryptedTableError("Cannot read an encrypted file", cause="EncryptedTable", rule="iceberg 2.19")
        return LiveFile(
            manifest=reader.manifest.path,
            content=content,
            path=path,
            physical=reader.files.paths.physical(path),
            format=_format(content, _value_of(record, 101, "file_format"), reader.manifest),
            spec=reader.spec,
            partition=_partition(reader, record),
            record_count=count,
            size=_value_of(record, 104, "file_size_in_bytes"),
            sequence_number=_sequence_number(reader, _value_of(entry, 3, "sequence_number"), status),
            first_row_id=_first_row_id(reader, _value_of(record, 142, "first_row_id"), count),
            equality_ids=tuple(_value_of(record, 135, "equality_ids") or ()),
            referenced=_value_of(record, 143, "referenced_data_file"),
            offset=_value_of(record, 144, "content_offset"),
            length=_value_of(record, 145, "content_size_in_bytes"),
        )
    except HarnessError as error:
        raise error.within(file=path) from error.__cause__


def _format(content: int, format_: str | None, manifest: _Manifest) -> str:
    if content not in (DATA, POSITION_DELETES, EQUALITY_DELETES) or (content == DATA) is manifest.is_deletes:
        raise _corrupt(f"content {content!r} in a manifest of the other kind", manifest.path, "iceberg 2.20")
    if format_ is None:
        raise _corrupt("an entry has no file format", manifest.path, "iceberg 2.7")
    name = format_.lower()
    if name not in ("parquet", "avro", "orc") and (name, content) != ("puffin", POSITION_DELETES):
        message = f"Cannot read a file of format {name!r}"
        raise UnsupportedError(message, cause="UnsupportedFormat", rule="iceberg 2.20")
    return name


def _sequence_number(reader: _Reader, written: int | None, status: int) -> int:
    """The sequence number (iceberg 2.9). An older file in a v1 manifest precedes all numbers."""
    if written is not None:
        return written
    if reader.manifest.sequence_number == 0 or status == 1:
        return reader.manifest.sequence_number
    if reader.avro.header.get("format-version") == "1":
        return 0
    message = "An existing entry has no sequence number, so which deletes hit it is unknown"
    raise InvalidTableError(message, cause="MissingSequenceNumber", rule="iceberg 2.9")


def _first_row_id(reader: _Reader, written: int | None, count: int | None) -> int | None:
    """iceberg 2.11."""
    running = reader.next_row_id
    if running is None or written is not None:
        return None if running is None else written
    if count is None:
        raise _corrupt("row ids need record counts", reader.manifest.path, "iceberg 2.11")
    reader.next_row_id = running + count
    return running


def _partition(reader: _Reader, record: _Record) -> dict[int, Any]:
    """The tuple by field id; by position where a v1 writer gave no ids; what is absent is null (iceberg 2.17)."""
    written: _Record = _value_of(record, 102, "partition") or {}
    types = reader.avro.types(2, 102)
    has_ids = any(isinstance(key, int) for key in written)
    values: dict[int, Any] = {}
    for place, part in enumerate(reader.spec.fields):
        by_place = list(written)[place] if place < len(written) else None
        key = part.id if has_ids else by_place
        value = written.get(key) if key is not None and part.transform != "void" else None
        try:
            values[part.id] = _stored(value, _value_type(part, reader.metadata), types.get(key or 0))
        except ValueError as error:
            message = f"partition field {part.name!r}: {error}"
            raise _corrupt(message, reader.manifest.path, "iceberg 2.18") from error
    return values


def _spec(metadata: MetadataValues, manifest: _Manifest, avro: _AvroFile) -> Spec:
    """The table's spec, else the one in the manifest's header (iceberg 1.27, 2.22)."""
    written = avro.header.get("partition-spec-id", "")
    spec_id = manifest.spec_id if manifest.spec_id is not None else int(written) if written.isdecimal() else 0
    if spec_id in metadata.specs:
        return metadata.specs[spec_id]
    text = avro.header.get("partition-spec")
    if text is None or written not in ("", str(spec_id)):
        message = f"There is no partition spec {spec_id}"
        raise InvalidTableError(message, cause="MissingSpec", file=manifest.path, rule="iceberg 2.22")
    value = parse_json(text, file=manifest.path)
    fields = value.get("fields") if isinstance(value, dict) else value
    if not isinstance(fields, list):
        raise _corrupt("its header has no partition spec", manifest.path, "iceberg 2.22")
    return Spec(spec_id, spec_fields(fields, file=manifest.path))


def _corrupt(reason: str, file: str, rule: str) -> CorruptFileError:
    return CorruptFileError(f"Invalid manifest: {reason}", cause="CorruptManifest", file=file, rule=rule)
