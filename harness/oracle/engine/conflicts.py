"""Whether a file's own partition column contradicts its partition tuple (iceberg 5.3).

A file that was imported may have ids that collide with the table's, so that a field id leads to another column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import SchemaMismatchError
from harness.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
)
from harness.oracle.engine.columns import FileColumns, Reader
from harness.oracle.engine.stored import Row

_COMPARABLE = (BooleanType, DateType, DecimalType, FloatType, IntegerType, StringType, TimestampType)


@dataclass(slots=True)
class _Seen:
    """What the rows have held so far."""

    wanted: Field
    read: Reader
    value: Any
    rows: int = 0
    nulls: int = 0
    below: int = 0
    above: int = 0

    def see(self, row: Row) -> None:
        held = self.read(row)
        self.rows += 1
        if held is None:
            self.nulls += 1
        elif self.value is not None and held == held:
            self.below += held < self.value
            self.above += held > self.value

    @property
    def is_conflict(self) -> bool:
        """Whether no row can be of the partition: all null, none null, or all on one side of its value."""
        if self.rows == 0:
            return False
        if self.value is None:
            return self.nulls == 0
        values = self.rows - self.nulls
        return values == 0 or values in (self.below, self.above)


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """Watches the rows of one file."""

    columns: FileColumns
    seen: list[_Seen] = field(default_factory=list)

    @staticmethod
    def of(columns: FileColumns, wanted: Sequence[Field]) -> PartitionCheck:
        """Watches the wanted columns of a Parquet file that have a partition value and are stored nevertheless."""
        check = PartitionCheck(columns)
        if columns.file_format != "parquet":
            return check
        for f in {f.id: f for f in wanted}.values():
            if f.id not in columns.constants or not isinstance(f.type, _COMPARABLE):
                continue
            value = columns.constants[f.id]
            if columns.place_of(f) is not None and value == value:  # NaN compares with nothing
                check.seen.append(_Seen(f, columns.reader(f), value))
        return check

    def see(self, row: Row) -> None:
        """Takes notice of a row."""
        for seen in self.seen:
            seen.see(row)

    def finish(self) -> None:
        """Judges, after the last row.

        Raises:
            SchemaMismatchError: a column contradicts the tuple.
        """
        for seen in self.seen:
            if seen.is_conflict:
                raise SchemaMismatchError(
                    f"Cannot read column {seen.wanted.name!r}: the file's partition says {seen.value!r}, and its rows "
                    "say otherwise; its field ids may be those of another table",
                    cause="PartitionValueConflict",
                    table=self.columns.plan.table,
                    file=self.columns.file,
                    field=seen.wanted.name,
                    rule="iceberg 5.3",
                )
