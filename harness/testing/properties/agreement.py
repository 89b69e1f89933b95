"""Reads of a table by engines beside what its model says: the first that differs, with all that it takes to show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from harness.differ.compare import compare
from harness.differ.result import ComparisonResult, SchemaKind
from harness.engines.registry import find_engine
from harness.errors import UnsupportedError
from harness.oracle.planner import plan_unpruned
from harness.table import open_table
from harness.testing.models.model import TableModel, arrow_rows, scenario_rows
from harness.testing.properties.strategies.predicates import Predicate, holds, sql
from harness.testing.scenarios.model import Expectation, History, Scenario, Selector, TableFormat

CURRENT = Selector()


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read: which point, which columns in which order (None: all), which rows (None: all)."""

    at: Selector = CURRENT
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None


class Disagreement(AssertionError):
    """An engine reads what the model does not have.

    scenario: what made the table, with the one read as its expectation. engine: who read. read: how.
    """

    def __init__(self, message: str, *, scenario: Scenario, engine: str, read: Read) -> None:
        super().__init__(message)
        self.scenario = scenario
        self.engine = engine
        self.read = read


def drawn_scenario(
    format_: TableFormat,
    table: Mapping[str, Any],
    operations: Sequence[Mapping[str, Any]],
    expectations: tuple[Expectation, ...] = (),
) -> Scenario:
    """The scenario of a table that was drawn. table, operations, expectations: as in a scenario's file."""
    return Scenario(
        name="drawn",
        path=None,
        title=f"A drawn history of {len(operations)} operations",
        format=format_,
        clauses=(),
        features=(),
        table=table,
        history=tuple(operations),
        expectations=expectations,
    )


def disagreement_of(
    history: History, model: TableModel, read: Read, engines: Sequence[str], scenario: Callable[[], Scenario]
) -> Disagreement | None:
    """What the first engine that differs from the model reads; None: they agree.

    scenario: makes the scenario of the table as it is now, without expectations.
    """
    columns, rows = expected_rows(model, read)
    expected = arrow_rows(columns, rows)
    for engine in engines:
        problem = _problem(history, read, engine, expected)
        if problem is not None:
            told = replace(scenario(), expectations=(expectation_of(model, read),))
            shown = f"{engine} reads {_described(read)} otherwise than the model:\n{problem}"
            return Disagreement(shown, scenario=told, engine=engine, read=read)
    return None


def expected_rows(model: TableModel, read: Read) -> tuple[tuple[Any, ...], list[dict[int, Any]]]:
    """The columns of a read, and its rows, as the model has them."""
    columns = model.columns_at(read.at)
    by_name = {f.name: f for f in columns}
    rows = model.rows(read.at)
    if read.where is not None:
        where = read.where
        rows = [r for r in rows if holds(where, {f.name: r.get(f.id) for f in columns}) is True]
    return columns if read.columns is None else tuple(by_name[n] for n in read.columns), rows


def expectation_of(model: TableModel, read: Read) -> Expectation:
    """What a scenario expects of a read, as the model has it."""
    columns, rows = expected_rows(model, read)
    return Expectation(
        at=read.at,
        columns=read.columns,
        where=None if read.where is None else sql(read.where),
        rows=scenario_rows(columns, rows),
    )


def read_by(history: History, read: Read, engine: str) -> pa.Table:
    """The rows that an engine gives; the oracle's plan is that of the independent planner, the others' prune most."""
    address = str(history.metadata_path or history.location)
    at = history.resolve(read.at)
    where = None if read.where is None else sql(read.where)
    if engine == "oracle":
        selector = {
            "snapshot_id": at.snapshot_id,
            "version": at.version,
            "timestamp_ms": at.timestamp_ms,
            "ref": at.ref,
        }
        chosen: dict[str, Any] = {name: value for name, value in selector.items() if value is not None}
        return find_engine(engine).to_arrow(plan_unpruned(address, columns=read.columns, where=where, **chosen))
    snapshot = open_table(address).snapshot(**at.arguments())
    return snapshot.to_arrow(columns=read.columns, where=where, engine=engine)


def comparison_problem(comparison: ComparisonResult) -> str | None:
    """A comparison in words, if there is a difference in rows, types, names or their order."""
    in_order = all(difference.kind is not SchemaKind.ORDER for difference in comparison.schema)
    return None if comparison.equal and in_order else comparison.to_text()


def _problem(history: History, read: Read, engine: str, expected: pa.Table) -> str | None:
    try:
        got = read_by(history, read, engine)
    except UnsupportedError as error:
        if engine == "spark" and read.where is not None:
            return None  # the filter has no certain meaning there, and Spark says so
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # whatever a reader dies of is a finding
        return f"{type(error).__name__}: {error}"
    return comparison_problem(compare(expected, got, names=("model", engine)))


def _described(read: Read) -> str:
    at = "the current state" if read.at.kind == "current" else f"{read.at.kind} {read.at.value}"
    columns = "" if read.columns is None else f", columns {', '.join(read.columns)}"
    return f"{at}{columns}" + ("" if read.where is None else f", where {sql(read.where)}")
