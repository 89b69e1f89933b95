"""The values of data files, column by column, as rules of level data read them: one pass of DuckDB over many files.

The values are read as the table's, by the plan of a read without skipping and without deletes. What is recorded is what
reads skip by: `PlanStatistics.bounds`, where truncated and wide bounds are widened.
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
    """A column, a field of structs, or the elements of lists and maps, in one file: recorded beside actual.

    name: with a point between two levels. stored: the names in data files, from the top down. listed: the values are
    those in lists or maps. groups: the values by row group. rows to greatest: the same of all together. recorded: what
    reads skip by. at: the place of the file in `recorded`.
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
        """The recorded and the actual range, where both are numbers; an unknown bound is the actual one."""
        ends = (self.least if lower is None else lower, self.greatest if upper is None else upper)
        values = (*ends, self.least, self.greatest)
        if not all(isinstance(value, int | float | Decimal) and math.isfinite(value) for value in values):
            return None
        return (float(ends[0]), float(ends[1])), (float(self.least), float(self.greatest))

    def text(self, value: object) -> str:
        """A value of the column for people."""
        return value_text(value, self.field.type)

    def breach(self, field: str, recorded: str, actual: str, spans: Spans | None = None) -> Breach:
        """The breach by a statement about the column."""
        file = self.statements.named_by.get(self.path, self.path)
        return Breach(Place(file=file, entry=self.path, field=field, column=self.name), recorded, actual, spans=spans)

    @property
    def in_orc_list(self) -> bool:
        """True for elements, keys and values in ORC, which keeps no counts of them; Java takes rows for those."""
        entry = self.statements.entries.get(self.path)
        return self.listed and entry is not None and entry.format == "orc"

    def in_stats(self, name: str, stored: Sequence[str] | None = None) -> Any:
        """The value for the column under a name of Delta's statistics; None: there is none that a reader gets."""
        return recorded_statistic(self.statements.stats.get(self.path), name, self.stored if stored is None else stored)


_document = lru_cache(maxsize=16)(parse_document)


def recorded_statistic(stats: str | None, name: str, stored: Sequence[str]) -> object:
    """The value for a column under a name of the statistics of a file of Delta; None: there is none."""
    return None if stats is None else value_at(_document(stats), (name, *stored))


def _has_recorded_counts(leaf: LeafColumn, statements: Statements, paths: Sequence[str]) -> bool:
    """True unless a column takes reading of lists, and the metadata counts nothing of them in these files."""
    if not leaf.listed and not isinstance(leaf.path[-1].type, dt.ListType | dt.MapType):
        return True
    id_, entries = leaf.path[-1].id, [statements.entries.get(path) for path in paths]
    if any(id_ in (entry.value_counts or entry.null_value_counts or ()) for entry in entries if entry is not None):
        return True
    return any(type(recorded_statistic(statements.stats.get(path), "nullCount", leaf.stored)) is int for path in paths)


def column_values(
    plan: PlannedScan, statements: Statements, paths: Sequence[str], names: Sequence[str] | None
) -> Iterator[ColumnValues]:
    """The columns of some files of a plan, before deletes, at every depth.

    paths: of the files, as recorded. names: the columns that are wanted; None: all.
    """
    fields = {f.name: f for f in plan.schema.fields}
    for name in names or ():
        if name not in fields:
            raise UnknownColumnError(f"Unknown column {name!r}: there are {', '.join(fields)}", field=name)
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
