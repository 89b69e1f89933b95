"""`--format` and `--output`: a suffix says the format, and a format that contradicts a suffix is an error."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias, TypeVar

import click

from harness.cli import results
from harness.cli.parameters import Option

_SUFFIXES = {
    ".txt": "text",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrows",
    ".xml": "junit",
    ".sarif": "sarif",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
}
E = TypeVar("E", bound=enum.Enum)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placed:
    """Options for the format and the file of a command's only result. A class for each set of formats."""

    formats: ClassVar[type[enum.Enum]]
    format_: enum.Enum | None = None
    output: Annotated[
        Path | None,
        Option("--output", metavar="FILE", help="Write here instead of standard output; the suffix says the format."),
    ] = None

    def __post_init__(self) -> None:
        _ = self.form  # a contradiction is said before anything is read

    @property
    def form(self) -> enum.Enum:
        """The format. Raises as `placed`."""
        return placed([self.format_] if self.format_ else None, [self.output] if self.output else None, self.formats)[
            0
        ][0]


def placed(given: Sequence[E] | None, outputs: Sequence[Path] | None, kind: type[E]) -> list[tuple[E, Path | None]]:
    """Each format and its file; None: standard output.

    A suffix is the format where none is given. A file without a suffix is text.

    Raises:
        click.BadParameter: a contradiction, a format that nothing says, a file or standard output named twice.
    """
    wanted, files = list(given or ()), list(outputs or ())
    if len(wanted) > len(files) + 1:
        raise click.BadParameter("standard output takes one report: give an --output for all formats but the last")
    if len(set(files)) < len(files):
        raise click.BadParameter("--output names a file twice")
    found: list[tuple[E, Path | None]] = [
        (_of_file(file, wanted[place] if place < len(wanted) else None, kind), file) for place, file in enumerate(files)
    ]
    if len(wanted) > len(files) or not files:
        found.append((wanted[-1] if wanted else kind("text"), None))
    return found


def _of_file(file: Path, given: E | None, kind: type[E]) -> E:
    own = _SUFFIXES.get(file.suffix.lower())
    known = [each.value for each in kind]
    if own is None:
        if given is None and file.suffix:
            suffixes = ", ".join(suffix for suffix, name in _SUFFIXES.items() if name in known)
            raise click.BadParameter(f"--output {file}: the suffix says no format; give --format, or {suffixes}")
        return given or kind("text")
    if own not in known:
        raise click.BadParameter(f"--output {file}: the suffix says {own}; there are {', '.join(known)}")
    if given is None:
        return kind(own)
    if given.value != own and not {given.value, own} <= {"text", "github"}:
        raise click.BadParameter(f"--output {file}: the suffix says {own}, --format says {given.value}")
    return given


# Rows, which six formats of files and one for people hold.


MAX_ROWS = 40
"""Rows of a query that are shown as text by default."""


class RowFormat(enum.Enum):
    """Forms of written rows."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"
    ARROWS = "arrows"

    def is_binary(self) -> bool:
        """Tells whether the format is unfit for a terminal."""
        return self in (RowFormat.PARQUET, RowFormat.ARROW, RowFormat.ARROWS)


MaxRows: TypeAlias = Annotated[
    str,
    Option("--max-rows", metavar="N", help="Show so many rows as text, and count the others; all: all of them."),
]


def number_of_rows(text: str) -> int | None:
    """The value of --max-rows; None: all, for which 0 stands too."""
    if text != "all" and not text.isdecimal():
        raise click.BadParameter(f"--max-rows {text!r}: expected a number of rows, or all")
    return None if text == "all" else int(text) or None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written(Placed):
    """Options for written rows."""

    formats = RowFormat
    format_: Annotated[RowFormat | None, Option("--format", help="Write rows in this format; as text by default.")] = (
        None
    )

    @property
    def form(self) -> RowFormat:
        """The format. Refuses to write a binary one to a terminal."""
        found = RowFormat(super().form)
        if found.is_binary() and self.output is None and results.is_terminal_output():
            raise click.BadParameter(f"--format {found.value} is binary: use --output, or redirect standard output")
        return found
