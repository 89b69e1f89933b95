"""The request of `harness diff`: one value, made from the command line and checked before anything is read."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from harness.cli import options
from harness.cli.options import names
from harness.diff.sources import RowSource, usual_engines
from harness.diff.tolerances import Tolerance
from harness.errors import RequestError
from harness.metadata.model.times import parse_moment

_T = TypeVar("_T")


class QueryDialect(enum.Enum):
    """Dialects of SQL in files."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """The sides of a comparison, and how their rows are compared. Typer fills the fields; the methods parse them.

    Raises:
        typer.BadParameter: an option is wrong, or excludes another option.
    """

    location: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            show_default=False,
            help="Directory, metadata file or name in a catalog; file (csv, json, parquet, arrow); duckdb:FILE#TABLE, "
            "sqlite:FILE#TABLE, postgres:DSN#TABLE, or a query after #; a namespace or warehouse: all of its tables.",
        ),
    ] = None
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="The right side; else the same table is read twice.")
    ] = None
    more: Annotated[list[str] | None, typer.Argument(metavar="FILES", help="Further files after --sql-file.")] = None
    keys: Annotated[
        str | None, typer.Option("--keys", metavar="A,B", help="Pair rows by these columns, else count them.")
    ] = None
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="WHEN",
            help="Read this snapshot: id, version, time, branch or tag. Twice: the left and the right side's.",
        ),
    ] = None
    columns: options.ColumnsOption = None
    where: options.Where = None
    exclude: Annotated[
        str | None,
        typer.Option("--exclude", metavar="A,B", help="Leave out these columns or fields of structs (s.x)."),
    ] = None
    sql: Annotated[
        list[str] | None,
        typer.Option(
            "--sql", metavar="SQL", help="Compare the rows of this query, in which the table is t. Twice: left, right."
        ),
    ] = None
    sql_file: Annotated[
        list[str] | None,
        typer.Option(
            "--sql-file",
            metavar="FILE",
            help="Compare the rows of the queries in files, in one report; further files and patterns may follow.",
        ),
    ] = None
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="[NAME=]TABLE",
            help="The table of a name in the queries of --sql-file; twice, on the left and on the right. Repeatable.",
        ),
    ] = None
    dialect: Annotated[
        QueryDialect,
        typer.Option(
            "--dialect",
            help="The SQL of --sql-file. Spark's runs on DuckDB only if its meaning there is certain.",
        ),
    ] = QueryDialect.DUCKDB
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines",
            metavar="A,B",
            help="The readers of left and right: duckdb, spark, polars, NAME=exec:COMMAND … "
            "[default: duckdb, and duckdb,spark for one table alone]",
        ),
    ] = None
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            metavar="COLUMN=AMOUNT",
            help="Let values differ by so much: 0.01, 0.1%, 4 ulps, 500 ms; all floats: floats=1e-9; parts: s.x, "
            "l.element, m.value. Needs --keys.",
        ),
    ] = None
    schema_only: Annotated[bool, typer.Option("--schema-only", help="Compare names and types of columns alone.")] = (
        False
    )
    max_rows: Annotated[
        int, typer.Option("--max-rows", metavar="N", min=0, help="Show so many differing rows; all are counted.")
    ] = 100

    def __post_init__(self) -> None:
        if self.sql_file:
            given = (self.sql, self.columns, self.where, self.at, self.schema_only or None)
            if any(each is not None for each in given):
                raise typer.BadParameter("--sql-file excludes --sql, --columns, --where, --at and --schema-only")
        elif self.location is None:
            raise typer.BadParameter("Missing argument 'TABLE'.")
        elif self.more or self.table or self.dialect is not QueryDialect.DUCKDB:
            raise typer.BadParameter("--table, --dialect and more than two arguments are for --sql-file")
        elif self.other is None and RowSource.parse(self.location) is not None:
            raise typer.BadParameter(
                f"{self.location!r} is compared with nothing: name a table, file or database to its right"
            )
        if self.sql and not (self.columns is None and self.where is None):
            raise typer.BadParameter("--sql excludes --columns and --where: say it in the query")
        _ = self.queries, self.moments, self.readers(), self.rules()

    @property
    def files(self) -> list[str]:
        """The files and patterns of queries; empty: tables are compared."""
        rest = (self.location, self.other, *(self.more or ()))
        return [*self.sql_file, *(each for each in rest if each is not None)] if self.sql_file else []

    @property
    def locations(self) -> list[str]:
        """The places of the tables or sources to compare: one that is read twice, or two."""
        return [] if self.files else [each for each in (self.location, self.other) if each is not None]

    @property
    def queries(self) -> tuple[str, str] | None:
        """The queries of the left and of the right side; None: all rows are compared."""
        return _pair(self.sql, "--sql")

    @property
    def moments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of `Table.snapshot` of the left and of the right side."""
        left, right = _pair(self.at, "--at") or (None, None)
        return parse_moment(left), parse_moment(right)

    def readers(self, *, is_one_table: bool | None = None) -> tuple[str, str]:
        """The names of the left and of the right side's engine.

        Args:
            is_one_table: one table in one state is read twice, by two engines unless some are given. None: as the
                arguments say.
        """
        if self.engines is None:
            if is_one_table is None:
                is_one_table = self.other is None and len(self.at or ()) < 2 and len(self.sql or ()) < 2
            return usual_engines(is_one_table=is_one_table)
        match [name.strip() for name in self.engines.split(",")]:
            case [both] if both:
                return both, both
            case [left, right] if left and right:
                return left, right
            case _:
                raise typer.BadParameter(
                    f"--engines {self.engines!r}: expected one name, or two with a comma between them"
                )

    def rules(self) -> dict[str, Any]:
        """Return the arguments of `harness.compare` that do not depend on the sides."""
        return {
            "keys": names(self.keys, "--keys") or (),
            "columns": names(self.columns, "--columns"),
            "where": self.where,
            "max_rows": self.max_rows,
            "tolerance": _once(map(_tolerance, self.tolerance or ())),
            "exclude": names(self.exclude, "--exclude") or (),
            "schema_only": self.schema_only,
        }


def _pair(values: list[str] | None, option: str) -> tuple[str, str] | None:
    match values or []:
        case []:
            return None
        case [both]:
            return both, both
        case [left, right]:
            return left, right
        case more:
            raise typer.BadParameter(
                f"{option} is given {len(more)} times: once holds for both sides, twice for one each"
            )


def _once(given: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    found: dict[str, _T] = {}
    for column, value in given:
        if column in found:
            raise typer.BadParameter(f"--tolerance is given twice for {column!r}")
        found[column] = value
    return found


def _tolerance(text: str) -> tuple[str, Tolerance]:
    column, separator, amount = text.partition("=")
    if not (separator and column and amount):
        raise typer.BadParameter(f"--tolerance {text!r}: expected two parts with = between them")
    try:
        return column, Tolerance.parse(amount)
    except RequestError as error:
        raise typer.BadParameter(f"--tolerance {text!r}: {error.message}") from None
