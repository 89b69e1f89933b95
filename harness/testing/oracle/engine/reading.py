"""Runs a plan: file by file, row by row, in the order that `harness.metadata.plan.scan_plan` owes to its readers."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from harness.errors import EngineError, HarnessError, SchemaMismatchError
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import METADATA, Field, arrow_type, walk
from harness.metadata.plan.scan_plan import ScanPlan
from harness.testing.oracle.engine.columns import FileColumns, Reader, refuse_opaque
from harness.testing.oracle.engine.deletes import DeletedKeys, deleted_positions, key_reader
from harness.testing.oracle.engine.files import open_file, shown, wrong_count
from harness.testing.oracle.engine.filters import Condition, compile_filter
from harness.testing.oracle.engine.stored import Row

__all__ = ["name", "to_arrow", "version"]


_COMPARABLE = (
    dt.BooleanType,
    dt.DateType,
    dt.DecimalType,
    dt.FloatType,
    dt.IntegerType,
    dt.StringType,
    dt.TimestampType,
)


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

    def check(self, columns: FileColumns) -> None:
        """Refuses, after the last row, that no row can be of the partition: all null, none, or all on one side."""
        values = self.rows - self.nulls
        is_conflict = self.nulls == 0 if self.value is None else values == 0 or values in (self.below, self.above)
        if self.rows and is_conflict:
            raise SchemaMismatchError(
                f"Cannot read column {self.wanted.name!r}: the file's partition says {self.value!r}, and its rows "
                "say otherwise; its field ids may be those of another table",
                cause="PartitionValueConflict",
                table=columns.plan.table,
                file=columns.file,
                field=self.wanted.name,
                rule="iceberg 5.3",
            )


def _watched(columns: FileColumns, wanted: Sequence[Field]) -> list[_Seen]:
    """The columns of a Parquet file that are stored beside their partition value, which may contradict (iceberg 5.3).

    An imported file may have ids that collide with the table's, so that a field id leads to another column.
    """
    watched: list[_Seen] = []
    for f in {f.id: f for f in wanted}.values() if columns.file_format == "parquet" else ():
        if f.id in columns.constants and isinstance(f.type, _COMPARABLE) and columns.place_of(f) is not None:
            value = columns.constants[f.id]
            if value == value:  # NaN compares with nothing
                watched.append(_Seen(f, columns.reader(f), value))
    return watched


def _array(values: list[Any], type_: dt.Type) -> pa.Array:
    match type_:
        case dt.StructType(fields=()):
            return pa.array([None if v is None else {} for v in values], pa.struct([]))
        case dt.StructType(fields=fields):
            kinds = [pa.field(f.name, _nullable(f.type)) for f in fields]
            parts = [_array([None if v is None else v.get(f.id) for v in values], f.type) for f in fields]
            return pa.StructArray.from_arrays(
                parts, fields=kinds, mask=pa.array([v is None for v in values], pa.bool_())
            )
        case dt.ListType(element=element):
            offsets, items = _flat(values)
            kind = pa.list_(pa.field("element", _nullable(element.type)))
            return pa.ListArray.from_arrays(offsets, _array(items, element.type), type=kind)
        case dt.MapType(key=key, value=value):
            offsets, pairs = _flat(values)
            keys, items = _array([k for k, _ in pairs], key.type), _array([v for _, v in pairs], value.type)
            return pa.MapArray.from_arrays(offsets, keys, items, type=_nullable(type_))
        case dt.DateType():
            return pa.array(values, pa.int32()).view(pa.date32())
        case dt.TimeType() | dt.TimestampType():
            return pa.array(values, pa.int64()).view(arrow_type(type_))
        case dt.UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case _:
            return pa.array(values, arrow_type(type_))


def _flat(values: list[Any]) -> tuple[pa.Array, list[Any]]:
    """The offsets of lists, null for a null list, and the items of all."""
    offsets: list[int | None] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        items.extend(value or ())
    return pa.array([*offsets, len(items)], pa.int32()), items


def _nullable(type_: dt.Type) -> pa.DataType:
    """The Arrow type with fields that may be null."""
    match type_:
        case dt.StructType(fields=fields):
            return pa.struct([pa.field(f.name, _nullable(f.type)) for f in fields])
        case dt.ListType(element=element):
            return pa.list_(pa.field("element", _nullable(element.type)))
        case dt.MapType(key=key, value=value):
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
        columns = _columns_to_read(plan)
        condition = None if plan.filter is None else compile_filter(plan.filter)
        places = [next(i for i, f in enumerate(columns) if f.id == wanted.id) for wanted in plan.columns]
        deleted, equality = deleted_positions(plan), DeletedKeys(plan)
        rows: list[list[Any]] = []
        for ordinal, entry in enumerate(plan.files.to_pylist()):
            live = _live_rows(plan, ordinal, entry, columns, condition, equality, deleted.get(ordinal, set()))
            rows += ([row[place] for place in places] for row in live)
        if not plan.columns:
            return pa.table({"rows": pa.nulls(len(rows))}).select([])
        # Every field may be null, at every level: tables hold nulls in required columns (iceberg 5.13).
        arrays = [_array([row[i] for row in rows], f.type) for i, f in enumerate(plan.columns)]
        return pa.Table.from_arrays(arrays, names=[f.name for f in plan.columns])
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise EngineError(f"The oracle failed: {error}", table=plan.table) from error


def _columns_to_read(plan: ScanPlan) -> tuple[Field, ...]:
    """The columns of the plan's filter, and after them its others, each once."""
    of_filter = () if plan.filter is None else plan.filter.columns
    columns = tuple({f.id: f for f in (*of_filter, *plan.columns)}.values())
    for path, f in walk(columns):
        refuse_opaque(f, ".".join(path), plan)
        if isinstance(f.type, dt.StructType):
            names = {part.name.lower() for part in f.type.fields}
            if len(names) < len(f.type.fields):
                raise SchemaMismatchError(
                    "Cannot read a struct: names of its fields differ only by case; leave the column out",
                    cause="AmbiguousColumn",
                    field=".".join(path),
                    rule="iceberg 5.21",
                )
    return columns


def _live_rows(
    plan: ScanPlan,
    ordinal: int,
    entry: Mapping[str, Any],
    columns: Sequence[Field],
    condition: Condition | None,
    equality: DeletedKeys,
    positions: set[int],
) -> Iterator[list[Any]]:
    """The rows of a data file that the filter keeps, without deleted rows unless `_deleted` is read.

    Of a row that is not kept, values that the filter does not name are not looked at: no error is theirs to make.
    """
    path, physical, file_format = entry["path"], entry["physical"], entry["format"]
    file = shown(path, physical)
    stored = open_file(path, physical, file_format, plan.storage, table=plan.table)
    hits = equality.of_file(ordinal, entry)
    wanted = [f for f in columns if f.id not in _METADATA_IDS] + [root for delete, _ in hits for root in delete.keys]
    constants = plan.partitions[entry["partition"]].constants
    found = FileColumns.of(plan, stored, wanted, constants, file=file, file_format=file_format)
    values = [_value_of(plan, ordinal, entry, f, found) for f in columns]
    filtered = 0 if plan.filter is None else len({f.id for f in plan.filter.columns})
    deletes = [(key_reader(delete, found), killed) for delete, killed in hits]
    watched = _watched(found, wanted)
    shows_deleted = any(f.id == _DELETED for f in columns)
    count = 0
    try:
        for position, row in enumerate(stored.rows):
            count += 1
            for seen in watched:
                seen.see(row)
            is_dead = position in positions or any(read(row) in keys for read, keys in deletes)
            if is_dead and not shows_deleted:
                continue
            named = [value(row, position, is_dead) for value in values[:filtered]]
            by_id = {f.id: value for f, value in zip(columns, named, strict=False)}
            if condition is None or condition(by_id) is True:  # false and unknown are the same (iceberg 3.1)
                yield named + [value(row, position, is_dead) for value in values[filtered:]]
    except (ValueError, ArithmeticError) as error:
        raise SchemaMismatchError(
            f"Cannot read a value: {error}; rewrite the file", cause="IncompatibleType", file=file
        ) from error
    except HarnessError as error:
        error.within(table=plan.table, file=file)
        raise
    for seen in watched:
        seen.check(found)
    # Positions and row ids are counted, so the count must be right; a cut Avro file may look whole (iceberg 7.2).
    # Nothing else in a file without columns could show that rows are lost.
    counts = file_format != "parquet" or not stored.columns or positions or any(f.id == _ROW_ID for f in columns)
    if counts and entry["record_count"] not in (None, count):
        raise wrong_count(file, count, entry["record_count"])


def _value_of(plan: ScanPlan, ordinal: int, entry: Mapping[str, Any], column: Field, found: FileColumns) -> ValueOf:
    """Reads a column of a file, among them metadata columns (iceberg 5.17, 5.18; delta W2, W3)."""
    if column.id not in _METADATA_IDS:
        read = found.reader(column)
        return lambda row, _position, _dead: read(row)
    if column.id == _DELETED:
        return lambda _row, _position, is_dead: is_dead
    first_row_id = entry["first_row_id"]
    stored = found.stored_metadata(column, plan.materialized.get(column.name))

    def own(row: Row, inherited: Any) -> Any:
        """The value of the file itself, or else the inherited one."""
        value = None if stored is None else stored(row)
        return inherited if value is None else value

    match column.name:
        case "_file":
            return lambda _row, _position, _dead: entry["path"]
        case "_pos":
            return lambda _row, position, _dead: position
        case "_spec_id":
            return lambda _row, _position, _dead: entry["spec_id"]
        case "_partition":
            # The values of the file's own spec, by field id; a table whose specs have no field has no struct.
            values = (
                dict(plan.partitions[entry["partition"]].values) if isinstance(column.type, dt.StructType) else None
            )
            return lambda _row, _position, _dead: values
        case "_row_id":
            return lambda row, position, _: None if first_row_id is None else own(row, first_row_id + position)
        case "_last_updated_sequence_number":
            return lambda row, _position, _: None if first_row_id is None else own(row, entry["sequence_number"])
        case "_row_commit_version":
            versions = plan.row_commit_versions
            version = None if versions is None else versions[ordinal].as_py()
            return lambda row, _position, _dead: own(row, version)
        case other:
            raise AssertionError(f"no metadata column is called {other}")


name = "oracle"


def version() -> str:
    """The version of Python, which runs the plans."""
    return f"Python {platform.python_version()}"
