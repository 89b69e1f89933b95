"""`harness sql`: runs a query on tables, on DuckDB or Spark."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import click

from harness.cli import formats, options, results, terminal, untrusted
from harness.cli.formats import MAX_ROWS
from harness.cli.parameters import Argument, Option
from harness.errors import HarnessError, RequestError, TableNotFoundError
from harness.metadata.model.times import parse_moment

if TYPE_CHECKING:
    from harness.cli.writers import QueryRows
    from harness.queries.parameters import Params


def sql(
    query: Annotated[str, Argument(metavar="SQL", help="The query, or - to read it from standard input.")],
    table: options.NamedTables = None,
    param: Annotated[
        list[str] | None,
        Option(
            metavar="[NAME=]VALUE",
            help="A value for ?, $1, or $NAME in the query. Repeatable. Numbers, true, false, and null keep "
            "their type; other values are text. Double quotes force text.",
        ),
    ] = None,
    at: options.AtOption = None,
    *,
    out: formats.RowsOutput,
    max_rows: formats.MaxRows = str(MAX_ROWS),
    dialect: Annotated[str, Option(metavar="NAME", help="The SQL dialect of the query.")] = "duckdb",
    engine: Annotated[str, Option(metavar="NAME", help="The engine that runs the query: duckdb, spark, …")] = "duckdb",
    opening: options.OpeningOptions,
) -> None:
    """Run a query on tables.

    Examples:
        harness sql "SELECT count(*) FROM 'warehouse/orders'"
        harness sql "SELECT region, sum(total) FROM orders GROUP BY ALL" --table warehouse/orders --at 2024-01-31
        harness sql --catalog prod "FROM sales.orders LIMIT 10"
        harness sql "FROM changes('warehouse/orders', 3, 5) ORDER BY id"

    --at applies to every table.
    """
    from harness.cli.writers import write_rows
    from harness.engines.registry import find_engine
    from harness.queries.inputs import locations

    most = formats.number_of_rows(max_rows)
    parse_moment(at)  # report a malformed time before a table is opened
    named_tables = options.named_tables(table)
    text = sys.stdin.read() if query == "-" else query
    params = _params(param, text)
    locations_ = [place for place in locations(text, dialect) if place not in named_tables]
    if engine != "duckdb" and opening.catalog is not None:
        raise click.BadParameter("--catalog requires --engine duckdb: use --table NAME=TABLE for each table")
    if opening.untrusted:
        untrusted.refuse_engines([engine], "--engine", ("duckdb",))
    untrusted.run_in_worker_if_untrusted([*named_tables.values(), *locations_], opening, out, query=text)
    with terminal.progress("reading metadata"):
        unnamed = [] if opening.catalog is not None else locations_
        opened = {place: opening.open(place) for place in (*named_tables.values(), *unnamed)}
        selected = {place: table if at is None else table.snapshot(at) for place, table in opened.items()}
        tables = {name: selected[place] for name, place in named_tables.items()}
        tables_by_location = {place: selected[place] for place in unnamed}
    with terminal.progress("planning"):
        by_names = opening.catalog is not None
        if not (by_names or tables) and (engine, dialect) == ("duckdb", "duckdb"):
            from harness.queries.changes import table_names
            from harness.queries.rewrite import parse_statement  # plain queries do not need sqlglot

            by_names = any(name[0] not in tables_by_location for name in table_names(parse_statement(text)))
        if find_engine(engine).name == "spark":
            rows = _run_on_spark(text, tables | tables_by_location, dialect, params)
        elif by_names:
            rows = _run_by_names(text, opening, tables, at, dialect, params)
        else:
            rows = run(text, tables | tables_by_location, dialect, engine, params)
    with results.destination(out.output) as stream, terminal.progress_until_written("running the query", stream):
        write_rows(rows, out.form, stream, max_rows=most)
    terminal.finished("ran the query")


def run(
    query: str, tables: Mapping[str, Any], dialect: str = "duckdb", engine: str = "duckdb", params: Params = None
) -> QueryRows:
    """Plan a query and return its rows. On DuckDB, it runs when rows are read.

    Raises the same errors as `harness.sql`.
    """
    import pyarrow as pa

    import harness.queries.sql
    from harness.cli.writers import QueryRows, engine_error
    from harness.engines.duckdb.instance import cursor

    def failure(error: Exception) -> HarnessError:
        missing = harness.queries.sql.missing_file(error, tables) if str(error).startswith("IO Error") else None
        return missing or engine_error(error)

    if engine != "duckdb":
        result = harness.queries.sql.sql(query, tables, params=params, engine=engine, dialect=dialect)
        return QueryRows.from_arrow(pa.table(result))
    result = harness.queries.sql.sql(query, tables, params=params, dialect=dialect, connection=cursor())
    return QueryRows(result, failure)


def _params(values: list[str] | None, query: str) -> Params:
    """Return the values of --param, by name if the query contains the name. Raise click.BadParameter for a mixture."""
    by_name, by_position = {}, []
    for text in values or ():
        name, separator, value = text.partition("=")
        if separator and re.search(rf"\${re.escape(name)}\b", query):
            by_name[name] = options.parse_value(value, f"--param {name}")
        else:
            by_position.append(options.parse_value(text, "--param"))
    if by_name and by_position:
        raise click.BadParameter(f"--param {by_position[0]}: use NAME=VALUE for every value or for none")
    return by_name or by_position or None


def _run_on_spark(query: str, tables: Mapping[str, object], dialect: str, params: Params) -> QueryRows:
    """Run a query on Spark and return its rows, which Spark's driver returns all at once."""
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    import harness.queries.sql
    from harness.cli.writers import QueryRows
    from harness.diff.spark_side import arrow_column
    from harness.engines.spark.engine import conform
    from harness.engines.spark.executor_python import engine_error as spark_error

    frame = harness.queries.sql.sql(query, tables, params=params, engine="spark", dialect=dialect)
    schema = pa.schema([arrow_column(column) for column in frame.schema.fields])
    try:
        rows = frame.toArrow()
    except (PySparkException, Py4JError) as error:
        raise spark_error(error) from error
    return QueryRows.from_arrow(conform(rows, schema))


def _run_by_names(
    query: str,
    opening: options.OpeningOptions,
    explicit_tables: Mapping[str, object],
    at: str | None,
    dialect: str,
    params: Params,
) -> QueryRows:
    """Return the rows of a query whose tables are found in a catalog, except for explicitly given tables."""
    if dialect != "duckdb":
        raise RequestError(
            f"Cannot find tables of a query in dialect {dialect} by name: use --table NAME=TABLE for each",
            options=("dialect",),
        )

    from harness.cli.writers import QueryRows
    from harness.connections.connection import Connection
    from harness.connections.tables import NamedTables, TableSource
    from harness.engines.duckdb.instance import cursor
    from harness.metadata.catalogs.catalog import name_text
    from harness.queries.changes import table_names
    from harness.queries.rewrite import parse_statement, refuse_writes
    from harness.table import Table

    statement = parse_statement(query)
    refuse_writes(statement)
    # A worker cannot see the user's catalogs.
    source: TableSource = {} if opening.catalog is None and opening.untrusted else opening.catalog
    connection = Connection(NamedTables.from_source(source, opening.arguments()), cursor())
    for name, table in explicit_tables.items():
        connection.register(name, table)
    names = set(map(name_text, table_names(statement))) - explicit_tables.keys() if at is not None else ()
    for name in names:
        with contextlib.suppress(TableNotFoundError):  # DuckDB reports names that are not tables
            table_ = connection.table(name)
            connection.register(name, table_.snapshot(at) if isinstance(table_, Table) else table_)
    relation = connection.sql(query, params)
    assert relation is not None, "a query has a result"
    return QueryRows(relation)
