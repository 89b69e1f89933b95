"""Whole histories: the settings of a table, and operations that each fit what the table has become."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from harness.testing.models.model import TableModel, model_of
from harness.testing.properties.strategies import delta_operations, iceberg_operations
from harness.testing.properties.strategies.columns import Operation
from harness.testing.properties.strategies.settings import tables
from harness.testing.properties.strategies.types import TableKind
from harness.testing.scenarios.model import TableFormat

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
OPERATIONS: Final[Mapping[TableFormat, Mapping[str, Any]]] = {
    "iceberg": iceberg_operations.OPERATIONS,
    "delta": delta_operations.OPERATIONS,
}
"""By format: the kinds of operation that can be drawn, by name; each has `possible(model)` and `draw(draw, model)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHistory:
    """A history and its model, all operations done. Running it needs `IcebergHistory` or `DeltaHistory`."""

    format: TableFormat
    table: Mapping[str, Any]
    operations: tuple[Operation, ...]
    model: TableModel


@st.composite
def histories(draw: Draw, kind: TableKind, *, max_size: int = 6, only: Collection[str] | None = None) -> DrawnHistory:
    """Histories that begin with rows. only: the kinds of operation, as in `OPERATIONS`; None: all."""
    format_ = format_of(kind)
    table = draw(tables(kind))
    model = model_of(format_, table)
    kinds = {n: o for n, o in OPERATIONS[format_].items() if only is None or n in only}
    operations = []
    for number in range(draw(st.integers(1, max_size))):
        names = ["append"] if number == 0 else [n for n, o in kinds.items() if o.possible(model)]
        operation = kinds[draw(st.sampled_from(names))].draw(draw, model)
        model.apply(operation)
        operations.append(operation)
    return DrawnHistory(format=format_, table=table, operations=tuple(operations), model=model)


def format_of(kind: TableKind) -> TableFormat:
    """The format of a kind of table."""
    return "delta" if kind == "delta" else "iceberg"
