"""The plans that `harness.compare_plans` compares: functions that make them and read their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.diff.plan_result import CLIENT, SAVED, SERVER, PlanSide
from harness.errors import HarnessError, RequestError
from harness.metadata.filters.predicate import Constant, Filter, Predicate
from harness.metadata.iceberg.server.calls import request_plan
from harness.metadata.iceberg.server.expressions import parse_expression
from harness.metadata.iceberg.server.listing import (
    FileListing,
    client_listing,
    plan_listing,
    server_listing,
    statistics_types,
)
from harness.metadata.iceberg.server.planning import named_columns, plan_of_answer, scan_request, used_columns
from harness.metadata.iceberg.server.protocol import ScanRequest
from harness.metadata.iceberg.server.tasks import parse_tasks
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.model.schema import walk
from harness.metadata.plan.scan_plan import ScanPlan
from harness.metadata.planned_scan import PlannedScan, with_storage, within_roots
from harness.storage.threads import phase

_PHRASES = {SERVER: "the server's plan", CLIENT: "the client's plan", SAVED: "the saved plan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedScan:
    """The read that both plans are for.

    Attributes:
        client: The table, as opened with its metadata files.
        server: The table, as opened with the server of its catalog. None if no plan of a server is compared.
        selection: The snapshot and schema.
        columns: The columns of the rows to compare, or None for all.
        condition: The filter, or None for all rows.
    """

    client: IcebergTable
    server: IcebergTable | None
    selection: IcebergSelection
    columns: tuple[str, ...] | None
    condition: Filter | None

    def request(self) -> ScanRequest | None:
        """Return the request for the plan of the server, with statistics, or None if the table has no snapshot."""
        if self.selection.snapshot is None:
            return None
        schema = self.selection.schema
        used = used_columns(schema, self.columns, self.condition)
        request = scan_request(self.client, self.selection, used, self.condition)
        types, named = statistics_types(schema), walk(named_columns(self.client, self.selection))
        return replace(request, stats_fields=tuple(".".join(path) for path, f in named if f.id in types))

    def requested(self) -> Predicate:
        """Return the condition in the request to a server, which may be weaker than the filter."""
        request = self.request()
        if request is None or request.filter is None:
            return Constant(True)
        return parse_expression(request.filter, self.selection.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPlan:
    """A plan to compare.

    Attributes:
        info: The description for reports.
        phrase: The plan in sentences, for example `the server's plan`.
        listing: The files of the plan. Empty if the plan could not be made.
        plan: The plan for reading rows. None if harness refuses to read the plan, or if the plan could not be made.
    """

    info: PlanSide
    phrase: str
    listing: FileListing
    plan: PlannedScan | None = None


def compared_plans(
    plans: tuple[str | ScanPlan, str | ScanPlan], scan: ComparedScan
) -> tuple[ComparedPlan, ComparedPlan]:
    """Make both plans."""
    names = [plan if isinstance(plan, str) else SAVED for plan in plans]
    phrases = [_PHRASES[name] for name in names] if names[0] != names[1] else ["the left plan", "the right plan"]
    left, right = (_side(*each, scan) for each in zip(plans, names, phrases, strict=True))
    return left, right


def _side(source: str | ScanPlan, name: str, phrase: str, scan: ComparedScan) -> ComparedPlan:
    plan: PlannedScan | None = None
    refusal: HarnessError | None = None
    try:
        with phase(f"making the {name} plan"):
            if isinstance(source, ScanPlan):
                _check_saved(source, scan)
                listing = plan_listing(source)
                like = scan.client.plan(scan.selection, scan.columns, scan.condition)
                plan = within_roots(with_storage(replace(source, columns=like.columns), like.storage))
            elif source == CLIENT:
                listing = client_listing(scan.client, scan.selection, scan.condition)
                plan = scan.client.plan(scan.selection, scan.columns, scan.condition)
            else:
                listing, plan, refusal = _server_plan(scan)
    except RequestError:
        raise
    except HarnessError as error:
        return ComparedPlan(info=PlanSide(name=name, error=error), phrase=phrase, listing=FileListing(files=()))
    deletes = len(set(listing.deletes))
    return ComparedPlan(
        info=PlanSide(name=name, files=len(listing.files), deletes=deletes, refusal=refusal),
        phrase=phrase,
        listing=listing,
        plan=plan,
    )


def _server_plan(scan: ComparedScan) -> tuple[FileListing, PlannedScan | None, HarnessError | None]:
    """Return the files in the server's plan, and either the plan to read or the error if harness refuses it."""
    source, selection = scan.server, scan.selection
    assert source is not None
    server = source.server
    assert server is not None
    request = scan.request()
    answer = None if request is None else request_plan(server.transport, request, table=server.name)
    listing = FileListing(files=())
    if answer is not None:
        catalog, schema = server.transport.catalog, selection.schema
        tasks = parse_tasks(answer, source.metadata, schema, catalog=catalog, table=server.name)
        listing = server_listing(tasks, schema)
    columns, condition = scan.columns, scan.condition
    try:
        return listing, plan_of_answer(source, server, selection, answer, columns=columns, condition=condition), None
    except HarnessError as error:
        return listing, None, error


def _check_saved(plan: ScanPlan, scan: ComparedScan) -> None:
    """Raise RequestError if a saved plan is for another read."""
    snapshot = scan.selection.snapshot
    number = None if snapshot is None else snapshot.id
    filters = [None if each is None else each.sql for each in (plan.filter, scan.condition)]
    if plan.format != "iceberg" or plan.snapshot != number:
        raise RequestError(f"Cannot compare a plan of snapshot {plan.snapshot} with one of snapshot {number}")
    if filters[0] != filters[1]:
        raise RequestError(f"Cannot compare a plan with the filter {filters[0]} with one with the filter {filters[1]}")
