"""Builds the table of a scenario on disk and resolves its expectations.

built = build(load(path), tmp_path)
for expectation in built.expectations:
    fault = verify(expectation, lambda e: engine.read(built.location, e))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import HarnessError, RequestError
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import Field, Schema, arrow_field, arrow_type
from harness.suite.scenarios.model import (
    BuiltScenario,
    Expectation,
    ExpectationKeys,
    ExpectedError,
    ResolvedExpectation,
    ResolvedSelector,
    Scenario,
    ScenarioHistory,
)
from harness.suite.scenarios.values import expand_rows, stored_struct
from harness.writing.iceberg.types import schema_of


def expected_table(fields: Sequence[Field], rows: Sequence[object], labels: Mapping[str, str]) -> pa.Table:
    """Return expected rows as an Arrow table, in order.

    Args:
        fields: The columns of the read.
        rows: The rows as lists in column order, or as mappings by name, with values as in a scenario (see `values`). A
            missing name is null.
        labels: Recorded paths by label. `_file` is written as a label.

    Raises:
        RequestError: A row has other columns, or a value does not fit its type.
    """
    columns = tuple(fields)
    records = [stored_struct(columns, row) for row in rows]
    for f in columns:
        if f.name == "_file":
            for record in records:
                record[f.id] = labels.get(record.get(f.id, ""), record.get(f.id))
    arrays = [_arrow_array(f.type, [record.get(f.id) for record in records]) for f in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(f) for f in columns]))


def _arrow_array(type_: dt.Type, values: list[Any]) -> pa.Array:
    """Return internal values as an array of `arrow_type`."""
    target = arrow_type(type_)
    match type_:
        case dt.StructType(fields=fields):
            parts = [_arrow_array(f.type, [None if v is None else v.get(f.id) for v in values]) for f in fields]
            mask = pa.array([v is None for v in values], pa.bool_())
            # Required fields of a null struct are null too, which Arrow would reject.
            loose = [pa.field(f.name, arrow_type(f.type)) for f in fields]
            built = pa.StructArray.from_arrays(parts, fields=loose, mask=mask)
            return pa.Array.from_buffers(target, len(built), built.buffers()[:1], children=parts)
        case dt.ListType(element=element):
            items = [item for v in values if v is not None for item in v]
            return pa.ListArray.from_arrays(_offsets(values), _arrow_array(element.type, items), type=target)
        case dt.MapType(key=key, value=value):
            pairs = [pair for v in values if v is not None for pair in v]
            keys, items = _arrow_array(key.type, [k for k, _ in pairs]), _arrow_array(value.type, [v for _, v in pairs])
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target)
        case dt.UuidType():
            return pa.ExtensionArray.from_storage(target, pa.array(values, pa.binary(16)))
        case dt.UnknownType() if any(v is not None for v in values):
            raise RequestError(f"Invalid expected value for {type_}: such columns are always null")
        case _:
            try:
                return pa.array(values, target)
            except (pa.ArrowException, TypeError, ValueError) as exc:
                raise RequestError(f"Invalid expected value for {type_}: {exc}") from exc


def _offsets(values: list[Any]) -> pa.Array:
    """Return the offsets of lists. An offset is null for a null list."""
    places: list[int | None] = []
    total = 0
    for value in values:
        places.append(None if value is None else total)
        total += 0 if value is None else len(value)
    return pa.array([*places, total], pa.int32())


_REFUSALS = (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, pa.ArrowException)
"""Errors of the builders and of Arrow for values that are invalid in every scenario."""


def build(scenario: Scenario, directory: Path) -> BuiltScenario:
    """Write a scenario's table into the folder `table` of a directory, which is created if missing.

    Raises:
        RequestError: An operation or expectation is invalid, or a file would be written outside the directory. The
            message names the file, the step and the key.
    """
    place = scenario.name if scenario.path is None else str(scenario.path)
    with _errors_located_at(place):
        history = create_history(scenario, directory)
    for number, operation in enumerate(scenario.history, 1):
        with _errors_located_at(f"{place}, history step {number}"):
            history.apply(operation)
    resolved = []
    for number, expectation in enumerate(scenario.expectations, 1):
        with _errors_located_at(f"{place}, expectation {number}"):
            resolved.append(_resolve(history, expectation, number))
    return BuiltScenario(
        scenario=scenario,
        location=history.location,
        metadata_path=history.metadata_path,
        expectations=tuple(resolved),
        history=history,
    )


def create_history(scenario: Scenario, directory: Path) -> ScenarioHistory:
    """Return the history of a scenario before its first operation: the empty table.

    Raises:
        RequestError: The content of `table` is invalid.
    """
    directory.mkdir(parents=True, exist_ok=True)
    match scenario.format:
        case "iceberg":
            from harness.suite.scenarios.iceberg.history import IcebergHistory

            return IcebergHistory(directory, scenario.table)
        case "delta":
            from harness.suite.scenarios.delta.history import DeltaHistory

            return DeltaHistory(directory, scenario.table)


@contextmanager
def _errors_located_at(place: str) -> Iterator[None]:
    """Convert errors into errors of the scenario that name this place."""
    try:
        yield
    except HarnessError as error:
        raise RequestError(f"{place}: {error.message}", cause=error.cause) from error
    except _REFUSALS as error:
        raise RequestError(f"{place}: {type(error).__name__}: {error}") from error


def _resolve(history: ScenarioHistory, expectation: Expectation, number: int) -> ResolvedExpectation:
    at = history.resolve(expectation.at)
    expected: pa.Table | ExpectedError | None = expectation.error
    if expectation.rows is not None:
        fields = columns_of(history, expectation, at)
        expected = expected_table(fields, expand_rows(expectation.rows, "rows"), history.labels)
    keys = {key.name: getattr(expectation, key.name) for key in dataclasses.fields(ExpectationKeys)}
    opening = history.opening(expectation.catalog)
    return ResolvedExpectation(number=number, at=at, expected=expected, opening=opening, **keys)


def columns_of(history: ScenarioHistory, expectation: Expectation, at: ResolvedSelector) -> Sequence[Field]:
    """Return the columns of a read: columns of its schema, columns with types from the scenario, and metadata columns.

    Raises:
        RequestError: A column is unknown.
    """
    typed = {f.name: f for f in schema_of(expectation.types or {}).fields}
    schema: Schema = history.schema_at(at)
    fields_by_name = {f.name: f for f in schema.fields} | typed
    fields = []
    for place, name in enumerate(expectation.columns or fields_by_name):
        field = fields_by_name.get(name) or history.metadata_field(name)
        if field is None:
            raise RequestError(
                f"Unknown column {name!r}: the columns are {', '.join(fields_by_name)}, and metadata columns"
            )
        # A column with a type from the scenario gets an id that no field of the table has.
        fields.append(dataclasses.replace(field, id=-1 - place) if name in typed else field)
    return fields
