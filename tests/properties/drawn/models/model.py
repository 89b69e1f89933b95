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

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model import schema as dt
from harness.suite.scenarios.building import expected_table
from harness.suite.scenarios.model import Selector, TableFormat
from harness.suite.scenarios.values import format_value, parse_value, stored_struct

Columns: TypeAlias = tuple[dt.Field, ...]
TableKind: TypeAlias = Literal["iceberg-1", "iceberg-2", "iceberg-3", "delta"]
"""A format, and for Iceberg its version."""
DeleteKind: TypeAlias = Literal["position deletes", "vectors", "equality deletes"]
Row: TypeAlias = dict[int, Any]
_DAY_US = 86_400_000_000
_WIDE = Context(prec=60)


class TableModel:
    """A table of a format. kind: of table, as it is drawn. columns: those of now."""

    format: TableFormat
    kind: TableKind
    columns: Columns

    def __init__(self) -> None:
        self.identities = itertools.count(1)

    def apply(self, operation: Mapping[str, Any]) -> None:
        """Do one operation of a scenario's history. Raises RequestError: the model does not know it."""
        raise AssertionError("of the format")

    def points(self) -> list[Selector]:
        """The points of the history that can be read, oldest first, the current one last."""
        raise AssertionError("of the format")

    def columns_at(self, at: Selector) -> Columns:
        """The columns that a read at that point shows."""
        raise AssertionError("of the format")

    def rows(self, at: Selector) -> list[Row]:
        """The rows of a read at that point, in these columns."""
        raise AssertionError("of the format")

    def hiding(self, at: Selector) -> frozenset[DeleteKind]:
        """The kinds of delete that hide a row there."""
        raise AssertionError("of the format")

    def spelt(self, text: str) -> tuple[dt.Type, bool]:
        """The type that a scenario spells so, and whether it is required."""
        raise AssertionError("of the format")

    def column(self, name: str, text: str, default: Any = None) -> dt.Field:
        """A new column, its type as a scenario spells it."""
        type_, required = self.spelt(text)
        new = with_new_ids(self.identities, name, type_, required=required)
        return replace(new, initial_default=parse_value(new.type, default))

    def changed(self, name: str, value: Any) -> Columns:
        """The columns after an operation on them."""
        match name:
            case "add-column":
                new = self.column(value["name"], value["type"], value.get("initial-default"))
                parent = value.get("parent")
                return (*self.columns, new) if parent is None else edit_columns(self.columns, parent, add_field(new))
            case "drop-column":
                return edit_columns(self.columns, value, drop_at)
            case "rename-column":
                return edit_columns(self.columns, value["path"], replace_at(name=value["to"]))
            case "move-column":
                return edit_columns(self.columns, value["path"], move_to(value["to"]))
            case "widen-column":
                return edit_columns(self.columns, value["path"], replace_at(type=self.spelt(value["type"])[0]))
            case _:
                raise RequestError(f"The model does not know the operation {name!r}")


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
    return [[format_value(f.type, row.get(f.id)) for f in columns] for row in rows]


# -- rows -------------------------------------------------------------------------------------------------------------


def stored_rows(columns: Columns, rows: Sequence[Any]) -> tuple[Row, ...]:
    """Rows of a scenario, complete: what a mapping leaves out is null."""
    return tuple({f.id: row.get(f.id) for f in columns} for row in (stored_struct(columns, r) for r in rows))


def visible_row(columns: Columns, old: Columns, row: Row) -> Row:
    """A row of a file, written with the columns `old`, in other columns: by identity, new ones with their default."""
    before = {f.id: f for f in old}
    return {
        f.id: convert_value(before[f.id].type, f.type, row.get(f.id)) if f.id in before else f.initial_default
        for f in columns
    }


def convert_value(old: dt.Type, new: dt.Type, value: Any) -> Any:
    """A value of a column's type of then, in its type of now."""
    if value is None:
        return None
    match old, new:
        case dt.StructType(before), dt.StructType(after):
            return visible_row(after, before, value)
        case dt.ListType(before), dt.ListType(after):
            return [convert_value(before.type, after.type, v) for v in value]
        case dt.MapType(), dt.MapType():
            return [
                (convert_value(old.key.type, new.key.type, k), convert_value(old.value.type, new.value.type, v))
                for k, v in value
            ]
        case dt.IntegerType(), dt.FloatType():
            return float(value)
        case ((dt.IntegerType() | dt.DecimalType()), dt.DecimalType(scale=scale)):
            return Decimal(value).quantize(Decimal(1).scaleb(-scale), context=_WIDE)
        case dt.DateType(), dt.TimestampType():
            return value * _DAY_US
        case _:
            return value


def leaf(columns: Columns, row: Row, field_id: int) -> Any:
    """The value of a column or of a field inside structs; null where a struct around it is."""
    for f in columns:
        if f.id == field_id:
            return row.get(f.id)
        if isinstance(f.type, dt.StructType) and field_id in identities(f.type.fields):
            inner = row.get(f.id)
            return None if inner is None else leaf(f.type.fields, inner, field_id)
    raise KeyError(field_id)


def identity_of(value: Any) -> Any:
    """A hashable stand-in: equal exactly for values that equality deletes and partitions take for the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1.0, value))
    return value


# -- columns ----------------------------------------------------------------------------------------------------------


def with_new_ids(ids: Iterator[int], name: str, type_: dt.Type, *, required: bool = False) -> dt.Field:
    """A new column, with an identity of its own at every level."""
    number = next(ids)
    inner = tuple(with_new_ids(ids, f.name, f.type, required=f.required) for f in dt.children(type_))
    return dt.Field(id=number, name=name, type=with_children(type_, inner), required=required)


def with_children(type_: dt.Type, fields: Columns) -> dt.Type:
    """A nested type with other fields; a primitive one as it is."""
    match type_:
        case dt.StructType():
            return dt.StructType(fields)
        case dt.ListType():
            return dt.ListType(*fields)
        case dt.MapType():
            return dt.MapType(*fields)
        case _:
            return type_


Change: TypeAlias = Callable[[Columns, int], Columns]
"""A level of columns after an operation, given the place of the column meant."""


def edit_columns(columns: Columns, path: str, change: Change) -> Columns:
    """The columns with the level changed that the path leads to.

    Raises:
        RequestError: there is no such column.
    """
    name, _, rest = path.partition(".")
    place = next((i for i, f in enumerate(columns) if f.name == name), None)
    if place is None:
        raise RequestError(f"The model has no column {name!r}: there are {', '.join(f.name for f in columns)}")
    if not rest:
        return change(columns, place)
    outer = columns[place]
    inner = edit_columns(dt.children(outer.type), rest, change)
    return (*columns[:place], replace(outer, type=with_children(outer.type, inner)), *columns[place + 1 :])


def column_at(columns: Columns, path: str) -> dt.Field:
    """The column that a path leads to; KeyError: there is none."""
    name, _, rest = path.partition(".")
    found = {f.name: f for f in columns}[name]
    return column_at(dt.children(found.type), rest) if rest else found


def replace_at(**attributes: Any) -> Change:
    """The column with other attributes."""
    return lambda level, i: (*level[:i], replace(level[i], **attributes), *level[i + 1 :])


def drop_at(level: Columns, place: int) -> Columns:
    """The level without the column."""
    return (*level[:place], *level[place + 1 :])


def move_to(to: int) -> Change:
    """The column at another place of its level."""

    def move(level: Columns, place: int) -> Columns:
        others = drop_at(level, place)
        return (*others[:to], level[place], *others[to:])

    return move


def add_field(new: dt.Field) -> Change:
    """The struct with one more field at its end."""

    def grow(level: Columns, place: int) -> Columns:
        struct = level[place]
        return replace_at(type=dt.StructType((*dt.children(struct.type), new)))(level, place)

    return grow


def identities(columns: Columns) -> dict[int, dt.Field]:
    """The columns by identity, at every level."""
    found: dict[int, dt.Field] = {}
    for f in columns:
        found |= {f.id: f, **identities(dt.children(f.type))}
    return found
