"""Whole histories: the settings of a table, and operations that each fit the state of the table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from drawn.models.model import TableModel, model_of
from drawn.strategies import delta_operations, iceberg_operations
from drawn.strategies.columns import HistoryOperation, Operation
from drawn.strategies.settings import tables
from drawn.strategies.types import Draw, TableKind
from harness.suite.scenarios.model import Selector, TableFormat

OPERATIONS: Final[Mapping[TableFormat, Mapping[str, Any]]] = {
    "iceberg": iceberg_operations.OPERATIONS,
    "delta": delta_operations.OPERATIONS,
}
"""The kinds of operations by format and name. Each has `possible(model)` and `draw(draw, model)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHistory:
    """A history and its model after all operations. `agreement.build_table` builds the table."""

    format: TableFormat
    table: Mapping[str, Any]
    operations: tuple[Operation, ...]
    model: TableModel


_DELETES: Final[Mapping[TableFormat, Sequence[str]]] = {
    "iceberg": (*("delete-positions", "delete-by-vectors") * 2, "delete-equal", "upsert"),
    "delta": ("delete-rows", "merge"),
}
"""The operations that delete rows of remaining files, repeated by their frequency. Iceberg 1 has none."""
_OF_KEYS: Final = ("delete-equal", "upsert", "merge")
"""Deletes by key, which may match no row."""


@st.composite
def histories(
    draw: Draw,
    kind: TableKind,
    *,
    min_size: int = 1,
    max_size: int = 6,
    only: Collection[str] | None = None,
    more: Mapping[str, HistoryOperation] | None = None,
    table: Mapping[str, Any] | None = None,
    deleting: bool = False,
) -> DrawnHistory:
    """Draw histories that start with rows.

    Args:
        draw: Hypothesis' function.
        kind: The kind of table.
        min_size: The minimum number of operations.
        max_size: The maximum number of operations.
        only: The allowed kinds of operations, as in `OPERATIONS`. None for all.
        more: Further kinds of operations.
        table: The table's settings. None to draw them.
        deleting: If true, every second operation deletes rows, or is the upgrade that deletes require, until a delete
            applies to a row. Near the end, every operation does.
    """
    format_: TableFormat = "delta" if kind == "delta" else "iceberg"
    settings = draw(tables(kind)) if table is None else table
    model = model_of(format_, settings)
    kinds = {n: o for n, o in OPERATIONS[format_].items() if only is None or n in only} | dict(more or {})
    size, owed = draw(st.integers(min_size, max_size)), deleting
    operations: list[Operation] = []
    while len(operations) < size or (owed and len(operations) < max_size):
        names: list[str] = [n for n, o in kinds.items() if o.possible(model)] if operations else ["append"]
        # leaves time for an upgrade, a delete that may apply to no row, and one that does
        late = len(operations) >= min(size, max_size - 3)
        if operations and owed and (late or draw(st.booleans())):
            surely = len(operations) == max_size - 1
            deletes = [n for n in _DELETES[format_] if n in names and not (surely and n in _OF_KEYS)]
            names = deletes or ["upgrade" if "upgrade" in names else "append"]
        operation = kinds[draw(st.sampled_from(names))].draw(draw, model)
        model.apply(operation)
        operations.append(operation)
        owed = owed and not model.hiding(Selector())
    return DrawnHistory(format=format_, table=settings, operations=tuple(operations), model=model)
