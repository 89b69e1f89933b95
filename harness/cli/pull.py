"""`harness pull`: a slice of a table in a directory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from harness.cli import options, results, terminal
from harness.cli.document import json_document, text_document
from harness.cli.name_lists import names


@options.grouped
def pull(
    location: options.Location,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty directory, for the slice.")],
    where: options.Where = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="WHEN",
            help="Take this snapshot: an id or version, a time in ISO 8601, a branch or a tag; or, written out, "
            "snapshot=ID, timestamp=TIME, ref=NAME.",
        ),
    ] = None,
    last: Annotated[
        int, typer.Option("--last", metavar="N", help="Take so many of the newest snapshots, for time travel.")
    ] = 1,
    columns: options.Columns = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Leave out rows that the condition drops: files that lose rows are rewritten."),
    ] = False,
    sample_rows: Annotated[
        int | None,
        typer.Option("--sample-rows", metavar="N", help="Keep so many of the rows, and deleted ones in their measure."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="Which rows --sample-rows keeps.")] = 0,
    compact: Annotated[
        bool, typer.Option("--compact", help="Apply the deletes: live rows only, and no delete files.")
    ] = False,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", metavar="N", help="Copy nothing if the slice needs more bytes of the source."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many files and bytes would be copied; write nothing.")
    ] = False,
    format_: options.Format = options.Document.TEXT,
    *,
    opening: options.Opening,
    reading: options.Reading,
) -> None:
    """Make a slice of a table: a table of the same format that any reader reads, with the files that a filter needs.

    Under the filter the slice gives the rows of the source. An interrupted pull leaves no table, and goes on when it is
    asked for again.
    """
    from harness.slices.pulling import pull as pull_slice

    selector = options.Selector() if at is None else options.moment(at)
    with terminal.progress("planning"):
        snapshot = selector.select(opening.open(location, options.Trust(), reading))
    with terminal.progress("copying"):
        pulled = pull_slice(
            snapshot,
            directory,
            where=where,
            last=last,
            columns=names(columns, "--columns"),
            exact=exact,
            sample_rows=sample_rows,
            seed=seed,
            compact=compact,
            max_bytes=max_bytes,
            dry_run=dry_run,
        )
    content = asdict(pulled)
    match format_:
        case options.Document.TEXT:
            results.print_result(*text_document(content))
        case options.Document.JSON:
            results.print_result(json_document("pull", content))
