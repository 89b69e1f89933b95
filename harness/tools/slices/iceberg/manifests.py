"""Manifests and manifest lists of a slice: the source's entries under their new paths, nothing inherited.

Sequence numbers, snapshot ids and row ids are written out, so that an entry means what it meant however many of its
neighbours are gone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.metadata.iceberg.manifests import ManifestEntry, ManifestFile
from harness.metadata.iceberg.metadata import decompress
from harness.metadata.iceberg.model import PartitionSpec, Snapshot
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.values import partition_types
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    Field,
    FloatType,
    IntegerType,
    OpaqueType,
    Schema,
    StringType,
    Type,
)
from harness.testing.writing.iceberg.avro import AvroDocument, avro_name, avro_value, int_map, manifest_list_schema
from harness.testing.writing.iceberg.commit import CommitContext, write_manifest
from harness.tools.slices.iceberg.contents import FileKey, IcebergContents, key_of

_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWriter:
    """Writes manifests of the slice's contents into a folder that readers know under another name.

    written: the parts of its files' `data_file` that are new, path and size at least; a file without is gone.
    folder: of the manifests. recorded: the folder as paths in the metadata begin. schema_json: the current schema.
    """

    contents: IcebergContents
    written: Mapping[FileKey, Mapping[str, Any]]
    folder: Path
    recorded: str
    schema_json: Mapping[str, Any]

    def lists(self) -> dict[int, str]:
        """Writes all manifests and lists; the recorded path of each snapshot's list."""
        records: dict[str, dict[str, Any]] = {}
        manifests = {m.path: m for listed in self.contents.lists.values() for m in listed}
        for number, (path, entries) in enumerate(self.contents.entries.items()):
            live = [entry for entry in entries if key_of(entry) in self.written]
            if live:
                records[path] = self._manifest(number, live, manifests[path])
        found = {}
        for snapshot in self.contents.snapshots:
            listed = [
                {
                    **records[m.path],
                    "sequence_number": m.sequence_number,
                    "added_snapshot_id": _signed(m.added_snapshot_id or 0),
                    "first_row_id": m.first_row_id,
                }
                for m in self.contents.lists[snapshot.id]
                if m.path in records
            ]
            version = self.contents.source.metadata.format_version
            header = {"snapshot-id": str(snapshot.id), "format-version": str(version)}
            if version > 1:
                header["sequence-number"] = str(snapshot.sequence_number)
            name = f"snap-{snapshot.id}.avro"
            AvroDocument(manifest_list_schema(version), listed, header).write(self.folder / name)
            found[snapshot.id] = f"{self.recorded}/{name}"
        return found

    def _manifest(self, number: int, entries: Sequence[ManifestEntry], manifest: ManifestFile) -> dict[str, Any]:
        version = self.contents.source.metadata.format_version
        spec = self.contents.source.metadata.specs[entries[0].file.spec_id]
        schemas = (self.contents.selection.schema, *self.contents.source.metadata.schemas.values())
        types = partition_types(spec, schemas)
        tuples = [entry.file.partition for entry in entries]
        fields = [
            Field(id=f.field_id, name=f.name, type=_writable(types[f.field_id], [t.get(f.field_id) for t in tuples]))
            for f in spec.fields
        ]

        def store(document: AvroDocument) -> tuple[str, int]:
            name = f"{number:05d}-m0.avro"
            return f"{self.recorded}/{name}", document.write(self.folder / name)

        context = CommitContext(
            version=version,
            snapshot_id=_signed(manifest.added_snapshot_id or 0),
            parent_id=None,
            sequence_number=manifest.sequence_number,
            next_row_id=None,
            schema_json=dict(self.schema_json),
            partition_fields={spec.id: fields},
            spec_json={spec.id: spec_fields(spec)},
            store=store,
            load=dict[str, AvroDocument]().__getitem__,
        )
        rows = [self._entry(entry, fields, manifest) for entry in entries]
        return write_manifest(context, spec.id, int(manifest.is_deletes), rows)

    def _entry(self, entry: ManifestEntry, fields: Sequence[Field], manifest: ManifestFile) -> dict[str, Any]:
        file = entry.file
        data_file = {
            "content": int(file.content),
            "file_format": file.format.upper(),
            "partition": {avro_name(f.name): avro_value(f.type, file.partition.get(f.id)) for f in fields},
            "record_count": -1 if file.record_count is None else file.record_count,
            "block_size_in_bytes": 67_108_864,  # v1 requires it, readers ignore it
            "split_offsets": None if file.split_offsets is None else list(file.split_offsets),
            "equality_ids": None if file.equality_ids is None else list(file.equality_ids),
            "sort_order_id": file.sort_order_id,
            "first_row_id": file.first_row_id,
            "referenced_data_file": file.referenced_data_file,
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size,
            **{name: int_map(getattr(file, name)) for name in _MAPS},
            **self.written[key_of(entry)],
        }
        own = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        return {
            "status": int(entry.status),
            "snapshot_id": _signed(own or 0),
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "data_file": data_file,
        }


def spec_fields(spec: PartitionSpec) -> list[dict[str, Any]]:
    """The fields of a spec as in metadata and in headers of manifests."""
    found = []
    for f in spec.fields:
        sources = {"source-id": f.source_id} if f.source_id is not None else {"source-ids": list(f.source_ids)}
        found.append({**sources, "field-id": f.field_id, "name": f.name, "transform": str(f.transform)})
    return found


def _signed(number: int) -> int:
    """The lower 64 bits of a snapshot id, as readers keep them that have no more."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _writable(type_: Type, values: Iterable[Any]) -> Type:
    """The type; in place of an unknown one, a type that holds the values."""
    if not isinstance(type_, OpaqueType):
        return type_
    value = next((value for value in values if value is not None), None)
    known: dict[type, Type] = {bool: BooleanType(), int: IntegerType(64), float: FloatType(64), bytes: BinaryType()}
    return known.get(type(value), StringType())


# The metadata document of a slice: the source's, without the parts that the slice lacks.


# Properties with places for new files, or classes that a writer would ask: not the slice's.
_LOCATING = (
    *("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"),
    *("write.location-provider.impl", "write.object-storage.enabled"),
)


def read_document(table: IcebergTable) -> dict[str, Any]:
    """The table's metadata as it is in its file."""
    storage = table.source.storage
    data = storage.read(table.metadata_path)
    document: dict[str, Any] = json.loads(decompress(data, file=table.metadata_path, limits=storage.limits))
    return document


def schema_json(document: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """A schema of the document, as it is there, with its id."""
    listed = document.get("schemas") or [document["schema"]]
    return next({"schema-id": 0, **s} for s in listed if s.get("schema-id", 0) == schema.id)


def slice_document(
    source: Mapping[str, Any],
    *,
    location: str,
    schema: Schema,
    snapshots: tuple[Snapshot, ...],
    lists: Mapping[int, str],
    specs: Mapping[int, PartitionSpec],
    whole: bool,
) -> dict[str, Any]:
    """The document of a slice.

    Args:
        source: the table's, see `read_document`.
        location, schema: the slice's.
        snapshots: oldest first; the last is the slice's current one.
        lists: recorded paths of manifest lists by snapshot id.
        specs: of the slice's files, some of which only manifests may know.
        whole: True: the slice has all files of its snapshots, so that their totals are right.
    """
    document = copy.deepcopy(dict(source))
    ids = {snapshot.id for snapshot in snapshots}
    document["location"] = location
    document["snapshots"] = [
        _snapshot(raw, lists[raw["snapshot-id"]], is_root=raw["snapshot-id"] == snapshots[0].id, whole=whole)
        for raw in source.get("snapshots") or ()
        if raw["snapshot-id"] in ids
    ]
    document["current-snapshot-id"] = snapshots[-1].id if snapshots else -1
    document["snapshot-log"] = _log(source.get("snapshot-log") or [], ids, snapshots)
    refs = {name: ref for name, ref in (source.get("refs") or {}).items() if ref["snapshot-id"] in ids}
    if snapshots:
        main = {**refs.get("main", {"type": "branch"}), "snapshot-id": snapshots[-1].id}
        refs = {"main": main, **{name: ref for name, ref in refs.items() if name != "main"}}
    if document["format-version"] > 1 or "refs" in source:
        document["refs"] = refs
    document["metadata-log"] = []
    for name in ("statistics", "partition-statistics"):
        document.pop(name, None)
    known = {spec["spec-id"] for spec in document.get("partition-specs") or ()}
    if "partition-specs" in document:
        added = [{"spec-id": s.id, "fields": spec_fields(s)} for s in specs.values() if s.id not in known]
        document["partition-specs"] = [*document["partition-specs"], *added]
    if "current-schema-id" in document:
        document["current-schema-id"] = schema.id
    if "schema" in document:
        document["schema"] = schema_json(source, schema)
    properties = document.get("properties") or {}
    document["properties"] = {name: text for name, text in properties.items() if name not in _LOCATING}
    return document


def left_out(source: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """A sentence for each kind of metadata that the slice lacks."""
    told = []
    for name, what in (("refs", "branches and tags"), ("properties", "properties")):
        gone = sorted(set(source.get(name) or {}) - set(document.get(name) or {}))
        if gone:
            told.append(f"Left out {what}: {', '.join(gone)}")
    return told


def _snapshot(raw: Mapping[str, Any], manifest_list: str, *, is_root: bool, whole: bool) -> dict[str, Any]:
    gone = {"manifests", *(["parent-snapshot-id"] if is_root else [])}
    found = {**{name: value for name, value in raw.items() if name not in gone}, "manifest-list": manifest_list}
    if raw.get("summary") is not None and not whole:
        found["summary"] = {name: text for name, text in raw["summary"].items() if not name.startswith("total-")}
    return found


def _log(log: list[dict[str, Any]], ids: set[int], snapshots: tuple[Snapshot, ...]) -> list[dict[str, Any]]:
    """The history of `main` since it last was at a snapshot that the slice lacks: no time is answered wrongly."""
    first = max((place + 1 for place, entry in enumerate(log) if entry["snapshot-id"] not in ids), default=0)
    kept = log[first:]
    if snapshots and (not kept or kept[-1]["snapshot-id"] != snapshots[-1].id):
        # An older snapshot, or a branch: it is current in the slice from its own time on, and nothing before it.
        return [{"timestamp-ms": snapshots[-1].timestamp_ms, "snapshot-id": snapshots[-1].id}]
    return kept
