"""`harness info` and `harness plan`: a table's metadata, and the files of a read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import formats, options, terminal, untrusted
from harness.cli.document import print_document
from harness.cli.option_texts import names
from harness.errors import HarnessError, visible_lines
from harness.metadata.model.times import parse_moment, show_ms
from harness.metadata.plan.explain import totals
from harness.storage.paths import shown

if TYPE_CHECKING:
    from harness.metadata.plan.scan_plan import ScanPlan
    from harness.table import Table


@options.grouped
def info(
    location: options.Location,
    full: Annotated[
        bool, typer.Option("--full", help="Print all that the metadata says, as --format json does.")
    ] = False,
    format_: options.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show format, rows, files, deletes and last commit.

    Examples:
        harness info warehouse/orders
        harness info prod.sales.orders --full
    """
    form = formats.form(format_, output, options.Document)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    with terminal.progress("reading metadata"):
        table = opening.open(location)
        content = table.describe() if full or form is options.Document.JSON else _brief(table)
    print_document("info", content, form, output)


def _brief(table: Table) -> dict[str, Any]:
    """The facts that people ask for first, in the order in which they are printed."""
    from harness.metadata.tables.history import newest

    last = newest(table.source)
    kind = "version" if table.format == "delta" else "snapshot"
    time = "unknown time" if last is None or last["timestamp_ms"] is None else show_ms(last["timestamp_ms"])
    writer = f" by {last['writer']}" if last is not None and last["writer"] else ""
    try:
        plan = table.snapshot().plan(columns=())
    except HarnessError as error:
        counted = {"rows": f"unknown: {error.message}"} | dict.fromkeys(("files", "bytes", "deletes"), "unknown")
    else:
        counted = _counted(plan)
    return {
        "format": table.format,
        "location": shown(table.location),
        kind: "none" if last is None else last["id"],
        **counted,
        "columns": len(table.schema.fields),
        "partitioning": ", ".join(table.source.partitioning()) or "none",
        "last commit": "none" if last is None else f"{time}, {last['operation'] or 'unknown operation'}{writer}",
        **({"branches and tags": list(table.refs())} if table.refs() else {}),
        **({"warnings": list(table.warnings)} if table.warnings else {}),
    }


def _counted(plan: ScanPlan) -> dict[str, str]:
    """Rows, files, bytes and deletes, as the metadata records them."""
    known = totals(plan)
    counted = (d.record_count for d in plan.position_deletes if d.kind == "deletion vector")
    vectors = [count for count in counted if count is not None]
    rows, size, is_exact = known["records_before_deletes"], known["bytes"], len(vectors) == len(plan.position_deletes)
    deletes = [
        f"{known[name]:,} of {what} in {known[files]:,} of the files"
        for name, what, files in (
            ("position_deletes", "positions", "files_with_deleted_positions"),
            ("equality_deletes", "keys", "files_with_equality_deletes"),
        )
        if known[name]
    ]
    live = (
        f"{rows or 0:,} before deletes" if plan.equality_deletes or not is_exact else f"{(rows or 0) - sum(vectors):,}"
    )
    return {
        "rows": "unknown" if rows is None else live,
        "files": f"{plan.files.num_rows:,}",
        "bytes": "unknown" if size is None else f"{size:,}",
        "deletes": ", ".join(deletes) or "none",
    }


@options.grouped
def plan(
    location: options.Location,
    where: options.Where = None,
    columns: options.Columns = None,
    at: options.At = None,
    format_: options.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the files and deletes of a read, without its rows.

    Examples:
        harness plan warehouse/orders --where "day = DATE '2024-01-31'"
        harness plan warehouse/orders --columns id,total
    """
    form = formats.form(format_, output, options.Document)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    moment = parse_moment(at)
    with terminal.progress("planning"):
        chosen = opening.open(location).snapshot(**moment)
        scan = chosen.plan(columns=names(columns, "--columns"), where=where)
        content = scan.to_dict() if form is options.Document.JSON else {}
    print_document("plan", content, form, output, text=lambda: [explained(scan.explain())])


def explained(text: str) -> str:
    """The text of `ScanPlan.explain()` for a terminal, with the table's control characters escaped."""
    return visible_lines(text.rstrip("\n")) + "\n"
