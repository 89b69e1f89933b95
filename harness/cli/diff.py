"""`harness diff`: compares two tables, or one table on two engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import click

import harness
from harness.cli import options, terminal, untrusted
from harness.cli.diff_many import compare_files, compare_namespaces, namespaces_of
from harness.cli.diff_reports import Reports, finish
from harness.cli.diff_request import DiffOptions, DiffRequest
from harness.diff.plan_result import PlanComparison
from harness.diff.result import Batch, ComparisonResult
from harness.diff.sources import RowSource
from harness.engines.registry import start_engines
from harness.metadata.plan.read_options import Planning

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table

DiffSide: TypeAlias = "Snapshot | RowSource"


def diff(*, comparison: DiffOptions, reports: Reports, opening: options.OpeningOptions) -> None:
    """Compare the rows of two tables, files, snapshots, or engines, or two plans of one table.

    Examples:
        harness diff warehouse/orders staging/orders --keys id
        harness diff warehouse/orders --at 4 --at 5 --output report.html
        harness diff export.csv warehouse/orders --keys id --tolerance floats=1e-9
        harness diff warehouse staging --output junit.xml
        harness diff --sql-file *.sql --table orders=warehouse/orders
        harness diff prod.sales.orders --plans server,client

    Exit code: 0 no difference; 1 a difference; 2 nothing compared.
    """
    request = comparison.request()
    if request.plans is not None and opening.planning is not Planning.AUTO:
        raise click.BadParameter("--plans cannot be combined with --planning")
    if untrusted.needs_worker(opening.context):
        _compare_in_worker(request, reports, opening)
    else:
        finish(_compare(request, opening), reports.files, opening.context)


def _compare(request: DiffRequest, opening: options.OpeningOptions) -> ComparisonResult | PlanComparison | Batch:
    if request.plans is not None:
        return _compare_plans(request.plans, request, opening)
    if request.files:
        return compare_files(request, opening)
    namespaces = namespaces_of(request)
    if namespaces is not None:
        return compare_namespaces(namespaces, request, opening)
    return _compare_sides(request, opening)


def _compare_in_worker(request: DiffRequest, reports: Reports, opening: options.OpeningOptions) -> None:
    """Run the command in a worker, which returns its only report."""
    if request.plans is not None:
        raise click.BadParameter("--plans cannot be combined with --untrusted: the worker cannot contact a catalog")
    if request.files or any(RowSource.parse(location) is not None for location in request.locations):
        raise click.BadParameter(
            "--untrusted only reads Iceberg and Delta tables: no side may be a query, file, or database"
        )
    untrusted.refuse_engines(request.readers, "--engines")
    untrusted.run_with_report(opening.context, request.locations, opening.roots(), reports.files)


def _compare_plans(plans: tuple[str, str], request: DiffRequest, opening: options.OpeningOptions) -> PlanComparison:
    """Compare two plans of the one table."""
    from harness.diff.plans import PlanRequest, compare_opened_plans

    (location,) = request.locations
    return compare_opened_plans(
        lambda planning: opening.open(location, planning=planning),
        PlanRequest(
            plans=plans,
            at=request.moments[0],
            columns=request.columns,
            where=request.where,
            max_files=request.max_rows,
        ),
    )


def _compare_sides(request: DiffRequest, opening: options.OpeningOptions) -> ComparisonResult:
    """Compare two sides, or one table with itself."""
    engines = request.readers
    with terminal.progress("reading metadata"):
        opened = [RowSource.parse(location) or opening.open(location) for location in request.locations]
        left, right = (_at(*each) for each in zip((opened[0], opened[-1]), request.moments, strict=True))
    with terminal.progress("starting engines"):
        sides = zip(engines, (left, right), strict=True)
        start_engines(engine for engine, side in sides if not isinstance(side, RowSource))
    with terminal.progress("comparing"):
        arguments: dict[str, Any] = {**request.rules, "engines": engines}
        if request.queries is None:
            result = harness.compare(left, right, **arguments)
        else:
            queries = [_query(text, side) for text, side in zip(request.queries, (left, right), strict=True)]
            labels = [f"query on {_name(side)}" for side in (left, right)]
            result = harness.compare(*queries, names=labels, **arguments)
    for side in (result.left, result.right):
        if side.error is not None:
            side.error.with_option_names(options.option_for)
    return result


def _at(side: Table | RowSource, moment: str | None) -> DiffSide:
    if not isinstance(side, RowSource):
        return side.snapshot(moment)
    if moment is not None:
        raise click.BadParameter(f"--at only applies to tables: {side.name} has no snapshots")
    return side


def _query(text: str, side: DiffSide) -> harness.Query | RowSource:
    return side.with_query(text) if isinstance(side, RowSource) else harness.Query(text, {"t": side})


def _name(side: DiffSide) -> str:
    from harness.snapshot import short_table_name

    return side.name if isinstance(side, RowSource) else short_table_name(side._source.location, side.name)
