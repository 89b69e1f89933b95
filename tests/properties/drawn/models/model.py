"""A table as plain Python, which computes the result of every read from the operations that a builder gets.

    model = model_of("iceberg", {"schema": {"id": "long"}, "format-version": 2})
    model.apply({"append": {"files": [{"data": "a", "rows": [[1], [2]]}], "as": "first"}})
    model.apply({"commit": {"add": [{"position-deletes": [["a", 0]]}], "as": "second"}})
    model.rows(Selector("snapshot", "second"))                        # [{1: 2}]

Columns are identified by a number of the model; rows are dicts by this number, with internal values (see
`harness.metadata.model.schema`). A file keeps the columns that it was written with, and later changes of columns are
applied when a row is read. Snapshots are copies. The model is slow, and shares with the builders only the texts of
types and values.
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
"""A format and, for Iceberg, its version."""
DeleteKind: TypeAlias = Literal["position deletes", "vectors", "equality deletes"]
Row: TypeAlias = dict[int, Any]
_DAY_US = 86_400_000_000
_WIDE = Context(prec=60)


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """A data file.

    Attributes:
        columns: The columns at the time of writing.
        rows: All rows, in order.
        row_ids: The row ids that the file stores. Empty if it stores none.
    """

    label: str
    columns: Columns
    rows: tuple[Row, ...] = field(repr=False)
    row_ids: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The data files of a state, and the places of its visible rows.

    Attributes:
        files: The data files by label.
        places: The label of the file, and the position in it, of every row that no delete applies to.
    """

    files: Mapping[str, ModelFile]
    places: frozenset[tuple[str, int]]

    def row(self, place: tuple[str, int], columns: Columns) -> Row:
        """Return a row in some columns."""
        file = self.files[place[0]]
        return visible_row(columns, file.columns, file.rows[place[1]])

    def row_id(self, place: tuple[str, int]) -> int | None:
        """Return the row id that a row's file stores for it."""
        row_ids = self.files[place[0]].row_ids
        return row_ids[place[1]] if row_ids else None

    def rows(self, columns: Columns) -> list[Row]:
        """Return the visible rows in some columns."""
        return [self.row(place, columns) for place in sorted(self.places)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCommit:
    """A commit of a table, with the rows before and after it.

    Attributes:
        name: The label of the snapshot, or the version.
        parent: The label or version before it. None for the first one.
        operation: The operation in the summary. `replace` if the commit only arranged rows in other files.
        uncovers: Whether it removed a delete file, so that rows may reappear.
        recorded: The changes that change files of Delta record: the kind, the columns, and the row of each.
            None without change files.
    """

    name: str | int
    parent: str | int | None
    operation: str
    before: HeldRows
    after: HeldRows
    uncovers: bool = False
    recorded: tuple[tuple[str, Columns, Row], ...] | None = None


class TableModel:
    """A table of a format.

    Attributes:
        kind: The kind of table.
        columns: The current columns.
    """

    format: TableFormat
    kind: TableKind
    columns: Columns

    def __init__(self) -> None:
        self.identities = itertools.count(1)

    def apply(self, operation: Mapping[str, Any]) -> None:
        """Apply one operation of a scenario's history.

        Raises:
            RequestError: The model does not know the operation.
        """
        raise AssertionError("of the format")

    def points(self) -> list[Selector]:
        """Return the points of the history that can be read, oldest first and the current one last."""
        raise AssertionError("of the format")

    def columns_at(self, at: Selector) -> Columns:
        """Return the columns of a read at a point."""
        raise AssertionError("of the format")

    def rows(self, at: Selector) -> list[Row]:
        """Return the rows of a read at a point, in the columns of that read."""
        raise AssertionError("of the format")

    def commits(self, end: Selector) -> list[ModelCommit]:
        """Return the commits that lead to a point, oldest first, as far as the table still has them."""
        raise AssertionError("of the format")

    def hiding(self, at: Selector) -> frozenset[DeleteKind]:
        """Return the kinds of deletes that delete a row at a point."""
        raise AssertionError("of the format")

    def spelt(self, text: str) -> tuple[dt.Type, bool]:
        """Parse a type text of a scenario, and return the type and whether it is required."""
        raise AssertionError("of the format")

    def column(self, name: str, text: str, default: Any = None) -> dt.Field:
        """Return a new column with a type from a scenario."""
        type_, required = self.spelt(text)
        new = with_new_ids(self.identities, name, type_, required=required)
        return replace(new, initial_default=parse_value(new.type, default))

    def changed(self, name: str, value: Any) -> Columns:
        """Return the columns after an operation on them."""
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


def model_of(format: TableFormat, table: Mapping[str, Any]) -> TableModel:
    """Return the model of a new table. `table` has the form of a scenario's `table`."""
    match format:
        case "iceberg":
            from drawn.models.iceberg import IcebergModel

            return IcebergModel(table)
        case "delta":
            from drawn.models.delta import DeltaModel

            return DeltaModel(table)


def arrow_rows(columns: Columns, rows: Iterable[Row]) -> pa.Table:
    """Return rows of a model in the exact types of a read."""
    return expected_table(columns, scenario_rows(columns, rows), {})


def scenario_rows(columns: Columns, rows: Iterable[Row]) -> list[list[Any]]:
    """Return rows of a model in the form of a scenario."""
    return [[format_value(f.type, row.get(f.id)) for f in columns] for row in rows]


def stored_rows(columns: Columns, rows: Sequence[Any]) -> tuple[Row, ...]:
    """Return the rows of a scenario with null for every value that a mapping omits."""
    return tuple({f.id: row.get(f.id) for f in columns} for row in (stored_struct(columns, r) for r in rows))


def visible_row(columns: Columns, old: Columns, row: Row) -> Row:
    """Return a row of a file, written with the columns `old`, in other columns. New columns get their default."""
    before = {f.id: f for f in old}
    return {
        f.id: convert_value(before[f.id].type, f.type, row.get(f.id)) if f.id in before else f.initial_default
        for f in columns
    }


def convert_value(old: dt.Type, new: dt.Type, value: Any) -> Any:
    """Convert a value from a column's old type to its new type."""
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
    """Return the value of a column, or of a field inside structs. It is null if a struct around it is null."""
    for f in columns:
        if f.id == field_id:
            return row.get(f.id)
        if isinstance(f.type, dt.StructType) and field_id in identities(f.type.fields):
            inner = row.get(f.id)
            return None if inner is None else leaf(f.type.fields, inner, field_id)
    raise KeyError(field_id)


def identity_of(value: Any) -> Any:
    """Return a hashable replacement that is equal for values that equality deletes and partitions consider equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1.0, value))
    return value


def with_new_ids(ids: Iterator[int], name: str, type_: dt.Type, *, required: bool = False) -> dt.Field:
    """Return a new column with a new identity at every level."""
    number = next(ids)
    inner = tuple(with_new_ids(ids, f.name, f.type, required=f.required) for f in dt.children(type_))
    return dt.Field(id=number, name=name, type=with_children(type_, inner), required=required)


def with_children(type_: dt.Type, fields: Columns) -> dt.Type:
    """Return a nested type with other fields. A primitive type stays unchanged."""
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
"""A function from a level of columns and the index of a column to the changed level."""


def edit_columns(columns: Columns, path: str, change: Change) -> Columns:
    """Return the columns with a change of the level that the path leads to.

    Raises:
        RequestError: There is no such column.
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
    """Return the column at a path.

    Raises:
        KeyError: There is no such column.
    """
    name, _, rest = path.partition(".")
    found = {f.name: f for f in columns}[name]
    return column_at(dt.children(found.type), rest) if rest else found


def replace_at(**attributes: Any) -> Change:
    """Return a change that sets attributes of the column."""
    return lambda level, i: (*level[:i], replace(level[i], **attributes), *level[i + 1 :])


def drop_at(level: Columns, place: int) -> Columns:
    """Return the level without the column."""
    return (*level[:place], *level[place + 1 :])


def move_to(to: int) -> Change:
    """Return a change that moves the column to another index."""

    def move(level: Columns, place: int) -> Columns:
        others = drop_at(level, place)
        return (*others[:to], level[place], *others[to:])

    return move


def add_field(new: dt.Field) -> Change:
    """Return a change that adds a field at the end of the struct."""

    def grow(level: Columns, place: int) -> Columns:
        struct = level[place]
        return replace_at(type=dt.StructType((*dt.children(struct.type), new)))(level, place)

    return grow


def identities(columns: Columns) -> dict[int, dt.Field]:
    """Return the columns by identity, at every level."""
    found: dict[int, dt.Field] = {}
    for f in columns:
        found |= {f.id: f, **identities(dt.children(f.type))}
    return found
