"""`harness plan`: which files a read would open, which it skips and why, and the deletes."""

from __future__ import annotations

import typer

from harness.cli import options, results, terminal, untrusted
from harness.cli.document import json_document
from harness.cli.name_lists import names
from harness.errors import visible_lines


@options.grouped
def plan(
    location: options.Location,
    where: options.Where = None,
    columns: options.Columns = None,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    selector: options.Selector,
    opening: options.Opening,
    reading: options.Reading,
    trust: options.Trust,
) -> None:
    """Show what a read of the table would do, without reading any rows."""
    if untrusted.is_for_worker(trust):
        untrusted.run(context, trust, [location], opening.roots())
        return
    with terminal.progress("planning"):
        chosen = selector.select(opening.open(location, trust, reading))
        scan = chosen.plan(columns=names(columns, "--columns"), where=where)
        match format_:
            case options.Document.TEXT:
                text = explained(scan.explain())
            case options.Document.JSON:
                text = json_document("plan", scan.to_dict())
    results.print_result(text)


def explained(text: str) -> str:
    """`ScanPlan.explain()` for a terminal: paths and values of the table are shown, not obeyed."""
    return visible_lines(text.rstrip("\n")) + "\n"
