"""`harness diff`: one table on two engines, or two tables, and where their rows differ."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, assert_never

import typer

import harness
from harness.cli import DIFFERENT, FAILED, options, results, terminal, untrusted
from harness.cli.name_lists import names
from harness.cli.relaxing import Relaxing
from harness.differ.relaxations import Relaxations
from harness.differ.result import ComparisonResult, SideInfo
from harness.differ.sources import Source
from harness.engines.registry import find_engine
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError

if TYPE_CHECKING:
    from harness.snapshot import Snapshot
    from harness.table import Table

_ENGINES = "duckdb,spark"
_Side: TypeAlias = "Snapshot | Source"


class Report(enum.Enum):
    """How a comparison is written."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


@options.grouped
def diff(
    location: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Table directory, metadata file, or name in a catalog; or a file (csv, tsv, json, parquet, arrow), or "
            "duckdb:FILE#TABLE, sqlite:FILE#TABLE, postgres:DSN#TABLE, where a query may stand for the table.",
        ),
    ],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="A table for the right side; else the same table.")
    ] = None,
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
    format_: Annotated[Report, typer.Option("--format", help="How the report is written.")] = Report.TEXT,
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
    opening: options.Opening,
    reading: options.Reading,
    trust: options.Trust,
) -> None:
    """Compare the rows of a table on two engines, or of two tables or snapshots.

    Exits with 0 if there is no difference, with 1 if there is one, with 2 if both sides failed or nothing could be run.
    """
    if sql is not None and not (columns is None and where is None):
        raise typer.BadParameter("--sql excludes --columns and --where: say it in the query")
    sources = [None if text is None else Source.parse(text) for text in (location, other)]
    is_foreign = any(source is not None for source in sources)
    if sources[0] is not None and other is None:
        raise typer.BadParameter(f"{location!r} is compared with nothing: name a table, file or database to its right")
    request = Request(
        engines=pair_of_engines(engines if engines is not None else "duckdb" if is_foreign else _ENGINES),
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
    if untrusted.is_for_worker(trust):
        if is_foreign:
            raise typer.BadParameter("--untrusted is for tables of both formats: no side may be a file or database")
        untrusted.refuse_engines(request.engines, "--engines")
        locations = [location] if other is None else [location, other]
        untrusted.run(context, trust, locations, opening.roots(), output=output, instead={"output": None})
        return
    with terminal.progress("reading metadata"):
        left: Table | Source = sources[0] or opening.open(location, trust, reading)
        right = left if other is None else sources[1] or opening.open(other, trust, reading)
        sides = (_at(left, moments[0]), _at(right, moments[1]))
    with terminal.progress("comparing"):
        start(tuple(engine for engine, source in zip(request.engines, sources, strict=True) if source is None))
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


def _at(side: Table | Source, moment: options.Selector) -> _Side:
    """The side at a moment.

    Raises:
        typer.BadParameter: it is no table, and so has no moments.
    """
    if not isinstance(side, Source):
        return moment.select(side)
    if moment != options.Selector():
        raise typer.BadParameter(f"--at is for tables: {side.name} has no snapshots")
    return side


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is compared, and how, but for the sides.

    engines: of the left and of the right side. keys, columns, group_by: None: not given.
    """

    engines: tuple[str, str]
    keys: list[str] | None
    columns: list[str] | None
    where: str | None
    max_rows: int
    relaxations: Relaxations
    group_by: list[str] | None
    sample_keys: int | None

    def compare(self, left: _Side, right: _Side) -> ComparisonResult:
        """The rows of two snapshots."""
        return harness.compare(
            left,
            right,
            engines=self.engines,
            columns=self.columns,
            where=self.where,
            **self._how(),
        )

    def _how(self) -> dict[str, Any]:
        return {
            "keys": self.keys or (),
            "max_rows": self.max_rows,
            "relaxations": self.relaxations,
            "group_by": self.group_by or (),
            "sample_keys": self.sample_keys,
        }

    def compare_queries(self, queries: tuple[str, str], left: _Side, right: _Side) -> ComparisonResult:
        """What queries give on the left and on the right side.

        Raises:
            RequestError: the query cannot be parsed, or writes.
            UnsupportedError: it has no meaning on Spark that is certain to be the same; that is no difference.
        """
        names = tuple(f"query on {_name(side)}" for side in (left, right))
        asked = zip(queries, self.engines, (left, right), strict=True)
        results = [_result(query, engine, side) for query, engine, side in asked]
        if not any(isinstance(result, HarnessError) for result in results):
            return harness.compare(*results, names=names, **self._how())
        infos = [_outcome(*side) for side in zip(results, self.engines, names, strict=True)]
        return ComparisonResult(left=infos[0], right=infos[1], keys=tuple(self.keys or ()))


def _name(side: _Side) -> str:
    return side.name if isinstance(side, Source) else side.source.location.rstrip("/").rpartition("/")[2]


def _result(query: str, engine: str, table: _Side) -> object:
    """The result, not yet read; or why the engine refuses the query, which is that side's outcome."""
    import duckdb

    if isinstance(table, Source):
        return table.asking(query)

    try:
        return harness.sql(query, engine=engine, t=table)
    except (RequestError, UnsupportedError):
        raise
    except HarnessError as error:
        return error
    except duckdb.Error as error:
        return EngineError(f"DuckDB cannot run the query: {error}")


def _outcome(result: object, engine: str, name: str) -> SideInfo:
    """A side of which the other one failed; it is read to its end, to say whether it fails as well."""
    if isinstance(result, HarnessError):
        return SideInfo(name=name, engine=f"{engine} {find_engine(engine).version()}", error=result)
    return harness.compare(result, result, names=(name, name)).left


def pair_of_engines(text: str) -> tuple[str, str]:
    """Names of the left and the right side's engine.

    Raises:
        typer.BadParameter: neither one name nor two. Whether there is such an engine is said by `find_engine`.
    """
    match [name.strip() for name in text.split(",")]:
        case [both] if both:
            return both, both
        case [left, right] if left and right:
            return left, right
        case _:
            raise typer.BadParameter(f"--engines {text!r}: expected one name, or two with a comma between them")


def pair_of_moments(values: list[str] | None) -> tuple[options.Selector, options.Selector]:
    """What is read of the left and of the right table.

    Raises:
        typer.BadParameter: more than two values, or one that is not understood.
    """
    both = pair(values, "--at")
    if both is None:
        return options.Selector(), options.Selector()
    return options.moment(both[0]), options.moment(both[1])


def pair(values: list[str] | None, option: str) -> tuple[str, str] | None:
    """What is said of the left and of the right side; None: nothing.

    Raises:
        typer.BadParameter: more than two values.
    """
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


def start(engines: tuple[str, ...]) -> None:
    """Make sure that the engines are there, because one that is missing says nothing about the table.

    Raises:
        RequestError: there is no such engine, or it, or Java, is not installed.
        EngineError: Spark does not start.
    """
    for name in dict.fromkeys(engines):
        find_engine(name)
    if "spark" in engines:
        harness.spark_session()


def written(comparison: ComparisonResult, report: Report) -> str:
    """The comparison as a report."""
    from harness.differ import reports

    match report:
        case Report.TEXT:
            return reports.to_text(comparison)
        case Report.JSON:
            return reports.to_json(comparison)
        case Report.JUNIT:
            return reports.to_junit(comparison)
        case Report.HTML:
            return reports.to_html(comparison)
        case _:
            assert_never(report)
