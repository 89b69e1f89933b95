"""What a slice of an Iceberg table holds: snapshots, and of their manifests the entries that the filter needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from harness.filters.predicate import Filter
from harness.iceberg.manifests import ALL, Content, ManifestEntry, ManifestFile, parse_manifest
from harness.iceberg.metadata import Snapshot
from harness.iceberg.scan import manifests_of, with_specs_of
from harness.iceberg.snapshots import Selection
from harness.iceberg.source import ScanSource
from harness.iceberg.specs import PartitionSpec
from harness.iceberg.table import IcebergTable
from harness.limits import contained
from harness.plan.scan_plan import ScanPlan

FileKey: TypeAlias = tuple[str, int | None]
"""What tells entries apart: the recorded path and, of a deletion vector, where it is in its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a slice holds of a table.

    source: the table, with the specs that only its manifests know.
    selection: what is read of it; the slice's current snapshot and schema.
    snapshots: oldest first; the last is the selected one. Empty: the table has none.
    lists: of each snapshot, by its id, the manifests with an entry that the slice holds.
    entries: of each manifest, by its path, these entries.
    plans: of each snapshot, by its id, how the filter reads it.
    """

    source: ScanSource = field(repr=False)
    selection: Selection
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

    def used_specs(self) -> dict[int, PartitionSpec]:
        """The specs of its files, by id."""
        specs = self.source.metadata.specs
        return {spec_id: specs[spec_id] for spec_id in {e.file.spec_id for e in self.files(*Content)}}


def key_of(entry: ManifestEntry) -> FileKey:
    """What tells the entry's file from others."""
    return entry.file.path, entry.file.content_offset


def contents_of(table: IcebergTable, selection: Selection, where: str | Filter | None, last: int) -> Contents:
    """What the slice of a snapshot and the `last` - 1 before it holds.

    Raises:
        As planning a read of each of them does.
    """
    snapshots = _newest(table, selection, last)
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
    return Contents(
        source=source,
        selection=selection,
        snapshots=snapshots,
        lists={id_: tuple(m for m in manifests if m.path in entries) for id_, manifests in listed.items()},
        entries=entries,
        plans=plans,
    )


def _newest(table: IcebergTable, selection: Selection, last: int) -> tuple[Snapshot, ...]:
    """The selected snapshot and those before it, oldest first; fewer where they have expired."""
    found: list[Snapshot] = []
    snapshot = selection.snapshot
    while snapshot is not None and len(found) < last and snapshot not in found:
        found.append(snapshot)
        snapshot = None if snapshot.parent_id is None else table.metadata.snapshots.get(snapshot.parent_id)
    return tuple(reversed(found))


def _entries(
    source: ScanSource, selection: Selection, manifests: Mapping[str, ManifestFile], kept: set[FileKey]
) -> dict[str, tuple[ManifestEntry, ...]]:
    """Of each manifest that has one, the entries of files that are kept; all that the metadata says of them."""
    metadata, storage = source.metadata, source.storage
    schemas = [selection.schema, *metadata.schemas.values()]
    found = {}
    with source.reading(list(manifests.values())) as read:
        for manifest in manifests.values():
            with contained(file=manifest.path):
                parsed = parse_manifest(
                    read(manifest),
                    manifest,
                    specs=metadata.specs,
                    schemas=schemas,
                    statistics=ALL,
                    limits=storage.limits,
                )
                chosen = tuple(entry for entry in parsed if key_of(entry) in kept)
            if chosen:
                found[manifest.path] = chosen
    return found
