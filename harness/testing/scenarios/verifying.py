"""Holds reads against what a scenario expects: every read has one of a few outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from harness import errors
from harness.differ.compare import compare
from harness.differ.result import ComparisonResult, SchemaKind
from harness.errors import HarnessError
from harness.table import open_table
from harness.testing.scenarios.model import Built, ExpectedError, ResolvedExpectation


@dataclass(frozen=True, slots=True)
class Matched:
    """The read gave what was expected: the rows, or the error."""


@dataclass(frozen=True, slots=True)
class Differs:
    """The read gave other rows, other types, or columns in another order. comparison: left is what was expected."""

    comparison: ComparisonResult


@dataclass(frozen=True, slots=True)
class Accepted:
    """The read gave rows where an error was expected. rows: how many."""

    expected: ExpectedError
    rows: int


@dataclass(frozen=True, slots=True)
class Raised:
    """The read ended with an error where rows, or another error, were expected. expected: None: rows."""

    error: Exception
    expected: ExpectedError | None


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """The specification leaves the result open. verdict: by what harness decided; None: it decided nothing."""

    reason: str
    verdict: Matched | Differs | Accepted | Raised | None


Verdict: TypeAlias = Matched | Differs | Accepted | Raised | LeftOpen


def verify(expectation: ResolvedExpectation, read: Callable[[ResolvedExpectation], pa.Table]) -> Verdict:
    """The outcome of one read.

    read: gives the rows; any HarnessError that it raises is an outcome, other exceptions go on.
    """
    verdict = None if expectation.expected is None else _verdict(expectation, read)
    return (
        LeftOpen(expectation.open, verdict)
        if expectation.open is not None and verdict != Matched()
        else (Matched() if verdict is None else verdict)
    )


def read_with(built: Built, engine: str) -> Callable[[ResolvedExpectation], pa.Table]:
    """A reader of a built table for `verify`: one of harness's own engines, by name."""

    def read(expectation: ResolvedExpectation) -> pa.Table:
        table = open_table(built.address, **expectation.opening)
        if expectation.at.changes is not None:
            return table.changes(*expectation.at.changes, columns=expectation.columns).to_arrow(engine=engine)
        snapshot = table.snapshot(**expectation.at.arguments())
        return snapshot.to_arrow(columns=expectation.columns, where=expectation.where, engine=engine)

    return read


def describe(verdict: Verdict) -> str:
    """The verdict in words."""
    match verdict:
        case Matched():
            return "as expected"
        case Differs(comparison):
            return comparison.to_text()
        case Accepted(expected, rows):
            return f"{rows} rows, where {_described(expected)} was expected"
        case Raised(error, expectation):
            wanted = "rows were" if expectation is None else f"{_described(expectation)} was"
            return f"{type(error).__name__}, where {wanted} expected: {error}"
        case LeftOpen(reason, inner):
            return f"open ({reason})" + ("" if inner is None else f": {describe(inner)}")


def _verdict(
    expectation: ResolvedExpectation, read: Callable[[ResolvedExpectation], pa.Table]
) -> Matched | Differs | Accepted | Raised:
    expected = expectation.expected
    try:
        rows = read(expectation)
    except HarnessError as error:
        if isinstance(expected, ExpectedError):
            return Matched() if agrees(error, expected) else Raised(error, expected)
        return Raised(error, None)
    if not isinstance(expected, pa.Table):
        assert expected is not None
        return Accepted(expected, rows.num_rows)
    comparison = compare(expected, rows, names=("expected", "read"))
    in_order = all(difference.kind is not SchemaKind.ORDER for difference in comparison.schema)
    return Matched() if comparison.equal and in_order else Differs(comparison)


def agrees(error: HarnessError, expected: ExpectedError) -> bool:
    """Tells whether an error is as expected: its class or one below it, its cause, words of its message."""
    return (
        isinstance(error, getattr(errors, expected.kind))
        and (expected.cause is None or error.cause == expected.cause)
        and (expected.match is None or expected.match in str(error))
    )


def _described(expected: ExpectedError) -> str:
    parts = [expected.kind, *(repr(p) for p in (expected.cause, expected.match) if p is not None)]
    return " ".join(parts)
