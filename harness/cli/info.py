"""`harness info`: what a table's metadata says."""

from __future__ import annotations

import typer

from harness.cli import options, results, terminal, untrusted
from harness.cli.document import json_document, text_document


@options.grouped
def info(
    location: options.Location,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    opening: options.Opening,
    trust: options.Trust,
) -> None:
    """Describe a table: format, schema, partitioning, snapshots, branches and tags, properties."""
    if untrusted.is_for_worker(trust):
        untrusted.run(context, trust, [location], opening.roots())
        return
    with terminal.progress("reading metadata"):
        content = opening.open(location, trust).describe()
    match format_:
        case options.Document.TEXT:
            results.print_result(*text_document(content))
        case options.Document.JSON:
            results.print_result(json_document("info", content))
