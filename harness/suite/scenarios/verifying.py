"""Compares reads with the expectations of a scenario, and builds intact copies of broken tables."""

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
"""Operations that write something that no writer writes."""


def verify(expectation: ResolvedExpectation, read: Callable[[ResolvedExpectation], pa.Table]) -> str | None:
    """Return the fault of a read in words, or None if the read returned the expected result or the result is undecided.

    Args:
        expectation: The read.
        read: A function that returns the rows. A HarnessError that it raises is a possible result; other exceptions are
            propagated.
    """
    fault = None if expectation.expected is None else _fault(expectation, expectation.expected, read)
    return fault if fault is None or expectation.open is None else f"open ({expectation.open}): {fault}"


def read_with(built: BuiltScenario, engine: str) -> Callable[[ResolvedExpectation], pa.Table]:
    """Return a reader of a built table for `verify`, which uses one of harness's own engines."""
    return lambda expectation: find_engine(engine).to_arrow(plan_read(built.address, expectation))


def build_intact_copy(scenario: Scenario, directory: Path) -> BuiltScenario | None:
    """Build the intact copy of a table that a read must refuse, and read its rows.

    The copy has the longest part of the history that harness can read: first without edits and damage, then with fewer
    and fewer operations. If no rows are left, it is a plain table with the same columns and the first rows, or without
    rows.

    Returns:
        The copy with a single read, or None if harness cannot read any of these.
    """
    name, title = f"{scenario.name}/intact", f"{scenario.title}: the same table undamaged"
    for table, history in _undamaged_histories(scenario):
        whole = replace(scenario, name=name, title=title, table=table, history=history, expectations=(Expectation(),))
        with contextlib.suppress(*FAULTS):
            intact_copy = build(whole, directory)
            (read,) = intact_copy.expectations
            rows = find_engine("duckdb").to_arrow(plan_read(intact_copy.address, read, allowed_roots=(str(directory),)))
            if rows.num_rows or not history:  # a reader that returns nothing reads a table without rows correctly
                return replace(intact_copy, expectations=(replace(read, expected=rows),))
        shutil.rmtree(directory, ignore_errors=True)
    return None


_PLAIN = ("schema", "format-version", "partition-columns", "partition-spec")
"""Keys of a table that cannot be a fault by themselves."""


def _undamaged_histories(scenario: Scenario) -> Iterator[tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]]:
    """Yield tables and histories without the damage, the most similar first."""
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
    """Return a part of a history without the edits to the metadata of files and commits."""
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
        return f"{expectation_text} expected, got {type(error).__name__}: {error}"
    if isinstance(expected, ExpectedError):
        return f"{_expected_error_text(expected)} was expected, got {rows.num_rows} rows"
    comparison = compare(expected, rows, names=("expected", "read"))
    in_order = all(difference.kind is not SchemaKind.ORDER for difference in comparison.schema)
    return None if comparison.equal and in_order else comparison.to_text()


def matches_error(error: HarnessError, expected: ExpectedError) -> bool:
    """Return whether an error has the expected class or a subclass of it, the expected cause, and the expected text."""
    return (
        isinstance(error, getattr(errors, expected.kind))
        and (expected.cause is None or error.cause == expected.cause)
        and (expected.match is None or expected.match in str(error))
    )


def _expected_error_text(expected: ExpectedError) -> str:
    return " ".join([expected.kind, *(repr(p) for p in (expected.cause, expected.match) if p is not None)])
