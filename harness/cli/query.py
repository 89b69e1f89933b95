"""`harness sql`: the rows of a query on tables, run by DuckDB or Spark on the planned files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import harness.queries.sql
from harness.cli import formats, options, results, terminal, untrusted, writers
from harness.cli.rows import QueryRows, engine_error
from harness.cli.text_table import MAX_ROWS
from harness.cli.writers import write_rows
from harness.engines.registry import find_engine
from harness.errors import HarnessError
from harness.metadata.model.times import parse_moment
from harness.tools.connections.texts import locations_in

if TYPE_CHECKING:
    pass


@options.grouped
def sql(
    query: Annotated[str, typer.Argument(metavar="SQL", help="The query; - reads it from standard input.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME=TABLE", help="Name a table of the query. Repeatable.")
    ] = None,
    at: options.At = None,
    format_: writers.Format = None,
    output: formats.Output = None,
    max_rows: writers.MaxRows = str(MAX_ROWS),
    dialect: Annotated[str, typer.Option(metavar="NAME", help="The SQL dialect of the query.")] = "duckdb",
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="The engine that runs the query: duckdb, spark, …")
    ] = "duckdb",
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
) -> None:
    """Run a query on tables.

    Examples:
        harness sql "SELECT count(*) FROM 'warehouse/orders'"
        harness sql "SELECT region, sum(total) FROM o GROUP BY ALL" --table o=warehouse/orders --at 2024-01-31
        harness sql --catalog prod "FROM sales.orders LIMIT 10"

    --at holds for every table.
    """
    form = writers.row_form(format_, output)
    shown = writers.number_of_rows(max_rows)
    moment = parse_moment(at)
    locations = options.pairs(table, "--table")
    text = sys.stdin.read() if query == "-" else query
    if engine != "duckdb" and opening.catalog is not None:
        raise typer.BadParameter("--catalog is for --engine duckdb: say --table NAME=TABLE for each table")
    if opening.untrusted:
        untrusted.refuse_engines([engine], "--engine", ("duckdb",))
    if untrusted.ran(context, [*locations.values(), *locations_in(text)], opening.roots(), form, output, query=text):
        return
    with terminal.progress("reading metadata"):
        tables: dict[str, Any] = {name: opening.open(place) for name, place in locations.items()}
        if moment:
            tables = {name: each.snapshot(**moment) for name, each in tables.items()}
    with terminal.progress("planning"):
        if find_engine(engine).name == "spark":
            rows = _run_on_spark(text, tables, dialect)
        elif opening.catalog is None and (tables or engine != "duckdb" or not _names_tables(text, dialect)):
            rows = run(text, tables, dialect, engine)
        else:
            from harness.cli.catalog_query import run_by_names

            arguments = opening.arguments()
            rows = run_by_names(text, opening.catalog, tables, moment, arguments, dialect)
    with (
        results.destination(output) as destination,
        terminal.progress_until_written("running the query", destination) as stream,
    ):
        write_rows(rows, form, stream, max_rows=shown)


def run(query: str, tables: Mapping[str, Any], dialect: str = "duckdb", engine: str = "duckdb") -> QueryRows:
    """The rows of the query, which is planned now; on DuckDB it runs when rows are read.

    Raises:
        RequestError: the engine takes no such queries.
        EngineError: DuckDB refuses the query; or, once rows are asked for, fails on one.
        MissingFileError: likewise, a file went since the query was planned.
        HarnessError: see `harness.sql`.
    """
    import duckdb
    import pyarrow as pa

    from harness.engines.duckdb.instance import cursor

    def failure(error: Exception) -> HarnessError:
        gone = harness.queries.sql.missing_file(error, tables) if str(error).startswith("IO Error") else None
        return gone or engine_error(error)

    try:
        if engine != "duckdb":
            return QueryRows.of(pa.table(harness.queries.sql.run_query(query, tables, engine=engine, dialect=dialect)))
        result = harness.queries.sql.run_query(query, tables, dialect=dialect, connection=cursor())
        return QueryRows(cast("duckdb.DuckDBPyRelation", result), failure)
    except duckdb.Error as error:
        raise failure(error) from error


def _run_on_spark(query: str, tables: Mapping[str, Any], dialect: str) -> QueryRows:
    """The rows of the query, which has run: Spark's driver hands all of them over at once."""
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    from harness.differ.spark_side import logical
    from harness.engines.spark.engine import conform
    from harness.engines.spark.executor_python import engine_error as spark_error

    frame = cast(DataFrame, harness.queries.sql.run_query(query, tables, engine="spark", dialect=dialect))
    schema = pa.schema([logical(column) for column in frame.schema.fields])
    try:
        rows = frame.toArrow()
    except (PySparkException, Py4JError) as error:
        raise spark_error(error) from error
    return QueryRows.of(conform(rows, schema))


def _names_tables(text: str, dialect: str) -> bool:
    """Tells whether a query without --table names tables."""
    from harness.queries.rewrite import parse_statement, references

    return dialect == "duckdb" and bool(references(parse_statement(text)))
