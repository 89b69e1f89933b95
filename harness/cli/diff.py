"""`harness diff`: compares one table on two engines, or two tables."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from harness.cli import DIFFERENT, FAILED, options, results, terminal, untrusted
from harness.cli.diff_many import Many, QueryDialect, compare_files, compare_namespaces, finish, namespace
from harness.cli.diff_request import ENGINES, DiffRequest, Relaxing, Side, pair, pair_of_engines, pair_of_moments
from harness.cli.option_texts import names
from harness.differ.result import ComparisonResult
from harness.differ.sources import RowSource
from harness.engines.registry import start_engines

if TYPE_CHECKING:
    from harness.table import Table


class _Report(enum.Enum):
    """Forms of a written comparison."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


@options.grouped
def diff(
    location: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            show_default=False,
            help="Table directory, metadata file, or name in a catalog; or a file (csv, tsv, json, parquet, arrow), or "
            "duckdb:FILE#TABLE, sqlite:FILE#TABLE, postgres:DSN#TABLE, where a query may stand for the table; or, with "
            "OTHER, a namespace or a warehouse directory: all of its tables.",
        ),
    ] = None,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="A table for the right side; else the same table.")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="FILES", help="Further files after --sql-file.")] = None,
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines",
            metavar="A,B",
            help="Engine of the left and of the right side; one is for both. [default: duckdb,spark; duckdb beside a "
            "file or database]",
        ),
    ] = None,
    sql: Annotated[
        list[str] | None,
        typer.Option(
            "--sql",
            metavar="SQL",
            help="Compare what this query gives; the table is t in it. Twice: the left and the right side's.",
        ),
    ] = None,
    keys: Annotated[
        str | None, typer.Option("--keys", metavar="A,B", help="Pair rows by these columns; else rows are counted.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="WHEN",
            help="Compare this snapshot: an id or version, a time in ISO 8601, a branch or a tag; or, written out, "
            "snapshot=ID, timestamp=TIME, ref=NAME. Twice: the left and the right side's.",
        ),
    ] = None,
    columns: options.Columns = None,
    where: options.Where = None,
    format_: Annotated[_Report, typer.Option("--format", help="How the report is written.")] = _Report.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the report here instead of standard output.")
    ] = None,
    max_rows: Annotated[
        int,
        typer.Option("--max-rows", metavar="N", min=0, help="Show at most so many differing rows; all are counted."),
    ] = 100,
    *,
    context: typer.Context,
    relaxing: Relaxing,
    many: Many,
    opening: options.OpeningOptions,
) -> None:
    """Compare the rows of a table on two engines, of two tables or snapshots, of many queries, or of two namespaces.

    Examples:
        harness diff warehouse/orders
        harness diff warehouse/orders orders.parquet --keys id
        harness diff warehouse/orders --at 1 --at 2 --keys id --engines duckdb

    Exits with 0 if there is no difference, with 1 if there is one, with 2 if both sides failed or nothing could be run.
    Of many, 1 if one is different, else 2 if one was refused or failed.
    """
    if many.sql_file:
        files = [*many.sql_file, *(each for each in (location, other, *(more or ())) if each is not None)]
        if any(each is not None for each in (sql, columns, where, at)) or opening.untrusted:
            raise typer.BadParameter("--sql-file excludes --sql, --columns, --where, --at and --untrusted")
        batch = compare_files(files, many, relaxing, engines, keys, max_rows, opening.open)
        finish(batch, format_.value, output)
        return
    if location is None:
        raise typer.BadParameter("Missing argument 'TABLE'.")
    if more or many.table or many.dialect is not QueryDialect.DUCKDB:
        raise typer.BadParameter("--table, --dialect and more than two arguments are for --sql-file")
    if sql is not None and not (columns is None and where is None):
        raise typer.BadParameter("--sql excludes --columns and --where: say it in the query")
    sources = [None if text is None else RowSource.parse(text) for text in (location, other)]
    is_foreign = any(source is not None for source in sources)
    if sources[0] is not None and other is None:
        raise typer.BadParameter(f"{location!r} is compared with nothing: name a table, file or database to its right")
    request = DiffRequest(
        engines=pair_of_engines(engines if engines is not None else "duckdb" if is_foreign else ENGINES),
        keys=names(keys, "--keys"),
        columns=names(columns, "--columns"),
        where=where,
        max_rows=max_rows,
        relaxations=relaxing.relaxations(is_foreign=is_foreign),
        group_by=names(relaxing.group_by, "--group-by"),
        sample_keys=relaxing.sample_keys,
    )
    queries = pair(sql, "--sql")
    moments = pair_of_moments(at)
    if untrusted.is_for_worker(context):
        if is_foreign:
            raise typer.BadParameter("--untrusted is for tables of both formats: no side may be a file or database")
        untrusted.refuse_engines(request.engines, "--engines")
        locations = [location] if other is None else [location, other]
        untrusted.run(context, locations, opening.roots(), output=output, instead={"output": None})
        return
    if other is not None and not is_foreign and queries is None:
        namespaces = (namespace(location), namespace(other))
        if namespaces[0] is not None and namespaces[1] is not None:
            batch = compare_namespaces((namespaces[0], namespaces[1]), request, many.resume, opening.arguments())
            finish(batch, format_.value, output)
            return
    if many.resume is not None:
        raise typer.BadParameter("--resume is for two namespaces or warehouse directories")
    with terminal.progress("reading metadata"):
        left: Table | RowSource = sources[0] or opening.open(location)
        right = left if other is None else sources[1] or opening.open(other)
        sides = (_at(left, moments[0]), _at(right, moments[1]))
    with terminal.progress("comparing"):
        start_engines(engine for engine, source in zip(request.engines, sources, strict=True) if source is None)
        found = request.compare(*sides) if queries is None else request.compare_queries(queries, *sides)
    for side in (found.left, found.right):
        if side.error is not None:
            side.error.respelled(options.spelled)
    with results.destination(output) as stream:
        results.write_texts([written(found, format_)], stream)
    if found.failed:
        terminal.error(f"both sides failed: {found.left.error}")
        raise typer.Exit(FAILED)
    if not found.equal:
        raise typer.Exit(DIFFERENT)


def _at(side: Table | RowSource, moment: dict[str, Any]) -> Side:
    """The side at a moment."""
    if not isinstance(side, RowSource):
        return side.snapshot(**moment)
    if moment:
        raise typer.BadParameter(f"--at is for tables: {side.name} has no snapshots")
    return side


def written(comparison: ComparisonResult, report: _Report) -> str:
    """The comparison as a report."""
    from harness.differ.reports import documents, html, text

    match report:
        case _Report.TEXT:
            return text.to_text(comparison)
        case _Report.JSON:
            return documents.to_json(comparison)
        case _Report.JUNIT:
            return documents.to_junit(comparison)
        case _Report.HTML:
            return html.to_html(comparison)
        case _:
            assert_never(report)
