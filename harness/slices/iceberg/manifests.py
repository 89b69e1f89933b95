"""The metadata of a slice of an Iceberg table: its contents, manifests, manifest lists and metadata file.

Manifest entries are copied from the source with new paths. Sequence numbers, snapshot ids and row ids are written
explicitly, so that an entry keeps its meaning although other entries are removed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import RequestError
from harness.metadata.iceberg.columns.reading import read_entries
from harness.metadata.iceberg.manifests import Content, ManifestEntry, ManifestFile, open_manifest
from harness.metadata.iceberg.metadata import decompress
from harness.metadata.iceberg.model import IcebergSnapshot, PartitionSpec
from harness.metadata.iceberg.scan import manifests_of, with_specs_of
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import partition_types
from harness.metadata.model import schema as dt
from harness.metadata.planned_scan import PlannedScan
from harness.storage.limits import contained
from harness.storage.paths import RecordedPath
from harness.writing.iceberg.avro import AvroDocument, avro_name, avro_value, int_map, manifest_list_schema
from harness.writing.iceberg.commit import CommitContext, write_manifest

FileKey: TypeAlias = tuple[str, int | None]
"""The identity of a manifest entry's file: the recorded path and, for a deletion vector, its offset in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergContents:
    """The contents of a slice.

    Attributes:
        source: The table, including partition specs that only its manifests define.
        selection: The snapshot and schema that are pulled. They become current in the slice.
        snapshots: The snapshots, oldest first. The last one is the selected snapshot. Empty if the table has no
            snapshots.
        lists: For each snapshot id, the manifests with an entry that the slice keeps.
        entries: For each manifest path, the entries that the slice keeps.
        plans: For each snapshot id, the filtered read.
    """

    source: IcebergTable = field(repr=False)
    selection: IcebergSelection
    snapshots: tuple[IcebergSnapshot, ...]
    lists: Mapping[int, tuple[ManifestFile, ...]]
    entries: Mapping[RecordedPath, tuple[ManifestEntry, ...]]
    plans: Mapping[int, PlannedScan]

    def in_reverse_order(self) -> IcebergContents:
        """Return the same contents, with manifests and their entries in reverse order."""
        return replace(
            self,
            lists={id_: manifests[::-1] for id_, manifests in self.lists.items()},
            entries={path: entries[::-1] for path, entries in self.entries.items()},
        )

    def files(self, *contents: Content) -> Iterator[ManifestEntry]:
        """Yield each file of the given kinds once, as the first manifest lists it."""
        keys: set[FileKey] = set()
        for entries in self.entries.values():
            for entry in entries:
                if entry.file.content in contents and file_key(entry) not in keys:
                    keys.add(file_key(entry))
                    yield entry


def file_key(entry: ManifestEntry) -> FileKey:
    """Return the identity of the entry's file."""
    return entry.file.path, entry.file.content_offset


def choose_contents(table: IcebergTable, selection: IcebergSelection, where: str | None, last: int) -> IcebergContents:
    """Return the contents of a slice with a snapshot and the `last - 1` snapshots before it.

    Args:
        table: The source.
        selection: The snapshot.
        where: The filter.
        last: The number of snapshots. There are fewer if older ones have expired.

    Raises:
        HarnessError: As for planning a read of each snapshot.
    """
    newest: list[IcebergSnapshot] = []
    snapshot = selection.snapshot
    # fewer, if older snapshots have expired
    while snapshot is not None and len(newest) < last and snapshot not in newest:
        newest.append(snapshot)
        snapshot = None if snapshot.parent_id is None else table.metadata.snapshots.get(snapshot.parent_id)
    snapshots = tuple(reversed(newest))
    selections = {s.id: table.select(s.id) for s in snapshots[:-1]}
    if selection.snapshot is not None:
        selections[selection.snapshot.id] = selection
    plans = {id_: table.plan(snapshot_selection, None, where) for id_, snapshot_selection in selections.items()}
    file_keys: set[FileKey] = set()
    for plan in plans.values():
        file_keys.update((path, None) for path in plan.files.column("path").to_pylist())
        file_keys.update((delete.path, None) for delete in plan.equality_deletes)
        file_keys.update((delete.path, getattr(delete, "offset", None)) for delete, _ in plan.position_hits())
    manifests_by_snapshot = {snapshot.id: manifests_of(table, snapshot) for snapshot in snapshots}
    manifests_by_path = {m.path: m for manifests in manifests_by_snapshot.values() for m in manifests}
    source = with_specs_of(manifests_by_path.values(), replace(table, storage=table.storage.for_read()))
    entries = _read_kept_entries(source, selection, manifests_by_path, file_keys)
    return IcebergContents(
        source=source,
        selection=selection,
        snapshots=snapshots,
        lists={
            id_: tuple(m for m in manifests if m.path in entries) for id_, manifests in manifests_by_snapshot.items()
        },
        entries=entries,
        plans=plans,
    )


def _read_kept_entries(
    source: IcebergTable,
    selection: IcebergSelection,
    manifests: Mapping[RecordedPath, ManifestFile],
    file_keys: set[FileKey],
) -> dict[RecordedPath, tuple[ManifestEntry, ...]]:
    """Return the manifest entries of kept files, by manifest, with all their metadata."""
    metadata, storage = source.metadata, source.storage
    schemas = [selection.schema, *metadata.schemas.values()]
    result = {}
    with source.reading_manifests(list(manifests.values())) as read:
        for manifest in manifests.values():
            with contained(file=manifest.path):
                reader = open_manifest(
                    read(manifest), manifest, specs=metadata.specs, schemas=schemas, limits=storage.limits
                )
                entries = tuple(entry for entry in read_entries([reader]) if file_key(entry) in file_keys)
            if entries:
                result[manifest.path] = entries
    return result


_NAME_MAPPING = "schema.name-mapping.default"


def check_columns(contents: IcebergContents, columns: tuple[dt.Field, ...]) -> None:
    """Raise RequestError if a partition or an equality delete needs a column that the slice leaves out."""
    ids = {f.id for _, f in dt.walk(columns)}
    specs = contents.source.metadata.specs
    fields_by_id = contents.selection.schema.by_id()
    used_spec_ids = {entry.file.spec_id for entry in contents.files(*Content)} | {
        contents.source.metadata.default_spec_id
    }
    # The source of a partition field may be a column that the table has dropped. The slice does not need it.
    requirements = [
        (id_, f"the partition field {f.name}")
        for spec_id in sorted(used_spec_ids & specs.keys())
        for f in specs[spec_id].fields
        if not isinstance(f.transform, Void)
        for id_ in f.source_ids
        if id_ in fields_by_id
    ]
    requirements += [
        (id_, "an equality delete")
        for entry in contents.files(Content.EQUALITY_DELETES)
        for id_ in entry.file.equality_ids or ()
    ]
    for id_, reader in requirements:
        if id_ not in ids:
            name = fields_by_id[id_][0][0] if id_ in fields_by_id else f"with id {id_}, which the table has dropped"
            raise RequestError(
                f"Cannot leave out column {name}: {reader} needs it; name it in columns",
                table=contents.source.metadata.location,
                field=name,
                options=("columns",),
            )


def narrow_document(
    source: Mapping[str, Any], columns: tuple[dt.Field, ...], contents: IcebergContents
) -> tuple[dict[str, object], list[str]]:
    """Return the metadata document with only these columns, and a sentence for each other part that is left out."""
    document = copy.deepcopy(dict(source))
    column_ids = {f.id for f in columns}
    ids = {f.id for _, f in dt.walk(columns)}
    for schema in (*(document.get("schemas") or ()), *([document["schema"]] if "schema" in document else ())):
        schema["fields"] = [f for f in schema["fields"] if f["id"] in column_ids]
        if "identifier-field-ids" in schema:
            schema["identifier-field-ids"] = [i for i in schema["identifier-field-ids"] if i in ids]
    orders, notes = document.get("sort-orders") or [], []
    ordered = [order for order in orders if ids.issuperset(_source_ids(order))]
    if len(ordered) < len(orders):
        if not any(order["order-id"] == 0 for order in ordered):
            ordered.append({"order-id": 0, "fields": []})
        document["sort-orders"] = ordered
        if document.get("default-sort-order-id") not in {order["order-id"] for order in ordered}:
            document["default-sort-order-id"] = 0
        notes = ["Left out sort orders that use columns that are left out"]
    used_spec_ids = {entry.file.spec_id for entry in contents.files(*Content)} | {document.get("default-spec-id", 0)}
    if "partition-specs" in document:
        specs = document["partition-specs"]
        document["partition-specs"] = [
            s for s in specs if s["spec-id"] in used_spec_ids or ids.issuperset(_source_ids(s))
        ]
    properties = document.get("properties") or {}
    omissions = {
        f.name for schema in contents.source.metadata.schemas.values() for f in schema.fields if f.id not in column_ids
    }
    document["properties"] = {
        name: text
        for name, text in properties.items()
        if not any(name.endswith(f".column.{column}") for column in omissions)
    }
    if _NAME_MAPPING in properties:
        mapping = [m for m in json.loads(properties[_NAME_MAPPING]) if m.get("field-id") in column_ids]
        document["properties"][_NAME_MAPPING] = json.dumps(mapping)
    return document, notes


def _source_ids(order: Mapping[str, Any]) -> list[int]:
    """Return the ids of the source columns of a sort order or a partition spec."""
    return [
        source
        for f in order["fields"]
        for source in ([f["source-id"]] if "source-id" in f else f.get("source-ids") or ())
    ]


_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWriter:
    """Writes the manifests of a slice.

    Attributes:
        contents: The contents of the slice.
        written: The new values in each file's `data_file`, at least its path and size. Files that are not listed are
            left out.
        folder: The folder in which the manifests are written. They are moved to `recorded` later.
        recorded: The final folder, as the metadata names it.
        schema_json: The current schema.
        statistics: If False, manifests and lists have no bounds, and no counts except of rows and files.
    """

    contents: IcebergContents
    written: Mapping[FileKey, Mapping[str, Any]]
    folder: Path
    recorded: str
    schema_json: Mapping[str, Any]
    statistics: bool

    def write_lists(self) -> dict[int, str]:
        """Write all manifests and manifest lists, and return the recorded path of each snapshot's list."""
        records: dict[str, dict[str, object]] = {}
        manifests = {m.path: m for listed in self.contents.lists.values() for m in listed}
        for number, (path, entries) in enumerate(self.contents.entries.items()):
            live = [entry for entry in entries if file_key(entry) in self.written]
            if live:
                records[path] = self._write_manifest(number, live, manifests[path])
        result = {}
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
            result[snapshot.id] = f"{self.recorded}/{name}"
        return result

    def _write_manifest(
        self, number: int, entries: Sequence[ManifestEntry], manifest: ManifestFile
    ) -> dict[str, object]:
        version = self.contents.source.metadata.format_version
        spec = self.contents.source.metadata.specs[entries[0].file.spec_id]
        schemas = (self.contents.selection.schema, *self.contents.source.metadata.schemas.values())
        types = partition_types(spec, schemas)
        tuples = [entry.file.partition for entry in entries]
        fields = [
            dt.Field(
                id=f.field_id, name=f.name, type=_writable_type(types[f.field_id], [t.get(f.field_id) for t in tuples])
            )
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
        rows = [self._entry_record(entry, fields, manifest) for entry in entries]
        record = write_manifest(context, spec.id, int(manifest.is_deletes), rows)
        return record if self.statistics else {**record, "partitions": None}

    def _entry_record(
        self, entry: ManifestEntry, fields: Sequence[dt.Field], manifest: ManifestFile
    ) -> dict[str, object]:
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
            **self.written[file_key(entry)],
            **({} if self.statistics else dict.fromkeys(_MAPS)),
        }
        snapshot_id = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        return {
            "status": int(entry.status),
            "snapshot_id": _signed(snapshot_id or 0),
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "data_file": data_file,
        }


def spec_fields(spec: PartitionSpec) -> list[dict[str, object]]:
    """Return the fields of a partition spec as written in metadata files and manifest headers."""
    result = []
    for f in spec.fields:
        sources = {"source-id": f.source_id} if f.source_id is not None else {"source-ids": list(f.source_ids)}
        result.append({**sources, "field-id": f.field_id, "name": f.name, "transform": str(f.transform)})
    return result


def _signed(number: int) -> int:
    """Return the lower 64 bits of a snapshot id, which is what 64-bit readers keep."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _writable_type(type_: dt.Type, values: Iterable[object]) -> dt.Type:
    """Return the type. If it is unknown, return a type that can hold the values."""
    if not isinstance(type_, dt.OpaqueType):
        return type_
    value = next((value for value in values if value is not None), None)
    types = (dt.BooleanType(), dt.IntegerType(64), dt.FloatType(64), dt.BinaryType())
    types_by_class: dict[type, dt.Type] = dict(zip((bool, int, float, bytes), types, strict=True))
    return types_by_class.get(type(value), dt.StringType())


# Properties that place new files elsewhere, or that name classes for writers. A slice does not keep them.
_LOCATING = (
    *("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"),
    *("write.location-provider.impl", "write.object-storage.enabled"),
)


def read_document(table: IcebergTable) -> dict[str, object]:
    """Return the table's metadata document, unchanged, from its file."""
    storage = table.storage
    data = storage.read(table.metadata_path)
    document: dict[str, object] = json.loads(decompress(data, file=table.metadata_path, limits=storage.limits))
    return document


def schema_json(document: Mapping[str, Any], schema: dt.Schema) -> dict[str, Any]:
    """Return the document's JSON of a schema, including the schema id."""
    schemas = document.get("schemas") or [document["schema"]]
    return next({"schema-id": 0, **s} for s in schemas if s.get("schema-id", 0) == schema.id)


def slice_document(
    source: Mapping[str, Any],
    *,
    location: str,
    schema: dt.Schema,
    snapshots: tuple[IcebergSnapshot, ...],
    lists: Mapping[int, str],
    specs: Mapping[int, PartitionSpec],
    whole: bool,
) -> dict[str, object]:
    """Return the metadata document of a slice.

    Args:
        source: The source's document, see `read_document`.
        location: The slice's location.
        schema: The slice's schema.
        snapshots: The slice's snapshots, oldest first. The last one is current.
        lists: The recorded paths of manifest lists, by snapshot id.
        specs: The partition specs of the slice's files. Some may be defined only in manifests.
        whole: True if the slice has all files of its snapshots, so that the totals in their summaries are right.
    """
    document = copy.deepcopy(dict(source))
    ids = {snapshot.id for snapshot in snapshots}
    document["location"] = location
    document["snapshots"] = [
        _slice_snapshot(raw, lists[raw["snapshot-id"]], is_root=raw["snapshot-id"] == snapshots[0].id, whole=whole)
        for raw in source.get("snapshots") or ()
        if raw["snapshot-id"] in ids
    ]
    document["current-snapshot-id"] = snapshots[-1].id if snapshots else -1
    document["snapshot-log"] = _snapshot_log(source.get("snapshot-log") or [], ids, snapshots)
    refs = {name: ref for name, ref in (source.get("refs") or {}).items() if ref["snapshot-id"] in ids}
    if snapshots:
        main = {**refs.get("main", {"type": "branch"}), "snapshot-id": snapshots[-1].id}
        refs = {"main": main, **{name: ref for name, ref in refs.items() if name != "main"}}
    if document["format-version"] > 1 or "refs" in source:
        document["refs"] = refs
    document["metadata-log"] = []
    for name in ("statistics", "partition-statistics"):
        document.pop(name, None)
    spec_ids = {spec["spec-id"] for spec in document.get("partition-specs") or ()}
    if "partition-specs" in document:
        added = [{"spec-id": s.id, "fields": spec_fields(s)} for s in specs.values() if s.id not in spec_ids]
        document["partition-specs"] = [*document["partition-specs"], *added]
    if "current-schema-id" in document:
        document["current-schema-id"] = schema.id
    if "schema" in document:
        document["schema"] = schema_json(source, schema)
    properties = document.get("properties") or {}
    document["properties"] = {name: text for name, text in properties.items() if name not in _LOCATING}
    return document


def omission_notes(source: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each kind of metadata that the slice lacks."""
    notes = []
    for name, what in (("refs", "branches and tags"), ("properties", "properties")):
        omissions = sorted(set(source.get(name) or {}) - set(document.get(name) or {}))
        if omissions:
            notes.append(f"Left out {what}: {', '.join(omissions)}")
    return notes


def _slice_snapshot(raw: Mapping[str, Any], manifest_list: str, *, is_root: bool, whole: bool) -> dict[str, object]:
    omissions = {"manifests", *(["parent-snapshot-id"] if is_root else [])}
    result = {**{name: value for name, value in raw.items() if name not in omissions}, "manifest-list": manifest_list}
    if raw.get("summary") is not None and not whole:
        result["summary"] = {name: text for name, text in raw["summary"].items() if not name.startswith("total-")}
    return result


def _snapshot_log(
    log: list[dict[str, Any]], ids: set[int], snapshots: tuple[IcebergSnapshot, ...]
) -> list[dict[str, object]]:
    """Return the history of `main` after its last snapshot that the slice lacks.

    Reads by time then never return a wrong snapshot.
    """
    first = max((place + 1 for place, entry in enumerate(log) if entry["snapshot-id"] not in ids), default=0)
    history = log[first:]
    if snapshots and (not history or history[-1]["snapshot-id"] != snapshots[-1].id):
        # For an older snapshot or a branch, the history begins at its own time, and nothing is readable before.
        return [{"timestamp-ms": snapshots[-1].timestamp_ms, "snapshot-id": snapshots[-1].id}]
    return history
