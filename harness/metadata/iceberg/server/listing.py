"""Plans of one snapshot as lists of files, so that a server's plan can be compared with harness's own plan.

A listing contains everything that a plan states about its files: the deletes of each file, the condition that its rows
must still satisfy, its partition, and its statistics. `server_listing` lists the plan of a server, `client_listing`
reads the manifests, and `plan_listing` lists a `ScanPlan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.errors import StorageError
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.columns.entries import BOUNDS, COUNTS, DataFiles
from harness.metadata.iceberg.delete_scope import DeleteIndex, path_bounds
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry
from harness.metadata.iceberg.planned_deletes import equality_deletes, may_have_delete_files
from harness.metadata.iceberg.scan import (
    IcebergScan,
    delete_sets_of,
    index_deletes,
    manifests_of,
    with_specs_of,
)
from harness.metadata.iceberg.server.tasks import ServerPlan, task_statistics
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.iceberg.values import Partitions, decode_bound, read_schema_first
from harness.metadata.model.schema import Schema, Type, children
from harness.metadata.plan.deletes import EqualityDelete, PathSpellings, PositionFiles, StoredVector, key_fields
from harness.metadata.plan.scan_plan import KEPT, ScanPlan
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

Statistics: TypeAlias = Mapping[str, Mapping[int, Any]]
"""A file's counts and decoded bounds by field id. The outer key is the name of the attribute of `DataFile`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDelete:
    """A delete file or a deletion vector.

    Attributes:
        content: The kind of the file.
        path: The recorded path of the file.
        format: The format of the file, in lower case.
        equality_ids: The field ids of the keys of an equality delete, ascending. Empty for other deletes.
        offset: The offset of a deletion vector in its file. None for other deletes.
        length: The size of a deletion vector in bytes. None for other deletes.
        target: The recorded path of the only data file that the delete applies to, or None if it is not recorded.
        sequence_number: The data sequence number, or None if the plan has none.
        record_count: The number of rows or positions, or None if it is not recorded.
    """

    content: Content
    path: RecordedPath
    format: str
    equality_ids: tuple[int, ...] = ()
    offset: int | None = None
    length: int | None = None
    target: str | None = None
    sequence_number: int | None = None
    record_count: int | None = None

    @property
    def is_vector(self) -> bool:
        """True for a deletion vector."""
        return self.offset is not None

    @staticmethod
    def from_file(file: DataFile, sequence_number: int | None = None) -> ListedDelete:
        """Return a delete that a manifest or a server describes."""
        return ListedDelete(
            content=file.content,
            path=file.path,
            format=file.format,
            equality_ids=tuple(sorted(file.equality_ids or ())),
            offset=file.content_offset,
            length=file.content_size,
            target=file.referenced_data_file,
            sequence_number=sequence_number,
            record_count=file.record_count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A data file of a plan.

    Attributes:
        file: The file. Its statistics are in `statistics`.
        deletes: The deletes that apply to the file.
        optional: The deletes that, according to statistics, match no row of the file. A plan may list them or leave
            them out.
        residual: The condition in Iceberg's JSON that rows must still satisfy according to the plan. None if the plan
            states none, so that the whole filter applies.
        sequence_number: The data sequence number, or None if the plan has none.
        statistics: The statistics that the plan states.
        problem: The reason why the statistics cannot be decoded, or None.
    """

    file: DataFile
    deletes: tuple[ListedDelete, ...] = ()
    optional: frozenset[ListedDelete] = frozenset()
    residual: Any = field(default=None, hash=False)
    sequence_number: int | None = None
    statistics: Statistics = field(default_factory=dict, repr=False, hash=False)
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileListing:
    """The data files of a plan.

    Attributes:
        files: The data files to read.
        skipped: The recorded paths of live files that the filter excludes. Empty if the plan does not state them.
        deletes: The deletes that the plan lists, including deletes that apply to no file.
    """

    files: tuple[ListedFile, ...] = field(repr=False)
    skipped: frozenset[str] = field(default=frozenset(), repr=False)
    deletes: tuple[ListedDelete, ...] = field(default=(), repr=False)


def statistics_types(schema: Schema) -> dict[int, Type]:
    """Return the types of the columns that can have statistics, by field id: all columns without nested fields."""
    return {f.id: f.type for _, f in schema.walk() if not children(f.type)}


def client_listing(source: IcebergTable, selection: IcebergSelection, condition: Filter | None) -> FileListing:
    """List the files of a read from the manifests, with the deletes whose scope includes each file.

    All manifests are read, so that the listing also names the files that the filter excludes.

    Args:
        source: The table.
        selection: The snapshot and the schema of the read.
        condition: The filter, or None for all rows.

    Raises:
        HarnessError: As for `plan_scan`.
    """
    snapshot = selection.snapshot
    if snapshot is None:
        return FileListing(files=())
    source = replace(source, storage=source.storage.for_read())
    manifests = manifests_of(source, snapshot)
    scan = IcebergScan(with_specs_of(manifests, source), selection.schema, source.manifest_cache)
    deletes = scan.delete_entries([m for m in manifests if m.is_deletes])
    keys = frozenset(id_ for entry in deletes for id_ in entry.file.equality_ids or ())
    types = statistics_types(selection.schema)
    data = [m for m in manifests if not m.is_deletes]
    files = scan.open(data, None, keys | frozenset(types)).files.files
    skip = None if condition is None else scan.skip(condition)
    is_kept = np.ones(len(files), dtype=np.bool_) if skip is None else skip(files) == KEPT
    paths = files.table.column("path")
    skipped = frozenset(paths.filter(pa.array(~is_kept)).to_pylist())
    read = files.take(np.flatnonzero(is_kept))
    hits = _DeleteHits.find(read, deletes, scan, all_paths=paths)
    return FileListing(
        files=tuple(_listed_files(read, hits, types)),
        skipped=skipped,
        deletes=tuple(ListedDelete.from_file(entry.file, entry.sequence_number) for entry in deletes),
    )


def _listed_files(files: DataFiles, hits: _DeleteHits, types: Mapping[int, Type]) -> Iterator[ListedFile]:
    decode = cache(decode_bound)  # many files share a bound, for example the value of a partition
    for place, entry in enumerate(files.entries(range(len(files)))):
        applied, optional = hits.of_file(place, entry)
        yield ListedFile(
            file=entry.file,
            deletes=applied,
            optional=optional,
            sequence_number=entry.sequence_number,
            statistics=_statistics(entry.file, types, decode),
        )


def _statistics(file: DataFile, types: Mapping[int, Type], decode: Any) -> Statistics:
    statistics: dict[str, Mapping[int, Any]] = {name: getattr(file, name) or {} for name in COUNTS}
    for name in BOUNDS:
        encoded = getattr(file, name) or {}
        statistics[name] = {id_: decode(types[id_], data) for id_, data in encoded.items() if id_ in types}
    return statistics


@dataclass(frozen=True, slots=True)
class _DeleteHits:
    """The deletes of the data files of a scan.

    Attributes:
        index: The deletes of the snapshot.
        equality: For each data file, the indexes of the equality deletes that apply to it by their scope.
        narrowed: `equality` without the deletes whose key bounds match no row of the file.
        may_have_files: For each data file, True if position delete files may apply to it.
    """

    index: DeleteIndex
    equality: Sequence[tuple[int, ...]]
    narrowed: Sequence[tuple[int, ...]]
    may_have_files: Sequence[bool]
    _listed: dict[int, ListedDelete] = field(default_factory=dict)

    @staticmethod
    def find(
        files: DataFiles, deletes: tuple[ManifestEntry, ...], scan: IcebergScan, *, all_paths: pa.ChunkedArray
    ) -> _DeleteHits:
        source, metadata = scan.source, scan.source.metadata
        partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, scan.schema))
        spellings = PathSpellings(source.path_map, metadata.location, source.location, source.storage.untrusted)
        index = index_deletes(deletes, lambda: all_paths, spellings, source=source, partitions=partitions)
        codes, sets = equality_deletes(files, index, partitions)
        hits = [sets[code] for code in codes.tolist()]
        narrowed = delete_sets_of(index, source=source, partitions=partitions).narrowed(files, hits)
        return _DeleteHits(index, hits, narrowed, may_have_delete_files(files, index, partitions).tolist())

    def of_file(self, place: int, data: ManifestEntry) -> tuple[tuple[ListedDelete, ...], frozenset[ListedDelete]]:
        """Return the deletes that apply to a data file, and the deletes that its statistics exclude."""
        vector = self.index.vectors.get(data.file.path)
        applied = [self.index.equality_deletes[i] for i in self.narrowed[place]]
        optional = [self.index.equality_deletes[i] for i in set(self.equality[place]) - set(self.narrowed[place])]
        if vector is not None:
            self.index.scope.check_vector(vector, data)
            applied.append(vector)
        elif self.may_have_files[place]:
            for entry in self.index.for_data_file(data).applied:
                (applied if _may_name(entry.file, data.file.path) else optional).append(entry)
        return tuple(map(self._delete, applied)), frozenset(map(self._delete, optional))

    def _delete(self, entry: ManifestEntry) -> ListedDelete:
        """Return a delete. Reuse the objects, because many data files may have the same deletes."""
        if id(entry) not in self._listed:
            self._listed[id(entry)] = ListedDelete.from_file(entry.file, entry.sequence_number)
        return self._listed[id(entry)]


def _may_name(delete: DataFile, path: str) -> bool:
    """Return whether the metadata of a position delete file allows it to name a data file (iceberg 4.14)."""
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file == path
    bounds = path_bounds(delete)
    # Writers truncate upper bounds without rounding up.
    return bounds is None or (bounds[0] <= path and (path <= bounds[1] or path.startswith(bounds[1])))


def server_listing(plan: ServerPlan, schema: Schema) -> FileListing:
    """List the files of a plan that a server made.

    Args:
        plan: The plan that `parse_tasks` returned.
        schema: The schema of the read.
    """
    types = statistics_types(schema)
    fields = [f for _, f in schema.walk() if f.id in types]
    deletes = tuple(map(ListedDelete.from_file, plan.deletes))
    files = []
    for task in plan.tasks:
        statistics: Statistics = {}
        problem = None
        if task.statistics:
            try:
                decoded = task_statistics(task, fields)
                statistics = {name: getattr(decoded, name) for name in (*COUNTS, *BOUNDS)}
            except StorageError as error:
                problem = error.message
        files.append(
            ListedFile(
                file=task.file,
                deletes=tuple(deletes[place] for place in task.deletes),
                residual=task.residual,
                sequence_number=task.sequence_number,
                statistics=statistics,
                problem=problem,
            )
        )
    return FileListing(files=tuple(files), deletes=deletes)


def plan_listing(plan: ScanPlan) -> FileListing:
    """List the files of a plan of an Iceberg snapshot. A `ScanPlan` has neither statistics nor residuals."""
    equality = [_equality_delete(delete) for delete in plan.equality_deletes]
    position_files = [
        ListedDelete(
            content=Content.POSITION_DELETES,
            path=RecordedPath(delete.path),
            format=delete.format,
            target=delete.target,
            sequence_number=delete.sequence_number,
            record_count=delete.record_count,
        )
        for delete in plan.position_deletes.files
    ]
    rows = plan.files.to_pylist()
    files = []
    for row, source in zip(rows, plan.position_deletes.sources([row["positions"] for row in rows]), strict=True):
        deletes = [equality[i] for i in plan.delete_sets[row["delete_set"]]]
        match source:
            case PositionFiles(applied=applied):
                deletes += [position_files[i] for i in applied]
            case StoredVector():
                deletes.append(_vector(source, row["path"]))
            case _:
                pass
        partition = plan.partitions[row["partition"]]
        file = DataFile(
            content=Content.DATA,
            path=RecordedPath(row["path"]),
            format=row["format"],
            spec_id=row["spec_id"],
            partition=partition.values,
            record_count=row["record_count"],
            size=row["size"],
            first_row_id=row["first_row_id"],
        )
        files.append(ListedFile(file=file, deletes=tuple(deletes), sequence_number=row["sequence_number"]))
    listed = {delete: None for file in files for delete in file.deletes}
    skipped = frozenset(plan.skipped.files.column("path").to_pylist())
    return FileListing(files=tuple(files), skipped=skipped, deletes=tuple(listed))


def _equality_delete(delete: EqualityDelete) -> ListedDelete:
    return ListedDelete(
        content=Content.EQUALITY_DELETES,
        path=RecordedPath(delete.path),
        format=delete.format,
        equality_ids=tuple(sorted(key_fields(key)[-1].id for key in delete.keys)),
        sequence_number=delete.sequence_number,
        record_count=delete.record_count,
    )


def _vector(vector: StoredVector, target: str) -> ListedDelete:
    """Return the deletion vector of a data file. A `ScanPlan` does not contain its sequence number."""
    return ListedDelete(
        content=Content.POSITION_DELETES,
        path=RecordedPath(vector.path),
        format=vector.format,
        offset=vector.offset,
        length=vector.length,
        target=target,
        record_count=vector.record_count,
    )
