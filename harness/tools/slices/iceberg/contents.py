"""The contents of a slice of an Iceberg table: snapshots, and the entries of their manifests that the filter needs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from harness.errors import RequestError
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.manifests import ALL, Content, ManifestEntry, ManifestFile, open_manifest
from harness.metadata.iceberg.model import Snapshot
from harness.metadata.iceberg.scan import manifests_of, with_specs_of
from harness.metadata.iceberg.source import IcebergSelection, ScanSource
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.transforms import Void
from harness.metadata.model.schema import Field, walk
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.limits import contained

FileKey: TypeAlias = tuple[str, int | None]
"""The identity of entries: the recorded path and, of a deletion vector, its place in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergContents:
    """The contents of a slice.

    source: the table, with the specs that only its manifests know.
    selection: the read; the slice's current snapshot and schema.
    snapshots: oldest first; the last is the selected one. Empty: the table has none.
    lists: of each snapshot, by its id, the manifests with an entry that the slice holds.
    entries: of each manifest, by its path, these entries.
    plans: of each snapshot, by its id, the filtered read.
    """

    source: ScanSource = field(repr=False)
    selection: IcebergSelection
    snapshots: tuple[Snapshot, ...]
    lists: Mapping[int, tuple[ManifestFile, ...]]
    entries: Mapping[str, tuple[ManifestEntry, ...]]
    plans: Mapping[int, ScanPlan]

    def files(self, *contents: Content) -> Iterator[ManifestEntry]:
        """Each file of these kinds once, as the first manifest lists it."""
        seen: set[FileKey] = set()
        for entries in self.entries.values():
            for entry in entries:
                if entry.file.content in contents and key_of(entry) not in seen:
                    seen.add(key_of(entry))
                    yield entry


def key_of(entry: ManifestEntry) -> FileKey:
    """The identity of the entry's file."""
    return entry.file.path, entry.file.content_offset


def contents_of(
    table: IcebergTable, selection: IcebergSelection, where: str | Filter | None, last: int
) -> IcebergContents:
    """The contents of a slice of a snapshot and the `last` - 1 before it.

    Raises:
        As planning a read of each of them does.
    """
    newest: list[Snapshot] = []
    snapshot = selection.snapshot
    while snapshot is not None and len(newest) < last and snapshot not in newest:  # fewer, where they have expired
        newest.append(snapshot)
        snapshot = None if snapshot.parent_id is None else table.metadata.snapshots.get(snapshot.parent_id)
    snapshots = tuple(reversed(newest))
    selections = {s.id: table.select(s.id, None, None) for s in snapshots[:-1]}
    if selection.snapshot is not None:
        selections[selection.snapshot.id] = selection
    plans = {id_: table.plan(chosen, None, where) for id_, chosen in selections.items()}
    kept: set[FileKey] = set()
    for plan in plans.values():
        kept.update((path, None) for path in plan.files.column("path").to_pylist())
        kept.update((delete.path, None) for delete in plan.equality_deletes)
        kept.update((delete.path, delete.offset) for delete in plan.position_deletes)
    listed = {snapshot.id: manifests_of(table.source, snapshot) for snapshot in snapshots}
    every = {m.path: m for manifests in listed.values() for m in manifests}
    source = with_specs_of(every.values(), replace(table.source, storage=table.source.storage.for_read()))
    entries = _entries(source, selection, every, kept)
    return IcebergContents(
        source=source,
        selection=selection,
        snapshots=snapshots,
        lists={id_: tuple(m for m in manifests if m.path in entries) for id_, manifests in listed.items()},
        entries=entries,
        plans=plans,
    )


def _entries(
    source: ScanSource, selection: IcebergSelection, manifests: Mapping[str, ManifestFile], kept: set[FileKey]
) -> dict[str, tuple[ManifestEntry, ...]]:
    """The entries of kept files, by manifest, with all that the metadata says of them."""
    metadata, storage = source.metadata, source.storage
    schemas = [selection.schema, *metadata.schemas.values()]
    found = {}
    with source.reading(list(manifests.values())) as read:
        for manifest in manifests.values():
            with contained(file=manifest.path):
                reader = open_manifest(
                    read(manifest), manifest, specs=metadata.specs, schemas=schemas, limits=storage.limits
                )
                chosen = tuple(entry for entry in reader.entries(ALL) if key_of(entry) in kept)
            if chosen:
                found[manifest.path] = chosen
    return found


# A slice with fewer columns: the columns that it needs, and the metadata without the others.


_NAME_MAPPING = "schema.name-mapping.default"


def check_columns(contents: IcebergContents, columns: tuple[Field, ...], *, compact: bool) -> None:
    """Raises RequestError: a partition or an equality delete needs another column."""
    ids = {f.id for _, f in walk(columns)}
    specs = contents.source.metadata.specs
    known = contents.selection.schema.by_id()
    used = {entry.file.spec_id for entry in contents.files(*Content)} | {contents.source.metadata.default_spec_id}
    # The source of a partition field may be a column that the table has dropped; the slice need not have it.
    needed = [
        (id_, f"the partition field {f.name}")
        for spec_id in sorted(used & specs.keys())
        for f in specs[spec_id].fields
        if not isinstance(f.transform, Void)
        for id_ in f.source_ids
        if id_ in known
    ]
    deletes = () if compact else contents.files(Content.EQUALITY_DELETES)
    needed += [(id_, "an equality delete") for entry in deletes for id_ in entry.file.equality_ids or ()]
    for id_, by in needed:
        if id_ not in ids:
            name = known[id_][0][0] if id_ in known else f"of id {id_}, which the table has dropped"
            raise RequestError(
                f"Cannot leave out column {name}: {by} needs it; name it in columns",
                table=contents.source.metadata.location,
                field=name,
                options=("columns", "compact"),
            )


def narrowed(
    source: Mapping[str, Any], columns: tuple[Field, ...], contents: IcebergContents
) -> tuple[dict[str, Any], list[str]]:
    """The document with these columns alone, and a sentence for each other lack."""
    document = copy.deepcopy(dict(source))
    kept = {f.id for f in columns}
    ids = {f.id for _, f in walk(columns)}
    for schema in (*(document.get("schemas") or ()), *([document["schema"]] if "schema" in document else ())):
        schema["fields"] = [f for f in schema["fields"] if f["id"] in kept]
        if "identifier-field-ids" in schema:
            schema["identifier-field-ids"] = [i for i in schema["identifier-field-ids"] if i in ids]
    orders, told = document.get("sort-orders") or [], []
    ordered = [order for order in orders if ids.issuperset(_sources(order))]
    if len(ordered) < len(orders):
        if not any(order["order-id"] == 0 for order in ordered):
            ordered.append({"order-id": 0, "fields": []})
        document["sort-orders"] = ordered
        if document.get("default-sort-order-id") not in {order["order-id"] for order in ordered}:
            document["default-sort-order-id"] = 0
        told = ["Left out sort orders, as they have columns that are left out"]
    used = {entry.file.spec_id for entry in contents.files(*Content)} | {document.get("default-spec-id", 0)}
    if "partition-specs" in document:
        specs = document["partition-specs"]
        document["partition-specs"] = [s for s in specs if s["spec-id"] in used or ids.issuperset(_sources(s))]
    properties = document.get("properties") or {}
    gone = {f.name for schema in contents.source.metadata.schemas.values() for f in schema.fields if f.id not in kept}
    document["properties"] = {
        name: text
        for name, text in properties.items()
        if not any(name.endswith(f".column.{column}") for column in gone)
    }
    if _NAME_MAPPING in properties:
        mapping = [m for m in json.loads(properties[_NAME_MAPPING]) if m.get("field-id") in kept]
        document["properties"][_NAME_MAPPING] = json.dumps(mapping)
    return document, told


def _sources(order: Mapping[str, Any]) -> list[int]:
    """The columns of a sort order or a partition spec."""
    return [
        source
        for f in order["fields"]
        for source in ([f["source-id"]] if "source-id" in f else f.get("source-ids") or ())
    ]
