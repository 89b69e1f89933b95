"""`harness info` and `harness plan`: a table's metadata, and the files of a read."""

from __future__ import annotations

import typer

from harness.cli import formats, options, terminal, untrusted
from harness.cli.document import print_document
from harness.cli.option_texts import names
from harness.errors import visible_lines


@options.grouped
def info(
    location: options.Location,
    format_: options.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Describe a table: format, schema, partitioning, snapshots, branches and tags, properties.

    Examples:
        harness info warehouse/orders
        harness info prod.sales.orders --format json
    """
    form = formats.form(format_, output, options.Document)
    if untrusted.is_for_worker(context):
        instead = {"format_": form, "output": None}
        untrusted.run(context, [location], opening.roots(), output=output, instead=instead)
        return
    with terminal.progress("reading metadata"):
        content = opening.open(location).describe()
    print_document("info", content, form, output)


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
    """Show what a read of the table would do, without reading any rows.

    Examples:
        harness plan warehouse/orders --where "day = DATE '2024-01-31'"
        harness plan warehouse/orders --columns id,total
    """
    form = formats.form(format_, output, options.Document)
    if untrusted.is_for_worker(context):
        instead = {"format_": form, "output": None}
        untrusted.run(context, [location], opening.roots(), output=output, instead=instead)
        return
    moment = options.moment(at)
    with terminal.progress("planning"):
        chosen = moment.select(opening.open(location))
        scan = chosen.plan(columns=names(columns, "--columns"), where=where)
        content = scan.to_dict() if form is options.Document.JSON else {}
    print_document("plan", content, form, output, text=lambda: [explained(scan.explain())])


def explained(text: str) -> str:
    """The text of `ScanPlan.explain()` for a terminal, with the table's control characters escaped."""
    return visible_lines(text.rstrip("\n")) + "\n"
