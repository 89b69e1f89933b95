"""The rows of a scan.

For each row of a data file, the reader checks in this order: the position in the unfiltered file against deleted
positions, equality deletes, and the filter. Then it converts the requested columns.

Spec: Iceberg, "Scan Planning" (iceberg 4.1 to 4.28).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from harness import errors
from harness.suite.oracle import types as dt
from harness.suite.oracle.columns import FileColumns, ValueReader, refuse_opaque
from harness.suite.oracle.files import check_row_count, open_file, row_count_error
from harness.suite.oracle.paths import path_text
from harness.suite.oracle.scan import DataFile, EqualityDelete, Filter, Scan
from harness.suite.oracle.types import METADATA, Field, Row, arrow_array, value_at, walk

_METADATA_IDS = frozenset(f.id for f in METADATA.values())
_DELETED, _ROW_ID = METADATA["_deleted"].id, METADATA["_row_id"].id

ValueOf: TypeAlias = Callable[[Row, int, bool], Any]
"""Returns the value of a column from a row of the file, its position, and whether it is deleted."""
EqualityKey: TypeAlias = tuple[Hashable, ...]
EqualityKeys: TypeAlias = dict[int, frozenset[EqualityKey]]
"""The keys of the equality delete files that were read, by `id()` of the delete."""


def rows_of(scan: Scan) -> pa.Table:
    """Return all rows of a scan. Raise HarnessError if a file cannot be read or the filter fails on a row."""
    try:
        rows = values_of(scan)
        if not scan.columns:
            return pa.table({"rows": pa.nulls(len(rows))}).select([])
        arrays = [arrow_array([row[i] for row in rows], f.type) for i, f in enumerate(scan.columns)]
        return pa.Table.from_arrays(arrays, names=[f.name for f in scan.columns])
    except errors.HarnessError as error:
        raise error.within(table=scan.table, snapshot=scan.snapshot, format=scan.format) from error.__cause__
    except (pa.ArrowException, OverflowError) as error:
        raise errors.EngineError(f"The oracle failed: {error}", table=scan.table) from error


def values_of(scan: Scan) -> list[list[Any]]:
    """Return the values of all rows of a scan."""
    columns = _columns_to_read(scan)
    places = [next(i for i, f in enumerate(columns) if f.id == column.id) for column in scan.columns]
    rows: list[list[Any]] = []
    keys: EqualityKeys = {}
    deleted = [set[int]() if file.positions is None else set(file.positions()) for file in scan.data]
    for file, positions in zip(scan.data, deleted, strict=True):
        try:
            rows += ([row[place] for place in places] for row in _live_rows(scan, file, columns, positions, keys))
        except errors.HarnessError as error:
            raise error.within(file=path_text(file.path, file.physical)) from error.__cause__
        except (ValueError, ArithmeticError) as error:
            message, name = f"Cannot read a value: {error}; rewrite the file", path_text(file.path, file.physical)
            raise errors.SchemaMismatchError(message, cause="IncompatibleType", file=name) from error
    return rows


def _columns_to_read(scan: Scan) -> tuple[Field, ...]:
    """Return the columns of the filter, followed by the other columns, each once."""
    of_filter = () if scan.filter is None else scan.filter.columns
    columns = tuple({f.id: f for f in (*of_filter, *scan.columns)}.values())
    for path, f in walk(columns):
        refuse_opaque(f, path, scan)
        if isinstance(f.type, dt.StructType) and len({p.name.lower() for p in f.type.fields}) < len(f.type.fields):
            message = "Cannot read a struct: names of its fields differ only by case; leave the column out"
            raise errors.SchemaMismatchError(message, cause="AmbiguousColumn", field=path, rule="iceberg 5.21")
    return columns


def _live_rows(
    scan: Scan, file: DataFile, columns: Sequence[Field], positions: set[int], keys: EqualityKeys
) -> list[list[object]]:
    """Return the rows of a data file that match the filter, without deleted rows unless `_deleted` is read.

    Only the columns of the filter are read for a row that does not match, so its other values cannot raise an error.
    """
    stored = open_file(file, scan.files)
    for delete in file.equality:
        if id(delete) not in keys:
            keys[id(delete)] = _keys_of(scan, delete)
    requested = [f for f in columns if f.id not in _METADATA_IDS] + [root for d in file.equality for root in d.keys]
    file_columns = FileColumns.from_file(scan, file, stored, requested)
    values = [_value_of(scan, file, f, file_columns) for f in columns]
    filtered = 0 if scan.filter is None else len(scan.filter.columns)
    deletes = [(_key_reader(delete, file_columns), keys[id(delete)]) for delete in file.equality]
    checked = _checked_columns(file_columns, requested)
    shows_deleted = any(f.id == _DELETED for f in columns)
    live: list[tuple[Row, int, bool, list[object]]] = []
    count = 0
    for position, row in enumerate(stored.rows):
        count += 1
        for _, value, stored_values in checked:
            stored_values.append(value(row))
        is_deleted = position in positions or any(key(row) in deleted_keys for key, deleted_keys in deletes)
        if shows_deleted or not is_deleted:
            live.append((row, position, is_deleted, [value(row, position, is_deleted) for value in values[:filtered]]))
    matching = (
        range(len(live))
        if scan.filter is None
        else _matching(scan.filter, [filter_values for *_, filter_values in live])
    )
    matching_rows = [
        filter_values + [value(row, position, is_deleted) for value in values[filtered:]]
        for row, position, is_deleted, filter_values in (live[number] for number in matching)
    ]
    for checked_column, _, stored_values in checked:
        _check_conflict(checked_column, stored_values, file_columns)
    # Positions and row ids are counted, so the row count must be correct. A cut Avro file may look complete (iceberg
    # 7.2).
    # In a file without columns, nothing else could reveal that rows are missing.
    counts = file.format != "parquet" or not stored.columns or positions or any(f.id == _ROW_ID for f in columns)
    if counts and file.record_count not in (None, count):
        raise row_count_error(file, count)
    return matching_rows


def _matching(condition: Filter, rows: Sequence[Sequence[object]]) -> Sequence[int]:
    """Return the numbers of the rows that match a filter. `rows` has the values of the filter's columns."""
    arrays = [arrow_array([row[i] for row in rows], f.type) for i, f in enumerate(condition.columns)]
    return condition.matches(pa.Table.from_arrays(arrays, names=[f.name for f in condition.columns]))


def _value_of(scan: Scan, file: DataFile, column: Field, file_columns: FileColumns) -> ValueOf:
    """Return a reader for a column of a file, including metadata columns (iceberg 5.17, 5.18; delta W2, W3)."""
    if column.id not in _METADATA_IDS:
        read = file_columns.reader(column)
        return lambda row, _position, _is_deleted: read(row)
    stored = file_columns.stored_metadata(column, scan.materialized.get(column.name))

    def stored_or_inherited(row: Row, inherited: object) -> Any:
        """Return the file's own value, or the inherited value if the file stores none."""
        value = None if stored is None else stored(row)
        return inherited if value is None else value

    first = file.first_row_id
    # The values of the file's own spec, by field id. If no spec of the table has fields, there is no struct.
    partition = dict(file.partition) if isinstance(column.type, dt.StructType) else None
    readers: dict[str, ValueOf] = {
        "_file": lambda _row, _position, _is_deleted: file.path,
        "_pos": lambda _row, position, _is_deleted: position,
        "_deleted": lambda _row, _position, is_deleted: is_deleted,
        "_spec_id": lambda _row, _position, _is_deleted: file.spec_id,
        "_partition": lambda _row, _position, _is_deleted: partition,
        "_row_id": lambda row, position, _: None if first is None else stored_or_inherited(row, first + position),
        "_last_updated_sequence_number": lambda row, _, __: (
            None if first is None else stored_or_inherited(row, file.sequence_number)
        ),
        "_row_commit_version": lambda row, _position, _is_deleted: stored_or_inherited(row, file.commit_version),
    }
    return readers[column.name]


def _key_reader(delete: EqualityDelete, columns: FileColumns) -> Callable[[Row], EqualityKey]:
    """Return a reader for a row's key, which compares equal as in equality deletes: NaN equals NaN (iceberg 4.23)."""
    readers = [columns.reader(root) for root in delete.keys]

    def key(row: Row) -> EqualityKey:
        parts = zip(readers, delete.paths, strict=True)
        values = [value_at(read(row), path[1:]) for read, path in parts]  # None if a struct on the path is null
        return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values)

    return key


def _keys_of(scan: Scan, delete: EqualityDelete) -> frozenset[EqualityKey]:
    """Return all keys in an equality delete file."""
    try:
        stored = open_file(delete.file, scan.files)
        columns = FileColumns.from_file(scan, delete.file, stored, delete.keys)
        key = _key_reader(delete, columns)
        for root in delete.keys:
            # a null in place of a missing key could delete or keep any row (iceberg 4.25)
            if not columns.provides(root):
                message = f"Cannot apply an equality delete: its file has no column for key {root.name!r}; rewrite it"
                cause = "UnknownEqualityField"
                raise errors.CorruptDeleteError(message, cause=cause, field=root.name, rule="iceberg 4.25")
        keys = [key(row) for row in stored.rows]
        check_row_count(delete.file, len(keys))
    except ValueError as error:
        name = path_text(delete.file.path, delete.file.physical)
        raise errors.CorruptDeleteError(f"Cannot read an equality delete: {error}", file=name) from error
    except errors.HarnessError as error:
        raise error.within(file=path_text(delete.file.path, delete.file.physical)) from error.__cause__
    return frozenset(keys)


# A column may contradict the file's partition value: an imported file may have field ids that collide with the table's,
# so that a field id refers to another column. The following functions detect this (iceberg 5.3).


def _checked_columns(columns: FileColumns, fields: Sequence[Field]) -> list[tuple[Field, ValueReader, list[object]]]:
    """Return the stored columns with a partition value and an ordered type, each with its reader and an empty list."""
    file_columns = {f.id: f for f in fields if f.id in columns.file.constants and columns.place_of(f) is not None}
    ordered = dt.DecimalType | dt.FloatType | dt.IntegerType | dt.TimestampType
    return [
        (f, columns.reader(f), [])
        for f in (file_columns.values() if columns.file.format == "parquet" else ())
        if f.type in (dt.BOOLEAN, dt.DATE, dt.STRING) or isinstance(f.type, ordered)
    ]


def _check_conflict(column: Field, stored_values: list[Any], columns: FileColumns) -> None:
    """Raise SchemaMismatchError if no row can belong to the partition.

    This is the case if the partition value is not null and all values are null, or all values are less or all are
    greater; or if it is null and no value is null.
    """
    value, values = columns.file.constants[column.id], [v for v in stored_values if v is not None]
    if value is None:
        is_conflict = None not in stored_values
    else:  # NaN is not comparable
        is_conflict = value == value and (
            not values or all(v < value for v in values) or all(v > value for v in values)
        )
    if stored_values and is_conflict:
        message = f"Cannot read column {column.name!r}: its values contradict the file's partition value {value!r}"
        raise errors.SchemaMismatchError(message, cause="PartitionValueConflict", field=column.name, rule="iceberg 5.3")
