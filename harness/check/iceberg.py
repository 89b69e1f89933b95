"""An Iceberg table as the rules of `harness check` see it, decoded once by the code that reads use."""

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
    """The columns of a table in all schemas. If an id is in several schemas, the first schema has priority."""

    def __init__(self, schemas: tuple[dt.Schema, ...]) -> None:
        self.schemas = schemas

    @cached_property
    def fields(self) -> Mapping[int, tuple[tuple[str, ...], dt.Field]]:
        """Path and field of every column that has ever existed, by id."""
        return {id_: column for schema in reversed(self.schemas) for id_, column in schema.by_id().items()}

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Ids of fields inside lists and maps. Counts of values count the elements of these fields, not the rows."""
        outside = (
            f.type for schema in self.schemas for _, f in schema.walk() if isinstance(f.type, dt.ListType | dt.MapType)
        )
        return frozenset(f.id for type_ in outside for _, f in dt.walk(dt.children(type_)))

    def name(self, id_: int) -> str:
        """Return the dotted name of a column, or its id if no schema has it."""
        return ".".join(self.fields[id_][0]) if id_ in self.fields else f"field {id_}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest: its line in the manifest list, its header, and all its entries after inheritance.

    Attributes:
        table: The table.
        columns: The table's columns.
        line: The manifest's line in the list.
        list_path: The recorded path of the list, or None.
        spec: The partition spec.
        header: The metadata in the Avro header.
        entries: The entries.
        size: Size in bytes.
        writer: As from `CheckedIceberg.writer`.
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
        """Return a place in the manifest file."""
        return Place(file=self.line.path, entry=None if entry is None else entry.file.path, field=field, column=column)

    def listed(self, field: str | None = None) -> Place:
        """Return the place of this manifest's line in the manifest list."""
        return Place(file=self.list_path or self.table.metadata.file, entry=self.line.path, field=field)


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """The live files of a snapshot, without the bounds of their columns."""

    table: CheckedIceberg
    snapshot: IcebergSnapshot
    manifests: tuple[ManifestFile, ...]
    live: tuple[ManifestEntry, ...]

    def place(self, entry: ManifestEntry, field: str | None = None) -> Place:
        """Return the place of a live file's entry in its manifest."""
        return Place(file=entry.manifest, entry=entry.file.path, field=field)

    def breach(self, entry: ManifestEntry, field: str | None, recorded: str | None, actual: str) -> Breach:
        """Return a breach for a wrong statement about a live file."""
        return Breach(self.place(entry, field), recorded, actual, self.table.writer(entry.snapshot_id))

    @property
    def specs(self) -> Mapping[int, PartitionSpec]:
        """The table's partition specs by id."""
        return self.table.metadata.specs

    def statements(self) -> Statements:
        """Return the manifests' statements about files."""
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
        """The parsed metadata file."""
        return self.table.metadata

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.table.storage

    def physical(self, recorded: RecordedPath) -> PhysicalPath:
        """Return the physical path of a file. Raise OutsideTableError if it may not be read."""
        physical = self.table.path_map.physical(recorded)
        self.storage.check(physical, recorded)
        return physical

    @cached_property
    def document(self) -> Json:
        """Return the JSON document of the metadata file."""
        path, storage = self.table.metadata_path, self.table.storage
        plain = decompress(storage.read(path), file=path, limits=storage.limits)
        return Json(json.loads(plain.decode("utf-8-sig")), path)

    def columns_of(self, snapshot: IcebergSnapshot) -> Columns:
        """Return the columns that a read of the snapshot uses.

        These are the columns of the snapshot's own schema or, for the snapshot at the end of a branch, of the table's
        current schema.
        """
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
        """Return a breach for a wrong statement in the metadata file.

        Args:
            at: A JSON pointer, relative to the snapshot if there is one.
            recorded: The recorded value.
            actual: The actual value.
            snapshot: The id of the snapshot, or None.
            entry: The file that the statement is about, or None.
        """
        field = f"/{at}" if snapshot is None else f"/snapshots/{snapshot}/{at}"
        return Breach(Place(file=self.metadata.file, field=field, entry=entry), recorded, actual, self.writer(snapshot))

    def writer(self, snapshot_id: int | None) -> str | None:
        """Return the program that created a snapshot, according to its summary, or None."""
        snapshot = self.metadata.snapshots.get(snapshot_id) if snapshot_id is not None else None
        summary = {} if snapshot is None else snapshot.summary
        engine = " ".join(filter(None, (summary.get("engine-name"), summary.get("engine-version"))))
        return "; ".join(filter(None, (engine, summary.get("iceberg-version")))) or None

    def subjects(self) -> Iterator[Subject]:
        """Yield the subjects of rules in order: the metadata file, then manifests and each snapshot's files.

        A manifest is yielded once for each distinct line in the lists. A file that cannot be decoded is yielded as its
        error, and a snapshot with an undecodable manifest is yielded without its files.
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
        """Decode a manifest. Raises the same errors as `open_manifest` and `read_entries`."""
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
        """Return the paths of a snapshot's live data files.

        Raises the same errors as `manifests_of` and `open_manifest_line`.
        """
        lines = [line for line in manifests_of(self.table, snapshot) if not line.is_deletes]
        for line in lines:
            if line not in self._slim:
                self.open_manifest_line(line, snapshot)
        return frozenset(entry.file.path for line in lines for entry in self._slim[line])

    def referenced_files(self) -> tuple[str, None, frozenset[str]]:
        """Return the table's root, None (there is no log directory), and the physical paths that snapshots reference.

        Raises:
            HarnessError: A manifest list or manifest cannot be read, so the files that it names are unknown.
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
        """Return the live files of a snapshot. All of its manifests must have been decoded."""
        live = tuple(entry for line in lines for entry in self._slim.get(line, ()))
        return SnapshotFiles(self, snapshot, tuple(lines), live)


def _slim(entry: ManifestEntry) -> ManifestEntry:
    """Return an entry without its bounds, which take most of the memory. Bounds of position deletes are kept."""
    if entry.file.content is Content.POSITION_DELETES:
        return entry
    return replace(entry, file=replace(entry.file, lower_bounds=None, upper_bounds=None))


def is_compatible_type(before: dt.Type, after: dt.Type) -> bool:
    """Return whether one schema may give a column the first type and a later or earlier schema the second type."""
    if isinstance(before, dt.StructType | dt.ListType | dt.MapType):
        return type(before) is type(after)
    either = before == after or widens(before, after) or widens(after, before)
    return either or dt.UnknownType in (type(before), type(after))
