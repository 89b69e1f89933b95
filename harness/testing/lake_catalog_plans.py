"""The plans of `LakeCatalog`: the files of a scan as harness plans it, with all that manifests record about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.metadata.filters.predicate import Filter, Predicate, fields_of
from harness.metadata.iceberg.change_range import resolve_range
from harness.metadata.iceberg.manifests import DataFile, ManifestEntry, ManifestFile, Status
from harness.metadata.iceberg.model import IcebergSnapshot
from harness.metadata.iceberg.scan import IcebergScan, manifests_of, manifests_of_each, with_specs_of
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.model.schema import METADATA, Schema
from harness.metadata.plan.deletes import StoredVector
from harness.metadata.plan.lifetimes import ChangeRange
from harness.metadata.planned_scan import PlannedScan

APPEND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A data file of a plan.

    Attributes:
        file: The file, with all statistics that its manifest records.
        deletes: The delete files and deletion vectors that apply to it.
        residual: The condition that its rows must still satisfy. None if the request has no filter.
    """

    file: DataFile
    deletes: tuple[DataFile, ...] = ()
    residual: Predicate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerScan:
    """A request for a plan, in terms of the table.

    Attributes:
        source: The table, with the partition specs of all manifests that the scan reads.
        schema: The schema whose names the request uses.
        condition: The filter, or None for all rows.
        statistics: Ids of the fields whose statistics are asked for.
        snapshots: The snapshot to read; or the snapshots whose appended files are read, if `is_range`.
        is_range: True for a scan of appended files.
    """

    source: IcebergTable
    schema: Schema
    condition: Filter | None
    statistics: frozenset[int]
    snapshots: tuple[IcebergSnapshot, ...]
    is_range: bool = False

    def tasks(self) -> list[PlannedTask]:
        """Return the data files of the scan in the order of the manifests."""
        return list(self._appended_files() if self.is_range else self._live_files())

    def _live_files(self) -> Iterator[PlannedTask]:
        for snapshot in self.snapshots:
            manifests = manifests_of(self.source, snapshot)
            scan = IcebergScan(with_specs_of(manifests, self.source), self.schema, None)
            plan = scan.plan(snapshot, manifests, None, self.condition)
            deletes = _deletes_of_files(plan, scan.delete_entries([m for m in manifests if m.is_deletes]))
            paths = plan.files.column("path").to_pylist()
            entries = _entries(scan, [m for m in manifests if not m.is_deletes], paths)
            for path, deletes_of_file in zip(paths, deletes, strict=True):
                yield self._task(entries[path].file, deletes_of_file)

    def _appended_files(self) -> Iterator[PlannedTask]:
        """Yield the files that the append snapshots of a range added. No delete applies to them."""
        appends = [snapshot for snapshot in self.snapshots if snapshot.operation == APPEND]
        for snapshot, manifests in zip(appends, manifests_of_each(self.source, appends), strict=True):
            own = [m for m in manifests if not m.is_deletes and m.added_snapshot_id == snapshot.id]
            scan = IcebergScan(with_specs_of(own, self.source), self.schema, None)
            fields = frozenset() if self.condition is None else fields_of(self.condition.predicate)
            paths = scan.open(own, self.condition, fields).files.files.table.column("path").to_pylist()
            for entry in _entries(scan, own, paths).values():
                if entry.status is Status.ADDED:
                    yield self._task(entry.file, ())

    def _task(self, file: DataFile, deletes: tuple[DataFile, ...]) -> PlannedTask:
        residual = None if self.condition is None else self.condition.predicate
        return PlannedTask(file=file, deletes=deletes, residual=residual)


def _entries(scan: IcebergScan, manifests: Sequence[ManifestFile], paths: Sequence[str]) -> dict[str, ManifestEntry]:
    """Return the entries of data files by path, with all statistics."""
    wanted = frozenset(paths)

    def choose(files: Any) -> list[int]:
        return [place for place, path in enumerate(files.table.column("path").to_pylist()) if path in wanted]

    return {entry.file.path: entry for entry in scan.delete_entries(manifests, choose=choose)}


def _deletes_of_files(plan: PlannedScan, entries: Sequence[ManifestEntry]) -> list[tuple[DataFile, ...]]:
    """Return the deletes of each file of a plan."""
    files = [entry.file for entry in entries]
    by_place: dict[tuple[str, int | None], DataFile] = {(file.path, file.content_offset): file for file in files}
    deletes = [
        [by_place[plan.equality_deletes[place].path, None] for place in plan.delete_sets[number]]
        for number in plan.files.column("delete_set").to_pylist()
    ]
    for delete, ordinals in plan.position_hits():
        offset = delete.offset if isinstance(delete, StoredVector) else None
        for ordinal in ordinals:
            deletes[ordinal].append(by_place[delete.path, offset])
    return [tuple(deletes_of_file) for deletes_of_file in deletes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a plan, as one answer of the server holds it.

    Attributes:
        tasks: The data files.
        deletes: The delete files that the answer lists.
    """

    tasks: tuple[PlannedTask, ...]
    deletes: tuple[DataFile, ...] = field(default=())

    @staticmethod
    def of_tasks(tasks: Sequence[PlannedTask]) -> Page:
        """Return a page with the deletes of its tasks, each once."""
        deletes = {_key(delete): delete for task in tasks for delete in task.deletes}
        return Page(tasks=tuple(tasks), deletes=tuple(deletes.values()))

    def document(self, scan: ServerScan) -> dict[str, Any]:
        """Return the part of the answer that lists files."""
        numbers = {_key(delete): number for number, delete in enumerate(self.deletes)}
        tasks = []
        for task in self.tasks:
            document: dict[str, Any] = {"data-file": _file_document(task.file, scan)}
            if task.deletes:
                document["delete-file-references"] = [numbers[_key(delete)] for delete in task.deletes]
            tasks.append(document)
        answer: dict[str, Any] = {"file-scan-tasks": tasks}
        if self.deletes:
            answer["delete-files"] = [_file_document(delete, scan) for delete in self.deletes]
        return answer


def _key(delete: DataFile) -> tuple[Any, ...]:
    return delete.path, delete.content_offset, delete.content_size, delete.equality_ids


_CONTENT = ("data", "position-deletes", "equality-deletes")


def _file_document(file: DataFile, scan: ServerScan) -> dict[str, Any]:
    fields = scan.source.metadata.specs[file.spec_id].fields
    values: dict[str, Any] = {
        "spec-id": file.spec_id,
        "content": _CONTENT[file.content],
        "file-path": file.path,
        "file-format": file.format,
        "partition": [file.partition.get(each.field_id) for each in fields],
        "file-size-in-bytes": file.size,
        "record-count": file.record_count,
        "split-offsets": None if file.split_offsets is None else list(file.split_offsets),
        "sort-order-id": file.sort_order_id,
        "first-row-id": file.first_row_id,
        "equality-ids": None if file.equality_ids is None else list(file.equality_ids),
        "referenced-data-file": file.referenced_data_file,
        "content-offset": file.content_offset,
        "content-size-in-bytes": file.content_size,
    }
    return {key: value for key, value in values.items() if value is not None}


class BadRequest(Exception):
    """A request that the server refuses. The text says why."""


def scan_of(source: IcebergTable, request: Mapping[str, Any]) -> ServerScan:
    """Return the scan for the body of a request `planTableScan`.

    Raises:
        BadRequest: The request contradicts itself or names a snapshot or a column that does not exist.
        HarnessError: The table cannot be read.
    """
    metadata = source.metadata
    snapshot_id, start, end = (request.get(key) for key in ("snapshot-id", "start-snapshot-id", "end-snapshot-id"))
    if snapshot_id is not None and (start is not None or end is not None):
        raise BadRequest("snapshot-id and a range exclude each other")
    if start is not None and end is None:
        raise BadRequest("start-snapshot-id needs end-snapshot-id")
    last = snapshot_id if end is None else end
    if last is not None and last not in metadata.snapshots:
        raise BadRequest(f"there is no snapshot {last}")
    snapshot = metadata.current_snapshot if last is None else metadata.snapshots[last]
    selection = IcebergSelection(snapshot, metadata.current_schema)
    if request.get("use-snapshot-schema") and snapshot is not None:
        selection = source.select(snapshot.id)
    snapshots: tuple[IcebergSnapshot, ...] = () if snapshot is None else (snapshot,)
    if end is not None:
        snapshots = resolve_range(metadata, ChangeRange(start, end, from_inclusive=False, mode=None)).snapshots
    statistics = _field_ids(selection.schema, request, "stats-fields")
    _field_ids(selection.schema, request, "select")
    return ServerScan(
        source=replace(source, storage=source.storage.for_read()),
        schema=selection.schema,
        condition=None,
        statistics=statistics,
        snapshots=snapshots,
        is_range=end is not None,
    )


def _field_ids(schema: Schema, request: Mapping[str, Any], key: str) -> frozenset[int]:
    """Return the ids of the fields that a list in the request names."""
    is_sensitive = request.get("case-sensitive", True)
    ids = {name: field_.id for name, field_ in METADATA.items()}
    ids |= {".".join(path): field_.id for path, field_ in schema.walk()}
    if not is_sensitive:
        ids = {name.lower(): id_ for name, id_ in ids.items()}
    names = [name if is_sensitive else name.lower() for name in request.get(key) or ()]
    unknown = next((name for name in names if name not in ids), None)
    if unknown is not None:
        raise BadRequest(f"{key} names {unknown!r}, which is not a field of the schema")
    return frozenset(ids[name] for name in names)
