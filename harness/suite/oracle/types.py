"""The types of both formats, fields with ids, and the columns that a data file stores.

All modules of the oracle represent a table's values in the same way:

    boolean bool · integers, date (days), time (micros), timestamp (micros or nanos since 1970-01-01, UTC) int
    float, double float · decimal Decimal · string str · uuid (16 bytes, big-endian), fixed, binary bytes
    struct dict by field id · list list · map list of (key, value) · null None

`str()` of a type is its name in Iceberg's specification ("Schemas and Data Types", "Primitive Types").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa

from harness.errors import UnknownColumnError

Unit: TypeAlias = Literal["ms", "us", "ns"]


class ColumnType:
    """A type. `str()` returns its name with its parameters."""

    TEXT: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.TEXT.format(self)


@dataclass(frozen=True)
class SimpleType(ColumnType):
    """A type without parameters."""

    name: str
    TEXT = "{0.name}"


BOOLEAN, DATE, STRING, UUID, BINARY = map(SimpleType, ("boolean", "date", "string", "uuid", "binary"))
VARIANT = SimpleType("variant")
"""A value that carries its own type. Rows hold variants as JSON text."""
UNKNOWN = SimpleType("unknown")
"""The type of a column that is always null: Iceberg's `unknown`, Delta's `void`."""
INT96 = SimpleType("int96")
"""Parquet's legacy timestamp. Only files have it, not tables."""


@dataclass(frozen=True)
class IntegerType(ColumnType):
    """A signed integer of 8, 16, 32, or 64 bits. Iceberg has only 32 and 64."""

    bits: int

    def __str__(self) -> str:
        return {8: "byte", 16: "short", 32: "int", 64: "long"}[self.bits]


@dataclass(frozen=True)
class UnsignedType(ColumnType):
    """An unsigned integer. Only files have it, not tables."""

    bits: int
    TEXT = "uint{0.bits}"


@dataclass(frozen=True)
class FloatType(ColumnType):
    """A binary float of 32 or 64 bits. Files may also store 16 bits."""

    bits: int

    def __str__(self) -> str:
        return {16: "half", 32: "float", 64: "double"}[self.bits]


@dataclass(frozen=True)
class DecimalType(ColumnType):
    """A number with `precision` digits, `scale` of them after the decimal point."""

    precision: int
    scale: int
    TEXT = "decimal({0.precision}, {0.scale})"


@dataclass(frozen=True)
class TimeType(ColumnType):
    """A time of day. Tables store microseconds."""

    unit: Unit = "us"

    def __str__(self) -> str:
        return "time" if self.unit == "us" else f"time_{self.unit}"


@dataclass(frozen=True)
class TimestampType(ColumnType):
    """A timestamp: an instant if `utc` is true, otherwise a local date and time without a time zone."""

    unit: Unit = "us"
    utc: bool = False

    def __str__(self) -> str:
        return ("timestamptz" if self.utc else "timestamp") + ("" if self.unit == "us" else f"_{self.unit}")


@dataclass(frozen=True)
class FixedType(ColumnType):
    """Exactly `length` bytes."""

    length: int
    TEXT = "fixed[{0.length}]"


@dataclass(frozen=True)
class GeoType(ColumnType):
    """A geometry or geography as well-known binary. `text` is the full type name with its coordinate system."""

    text: str
    TEXT = "{0.text}"


@dataclass(frozen=True)
class OpaqueType(ColumnType):
    """An unknown type. It is kept so that the other columns can be read (iceberg 1.22)."""

    text: str
    TEXT = "{0.text}"


@dataclass(frozen=True)
class StructType(ColumnType):
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{f.name}: {f.type}' for f in self.fields)}>"


@dataclass(frozen=True)
class ListType(ColumnType):
    """A list."""

    element: Field
    TEXT = "list<{0.element.type}>"


@dataclass(frozen=True)
class MapType(ColumnType):
    """A map; keys are never null."""

    key: Field
    value: Field
    TEXT = "map<{0.key.type}, {0.value.type}>"


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column, struct field, list element, map key, or map value.

    Without column mapping, the oracle itself numbers the fields of a Delta table.

    Attributes:
        initial_default: The value for rows that are older than the field.
        physical_name: The name under Delta's column mapping. None without column mapping.
    """

    id: int
    name: str
    type: ColumnType
    required: bool = False
    initial_default: Any = field(default=None, hash=False)
    physical_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A table's columns at one point of its history.

    Attributes:
        id: Iceberg's schema id.
        identifier_ids: The ids of the fields that identify a row of an Iceberg table.
    """

    fields: tuple[Field, ...]
    id: int = 0
    identifier_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MappedName:
    """A field id for all columns with one of the names. A `field_id` of None hides the column (iceberg 5.7)."""

    names: tuple[str, ...]
    field_id: int | None
    fields: tuple[MappedName, ...] = ()


def children(type_: ColumnType) -> tuple[Field, ...]:
    """Return the direct fields of a nested type, or an empty tuple for a primitive type."""
    match type_:
        case StructType(fields=fields):
            return fields
        case ListType(element=element):
            return (element,)
        case MapType(key=key, value=value):
            return (key, value)
        case _:
            return ()


def walk(fields: Sequence[Field], above: str = "") -> Iterator[tuple[str, Field]]:
    """Yield all fields at every level, parents first, each with its dotted path of names."""
    for f in fields:
        yield above + f.name, f
        yield from walk(children(f.type), f"{above}{f.name}.")


def value_at(value: Any, path: Sequence[int]) -> object:
    """Return the value at a path of field ids, or None if a struct on the path is null (iceberg 4.23)."""
    for field_id in path:
        value = None if value is None else value.get(field_id)
    return value


def find_field(name: str, fields: Iterable[Field]) -> Field | None:
    """Return the field with exactly this name, otherwise the only one that differs in case, or None (iceberg 5.21)."""
    matches = [f for f in fields if f.name.casefold() == name.casefold()]
    exact = [f for f in matches if f.name == name]
    if len(exact or matches) > 1:
        listed = ", ".join(f.name for f in exact or matches)
        message = f"Column {name!r} is ambiguous: it matches {listed}"
        raise UnknownColumnError(message, field=name, cause="AmbiguousColumn", rule="iceberg 5.21")
    return next(iter(exact or matches), None)


_RESERVED: dict[str, tuple[int, ColumnType]] = {
    **{"_file": (2147483646, STRING), "_pos": (2147483645, IntegerType(64)), "_deleted": (2147483644, BOOLEAN)},
    **{"_spec_id": (2147483643, IntegerType(32)), "_partition": (2147483642, StructType(()))},
    **{"_row_id": (2147483540, IntegerType(64)), "_last_updated_sequence_number": (2147483539, IntegerType(64))},
    "_row_commit_version": (2147483538, IntegerType(64)),
}
METADATA = {name: Field(id=field_id, name=name, type=type_) for name, (field_id, type_) in _RESERVED.items()}
"""Metadata columns, which describe the origin of a row (iceberg 5.17, "Reserved Field IDs").

The last is Delta's (delta W3).
"""

_FEED: dict[str, tuple[int, ColumnType]] = {
    **{"_change_type": (2147483543, STRING), "_commit_version": (2147483537, IntegerType(64))},
    "_commit_timestamp": (2147483536, TimestampType(utc=True)),
}
CHANGES = {name: Field(id=field_id, name=name, type=type_) for name, (field_id, type_) in _FEED.items()}
"""The columns that a change data feed adds. Change files store them by name (delta C10)."""
SNAPSHOT_CHANGES = {
    "_change_type": CHANGES["_change_type"],
    "_change_ordinal": Field(id=2147483542, name="_change_ordinal", type=IntegerType(32)),
    "_commit_snapshot_id": Field(id=2147483541, name="_commit_snapshot_id", type=IntegerType(64)),
}
"""The columns that changes of an Iceberg table add ("Reserved Field IDs", iceberg 8.4)."""


@dataclass(frozen=True, kw_only=True)
class RawColumn:
    """A column or nested field of a file.

    Attributes:
        id: The field id in the file. None if the file has none.
        type: The type of a primitive column, or the kind of a nested column.
        parts: The fields of a struct; (element,) of a list; (key, value) of a map.
    """

    name: str
    id: int | None
    type: ColumnType | Literal["struct", "list", "map"]
    parts: tuple[RawColumn, ...] = ()

    @property
    def key(self) -> int | str:
        """The id, or the name if there is no id."""
        return self.name if self.id is None else self.id


Row: TypeAlias = tuple[Any, ...]
"""The values of a file's columns in the file's own representation, before conversion to a table's types.

Dates and times are ints in the stored unit, text is bytes, a struct is a tuple in the file's order, and a map is a list
of pairs.
"""


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """An opened file.

    Attributes:
        columns: The columns in order.
        rows: The rows in physical order. The iterator can be consumed once.
        old_calendar: Kinds of columns whose oldest values are in the Julian calendar: `dates`, `int96` (delta T20).
        header: The metadata in the header of an Avro file. Empty for other formats.
    """

    columns: tuple[RawColumn, ...]
    rows: Iterator[Row]
    old_calendar: frozenset[str] = frozenset()
    header: Mapping[str, bytes] = field(default_factory=dict)


_ARROW = {"boolean": pa.bool_(), "date": pa.date32(), "uuid": pa.uuid(), "unknown": pa.int32(), "binary": pa.binary()}
_ARROW |= {"string": pa.string(), "variant": pa.string(), "float": pa.float32(), "double": pa.float64()}
_ARROW |= {"byte": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64()}


def arrow_type(type_: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column: variants are JSON text, geometries are bytes, and `unknown` is int32.

    Every field is nullable at every level, because tables may hold nulls in required columns (iceberg 5.13).
    """
    match type_:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case TimeType(unit=unit):
            return pa.time64(unit)
        case TimestampType(unit=unit, utc=utc):
            return pa.timestamp(unit, "UTC" if utc else None)
        case FixedType(length=length):
            return pa.binary(length)
        case GeoType():
            return pa.binary()
        case StructType(fields=fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case ListType(element=element):
            return pa.list_(pa.field("element", arrow_type(element.type)))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key.type), arrow_type(value.type))
        case _:
            return _ARROW[str(type_)]


def arrow_array(values: Sequence[Any], type_: ColumnType) -> pa.Array:
    """Return values of a type as an Arrow array."""
    match type_:
        case StructType(fields=()):
            return pa.array([None if v is None else {} for v in values], pa.struct([]))
        case StructType(fields=fields):
            parts = [arrow_array([None if v is None else v.get(f.id) for v in values], f.type) for f in fields]
            absent = pa.array([v is None for v in values], pa.bool_())
            return pa.StructArray.from_arrays(parts, fields=list(arrow_type(type_)), mask=absent)
        case ListType(element=element):
            offsets, items = _flat(values)
            return pa.ListArray.from_arrays(offsets, arrow_array(items, element.type), type=arrow_type(type_))
        case MapType(key=key, value=value):
            offsets, pairs = _flat(values)
            keys, items = arrow_array([k for k, _ in pairs], key.type), arrow_array([v for _, v in pairs], value.type)
            return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(type_))
        case SimpleType(name="uuid"):
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case _:
            return pa.array(values, arrow_type(type_))


def _flat(values: Sequence[Any]) -> tuple[pa.Array, list[Any]]:
    """Return the offsets of lists, with null for a null list, and the items of all lists."""
    offsets: list[int | None] = []
    items: list[object] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        items.extend(value or ())
    return pa.array([*offsets, len(items)], pa.int32()), items
