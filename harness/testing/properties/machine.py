"""A state machine that makes a table and its model side by side, and compares what every engine reads with the model.

    class TestIceberg2(machine("iceberg-2").TestCase): ...

or `run_state_machine_as_test(machine("iceberg-2"))`. Its rules draw operations of scenarios (see `strategies`); a
difference is a `Disagreement`, from which `harness.testing.properties.repro` makes a directory that shows it. Which
engines read is drawn too, in an order in which shrinking drops Spark first.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from harness.testing.models.model import TableModel, model_of
from harness.testing.properties.agreement import Disagreement, Read, disagreement_of, drawn_scenario
from harness.testing.properties.strategies.histories import OPERATIONS, format_of
from harness.testing.properties.strategies.predicates import predicates
from harness.testing.properties.strategies.settings import tables
from harness.testing.properties.strategies.types import TableKind
from harness.testing.scenarios.building import begin
from harness.testing.scenarios.model import History, Scenario

__all__ = ["Disagreement", "TableMachine", "machine"]


class TableMachine(RuleBasedStateMachine):
    """What the machines of all kinds of tables share; `machine` makes them."""

    kind: ClassVar[TableKind]
    engine_choices: ClassVar[Sequence[tuple[str, ...]]] = (("duckdb",), ("duckdb", "oracle"))
    table_choices: ClassVar[st.SearchStrategy[dict[str, Any]]]
    model: TableModel
    history: History

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="harness-machine-"))
        self.operations: list[Mapping[str, Any]] = []
        self.engines: tuple[str, ...] = ()

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        """An empty table, and who reads it."""
        self.engines = data.draw(st.sampled_from(self.engine_choices), "engines")
        self.table = data.draw(self.table_choices, "table")
        self.model = model_of(format_of(self.kind), self.table)
        self.history = begin(self._scenario(), self.directory)

    def step(self, name: str, data: st.DataObject) -> None:
        """Draw an operation of a kind, and do it twice; `read` and `teardown` compare."""
        operation = OPERATIONS[format_of(self.kind)][name].draw(data.draw, self.model)
        self.history.apply(operation)
        self.operations.append(operation)
        self.model.apply(operation)

    @precondition(lambda self: self.operations)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """A drawn point of the history, in a drawn projection, through a drawn filter."""
        at = data.draw(st.sampled_from(self.model.points()[::-1]), "point")
        columns = self.model.columns_at(at)
        names = [f.name for f in columns]
        chosen = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(names), min_size=1, unique=True)), "columns")
        where = data.draw(st.one_of(st.none(), predicates(columns)), "where")
        self._check(Read(at=at, columns=None if chosen is None else tuple(chosen), where=where), self.engines)

    def teardown(self) -> None:
        """Every point that can be read, one last time."""
        try:
            if self.operations:
                for at in self.model.points():
                    self._check(Read(at=at), self.engines)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _check(self, read: Read, engines: Sequence[str]) -> None:
        found = disagreement_of(self.history, self.model, read, engines, self._scenario)
        if found is not None:
            raise found

    def _scenario(self) -> Scenario:
        return drawn_scenario(format_of(self.kind), self.table, self.operations)


def machine(
    kind: TableKind,
    *,
    engines: Sequence[tuple[str, ...]] = TableMachine.engine_choices,
    only: Sequence[str] | None = None,
    table: Mapping[str, Any] | None = None,
) -> type[TableMachine]:
    """The machine of a kind of table.

    engines: sets of engines to draw from; an example that fails is shrunk towards the first set that still shows it.
    only: the kinds of operation, by name as in `strategies.OPERATIONS`; None: all.
    table: the settings of every table, as under a scenario's `table`; None: they are drawn.
    """
    names = [n for n in OPERATIONS[format_of(kind)] if only is None or n in only]
    rules = {f"do_{name.replace('-', '_')}": _rule(kind, name) for name in names}
    title = f"{kind.title().replace('-', '')}Machine"
    settings = {"kind": kind, "engine_choices": tuple(engines), "__doc__": f"Tables of kind {kind}."}
    drawn = tables(kind) if table is None else st.just(dict(table))
    return type(title, (TableMachine,), {**settings, "table_choices": drawn, **rules})


def _rule(kind: TableKind, name: str) -> Callable[..., Any]:
    possible = OPERATIONS[format_of(kind)][name].possible

    def step(self: TableMachine, data: st.DataObject) -> None:
        self.step(name, data)

    step.__name__ = step.__qualname__ = f"do_{name.replace('-', '_')}"
    return precondition(lambda self: possible(self.model))(rule(data=st.data())(step))
