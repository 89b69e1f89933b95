"""The request of `harness diff`: one value, made from the command line and checked before anything is read."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import click

from harness.cli import options
from harness.cli.parameters import Argument, Option
from harness.diff.sources import RowSource, default_engines
from harness.diff.tolerances import Tolerance
from harness.errors import RequestError
from harness.metadata.model.times import parse_moment


class QueryDialect(enum.Enum):
    """Dialects of SQL in files."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """The sides of a comparison, and how their rows are compared.

    locations: of one table that is read twice, or of two tables, files, databases, or namespaces; empty if queries of
    files are compared. moments: of both sides, or None for the newest. queries: of both sides; None: all rows are
    compared. files: files and patterns of queries. tables: `--table`. engines: None: the usual ones. The other fields
    are arguments of `harness.compare`.
    """

    locations: tuple[str, ...]
    moments: tuple[str | None, str | None]
    queries: tuple[str, str] | None
    files: tuple[str, ...]
    tables: tuple[str, ...]
    dialect: QueryDialect
    engines: tuple[str, str] | None
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
        """The names of the left and of the right side's engine."""
        return self.engines or default_engines(is_one_table=self.is_one_table)

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments of `harness.compare` that do not depend on the sides."""
        names = ("keys", "columns", "where", "max_rows", "tolerance", "exclude", "schema_only")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True, kw_only=True)
class DiffOptions:
    """The arguments and options of `harness diff` for what is compared."""

    location: Annotated[
        str | None,
        Argument(
            metavar="TABLE",
            help="Directory, metadata file or name in a catalog; file (csv, json, parquet, arrow); duckdb:FILE#TABLE, "
            "sqlite:FILE#TABLE, postgres:DSN#TABLE, or a query after #; a namespace or warehouse: all of its tables.",
        ),
    ] = None
    other: Annotated[
        str | None, Argument(metavar="OTHER", help="The right side; else the same table is read twice.")
    ] = None
    more: Annotated[list[str] | None, Argument(metavar="FILES", help="Further files after --sql-file.")] = None
    keys: Annotated[
        str | None, Option("--keys", metavar="A,B", help="Pair rows by these columns, else count them.")
    ] = None
    at: Annotated[
        list[str] | None,
        Option(
            "--at",
            metavar="WHEN",
            help="Read this snapshot: id, version, time, branch or tag. Twice: the left and the right side's.",
        ),
    ] = None
    columns: options.ColumnsOption = None
    where: options.Where = None
    exclude: Annotated[
        str | None,
        Option("--exclude", metavar="A,B", help="Leave out these columns or fields of structs (s.x)."),
    ] = None
    sql: Annotated[
        list[str] | None,
        Option(
            "--sql", metavar="SQL", help="Compare the rows of this query, in which the table is t. Twice: left, right."
        ),
    ] = None
    sql_file: Annotated[
        list[str] | None,
        Option(
            "--sql-file",
            metavar="FILE",
            help="Compare the rows of the queries in files, in one report; further files and patterns may follow.",
        ),
    ] = None
    table: Annotated[
        list[str] | None,
        Option(
            "--table",
            metavar="[NAME=]TABLE",
            help="The table of a name in the queries of --sql-file; twice, on the left and on the right. Repeatable.",
        ),
    ] = None
    dialect: Annotated[
        QueryDialect,
        Option(
            "--dialect",
            help="The SQL of --sql-file. Spark's runs on DuckDB only if its meaning there is certain.",
        ),
    ] = QueryDialect.DUCKDB
    engines: Annotated[
        str | None,
        Option(
            "--engines",
            metavar="A,B",
            help="The readers of left and right: duckdb, spark, polars, NAME=exec:COMMAND … "
            "[default: duckdb, and duckdb,spark for one table alone]",
        ),
    ] = None
    tolerance: Annotated[
        list[str] | None,
        Option(
            "--tolerance",
            metavar="COLUMN=AMOUNT",
            help="Let values differ by so much: 0.01, 0.1%, 4 ulps, 500 ms; all floats: floats=1e-9; parts: s.x, "
            "l.element, m.value.",
        ),
    ] = None
    schema_only: Annotated[bool, Option("--schema-only", help="Compare names and types of columns alone.")] = False
    max_rows: Annotated[
        int, Option("-n", "--max-rows", metavar="N", min=0, help="Show so many differing rows; all are counted.")
    ] = 100

    def request(self) -> DiffRequest:
        """Return the request that the options make.

        Raises:
            click.BadParameter: an option is wrong, or excludes another option.
        """
        self._check()
        places = [place for place in (self.location, self.other, *(self.more or ())) if place is not None]
        moments = _pair(self.at, "--at") or (None, None)
        for moment in moments:
            parse_moment(moment)  # an error in it comes before a table is opened
        return DiffRequest(
            locations=() if self.sql_file else tuple(places),
            moments=moments,
            queries=_pair(self.sql, "--sql"),
            files=(*self.sql_file, *places) if self.sql_file else (),
            tables=tuple(self.table or ()),
            dialect=self.dialect,
            engines=_engines(self.engines),
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
        if self.sql_file:
            excluded = (self.sql, self.columns, self.where, self.at, self.schema_only or None)
            if any(each is not None for each in excluded):
                raise click.BadParameter("--sql-file excludes --sql, --columns, --where, --at and --schema-only")
        elif self.location is None:
            raise click.BadParameter("Missing argument 'TABLE'.")
        elif self.more or self.table or self.dialect is not QueryDialect.DUCKDB:
            raise click.BadParameter("--table, --dialect and more than two arguments are for --sql-file")
        elif self.other is None and RowSource.parse(self.location) is not None:
            raise click.BadParameter(
                f"{self.location!r} is compared with nothing: name a table, file or database to its right"
            )
        if self.sql and not (self.columns is None and self.where is None):
            raise click.BadParameter("--sql excludes --columns and --where: say it in the query")


def parsed_names(text: str | None, option: str) -> tuple[str, ...]:
    """Return the names in the text of an option; none if it is not given. Raises as `options.names`."""
    return tuple(options.names(text, option) or ())


def parsed_tolerances(texts: Iterable[str]) -> dict[str, Tolerance]:
    """Return the tolerances of texts of the form COLUMN=AMOUNT. Raises click.BadParameter: a text is wrong."""
    tolerances: dict[str, Tolerance] = {}
    for text in texts:
        column, separator, amount = text.partition("=")
        if not (separator and column and amount):
            raise click.BadParameter(f"--tolerance {text!r}: expected two parts with = between them")
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
            raise click.BadParameter(f"--engines {text!r}: expected one name, or two with a comma between them")


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
                f"{option} is given {len(others)} times: once holds for both sides, twice for one each"
            )
