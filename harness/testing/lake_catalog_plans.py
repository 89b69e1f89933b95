"""The plans of `LakeCatalog`: the files of a scan as harness plans it, with their complete metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import RequestError, StorageError
from harness.metadata.filters.predicate import Filter, fields_of
from harness.metadata.filters.skipping import exact_facts, may_match
from harness.metadata.iceberg.change_range import resolve_range
from harness.metadata.iceberg.manifests import DataFile, ManifestEntry, ManifestFile, Status
from harness.metadata.iceberg.model import IcebergSnapshot, PartitionSpec, TableMetadata
from harness.metadata.iceberg.scan import IcebergScan, manifests_of, manifests_of_each, with_specs_of
from harness.metadata.iceberg.server.expressions import parse_expression
from harness.metadata.iceberg.server.tasks import file_document
from harness.metadata.iceberg.skipping import projected
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.iceberg.values import read_schema_first
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
        deletes: The delete files and deletion vectors that apply to the file.
        residual: The condition that the file's rows must still satisfy, in Iceberg's JSON. None if the request has no
            filter.
    """

    file: DataFile
    deletes: tuple[DataFile, ...] = ()
    residual: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerScan:
    """A request for a plan, with names and snapshots resolved in the table.

    Attributes:
        source: The table.
        schema: The schema whose names the request uses.
        filter: The filter in Iceberg's JSON, or None for all rows.
        statistics: Ids of the fields whose statistics are requested.
        snapshots: The snapshot to read. If `is_range`, the snapshots whose appended files are read.
        is_range: True for a scan of appended files.
        encodes_bounds: True if answers have bounds as the bytes in manifests instead of values.
    """

    source: IcebergTable
    schema: Schema
    filter: Any
    statistics: frozenset[int]
    snapshots: tuple[IcebergSnapshot, ...]
    is_range: bool = False
    encodes_bounds: bool = False
    _specs: dict[int, PartitionSpec] = field(default_factory=dict, repr=False)
    _residuals: dict[int, tuple[Mapping[int, Any], Any]] = field(default_factory=dict, repr=False)

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table, with the partition specs that only the headers of manifests contain."""
        metadata = self.source.metadata
        return replace(metadata, specs={**self._specs, **metadata.specs})

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """All schemas of the table. The schema of the request comes first."""
        return read_schema_first(self.source.metadata.schemas, self.schema)

    def tasks(self) -> list[PlannedTask]:
        """Return the data files of the scan in the order of the manifests."""
        return list(self._appended_files() if self.is_range else self._live_files())

    def removed_file(self) -> PlannedTask | None:
        """Return a data file that an ancestor of the snapshot had, and that may match the filter, or None."""
        live: set[str] = set()
        for snapshot in self._lineage():
            manifests = [m for m in manifests_of(self.source, snapshot) if not m.is_deletes]
            files = [entry.file for entry in self._scan(manifests).delete_entries(manifests)]
            if not live:
                live.update(file.path for file in files)
            for file in files:
                task = self._task(file, ())
                if file.path not in live and task.residual is not False:
                    return task
        return None

    def _lineage(self) -> Iterator[IcebergSnapshot]:
        """Yield the last snapshot of the scan and its ancestors."""
        if self.snapshots:
            whole = ChangeRange(None, self.snapshots[-1].id, from_inclusive=False, mode=None)
            yield from reversed(resolve_range(self.source.metadata, whole).snapshots)

    def _scan(self, manifests: Sequence[ManifestFile]) -> IcebergScan:
        source = with_specs_of(manifests, self.source)
        self._specs.update(source.metadata.specs)
        return IcebergScan(source, self.schema, None)

    def _condition(self) -> Filter | None:
        if self.filter is None:
            return None
        return Filter(sql="true", predicate=parse_expression(self.filter, self.schema), columns=())

    def _live_files(self) -> Iterator[PlannedTask]:
        for snapshot in self.snapshots:
            manifests = manifests_of(self.source, snapshot)
            scan = self._scan(manifests)
            plan = scan.plan(snapshot, manifests, None, self._condition())
            deletes = _deletes_of_files(plan, scan.delete_entries([m for m in manifests if m.is_deletes]))
            paths = plan.files.column("path").to_pylist()
            entries = _entries(scan, [m for m in manifests if not m.is_deletes], paths)
            for path, deletes_of_file in zip(paths, deletes, strict=True):
                yield self._task(entries[path].file, deletes_of_file)

    def _appended_files(self) -> Iterator[PlannedTask]:
        """Yield the files that the append snapshots of a range added. No delete applies to them."""
        condition = self._condition()
        fields = frozenset() if condition is None else fields_of(condition.predicate)
        appends = [snapshot for snapshot in self.snapshots if snapshot.operation == APPEND]
        for snapshot, manifests in zip(appends, manifests_of_each(self.source, appends), strict=True):
            own = [m for m in manifests if not m.is_deletes and m.added_snapshot_id == snapshot.id]
            scan = self._scan(own)
            paths = scan.open(own, condition, fields).files.files.table.column("path").to_pylist()
            for entry in _entries(scan, own, paths).values():
                if entry.status is Status.ADDED:
                    yield self._task(entry.file, ())

    def _task(self, file: DataFile, deletes: tuple[DataFile, ...]) -> PlannedTask:
        if self.filter is None:
            return PlannedTask(file=file, deletes=deletes)
        spec = self._specs[file.spec_id]
        # Files in one partition share the mapping. The cache keeps it alive, so that no other mapping can get its id.
        _, residual = self._residuals.get(id(file.partition), (None, None))
        if residual is None:
            residual = residual_of(self.filter, spec, file.partition, self.schema)
            self._residuals[id(file.partition)] = file.partition, residual
        return PlannedTask(file=file, deletes=deletes, residual=residual)


def residual_of(expression: Any, spec: PartitionSpec, values: Mapping[int, Any], schema: Schema) -> Any:
    """Return a condition without the parts that a partition decides.

    Args:
        expression: The condition in Iceberg's JSON.
        spec: The partition spec.
        values: The internal values of the partition by field id.
        schema: The schema of the condition.

    Returns:
        The condition that rows of the partition must still satisfy, in Iceberg's JSON. True or False if the partition
        decides the whole condition.
    """
    match expression:
        case {"type": "and" | "or" as kind, "left": left, "right": right}:
            parts = [residual_of(part, spec, values, schema) for part in (left, right)]
            decisive = kind == "or"
            if decisive in parts:
                return decisive
            open_ = [part for part in parts if not isinstance(part, bool)]
            if len(open_) == 2:
                return {"type": kind, "left": parts[0], "right": parts[1]}
            return open_[0] if open_ else not decisive
        case {"type": "not", "child": child}:
            part = residual_of(child, spec, values, schema)
            return not part if isinstance(part, bool) else {"type": "not", "child": part}
        case _:
            opposite = {"type": "not", "child": expression}
            if not _may_hold(expression, spec, values, schema):
                return False
            return expression if _may_hold(opposite, spec, values, schema) else True


def _may_hold(expression: Any, spec: PartitionSpec, values: Mapping[int, Any], schema: Schema) -> bool:
    """Return whether a row of a partition may satisfy a condition."""
    on_partition = projected(parse_expression(expression, schema), spec, schema)
    return bool(may_match(on_partition, exact_facts([values]), 1)[0])


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
    """A part of a plan in one answer of the server.

    Attributes:
        tasks: The data files.
        deletes: The delete files that the answer lists.
    """

    tasks: tuple[PlannedTask, ...]
    deletes: tuple[DataFile, ...] = field(default=())

    @staticmethod
    def of_tasks(tasks: Sequence[PlannedTask]) -> Page:
        """Return a page with tasks and their deletes, each delete once."""
        deletes = {_key(delete): delete for task in tasks for delete in task.deletes}
        return Page(tasks=tuple(tasks), deletes=tuple(deletes.values()))

    def document(self, scan: ServerScan) -> dict[str, Any]:
        """Return the part of the answer that lists files."""
        metadata, schemas = scan.metadata, scan.schemas
        numbers = {_key(delete): number for number, delete in enumerate(self.deletes)}
        tasks = []
        for task in self.tasks:
            file = file_document(task.file, metadata, schemas, statistics=scan.statistics)
            if scan.encodes_bounds:
                file |= _encoded_bounds(task.file, file)
            document: dict[str, Any] = {"data-file": file}
            if task.deletes:
                document["delete-file-references"] = [numbers[_key(delete)] for delete in task.deletes]
            if task.residual is not None:
                document["residual-filter"] = task.residual
            tasks.append(document)
        deletes = [file_document(delete, metadata, schemas) for delete in self.deletes]
        return {"delete-files": deletes, "file-scan-tasks": tasks} if deletes else {"file-scan-tasks": tasks}


def _encoded_bounds(file: DataFile, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bounds in the description of a file as the bytes in its manifest, in hexadecimal digits."""
    bounds = {"lower-bounds": file.lower_bounds or {}, "upper-bounds": file.upper_bounds or {}}
    ids = {key: document[key]["keys"] for key in bounds if key in document}
    return {key: {"keys": ids[key], "values": [bounds[key][id_].hex().upper() for id_ in ids[key]]} for key in ids}


def _key(delete: DataFile) -> tuple[Any, ...]:
    return delete.path, delete.content_offset, delete.content_size, delete.equality_ids


class BadRequest(Exception):
    """A request that the server refuses. The text states the reason."""


def scan_of(source: IcebergTable, request: Mapping[str, Any]) -> ServerScan:
    """Return the scan for the body of a `planTableScan` request.

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
        try:
            snapshots = resolve_range(metadata, ChangeRange(start, end, from_inclusive=False, mode=None)).snapshots
        except RequestError as error:
            raise BadRequest(error.message) from error
    names = _Names.of_schema(selection.schema, is_sensitive=request.get("case-sensitive", True))
    filter_ = names.resolve_terms(request.get("filter"))
    if filter_ is not None:
        try:
            parse_expression(filter_, selection.schema)
        except StorageError as error:
            raise BadRequest(error.message) from error
    names.ids(request, "select")
    return ServerScan(
        source=replace(source, storage=source.storage.for_read()),
        schema=selection.schema,
        filter=filter_,
        statistics=names.ids(request, "stats-fields"),
        snapshots=snapshots,
        is_range=end is not None,
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of fields in requests.

    Attributes:
        fields: The id and the full name of each field, by the name in requests.
        is_sensitive: True if letter case matters. If False, the keys of `fields` are in lower case.
    """

    fields: Mapping[str, tuple[int, str]]
    is_sensitive: bool

    @staticmethod
    def of_schema(schema: Schema, *, is_sensitive: bool) -> _Names:
        ids = {name: column.id for name, column in METADATA.items()}
        ids |= {".".join(path): column.id for path, column in schema.walk()}
        return _Names({name if is_sensitive else name.lower(): (id_, name) for name, id_ in ids.items()}, is_sensitive)

    def find(self, name: str) -> tuple[int, str]:
        """Return the id and the full name of a field. Raise BadRequest if there is no such field."""
        entry = self.fields.get(name if self.is_sensitive else name.lower())
        if entry is None:
            raise BadRequest(f"there is no field {name!r}")
        return entry

    def ids(self, request: Mapping[str, Any], key: str) -> frozenset[int]:
        """Return the ids of the fields that a list in a request names."""
        return frozenset(self.find(name)[0] for name in request.get(key) or ())

    def resolve_terms(self, expression: Any) -> Any:
        """Return a condition whose field names are full names, in the letter case of the schema."""
        if not isinstance(expression, dict):
            return expression
        return {
            key: self.find(part)[1] if key == "term" and isinstance(part, str) else self.resolve_terms(part)
            for key, part in expression.items()
        }
