"""`harness demo`: makes tables with deletes, plans them, queries them and checks the rows."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import harness
from harness.cli import results, terminal
from harness.cli.looking import explained
from harness.cli.query import run
from harness.cli.text_table import text_lines
from harness.errors import RequestError

if TYPE_CHECKING:
    from harness.table import Table
    from harness.testing.demo import DemoTable


_ORDERS_FILTER = "region = 'eu'"
_ORDERS_QUERY = "SELECT region, count(*) AS orders, sum(total) AS total FROM orders GROUP BY region ORDER BY region"
_EVENTS_FILTER = "id >= 1500"
_EVENTS_QUERY = "SELECT kind, count(*) AS events, avg(value) AS value FROM events GROUP BY kind ORDER BY kind"
_CLICKS_FILTER = "market = 'de'"
_CLICKS_QUERY = "SELECT market, count(*) AS clicks FROM clicks GROUP BY market ORDER BY market"


def demo(
    directory: Annotated[
        Path | None, typer.Option("--directory", metavar="DIR", help="Keep the tables here; it must not exist yet.")
    ] = None,
) -> None:
    """Make tables with deletes, plan and query them.

    Examples:
        harness demo
        harness demo --directory demo-tables

    DuckDB reads them; no Java and no network is needed. Exits with 1 if the rows are not those that were written.
    """
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="harness-demo-") as scratch:
            right = show(Path(scratch))
        terminal.message("The tables are gone again; keep them with: harness demo --directory demo-tables")
    elif directory.exists():
        raise RequestError("Cannot make the demo tables: the directory exists; name a new one", file=str(directory))
    else:
        right = show(directory)
        terminal.message(f"The tables are in {directory}")
    if not right:
        raise typer.Exit(1)


def show(directory: Path) -> bool:
    """Makes the tables, prints plans and rows under the commands that give them, and tells whether all is right."""
    from harness.testing.demo import build_demo_tables

    with results.made_in(directory), terminal.progress("making tables"):
        tables = build_demo_tables(directory)
    return all(
        [
            _show(tables.orders, _ORDERS_FILTER, _ORDERS_QUERY),
            _show(tables.events, _EVENTS_FILTER, _EVENTS_QUERY),
            _show(tables.clicks, _CLICKS_FILTER, _CLICKS_QUERY),
        ]
    )


def _show(demo_table: DemoTable, where: str, query: str) -> bool:
    location = str(demo_table.location)
    results.print_result(f"# {demo_table.name}: {demo_table.shows}\n\n")
    table = harness.open_table(location)
    results.print_result(
        f"$ harness plan {shlex.quote(location)} --where {shlex.quote(where)}\n",
        explained(table.snapshot().plan(where=where).explain()),
        "\n",
    )
    rows = run(query, {demo_table.name: table})
    results.print_result(
        f"$ harness sql {shlex.quote(query)} --table {demo_table.name}={shlex.quote(location)}\n",
        *text_lines(rows),
        "\n",
    )
    return _check(demo_table, table)


def _check(demo_table: DemoTable, table: Table) -> bool:
    got = table.snapshot().to_arrow().to_pylist()
    expected = list(demo_table.expected)
    if sorted(got, key=_id) == sorted(expected, key=_id):
        results.print_result(f"{demo_table.name}: {len(got)} rows, exactly those that it must hold\n\n")
        return True
    results.print_result(f"{demo_table.name}: {len(got)} rows, but not the {len(expected)} that it must hold\n\n")
    return False


def _id(row: dict[str, object]) -> int:
    return int(str(row["id"]))
