"""`harness info`: what a table's metadata says."""

from __future__ import annotations

from harness.cli import options, terminal
from harness.cli.document import json_document, text_document


def info(
    location: options.Location,
    format_: options.Format = options.Document.TEXT,
    path_map: options.PathMap = None,
    storage_option: options.StorageOption = None,
    allow_version_guess: options.AllowVersionGuess = False,
    format_hint: options.FormatHint = None,
) -> None:
    """Describe a table: format, schema, partitioning, snapshots, branches and tags, properties."""
    opening = options.Opening(
        path_map=path_map,
        storage_option=storage_option,
        allow_version_guess=allow_version_guess,
        format_hint=format_hint,
    )
    with terminal.progress("reading metadata"):
        content = opening.open(location).describe()
    match format_:
        case options.Document.TEXT:
            terminal.print_result(*text_document(content))
        case options.Document.JSON:
            terminal.print_result(json_document("info", content))
