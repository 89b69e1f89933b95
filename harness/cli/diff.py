"""`harness diff`: one table on two engines, or two tables, and where their rows differ."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

import harness
from harness.cli import DIFFERENT, FAILED, options, results, terminal, untrusted
from harness.cli.name_lists import names
from harness.cli.relaxing import Relaxing
from harness.differ.relaxations import Relaxations
from harness.differ.result import ComparisonResult, SideInfo
from harness.engines.registry import find_engine
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError

if TYPE_CHECKING:
    from harness.snapshot import Snapshot

_ENGINES = "duckdb,spark"


class Report(enum.Enum):
    """How a comparison is written."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


@options.grouped
def diff(
    location: options.Location,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="A table for the right side; else the same table.")
    ] = None,
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B", help="Engine of the left and of the right side; one is for both.")
    ] = _ENGINES,
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
    request = Request(
        engines=pair_of_engines(engines),
        keys=names(keys, "--keys"),
        columns=names(columns, "--columns"),
        where=where,
        max_rows=max_rows,
        relaxations=relaxing.relaxations(),
        group_by=names(relaxing.group_by, "--group-by"),
        sample_keys=relaxing.sample_keys,
    )
    queries = pair(sql, "--sql")
    moments = pair_of_moments(at)
    if untrusted.is_for_worker(trust):
        untrusted.refuse_engines(request.engines, "--engines")
        locations = [location] if other is None else [location, other]
        untrusted.run(context, trust, locations, opening.roots(), output=output, instead={"output": None})
        return
    with terminal.progress("reading metadata"):
        left = opening.open(location, trust, reading)
        right = left if other is None else opening.open(other, trust, reading)
        sides = (moments[0].select(left), moments[1].select(right))
    with terminal.progress("comparing"):
        start(request.engines)
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

    def compare(self, left: Snapshot, right: Snapshot) -> ComparisonResult:
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

    def compare_queries(self, queries: tuple[str, str], left: Snapshot, right: Snapshot) -> ComparisonResult:
        """What queries give on the left and on the right side.

        Raises:
            RequestError: the query cannot be parsed, or writes.
            UnsupportedError: it has no meaning on Spark that is certain to be the same; that is no difference.
        """
        names = tuple(f"query on {side.source.location.rstrip('/').rpartition('/')[2]}" for side in (left, right))
        asked = zip(queries, self.engines, (left, right), strict=True)
        results = [_result(query, engine, side) for query, engine, side in asked]
        if not any(isinstance(result, HarnessError) for result in results):
            return harness.compare(*results, names=names, **self._how())
        infos = [_outcome(*side) for side in zip(results, self.engines, names, strict=True)]
        return ComparisonResult(left=infos[0], right=infos[1], keys=tuple(self.keys or ()))


def _result(query: str, engine: str, table: Snapshot) -> object:
    """The result, not yet read; or why the engine refuses the query, which is that side's outcome."""
    import duckdb

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


def start(engines: tuple[str, str]) -> None:
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
