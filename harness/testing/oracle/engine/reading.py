"""Runs a plan: file by file, row by row, in the order that `harness.metadata.plan.scan_plan` owes to its readers."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from harness.errors import EngineError, HarnessError, SchemaMismatchError
from harness.metadata.model.schema import (
    METADATA,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    arrow_type,
    walk,
)
from harness.metadata.plan.scan_plan import ScanPlan
from harness.testing.oracle.engine.columns import FileColumns, Reader, refuse_opaque
from harness.testing.oracle.engine.deletes import DeletedKeys, Key, RowKey, deleted_positions, key_reader
from harness.testing.oracle.engine.files import open_file, shown, wrong_count
from harness.testing.oracle.engine.filters import Condition, compile_filter
from harness.testing.oracle.engine.stored import Row

__all__ = ["name", "to_arrow", "version"]


_COMPARABLE = (BooleanType, DateType, DecimalType, FloatType, IntegerType, StringType, TimestampType)


@dataclass(slots=True)
class _Seen:
    """The values of a column in the rows so far."""

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
        """Tells whether no row can be of the partition: all null, none null, or all on one side of its value."""
        if self.rows == 0:
            return False
        if self.value is None:
            return self.nulls == 0
        values = self.rows - self.nulls
        return values == 0 or values in (self.below, self.above)


@dataclass(frozen=True, slots=True)
class _PartitionCheck:
    """Checks that a file's own partition column does not contradict its partition tuple (iceberg 5.3).

    An imported file may have ids that collide with the table's, so that a field id leads to another column.
    """

    columns: FileColumns
    seen: list[_Seen] = field(default_factory=list)

    @staticmethod
    def of(columns: FileColumns, wanted: Sequence[Field]) -> _PartitionCheck:
        """Watches the wanted columns of a Parquet file that are stored beside their partition value."""
        check = _PartitionCheck(columns)
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


def _metadata_reader(
    plan: ScanPlan, ordinal: int, entry: Mapping[str, Any], column: Field, columns: FileColumns
) -> Callable[[Row, int], Any]:
    """Reads a metadata column by a row of a file and its position (iceberg 5.17, 5.18; delta W2, W3).

    Args:
        plan: what is read.
        ordinal: of the data file.
        entry: its row of `ScanPlan.files`.
        column: one of `harness.metadata.model.schema.METADATA`, but `_deleted`.
        columns: of the file.
    """
    first_row_id = entry["first_row_id"]
    stored = columns.stored_metadata(column, plan.materialized.get(column.name))

    def own(row: Row, inherited: Any) -> Any:
        """The value of the file itself, or else the inherited one."""
        value = None if stored is None else stored(row)
        return inherited if value is None else value

    match column.name:
        case "_file":
            return lambda _row, _position: entry["path"]
        case "_pos":
            return lambda _row, position: position
        case "_spec_id":
            return lambda _row, _position: entry["spec_id"]
        case "_partition":
            # The values of the file's own spec, by field id; a table whose specs have no field has no struct.
            values = dict(plan.partitions[entry["partition"]].values) if isinstance(column.type, StructType) else None
            return lambda _row, _position: values
        case "_row_id":
            return lambda row, position: None if first_row_id is None else own(row, first_row_id + position)
        case "_last_updated_sequence_number":
            return lambda row, _position: None if first_row_id is None else own(row, entry["sequence_number"])
        case "_row_commit_version":
            versions = plan.row_commit_versions
            version = None if versions is None else versions[ordinal].as_py()
            return lambda row, _position: own(row, version)
        case other:
            raise AssertionError(f"no metadata column is called {other}")


def _table_of(rows: Sequence[Sequence[Any]], columns: Sequence[Field]) -> pa.Table:
    """The table of `rows`, whose values are in the order of `columns`.

    Every field may be null, at every level: tables hold nulls in required columns (iceberg 5.13).
    """
    if not columns:
        return pa.table({"rows": pa.nulls(len(rows))}).select([])
    arrays = [_array([row[i] for row in rows], f.type) for i, f in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[f.name for f in columns])


def _array(values: list[Any], type_: Type) -> pa.Array:
    match type_:
        case StructType(fields=fields):
            return _structs(values, fields)
        case ListType(element=element):
            offsets, items = _flat(values)
            kind = pa.list_(pa.field("element", _nullable(element.type)))
            return pa.ListArray.from_arrays(offsets, _array(items, element.type), type=kind)
        case MapType(key=key, value=value):
            offsets, pairs = _flat(values)
            keys, items = _array([k for k, _ in pairs], key.type), _array([v for _, v in pairs], value.type)
            return pa.MapArray.from_arrays(offsets, keys, items, type=_nullable(type_))
        case DateType():
            return pa.array(values, pa.int32()).view(pa.date32())
        case TimeType() | TimestampType():
            return pa.array(values, pa.int64()).view(arrow_type(type_))
        case UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case _:
            return pa.array(values, arrow_type(type_))


def _structs(values: list[Any], fields: tuple[Field, ...]) -> pa.Array:
    kinds = [pa.field(f.name, _nullable(f.type)) for f in fields]
    parts = [_array([None if v is None else v.get(f.id) for v in values], f.type) for f in fields]
    mask = pa.array([v is None for v in values], pa.bool_())
    if not fields:
        return pa.array([None if v is None else {} for v in values], pa.struct([]))
    return pa.StructArray.from_arrays(parts, fields=kinds, mask=mask)


def _flat(values: list[Any]) -> tuple[pa.Array, list[Any]]:
    """The offsets of lists, null for a null list, and the items of all."""
    offsets: list[int | None] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        items.extend(value or ())
    return pa.array([*offsets, len(items)], pa.int32()), items


def _nullable(type_: Type) -> pa.DataType:
    """The Arrow type with fields that may be null."""
    match type_:
        case StructType(fields=fields):
            return pa.struct([pa.field(f.name, _nullable(f.type)) for f in fields])
        case ListType(element=element):
            return pa.list_(pa.field("element", _nullable(element.type)))
        case MapType(key=key, value=value):
            return pa.map_(_nullable(key.type), _nullable(value.type))
        case _:
            return arrow_type(type_)


_METADATA_IDS = frozenset(f.id for f in METADATA.values())
_DELETED, _ROW_ID = METADATA["_deleted"].id, METADATA["_row_id"].id

ValueOf = Callable[[Row, int, bool], Any]
"""The value of a column, by a row of the file, its position, and whether it is deleted."""


def to_arrow(plan: ScanPlan) -> pa.Table:
    """All rows of a plan, in the exact Arrow types of its columns (`harness.metadata.model.schema.arrow_type`).

    Raises:
        HarnessError: a file cannot be read, or the filter has something that the oracle does not evaluate.
        EngineError: a value fits no Arrow type, or the filter fails on a row.
    """
    try:
        rows = list(_rows(plan))
        return _table_of(rows, plan.columns)
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise EngineError(f"The oracle failed: {error}", table=plan.table) from error


def _rows(plan: ScanPlan) -> Iterator[Sequence[Any]]:
    columns = _columns_to_read(plan)
    row_filter = _row_filter(plan, columns)
    places = [next(i for i, f in enumerate(columns) if f.id == wanted.id) for wanted in plan.columns]
    deleted, equality = deleted_positions(plan), DeletedKeys(plan)
    for ordinal, entry in enumerate(plan.files.to_pylist()):
        file = _File.open(plan, ordinal, entry, columns, equality, frozenset(deleted.get(ordinal, ())))
        for row in file.live_rows(row_filter):
            yield [row[place] for place in places]


def _columns_to_read(plan: ScanPlan) -> tuple[Field, ...]:
    """The columns of the plan's filter, and after them its others, each once."""
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
    """A plan's filter on a row.

    columns: those that it names; a row begins with them.
    """

    condition: Condition
    columns: Sequence[Field]

    def keeps(self, values: Sequence[Any]) -> bool:
        """Tells whether the filter is true for a row; false and unknown are the same (iceberg 3.1)."""
        return self.condition({f.id: value for f, value in zip(self.columns, values, strict=True)}) is True


def _row_filter(plan: ScanPlan, columns: Sequence[Field]) -> _RowFilter:
    if plan.filter is None:
        return _RowFilter(lambda _: True, ())
    named = {f.id for f in plan.filter.columns}
    return _RowFilter(compile_filter(plan.filter), columns[: len(named)])


@dataclass(frozen=True, slots=True)
class _File:
    """A data file with everything that its rows need.

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
    check: _PartitionCheck
    shows_deleted: bool
    exact_rows: int | None

    @staticmethod
    def open(
        plan: ScanPlan,
        ordinal: int,
        entry: Mapping[str, Any],
        columns: Sequence[Field],
        equality: DeletedKeys,
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
            check=_PartitionCheck.of(found, [*wanted, *keys]),
            shows_deleted=any(f.id == _DELETED for f in columns),
            exact_rows=entry["record_count"] if counts else None,
        )

    def live_rows(self, wanted: _RowFilter) -> Iterator[list[Any]]:
        """The rows that a filter keeps, without deleted rows unless `_deleted` is read.

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
        place = _metadata_reader(plan, ordinal, entry, column, found)
        return lambda row, position, _: place(row, position)
    read = found.reader(column)
    return lambda row, _position, _dead: read(row)


name = "oracle"


def version() -> str:
    """The version of Python, which runs the plans."""
    return f"Python {platform.python_version()}"
