"""`harness metadata`: the rows of a metadata table, such as snapshots or files."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import formats, options, results, terminal, untrusted, writers
from harness.cli.option_texts import names
from harness.cli.rows import QueryRows
from harness.cli.text_table import MAX_ROWS
from harness.cli.writers import write_rows
from harness.metadata.model.times import parse_moment


@options.grouped
def metadata(
    location: options.Location,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Iceberg: snapshots, history, refs, manifests, files, data_files, delete_files, entries, partitions. "
            "Delta: versions, history, files, partitions.",
        ),
    ],
    columns: options.Columns = None,
    at: options.At = None,
    format_: writers.Format = None,
    output: formats.Output = None,
    max_rows: writers.MaxRows = str(MAX_ROWS),
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show a metadata table, such as snapshots or files.

    Examples:
        harness metadata warehouse/orders snapshots
        harness metadata warehouse/orders files --columns file_path,record_count --format csv

    In SQL a metadata table is called TABLE.NAME.
    """
    form = writers.row_form(format_, output)
    moment = parse_moment(at)
    shown = writers.number_of_rows(max_rows)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    with terminal.progress("reading metadata"):
        snapshot = opening.open(location).snapshot(**moment)
        found = QueryRows.of(snapshot.metadata(name, names(columns, "--columns")))
    with results.destination(output) as stream:
        write_rows(found, form, stream, max_rows=shown)
