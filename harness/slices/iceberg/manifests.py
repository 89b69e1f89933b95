"""Manifests and manifest lists of a slice: the source's entries under their new paths, nothing inherited.

Sequence numbers, snapshot ids and row ids are written out, so that an entry means what it meant however many of its
neighbours are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.iceberg.manifests import DataFile, ManifestEntry, ManifestFile, partition_types
from harness.iceberg.metadata import Snapshot
from harness.iceberg.specs import PartitionSpec
from harness.model.schema import (
    BinaryType,
    BooleanType,
    Field,
    FloatType,
    IntegerType,
    OpaqueType,
    StringType,
    Type,
)
from harness.slices.iceberg.contents import Contents, FileKey, key_of
from harness.writing.iceberg.avro import (
    AvroDocument,
    avro_name,
    avro_value,
    int_map,
    manifest_list_schema,
)
from harness.writing.iceberg.commit import CommitContext, write_manifest

_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWriter:
    """Writes manifests into a folder that readers know under another name.

    contents: what the slice holds.
    written: what became of its files: parts of their `data_file`, path and size at least; a file without is gone.
    folder: where manifests are written. recorded: what their paths begin with.
    schema_json: the slice's current schema.
    """

    contents: Contents
    written: Mapping[FileKey, Mapping[str, Any]]
    folder: Path
    recorded: str
    schema_json: Mapping[str, Any]

    def lists(self) -> dict[int, str]:
        """Writes all manifests and lists; the recorded path of each snapshot's list."""
        records: dict[str, dict[str, Any]] = {}
        for number, (path, entries) in enumerate(self.contents.entries.items()):
            live = [entry for entry in entries if key_of(entry) in self.written]
            if live:
                records[path] = self._manifest(number, live, self._listed(path))
        found = {}
        for snapshot in self.contents.snapshots:
            listed = [self._record(m, records[m.path]) for m in self.contents.lists[snapshot.id] if m.path in records]
            found[snapshot.id] = self._list(snapshot, listed)
        return found

    def _listed(self, path: str) -> ManifestFile:
        return next(m for manifests in self.contents.lists.values() for m in manifests if m.path == path)

    def _manifest(self, number: int, entries: Sequence[ManifestEntry], manifest: ManifestFile) -> dict[str, Any]:
        version = self.contents.source.metadata.format_version
        spec = self.contents.source.metadata.specs[entries[0].file.spec_id]
        fields = self._partition_fields(spec, [entry.file for entry in entries])

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
            load=_nothing,
        )
        rows = [self._entry(entry, fields, manifest) for entry in entries]
        return write_manifest(context, spec.id, int(manifest.is_deletes), rows)

    def _partition_fields(self, spec: PartitionSpec, files: Iterable[DataFile]) -> list[Field]:
        schemas = (self.contents.selection.schema, *self.contents.source.metadata.schemas.values())
        types = partition_types(spec, schemas)
        tuples = [file.partition for file in files]
        return [
            Field(id=f.field_id, name=f.name, type=_writable(types[f.field_id], [t.get(f.field_id) for t in tuples]))
            for f in spec.fields
        ]

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

    def _record(self, manifest: ManifestFile, written: Mapping[str, Any]) -> dict[str, Any]:
        """What the list says of a manifest: as it is now, and of the commit that added it."""
        return {
            **written,
            "sequence_number": manifest.sequence_number,
            "added_snapshot_id": _signed(manifest.added_snapshot_id or 0),
            "first_row_id": manifest.first_row_id,
        }

    def _list(self, snapshot: Snapshot, records: list[dict[str, Any]]) -> str:
        version = self.contents.source.metadata.format_version
        header = {"snapshot-id": str(snapshot.id), "format-version": str(version)}
        if version > 1:
            header["sequence-number"] = str(snapshot.sequence_number)
        name = f"snap-{snapshot.id}.avro"
        AvroDocument(manifest_list_schema(version), records, header).write(self.folder / name)
        return f"{self.recorded}/{name}"


def spec_fields(spec: PartitionSpec) -> list[dict[str, Any]]:
    """The fields of a spec as in metadata and in headers of manifests."""
    found = []
    for f in spec.fields:
        sources = {"source-id": f.source_id} if f.source_id is not None else {"source-ids": list(f.source_ids)}
        found.append({**sources, "field-id": f.field_id, "name": f.name, "transform": str(f.transform)})
    return found


def _signed(number: int) -> int:
    """A snapshot id that a writer gave more than 64 bits, as those read it that keep 64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _nothing(path: str) -> AvroDocument:
    raise LookupError(path)


def _writable(type_: Type, values: Iterable[Any]) -> Type:
    """The type; in place of one that nobody knows any more, one that holds the values."""
    if not isinstance(type_, OpaqueType):
        return type_
    match next((value for value in values if value is not None), None):
        case bool():
            return BooleanType()
        case int():
            return IntegerType(64)
        case float():
            return FloatType(64)
        case bytes():
            return BinaryType()
        case _:
            return StringType()
