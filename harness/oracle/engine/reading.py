"""Runs a plan: file by file, row by row, in the order that `harness.plan.scan_plan` owes to its readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from harness.errors import EngineError, HarnessError, SchemaMismatchError
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, StructType, walk
from harness.oracle.engine.columns import FileColumns, refuse_opaque
from harness.oracle.engine.conflicts import PartitionCheck
from harness.oracle.engine.equality import EqualityDeletes, Key, RowKey, key_reader
from harness.oracle.engine.files import open_file, shown, wrong_count
from harness.oracle.engine.filters import Condition, compile_filter
from harness.oracle.engine.metadata import metadata_reader
from harness.oracle.engine.positions import deleted_positions
from harness.oracle.engine.results import table_of
from harness.oracle.engine.stored import Row
from harness.plan.scan_plan import ScanPlan

_METADATA_IDS = frozenset(f.id for f in METADATA.values())
_DELETED, _ROW_ID = METADATA["_deleted"].id, METADATA["_row_id"].id

ValueOf = Callable[[Row, int, bool], Any]
"""From a row of the file, its position, and whether it is deleted, to a column's value."""


def to_arrow(plan: ScanPlan) -> pa.Table:
    """All rows of a plan, in the exact Arrow types of its columns (`harness.model.schema.arrow_type`).

    Raises:
        HarnessError: a file cannot be read, or the filter has something that the oracle does not evaluate.
        EngineError: a value fits no Arrow type, or the filter fails on a row.
    """
    try:
        rows = list(_rows(plan))
        return table_of(rows, plan.columns)
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise EngineError(f"The oracle failed: {error}", table=plan.table) from error


def _rows(plan: ScanPlan) -> Iterator[Sequence[Any]]:
    columns = _columns_to_read(plan)
    row_filter = _row_filter(plan, columns)
    places = [next(i for i, f in enumerate(columns) if f.id == wanted.id) for wanted in plan.columns]
    deleted, equality = deleted_positions(plan), EqualityDeletes(plan)
    for ordinal, entry in enumerate(plan.files.to_pylist()):
        file = _File.open(plan, ordinal, entry, columns, equality, frozenset(deleted.get(ordinal, ())))
        for row in file.live_rows(row_filter):
            yield [row[place] for place in places]


def _columns_to_read(plan: ScanPlan) -> tuple[Field, ...]:
    """The columns of the plan's filter, and after them its others, each once.

    Raises:
        SchemaMismatchError: a struct has fields whose names differ only by case, which not every engine can show.
        UnsupportedError: a type that is not known, whether a file has the column or not.
    """
    of_filter = () if plan.filter is None else plan.filter.columns
    columns = tuple({f.id: f for f in (*of_filter, *plan.columns)}.values())
    for path, f in walk(columns):
        refuse_opaque(f, ".".join(path), plan)
        if isinstance(f.type, StructType):
            names = {part.name.lower() for part in f.type.fields}
            if len(names) < len(f.type.fields):
                raise SchemaMismatchError(
                    "Cannot read a struct: names of its fields differ only by case; leave the column out",
                    cause="AmbiguousColumn",
                    field=".".join(path),
                    rule="iceberg 5.21",
                )
    return columns


@dataclass(frozen=True, slots=True)
class _RowFilter:
    """What a plan's filter asks of a row.

    columns: those that it names; a row begins with them.
    """

    condition: Condition
    columns: Sequence[Field]

    def keeps(self, values: Sequence[Any]) -> bool:
        """Whether the filter is true for a row; false and unknown are the same (iceberg 3.1)."""
        return self.condition({f.id: value for f, value in zip(self.columns, values, strict=True)}) is True


def _row_filter(plan: ScanPlan, columns: Sequence[Field]) -> _RowFilter:
    if plan.filter is None:
        return _RowFilter(lambda _: True, ())
    named = {f.id for f in plan.filter.columns}
    return _RowFilter(compile_filter(plan.filter), columns[: len(named)])


@dataclass(frozen=True, slots=True)
class _File:
    """One data file with everything that its rows need.

    entry: its row of `ScanPlan.files`.
    values: per column to read, how a row has it.
    deletes: keys that kill, each with the function that reads a row's own key.
    """

    plan: ScanPlan
    entry: Mapping[str, Any]
    rows: Iterator[Row]
    values: Sequence[ValueOf]
    deletes: Sequence[tuple[RowKey, frozenset[Key]]]
    positions: frozenset[int]
    check: PartitionCheck
    shows_deleted: bool
    exact_rows: int | None

    @staticmethod
    def open(
        plan: ScanPlan,
        ordinal: int,
        entry: Mapping[str, Any],
        columns: Sequence[Field],
        equality: EqualityDeletes,
        positions: frozenset[int],
    ) -> _File:
        path, physical, file_format = entry["path"], entry["physical"], entry["format"]
        file = shown(path, physical)
        stored = open_file(path, physical, file_format, plan.storage, table=plan.table)
        hits = equality.of_file(ordinal, entry)
        wanted = [f for f in columns if f.id not in _METADATA_IDS]
        keys = [root for delete, _ in hits for root in delete.keys]
        constants = plan.partitions[entry["partition"]].constants
        found = FileColumns.of(plan, stored, [*wanted, *keys], constants, file=file, file_format=file_format)
        # Positions and row ids are counted, so the count must be right; a cut Avro file may look whole (iceberg 7.2).
        # Nothing else in a file without columns could show that rows are lost.
        fragile = file_format != "parquet" or not stored.columns
        counts = fragile or bool(positions) or any(f.id == _ROW_ID for f in columns)
        return _File(
            plan=plan,
            entry=entry,
            rows=stored.rows,
            values=[_value_of(plan, ordinal, entry, f, found) for f in columns],
            deletes=[(key_reader(delete, found), killed) for delete, killed in hits],
            positions=positions,
            check=PartitionCheck.of(found, [*wanted, *keys]),
            shows_deleted=any(f.id == _DELETED for f in columns),
            exact_rows=entry["record_count"] if counts else None,
        )

    def live_rows(self, wanted: _RowFilter) -> Iterator[list[Any]]:
        """The rows that no delete hits, or all of them where `_deleted` is asked for, and that a filter keeps.

        Of a row that is not kept, values that the filter does not name are not looked at: no error is theirs to make.
        """
        file = shown(self.entry["path"], self.entry["physical"])
        first = self.values[: len(wanted.columns)]
        others = self.values[len(first) :]
        count = 0
        try:
            for position, row in enumerate(self.rows):
                count += 1
                self.check.see(row)
                is_dead = position in self.positions or any(read(row) in keys for read, keys in self.deletes)
                if is_dead and not self.shows_deleted:
                    continue
                named = [value(row, position, is_dead) for value in first]
                if wanted.keeps(named):
                    yield named + [value(row, position, is_dead) for value in others]
        except (ValueError, ArithmeticError) as error:
            raise SchemaMismatchError(
                f"Cannot read a value: {error}; rewrite the file", cause="IncompatibleType", file=file
            ) from error
        except HarnessError as error:
            error.within(table=self.plan.table, file=file)
            raise
        self.check.finish()
        if self.exact_rows is not None and self.exact_rows != count:
            raise wrong_count(file, count, self.exact_rows)


def _value_of(plan: ScanPlan, ordinal: int, entry: Mapping[str, Any], column: Field, found: FileColumns) -> ValueOf:
    if column.id == _DELETED:
        return lambda _row, _position, is_dead: is_dead
    if column.id in _METADATA_IDS:
        place = metadata_reader(plan, ordinal, entry, column, found)
        return lambda row, position, _: place(row, position)
    read = found.reader(column)
    return lambda row, _position, _dead: read(row)
