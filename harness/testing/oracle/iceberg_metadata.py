"""An Iceberg metadata file as values, and which snapshot of it to read (iceberg 1.7 to 1.37)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import (
    CorruptFileError,
    EncryptedTableError,
    InvalidTableError,
    IsAViewError,
    RequestError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from harness.testing.oracle.documents import Document, mapping, needed, optional, parse_json, streams, unzstd
from harness.testing.oracle.iceberg_schema import schema_of
from harness.testing.oracle.types import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecField:
    """A field of a partition spec; `source` is None for a transform of several columns (iceberg 1.20)."""

    id: int
    name: str
    source: int | None
    transform: str


@dataclass(frozen=True, slots=True)
class Spec:
    """A partition spec."""

    id: int
    fields: tuple[SpecField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """No fields, or void ones only (iceberg 4.2)."""
        return all(f.transform == "void" for f in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSnapshot:
    """A snapshot, by the parts that a read needs."""

    id: int
    manifest_list: str | None
    manifests: tuple[str, ...]
    schema_id: int | None
    is_encrypted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataValues:
    """A metadata file.

    schemas: by id, with the current one first and then by descending id: the newest meaning of a field id comes first.
    log: (time in ms, snapshot id) of the history of main.
    refs: (snapshot id, whether it is a tag) by name.
    """

    file: str
    version: int
    location: str
    schemas: Mapping[int, Schema]
    current_schema: Schema
    specs: Mapping[int, Spec]
    snapshots: Mapping[int, ListedSnapshot]
    current: ListedSnapshot | None
    refs: Mapping[str, tuple[int, bool]]
    log: tuple[tuple[int, int], ...]
    properties: Mapping[str, str]


def read_metadata(data: bytes, *, file: str) -> MetadataValues:
    """The metadata file with these bytes (iceberg 1.9, 1.15)."""
    document = parse_json(_plain(data, file), file=file)
    if not isinstance(document, dict) or not document.keys() & {"format-version", "view-uuid"}:
        raise TableNotFoundError("The file is no table metadata", cause="NotATable", file=file, rule="iceberg 1.15")
    if document.get("view-uuid") is not None:
        raise IsAViewError("The metadata is a view's", file=file, rule="iceberg 1.9")
    version = needed(document, "format-version", int, file=file)
    if version not in (1, 2, 3):
        message = f"Cannot read Iceberg format version {version}"
        raise UnsupportedError(message, cause="UnsupportedVersion", file=file, rule="iceberg 1.15")
    schemas, current_schema = _schemas(document, version, file)
    snapshots = _snapshots(document, file)
    current_id = optional(document, "current-snapshot-id", int, file=file)
    if current_id not in (None, -1, *snapshots):
        message = f"The current snapshot {current_id} is not in the table"
        raise InvalidTableError(message, cause="MissingSnapshot", file=file, rule="iceberg 1.24")
    current = snapshots.get(-1 if current_id is None else current_id)
    return MetadataValues(
        file=file,
        version=version,
        location=needed(document, "location", str, file=file),
        schemas=schemas,
        current_schema=current_schema,
        specs=_specs(document, version, file),
        snapshots=snapshots,
        current=current,
        refs=_refs(document, current, file),
        log=tuple(
            (needed(e, "timestamp-ms", int, file=file), needed(e, "snapshot-id", int, file=file))
            for e in optional(document, "snapshot-log", list, file=file) or ()
        ),
        properties=optional(document, "properties", dict, file=file) or {},
    )


def select(
    metadata: MetadataValues, *, snapshot_id: int | None, timestamp_ms: int | None, ref: str | None
) -> tuple[ListedSnapshot | None, Schema]:
    """The snapshot to read, None for no rows, and the schema of its rows (iceberg 1.32 to 1.37)."""
    if sum(selector is not None for selector in (snapshot_id, timestamp_ms, ref)) > 1:
        raise RequestError("Cannot select by several of snapshot_id, timestamp_ms and ref", rule="iceberg 1.32")
    snapshot, is_historic = metadata.current, False
    if snapshot_id is not None:
        snapshot, is_historic = metadata.snapshots.get(snapshot_id), True
    elif timestamp_ms is not None:
        # The log's entry of the latest time that is not after; of equal ones the last (iceberg 1.33, 1.34).
        past = [(time, place, id_) for place, (time, id_) in enumerate(metadata.log) if time <= timestamp_ms]
        if not past:
            raise SnapshotNotFoundError(f"There is no snapshot at {timestamp_ms}", cause="NoSnapshotAtTime")
        snapshot, is_historic = metadata.snapshots.get(max(past)[2]), True
    elif ref is not None and (ref != "main" or "main" in metadata.refs):
        snapshot, is_historic = _of_ref(metadata, ref)
    if snapshot is None and is_historic:
        raise SnapshotNotFoundError("Cannot find the snapshot", cause="MissingSnapshot", snapshot=snapshot_id)
    if snapshot is not None and snapshot.is_encrypted:
        raise EncryptedTableError("Cannot read an encrypted snapshot", snapshot=snapshot.id, rule="iceberg 1.31")
    if snapshot is None or not is_historic or snapshot.schema_id is None:
        return snapshot, metadata.current_schema
    if snapshot.schema_id not in metadata.schemas:
        message = f"Snapshot {snapshot.id} has schema {snapshot.schema_id}, which is not in the table"
        raise InvalidTableError(message, cause="MissingSchema", file=metadata.file, rule="iceberg 1.35")
    return snapshot, metadata.schemas[snapshot.schema_id]


def read_with(metadata: MetadataValues, schema: Schema) -> MetadataValues:
    """The metadata with the read's schema as the current one: its meaning of a field id goes before newer ones.

    Replacing a table gives ids of old columns to new ones of the same name, whatever their types; old snapshots stay.
    """
    schemas = {schema.id: schema, **{id_: other for id_, other in metadata.schemas.items() if id_ != schema.id}}
    return replace(metadata, schemas=schemas, current_schema=schema)


def _of_ref(metadata: MetadataValues, ref: str) -> tuple[ListedSnapshot, bool]:
    """A branch's or tag's snapshot, and whether its own schema counts: for tags only (iceberg 1.35)."""
    if ref not in metadata.refs:
        raise SnapshotNotFoundError(f"There is no branch or tag {ref!r}", cause="MissingSnapshot", rule="iceberg 1.37")
    snapshot_id, is_tag = metadata.refs[ref]
    if snapshot_id not in metadata.snapshots:
        message = f"Snapshot {snapshot_id} of {ref!r} is not in the table"
        raise InvalidTableError(message, cause="MissingSnapshot", file=metadata.file, rule="iceberg 1.25")
    return metadata.snapshots[snapshot_id], is_tag


def _plain(data: bytes, file: str) -> bytes:
    """Compression shows in the bytes, not in the name (iceberg 1.7)."""
    try:
        if data[:4] == b"\x28\xb5\x2f\xfd":
            return unzstd(data)
        return streams("gzip", data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, ValueError, zlib.error) as error:
        raise CorruptFileError(f"Cannot decompress metadata file: {error}", file=file, rule="iceberg 1.7") from error


def _schemas(document: Document, version: int, file: str) -> tuple[dict[int, Schema], Schema]:
    listed = optional(document, "schemas", list, file=file)
    if listed is not None:
        current = needed(document, "current-schema-id", int, file=file, cause="MissingSchema")
    elif version == 1:
        listed = [needed(document, "schema", dict, file=file, cause="MissingSchema")]
        current = schema_of(listed[0], file=file).id
    else:
        raise InvalidTableError("Missing schemas", cause="MissingSchema", file=file, rule="iceberg 1.17")
    schemas: dict[int, Schema] = {}
    for schema in (schema_of(mapping(item, file=file), file=file) for item in listed):
        if schemas.setdefault(schema.id, schema) != schema:
            raise InvalidTableError(f"Schema id {schema.id} has two meanings", file=file, rule="iceberg 1.17")
    if current not in schemas:
        raise InvalidTableError(f"There is no schema {current}", cause="MissingSchema", file=file, rule="iceberg 1.17")
    newest_first = sorted(schemas.values(), key=lambda s: (s.id != current, -s.id))
    return {schema.id: schema for schema in newest_first}, schemas[current]


def _specs(document: Document, version: int, file: str) -> dict[int, Spec]:
    listed = optional(document, "partition-specs", list, file=file)
    if listed is None and version == 1:
        fields = needed(document, "partition-spec", list, file=file, cause="MissingSpec")
        return {0: Spec(0, spec_fields(fields, file=file))}
    if listed is None:
        raise InvalidTableError("Missing partition-specs", cause="MissingSpec", file=file, rule="iceberg 1.17")
    specs: dict[int, Spec] = {}
    for item in listed:
        fields = needed(item, "fields", list, file=file)
        spec = Spec(needed(item, "spec-id", int, file=file), spec_fields(fields, file=file))
        if specs.setdefault(spec.id, spec) != spec:
            raise InvalidTableError(f"Partition spec id {spec.id} has two meanings", file=file, rule="iceberg 1.17")
    return specs


def spec_fields(fields: list[Any], *, file: str) -> tuple[SpecField, ...]:
    """The fields of a spec; without ids they are numbered from 1000 on (iceberg 1.19)."""
    ids = [optional(mapping(item, file=file), "field-id", int, file=file) for item in fields]
    if all(id_ is None for id_ in ids):
        ids = list(range(1000, 1000 + len(fields)))
    if None in ids or len(set(ids)) < len(ids):
        raise InvalidTableError(f"Invalid partition spec: field ids {ids}", file=file, rule="iceberg 1.19")
    found = []
    for item, id_ in zip(fields, ids, strict=True):
        sources = optional(item, "source-ids", list, file=file) or [needed(item, "source-id", int, file=file)]
        text = needed(item, "transform", str, file=file)
        name = text.strip().lower()
        known = name in _TRANSFORMS or re.fullmatch(r"(?:bucket|truncate)\s*\[\s*0*[1-9][0-9]*\s*\]", name)
        found.append(
            SpecField(
                id=id_ or 0,
                name=needed(item, "name", str, file=file),
                source=sources[0] if len(sources) == 1 else None,
                transform=name.replace(" ", "") if known and len(sources) == 1 else f"unknown {text}",
            )
        )
    return tuple(found)


_TRANSFORMS = frozenset({"identity", "year", "month", "day", "hour", "void"})


def _snapshots(document: Document, file: str) -> dict[int, ListedSnapshot]:
    has_keys = bool(optional(document, "encryption-keys", list, file=file))
    found: dict[int, ListedSnapshot] = {}
    for item in optional(document, "snapshots", list, file=file) or ():
        id_ = needed(item, "snapshot-id", int, file=file)
        manifest_list = optional(item, "manifest-list", str, file=file)
        inline = optional(item, "manifests", list, file=file)
        if (manifest_list is None and inline is None) or id_ in found:
            message = f"Snapshot {id_} has no manifests, or comes twice"
            raise InvalidTableError(message, file=file, rule="iceberg 1.26")
        found[id_] = ListedSnapshot(
            id=id_,
            manifest_list=manifest_list,
            manifests=tuple(inline or ()),
            schema_id=optional(item, "schema-id", int, file=file),
            is_encrypted=has_keys or item.get("key-id") is not None,
        )
    return found


def _refs(document: Document, current: ListedSnapshot | None, file: str) -> dict[str, tuple[int, bool]]:
    refs: dict[str, tuple[int, bool]] = {}
    for name, ref in (optional(document, "refs", dict, file=file) or {}).items():
        if ref is not None:
            kind = needed(ref, "type", str, file=file).lower()
            if kind not in ("branch", "tag"):
                raise InvalidTableError(f"Ref {name!r} is a {kind!r}", file=file, rule="iceberg 1.25")
            refs[name] = needed(ref, "snapshot-id", int, file=file), kind == "tag"
    main = refs.pop("main", None)
    if main is not None and main[0] != (-1 if current is None else current.id):
        message = f"main is at snapshot {main[0]}, not at the current one"
        raise InvalidTableError(message, cause="MissingSnapshot", file=file, rule="iceberg 1.25")
    return refs if current is None else {"main": main or (current.id, False), **refs}
