"""Plans of the rows that a range of snapshots appended, made by the server of the table's catalog."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.change_range import resolve_range
from harness.metadata.iceberg.changes import change_columns, has_row_ids, range_commits
from harness.metadata.iceberg.model import IcebergSnapshot
from harness.metadata.iceberg.scan import IcebergScan
from harness.metadata.iceberg.server.calls import request_plan
from harness.metadata.iceberg.server.planning import files_table, scan_request
from harness.metadata.iceberg.server.protocol import Credential, PlanAnswer, PlanServer, ScanRequest
from harness.metadata.iceberg.server.task_deletes import TaskDeletes, refuse_duplicates
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
    """Plan a read of the rows that a range of snapshots appended, with one server plan for each snapshot.

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
                appended.add(number, snapshot, about)
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
    """The files that snapshots appended, according to the server.

    Attributes:
        source: The table.
        server: The server.
        schema: The schema of the read.
        tasks: The files so far, without deletes. Appended rows are read even if a delete in the range removes them.
        spans: The span of each file.
        credentials: The credentials so far, by prefix.
        plan_id: The id of the last plan.
        with_files: The ids of the snapshots that appended files.
        is_inclusive: True if the server includes the start snapshot in a range. None if this is not known yet.
    """

    source: IcebergTable
    server: PlanServer
    schema: Schema
    tasks: list[FileTask] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    credentials: dict[str, Credential] = field(default_factory=dict)
    plan_id: str | None = None
    with_files: set[int] = field(default_factory=set)
    is_inclusive: bool | None = None

    def add(self, number: int, snapshot: IcebergSnapshot, request: ScanRequest) -> None:
        """Add the files that one commit appended.

        The whole snapshot is planned if it has no parent, because it appended all of its files.

        Args:
            number: The number of the commit.
            snapshot: The snapshot, whose operation is `append`.
            request: The request for a plan of the whole snapshot.

        Raises:
            HarnessError: As for `plan_appends`.
        """
        if snapshot.parent_id is not None:
            start = snapshot.id if self._counts_start_in(snapshot.parent_id, request) else snapshot.parent_id
            request = _range(start, snapshot.id, request)
        plan = self._plan(request)
        refuse_duplicates(plan, self.source, self.catalog)
        if plan.tasks:
            self.with_files.add(snapshot.id)
        self.tasks += [replace(task, deletes=()) for task in plan.tasks]
        self.spans += [Span(number)] * len(plan.tasks)

    def _counts_start_in(self, start: int, request: ScanRequest) -> bool:
        """Return whether the server includes the files that the start snapshot of a range appended.

        The specification excludes these files, but Iceberg's own server includes them (1.12.0). To find out, plan the
        range that starts and ends at the same snapshot. If that snapshot appended files, an inclusive server returns
        them. Other servers return no files or refuse the range.
        """
        snapshot = self.source.metadata.snapshots.get(start)
        if self.is_inclusive is None and snapshot is not None and snapshot.operation == "append":
            try:
                has_files = bool(self._plan(_range(start, start, replace(request, filter=None))).tasks)
            except HarnessError as error:
                if error.cause not in ("CatalogFailed", "ServerPlanning"):
                    raise
                has_files = False
            if has_files or start in self.with_files:
                self.is_inclusive = has_files
        return self.is_inclusive is True

    @property
    def catalog(self) -> str:
        """The name of the catalog."""
        return self.server.transport.catalog

    def _plan(self, request: ScanRequest) -> ServerPlan:
        server, source = self.server, self.source
        answer = request_plan(server.transport, request, table=server.name)
        self.plan_id = answer.plan_id
        self.credentials |= {each.prefix: each for each in answer.credentials}
        return parse_plan(answer, source.metadata, self.schema, catalog=self.catalog, table=server.name)

    def storage(self) -> Storage:
        """Return the storage of the files."""
        answer = PlanAnswer(plan_id=self.plan_id, pages=(), credentials=tuple(self.credentials.values()))
        return self.server.storage(answer, [task.file.path for task in self.tasks])


def _range(start: int, end: int, request: ScanRequest) -> ScanRequest:
    """Return a request for the files that a range appended, based on the request for a whole snapshot."""
    return replace(request, snapshot_id=None, start_snapshot_id=start, end_snapshot_id=end, use_snapshot_schema=False)
