"""`harness head`, `count`, `schema` and `history`: first looks at a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from harness.cli import formats, options, results, terminal, untrusted, writers
from harness.cli.document import aligned, plain, print_document
from harness.cli.option_texts import names
from harness.cli.rows import QueryRows
from harness.cli.writers import write_rows
from harness.engines.registry import duckdb_engine
from harness.metadata.model.schema import described
from harness.metadata.model.times import parse_moment


@options.grouped
def head(
    location: options.Location,
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="The number of rows.")] = 10,
    columns: options.Columns = None,
    where: options.Where = None,
    at: options.At = None,
    format_: writers.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the first rows of a table. No more files are opened than these need; which rows are the first is open.

    Examples:
        harness head warehouse/orders
        harness head warehouse/orders 100 --columns id,total --where "total > 99" --output first.csv
    """
    form = writers.row_form(format_, output)
    moment = parse_moment(at)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    from harness.engines.duckdb.instance import cursor

    with terminal.progress("planning"):
        engine = duckdb_engine()
        plan = replace(
            opening.open(location).snapshot(**moment).plan(names(columns, "--columns"), where), enough=number
        )
        rows = QueryRows(engine.relation(plan, cursor()).limit(number), lambda error: engine.engine_error(error, plan))
    with results.destination(output) as destination, terminal.progress_until_written("reading", destination) as stream:
        write_rows(rows, form, stream, max_rows=None)


@options.grouped
def count(
    location: options.Location,
    where: options.Where = None,
    at: options.At = None,
    format_: options.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Count the rows of a table, deletes applied.

    Examples:
        harness count warehouse/orders
        harness count warehouse/orders --where "region = 'eu'" --at 2024-06-01
    """
    form = formats.form(format_, output, options.Document)
    moment = parse_moment(at)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    with terminal.progress("counting"):
        rows = opening.open(location).snapshot(**moment).count(where=where)
    print_document("count", {"rows": rows}, form, output, text=lambda: [f"{rows}\n"])


@options.grouped
def schema(
    location: options.Location,
    at: options.At = None,
    format_: options.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the columns of a table, a field a line.

    Examples:
        harness schema warehouse/orders
        harness schema warehouse/orders --at 2024-06-01 --format json
    """
    form = formats.form(format_, output, options.Document)
    moment = parse_moment(at)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    with terminal.progress("reading metadata"):
        found = opening.open(location).snapshot(**moment).schema
    content = {"fields": [described(field) for field in found.fields]}
    print_document("schema", content, form, output, text=lambda: [f"{found}\n"] if found.fields else [])


@options.grouped
def history(
    location: options.Location,
    format_: options.Format = None,
    output: formats.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show snapshots or versions, the newest first.

    Examples:
        harness history warehouse/orders
        harness history prod.sales.orders --output history.json
    """
    form = formats.form(format_, output, options.Document)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    from harness.metadata.tables.history import history as history_of

    with terminal.progress("reading metadata"):
        table = opening.open(location)
        found = history_of(table.source)
    known = [{key: "unknown" if value is None else value for key, value in plain(entry).items()} for entry in found]
    lines = [line.rstrip() + "\n" for line in aligned(known)] if known else []
    print_document("history", {"format": table.format, "history": found}, form, output, text=lambda: lines)
