"""A scenario's table made on disk, its expectations resolved, and both written out for other engines.

built = build(load(path), tmp_path)
for expectation in built.expectations:
    verdict = verify(expectation, lambda e: engine.read(built.location, e))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from harness.errors import HarnessError, RequestError
from harness.model.schema import Field, Schema
from harness.testing.scenarios.expected import expected_table
from harness.testing.scenarios.model import (
    Built,
    Expectation,
    History,
    ResolvedExpectation,
    ResolvedSelector,
    Scenario,
)
from harness.testing.scenarios.rows import expanded
from harness.writing.iceberg.types import schema_of

_REFUSALS = (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, pa.ArrowException)
"""What the builders and Arrow raise about values that no scenario can mean."""


def build(scenario: Scenario, directory: Path) -> Built:
    """The scenario's table, written into a folder `table` of the directory, which is made if it is not there.

    Raises:
        RequestError: an operation or expectation cannot be, or a file would be written outside of the directory; the
            message names the file, the step and the key.
    """
    place = scenario.name if scenario.path is None else str(scenario.path)
    with _about(place):
        history = begin(scenario, directory)
    for number, operation in enumerate(scenario.history, 1):
        with _about(f"{place}, history step {number}"):
            history.apply(operation)
    resolved = []
    for number, expectation in enumerate(scenario.expectations, 1):
        with _about(f"{place}, expectation {number}"):
            resolved.append(_resolved(history, expectation, number))
    return Built(
        scenario=scenario,
        location=history.location,
        metadata_path=history.metadata_path,
        expectations=tuple(resolved),
        history=history,
    )


def begin(scenario: Scenario, directory: Path) -> History:
    """The history of a scenario before its first operation: the empty table.

    Raises:
        RequestError: what stands under `table` is wrong.
    """
    directory.mkdir(parents=True, exist_ok=True)
    match scenario.format:
        case "iceberg":
            from harness.testing.scenarios.iceberg.history import IcebergHistory

            return IcebergHistory(directory, scenario.table)
        case "delta":
            from harness.testing.scenarios.delta.history import DeltaHistory

            return DeltaHistory(directory, scenario.table)


@contextmanager
def _about(place: str) -> Iterator[None]:
    """Whatever is refused is an error of the scenario, at this place."""
    try:
        yield
    except HarnessError as error:
        raise RequestError(f"{place}: {error.message}", cause=error.cause) from error
    except _REFUSALS as error:
        raise RequestError(f"{place}: {type(error).__name__}: {error}") from error


def _resolved(history: History, expectation: Expectation, number: int) -> ResolvedExpectation:
    at = history.resolve(expectation.at)
    expected = expectation.error
    return ResolvedExpectation(
        number=number,
        at=at,
        columns=expectation.columns,
        where=expectation.where,
        expected=expected if expectation.rows is None else _table(history, expectation, at),
        open=expectation.open,
        opening=history.opening(expectation.catalog),
    )


def _table(history: History, expectation: Expectation, at: ResolvedSelector) -> pa.Table:
    fields = _fields(history, expectation, at)
    return expected_table(fields, expanded(expectation.rows, "rows"), history.labels)


def _fields(history: History, expectation: Expectation, at: ResolvedSelector) -> Sequence[Field]:
    """The columns of the read: those of its schema, of the types given by hand, and metadata columns."""
    typed = {f.name: f for f in schema_of(expectation.types).fields}
    schema: Schema = history.schema_at(at)
    known = {f.name: f for f in schema.fields} | typed
    fields = []
    for place, name in enumerate(expectation.columns or known):
        field = known.get(name) or history.metadata_field(name)
        if field is None:
            raise RequestError(f"Unknown column {name!r}: there are {', '.join(known)}, and metadata columns")
        fields.append(_numbered(field, place) if name in typed else field)
    return fields


def _numbered(field: Field, place: int) -> Field:
    """A field of hand-given type, with an id that no field of the table has."""
    from dataclasses import replace

    return replace(field, id=-1 - place)
