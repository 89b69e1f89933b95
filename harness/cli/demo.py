"""`harness demo`: creates tables with deletes, plans and queries them, and checks the rows."""

from __future__ import annotations

import re
import shlex
import tempfile
import textwrap
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

import harness
from harness.cli import results, terminal
from harness.cli.inspection import explained
from harness.cli.parameters import Argument
from harness.cli.query import run
from harness.cli.writers import text_lines
from harness.errors import RequestError
from harness.storage.outputs import write_errors

if TYPE_CHECKING:
    from harness.testing.demo import DemoTable


_WIDTH = 80
_ABOUT = """\
Three tables with deletes: for each, the files that a read opens and skips, a
query on DuckDB, and a check against the rows that the table must hold.

"""
_SUMMARY = ("files", "rows", "deletes")
"""First words of the lines of a plan that are printed. Lines about single files are left out."""
_EXAMPLES = {
    "orders": ("region = 'eu'", "SELECT region, count(*) AS orders, sum(total) AS total"),
    "events": ("id >= 1500", "SELECT kind, count(*) AS events, avg(value) AS value"),
    "clicks": ("market = 'de'", "SELECT market, count(*) AS clicks"),
}
"""The filter of the plan and the start of the query, by table."""


def demo(
    directory: Annotated[
        Path, Argument(metavar="DIR", help="Where to create the tables. Tables from an earlier run are reused.")
    ] = Path("demo-tables"),
) -> None:
    """Create example tables with deletes, then plan and query them.

    Examples:
        harness demo
        harness demo /tmp/lake

    The tables stay in ./demo-tables. DuckDB reads them; neither Java nor a network is needed. Exit code: 1 if the rows
    differ from the rows that were written.
    """
    with write_errors("the directory", directory), terminal.progress("making tables"):
        tables = _demo_tables(directory)
    results.print_result(_ABOUT)
    are_right = [_show(each) for each in tables]
    terminal.message(f"The tables are in {directory}; next: harness info {_quoted(str(directory / 'orders'))}")
    if not all(are_right):
        raise click.exceptions.Exit(1)


def _demo_tables(directory: Path) -> list[DemoTable]:
    """Return the demo tables of a directory, and create them if they do not exist.

    Raises:
        RequestError: The directory contains something else.
    """
    from harness.testing.demo import build_demo_tables

    locations = [directory / name for name in _EXAMPLES]
    if all(map(Path.is_dir, locations)):
        with tempfile.TemporaryDirectory(prefix="harness-demo-") as scratch:  # only needed for the expected rows
            built = build_demo_tables(Path(scratch))
    elif not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        built = build_demo_tables(directory)
    else:
        raise RequestError(
            "Cannot make the demo tables: the path exists and does not contain them; remove it, or choose another "
            "directory",
            file=str(directory),
        )
    tables = [getattr(built, name) for name in _EXAMPLES]
    return [replace(table, location=place) for table, place in zip(tables, locations, strict=True)]


def _show(demo_table: DemoTable) -> bool:
    name, location = demo_table.name, str(demo_table.location)
    where, selected = _EXAMPLES[name]
    grouped = f"FROM {name} GROUP BY ALL ORDER BY ALL"
    table = harness.open_table(location)
    summary, _, rest = explained(table.snapshot().plan(where=where)).partition("read:\n")
    texts = [
        *(f"# {line}\n" for line in textwrap.wrap(f"{name}, {table.format.title()}: {demo_table.shows}", _WIDTH - 2)),
        f"\n$ harness plan {_quoted(location)} --where {_quoted(where)}\n",
        *(line for line in summary.splitlines(keepends=True) if line.startswith(_SUMMARY)),
        f"… and {rest.count(chr(10)):,} lines about each file\n\n",
        f"$ harness sql {_quoted(f'{selected}{chr(10)}    {grouped}')} --table {name}={_quoted(location)}\n",
        *text_lines(run(f"{selected} {grouped}", {name: table})),
    ]
    with results.result_stream() as stream:
        results.write_texts(texts, stream)  # without line folding, so that the commands can be copied
    rows, expected = table.snapshot().to_arrow().to_pylist(), list(demo_table.expected)
    by_id = itemgetter("id")
    is_right = sorted(rows, key=by_id) == sorted(expected, key=by_id)
    verdict = "exactly those" if is_right else f"but not the {len(expected)}"
    results.print_result(f"{name}: {len(rows)} rows, {verdict} that it must hold\n\n")
    return is_right


def _quoted(word: str) -> str:
    """Quote a word for a shell, with double quotes if possible."""
    return f'"{word}"' if re.fullmatch(r'[^"$`\\!]*[\s\'][^"$`\\!]*', word) else shlex.quote(word)
