"""`harness demo`: makes tables with deletes, plans them, queries them and checks the rows."""

from __future__ import annotations

import re
import shlex
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import harness
from harness.cli import results, terminal
from harness.cli.looking import explained
from harness.cli.query import run
from harness.cli.writers import text_lines
from harness.errors import RequestError

if TYPE_CHECKING:
    from harness.testing.demo import DemoTable


_WIDTH = 80
_SUMMARY = ("files", "rows", "deletes")
"""Lines of a plan, without those of each file."""
_EXAMPLES = {
    "orders": ("region = 'eu'", "SELECT region, count(*) AS orders, sum(total) AS total"),
    "events": ("id >= 1500", "SELECT kind, count(*) AS events, avg(value) AS value"),
    "clicks": ("market = 'de'", "SELECT market, count(*) AS clicks"),
}
"""The filter of the plan and the head of the query, by table."""


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
    are_right = [_show(each) for each in (tables.orders, tables.events, tables.clicks)]
    return all(are_right)


def _show(demo_table: DemoTable) -> bool:
    name, location = demo_table.name, str(demo_table.location)
    where, selected = _EXAMPLES[name]
    grouped = f"FROM {name} GROUP BY ALL ORDER BY ALL"
    table = harness.open_table(location)
    summary, _, rest = explained(table.snapshot().plan(where=where)).partition("read:\n")
    texts = [
        *(f"# {line}\n" for line in textwrap.wrap(f"{name}: {demo_table.shows}", _WIDTH - 2)),
        f"\n$ harness plan {_quoted(location)} --where {_quoted(where)}\n",
        *(line for line in summary.splitlines(keepends=True) if line.startswith(_SUMMARY)),
        f"… and {rest.count(chr(10)):,} lines about each file\n\n",
        f"$ harness sql {_quoted(f'{selected}{chr(10)}    {grouped}')} --table {name}={_quoted(location)}\n",
        *text_lines(run(f"{selected} {grouped}", {name: table})),
    ]
    with results.result_stream() as stream:
        results.write_texts(texts, stream)  # unfolded, so that the commands can be copied
    got, expected = table.snapshot().to_arrow().to_pylist(), list(demo_table.expected)
    is_right = sorted(got, key=_id) == sorted(expected, key=_id)
    verdict = "exactly those" if is_right else f"but not the {len(expected)}"
    results.print_result(f"{name}: {len(got)} rows, {verdict} that it must hold\n\n")
    return is_right


def _quoted(word: str) -> str:
    """A word for a shell, in double quotes where those do."""
    return f'"{word}"' if re.fullmatch(r'[^"$`\\!]*[\s\'][^"$`\\!]*', word) else shlex.quote(word)


def _id(row: dict[str, object]) -> int:
    return int(str(row["id"]))
