"""Column values: the sources of each column's values when several files are read together.

`harness.metadata.plan.projection` resolves a column in a single file. This module combines the files of one union arm:
partition values become constants, and metadata columns get values too. An engine translates each member of
`ColumnValue` into an expression in its own language and converts its result with `conform`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import (
    array_of,
    can_rebuild,
    child_types,
    children_of,
    nullable_type,
    with_children,
)
from harness.metadata.plan.projection import ColumnSource, ConstantValue, FileColumn, PartitionValue
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Uniform:
    """The same value in every row: null, a default, or a value on which all files agree."""

    value: Any = field(hash=False)
    type: dt.Type


@dataclass(frozen=True, slots=True, eq=False)
class PerFile:
    """One value per file, of a primitive type, in internal form.

    An instance equals only itself, because a comparison by value would treat 0.0 and -0.0 as equal.
    """

    values: tuple[Any, ...]
    type: dt.Type


@dataclass(frozen=True, slots=True)
class ConstantStruct:
    """A struct of constants. The struct itself is never null.

    `parts` holds one constant per field, in the order of `fields`.
    """

    fields: tuple[dt.Field, ...]
    parts: tuple[Constant, ...]


Constant: TypeAlias = Uniform | PerFile | ConstantStruct


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column that the files store, or a field, element, key, or value nested in a stored column.

    Attributes:
        field: The table's field, whose type the value has.
        source: The place of the column in the files.
        parts: The nested values: of a struct the fields in the table's order, of a list the element, of a map the key
            and the value. Empty for primitive types and variants. If the stored value is null, this value is null
            whatever its parts are.
    """

    field: dt.Field
    source: FileColumn
    parts: tuple[StoredColumn | Constant, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a row in its file, starting at 0. Deleted rows count."""


@dataclass(frozen=True, slots=True)
class PositionFrom:
    """The position of a row in its file plus `first`, or null if `first` is null."""

    first: Constant


@dataclass(frozen=True, slots=True)
class StoredOrInherited:
    """The stored value, or `inherited` if the stored value is null."""

    stored: StoredColumn
    inherited: Constant | PositionFrom


@dataclass(frozen=True, slots=True)
class Lineage:
    """`value` in files with a first row id, and null in all other files, even if they store a value (iceberg 5.18)."""

    first_row_id: Constant
    value: Constant | PositionFrom | StoredOrInherited


ColumnValue: TypeAlias = Constant | StoredColumn | Position | PositionFrom | StoredOrInherited | Lineage


def constant(values: Sequence[Any], type_: dt.Type) -> Constant:
    """Return the constant that represents one internal value per file.

    Args:
        values: For each file, the value that all of its rows have.
        type_: The type of the values.
    """
    if isinstance(type_, dt.StructType) and any(value is not None for value in values):
        parts = [constant([None if v is None else v.get(f.id) for v in values], f.type) for f in type_.fields]
        return ConstantStruct(type_.fields, tuple(parts))
    # Comparing the text of floats distinguishes -0.0 from 0.0 and treats NaN as equal to itself.
    first = repr(values[0]) if isinstance(values[0], float) else values[0]
    if all(first == (repr(value) if isinstance(value, float) else value) for value in values):
        return Uniform(values[0], type_)
    return PerFile(tuple(values), type_)


def column_values(
    fields: Sequence[dt.Field], sources: Sequence[ColumnSource], partitions: Sequence[Mapping[int, Any]]
) -> tuple[StoredColumn | Constant, ...]:
    """Return the value of each field, combined from several files that store the field alike.

    Args:
        fields: The fields to read.
        sources: For each field, its place in the files.
        partitions: For each file, its partition values in internal form by source field id.
    """
    values: list[StoredColumn | Constant] = []
    for f, source in zip(fields, sources, strict=True):
        match source:
            case FileColumn(parts=parts):
                below = column_values(dt.children(f.type), parts, partitions)
                values.append(StoredColumn(f, source, below))
            case ConstantValue(value=value):
                values.append(Uniform(value, f.type))
            case PartitionValue(field_id=field_id):
                values.append(constant([constants.get(field_id) for constants in partitions], f.type))
            case other:
                assert_never(other)
    return tuple(values)


def stored_columns(values: Iterable[ColumnValue]) -> Iterator[StoredColumn]:
    """Yield the top-level columns that have to be read from the files to compute `values`."""
    for value in values:
        match value:
            case StoredColumn() as stored:
                yield stored
            case StoredOrInherited(stored=stored):
                yield stored
            case Lineage(value=inner):
                yield from stored_columns((inner,))
            case Uniform() | PerFile() | ConstantStruct() | Position() | PositionFrom():
                pass
            case other:
                assert_never(other)


def as_arrow(values: Sequence[Any], type_: dt.Type) -> pa.Array:
    """Return internal values (see `harness.metadata.model.schema`) as an Arrow array.

    Raises:
        pa.ArrowException, TypeError, ValueError, OverflowError: A value does not belong to the type.
    """
    arrow_type = nullable_type(dt.arrow_type(type_))
    missing = array_of([value is None for value in values], pa.bool_())
    match type_:
        case dt.StructType(fields=fields):
            parts = [as_arrow([None if v is None else v.get(f.id) for v in values], f.type) for f in fields]
            return pa.StructArray.from_arrays(parts, fields=list(arrow_type), mask=missing)
        case dt.ListType(element=element):
            items = as_arrow([item for value in values for item in value or ()], element.type)
            return pa.ListArray.from_arrays(_ends(values), items, type=arrow_type, mask=missing)
        case dt.MapType(key=key, value=item):
            entries = [entry for value in values for entry in value or ()]
            keys, items = as_arrow([k for k, _ in entries], key.type), as_arrow([v for _, v in entries], item.type)
            return pa.MapArray.from_arrays(_ends(values), keys, items, type=arrow_type, mask=missing)
        case dt.DateType():
            return array_of(values, pa.int32()).view(arrow_type)
        case dt.TimeType(unit="us" | "ns") | dt.TimestampType():
            return array_of(values, pa.int64()).view(arrow_type)
        case dt.UuidType():
            return pa.ExtensionArray.from_storage(arrow_type, array_of(values, pa.binary(16)))
        case _:
            return array_of(values, arrow_type)


def _ends(values: Sequence[Any]) -> pa.Array:
    return array_of([*accumulate((len(value or ()) for value in values), initial=0)], pa.int32())


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert rows to the names of `schema` and to its types with every field nullable, column by column.

    The row count survives if there are no columns.

    Raises:
        pa.ArrowException, ValueError: A value does not fit its type.
    """
    if not len(schema):
        return rows.select([])
    loose = nullable_schema(schema)
    columns = [
        pa.chunked_array([as_exact_type(chunk, f.type) for chunk in column.chunks], f.type)
        for column, f in zip(rows.columns, loose, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=loose)


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """Return `schema` with every field nullable, at every level.

    Tables hold nulls in required columns (iceberg 5.13), and Arrow requires a value in a non-nullable field even if its
    parent is null.
    """
    return pa.schema([f.with_type(nullable_type(f.type)).with_nullable(True) for f in schema])


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch as `conform` converts a table. The row count survives if there are no fields.

    Args:
        batch: The batch.
        schema: A schema that `nullable_schema` returned.
    """
    if not len(schema):
        return batch.select([])
    columns = [as_exact_type(column, f.type) for column, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def as_exact_type(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert an array to a type without changing the meaning of its values.

    Besides ordinary casts, this turns bytes into Booleans, integers into times and timestamps, text into UUIDs, and
    binary into fixed-size binary. A time zone is only relabeled.

    Raises:
        pa.ArrowException, ValueError: A value does not fit the type.
    """
    if array.type.equals(target):
        return array
    if pa.types.is_null(target) and array.null_count == len(array):
        return pa.nulls(len(array))  # DuckDB 1.5 returns untyped nulls as int32, and no cast converts that back
    if isinstance(array.type, pa.BaseExtensionType):
        return as_exact_type(array.storage, target)
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if isinstance(target, pa.UuidType) and (is_text or pa.types.is_string_view(array.type)):
        digits = pc.replace_substring(array.cast(pa.string()), "-", "").fill_null("0" * 32)
        if pc.any(pc.not_equal(pc.binary_length(digits), 32)).as_py():
            raise ValueError("a UUID does not have 32 digits")
        packed = pa.py_buffer(bytes.fromhex("".join(digits.to_pylist())))
        validity = pc.is_valid(array).buffers()[1] if array.null_count else None
        data = pa.Array.from_buffers(pa.binary(16), len(array), [validity, packed])
        return pa.ExtensionArray.from_storage(target, data)
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, as_exact_type(array, target.storage_type))
    if pa.types.is_boolean(target) and pa.types.is_int8(array.type):
        return array.cast(pa.bool_())
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        zoned = array.view(pa.timestamp(array.type.unit, target.tz))
        return zoned if zoned.type == target else zoned.cast(target)
    if can_rebuild(target):
        pairs = zip(children_of(array), child_types(target), strict=True)
        return with_children(array, [as_exact_type(child, type_) for child, type_ in pairs], target)
    return array.cast(target)
