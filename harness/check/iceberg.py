"""An Iceberg table as the rules of `harness check` read it: decoded once, by the decoders of reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.check.files import Statements
from harness.check.rules import Breach, Place, Reads, Subject
from harness.errors import HarnessError
from harness.metadata.files.documents import Json
from harness.metadata.iceberg.columns.reading import read_entries
from harness.metadata.iceberg.manifests import Content, ManifestEntry, ManifestFile, Status, open_manifest
from harness.metadata.iceberg.metadata import decompress
from harness.metadata.iceberg.model import IcebergSnapshot, PartitionSpec, RefType, TableMetadata
from harness.metadata.iceberg.scan import manifests_of, with_specs_of
from harness.metadata.iceberg.table import HINT, METADATA_DIRECTORY, IcebergTable
from harness.metadata.iceberg.values import read_schema_first
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import widens
from harness.storage.limits import contained
from harness.storage.paths import PhysicalPath, RecordedPath, absolute, join
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import cached_property


class Columns:
    """The columns of a table. schemas: all of them; of an id in several, the first counts."""

    def __init__(self, schemas: tuple[dt.Schema, ...]) -> None:
        self.schemas = schemas

    @cached_property
    def fields(self) -> Mapping[int, tuple[tuple[str, ...], dt.Field]]:
        """Path and field of every column that ever was, by id."""
        return {id_: found for schema in reversed(self.schemas) for id_, found in schema.by_id().items()}

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The ids of fields below lists and maps, whose values are counted by element."""
        outside = (
            f.type for schema in self.schemas for _, f in schema.walk() if isinstance(f.type, dt.ListType | dt.MapType)
        )
        return frozenset(f.id for type_ in outside for _, f in dt.walk(dt.children(type_)))

    def name(self, id_: int) -> str:
        """The name of a column, with dots; its id where no schema has it."""
        return ".".join(self.fields[id_][0]) if id_ in self.fields else f"field {id_}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest: its line in the list, its header, and all of its entries, after inheritance.

    list_path: the list that names it, as recorded. size: its length in bytes. writer: see `CheckedIceberg.writer`.
    """

    table: CheckedIceberg
    columns: Columns
    line: ManifestFile
    list_path: str | None
    spec: PartitionSpec
    header: Mapping[str, bytes]
    entries: tuple[ManifestEntry, ...]
    size: int
    writer: str | None

    def place(self, entry: ManifestEntry | None = None, field: str | None = None, column: str | None = None) -> Place:
        """A place in the manifest."""
        return Place(file=self.line.path, entry=None if entry is None else entry.file.path, field=field, column=column)

    def listed(self, field: str | None = None) -> Place:
        """The place of the manifest's line in the list."""
        return Place(file=self.list_path or self.table.metadata.file, entry=self.line.path, field=field)


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The live files of a snapshot, without the bounds of their columns."""

    table: CheckedIceberg
    snapshot: IcebergSnapshot
    manifests: tuple[ManifestFile, ...]
    live: tuple[ManifestEntry, ...]

    def place(self, entry: ManifestEntry, field: str | None = None) -> Place:
        """A place in the manifest of a live file."""
        return Place(file=entry.manifest, entry=entry.file.path, field=field)

    def breach(self, entry: ManifestEntry, field: str | None, recorded: str | None, actual: str) -> Breach:
        """The breach by a statement about a live file."""
        return Breach(self.place(entry, field), recorded, actual, self.table.writer(entry.snapshot_id))

    @property
    def specs(self) -> Mapping[int, PartitionSpec]:
        """The table's partition specs, by id."""
        return self.table.metadata.specs

    def statements(self) -> Statements:
        """The words of the manifests on files."""
        metadata = self.table.metadata
        return Statements(
            named_by={entry.file.path: entry.manifest for entry in self.live},
            entries={entry.file.path: entry.file for entry in self.live},
            specs=metadata.specs,
            orders=metadata.sort_orders,
            next_row_id=metadata.next_row_id,
        )


class CheckedIceberg:
    """A table, and the snapshots of it that are checked, oldest first."""

    def __init__(self, table: IcebergTable, snapshots: Sequence[IcebergSnapshot]) -> None:
        self.table, self.snapshots = table, tuple(snapshots)
        self._slim: dict[ManifestFile, tuple[ManifestEntry, ...]] = {}
        self._columns: dict[int, Columns] = {}
        self._paths: set[RecordedPath] = set()

    @property
    def metadata(self) -> TableMetadata:
        """The metadata file, parsed."""
        return self.table.metadata

    @property
    def storage(self) -> Storage:
        """The store of the table's files."""
        return self.table.storage

    def physical(self, recorded: RecordedPath) -> PhysicalPath:
        """The place of a file. Raises OutsideTableError."""
        physical = self.table.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        return physical

    @cached_property
    def document(self) -> Json:
        """The metadata file as it stands."""
        path, storage = self.table.metadata_path, self.table.storage
        plain = decompress(storage.read(path), file=path, limits=storage.limits)
        return Json(json.loads(plain.decode("utf-8-sig")), path)

    def columns_of(self, snapshot: IcebergSnapshot) -> Columns:
        """The columns as a read of the snapshot means them: by its own schema, at a branch's end by the table's."""
        metadata = self.metadata
        branches = (ref.snapshot_id for ref in metadata.refs.values() if ref.type is RefType.BRANCH)
        is_end = snapshot.id in {metadata.current_snapshot_id, *branches}
        id_ = metadata.current_schema.id if is_end or snapshot.schema_id is None else snapshot.schema_id
        if id_ not in self._columns:
            schema = metadata.schemas.get(id_, metadata.current_schema)
            self._columns[id_] = Columns(read_schema_first(metadata.schemas, schema))
        return self._columns[id_]

    def breach(
        self, at: str, recorded: str, actual: str, snapshot: int | None = None, entry: str | None = None
    ) -> Breach:
        """The breach by a statement of the metadata file. at: a JSON pointer, below the snapshot of that id if any."""
        field = f"/{at}" if snapshot is None else f"/snapshots/{snapshot}/{at}"
        return Breach(Place(file=self.metadata.file, field=field, entry=entry), recorded, actual, self.writer(snapshot))

    def writer(self, snapshot_id: int | None) -> str | None:
        """The program that made a snapshot, as its summary says."""
        snapshot = self.metadata.snapshots.get(snapshot_id) if snapshot_id is not None else None
        summary = {} if snapshot is None else snapshot.summary
        engine = " ".join(filter(None, (summary.get("engine-name"), summary.get("engine-version"))))
        return "; ".join(filter(None, (engine, summary.get("iceberg-version")))) or None

    def subjects(self) -> Iterator[Subject]:
        """The things that rules read, in turn: the metadata file, then each manifest, and each snapshot's files.

        A manifest comes once for each line that lists say of it. A file that cannot be decoded is its error. A snapshot
        with such a manifest comes without its files.
        """
        yield Reads.TABLE, self, None
        opened: set[ManifestFile] = set()
        for snapshot in self.snapshots:
            try:
                lines = tuple(manifests_of(self.table, snapshot))
            except HarnessError as error:
                yield Reads.ERROR, error, snapshot.id
                continue
            for line in lines:
                if line not in opened:
                    opened.add(line)
                    try:
                        yield Reads.MANIFEST, self.open_manifest_line(line, snapshot), snapshot.id
                    except HarnessError as error:
                        yield Reads.ERROR, error, snapshot.id
            if all(line in self._slim for line in lines):
                yield Reads.SNAPSHOT, self.files(snapshot, lines), snapshot.id

    def open_manifest_line(self, line: ManifestFile, snapshot: IcebergSnapshot) -> Manifest:
        """A manifest, decoded. Raises as `open_manifest` and `read_entries`."""
        source, columns = with_specs_of([line], self.table), self.columns_of(snapshot)
        data, limits = source.read(line.path, "manifest"), source.storage.limits
        with contained(file=line.path):
            reader = open_manifest(data, line, specs=source.metadata.specs, schemas=columns.schemas, limits=limits)
            entries = tuple(read_entries([reader], live_only=False))
        self._paths.update(entry.file.path for entry in entries)
        self._slim[line] = tuple(_slim(entry) for entry in entries if entry.status is not Status.DELETED)
        header = reader.container.metadata
        list_path, writer = snapshot.manifest_list, self.writer(line.added_snapshot_id)
        return Manifest(self, columns, line, list_path, reader.spec, header, entries, len(data), writer)

    def data_files(self, snapshot: IcebergSnapshot) -> frozenset[str]:
        """The paths of a snapshot's live data files. Raises as `manifests_of` and `opened`."""
        lines = [line for line in manifests_of(self.table, snapshot) if not line.is_deletes]
        for line in lines:
            if line not in self._slim:
                self.open_manifest_line(line, snapshot)
        return frozenset(entry.file.path for line in lines for entry in self._slim[line])

    def referenced_files(self) -> tuple[str, None, frozenset[str]]:
        """The table's root, no directory of a log, and the physical paths that the metadata of all snapshots names.

        Raises HarnessError: a manifest list or manifest cannot be read, so that nobody knows which files it names.
        """
        metadata, physical = self.metadata, self.table.path_map.physical
        recorded = {entry.file for entry in metadata.metadata_log}
        recorded |= {file.path for file in metadata.statistics} | {file.path for file in metadata.partition_statistics}
        for snapshot in metadata.snapshots.values():
            recorded |= set() if snapshot.manifest_list is None else {snapshot.manifest_list}
            for line in manifests_of(self.table, snapshot):
                recorded.add(line.path)
                if line not in self._slim:
                    self.open_manifest_line(line, snapshot)
        root = physical(metadata.location)
        metadata_files = {absolute(self.table.metadata_path, os.getcwd()), join(join(root, METADATA_DIRECTORY), HINT)}
        return root, None, frozenset(metadata_files | {physical(path) for path in recorded | self._paths})

    def files(self, snapshot: IcebergSnapshot, lines: Sequence[ManifestFile]) -> SnapshotFiles:
        """The live files of a snapshot whose manifests were all opened."""
        live = tuple(entry for line in lines for entry in self._slim.get(line, ()))
        return SnapshotFiles(self, snapshot, tuple(lines), live)


def _slim(entry: ManifestEntry) -> ManifestEntry:
    """The entry without its bounds, which take most of the memory, but for the paths that a delete file is for."""
    if entry.file.content is Content.POSITION_DELETES:
        return entry
    return replace(entry, file=replace(entry.file, lower_bounds=None, upper_bounds=None))


def is_compatible_type(before: dt.Type, after: dt.Type) -> bool:
    """True if a column may have both types in its life, in either order."""
    if isinstance(before, dt.StructType | dt.ListType | dt.MapType):
        return type(before) is type(after)
    either = before == after or widens(before, after) or widens(after, before)
    return either or dt.UnknownType in (type(before), type(after))
