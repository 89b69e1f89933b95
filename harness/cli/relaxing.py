"""What a comparison lets pass, as given on the command line."""

from __future__ import annotations

import enum
from collections.abc import Collection
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
    ZONES = "zones"
    UNITS = "units"
    CHAR = "char"
    TEXT = "text"


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
            "--strict", help="Let no difference of types pass beside a file or database, or none of this kind."
        ),
    ] = None
    group_by: Annotated[
        str | None, typer.Option("--group-by", metavar="A,B", help="Count differing rows by these columns.")
    ] = None
    sample_keys: Annotated[
        int | None,
        typer.Option("--sample-keys", metavar="N", min=1, help="Compare so many keys alone, the same in every run."),
    ] = None

    def relaxations(self, types: Collection[TypeRule] = ()) -> Relaxations:
        """What is let pass. types: rules of types that hold, unless forbidden.

        Raises:
            typer.BadParameter: an option is not understood.
        """
        forbidden = set(self.strict or ())
        kept = () if Strict.TYPES in forbidden else [rule for rule in types if Strict[rule.name] not in forbidden]
        return Relaxations(
            tolerances=dict(map(_tolerance, self.tolerance or ())),
            exclude=tuple(names(self.exclude, "--exclude") or ()),
            rename=dict(_split(text, "--rename") for text in self.rename or ()),
            ignore_case=self.ignore_case,
            trim=self.trim,
            null_as=self.null_as,
            types=frozenset(kept),
        )


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
