"""`--format` and `--output`: where results go, and in which format.

The suffix of a file says its format. `--format` is the format of standard output, and of a file whose suffix says none.
"""

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
class OutputOptions:
    """Options for the format and the file of a command's only result. A class for each set of formats."""

    formats: ClassVar[type[enum.Enum]]
    format_: enum.Enum | None = None
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write here instead of standard output; the suffix says the format.",
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.form  # a contradiction is said before anything is read

    @property
    def form(self) -> enum.Enum:
        """The format. Raises as `placed`, and if the suffix of the file contradicts `--format`."""
        (form, _), *more = report_files(self.format_, [self.output] if self.output else None, self.formats)
        if more:
            raise click.BadParameter(
                f"--output {self.output}: the suffix says {form.value}, --format says {more[0][0].value}"
            )
        return form


ReportFiles: TypeAlias = Annotated[
    list[Path] | None,
    Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write a report here; the suffix says the format. Repeatable. --format writes to standard output too.",
    ),
]


def report_files(requested: E | None, outputs: Sequence[Path] | None, kind: type[E]) -> list[tuple[E, Path | None]]:
    """Return each format and its file, or None for standard output.

    The suffix of a file says its format. A file whose suffix says none has the given format, or is text if it has no
    suffix. A given format that no file has is that of standard output.

    Raises:
        click.BadParameter: No suffix or option says the format of a file, the command has no such format, or a file is
            named twice.
    """
    files = list(outputs or ())
    if len(set(files)) < len(files):
        raise click.BadParameter("--output names a file twice")
    reports: list[tuple[E, Path | None]] = [(_format_of(file, requested, kind), file) for file in files]
    if not files or (requested is not None and requested not in [form for form, _ in reports]):
        reports.append((requested or kind("text"), None))
    return reports


def _format_of(file: Path, requested: E | None, kind: type[E]) -> E:
    name = _SUFFIXES.get(file.suffix.lower())
    names = [each.value for each in kind]
    if name is None:
        if requested is None and file.suffix:
            suffixes = ", ".join(suffix for suffix, form in _SUFFIXES.items() if form in names)
            raise click.BadParameter(f"--output {file}: the suffix says no format; give --format, or {suffixes}")
        return requested or kind("text")
    if name not in names:
        raise click.BadParameter(f"--output {file}: the suffix says {name}; there are {', '.join(names)}")
    if requested is not None and (name, requested.value) == ("text", "github"):
        return requested
    return kind(name)


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
    Option("-n", "--max-rows", metavar="N", help="Show so many rows as text, and count the others; all: all of them."),
]


def number_of_rows(text: str) -> int | None:
    """Return the value of --max-rows, or None for all rows."""
    if text != "all" and not text.isdecimal():
        raise click.BadParameter(f"--max-rows {text!r}: expected a number of rows, or all")
    return None if text == "all" else int(text)


RowsFormat: TypeAlias = Annotated[
    RowFormat | None, Option("--format", help="Write rows in this format; as text by default.")
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsOutput(OutputOptions):
    """Options for written rows."""

    formats = RowFormat
    format_: RowsFormat = None

    @property
    def form(self) -> RowFormat:
        """The format. Refuses to write a binary one to a terminal."""
        row_format = RowFormat(super().form)
        if row_format.is_binary() and self.output is None and results.is_terminal_output():
            raise click.BadParameter(
                f"--format {row_format.value} is binary: use --output, or redirect standard output"
            )
        return row_format
