"""Options for a catalog's answer about a table that it manages, given by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from harness.plan.catalog_answer import Ratified

MaxVersion: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-version",
        metavar="N",
        help="The latest version of a Delta table, as the catalog says that manages it.",
    ),
]
RatifiedCommits: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--ratified",
        metavar="NAME",
        help="With --max-version, a staged commit that the catalog ratified, by the name of its file, or VERSION=FILE "
        "for one that only the catalog holds, copied to a file. Repeatable.",
    ),
]
PublishedOnly: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--published-only",
        help="Read a Delta table that a catalog manages as far as it is published, which may be older.",
    ),
]


def ratified_commit(text: str) -> Ratified:
    """A commit that a catalog ratified, as `--ratified` names it: by its file, or as VERSION=FILE with its content.

    Raises:
        typer.BadParameter: that file cannot be read.
    """
    version, separator, path = text.partition("=")
    if not separator or not version.isdecimal():
        return text
    try:
        return int(version), Path(path).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"--ratified {text!r}: {error.strerror}") from error
