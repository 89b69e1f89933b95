"""Planning of a read by the server of the table's catalog.

The server decides which data files to read and which deletes apply to each of them. All other decisions are made here:
the whole filter is applied to every file, a delete must have the partition of its data file, and a deletion vector must
be the one of its data file. A server sends no sequence numbers, so the plan has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.errors import HarnessError, InvalidTableError, StorageError, UnsupportedError
from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.iceberg.delete_scope import DeleteScope, vector_of
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.metadata.iceberg.planned_deletes import key_columns
from harness.metadata.iceberg.scan import IcebergScan, physical_paths
from harness.metadata.iceberg.server.expressions import expression_of
from harness.metadata.iceberg.server.protocol import PlanAnswer, PlanServer, ScanRequest, request_plan
from harness.metadata.iceberg.server.tasks import FileTask, ServerPlan, parse_plan
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.iceberg.values import Partitions, read_schema_first
from harness.metadata.model.arrow_values import array_of, first_repeated
from harness.metadata.model.schema import METADATA, Field, Schema
from harness.metadata.plan.deletes import (
    EqualityDelete,
    PathSpellings,
    PositionDeleteFile,
    PositionDeletes,
    PositionFiles,
    vectors_table,
)
from harness.metadata.plan.scan_plan import FILES, Counts
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

_NUMBER = METADATA["_last_updated_sequence_number"]
CLIENT = "open the table with planning='client'"
"""The remedy for everything that only the metadata files tell."""


def plan_on_server(
    source: IcebergTable,
    server: PlanServer,
    selection: IcebergSelection,
    *,
    columns: tuple[str, ...] | None,
    where: str | Filter | None,
) -> PlannedScan:
    """Plan a read by the server. The result has the rows of `harness.metadata.iceberg.scan.plan_scan`.

    Args:
        source: The table.
        server: The server of its catalog.
        selection: The snapshot and the schema to read.
        columns: Column names in the order of the result; None for all columns of the schema.
        where: A boolean SQL expression, or a filter for the schema of `selection`; None for all rows.

    Raises:
        RequestError: A column is unknown, or `where` cannot be parsed or is for another schema.
        StorageError: The server does not answer, refuses, fails, or its plan is invalid.
        InvalidTableError: A data file is in the plan twice (iceberg 2.13), or as for `key_columns`.
        CorruptDeleteError: A position delete or vector has another partition than its data file, or as for
            `parse_plan`.
        UnsupportedError: The table uses a feature that harness does not support, or `_last_updated_sequence_number` is
            read.
        OutsideTableError: A file may not be read.
    """
    snapshot, schema = selection.snapshot, selection.schema
    try:
        condition = None if where is None else IcebergScan(source, schema, None).filter(where, schema)
        used = used_columns(schema, columns, condition)
        answer = None
        if snapshot is not None:
            request = scan_request(source, selection, used, condition)
            answer = request_plan(server.transport, request, table=server.name)
    except HarnessError as error:
        error.within(table=source.location, snapshot=None if snapshot is None else snapshot.id)
        raise
    return plan_of_answer(source, server, selection, answer, columns=columns, condition=condition)


def plan_of_answer(
    source: IcebergTable,
    server: PlanServer,
    selection: IcebergSelection,
    answer: PlanAnswer | None,
    *,
    columns: tuple[str, ...] | None,
    condition: Filter | None,
) -> PlannedScan:
    """Return the plan in the answer of a server. Raises the errors of `plan_on_server`.

    Args:
        source: The table.
        server: The server of its catalog.
        selection: The snapshot and the schema to read.
        answer: The answer to a request of `scan_request`; None for a table without a snapshot.
        columns: Column names in the order of the result; None for all columns of the schema.
        condition: The filter; None for all rows.
    """
    snapshot, schema, catalog = selection.snapshot, selection.schema, server.transport.catalog
    try:
        scan = IcebergScan(source, schema, None)
        selected = schema.fields if columns is None else bind_columns(columns, schema)
        plan, storage = ServerPlan(tasks=(), deletes=()), source.storage
        if answer is not None:
            plan = parse_plan(answer, source.metadata, schema, catalog=catalog, table=server.name)
            files_read = (*(task.file for task in plan.tasks), *plan.deletes)
            paths = [source.path_map.physical(each.path) for each in files_read]
            storage = replace(server.storage(answer, paths), roots=source.storage.roots)
        deletes = TaskDeletes.of(plan, source, schema, catalog)
        files = files_table(plan, source, deletes)
        equality_deletes, position_deletes = deletes.equality_deletes(), deletes.position_deletes()
        return within_roots(
            PlannedScan(
                table=source.location,
                snapshot=None if snapshot is None else snapshot.id,
                schema=schema,
                columns=tuple(map(scan.with_partition_type, selected)),
                filter=condition,
                rules=scan.rules(),
                files=files,
                partitions=deletes.partitions.all(),
                equality_deletes=equality_deletes,
                delete_sets=tuple(deletes.equality_sets) or ((),),
                position_deletes=position_deletes,
                counts=Counts(files=len(plan.tasks)),
                trusted=(f"the plan of catalog {catalog}",),
                storage=storage.for_read(),
            )
        )
    except HarnessError as error:
        error.within(table=source.location, snapshot=None if snapshot is None else snapshot.id)
        raise


def used_columns(schema: Schema, columns: tuple[str, ...] | None, condition: Filter | None) -> tuple[Field, ...]:
    """Return the columns that a read of a server's plan returns or filters.

    Args:
        schema: The schema of the read.
        columns: Column names; None for all columns of the schema.
        condition: The filter; None for all rows.

    Raises:
        RequestError: A column is unknown.
        UnsupportedError: `_last_updated_sequence_number` is among them.
    """
    selected = schema.fields if columns is None else bind_columns(columns, schema)
    used = (*selected, *(() if condition is None else condition.columns))
    if _NUMBER in used:
        message = f"Cannot read {_NUMBER.name}: plans of a server have no sequence numbers; {CLIENT}"
        raise UnsupportedError(message, cause="ServerPlanning", field=_NUMBER.name)
    return used


def scan_request(
    source: IcebergTable, selection: IcebergSelection, used: Sequence[Field], condition: Filter | None
) -> ScanRequest:
    """Return the request for a plan of one snapshot. Only columns of `named_columns` are named.

    Args:
        source: The table.
        selection: The snapshot, which is not None, and the schema of the read.
        used: The columns that are read or filtered.
        condition: The filter, or None.
    """
    snapshot, schema = selection.snapshot, selection.schema
    assert snapshot is not None
    shared = replace(schema, fields=named_columns(source, selection))
    columns = {f.name: f for f in used if f.id not in {each.id for each in METADATA.values()}}
    has_all = len(columns) == len(schema.fields) or not all(f in shared.fields for f in columns.values())
    can_skip = condition is not None and source.options.prune.by_statistics
    return ScanRequest(
        snapshot_id=snapshot.id,
        select=None if has_all or not columns else tuple(columns),
        filter=expression_of(condition.predicate, shared) if condition is not None and can_skip else None,
        use_snapshot_schema=snapshot.schema_id == schema.id,
    )


def named_columns(source: IcebergTable, selection: IcebergSelection) -> tuple[Field, ...]:
    """Return the columns of the schema of a read that a request may name.

    Some servers look names up in the schema of the snapshot, others in that of the table. So only columns that are the
    same in both schemas are named.

    Args:
        source: The table.
        selection: The snapshot, which is not None, and the schema of the read.
    """
    snapshot, schema = selection.snapshot, selection.schema
    assert snapshot is not None
    schemas = source.metadata.schemas
    own = schemas.get(schema.id if snapshot.schema_id is None else snapshot.schema_id, schema)
    current = source.metadata.current_schema
    return tuple(f for f in schema.fields if f in own.fields and f in current.fields)


def refuse_duplicates(plan: ServerPlan, source: IcebergTable, catalog: str) -> None:
    """Raise InvalidTableError if a data file is in a plan twice, unless the user allows it (iceberg 2.13)."""
    paths = [task.file.path for task in plan.tasks]
    if len(frozenset(paths)) < len(paths) and not source.options.allow_duplicate_files:
        message = (
            f"Data file is twice in the plan of catalog {catalog}, so its rows are undefined. Allow duplicates to "
            f"read its rows twice, or {CLIENT}"
        )
        path = first_repeated(pa.chunked_array([array_of(paths, pa.string())]))
        raise InvalidTableError(message, cause="DuplicateDataFile", file=path, rule="iceberg 2.13")


def files_table(plan: ServerPlan, source: IcebergTable, deletes: TaskDeletes) -> pa.Table:
    """Return the data files of a plan as a table of `FILES`, and number their partitions and deletes."""
    files, partitions = [task.file for task in plan.tasks], deletes.partitions
    numbers = [partitions.index_of(file.spec_id, file.partition) for file in files]
    sources = [deletes.add(task, number) for task, number in zip(plan.tasks, numbers, strict=True)]
    first_set = len(deletes.vectors)
    columns: dict[str, Sequence[object]] = {
        "path": [file.path for file in files],
        "format": [file.format for file in files],
        "record_count": [file.record_count for file in files],
        "size": [file.size for file in files],
        "spec_id": [file.spec_id for file in files],
        "partition": numbers,
        "sequence_number": [None] * len(files),
        "first_row_id": [file.first_row_id for file in files],
        "commit_version": [None] * len(files),
        "delete_set": [each.equality for each in sources],
        "positions": [each.vector if each.files is None else first_set + each.files for each in sources],
    }
    try:
        arrays = {name: array_of(values, FILES.field(name).type) for name, values in columns.items()}
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        message = f"Catalog {deletes.catalog} returned an invalid plan: a value does not fit its type: {error}"
        raise StorageError(message, cause="CatalogAnswer") from error
    arrays["physical"] = physical_paths(source.path_map, pa.chunked_array([arrays["path"]]))
    return pa.table([arrays[name] for name in FILES.names], schema=FILES)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The numbers of a data file's set of equality deletes, and of its vector or set of position delete files."""

    equality: int
    vector: int | None = None
    files: int | None = None


@dataclass(slots=True, kw_only=True)
class TaskDeletes:
    """The deletes of a server's plan, numbered in the order in which data files use them.

    Attributes:
        deletes: All deletes of the plan.
        source: The table.
        partitions: The partition tuples of the plan.
        scope: The rules for partitions.
        spellings: The paths that the caller's path map equates.
        live: The paths of all data files of the plan.
        catalog: The name of the catalog, for messages.
        equality: The number of each equality delete that was used, by its index in `deletes`.
        equality_sets: The number of each set of equality deletes.
        files: The number of each position delete file, by its index in `deletes`.
        file_sets: The number of each set of position delete files.
        vectors: The number of each deletion vector, by its index in `deletes`.
    """

    deletes: Sequence[DataFile]
    source: IcebergTable
    partitions: Partitions
    scope: DeleteScope
    spellings: PathSpellings
    live: frozenset[str]
    catalog: str
    equality: dict[int, int] = field(default_factory=dict)
    equality_sets: dict[tuple[int, ...], int] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    file_sets: dict[PositionFiles, int] = field(default_factory=dict)
    vectors: dict[int, int] = field(default_factory=dict)
    _scopes: set[tuple[int, int]] = field(default_factory=set)

    @staticmethod
    def of(plan: ServerPlan, source: IcebergTable, schema: Schema, catalog: str) -> TaskDeletes:
        """Return the deletes of a plan.

        Raises:
            InvalidTableError: A data file is in the plan twice.
            StorageError: A delete is in the plan that applies to no data file. It may be missing at one.
        """
        refuse_duplicates(plan, source, catalog)
        metadata, used = source.metadata, {place for task in plan.tasks for place in task.deletes}
        partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, schema))
        deletes = TaskDeletes(
            deletes=plan.deletes,
            source=source,
            partitions=partitions,
            scope=DeleteScope(
                partition_of=lambda file: partitions.key_of(file.spec_id, file.partition),
                specs=metadata.specs,
                lenient=source.options.lenient_delete_partition,
            ),
            spellings=PathSpellings(source.path_map, metadata.location, source.location, source.storage.untrusted),
            live=frozenset(task.file.path for task in plan.tasks),
            catalog=catalog,
        )
        for place, delete in enumerate(plan.deletes):
            if place not in used:
                raise deletes._error("lists a delete that it applies to no data file", delete, "4.1")
        return deletes

    def add(self, task: FileTask, partition: int) -> _Sources:
        """Return the deletes of a data file, after checking that they belong to it.

        Args:
            task: The data file.
            partition: The index of its partition.
        """
        if not task.deletes:
            return _Sources(self.equality_sets.setdefault((), len(self.equality_sets)))
        equality: list[int] = []
        files: list[int] = []
        vector: int | None = None
        for place in task.deletes:
            delete = self.deletes[place]
            if delete.content is Content.EQUALITY_DELETES:
                self._check_equality_scope(place, task.file, partition)
                equality.append(self.equality.setdefault(place, len(self.equality)))
                continue
            is_vector = delete.format == "puffin"
            self.scope.check_target(delete, task.file, rule="iceberg 4.3" if is_vector else "iceberg 4.4")
            if is_vector:
                vector = self.vectors.setdefault(place, len(self.vectors))
            else:
                files.append(place)
        set_number = self.equality_sets.setdefault(tuple(sorted(equality)), len(self.equality_sets))
        # Position delete files do not count for a data file with a vector (iceberg 4.5).
        if vector is not None or not files:
            return _Sources(set_number, vector=vector)
        applied = PositionFiles(tuple(self.files.setdefault(place, len(self.files)) for place in files))
        return _Sources(set_number, files=self.file_sets.setdefault(applied, len(self.file_sets)))

    def _target(self, delete: DataFile) -> RecordedPath | None:
        """Return the data file that a delete names, as the plan spells it."""
        target = delete.referenced_data_file
        if target is None or target in self.live:
            return target
        return self.spellings.equivalent_path(target, self.live) or target

    def _check_equality_scope(self, place: int, data: DataFile, partition: int) -> None:
        if (place, partition) in self._scopes:
            return
        delete = self.deletes[place]
        if self.scope.equality_delete_partition(delete) not in (None, self.scope.partition_of(data)):
            reason = (
                f"applies an equality delete of spec {delete.spec_id} and partition {dict(delete.partition)} to "
                f"{data.path} of spec {data.spec_id} and partition {dict(data.partition)}"
            )
            raise self._error(reason, delete, "4.6")
        self._scopes.add((place, partition))

    def equality_deletes(self) -> tuple[EqualityDelete, ...]:
        """Return the equality deletes that were used, by number."""
        schemas = self.partitions.schemas
        return tuple(
            EqualityDelete(
                path=delete.path,
                physical=self.source.path_map.physical(delete.path),
                format=delete.format,
                keys=key_columns(delete.equality_ids or (), schemas, file=delete.path),
                sequence_number=None,
                partition=None
                if self.scope.equality_delete_partition(delete) is None
                else self.partitions.index_of(delete.spec_id, delete.partition),
                record_count=delete.record_count,
            )
            for delete in map(self.deletes.__getitem__, self.equality)
        )

    def position_deletes(self) -> PositionDeletes:
        """Return the position deletes that were used, by number."""
        path_map = self.source.path_map
        vectors, files = ([self.deletes[place] for place in places] for places in (self.vectors, self.files))
        return PositionDeletes(
            files=tuple(
                PositionDeleteFile(
                    path=delete.path,
                    physical=path_map.physical(delete.path),
                    format=delete.format,
                    sequence_number=None,
                    partition=self.partitions.index_of(delete.spec_id, delete.partition),
                    target=self._target(delete),
                    record_count=delete.record_count,
                )
                for delete in files
            ),
            vectors=vectors_table([vector_of(delete, path_map.physical(delete.path)) for delete in vectors]),
            sets=tuple(self.file_sets),
        )

    def _error(self, reason: str, delete: DataFile, rule: str) -> StorageError:
        message = f"Catalog {self.catalog} returned an invalid plan: it {reason}; {CLIENT}"
        return StorageError(message, cause="CatalogAnswer", file=delete.path, rule=f"iceberg {rule}")
