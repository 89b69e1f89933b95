"""What a comparison lets pass, as given on the command line."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

import typer

from harness.cli.name_lists import names
from harness.differ.relaxations import Relaxations, Tolerance, TypeRule
from harness.errors import RequestError


class Strict(enum.Enum):
    """What a rule of types may be forbidden by: all of them, or each."""

    TYPES = "types"
    INTEGERS = "integers"
    DECIMALS = "decimals"
    FLOATS = "floats"
    ROUNDING = "rounding"
    TRUTH = "truth"
    ZONES = "zones"
    UNITS = "units"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxing:
    """What is let pass, and how much is compared."""

    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance",
            metavar="COLUMN=AMOUNT",
            help="Let values of a column lie so far apart: 0.01, 0.1%, '1e-9 relative', '4 ulps', '500 ms'; behind "
            "it, if you like, ' because REASON'. Needs --keys. Repeatable.",
        ),
    ] = None
    exclude: Annotated[
        str | None, typer.Option("--exclude", metavar="A,B", help="Leave these columns out, on both sides.")
    ] = None
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename", metavar="LEFT=RIGHT", help="What the left and the right side call one column. Repeatable."
        ),
    ] = None
    ignore_case: Annotated[bool, typer.Option("--ignore-case", help="Compare text without regard to case.")] = False
    trim: Annotated[bool, typer.Option("--trim", help="Compare text without spaces around it.")] = False
    null_as: Annotated[
        str | None, typer.Option("--null-as", metavar="TEXT", help="This text, such as '', is null, on both sides.")
    ] = None
    strict: Annotated[
        list[Strict] | None,
        typer.Option(
            "--strict",
            help="Beside a file or database, let no difference of types pass, or none of this kind. Repeatable.",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by",
            metavar="A,B",
            help="Count differing rows by these columns. [default: a table's partition columns]",
        ),
    ] = None
    sample_keys: Annotated[
        int | None,
        typer.Option("--sample-keys", metavar="N", min=1, help="Compare so many keys alone, the same in every run."),
    ] = None

    def relaxations(self, *, is_foreign: bool) -> Relaxations:
        """What is let pass. is_foreign: a side is a file or another database, so that rules of types hold.

        Raises:
            typer.BadParameter: an option is not understood.
        """
        return Relaxations(
            tolerances=dict(map(_tolerance, self.tolerance or ())),
            exclude=tuple(names(self.exclude, "--exclude") or ()),
            rename=dict(_split(text, "--rename") for text in self.rename or ()),
            ignore_case=self.ignore_case,
            trim=self.trim,
            null_as=self.null_as,
            types=self._types() if is_foreign else None,
        )

    def _types(self) -> frozenset[TypeRule]:
        """The rules of types that are not forbidden."""
        forbidden = set(self.strict or ())
        if Strict.TYPES in forbidden:
            return frozenset()
        return frozenset(rule for rule in TypeRule if Strict[rule.name] not in forbidden)


def _tolerance(text: str) -> tuple[str, Tolerance]:
    column, amount = _split(text, "--tolerance")
    try:
        return column, Tolerance.parse(amount)
    except RequestError as error:
        raise typer.BadParameter(f"--tolerance {text!r}: {error.message}") from None


def _split(text: str, option: str) -> tuple[str, str]:
    first, separator, second = text.rpartition("=") if option == "--rename" else text.partition("=")
    if not (separator and first and second):
        raise typer.BadParameter(f"{option} {text!r}: expected two parts with = between them")
    return first, second
