"""`harness head`, `count`, `schema` and `history`: first looks at a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from harness.cli import options, results, terminal, untrusted, writers
from harness.cli.document import aligned, json_document, plain
from harness.cli.option_texts import names
from harness.cli.rows import QueryRows
from harness.cli.writers import RowFormat, write_rows
from harness.engines.registry import duckdb_engine
from harness.metadata.model.schema import described


@options.grouped
def head(
    location: options.Location,
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="How many rows.")] = 10,
    columns: options.Columns = None,
    where: options.Where = None,
    at: options.At = None,
    format_: writers.Format = RowFormat.TEXT,
    output_file: writers.OutputFile = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the first rows of a table. No more files are opened than these need; which rows are the first is open.

    Examples:
        harness head warehouse/orders
        harness head warehouse/orders 100 --columns id,total --where "total > 99" --format csv
    """
    writers.check_place(format_, output_file)
    moment = options.moment(at)
    if untrusted.is_for_worker(context):
        untrusted.run(
            context,
            [location],
            opening.roots(),
            output=output_file,
            binary=format_.is_binary(),
            instead={"output_file": None},
        )
        return
    from harness.engines.duckdb.instance import cursor

    with terminal.progress("planning"):
        engine = duckdb_engine()
        plan = replace(moment.select(opening.open(location)).plan(names(columns, "--columns"), where), enough=number)
        rows = QueryRows(engine.relation(plan, cursor()).limit(number), lambda error: engine.engine_error(error, plan))
    with (
        results.destination(output_file) as destination,
        terminal.progress_until_written("reading", destination) as stream,
    ):
        write_rows(rows, format_, stream, max_rows=None)


@options.grouped
def count(
    location: options.Location,
    where: options.Where = None,
    at: options.At = None,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Count the rows of a table, deletes applied.

    Examples:
        harness count warehouse/orders
        harness count warehouse/orders --where "region = 'eu'" --at 2024-06-01
    """
    moment = options.moment(at)
    if untrusted.is_for_worker(context):
        untrusted.run(context, [location], opening.roots())
        return
    with terminal.progress("counting"):
        rows = moment.select(opening.open(location)).count(where=where)
    _print("count", {"rows": rows}, f"{rows}\n", format_)


@options.grouped
def schema(
    location: options.Location,
    at: options.At = None,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the columns of a table: name, type, required or nullable, a field a line.

    Examples:
        harness schema warehouse/orders
        harness schema warehouse/orders --at 2024-06-01 --format json
    """
    moment = options.moment(at)
    if untrusted.is_for_worker(context):
        untrusted.run(context, [location], opening.roots())
        return
    with terminal.progress("reading metadata"):
        found = moment.select(opening.open(location)).schema
    _print("schema", {"fields": [described(f) for f in found.fields]}, f"{found}\n" if found.fields else "", format_)


@options.grouped
def history(
    location: options.Location,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the snapshots or versions of a table, the newest first: who added and removed how much, and when.

    Examples:
        harness history warehouse/orders
        harness history prod.sales.orders --format json
    """
    if untrusted.is_for_worker(context):
        untrusted.run(context, [location], opening.roots())
        return
    from harness.metadata.tables.history import history as history_of

    with terminal.progress("reading metadata"):
        table = opening.open(location)
        found = history_of(table.source)
    known = [{key: "unknown" if value is None else value for key, value in plain(entry).items()} for entry in found]
    lines = aligned(known) if known else ()
    text = "".join(line.rstrip() + "\n" for line in lines)
    _print("history", {"format": table.format, "history": found}, text, format_)


def _print(kind: str, content: dict[str, Any], text: str, format_: options.Document) -> None:
    match format_:
        case options.Document.TEXT:
            results.print_result(text)
        case options.Document.JSON:
            results.print_result(json_document(kind, content))
