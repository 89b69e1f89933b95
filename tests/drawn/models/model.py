"""A table as plain Python: what every read of it must give, worked out from the same operations that a builder takes.

    model = model_of("iceberg", {"schema": {"id": "long"}, "format-version": 2})
    model.apply({"append": {"files": [{"data": "a", "rows": [[1], [2]]}], "as": "first"}})
    model.apply({"commit": {"add": [{"position-deletes": [["a", 0]]}], "as": "second"}})
    model.rows(Selector("snapshot", "second"))                        # [{1: 2}]

Columns are known by identity, a number of the model's own; rows are dicts by it, values as internal values (see
`harness.metadata.model.schema`). A file keeps the columns that it was written with, and whatever a column became
since is worked out when a row is shown. Snapshots are copies. It is slow, and shares with the builders only how
types and values are spelt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import (
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    Type,
    children,
)
from harness.testing.scenarios.building import expected_table
from harness.testing.scenarios.model import Selector, TableFormat
from harness.testing.scenarios.values import scenario_value, stored_struct

Columns: TypeAlias = tuple[Field, ...]
DeleteKind: TypeAlias = Literal["position deletes", "vectors", "equality deletes"]
Row: TypeAlias = dict[int, Any]
_DAY_US = 86_400_000_000
_WIDE = Context(prec=60)


class TableModel(Protocol):
    """The operations of both formats' models; `columns` are those of now."""

    format: TableFormat
    columns: Columns

    def apply(self, operation: Mapping[str, Any]) -> None:
        """Do one operation of a scenario's history. Raises RequestError: the model does not know it."""

    def points(self) -> list[Selector]:
        """The points of the history that can be read, oldest first, the current one last."""

    def columns_at(self, at: Selector) -> Columns:
        """The columns that a read at that point shows."""

    def rows(self, at: Selector) -> list[Row]:
        """The rows of a read at that point, in these columns."""

    def hiding(self, at: Selector) -> frozenset[DeleteKind]:
        """The kinds of delete that hide a row there."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """A data file. columns: as they were when it was written; rows: all of them, in order."""

    label: str
    columns: Columns
    rows: tuple[Row, ...] = field(repr=False)


def model_of(format: TableFormat, table: Mapping[str, Any]) -> TableModel:
    """The model of a new table. table: as under a scenario's `table`."""
    match format:
        case "iceberg":
            from drawn.models.iceberg import IcebergModel

            return IcebergModel(table)
        case "delta":
            from drawn.models.delta import DeltaModel

            return DeltaModel(table)


def arrow_rows(columns: Columns, rows: Iterable[Row]) -> pa.Table:
    """Rows of a model in the exact types of a read."""
    return expected_table(columns, scenario_rows(columns, rows), {})


def scenario_rows(columns: Columns, rows: Iterable[Row]) -> list[list[Any]]:
    """Rows of a model as a scenario writes them."""
    return [[scenario_value(f.type, row.get(f.id)) for f in columns] for row in rows]


# -- rows -------------------------------------------------------------------------------------------------------------


def written(columns: Columns, rows: Sequence[Any]) -> tuple[Row, ...]:
    """Rows of a scenario, complete: what a mapping leaves out is null."""
    return tuple({f.id: row.get(f.id) for f in columns} for row in (stored_struct(columns, r) for r in rows))


def shown(columns: Columns, old: Columns, row: Row) -> Row:
    """A row of a file, written with the columns `old`, in other columns: by identity, new ones with their default."""
    before = {f.id: f for f in old}
    return {
        f.id: converted(before[f.id].type, f.type, row.get(f.id)) if f.id in before else f.initial_default
        for f in columns
    }


def converted(old: Type, new: Type, value: Any) -> Any:
    """A value of a column's type of then, in its type of now."""
    if value is None:
        return None
    match old, new:
        case StructType(before), StructType(after):
            return shown(after, before, value)
        case ListType(before), ListType(after):
            return [converted(before.type, after.type, v) for v in value]
        case MapType(), MapType():
            return [
                (converted(old.key.type, new.key.type, k), converted(old.value.type, new.value.type, v))
                for k, v in value
            ]
        case IntegerType(), FloatType():
            return float(value)
        case ((IntegerType() | DecimalType()), DecimalType(scale=scale)):
            return Decimal(value).quantize(Decimal(1).scaleb(-scale), context=_WIDE)
        case DateType(), TimestampType():
            return value * _DAY_US
        case _:
            return value


def leaf(columns: Columns, row: Row, field_id: int) -> Any:
    """The value of a column or of a field inside structs; null where a struct around it is."""
    for f in columns:
        if f.id == field_id:
            return row.get(f.id)
        if isinstance(f.type, StructType) and field_id in identities(f.type.fields):
            inner = row.get(f.id)
            return None if inner is None else leaf(f.type.fields, inner, field_id)
    raise KeyError(field_id)


def identity_of(value: Any) -> Any:
    """A hashable stand-in: equal exactly for values that equality deletes and partitions take for the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1.0, value))
    return value


# -- columns ----------------------------------------------------------------------------------------------------------


class Numbering:
    """Identities of columns, each given once."""

    def __init__(self) -> None:
        self.last = 0

    def named(self, name: str, type_: Type, *, required: bool = False, default: Any = None) -> Field:
        """A new column, at every level."""
        self.last += 1
        number = self.last
        return Field(id=number, name=name, type=self._typed(type_), required=required, initial_default=default)

    def _typed(self, type_: Type) -> Type:
        return with_children(type_, tuple(self.named(f.name, f.type, required=f.required) for f in children(type_)))


def with_children(type_: Type, fields: Columns) -> Type:
    """A nested type with other fields; a primitive one as it is."""
    match type_:
        case StructType():
            return StructType(fields)
        case ListType():
            return ListType(*fields)
        case MapType():
            return MapType(*fields)
        case _:
            return type_


Change: TypeAlias = Callable[[Columns, int], Columns]
"""A level of columns after an operation, given the place of the column meant."""


def edited(columns: Columns, path: Sequence[str], change: Change) -> Columns:
    """The columns with the level changed that the path leads to.

    Raises:
        RequestError: there is no such column.
    """
    place = next((i for i, f in enumerate(columns) if f.name == path[0]), None)
    if place is None:
        raise RequestError(f"The model has no column {path[0]!r}: there are {', '.join(f.name for f in columns)}")
    if len(path) == 1:
        return change(columns, place)
    outer = columns[place]
    inner = edited(children(outer.type), path[1:], change)
    return (*columns[:place], replace(outer, type=with_children(outer.type, inner)), *columns[place + 1 :])


def column_at(columns: Columns, path: Sequence[str]) -> Field:
    """The column that a path leads to.

    Raises:
        RequestError: there is none.
    """
    found: list[Field] = []

    def take(level: Columns, place: int) -> Columns:
        found.append(level[place])
        return level

    edited(columns, path, take)
    return found[0]


def replaced(**attributes: Any) -> Change:
    """The column with other attributes."""
    return lambda level, i: (*level[:i], replace(level[i], **attributes), *level[i + 1 :])


def dropped(level: Columns, place: int) -> Columns:
    """The level without the column."""
    return (*level[:place], *level[place + 1 :])


def moved(to: int) -> Change:
    """The column at another place of its level."""

    def move(level: Columns, place: int) -> Columns:
        others = dropped(level, place)
        return (*others[:to], level[place], *others[to:])

    return move


def grown(new: Field) -> Change:
    """The struct with one more field at its end."""

    def grow(level: Columns, place: int) -> Columns:
        struct = level[place]
        return replaced(type=StructType((*children(struct.type), new)))(level, place)

    return grow


def identities(columns: Columns) -> dict[int, Field]:
    """The columns by identity, at every level."""
    found: dict[int, Field] = {}
    for f in columns:
        found |= {f.id: f, **identities(children(f.type))}
    return found
