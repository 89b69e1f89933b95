"""A request of `harness diff`: the sides, the engines, and how rows are compared."""

from __future__ import annotations

import enum
import functools
import os
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import click

import harness
from harness.cli import results, terminal
from harness.cli.options import RARE, names
from harness.cli.parameters import Option
from harness.cli.untrusted import words
from harness.diff.relaxations import Relaxations, Tolerance, TypeRule
from harness.diff.result import Batch, ComparisonResult, Made
from harness.diff.sources import RowSource, usual_engines
from harness.errors import RequestError, without_secrets

if TYPE_CHECKING:
    from harness.snapshot import Snapshot

_T = TypeVar("_T")
RareOption = functools.partial(Option, panel=RARE)


class _Strict(enum.Enum):
    """The rules of types that may be forbidden: all of them, or each."""

    TYPES = "types"
    INTEGERS = "integers"
    DECIMALS = "decimals"
    FLOATS = "floats"
    ROUNDING = "rounding"
    TRUTH = "truth"
    ZONES = "zones"
    UNITS = "units"


@dataclass(slots=True, kw_only=True)
class Relaxing:
    """Options for differences that pass, and for how much is compared."""

    tolerance: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN=AMOUNT",
            help="Let values lie so far apart: 0.01, 0.1%, 4 ulps, 500 ms; of all floats: floats=1e-9; of parts: s.x, "
            "l.element, m.value. Needs --keys.",
        ),
    ] = None
    exclude: Annotated[str | None, Option(metavar="A,B", help="Leave out these columns or fields (s.x).")] = None
    schema_only: Annotated[bool, Option("--schema-only", help="Compare names and types of columns alone.")] = False
    rename: Annotated[
        list[str] | None,
        RareOption(metavar="LEFT=RIGHT", help="What the left and the right side call one column. Repeatable."),
    ] = None
    ignore_name_case: Annotated[
        bool, RareOption("--ignore-name-case", help="Pair columns without regard to the case of their names.")
    ] = False
    cast: Annotated[
        list[str] | None,
        RareOption(metavar="COLUMN=TYPE", help="Compare a column as this type of DuckDB's. Repeatable."),
    ] = None
    ignore_case: Annotated[bool, RareOption("--ignore-case", help="Compare text without regard to case.")] = False
    trim: Annotated[bool, RareOption("--trim", help="Compare text without spaces around it.")] = False
    null_as: Annotated[
        str | None, RareOption(metavar="TEXT", help="This text, such as '', is null, on both sides.")
    ] = None
    strict: Annotated[
        list[_Strict] | None,
        RareOption(
            metavar="KIND",
            help=f"Beside a file or database, let no difference of types pass, or none of this kind: "
            f"{', '.join(each.value for each in _Strict)}. Repeatable.",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        RareOption(metavar="A,B", help="Count differing rows by these columns. [default: a table's partition columns]"),
    ] = None
    sample_keys: Annotated[
        int | None, RareOption(metavar="N", min=1, help="Compare so many keys alone, the same in every run.")
    ] = None

    def relaxations(self, *, is_foreign: bool) -> Relaxations:
        """The differences that pass. is_foreign: another project gives a side's rows, so that rules of types hold."""
        forbidden = set(self.strict or ())
        allowed = frozenset(rule for rule in TypeRule if not {_Strict.TYPES, _Strict[rule.name]} & forbidden)
        return Relaxations(
            tolerance=_once(map(_tolerance, self.tolerance or ()), "--tolerance"),
            exclude=tuple(names(self.exclude, "--exclude") or ()),
            rename=_once((_split(text, "--rename") for text in self.rename or ()), "--rename"),
            ignore_name_case=self.ignore_name_case,
            cast=_once((_split(text, "--cast") for text in self.cast or ()), "--cast"),
            ignore_case=self.ignore_case,
            trim=self.trim,
            null_as=self.null_as,
            types=allowed if is_foreign else None,
        )


def _once(given: Iterable[tuple[str, _T]], option: str) -> dict[str, _T]:
    """Return the values by column. Raises click.BadParameter: a column has several."""
    found: dict[str, _T] = {}
    for column, value in given:
        if column in found:
            raise click.BadParameter(f"{option} is given twice for {column!r}")
        found[column] = value
    return found


def _tolerance(text: str) -> tuple[str, Tolerance]:
    column, amount = _split(text, "--tolerance")
    try:
        return column, Tolerance.parse(amount)
    except RequestError as error:
        raise click.BadParameter(f"--tolerance {text!r}: {error.message}") from None


def _split(text: str, option: str) -> tuple[str, str]:
    first, separator, second = text.rpartition("=") if option == "--rename" else text.partition("=")
    if not (separator and first and second):
        raise click.BadParameter(f"{option} {text!r}: expected two parts with = between them")
    return first, second


DiffSide: TypeAlias = "Snapshot | RowSource"


@dataclass(frozen=True, kw_only=True)
class DiffRequest:
    """Arguments of `harness.compare` besides the sides and their names. None: not given."""

    engines: tuple[str, str]
    keys: Sequence[str] | None
    columns: Sequence[str] | None
    where: str | None
    max_rows: int
    relaxations: Relaxations
    group_by: Sequence[str] | None
    sample_keys: int | None
    schema_only: bool

    def compare(self, left: DiffSide, right: DiffSide) -> ComparisonResult:
        """Compares the rows of two snapshots."""
        return harness.compare(left, right, **self._given())

    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def compare_queries(self, queries: tuple[str, str], left: DiffSide, right: DiffSide) -> ComparisonResult:
        """Compares the results of queries on the left and on the right side. Raises as `harness.compare`."""
        from harness.snapshot import called

        asked = zip(queries, (left, right), strict=True)
        sides = [s.asking(text) if isinstance(s, RowSource) else harness.Query(text, {"t": s}) for text, s in asked]
        names = [
            f"query on {side.name if isinstance(side, RowSource) else called(side._source.location, side.name)}"
            for side in (left, right)
        ]
        return harness.compare(*sides, names=names, **self._given())


def pair_of_engines(text: str | None, *, is_one_table: bool) -> tuple[str, str]:
    """Names of the left and the right side's engine. Raises click.BadParameter for more than two."""
    if text is None:
        return usual_engines(is_one_table=is_one_table)
    match [name.strip() for name in text.split(",")]:
        case [both] if both:
            return both, both
        case [left, right] if left and right:
            return left, right
        case _:
            raise click.BadParameter(f"--engines {text!r}: expected one name, or two with a comma between them")


def pair(values: list[str] | None, option: str) -> tuple[str, str] | None:
    """The values for the left and for the right side; None: none is given. Raises click.BadParameter for more."""
    match values or []:
        case []:
            return None
        case [both]:
            return both, both
        case [left, right]:
            return left, right
        case more:
            raise click.BadParameter(
                f"{option} is given {len(more)} times: once holds for both sides, twice for one each"
            )


class Report(enum.Enum):
    """Forms of a written comparison."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


PlacedReport: TypeAlias = tuple[Report, Path | None]
"""A report and its file; None: standard output."""


_PASSWORDS = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s#]+)", re.IGNORECASE)
"""Passwords in the texts that Postgres is attached by."""


def _made(context: click.Context) -> Made:
    """The time, or that of the variable SOURCE_DATE_EPOCH for reports that are the same again, and the command line."""
    given = {
        name: [f"{text.partition('=')[0]}=***" for text in value] if name == "storage_option" else value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    line = ["harness", *(_PASSWORDS.sub(r"\1***", without_secrets(word)) for word in words(context, given))]
    asked = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(asked) if re.fullmatch(r"[0-9]{1,11}", asked) else int(time.time())
    at = datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00") + "Z"
    return Made(at=at, version=harness.__version__, command=shlex.join(line))


def write_reports(found: ComparisonResult | Batch, reports: Sequence[PlacedReport], context: click.Context) -> None:
    """Writes all reports of one comparison, with the command that made them."""
    from harness.diff.reports import batch
    from harness.diff.reports.text import to_text

    found = replace(found, made=_made(context))
    made: object = batch if isinstance(found, Batch) else ComparisonResult
    for report, path in reports:
        width = results.width_for(path)
        with terminal.progress(f"making the {report.value} report"):
            if report is Report.TEXT and width is not None and isinstance(found, ComparisonResult):
                text = to_text(found, width)
            else:
                text = getattr(made, f"to_{report.value}")(found)
        with results.destination(path) as stream:
            write = results.write_lines if report is Report.TEXT else results.write_texts
            write([text], stream)
    places = [str(path) for _, path in reports if path is not None]
    if len(places) == len(reports):  # nobody has seen the outcome
        said = batch.summary(found) if isinstance(found, Batch) else f"{found.verdict.value}: {found.sentence}"
        terminal.message(f"{said}; see {', '.join(places)}")
