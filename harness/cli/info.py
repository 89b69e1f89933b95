"""`harness info`: what a table's metadata says."""

from __future__ import annotations

from harness.cli import options, results, terminal
from harness.cli.document import json_document, text_document


@options.grouped
def info(
    location: options.Location,
    format_: options.Format = options.Document.TEXT,
    *,
    opening: options.Opening,
) -> None:
    """Describe a table: format, schema, partitioning, snapshots, branches and tags, properties."""
    with terminal.progress("reading metadata"):
        content = opening.open(location).describe()
    match format_:
        case options.Document.TEXT:
            results.print_result(*text_document(content))
        case options.Document.JSON:
            results.print_result(json_document("info", content))
