"""Column names on the command line: separated by commas, in quotes where they hold one."""

from __future__ import annotations

import typer


def names(text: str | None, option: str) -> list[str] | None:
    """Column names separated by commas, None if the option was not given.

    A name in double quotes may hold commas, and `""` for a double quote.

    Raises:
        typer.BadParameter: an empty name, or a quote that is not closed.
    """
    if text is None:
        return None
    found: list[str] = []
    rest = text
    while True:
        name, rest, more = _quoted(rest.lstrip(), option) if rest.lstrip().startswith('"') else _bare(rest)
        if not name:
            raise typer.BadParameter(f"{option} {text!r} holds an empty name")
        found.append(name)
        if not more:
            return found


def _bare(text: str) -> tuple[str, str, bool]:
    name, separator, rest = text.partition(",")
    return name.strip(), rest, separator == ","


def _quoted(text: str, option: str) -> tuple[str, str, bool]:
    name, position = "", 1
    while (end := text.find('"', position)) >= 0:
        name += text[position:end]
        if text[end + 1 : end + 2] != '"':
            junk, separator, rest = text[end + 1 :].partition(",")
            if junk.strip():
                raise typer.BadParameter(f"{option}: {junk.strip()!r} follows a quoted name")
            return name, rest, separator == ","
        name, position = name + '"', end + 2
    raise typer.BadParameter(f"{option}: the quote in {text!r} is not closed")
