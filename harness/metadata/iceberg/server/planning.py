"""Plans of a read, made by the server of the table's catalog.

The server decides which data files to read and which deletes apply to each of them. All other decisions are made here:
the whole filter is applied to every file, a delete must have the partition of its data file, and a deletion vector must
reference its data file. The plan has no sequence numbers, because the specification does not require servers to send
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.errors import HarnessError, StorageError, UnsupportedError
from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.iceberg.scan import IcebergScan, physical_paths
from harness.metadata.iceberg.server.calls import request_plan
from harness.metadata.iceberg.server.expressions import expression_of
from harness.metadata.iceberg.server.protocol import PlanAnswer, PlanServer, ScanRequest
from harness.metadata.iceberg.server.task_deletes import CLIENT, TaskDeletes
from harness.metadata.iceberg.server.tasks import ServerPlan, parse_plan
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.schema import METADATA, Field, Schema
from harness.metadata.plan.scan_plan import FILES, Counts
from harness.metadata.planned_scan import PlannedScan, within_roots

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

_NUMBER = METADATA["_last_updated_sequence_number"]


def plan_on_server(
    source: IcebergTable,
    server: PlanServer,
    selection: IcebergSelection,
    *,
    columns: tuple[str, ...] | None,
    where: str | Filter | None,
) -> PlannedScan:
    """Plan a read on the server. The plan yields the same rows as `harness.metadata.iceberg.scan.plan_scan`.

    Args:
        source: The table.
        server: The server of its catalog.
        selection: The snapshot and the schema to read.
        columns: Column names in the order of the result; None for all columns of the schema.
        where: A boolean SQL expression, or a filter for the schema of `selection`; None for all rows.

    Raises:
        RequestError: A column is unknown, or `where` cannot be parsed or is for another schema.
        StorageError: The server does not answer, refuses the request, or fails, or its plan is invalid.
        InvalidTableError: A data file is in the plan twice (iceberg 2.13), or as for `key_columns`.
        CorruptDeleteError: A position delete or vector does not have the partition of its data file, or as for
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
        UnsupportedError: `_last_updated_sequence_number` is returned or filtered.
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
    """Return the request for a plan of one snapshot. It names only columns that `named_columns` returns.

    Args:
        source: The table.
        selection: The snapshot, which is not None, and the schema of the read.
        used: The columns that are returned or filtered.
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
    """Return the columns that a request may name.

    Some servers resolve names in the schema of the snapshot, and others in the current schema of the table. A column
    may only be named if it is the same in both schemas.

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


def files_table(plan: ServerPlan, source: IcebergTable, deletes: TaskDeletes) -> pa.Table:
    """Return the data files of a plan as a table with the schema `FILES`, and number their partitions and deletes."""
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
