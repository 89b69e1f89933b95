"""`harness plan`: which files a read would open, which it skips and why, and the deletes."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import options, terminal
from harness.cli.document import json_document
from harness.cli.writers import visible


@options.grouped
def plan(
    location: options.Location,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Only rows for which this condition holds.")] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these columns, separated by commas.")] = None,
    format_: options.Format = options.Document.TEXT,
    *,
    selector: options.Selector,
    opening: options.Opening,
    reading: options.Reading,
) -> None:
    """Show what a read of the table would do, without reading any rows."""
    with terminal.progress("planning"):
        chosen = selector.select(opening.open(location, reading))
        scan = chosen.plan(columns=None if columns is None else split_names(columns), where=where)
        match format_:
            case options.Document.TEXT:
                text = explained(scan.explain())
            case options.Document.JSON:
                text = json_document("plan", scan.to_dict())
    terminal.print_result(text)


def explained(text: str) -> str:
    """`ScanPlan.explain()` for a terminal: paths and values of the table are shown, not obeyed."""
    return "".join(visible(line) + "\n" for line in text.rstrip("\n").split("\n"))


def split_names(text: str) -> list[str]:
    """Column names separated by commas; a name in double quotes may hold commas, and `""` for a double quote.

    Raises:
        typer.BadParameter: an empty name, or a quote that is not closed.
    """
    names: list[str] = []
    rest = text
    while True:
        name, rest, more = _quoted(rest.lstrip()) if rest.lstrip().startswith('"') else _bare(rest)
        if not name:
            raise typer.BadParameter(f"--columns {text!r} holds an empty name")
        names.append(name)
        if not more:
            return names


def _bare(text: str) -> tuple[str, str, bool]:
    name, separator, rest = text.partition(",")
    return name.strip(), rest, separator == ","


def _quoted(text: str) -> tuple[str, str, bool]:
    name, position = "", 1
    while (end := text.find('"', position)) >= 0:
        name += text[position:end]
        if text[end + 1 : end + 2] != '"':
            junk, separator, rest = text[end + 1 :].partition(",")
            if junk.strip():
                raise typer.BadParameter(f"--columns: {junk.strip()!r} follows a quoted name")
            return name, rest, separator == ","
        name, position = name + '"', end + 2
    raise typer.BadParameter(f"--columns: the quote in {text!r} is not closed")
