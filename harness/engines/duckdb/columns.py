"""Translation of column values (`harness.engines.column_values`) to DuckDB expressions.

DuckDB matches nested fields by name, and returns NULL without a warning after a rename. So structs, lists, and maps are
rebuilt by position if the file's names, order, or types differ from the table's. A NULL parent stays NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from datetime import date, datetime, timedelta
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from harness.engines.column_values import (
    ColumnValue,
    Constant,
    ConstantStruct,
    Lineage,
    PerFile,
    Position,
    PositionFrom,
    StoredColumn,
    StoredOrInherited,
    Uniform,
)
from harness.engines.footers import OLDEST_DAY, OLDEST_MICROS, is_legacy
from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.filters import sqltext
from harness.metadata.filters.sqltext import name
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of, from_numpy
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.plan.projection import is_identity
from harness.storage.records import dataclass

_OLDEST_DATE = f"DATE '{date(1970, 1, 1) + timedelta(days=OLDEST_DAY)}'"
_OLDEST_TIMESTAMP = f"TIMESTAMP '{datetime(1970, 1, 1) + timedelta(microseconds=OLDEST_MICROS)}'"


@dataclass(frozen=True, slots=True)
class DuckDBColumn:
    """A file's column as DuckDB presents it.

    Attributes:
        name: The name in DuckDB. If a file has `a` and `A`, the second becomes `A_1`.
        type: The type as text.
        parts: The nested columns.
        oldest: SQL text of the oldest value that DuckDB reads correctly. Older values fail the query. None if all
            values are correct.
    """

    name: str
    type: str
    parts: tuple[DuckDBColumn, ...] = ()
    oldest: str | None = None


def duckdb_column(label: str, duckdb_type: Any) -> DuckDBColumn:
    """Return a column as DuckDB presents it, with its nested parts, given its name and its DuckDBPyType."""
    match duckdb_type.id:
        case "struct" | "map":
            parts = tuple(duckdb_column(part, type_) for part, type_ in duckdb_type.children)
        case "list" | "array":
            child = next(type_ for part, type_ in duckdb_type.children if part == "child" or not isinstance(type_, int))
            parts = (duckdb_column("element", child),)
        case _:
            parts = ()
    return DuckDBColumn(label, str(duckdb_type), parts)


def with_oldest_values(
    columns: Sequence[DuckDBColumn], schema: PhysicalSchema, legacy: frozenset[str]
) -> list[DuckDBColumn]:
    """Return `columns` with, at every level, the oldest value that is the same in both calendars (delta T20)."""
    guarded = []
    for column, physical in zip(columns, schema, strict=True):
        oldest = _OLDEST_DATE if isinstance(physical.type, dt.DateType) else _OLDEST_TIMESTAMP
        if column.parts:
            guarded.append(replace(column, parts=tuple(with_oldest_values(column.parts, physical.children, legacy))))
        else:
            guarded.append(replace(column, oldest=oldest) if is_legacy(physical, legacy) else column)
    return guarded


@dataclass(slots=True)
class FileTable:
    """A table with one row per file of a relation. The relation is joined with it on DuckDB's `file_index`.

    The join costs almost nothing per row, and lets filters on its columns skip whole files.

    Attributes:
        size: The number of files.
    """

    size: int
    _columns: dict[str, pa.Array] = field(default_factory=dict)
    _selected: dict[str, str] = field(default_factory=dict)

    def column(self, values: pa.Array, *, convert: str | None = None) -> str:
        """Add a column with one value per file and return an expression for it.

        Args:
            values: The values.
            convert: A DuckDB type to cast the values to, if Arrow has no such type.
        """
        label = f"v{len(self._columns)}"
        self._columns[label] = values
        self._selected[label] = label if convert is None else f"CAST({label} AS {convert}) AS {label}"
        return f"g.{label}"

    def join(self, register: Callable[[pa.Table], str]) -> str:
        """Return the JOIN clause that the expressions need, or an empty text if there are none."""
        if not self._columns:
            return ""
        table = pa.table({"i": from_numpy(np.arange(self.size, dtype=np.uint64)), **self._columns})
        columns = ", ".join(["i", *self._selected.values()])
        return f" JOIN (SELECT {columns} FROM {register(table)}) AS g ON g.i = f.file_index"


@dataclass(slots=True)
class SqlTranslation:
    """Translates values to expressions over one relation `f` and its file table `g`.

    Attributes:
        columns: The top-level columns of the files as DuckDB presents them, in order.
        table: The file table, which gets a column for each value that differs between files.
    """

    columns: Sequence[DuckDBColumn]
    table: FileTable
    _constants: dict[PerFile, str] = field(default_factory=dict)

    def expression(self, value: ColumnValue) -> str:
        """Return the expression of a value in the DuckDB type of its field.

        Raises:
            SchemaMismatchError: The stored type cannot be converted exactly.
            UnsupportedError: A constant has a type that a `FileTable` cannot hold.
        """
        match value:
            case Uniform(value=same, type=type_):
                return sqltext.literal(same, type_)
            case PerFile():
                if value not in self._constants:
                    stored, column_type = _storable(value.type)
                    column = self.table.column(array_of(value.values, stored))
                    self._constants[value] = cast(column, column_type, value.type)
                return self._constants[value]
            case ConstantStruct(fields=fields, parts=parts):
                return sqltext.struct({f.name: self.expression(part) for f, part in zip(fields, parts, strict=True)})
            case StoredColumn(source=source):
                root = self.columns[source.place]
                return self._stored(value, root, f"f.{name(root.name)}", 0)
            case Position():
                return "f.file_row_number"
            case PositionFrom(first=first):
                return f"{self.expression(first)} + f.file_row_number"
            case StoredOrInherited(stored=stored, inherited=inherited):
                return f"coalesce({self.expression(stored)}, {self.expression(inherited)})"
            case Lineage(first_row_id=first, value=inner):
                return f"CASE WHEN {self.expression(first)} IS NULL THEN NULL ELSE {self.expression(inner)} END"
            case _:
                assert_never(value)

    def _stored(self, value: StoredColumn, column: DuckDBColumn, access: str, depth: int) -> str:
        """Return the expression `access` converted to the type of the value's field.

        Args:
            value: The value.
            column: The column as DuckDB presents it.
            access: The expression for the stored column.
            depth: The number of lambdas around the expression, which makes their parameter names unique.
        """
        target = value.field.type
        if not dt.children(target):
            return cast(_checked(access, column), column.type, target)
        if is_identity(value.field, value.source) and _same_shape(target, column):
            return access

        def part(index: int, inner: Callable[[DuckDBColumn], str]) -> str:
            return self._part(value.parts[index], column, inner, depth + 1)

        def extracted(stored: DuckDBColumn) -> str:
            return f"struct_extract({access}, {sqltext.text(stored.name)})"

        item = f"x{depth}"
        match target:
            case dt.StructType(fields=fields):
                expression = sqltext.struct({f.name: part(i, extracted) for i, f in enumerate(fields)})
            case dt.ListType():
                expression = f"list_transform({access}, lambda {item}: {part(0, lambda _: item)})"
            case dt.MapType():
                entry = {"k": part(0, lambda _: f"{item}.key"), "v": part(1, lambda _: f"{item}.value")}
                entries = f"list_transform(map_entries({access}), lambda {item}: {sqltext.struct(entry)})"
                expression = f"map_from_entries({entries})"
            case other:
                raise AssertionError(f"{other} is not nested")
        return f"CASE WHEN {access} IS NULL THEN NULL ELSE {expression} END"

    def _part(
        self, value: StoredColumn | Constant, parent: DuckDBColumn, access: Callable[[DuckDBColumn], str], depth: int
    ) -> str:
        if not isinstance(value, StoredColumn):
            return self.expression(value)
        # a corrupt file: only one of the two readers sees a struct
        if value.source.place >= len(parent.parts):
            message = (
                f"Cannot read column {value.field.name!r}: DuckDB reads its parent as {parent.type}, which contradicts "
                "the footer; restore the file"
            )
            raise SchemaMismatchError(message, cause="IncompatibleType", field=value.field.name, rule="iceberg 6.14")
        child = parent.parts[value.source.place]
        return self._stored(value, child, access(child), depth)


def _storable(type_: dt.Type) -> tuple[pa.DataType, str]:
    """Return an Arrow type that holds the internal values of a primitive type unchanged, and its DuckDB type."""
    match type_:
        case dt.BooleanType() | dt.FloatType() | dt.DecimalType() | dt.IntegerType() | dt.StringType():
            return dt.arrow_type(type_), sqltext.type_name(type_)
        case dt.DateType():
            return pa.int32(), "INTEGER"
        case dt.TimeType() | dt.TimestampType():
            return pa.int64(), "BIGINT"
        case _ if sqltext.type_name(type_) in ("BLOB", "UUID"):
            return pa.binary(), "BLOB"
        case other:
            raise UnsupportedError(f"Cannot use {other} as a per-file constant", cause="UnsupportedType")


def _checked(access: str, stored: DuckDBColumn) -> str:
    """Return `access` as an expression that fails the query on a value that DuckDB would read wrong (delta T20)."""
    if stored.oldest is None:
        return access
    refusal = f"Cannot read column {stored.name}: a value before {stored.oldest} is in the calendar of an old writer"
    local = f"({access} AT TIME ZONE 'UTC')" if stored.type == "TIMESTAMP WITH TIME ZONE" else access
    return f"CASE WHEN {local} < {stored.oldest} THEN error({sqltext.text(refusal)}) ELSE {access} END"


def _same_shape(type_: dt.Type, stored: DuckDBColumn) -> bool:
    """Return whether a DuckDB column has exactly the names and types of the table's column, at every level."""
    parts = dt.children(type_)
    if not parts:
        return stored.type == sqltext.type_name(type_) and stored.oldest is None
    if isinstance(type_, dt.StructType) and [f.name for f in parts] != [s.name for s in stored.parts]:
        return False
    return len(parts) == len(stored.parts) and all(
        _same_shape(f.type, s) for f, s in zip(parts, stored.parts, strict=True)
    )


def cast(access: str, type_text: str, target: dt.Type) -> str:
    """Return an expression that converts `access` to the DuckDB type of `target`.

    No conversion depends on the session's time zone, rounds, or renders bytes as escapes.

    Args:
        access: The expression to convert.
        type_text: The DuckDB type of `access`.
        target: The table's type.

    Raises:
        SchemaMismatchError: There is no exact conversion.
    """
    target_type = sqltext.type_name(target)
    if type_text == target_type and not isinstance(target, dt.GeometryType | dt.GeographyType):
        return access
    match target:
        case dt.StringType():
            return f"decode({access})" if type_text == "BLOB" else f"CAST({access} AS VARCHAR)"
        case dt.GeometryType() | dt.GeographyType():  # one form for all stored forms (frontier F1.6)
            return f"st_aswkb({access})" if type_text.startswith("GEOMETRY") else f"st_aswkb(st_geomfromwkb({access}))"
        case dt.BinaryType() | dt.FixedType():
            return f"encode({access})"
        case dt.UuidType():
            return f"CAST({f'hex({access})' if type_text == 'BLOB' else access} AS UUID)"
        case dt.DateType() if type_text == "INTEGER":
            return f"(DATE '1970-01-01' + {access})"
        case dt.TimeType() if type_text == "BIGINT":
            return f"(TIME '00:00:00' + to_microseconds({access}))"
        case dt.TimestampType():
            return _timestamp(access, type_text, target)
        case dt.BooleanType() | dt.IntegerType() | dt.FloatType() | dt.DecimalType() | dt.DateType() | dt.TimeType():
            return f"CAST({access} AS {target_type})"
        case _:
            raise SchemaMismatchError(
                f"Cannot convert a stored {type_text} into {target}", cause="IncompatibleType", rule="iceberg 5.12"
            )


def _timestamp(access: str, type_text: str, target: dt.TimestampType) -> str:
    """Return an expression that converts a timestamp of any unit and zone kind to `target`.

    The value stays the same (iceberg 6.8). DuckDB reads the extreme integers of dates and timestamps as infinities, and
    its own conversions would keep these infinities.
    """
    target_type = sqltext.type_name(target)
    if target.unit == "ns":
        match type_text:
            case "BIGINT":
                return f"make_timestamp_ns({access})"
            case "TIMESTAMPTZ_NS":  # epoch_ns returns NULL for an infinity in DuckDB 2.0
                return f"coalesce(make_timestamp_ns(epoch_ns({access})), CAST({access} AS TIMESTAMP_NS))"
            case _:  # the cast raises an error for microseconds out of range (iceberg 6.10)
                micros = _timestamp(access, type_text, dt.TimestampType())
                return _finite(micros, f"CAST({micros} AS {target_type})")
    match type_text:
        case "TIMESTAMP":
            local = access
        case "BIGINT":
            local = f"make_timestamp({access})"
        case "TIMESTAMP WITH TIME ZONE":
            local = f"({access} AT TIME ZONE 'UTC')"
        # round down, also before 1970; a cast rounds to the nearest in DuckDB 1.5
        case "TIMESTAMP_NS" | "TIMESTAMPTZ_NS":
            nanos = f"coalesce(epoch_ns({access}), CASE WHEN {access} IS NOT NULL THEN {_OUT_OF_RANGE} END)"
            local = f"make_timestamp(({nanos} - ({nanos} % 1000 + 1000) % 1000) // 1000)"
        case _:
            local = _finite(access, f"CAST({access} AS TIMESTAMP)")
    return f"({local} AT TIME ZONE 'UTC')" if target.utc else local


_OUT_OF_RANGE = "error('a date or timestamp is out of the range of the wider type')"


def _finite(access: str, converted: str) -> str:
    return f"CASE WHEN isinf({access}) THEN {_OUT_OF_RANGE} ELSE {converted} END"
