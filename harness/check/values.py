"""The values of data files by column, for rules of level `data`: one DuckDB pass over many files.

The values are read with the table's schema, by a plan without skipping and without deletes. The recorded bounds are
those that reads use for skipping (`PlanStatistics.bounds`). Truncated and inexact bounds are widened there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from harness.check.files import Statements
from harness.check.rules import Breach, Place, Spans
from harness.engines.duckdb.leaves import GroupValues, LeafColumn, group_values
from harness.errors import UnknownColumnError
from harness.metadata.delta.statistics import parse_document, value_at
from harness.metadata.filters import sqltext
from harness.metadata.filters.skipping import ColumnBounds
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import CellValue, value_text
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """Recorded and actual values of one column in one file.

    The column may also be a field of a struct, or the elements of a list or map.

    Attributes:
        field: The column.
        name: The name, with dots between levels.
        stored: The names in data files, outermost first.
        path: The recorded path of the file.
        listed: True if the values are inside lists or maps.
        plan: The plan of the read.
        statements: The metadata's statements about files.
        groups: The values by row group.
        rows: The number of rows in all row groups. The next five attributes are also totals of all row groups.
        nulls: The number of nulls.
        gaps: The number of nulls from null structs, and of null or empty lists. Writers may count them or not.
        nans: The number of NaN values.
        least: The least value, or None.
        greatest: The greatest value, or None.
        recorded: The bounds that reads use for skipping, or None.
        at: The position of the file in `recorded`.
    """

    field: dt.Field
    name: str
    stored: tuple[str, ...]
    path: str
    listed: bool
    plan: PlannedScan
    statements: Statements
    groups: Sequence[GroupValues]
    rows: int
    nulls: int
    gaps: int
    nans: int
    least: CellValue
    greatest: CellValue
    recorded: ColumnBounds | None
    at: int

    def spans(self, lower: CellValue, upper: CellValue) -> Spans | None:
        """Return the recorded and the actual range if both are numbers, else None. An unknown bound counts as exact."""
        ends = (self.least if lower is None else lower, self.greatest if upper is None else upper)
        values = (*ends, self.least, self.greatest)
        if not all(isinstance(value, int | float | Decimal) and math.isfinite(value) for value in values):
            return None
        return (float(ends[0]), float(ends[1])), (float(self.least), float(self.greatest))

    def text(self, value: object) -> str:
        """Format a value of the column for people."""
        return value_text(value, self.field.type)

    def breach(self, field: str, recorded: str, actual: str, spans: Spans | None = None) -> Breach:
        """Return a breach for a wrong statement about the column."""
        file = self.statements.named_by.get(self.path, self.path)
        return Breach(Place(file=file, entry=self.path, field=field, column=self.name), recorded, actual, spans=spans)

    @property
    def in_orc_list(self) -> bool:
        """True for elements, keys, and values in ORC files.

        ORC does not count these values, and Java writers record the row count instead.
        """
        entry = self.statements.entries.get(self.path)
        return self.listed and entry is not None and entry.format == "orc"

    def in_stats(self, name: str, stored: Sequence[str] | None = None) -> Any:
        """Return the column's value in Delta statistics by name, or None if readers cannot use the value."""
        return recorded_statistic(self.statements.stats.get(self.path), name, self.stored if stored is None else stored)


_document = lru_cache(maxsize=16)(parse_document)


def recorded_statistic(stats: str | None, name: str, stored: Sequence[str]) -> object:
    """Return a column's value in a file's Delta statistics by name, or None if there is none."""
    return None if stats is None else value_at(_document(stats), (name, *stored))


def _has_recorded_counts(leaf: LeafColumn, statements: Statements, paths: Sequence[str]) -> bool:
    """Return whether checking a column is worth its cost.

    Lists are only checked if the metadata of these files has counts of their values.
    """
    if not leaf.listed and not isinstance(leaf.path[-1].type, dt.ListType | dt.MapType):
        return True
    id_, entries = leaf.path[-1].id, [statements.entries.get(path) for path in paths]
    if any(id_ in (entry.value_counts or entry.null_value_counts or ()) for entry in entries if entry is not None):
        return True
    return any(type(recorded_statistic(statements.stats.get(path), "nullCount", leaf.stored)) is int for path in paths)


def column_values(
    plan: PlannedScan, statements: Statements, paths: Sequence[str], names: Sequence[str] | None
) -> Iterator[ColumnValues]:
    """Yield the values of the columns in some files of a plan, before deletes, including nested columns.

    Args:
        plan: The plan.
        statements: The metadata's statements about files.
        paths: The recorded paths of the files.
        names: The columns to read, or None for all.

    Raises:
        UnknownColumnError: A name is not a column.
    """
    fields = {f.name: f for f in plan.schema.fields}
    for name in names or ():
        if name not in fields:
            raise UnknownColumnError(f"Unknown column {name!r}: the columns are {', '.join(fields)}", field=name)
    leaves = [
        leaf
        for f in fields.values()
        if names is None or f.name in names
        for leaf in LeafColumn(path=(f,), value=sqltext.name(f.name)).below(in_lists=plan.format == "iceberg")
        if _has_recorded_counts(leaf, statements, paths)
    ]
    bounds = {} if plan.statistics is None else plan.statistics.bounds([leaf.path[-1] for leaf in leaves])
    ordinals = {path: at for at, path in enumerate(plan.files.column("path").to_pylist())}
    for path, leaf, groups in group_values(plan, leaves, paths):
        yield ColumnValues(
            field=leaf.path[-1],
            name=leaf.name,
            stored=leaf.stored,
            path=path,
            listed=leaf.listed,
            plan=plan,
            statements=statements,
            groups=groups,
            rows=sum(part.rows for part in groups),
            nulls=sum(part.nulls for part in groups),
            gaps=sum(part.gaps for part in groups),
            nans=sum(part.nans for part in groups),
            least=min((part.least for part in groups if part.least is not None), default=None),
            greatest=max((part.greatest for part in groups if part.greatest is not None), default=None),
            recorded=bounds.get(leaf.path[-1].id),
            at=ordinals[path],
        )
