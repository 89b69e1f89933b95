"""`--format` and `--output`: the destinations and formats of results.

The suffix of a file determines its format. `--format` applies to standard output, and to a file whose suffix does not
determine one.
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
    """Options for the format and file of a command's only result. Each set of formats has a subclass."""

    formats: ClassVar[type[enum.Enum]]
    format_: enum.Enum | None = None
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to this file instead of standard output. Its suffix determines the format.",
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.form  # report contradictions before anything is read

    @property
    def form(self) -> enum.Enum:
        """The format of the result.

        Raises the same errors as `report_files`, and also if the suffix of the file contradicts `--format`.
        """
        (form, _), *others = report_files(self.format_, [self.output] if self.output else None, self.formats)
        if others:
            raise click.BadParameter(
                f"--output {self.output}: the suffix means {form.value}, but --format is {others[0][0].value}"
            )
        return form


ReportFiles: TypeAlias = Annotated[
    list[Path] | None,
    Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write a report to this file. Its suffix determines the format. Repeatable. Add --format to "
        "also write to standard output.",
    ),
]


def report_files(requested: E | None, outputs: Sequence[Path] | None, kind: type[E]) -> list[tuple[E, Path | None]]:
    """Return each format with its file, or None for standard output.

    A file's suffix determines its format. If it does not, the file has the requested format, or is text if it has no
    suffix. If no file has the requested format, that format is written to standard output.

    Args:
        requested: The value of `--format`, or None.
        outputs: The values of `--output`.
        kind: The command's formats.

    Raises:
        click.BadParameter: The format of a file is unknown, the command does not support it, or a file is named twice.
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
            raise click.BadParameter(
                f"--output {file}: the suffix does not determine a format; use --format, or one of {suffixes}"
            )
        return requested or kind("text")
    if name not in names:
        raise click.BadParameter(
            f"--output {file}: the suffix means {name}, but this command only writes {', '.join(names)}"
        )
    if requested is not None and (name, requested.value) == ("text", "github"):
        return requested
    return kind(name)


MAX_ROWS = 40
"""The maximum number of rows of a query that are shown as text by default."""


class RowFormat(enum.Enum):
    """Formats of written rows."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"
    ARROWS = "arrows"

    def is_binary(self) -> bool:
        """Return whether the format is binary, and therefore not readable on a terminal."""
        return self in (RowFormat.PARQUET, RowFormat.ARROW, RowFormat.ARROWS)


MaxRows: TypeAlias = Annotated[
    str,
    Option("-n", "--max-rows", metavar="N", help="Show at most N rows as text and count the rest, or all."),
]


def number_of_rows(text: str) -> int | None:
    """Parse the value of --max-rows. None means all rows."""
    if text != "all" and not text.isdecimal():
        raise click.BadParameter(f"--max-rows {text!r}: expected a number of rows, or all")
    return None if text == "all" else int(text)


RowsFormat: TypeAlias = Annotated[RowFormat | None, Option("--format", help="Format of the rows, text by default.")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsOutput(OutputOptions):
    """Options for written rows."""

    formats = RowFormat
    format_: RowsFormat = None

    @property
    def form(self) -> RowFormat:
        """The format of the rows. A binary format raises an error if standard output is a terminal."""
        row_format = RowFormat(super().form)
        if row_format.is_binary() and self.output is None and results.is_terminal_output():
            raise click.BadParameter(
                f"--format {row_format.value} is binary: use --output, or redirect standard output"
            )
        return row_format
