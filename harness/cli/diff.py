"""`harness diff`: compares one table on two engines, or two tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from harness.cli import DIFFERENT, FAILED, formats, options, terminal, untrusted
from harness.cli.diff_many import Many, QueryDialect, compare_files, compare_namespaces, finish, namespace
from harness.cli.diff_request import (
    DiffRequest,
    DiffSide,
    RareOption,
    Relaxing,
    Report,
    pair,
    pair_of_engines,
    write_reports,
)
from harness.cli.options import names
from harness.cli.parameters import Argument, Option
from harness.diff.relaxations import Relaxations
from harness.diff.sources import RowSource
from harness.engines.registry import engine_names, start_engines
from harness.metadata.model.times import parse_moment

if TYPE_CHECKING:
    from harness.table import Table


def diff(
    location: Annotated[
        str | None,
        Argument(
            metavar="TABLE",
            help="Directory, metadata file or name in a catalog; file (csv, json, parquet, arrow); duckdb:FILE#TABLE, "
            "sqlite:FILE#TABLE, postgres:DSN#TABLE, or a query after #; a namespace or warehouse: all of its tables.",
        ),
    ] = None,
    other: Annotated[
        str | None, Argument(metavar="OTHER", help="The right side; else the same table is read twice.")
    ] = None,
    more: Annotated[list[str] | None, Argument(metavar="FILES", help="Further files after --sql-file.")] = None,
    keys: Annotated[
        str | None, Option("--keys", metavar="A,B", help="Pair rows by these columns, else count them.")
    ] = None,
    at: Annotated[
        list[str] | None,
        Option(
            "--at",
            metavar="WHEN",
            help="Read this snapshot: id, version, time, branch or tag. Twice: the left and the right side's.",
        ),
    ] = None,
    columns: options.ColumnsOption = None,
    where: options.Where = None,
    sql: Annotated[
        list[str] | None,
        Option(
            "--sql", metavar="SQL", help="Compare what this query gives; the table is t in it. Twice: left and right."
        ),
    ] = None,
    engines: Annotated[
        str | None,
        Option(
            "--engines",
            metavar="A,B",
            help="Who reads left and right: duckdb, spark, polars, NAME=exec:COMMAND … "
            "[default: duckdb, and duckdb,spark for one table alone]",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        Option("--output", metavar="FILE", help="Write a report here: .txt, .json, .xml (JUnit) or .html. Repeatable."),
    ] = None,
    format_: Annotated[
        list[Report] | None,
        Option("--format", metavar="FORMAT", help="text, json, junit or html. Repeatable."),
    ] = None,
    against_itself: Annotated[
        bool,
        Option(
            "--against-itself",
            help="Read one table by one engine in many ways that must agree: filters, counts, copies …",
        ),
    ] = False,
    shapes: Annotated[
        str | None,
        RareOption(
            "--shapes", metavar="A,B", help="With --against-itself, read in these ways alone. [default: all of them]"
        ),
    ] = None,
    max_rows: Annotated[
        int, Option("--max-rows", metavar="N", min=0, help="Show so many differing rows; all are counted.")
    ] = 100,
    *,
    relaxing: Relaxing,
    many: Many,
    opening: options.OpeningOptions,
) -> None:
    """Compare the rows of two tables, files, snapshots or engines.

    Examples:
        harness diff warehouse/orders staging/orders --keys id
        harness diff warehouse/orders --at 4 --at 5 --output report.html
        harness diff export.csv warehouse/orders --keys id --tolerance floats=1e-9
        harness diff warehouse staging --output junit.xml
        harness diff --sql-file *.sql --table orders=warehouse/orders

    Exits with 0 (no difference), 1 (a difference) or 2 (nothing compared).
    """
    context, reports = opening.context, formats.placed(format_, output, Report)
    if many.sql_file:
        files = [*many.sql_file, *(each for each in (location, other, *(more or ())) if each is not None)]
        if any(each is not None for each in (sql, columns, where, at)) or opening.untrusted:
            raise click.BadParameter("--sql-file excludes --sql, --columns, --where, --at and --untrusted")
        batch = compare_files(files, many, relaxing, engines, keys, max_rows, opening.open)
        finish(batch, reports, context)
        return
    if location is None:
        raise click.BadParameter("Missing argument 'TABLE'.")
    if more or many.table or many.dialect is not QueryDialect.DUCKDB:
        raise click.BadParameter("--table, --dialect and more than two arguments are for --sql-file")
    if sql is not None and not (columns is None and where is None):
        raise click.BadParameter("--sql excludes --columns and --where: say it in the query")
    sources = [None if text is None else RowSource.parse(text) for text in (location, other)]
    is_foreign = any(source is not None for source in sources)
    queries = pair(sql, "--sql")
    moments = pair(at, "--at") or (None, None)
    for each in moments:
        parse_moment(each)  # an error in it comes before a table is opened
    is_one = other is None and len(at or ()) < 2 and len(sql or ()) < 2
    if sources[0] is not None and other is None:
        raise click.BadParameter(f"{location!r} is compared with nothing: name a table, file or database to its right")
    read_by = pair_of_engines(engines, is_one_table=is_one and not against_itself)
    if untrusted.is_for_worker(context):
        if is_foreign:
            raise click.BadParameter("--untrusted is for tables of both formats: no side may be a file or database")
        untrusted.refuse_engines(read_by, "--engines")
        if len(reports) > 1:
            raise click.BadParameter("--untrusted takes one report: give one --output")
        ((report, path),) = reports
        instead = {"output": None, "format_": [report]}
        locations = [location] if other is None else [location, other]
        untrusted.run(context, locations, opening.roots(), output=path, instead=instead)
        return
    if against_itself:
        from harness.suite.rereads.shapes import reread

        rest = (relaxing.group_by, relaxing.sample_keys, relaxing.schema_only, relaxing.strict, many.resume)
        others = (other, sources[0], queries, keys, columns, where, *rest)
        is_relaxed = relaxing.relaxations(is_foreign=False) != Relaxations()
        if read_by[0] != read_by[1] or any(others) or is_relaxed:
            raise click.BadParameter(
                "--against-itself takes one table and one engine: --engines polars; --at, --max-rows and --shapes go "
                "with it"
            )
        with terminal.progress("comparing"):
            snapshot = opening.open(location).snapshot(moments[0])
            start_engines(read_by[:1])
            batch = reread(snapshot, read_by[0], max_rows=max_rows, shapes=names(shapes, "--shapes"))
        finish(batch, reports, context)
        return
    if shapes is not None:
        raise click.BadParameter("--shapes goes with --against-itself alone")
    request = DiffRequest(
        engines=read_by,
        keys=names(keys, "--keys"),
        columns=names(columns, "--columns"),
        where=where,
        max_rows=max_rows,
        relaxations=relaxing.relaxations(is_foreign=is_foreign or not {*read_by} <= {*engine_names()}),
        group_by=names(relaxing.group_by, "--group-by"),
        sample_keys=relaxing.sample_keys,
        schema_only=relaxing.schema_only,
    )
    if other is not None and not is_foreign and queries is None:
        namespaces = (namespace(location), namespace(other))
        if namespaces[0] is not None and namespaces[1] is not None:
            batch = compare_namespaces((namespaces[0], namespaces[1]), request, many.resume, opening.arguments())
            finish(batch, reports, context)
            return
    if many.resume is not None:
        raise click.BadParameter("--resume is for two namespaces or warehouse directories")
    with terminal.progress("reading metadata"):
        left: Table | RowSource = sources[0] or opening.open(location)
        right = left if other is None else sources[1] or opening.open(other)
        sides = (_at(left, moments[0]), _at(right, moments[1]))
    with terminal.progress("starting engines"):
        start_engines(engine for engine, source in zip(request.engines, sources, strict=True) if source is None)
    with terminal.progress("comparing"):
        found = request.compare(*sides) if queries is None else request.compare_queries(queries, *sides)
    for side in (found.left, found.right):
        if side.error is not None:
            side.error.respelled(options.spelled)
    write_reports(found, reports, context)
    rows = [f"{side.rows:,}" for side in (found.left, found.right) if side.rows is not None]
    terminal.finished(f"compared {' with '.join(dict.fromkeys(rows))} rows" if rows else "compared")
    if found.failed:
        terminal.error(f"{found.sentence}: {found.left.error or found.right.error}")
        raise click.exceptions.Exit(FAILED)
    if not found.equal:
        raise click.exceptions.Exit(DIFFERENT)


def _at(side: Table | RowSource, moment: str | None) -> DiffSide:
    """The side at a moment."""
    if not isinstance(side, RowSource):
        return side.snapshot(moment)
    if moment is not None:
        raise click.BadParameter(f"--at is for tables: {side.name} has no snapshots")
    return side
