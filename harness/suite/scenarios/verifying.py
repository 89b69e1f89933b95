"""Holds reads against what a scenario expects."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness import errors
from harness.diff.compare import compare
from harness.diff.result import SchemaKind
from harness.engines.registry import find_engine
from harness.errors import HarnessError
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import plan_read
from harness.suite.scenarios.model import BuiltScenario, Expectation, ExpectedError, ResolvedExpectation, Scenario

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


def read_with(built: BuiltScenario, engine: str) -> Callable[[ResolvedExpectation], pa.Table]:
    """A reader of a built table for `verify`: one of harness's own engines, by name."""
    return lambda expectation: find_engine(engine).to_arrow(plan_read(built.address, expectation))


def build_intact_copy(scenario: Scenario, directory: Path) -> BuiltScenario | None:
    """Builds the intact twin of a table that a read must refuse, and reads its rows.

    The twin has the most of the history that harness reads plainly: edits and damage are left out, then operations at
    the end. Where no rows are left, it is a plain table of the same columns with the first rows, or with none.

    Returns: the twin with a single read; None: harness reads none of these.
    """
    name, title = f"{scenario.name}/intact", f"{scenario.title}: the same table undamaged"
    for table, history in _undamaged_histories(scenario):
        whole = replace(scenario, name=name, title=title, table=table, history=history, expectations=(Expectation(),))
        with contextlib.suppress(*FAULTS):
            twin = build(whole, directory)
            (read,) = twin.expectations
            rows = find_engine("duckdb").to_arrow(plan_read(twin.address, read, allowed_roots=(str(directory),)))
            if rows.num_rows or not history:  # a table without rows is read rightly by who reads nothing
                return replace(twin, expectations=(replace(read, expected=rows),))
        shutil.rmtree(directory, ignore_errors=True)
    return None


_PLAIN = ("schema", "format-version", "partition-columns", "partition-spec")
"""Keys of a table that are no fault by themselves."""


def _undamaged_histories(scenario: Scenario) -> Iterator[tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]]:
    """Tables and histories without the damage, the nearest first."""
    history = tuple(_without_edits(each) for each in scenario.history if not any(map(_BREAKS.fullmatch, each)))
    yield from ((scenario.table, history[:length]) for length in range(len(history), 0, -1))
    for step in history[:1]:
        files = step.get("append")
        files = files.get("files") if isinstance(files, Mapping) else files
        if isinstance(files, list):
            plain = [{key: file[key] for key in ("data", "rows", "partition") if key in file} for file in files]
            yield {key: value for key, value in scenario.table.items() if key in _PLAIN}, ({"append": plain},)
    yield scenario.table, ()


def _without_edits(value: object) -> Any:
    """A part of a history without the edits of what its files and commits record."""
    if isinstance(value, Mapping):
        return {key: _without_edits(each) for key, each in value.items() if key not in ("set", "unset")}
    return [_without_edits(each) for each in value] if isinstance(value, list) else value


def _fault(
    expectation: ResolvedExpectation,
    expected: pa.Table | ExpectedError,
    read: Callable[[ResolvedExpectation], pa.Table],
) -> str | None:
    try:
        rows = read(expectation)
    except HarnessError as error:
        if isinstance(expected, ExpectedError) and matches_error(error, expected):
            return None
        expectation_text = (
            f"{_expected_error_text(expected)} was" if isinstance(expected, ExpectedError) else "rows were"
        )
        return f"{type(error).__name__}, where {expectation_text} expected: {error}"
    if isinstance(expected, ExpectedError):
        return f"{rows.num_rows} rows, where {_expected_error_text(expected)} was expected"
    comparison = compare(expected, rows, names=("expected", "read"))
    in_order = all(difference.kind is not SchemaKind.ORDER for difference in comparison.schema)
    return None if comparison.equal and in_order else comparison.to_text()


def matches_error(error: HarnessError, expected: ExpectedError) -> bool:
    """Tells whether an error is as expected: its class or one below it, its cause, words of its message."""
    return (
        isinstance(error, getattr(errors, expected.kind))
        and (expected.cause is None or error.cause == expected.cause)
        and (expected.match is None or expected.match in str(error))
    )


def _expected_error_text(expected: ExpectedError) -> str:
    return " ".join([expected.kind, *(repr(p) for p in (expected.cause, expected.match) if p is not None)])
