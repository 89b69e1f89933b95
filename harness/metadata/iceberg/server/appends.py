"""Planning of the rows that a range of snapshots appended, by the server of the table's catalog."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.change_range import resolve_range
from harness.metadata.iceberg.changes import change_columns, has_row_ids, range_commits
from harness.metadata.iceberg.model import IcebergSnapshot
from harness.metadata.iceberg.scan import IcebergScan
from harness.metadata.iceberg.server.planning import TaskDeletes, files_table, refuse_duplicates, scan_request
from harness.metadata.iceberg.server.protocol import Credential, PlanAnswer, PlanServer, ScanRequest, request_plan
from harness.metadata.iceberg.server.tasks import FileTask, ServerPlan, parse_plan
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.model.schema import Schema
from harness.metadata.plan.lifetimes import ChangeMode, ChangeRange, Lifetimes, Span, result_schema
from harness.metadata.plan.scan_plan import Counts
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.records import dataclass
from harness.storage.stores import Storage

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable


def plan_appends(
    source: IcebergTable,
    server: PlanServer,
    request: ChangeRange,
    *,
    columns: tuple[str, ...] | None,
    where: str | Filter | None,
) -> PlannedScan:
    """Plan a read of the rows that a range of snapshots appended. The server plans each snapshot by itself.

    A server can also plan a whole range at once, but its answer does not say which snapshot appended a file.

    Args:
        source: The table.
        server: The server of its catalog.
        request: The range. Its mode is `ChangeMode.APPENDS`.
        columns: As for `harness.metadata.iceberg.changes.plan_range`.
        where: As for `harness.metadata.iceberg.changes.plan_range`.

    Raises:
        HarnessError: As for `plan_range`, `request_plan`, and `parse_plan`.
    """
    catalog = server.transport.catalog
    try:
        commits = resolve_range(source.metadata, request)
        schema = commits.end.schema
        row_schema = result_schema(schema, ChangeMode.APPENDS, rule="iceberg 8.4")
        scan = IcebergScan(source, schema, None)
        selected = change_columns(columns, row_schema)
        condition = None if where is None else scan.filter(where, row_schema)
        used = tuple(f for f in (*selected, *(() if condition is None else condition.columns)) if f in schema.fields)
        appended = _Appended(source, server, schema)
        for number, snapshot in enumerate(commits.snapshots):
            if snapshot.operation == "append":
                about = scan_request(source, IcebergSelection(snapshot, schema), used, condition)
                appended.request(number, _of_appends(snapshot, about))
        plan = ServerPlan(tasks=tuple(appended.tasks), deletes=())
        # Two snapshots may have appended the same file.
        repeatable = replace(source, options=replace(source.options, allow_duplicate_files=True))
        deletes = TaskDeletes.of(plan, repeatable, schema, catalog)
        files = files_table(plan, source, deletes)
        return within_roots(
            PlannedScan(
                table=source.location,
                snapshot=None if commits.end.snapshot is None else commits.end.snapshot.id,
                schema=schema,
                columns=tuple(map(scan.with_partition_type, selected)),
                filter=condition,
                rules=scan.rules(),
                files=files,
                partitions=deletes.partitions.all(),
                counts=Counts(files=files.num_rows),
                trusted=(f"the plan of catalog {catalog}",),
                lifetimes=Lifetimes(
                    commits=range_commits(commits.snapshots, appended.spans),
                    files=tuple(appended.spans),
                    mode=ChangeMode.APPENDS,
                    row_ids=has_row_ids(source.metadata, files.column("first_row_id")),
                ),
                storage=replace(appended.storage(), roots=source.storage.roots).for_read(),
            )
        )
    except HarnessError as error:
        error.within(table=source.location)
        raise


@dataclass(slots=True)
class _Appended:
    """The files that snapshots appended, as the server answers.

    Attributes:
        source: The table.
        server: The server.
        schema: The schema of the read.
        tasks: The files so far, without deletes: appends are read without regard to them.
        spans: The span of each file.
        credentials: The credentials so far, by prefix.
        plan_id: The id of the last plan.
    """

    source: IcebergTable
    server: PlanServer
    schema: Schema
    tasks: list[FileTask] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    credentials: dict[str, Credential] = field(default_factory=dict)
    plan_id: str | None = None

    def request(self, number: int, request: ScanRequest) -> None:
        """Request the files of the commit with a number."""
        server, source = self.server, self.source
        answer = request_plan(server.transport, request, table=server.name)
        catalog = server.transport.catalog
        plan = parse_plan(answer, source.metadata, self.schema, catalog=catalog, table=server.name)
        refuse_duplicates(plan, source, catalog)
        self.tasks += [replace(task, deletes=()) for task in plan.tasks]
        self.spans += [Span(number)] * len(plan.tasks)
        self.plan_id = answer.plan_id
        self.credentials |= {each.prefix: each for each in answer.credentials}

    def storage(self) -> Storage:
        """Return the storage of the files."""
        answer = PlanAnswer(plan_id=self.plan_id, pages=(), credentials=tuple(self.credentials.values()))
        return self.server.storage(answer, [task.file.path for task in self.tasks])


def _of_appends(snapshot: IcebergSnapshot, request: ScanRequest) -> ScanRequest:
    """Return the request for the files that a snapshot appended. The first snapshot of a table appended all it has."""
    if snapshot.parent_id is None:
        return request
    return replace(
        request,
        snapshot_id=None,
        start_snapshot_id=snapshot.parent_id,
        end_snapshot_id=snapshot.id,
        use_snapshot_schema=False,
    )
