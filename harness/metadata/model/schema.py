"""The logical type model of both formats: types, fields with ids, schemas.

Values of these types travel through harness (defaults, partition values, bounds, literals) in one internal form:

    boolean bool · integers, date (days), time (micros), timestamp (micros or nanos since 1970-01-01, UTC) int
    float, double float · decimal Decimal · string str · uuid (16 bytes, big-endian), fixed, binary bytes
    struct dict by field id · list list · map list of (key, value) · null None

Dates and instants are ints because tables hold years that `datetime` cannot. Annotations call such a value `CellValue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from harness.storage.limits import Limits
from harness.storage.records import dataclass

CellValue: TypeAlias = Any
"""A value in the internal form that the module's docstring describes.

The alias is not a union: the type of the column, which the type checker does not see, says which member a value is, so
each comparison and each sum of two values would need a cast.
"""


@dataclass(frozen=True, slots=True)
class BooleanType:
    """true or false."""

    def __str__(self) -> str:
        return "boolean"


@dataclass(frozen=True, slots=True)
class IntegerType:
    """Signed integer of 8, 16, 32 or 64 bits. Iceberg has only 32 (int) and 64 (long).

    unit: of a partition value that counts years, months or hours since 1970, for display, as NumPy calls it.
    """

    bits: Literal[8, 16, 32, 64]
    unit: Literal["", "Y", "M", "h"] = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return {8: "byte", 16: "short", 32: "int", 64: "long"}[self.bits]


@dataclass(frozen=True, slots=True)
class FloatType:
    """IEEE binary float of 32 or 64 bits; 16 occurs in files only."""

    bits: Literal[16, 32, 64]

    def __str__(self) -> str:
        return {16: "half", 32: "float", 64: "double"}[self.bits]


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Fixed-point number: `precision` digits in all (1 to 38), `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class DateType:
    """A day, as days since 1970-01-01."""

    def __str__(self) -> str:
        return "date"


@dataclass(frozen=True, slots=True)
class TimeType:
    """A time of day without zone. Tables have micros; files may hold millis or nanos."""

    unit: Literal["ms", "us", "ns"] = "us"

    def __str__(self) -> str:
        return "time" if self.unit == "us" else f"time_{self.unit}"


@dataclass(frozen=True, slots=True)
class TimestampType:
    """A point in time. `utc`: an instant, stored in UTC; otherwise a wall-clock reading. Files may hold millis."""

    unit: Literal["ms", "us", "ns"] = "us"
    utc: bool = False

    def __str__(self) -> str:
        suffix = "" if self.unit == "us" else f"_{self.unit}"
        return f"{'timestamptz' if self.utc else 'timestamp'}{suffix}"


@dataclass(frozen=True, slots=True)
class StringType:
    """UTF-8 text, compared by bytes."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class UuidType:
    """A UUID, stored as 16 big-endian bytes."""

    def __str__(self) -> str:
        return "uuid"


@dataclass(frozen=True, slots=True)
class FixedType:
    """Exactly `length` bytes."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class BinaryType:
    """Bytes of any length."""

    def __str__(self) -> str:
        return "binary"


@dataclass(frozen=True, slots=True)
class VariantType:
    """Semi-structured value in the Parquet variant encoding. Rows carry it as JSON text, keys sorted."""

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class GeometryType:
    """Planar geometry as WKB bytes in the coordinate system `crs`."""

    crs: str = "OGC:CRS84"

    def __str__(self) -> str:
        return f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType:
    """Geometry on the globe as WKB bytes; `algorithm` says how edges run."""

    crs: str = "OGC:CRS84"
    algorithm: str = "spherical"

    def __str__(self) -> str:
        return f"geography({self.crs}, {self.algorithm})"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A column that is always null (Iceberg `unknown`, Delta `void`)."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type name that harness does not know, kept so that the rest of the table stays readable (iceberg 1.22)."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class UnsignedType:
    """Unsigned integer; occurs in files only."""

    bits: Literal[8, 16, 32, 64]

    def __str__(self) -> str:
        return f"uint{self.bits}"


@dataclass(frozen=True, slots=True)
class Int96Type:
    """Parquet's legacy 96-bit timestamp; occurs in files only."""

    def __str__(self) -> str:
        return "int96"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{f.name}: {f.type}' for f in self.fields)}>"


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of `element`."""

    element: Field

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map; keys are never null, order means nothing."""

    key: Field
    value: Field

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


PrimitiveType: TypeAlias = (
    BooleanType
    | IntegerType
    | FloatType
    | DecimalType
    | DateType
    | TimeType
    | TimestampType
    | StringType
    | UuidType
    | FixedType
    | BinaryType
    | VariantType
    | GeometryType
    | GeographyType
    | UnknownType
    | OpaqueType
    | UnsignedType
    | Int96Type
)
Type: TypeAlias = PrimitiveType | StructType | ListType | MapType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column, struct field, list element, map key or map value.

    id: the field id; unique in its schema, at every level. Delta tables without column mapping get ids by position.
    name: the logical name, as users write it; list elements are `element`, map parts `key` and `value`.
    required: never null, as the writer promised; harness does not enforce it.
    initial_default: internal values (see module docstring) of the value of rows written before the field existed;
        None is both "no default" and "null" (the formats give both the same meaning). `{}` for a struct means "a
        struct of the fields' own defaults".
    physical_name: the name in data files, where the format maps names (Delta column mapping); None: the same.
    """

    id: int
    name: str
    type: Type
    required: bool = False
    initial_default: CellValue = field(default=None, hash=False)
    physical_name: str | None = None
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A table's columns at one point of its history. As text it has a line a field, those of nested types indented.

    id: the schema's id (Iceberg `schema-id`); Delta: 0. fields: top-level columns in order.
    identifier_field_ids: informative; no effect on rows (iceberg 5.20).
    """

    fields: tuple[Field, ...]
    id: int = 0
    identifier_field_ids: tuple[int, ...] = ()

    def __str__(self) -> str:
        from harness.metadata.model.text_tables import align  # a read needs none

        lines = []
        for path, f in self.walk():
            word = str(f.type).partition("<")[0] if children(f.type) else str(f.type)
            lines.append(("  " * (len(path) - 1) + f.name, word, "required" if f.required else "nullable"))
        return "\n".join(align(lines))

    __repr__ = __str__

    def names(self) -> tuple[str, ...]:
        """Top-level column names in order."""
        return tuple(f.name for f in self.fields)

    def walk(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """Every field at every level, parents first, with its path of names."""
        return walk(self.fields)

    def by_id(self) -> dict[int, tuple[tuple[str, ...], Field]]:
        """Path and field by field id, at every level."""
        return {f.id: (path, f) for path, f in self.walk()}


def walk(fields: tuple[Field, ...], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """The given fields and all their descendants, parents first, each with its path of names."""
    for f in fields:
        path = (*prefix, f.name)
        yield path, f
        yield from walk(children(f.type), path)


def children(type_: Type) -> tuple[Field, ...]:
    """The direct fields of a nested type; empty for a primitive one."""
    match type_:
        case StructType(fields=fields):
            return fields
        case ListType(element=element):
            return (element,)
        case MapType(key=key, value=value):
            return (key, value)
        case _:
            return ()


def describe_field(field_: Field) -> dict[str, object]:
    """The field and its parts as plain values; what is not there has no key."""
    known = {"initial_default": field_.initial_default, "physical_name": field_.physical_name, "doc": field_.doc}
    return {
        **{"id": field_.id, "name": field_.name, "type": str(field_.type), "required": field_.required},
        **{key: value for key, value in known.items() if value is not None},
        **({"fields": [describe_field(part) for part in parts]} if (parts := children(field_.type)) else {}),
    }


def value_text(value: CellValue, type_: Type | None) -> str:
    """A value in the internal form as people write it: dates and instants in ISO 8601."""
    match type_:
        case DateType() if value is not None:
            return str(np.datetime64(value, "D"))
        case IntegerType(unit="Y" | "M" | "h" as unit) if value is not None:
            return str(np.datetime64(value, unit))
        case TimestampType(unit=unit, utc=utc) if value is not None:
            return f"{np.datetime64(value, unit)}{'Z' if utc else ''}"
        case _:
            return "null" if value is None else str(value) if isinstance(value, Decimal) else repr(value)


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type in which rows leave harness: variant as JSON text, geo as WKB, unknown as int32 nulls."""
    match type_:
        case BooleanType():
            return pa.bool_()
        case IntegerType(bits=bits):
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
        case UnsignedType(bits=bits):
            return {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[bits]
        case FloatType(bits=bits):
            return {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}[bits]
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case DateType():
            return pa.date32()
        case TimeType(unit=unit):
            return pa.time32("ms") if unit == "ms" else pa.time64(unit)
        case TimestampType(unit=unit, utc=utc):
            return pa.timestamp(unit, "UTC" if utc else None)
        case Int96Type():
            return pa.timestamp("us")
        case StringType() | VariantType() | OpaqueType():
            return pa.string()
        case UuidType():
            return pa.uuid()
        case FixedType(length=length):
            return pa.binary(length)
        case BinaryType() | GeometryType() | GeographyType():
            return pa.binary()
        case UnknownType():
            return pa.int32()
        case StructType(fields=fields):
            return pa.struct([arrow_field(f) for f in fields])
        case ListType(element=element):
            return pa.list_(pa.field("element", arrow_type(element.type), not element.required))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key.type), pa.field("value", arrow_type(value.type), not value.required))


def arrow_field(field_: Field) -> pa.Field:
    """The Arrow field of a logical field, with its name and nullability; no metadata."""
    return pa.field(field_.name, arrow_type(field_.type), nullable=not field_.required)


# The deepest nesting of types. Walks of a type recurse once a level, here and in the engines.


def check_nesting(fields: tuple[Field, ...], limits: Limits, *, file: str | None = None) -> None:
    """Refuses columns of more levels than `limits.nesting` (LimitError)."""
    level, depth = fields, 0
    while level:
        depth += 1
        limits.check("nesting", depth, "levels of types", file=file)
        level = tuple(part for field in level for part in children(field.type))


# Columns that no file holds: where a row came from, and how it changed.


METADATA: dict[str, Field] = {
    f.name: f
    for f in (
        Field(id=2147483646, name="_file", type=StringType()),
        Field(id=2147483645, name="_pos", type=IntegerType(64)),
        Field(id=2147483644, name="_deleted", type=BooleanType()),
        Field(id=2147483643, name="_spec_id", type=IntegerType(32)),
        Field(id=2147483642, name="_partition", type=StructType(())),
        Field(id=2147483540, name="_row_id", type=IntegerType(64)),
        Field(id=2147483539, name="_last_updated_sequence_number", type=IntegerType(64)),
        Field(id=2147483538, name="_row_commit_version", type=IntegerType(64)),
    )
}
"""Metadata columns by name, with the ids that Iceberg reserves (iceberg 5.17); the last is Delta's (delta W3)."""

CHANGES: dict[str, Field] = {
    f.name: f
    for f in (
        Field(id=2147483543, name="_change_type", type=StringType()),
        Field(id=2147483537, name="_commit_version", type=IntegerType(64)),
        Field(id=2147483536, name="_commit_timestamp", type=TimestampType(utc=True)),
    )
}
"""The columns that a Delta change data feed adds to those of the table, in order (delta C10).

Iceberg reserves an id for the type of a change. The others have free ones: no delete file has a column of theirs.
"""


def from_unscaled(number: int, scale: int) -> Decimal:
    """`number` / 10**scale, exact at any precision."""
    # Not by arithmetic: the default context rounds at 28 digits, and tables hold 38.
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def unscaled(value: Decimal, scale: int) -> int:
    """The integer that, divided by 10**scale, is `value`; exact at any precision.

    Raises ValueError: `value` has more digits after the point than `scale`, or is not finite.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not finite")
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    power: int = 10 ** abs(exponent + scale)
    if exponent + scale >= 0:
        return number * power
    whole, rest = divmod(number, power)
    if rest != 0:
        raise ValueError(f"{value} does not fit scale {scale}")
    return whole
