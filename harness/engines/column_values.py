"""Values: where those of a column come from in files that are read together, and values as Arrow arrays.

`harness.metadata.plan.projection` says for one file where a column is. Here the files of one union arm are looked at
together: partition values become constants, and metadata columns have values too. An engine translates each member of
`ColumnValue` into an expression of its own, and gives its rows out by `conform`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of, child_types, children_of, is_rebuilt, nullable, with_children
from harness.metadata.plan.projection import ColumnSource, ConstantValue, FileColumn, PartitionValue
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Uniform:
    """The same value in every row: null, a default, or what all files agree in."""

    value: Any = field(hash=False)
    type: dt.Type


@dataclass(frozen=True, slots=True, eq=False)
class PerFile:
    """A value of a primitive type for each file, as internal values. Each is equal to itself alone: 0.0 == -0.0."""

    values: tuple[Any, ...]
    type: dt.Type


@dataclass(frozen=True, slots=True)
class ConstantStruct:
    """A struct of constants, which is never null itself; `parts` are those of `fields`, in order."""

    fields: tuple[dt.Field, ...]
    parts: tuple[Constant, ...]


Constant: TypeAlias = Uniform | PerFile | ConstantStruct


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of the files, or a field, element, key or value of one, as the type of `field`.

    parts: values of the fields of a struct in the table's order, or of (element,), or of (key, value); empty for a
        single value and for a variant. Where the stored value is null, so is this one, whatever its parts are.
    """

    field: dt.Field
    source: FileColumn
    parts: tuple[StoredColumn | Constant, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The row's position in its file from 0, counted before any row is deleted."""


@dataclass(frozen=True, slots=True)
class PositionFrom:
    """The row's position in its file, counted from `first`; null where that is."""

    first: Constant


@dataclass(frozen=True, slots=True)
class StoredOr:
    """The stored value, or where it is null, `inherited`."""

    stored: StoredColumn
    inherited: Constant | PositionFrom


@dataclass(frozen=True, slots=True)
class Lineage:
    """`value` in files whose rows have ids, null in others, whatever they store (iceberg 5.18)."""

    first_row_id: Constant
    value: Constant | PositionFrom | StoredOr


ColumnValue: TypeAlias = Constant | StoredColumn | Position | PositionFrom | StoredOr | Lineage


def constant(values: Sequence[Any], type_: dt.Type) -> Constant:
    """The value that each of some files has in all of its rows. `values`: per file, as internal values."""
    if isinstance(type_, dt.StructType) and any(value is not None for value in values):
        parts = [constant([None if v is None else v.get(f.id) for v in values], f.type) for f in type_.fields]
        return ConstantStruct(type_.fields, tuple(parts))
    # By its text, -0.0 is not 0.0, and NaN equals itself.
    first = repr(values[0]) if isinstance(values[0], float) else values[0]
    if all(first == (repr(value) if isinstance(value, float) else value) for value in values):
        return Uniform(values[0], type_)
    return PerFile(tuple(values), type_)


def column_values(
    fields: Sequence[dt.Field], sources: Sequence[ColumnSource], partitions: Sequence[Mapping[int, Any]]
) -> tuple[StoredColumn | Constant, ...]:
    """The value of each of `fields`, which `sources` says file by file.

    partitions: per file, the partition constants (internal values) by source field id.
    """
    values: list[StoredColumn | Constant] = []
    for wanted, source in zip(fields, sources, strict=True):
        match source:
            case FileColumn(parts=parts):
                below = column_values(dt.children(wanted.type), parts, partitions)
                values.append(StoredColumn(wanted, source, below))
            case ConstantValue(value=value):
                values.append(Uniform(value, wanted.type))
            case PartitionValue(field_id=field_id):
                values.append(constant([constants.get(field_id) for constants in partitions], wanted.type))
            case other:
                assert_never(other)
    return tuple(values)


def stored_columns(values: Iterable[ColumnValue]) -> Iterator[StoredColumn]:
    """The top-level columns of files that are read for `values`."""
    for value in values:
        match value:
            case StoredColumn() as stored:
                yield stored
            case StoredOr(stored=stored):
                yield stored
            case Lineage(value=inner):
                yield from stored_columns((inner,))
            case Uniform() | PerFile() | ConstantStruct() | Position() | PositionFrom():
                pass
            case other:
                assert_never(other)


def as_arrow(values: Sequence[Any], type_: dt.Type) -> pa.Array:
    """Internal values (see `harness.metadata.model.schema`) as an array of the Arrow type of `type_`.

    Raises pa.ArrowException, TypeError, ValueError, OverflowError: a value is none of the type.
    """
    wanted = nullable(dt.arrow_type(type_))
    missing = array_of([value is None for value in values], pa.bool_())
    match type_:
        case dt.StructType(fields=fields):
            parts = [as_arrow([None if v is None else v.get(f.id) for v in values], f.type) for f in fields]
            return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=missing)
        case dt.ListType(element=element):
            items = as_arrow([item for value in values for item in value or ()], element.type)
            return pa.ListArray.from_arrays(_ends(values), items, type=wanted, mask=missing)
        case dt.MapType(key=key, value=item):
            entries = [entry for value in values for entry in value or ()]
            keys, items = as_arrow([k for k, _ in entries], key.type), as_arrow([v for _, v in entries], item.type)
            return pa.MapArray.from_arrays(_ends(values), keys, items, type=wanted, mask=missing)
        case dt.DateType():
            return array_of(values, pa.int32()).view(wanted)
        case dt.TimeType(unit="us" | "ns") | dt.TimestampType():
            return array_of(values, pa.int64()).view(wanted)
        case dt.UuidType():
            return pa.ExtensionArray.from_storage(wanted, array_of(values, pa.binary(16)))
        case _:
            return array_of(values, wanted)


def _ends(values: Sequence[Any]) -> pa.Array:
    return array_of([*accumulate((len(value or ()) for value in values), initial=0)], pa.int32())


# What engines give out, in exact types.


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the names of `schema` and its types as `conformed` has them, column by column; see `exact`.

    Without columns, rows are still counted.

    Raises pa.ArrowException, ValueError: a value does not fit.
    """
    if not len(schema):
        return rows.select([])
    loose = conformed(schema)
    columns = [
        pa.chunked_array([exact(chunk, f.type) for chunk in column.chunks], f.type)
        for column, f in zip(rows.columns, loose, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=loose)


def conformed(schema: pa.Schema) -> pa.Schema:
    """`schema` with fields that may all be null, at every level.

    Tables hold nulls in required columns (iceberg 5.13), and Arrow wants a value even where a parent is null.
    """
    return pa.schema([f.with_type(nullable(f.type)).with_nullable(True) for f in schema])


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch as `conform` gives its rows; `schema`: from `conformed`. Without fields, rows are still counted."""
    if not len(schema):
        return batch.select([])
    columns = [exact(column, f.type) for column, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def exact(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values as `wanted`.

    Bytes become Booleans, integers times and timestamps, text UUIDs, bytes fixed ones; a zone is only a label.

    Raises pa.ArrowException, ValueError: a value does not fit.
    """
    if array.type.equals(wanted):
        return array
    if pa.types.is_null(wanted) and array.null_count == len(array):
        return pa.nulls(len(array))  # DuckDB 1.5 hands out nulls without a type as int32, which no cast undoes
    if isinstance(array.type, pa.BaseExtensionType):
        return exact(array.storage, wanted)
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if isinstance(wanted, pa.UuidType) and (is_text or pa.types.is_string_view(array.type)):
        digits = pc.replace_substring(array.cast(pa.string()), "-", "").fill_null("0" * 32)
        if pc.any(pc.not_equal(pc.binary_length(digits), 32)).as_py():
            raise ValueError("a UUID does not have 32 digits")
        packed = pa.py_buffer(bytes.fromhex("".join(digits.to_pylist())))
        validity = pc.is_valid(array).buffers()[1] if array.null_count else None
        data = pa.Array.from_buffers(pa.binary(16), len(array), [validity, packed])
        return pa.ExtensionArray.from_storage(wanted, data)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, exact(array, wanted.storage_type))
    if pa.types.is_boolean(wanted) and pa.types.is_int8(array.type):
        return array.cast(pa.bool_())
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        zoned = array.view(pa.timestamp(array.type.unit, wanted.tz))
        return zoned if zoned.type == wanted else zoned.cast(wanted)
    if is_rebuilt(wanted):
        pairs = zip(children_of(array), child_types(wanted), strict=True)
        return with_children(array, [exact(child, type_) for child, type_ in pairs], wanted)
    return array.cast(wanted)
