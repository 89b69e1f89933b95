"""Commands that inspect a table: `info`, `head`, `count`, `schema`, `history`, `plan`, and `metadata`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import click

from harness.cli import results, terminal, untrusted
from harness.cli.document import DocumentOutput, PictureFormat, PictureOutput, plain, text_document
from harness.cli.formats import MAX_ROWS, MaxRows, RowFormat, RowsOutput, number_of_rows
from harness.cli.options import AtOption, ColumnsOption, Location, OpeningOptions, Where, names
from harness.cli.parameters import Argument, Option
from harness.errors import HarnessError, counted, html_text, size_text, visible_lines
from harness.metadata.model.drawing import BarKind, Drawing, as_html, bar_text, legend_text, text_section
from harness.metadata.model.text_tables import record_lines
from harness.metadata.model.times import show_ms
from harness.storage.paths import redact

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.metadata.plan.scan_plan import ScanPlan
    from harness.table import Table


def info(
    location: Location,
    full: Annotated[bool, Option("--full", help="Print everything in the metadata, as with --format json.")] = False,
    *,
    out: PictureOutput,
    opening: OpeningOptions,
) -> None:
    """Show a table's format, rows, files, deletes, and last commit.

    Examples:
        harness info warehouse/orders
        harness info prod.sales.orders --full
    """
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    with terminal.progress("reading metadata"):
        table = opening.open(location)
        is_whole = full or out.form is PictureFormat.JSON
        content, plan = (table.describe(), None) if is_whole else _brief(table)
    from harness.metadata.plan.layout import layout

    picture, width = None if plan is None else layout(plan), results.width_for(out.output)
    if out.form is PictureFormat.HTML:
        _write_page(out, "info", location, picture, text_document(content))
    else:
        below = [] if picture is None else text_section(picture, width, in_ascii=results.is_ascii(out.output))
        out.show("info", content, lambda: [*text_document(content, width), *(f"{line}\n" for line in below)])
    terminal.finished("read the metadata")


def _write_page(out: PictureOutput, kind: str, location: str, picture: Drawing | None, text: Iterable[str]) -> None:
    """Write an HTML page with a drawing above the text."""
    from harness.diff.reports.html import asset, document
    from harness.metadata.model.frames import html_preformatted

    draw_history = "" if picture is None else as_html(picture)
    body_text = f'<div class="scroll">{html_preformatted("".join(text))}</div>'
    title = f"harness {kind} {redact(location)}"
    body = ["<main>", f"<h1>{html_text(title)}</h1>", draw_history, body_text, "</main>"]
    with results.destination(out.output) as stream:
        results.write_texts([document(title, body, style=asset("harness.diff.reports", "report.css"))], stream)


def _brief(table: Table) -> tuple[dict[str, object], ScanPlan | None]:
    """Return the most important facts about a table in printing order, and the plan that they are taken from."""
    from harness.metadata.tables.history import newest

    last = newest(table._source)
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
        "location": redact(table.location),
        **({"planning": table.planning} if table.planning == "server" else {}),
        kind: "none" if last is None else last["id"],
        **counted,
        "columns": len(table.schema.fields),
        "partitioning": ", ".join(table._source.partitioning()) or "none",
        "last commit": "none" if last is None else f"{time}, {last['operation'] or 'unknown operation'}{writer}",
        **({"branches and tags": list(table.refs())} if table.refs() else {}),
        **({"warnings": list(table.warnings)} if table.warnings else {}),
    }
    return content, plan


def _counted(plan: ScanPlan) -> dict[str, str]:
    """Return the numbers of rows, files, bytes, and deletes that the metadata records."""
    from harness.metadata.plan.explain import totals

    numbers = totals(plan)
    positional = [delete for delete, _ in plan.position_hits()]
    vector_counts = (d.record_count for d in positional if d.kind == "deletion vector")
    vectors = [count for count in vector_counts if count is not None]
    rows, size, is_exact = numbers["records_before_deletes"], numbers["bytes"], len(vectors) == len(positional)
    deletes = [
        f"{numbers[name]:,} by {kind} on {counted(numbers[files], 'data file')}"
        for name, kind, files in (
            ("position_deletes", "position", "files_with_deleted_positions"),
            ("equality_deletes", "key", "files_with_equality_deletes"),
        )
        if numbers[name]
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


def head(
    location: Location,
    columns: ColumnsOption = None,
    where: Where = None,
    at: AtOption = None,
    *,
    out: RowsOutput,
    max_rows: Annotated[str, Option("-n", "--max-rows", metavar="N", help="Read at most N rows, or all.")] = "10",
    opening: OpeningOptions,
) -> None:
    """Show the first rows of a table.

    Examples:
        harness head warehouse/orders
        harness head warehouse/orders -n 100 --columns id,total --where "total > 99" -o first.csv

    A table has no order: these are the first rows that the read produces. No more files are opened than needed. For an
    order, use ORDER BY in harness sql.
    """
    most = number_of_rows(max_rows)
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    from harness.cli.writers import QueryRows, write_rows
    from harness.engines.duckdb.failures import engine_error
    from harness.engines.duckdb.instance import cursor
    from harness.engines.duckdb.relations import relation

    with terminal.progress("planning"):
        plan = replace(opening.snapshot(location, at)._planned(names(columns, "--columns"), where), enough=most)
        relation_ = relation(plan, cursor())
        rows = QueryRows(relation_ if most is None else relation_.limit(most), lambda error: engine_error(error, plan))
    with results.destination(out.output) as stream, terminal.progress_until_written("reading", stream):
        write_rows(rows, out.form, stream, max_rows=None)
    terminal.finished("read the rows")


def count(
    location: Location, where: Where = None, at: AtOption = None, *, out: DocumentOutput, opening: OpeningOptions
) -> None:
    """Count the rows of a table after deletes.

    Examples:
        harness count warehouse/orders
        harness count warehouse/orders --where "region = 'eu'" --at 2024-06-01
    """
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    with terminal.progress("counting"):
        rows = opening.snapshot(location, at).count(where=where)
    out.show("count", {"rows": rows}, lambda: [f"{rows}\n"])
    terminal.finished(f"counted {rows:,} rows")


def schema(location: Location, at: AtOption = None, *, out: DocumentOutput, opening: OpeningOptions) -> None:
    """Show the columns of a table, one per line.

    Examples:
        harness schema warehouse/orders
        harness schema warehouse/orders --at 2024-06-01 --format json
    """
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    with terminal.progress("reading metadata"):
        table_schema = opening.snapshot(location, at).schema
    from harness.metadata.model.schema import describe_field

    content = {"fields": [describe_field(field) for field in table_schema.fields]}
    out.show("schema", content, lambda: [f"{table_schema}\n"] if table_schema.fields else [])


_BAR = 8
"""The width of a bar in a history. With its number, it fits into 80 columns."""


def history(location: Location, *, out: PictureOutput, opening: OpeningOptions) -> None:
    """Show a table's snapshots or versions, newest first.

    Examples:
        harness history warehouse/orders
        harness history prod.sales.orders -o history.json
    """
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    from harness.metadata.tables.history import MOST_BARS, draw_history
    from harness.metadata.tables.history import history as history_of

    with terminal.progress("reading metadata"):
        table = opening.open(location)
        entries = history_of(table._source)
    records = [{key: "unknown" if value is None else value for key, value in plain(entry).items()} for entry in entries]
    if out.form is PictureFormat.TEXT:
        picture, in_ascii = draw_history(entries, len(entries)), results.is_ascii(out.output)
        heading = legend_text((BarKind.ADDED, BarKind.REMOVED), in_ascii=in_ascii)
        drawings = (bar_text(bar, picture.scale, _BAR, in_ascii=in_ascii).ljust(_BAR) for bar in picture.bars)
        bars = [f"{drawing} {bar.value}" for drawing, bar in zip(drawings, picture.bars, strict=True)]
        first = ("id", "timestamp_ms", "operation")
        records = [
            {**{name: entry[name] for name in first}, heading: bar, **entry}
            for entry, bar in zip(records, bars, strict=True)
        ]
    width = results.width_for(out.output) if out.form is PictureFormat.TEXT else None
    lines = (f"{line}\n" for line in record_lines(records, width=width)) if records else ()
    if out.form is PictureFormat.HTML:
        _write_page(out, "history", location, draw_history(entries, MOST_BARS), lines)
    else:
        out.show("history", {"format": table.format, "history": entries}, lambda: lines)


def plan(
    location: Location,
    where: Where = None,
    columns: ColumnsOption = None,
    at: AtOption = None,
    *,
    out: PictureOutput,
    opening: OpeningOptions,
) -> None:
    """Show which files and deletes a read uses, without reading rows.

    Examples:
        harness plan warehouse/orders --where "day = DATE '2024-01-31'"
        harness plan warehouse/orders --columns id,total
    """
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    with terminal.progress("planning"):
        scan = opening.snapshot(location, at).plan(columns=names(columns, "--columns"), where=where)
        content = scan.to_dict() if out.form is PictureFormat.JSON else {}
    if out.form is PictureFormat.HTML:
        from harness.metadata.plan.explain import as_text
        from harness.metadata.plan.layout import layout

        _write_page(out, "plan", location, layout(scan), [as_text(scan)])
    else:
        out.show("plan", content, lambda: [explained(scan, out.output)])
    terminal.finished("planned the read")


def explained(plan: ScanPlan, output: Path | None = None) -> str:
    """Format a plan for the width of the terminal, with control characters in the table's texts escaped."""
    text = plan.explain(width=results.width_for(output), in_ascii=results.is_ascii(output))
    return visible_lines(text.rstrip("\n")) + "\n"


def metadata(
    location: Location,
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="Iceberg: snapshots, refs, manifests, files, data_files, delete_files, entries, partitions … Delta: "
            "versions, files, partitions.",
        ),
    ],
    columns: ColumnsOption = None,
    at: AtOption = None,
    *,
    out: RowsOutput,
    max_rows: MaxRows = str(MAX_ROWS),
    opening: OpeningOptions,
) -> None:
    """Show a metadata table, for example snapshots or files.

    Examples:
        harness metadata warehouse/orders snapshots
        harness metadata warehouse/orders files --columns file_path,record_count --format csv

    In SQL, the name of a metadata table is TABLE.NAME.
    """
    if name.casefold() == "history":
        raise click.BadParameter(
            "there is no metadata table history: use harness history TABLE; in SQL, "
            "TABLE.history is Iceberg's own table of that name"
        )
    most = number_of_rows(max_rows)
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    from harness.cli.writers import QueryRows, write_rows
    from harness.metadata.tables.reading import with_readable_units

    with terminal.progress("reading metadata"):
        table = opening.snapshot(location, at).metadata(name).to_arrow(names(columns, "--columns"))
        rows = QueryRows.from_arrow(with_readable_units(table) if out.form is RowFormat.TEXT else table)
    with results.destination(out.output) as stream:
        write_rows(rows, out.form, stream, max_rows=most)
