"""Options of commands that print rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from harness.cli import results
from harness.cli.writers import RowFormat

Format: TypeAlias = Annotated[RowFormat, typer.Option("--format", help="How rows are written.")]
OutputFile: TypeAlias = Annotated[
    Path | None, typer.Option("--output-file", metavar="FILE", help="Write here instead of standard output.")
]
MaxRows: TypeAlias = Annotated[
    str,
    typer.Option(
        "--max-rows", metavar="N", help="How many rows are shown as text; the others are counted. all: all of them."
    ),
]


def number_of_rows(text: str) -> int | None:
    """The value of --max-rows; None: all, for which 0 stands too.

    Raises:
        typer.BadParameter: it is no number of rows.
    """
    if text != "all" and not text.isdecimal():
        raise typer.BadParameter(f"--max-rows {text!r}: expected a number of rows, or all")
    return None if text == "all" else int(text) or None


def check_place(row_format: RowFormat, output_file: Path | None) -> None:
    """Raises typer.BadParameter: a binary format would be written to a terminal."""
    if row_format.is_binary() and output_file is None and results.is_terminal_output():
        raise typer.BadParameter(
            f"--format {row_format.value} is binary: use --output-file, or redirect standard output"
        )
