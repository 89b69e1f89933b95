"""Where the values of a column come from in files that are read together, settled once for every engine.

`harness.metadata.plan.projection` says it for one file at a time. Here the files of one union arm are looked at
together: partition values become constants, and metadata columns have their values too. What is left to an engine is
to translate each member of `ColumnValue` into an expression of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, assert_never

from harness.metadata.model.schema import Field, StructType, Type, children
from harness.metadata.plan.projection import ColumnSource, PartitionValue, Stored, Value
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Uniform:
    """The same value in every row: null, a default, or what all files agree in.

    value: as internal values (see `harness.metadata.model.schema`).
    """

    value: Any = field(hash=False)
    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class PerFile:
    """A value of a primitive type for each file, as internal values. Each is equal to itself alone: 0.0 == -0.0."""

    values: tuple[Any, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class ConstantStruct:
    """A struct of constants, which is never null itself; `parts` are those of `fields`, in order."""

    fields: tuple[Field, ...]
    parts: tuple[Constant, ...]


Constant: TypeAlias = Uniform | PerFile | ConstantStruct


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of the files, or a field, element, key or value of one, as the type of `field`.

    parts: values of the fields of a struct in the table's order, or of (element,), or of (key, value); empty for a
        single value and for a variant. Where the stored value is null, so is this one, whatever its parts are.
    """

    field: Field
    source: Stored
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


def constant(values: Sequence[Any], type_: Type) -> Constant:
    """The value that each of some files has in all of its rows. `values`: per file, as internal values."""
    if isinstance(type_, StructType) and any(value is not None for value in values):
        parts = [constant([None if v is None else v.get(f.id) for v in values], f.type) for f in type_.fields]
        return ConstantStruct(type_.fields, tuple(parts))
    if all(_same(value, values[0]) for value in values):
        return Uniform(values[0], type_)
    return PerFile(tuple(values), type_)


def column_values(
    fields: Sequence[Field], sources: Sequence[ColumnSource], partitions: Sequence[Mapping[int, Any]]
) -> tuple[StoredColumn | Constant, ...]:
    """The value of each of `fields`, which `sources` says file by file.

    partitions: per file, the partition constants (internal values) by source field id.
    """
    return tuple(_value(f, source, partitions) for f, source in zip(fields, sources, strict=True))


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


def _value(wanted: Field, source: ColumnSource, partitions: Sequence[Mapping[int, Any]]) -> StoredColumn | Constant:
    match source:
        case Stored(parts=parts):
            return StoredColumn(wanted, source, column_values(children(wanted.type), parts, partitions))
        case Value(value=value):
            return Uniform(value, wanted.type)
        case PartitionValue(field_id=field_id):
            return constant([constants.get(field_id) for constants in partitions], wanted.type)
        case other:
            assert_never(other)


def _same(left: Any, right: Any) -> bool:
    """Equality that keeps -0.0 and NaN apart from what they equal, or do not equal, in Python."""
    return left == right if not isinstance(left, float) else repr(left) == repr(right)
