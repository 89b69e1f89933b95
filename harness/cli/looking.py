"""Looks at a table: `harness info`, `head`, `count`, `schema`, `history`, `plan` and `metadata`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options, results, terminal, untrusted, writers
from harness.cli.document import plain, print_document, text_document
from harness.cli.options import names
from harness.cli.rows import QueryRows
from harness.cli.writers import MAX_ROWS, write_rows
from harness.errors import HarnessError, html_text, size_text, visible_lines
from harness.metadata.model.drawing import Drawing, Kind, as_html, legend_text, section, strip
from harness.metadata.model.frames import preformatted
from harness.metadata.model.schema import described
from harness.metadata.model.text_tables import record_lines
from harness.metadata.model.times import parse_moment, show_ms
from harness.metadata.plan.explain import as_text, totals
from harness.metadata.plan.layout import layout
from harness.storage.paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.metadata.plan.scan_plan import ScanPlan
    from harness.table import Table


@options.grouped
def info(
    location: options.Location,
    full: Annotated[
        bool, typer.Option("--full", help="Print all that the metadata says, as --format json does.")
    ] = False,
    format_: options.PictureFormat = None,
    output: results.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show format, rows, files, deletes and last commit.

    Examples:
        harness info warehouse/orders
        harness info prod.sales.orders --full
    """
    form = results.form(format_, output, options.Pictured)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    with terminal.progress("reading metadata"):
        table = opening.open(location)
        is_whole = full or form is options.Pictured.JSON
        content, plan = (table.describe(), None) if is_whole else _brief(table)
    picture = None if plan is None else layout(plan)
    if form is options.Pictured.HTML:
        _write_page("info", location, picture, text_document(content), output)
    else:
        width = results.width_for(output)
        below = [] if picture is None else section(picture, width, in_ascii=results.is_ascii(output))
        text = lambda: [*text_document(content, width), *(f"{line}\n" for line in below)]  # noqa: E731
        print_document("info", content, options.Document(form.value), output, text=text)
    terminal.finished("read the metadata")


def _write_page(kind: str, location: str, picture: Drawing | None, text: Iterable[str], output: Path | None) -> None:
    """Writes a page with the picture above the text."""
    from harness.differ.reports.html import asset, document

    drawn = "" if picture is None else as_html(picture)
    told = f'<div class="scroll">{preformatted("".join(text))}</div>'
    title = f"harness {kind} {shown(location)}"
    body = ["<main>", f"<h1>{html_text(title)}</h1>", drawn, told, "</main>"]
    with results.destination(output) as stream:
        results.write_texts([document(title, body, style=asset("harness.differ.reports", "report.css"))], stream)


def _brief(table: Table) -> tuple[dict[str, Any], ScanPlan | None]:
    """The facts that people ask for first, in the order in which they are printed, and the plan that some are from."""
    from harness.metadata.tables.history import newest

    last = newest(table.source)
    kind = "version" if table.format == "delta" else "snapshot"
    time = "unknown time" if last is None or last["timestamp_ms"] is None else show_ms(last["timestamp_ms"])
    writer = f" by {last['writer']}" if last is not None and last["writer"] else ""
    plan = None
    try:
        plan = table.snapshot().plan(columns=())
    except HarnessError as error:
        counted = {"rows": f"unknown: {error.message}"} | dict.fromkeys(("files", "bytes", "deletes"), "unknown")
    else:
        counted = _counted(plan)
    content = {
        "format": table.format,
        "location": shown(table.location),
        kind: "none" if last is None else last["id"],
        **counted,
        "columns": len(table.schema.fields),
        "partitioning": ", ".join(table.source.partitioning()) or "none",
        "last commit": "none" if last is None else f"{time}, {last['operation'] or 'unknown operation'}{writer}",
        **({"branches and tags": list(table.refs())} if table.refs() else {}),
        **({"warnings": list(table.warnings)} if table.warnings else {}),
    }
    return content, plan


def _counted(plan: ScanPlan) -> dict[str, str]:
    """Rows, files, bytes and deletes, as the metadata records them."""
    known = totals(plan)
    counted = (d.record_count for d in plan.position_deletes if d.kind == "deletion vector")
    vectors = [count for count in counted if count is not None]
    rows, size, is_exact = known["records_before_deletes"], known["bytes"], len(vectors) == len(plan.position_deletes)
    deletes = [
        f"{known[name]:,} of {what} in {known[files]:,} of the files"
        for name, what, files in (
            ("position_deletes", "positions", "files_with_deleted_positions"),
            ("equality_deletes", "keys", "files_with_equality_deletes"),
        )
        if known[name]
    ]
    live = (
        f"{rows or 0:,} before deletes" if plan.equality_deletes or not is_exact else f"{(rows or 0) - sum(vectors):,}"
    )
    return {
        "rows": "unknown" if rows is None else live,
        "files": f"{plan.files.num_rows:,}",
        "bytes": "unknown" if size is None else size_text(size),
        "deletes": ", ".join(deletes) or "none",
    }


@options.grouped
def head(
    location: options.Location,
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="The number of rows.")] = 10,
    columns: options.Columns = None,
    where: options.Where = None,
    at: options.At = None,
    format_: writers.Format = None,
    output: results.Output = None,
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
    from harness.engines.registry import duckdb_engine

    with terminal.progress("planning"):
        engine = duckdb_engine()
        plan = replace(
            opening.open(location).snapshot(**moment).plan(names(columns, "--columns"), where), enough=number
        )
        rows = QueryRows(engine.relation(plan, cursor()).limit(number), lambda error: engine.engine_error(error, plan))
    with results.destination(output) as stream, terminal.progress_until_written("reading", stream):
        write_rows(rows, form, stream, max_rows=None)
    terminal.finished("read the rows")


@options.grouped
def count(
    location: options.Location,
    where: options.Where = None,
    at: options.At = None,
    format_: options.Format = None,
    output: results.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Count the rows of a table, deletes applied.

    Examples:
        harness count warehouse/orders
        harness count warehouse/orders --where "region = 'eu'" --at 2024-06-01
    """
    form = results.form(format_, output, options.Document)
    moment = parse_moment(at)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    with terminal.progress("counting"):
        rows = opening.open(location).snapshot(**moment).count(where=where)
    print_document("count", {"rows": rows}, form, output, text=lambda: [f"{rows}\n"])
    terminal.finished(f"counted {rows:,} rows")


@options.grouped
def schema(
    location: options.Location,
    at: options.At = None,
    format_: options.Format = None,
    output: results.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the columns of a table, a field a line.

    Examples:
        harness schema warehouse/orders
        harness schema warehouse/orders --at 2024-06-01 --format json
    """
    form = results.form(format_, output, options.Document)
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
    format_: options.PictureFormat = None,
    output: results.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show snapshots or versions, the newest first.

    Examples:
        harness history warehouse/orders
        harness history prod.sales.orders --output history.json
    """
    form = results.form(format_, output, options.Pictured)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    from harness.metadata.tables.history import MOST_BARS, drawn
    from harness.metadata.tables.history import history as history_of

    with terminal.progress("reading metadata"):
        table = opening.open(location)
        found = history_of(table.source)
    known = [{key: "unknown" if value is None else value for key, value in plain(entry).items()} for entry in found]
    if form is options.Pictured.TEXT:
        picture, in_ascii = drawn(found, len(found)), results.is_ascii(output)
        heading = legend_text((Kind.ADDED, Kind.REMOVED), in_ascii=in_ascii)
        bars = [strip(bar, picture.scale, len(heading), in_ascii=in_ascii) for bar in picture.bars]
        first = ("id", "timestamp_ms", "operation")
        known = [
            {**{name: entry[name] for name in first}, heading: bar, **entry}
            for entry, bar in zip(known, bars, strict=True)
        ]
    width = results.width_for(output) if form is options.Pictured.TEXT else None
    lines = [f"{line}\n" for line in record_lines(known, width=width)] if known else []
    if form is options.Pictured.HTML:
        _write_page("history", location, drawn(found, MOST_BARS), lines, output)
    else:
        content = {"format": table.format, "history": found}
        print_document("history", content, options.Document(form.value), output, text=lambda: lines)


@options.grouped
def plan(
    location: options.Location,
    where: options.Where = None,
    columns: options.Columns = None,
    at: options.At = None,
    format_: options.PictureFormat = None,
    output: results.Output = None,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Show the files and deletes of a read, without its rows.

    Examples:
        harness plan warehouse/orders --where "day = DATE '2024-01-31'"
        harness plan warehouse/orders --columns id,total
    """
    form = results.form(format_, output, options.Pictured)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    moment = parse_moment(at)
    with terminal.progress("planning"):
        chosen = opening.open(location).snapshot(**moment)
        scan = chosen.plan(columns=names(columns, "--columns"), where=where)
        content = scan.to_dict() if form is options.Pictured.JSON else {}
    if form is options.Pictured.HTML:
        _write_page("plan", location, layout(scan), [as_text(scan)], output)
    else:
        print_document("plan", content, options.Document(form.value), output, text=lambda: [explained(scan, output)])
    terminal.finished("planned the read")


def explained(plan: ScanPlan, output: Path | None = None) -> str:
    """A plan for a person, as wide as the terminal, with the table's control characters escaped."""
    text = plan.explain(width=results.width_for(output), in_ascii=results.is_ascii(output))
    return visible_lines(text.rstrip("\n")) + "\n"


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
    output: results.Output = None,
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
    most = writers.number_of_rows(max_rows)
    if untrusted.ran(context, [location], opening.roots(), form, output):
        return
    from harness.metadata.tables.reading import in_words

    with terminal.progress("reading metadata"):
        snapshot = opening.open(location).snapshot(**moment)
        found = snapshot.metadata(name, names(columns, "--columns"))
        rows = QueryRows.of(in_words(found) if form is writers.RowFormat.TEXT else found)
    with results.destination(output) as stream:
        write_rows(rows, form, stream, max_rows=most)
