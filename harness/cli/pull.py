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
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh", help="Bring the slice in DIR to the newest snapshot, as its note says it was pulled."
        ),
    ] = False,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    opening: options.Opening,
    reading: options.Reading,
) -> None:
    """Make a slice of a table: a table of the same format that any reader reads, with the files that a filter needs.

    Under the filter the slice gives the rows of the source. An interrupted pull leaves no table, and goes on when it is
    asked for again.
    """
    from harness.slices.pulling import pull as pull_slice
    from harness.slices.refreshing import refresh as refresh_slice

    if refresh:
        _refuse_others(context, "--refresh")
    selector = options.Selector() if at is None else options.moment(at)
    with terminal.progress("planning"):
        snapshot = selector.select(opening.open(location, options.Trust(), reading))
    with terminal.progress("copying"):
        pulled = (
            refresh_slice(snapshot, directory)
            if refresh
            else pull_slice(
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
        )
    content = asdict(pulled)
    match format_:
        case options.Document.TEXT:
            results.print_result(*text_document(content))
        case options.Document.JSON:
            results.print_result(json_document("pull", content))


_OF_A_SLICE = ("where", "at", "last", "columns", "exact", "sample_rows", "seed", "compact", "max_bytes", "dry_run")


def _refuse_others(context: typer.Context, option: str) -> None:
    """What a slice holds is in its note."""
    for name in _OF_A_SLICE:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{option} excludes --{name.replace('_', '-')}: the slice is as it was pulled")
