"""The request of `harness diff`, which is built from the command line and checked before anything is read."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import click

from harness.cli import options
from harness.cli.parameters import Argument, Option
from harness.diff.plan_result import CLIENT, SERVER
from harness.diff.sources import RowSource, default_engines
from harness.diff.tolerances import Tolerance
from harness.errors import RequestError
from harness.metadata.model.times import parse_moment


class QueryDialect(enum.Enum):
    """SQL dialects of query files."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """The sides of a comparison, and how their rows are compared.

    Attributes:
        locations: One table that is read twice, or two tables, files, databases, or namespaces. Empty for query files.
        moments: The snapshot of each side, or None for the newest.
        queries: The query of each side, or None to compare all rows.
        files: Query files and patterns of files.
        tables: The values of `--table`.
        dialect: The dialect of query files.
        engines: The engine of each side, or None for the default ones.
        plans: The plans of the one table to compare instead of the rows of both sides, or None.
        is_one_table: True if one table is compared with itself.
        keys: As for `harness.compare`, like the following attributes.
        columns: Columns to compare, or None for all.
        where: A filter, or None.
        max_rows: The maximum number of differing rows in the report, or of differing files if plans are compared.
        tolerance: Tolerances by column.
        exclude: Columns to leave out.
        schema_only: True to compare only schemas.
    """

    locations: tuple[str, ...]
    moments: tuple[str | None, str | None]
    queries: tuple[str, str] | None
    files: tuple[str, ...]
    tables: tuple[str, ...]
    dialect: QueryDialect
    engines: tuple[str, str] | None
    plans: tuple[str, str] | None
    is_one_table: bool
    keys: tuple[str, ...]
    columns: tuple[str, ...] | None
    where: str | None
    max_rows: int
    tolerance: Mapping[str, Tolerance]
    exclude: tuple[str, ...]
    schema_only: bool

    @property
    def readers(self) -> tuple[str, str]:
        """The names of the engines of the left and the right side."""
        return self.engines or default_engines(is_one_table=self.is_one_table)

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments of `harness.compare` that do not depend on the sides."""
        names = ("keys", "columns", "where", "max_rows", "tolerance", "exclude", "schema_only")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True, kw_only=True)
class DiffOptions:
    """Arguments and options of `harness diff` that select what is compared."""

    location: Annotated[
        str | None,
        Argument(
            metavar="TABLE",
            help="The left side: a table directory, metadata file, or name in a catalog; a csv, json, parquet,"
            " or arrow file; duckdb:FILE#TABLE, sqlite:FILE#TABLE, or postgres:DSN#TABLE, with a table or"
            " query after #; or a namespace or warehouse, for all its tables.",
        ),
    ] = None
    other: Annotated[
        str | None,
        Argument(metavar="OTHER", help="The right side. Without it, TABLE is read twice and compared with itself."),
    ] = None
    more: Annotated[list[str] | None, Argument(metavar="FILES", help="More query files for --sql-file.")] = None
    keys: Annotated[
        str | None,
        Option("--keys", metavar="A,B", help="Match rows by these columns. Without keys, equal rows are counted."),
    ] = None
    at: Annotated[
        list[str] | None,
        Option(
            "--at",
            metavar="WHEN",
            help="Read this snapshot: an id, version, time, branch, or tag. Give it twice for the left and the"
            " right side.",
        ),
    ] = None
    columns: options.ColumnsOption = None
    where: options.Where = None
    exclude: Annotated[
        str | None,
        Option("--exclude", metavar="A,B", help="Ignore these columns or struct fields (s.x)."),
    ] = None
    sql: Annotated[
        list[str] | None,
        Option(
            "--sql",
            metavar="SQL",
            help="Compare the result of this query, where t is the table. Give it twice for the left and the "
            "right side.",
        ),
    ] = None
    sql_file: Annotated[
        list[str] | None,
        Option(
            "--sql-file",
            metavar="FILE",
            help="Compare the results of the queries in these files, in one report. More files and patterns "
            "may follow.",
        ),
    ] = None
    table: Annotated[
        list[str] | None,
        Option(
            "--table",
            metavar="[NAME=]TABLE",
            help="A table for the queries of --sql-file. Give a name twice for the left and the right side. "
            "Repeatable.",
        ),
    ] = None
    dialect: Annotated[
        QueryDialect,
        Option(
            "--dialect",
            help="The SQL dialect of --sql-file. Spark SQL runs on DuckDB only if it certainly has the same meaning.",
        ),
    ] = QueryDialect.DUCKDB
    engines: Annotated[
        str | None,
        Option(
            "--engines",
            metavar="A,B",
            help="The engines for the left and the right side: duckdb, spark, polars, NAME=exec:COMMAND … "
            "[default: duckdb, or duckdb,spark if one table is compared with itself]",
        ),
    ] = None
    plans: Annotated[
        str | None,
        Option(
            "--plans",
            metavar="A,B",
            help="Compare two plans of TABLE file by file: server,client for the plan of the catalog's server and our "
            "own. Rows are read only of files that differ.",
        ),
    ] = None
    tolerance: Annotated[
        list[str] | None,
        Option(
            "--tolerance",
            metavar="COLUMN=AMOUNT",
            help="Accept differences up to this amount: 0.01, 0.1%, 4 ulps, 500 ms. floats=1e-9 applies to all"
            " floats. Nested columns: s.x, l.element, m.value.",
        ),
    ] = None
    schema_only: Annotated[bool, Option("--schema-only", help="Compare only the names and types of columns.")] = False
    max_rows: Annotated[
        int,
        Option("-n", "--max-rows", metavar="N", min=0, help="Show at most N differing rows, or files with --plans."),
    ] = 100

    def request(self) -> DiffRequest:
        """Build the request from the options.

        Raises:
            click.BadParameter: An option is wrong, or excludes another option.
        """
        self._check()
        places = [place for place in (self.location, self.other, *(self.more or ())) if place is not None]
        moments = _pair(self.at, "--at") or (None, None)
        for moment in moments:
            parse_moment(moment)  # report a malformed time before a table is opened
        return DiffRequest(
            locations=() if self.sql_file else tuple(places),
            moments=moments,
            queries=_pair(self.sql, "--sql"),
            files=(*self.sql_file, *places) if self.sql_file else (),
            tables=tuple(self.table or ()),
            dialect=self.dialect,
            engines=_engines(self.engines),
            plans=_plans(self.plans),
            is_one_table=self.other is None and len(self.at or ()) < 2 and len(self.sql or ()) < 2,
            keys=parsed_names(self.keys, "--keys"),
            columns=None if self.columns is None else parsed_names(self.columns, "--columns"),
            where=self.where,
            max_rows=self.max_rows,
            tolerance=parsed_tolerances(self.tolerance or ()),
            exclude=parsed_names(self.exclude, "--exclude"),
            schema_only=self.schema_only,
        )

    def _check(self) -> None:
        if self.plans is not None:
            self._check_plans()
        if self.sql_file:
            excluded = (self.sql, self.columns, self.where, self.at, self.schema_only or None)
            if any(each is not None for each in excluded):
                raise click.BadParameter(
                    "--sql-file cannot be combined with --sql, --columns, --where, --at, or --schema-only"
                )
        elif self.location is None:
            raise click.BadParameter("Missing argument 'TABLE'.")
        elif self.more or self.table or self.dialect is not QueryDialect.DUCKDB:
            raise click.BadParameter("--table, --dialect, and more than two arguments require --sql-file")
        elif self.other is None and RowSource.parse(self.location) is not None:
            raise click.BadParameter(
                f"{self.location!r} has no other side: add a table, file, or database to compare it with"
            )
        if self.sql and not (self.columns is None and self.where is None):
            raise click.BadParameter("--sql cannot be combined with --columns and --where: write them in the query")

    def _check_plans(self) -> None:
        excluded = {
            "OTHER": self.other,
            "--keys": self.keys,
            "--exclude": self.exclude,
            "--sql": self.sql,
            "--sql-file": self.sql_file,
            "--engines": self.engines,
            "--tolerance": self.tolerance,
            "--schema-only": self.schema_only or None,
        }
        name = next((name for name, value in excluded.items() if value is not None), None)
        if name is not None:
            raise click.BadParameter(f"--plans cannot be combined with {name}")
        if len(self.at or ()) > 1:
            raise click.BadParameter("--plans compares plans of one snapshot: give --at once")


def parsed_names(text: str | None, option: str) -> tuple[str, ...]:
    """Parse the names in an option's text, which may be None. Raises the same errors as `options.names`."""
    return tuple(options.names(text, option) or ())


def parsed_tolerances(texts: Iterable[str]) -> dict[str, Tolerance]:
    """Parse texts of the form COLUMN=AMOUNT. Raise click.BadParameter if one is malformed."""
    tolerances: dict[str, Tolerance] = {}
    for text in texts:
        column, separator, amount = text.partition("=")
        if not (separator and column and amount):
            raise click.BadParameter(f"--tolerance {text!r}: expected COLUMN=AMOUNT")
        if column in tolerances:
            raise click.BadParameter(f"--tolerance is given twice for {column!r}")
        try:
            tolerances[column] = Tolerance.parse(amount)
        except RequestError as error:
            raise click.BadParameter(f"--tolerance {text!r}: {error.message}") from None
    return tolerances


def _engines(text: str | None) -> tuple[str, str] | None:
    match [] if text is None else [name.strip() for name in text.split(",")]:
        case []:
            return None
        case [both] if both:
            return both, both
        case [left, right] if left and right:
            return left, right
        case _:
            raise click.BadParameter(f"--engines {text!r}: expected one name, or two separated by a comma")


def _plans(text: str | None) -> tuple[str, str] | None:
    match [] if text is None else [name.strip() for name in text.split(",")]:
        case []:
            return None
        case [left, right] if {left, right} <= {SERVER, CLIENT}:
            return left, right
        case _:
            raise click.BadParameter(f"--plans {text!r}: expected two of {SERVER} and {CLIENT}, separated by a comma")


def _pair(values: list[str] | None, option: str) -> tuple[str, str] | None:
    match values or []:
        case []:
            return None
        case [both]:
            return both, both
        case [left, right]:
            return left, right
        case others:
            raise click.BadParameter(
                f"{option} is given {len(others)} times; give it once for both sides, or twice for one each"
            )
