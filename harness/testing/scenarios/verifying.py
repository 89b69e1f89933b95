"""Holds reads against what a scenario expects."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from harness import errors
from harness.differ.compare import compare
from harness.differ.result import SchemaKind
from harness.engines.registry import find_engine
from harness.errors import HarnessError
from harness.testing.scenarios.building import build
from harness.testing.scenarios.evidence import plan_read
from harness.testing.scenarios.model import Built, Expectation, ExpectedError, ResolvedExpectation, Scenario

FAULTS = (HarnessError, ValueError, TypeError, KeyError, pa.ArrowException)
"""Errors of scenarios that cannot be built."""
_BREAKS = re.compile("edit(-.*)?|break")
"""Operations of a history that write what no writer writes."""


def verify(expectation: ResolvedExpectation, read: Callable[[ResolvedExpectation], pa.Table]) -> str | None:
    """The fault of one read in words; None: the read gave what is expected, or nothing was decided.

    read: gives the rows; any HarnessError that it raises is an outcome, other exceptions go on.
    """
    fault = None if expectation.expected is None else _fault(expectation, expectation.expected, read)
    return fault if fault is None or expectation.open is None else f"open ({expectation.open}): {fault}"


def read_with(built: Built, engine: str) -> Callable[[ResolvedExpectation], pa.Table]:
    """A reader of a built table for `verify`: one of harness's own engines, by name."""
    return lambda expectation: find_engine(engine).to_arrow(plan_read(built.address, expectation))


def intact_twin(scenario: Scenario, directory: Path) -> Built | None:
    """Builds the intact twin of a broken table, and reads its rows: the same history without its edits and damage.

    Returns: the twin with a single read; None: nothing was damaged, or harness does not read the rest.
    """
    history = tuple(each for each in scenario.history if not any(map(_BREAKS.fullmatch, each)))
    if history == scenario.history:
        return None
    name, title = f"{scenario.name}/intact", f"{scenario.title}: the same table undamaged"
    try:
        twin = build(
            replace(scenario, name=name, title=title, history=history, expectations=(Expectation(),)), directory
        )
        (read,) = twin.expectations
        rows = find_engine("duckdb").to_arrow(plan_read(twin.address, read, allowed_roots=(str(directory),)))
        return replace(twin, expectations=(replace(read, expected=rows),))
    except FAULTS:
        return None


def _fault(
    expectation: ResolvedExpectation,
    expected: pa.Table | ExpectedError,
    read: Callable[[ResolvedExpectation], pa.Table],
) -> str | None:
    try:
        rows = read(expectation)
    except HarnessError as error:
        if isinstance(expected, ExpectedError) and agrees(error, expected):
            return None
        wanted = f"{_described(expected)} was" if isinstance(expected, ExpectedError) else "rows were"
        return f"{type(error).__name__}, where {wanted} expected: {error}"
    if isinstance(expected, ExpectedError):
        return f"{rows.num_rows} rows, where {_described(expected)} was expected"
    comparison = compare(expected, rows, names=("expected", "read"))
    in_order = all(difference.kind is not SchemaKind.ORDER for difference in comparison.schema)
    return None if comparison.equal and in_order else comparison.to_text()


def agrees(error: HarnessError, expected: ExpectedError) -> bool:
    """Tells whether an error is as expected: its class or one below it, its cause, words of its message."""
    return (
        isinstance(error, getattr(errors, expected.kind))
        and (expected.cause is None or error.cause == expected.cause)
        and (expected.match is None or expected.match in str(error))
    )


def _described(expected: ExpectedError) -> str:
    return " ".join([expected.kind, *(repr(p) for p in (expected.cause, expected.match) if p is not None)])
