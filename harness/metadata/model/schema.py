"""The logical types of both table formats: types, fields with ids, and schemas.

Harness represents values of these types (defaults, partition values, bounds, literals) in one internal form, which
annotations call `CellValue`:

    boolean bool · integers, date (days), time (micros), timestamp (micros or nanos since 1970-01-01, UTC) int
    float, double float · decimal Decimal · string str · uuid (16 bytes, big-endian), fixed, binary bytes
    struct dict by field id · list list · map list of (key, value) · null None

Dates and instants are ints because tables contain years that `datetime` does not support.
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

The alias is not a union. The type of the column determines the type of a value, and type checkers do not see it. With a
union, each comparison and each sum of two values would need a cast.
"""


@dataclass(frozen=True, slots=True)
class BooleanType:
    """A Boolean: true or false."""

    def __str__(self) -> str:
        return "boolean"


@dataclass(frozen=True, slots=True)
class IntegerType:
    """A signed integer of 8, 16, 32, or 64 bits. Iceberg only has 32 (int) and 64 (long).

    Attributes:
        bits: The number of bits.
        unit: The unit of a partition value that counts years, months, or hours since 1970, as NumPy names it. It only
            affects how the value is shown.
    """

    bits: Literal[8, 16, 32, 64]
    unit: Literal["", "Y", "M", "h"] = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return {8: "byte", 16: "short", 32: "int", 64: "long"}[self.bits]


@dataclass(frozen=True, slots=True)
class FloatType:
    """An IEEE binary floating-point number of 32 or 64 bits. 16 bits only occur in files.

    Attributes:
        bits: The number of bits.
    """

    bits: Literal[16, 32, 64]

    def __str__(self) -> str:
        return {16: "half", 32: "float", 64: "double"}[self.bits]


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A fixed-point number.

    Attributes:
        precision: The total number of digits, 1 to 38.
        scale: The number of digits after the point.
    """

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
    """A time of day without a zone. Tables have microseconds; files may have milliseconds or nanoseconds.

    Attributes:
        unit: The unit of values.
    """

    unit: Literal["ms", "us", "ns"] = "us"

    def __str__(self) -> str:
        return "time" if self.unit == "us" else f"time_{self.unit}"


@dataclass(frozen=True, slots=True)
class TimestampType:
    """A point in time. Milliseconds only occur in files.

    Attributes:
        unit: The unit of values.
        utc: True if it is an instant, stored in UTC. Otherwise it is a wall-clock reading.
    """

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
    """Binary data of a fixed length.

    Attributes:
        length: The number of bytes.
    """

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
    """A semi-structured value in the Parquet variant encoding. Rows contain it as JSON text with sorted keys."""

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class GeometryType:
    """A planar geometry as WKB bytes.

    Attributes:
        crs: The coordinate system.
    """

    crs: str = "OGC:CRS84"

    def __str__(self) -> str:
        return f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType:
    """A geometry on the globe as WKB bytes.

    Attributes:
        crs: The coordinate system.
        algorithm: How edges between points are interpolated.
    """

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
    """An unknown type name, kept so that the rest of the table stays readable (iceberg 1.22).

    Attributes:
        text: The name in the metadata.
    """

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class UnsignedType:
    """An unsigned integer, which only occurs in files.

    Attributes:
        bits: The number of bits.
    """

    bits: Literal[8, 16, 32, 64]

    def __str__(self) -> str:
        return f"uint{self.bits}"


@dataclass(frozen=True, slots=True)
class Int96Type:
    """Parquet's legacy 96-bit timestamp, which only occurs in files."""

    def __str__(self) -> str:
        return "int96"


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct.

    Attributes:
        fields: The named fields, in order.
    """

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{f.name}: {f.type}' for f in self.fields)}>"


@dataclass(frozen=True, slots=True)
class ListType:
    """A list.

    Attributes:
        element: The element, a field named `element`.
    """

    element: Field

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map. Keys are never null, and the order of entries has no meaning.

    Attributes:
        key: The key, a field named `key`.
        value: The value, a field named `value`.
    """

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
    """A column, struct field, list element, map key, or map value.

    Attributes:
        id: The field id, unique in its schema at every level. Delta tables without column mapping get ids by position.
        name: The logical name, as users write it. List elements are named `element`, the parts of maps `key` and
            `value`.
        type: The type.
        required: True if the writer promised that the field is never null. Harness does not enforce it.
        initial_default: The value of the field in rows written before the field existed, in the internal form. None
            means both "no default" and "null", which the formats treat alike. `{}` for a struct means a struct of the
            fields' own defaults.
        physical_name: The name in data files, if the format maps names (Delta column mapping). None: the same name.
        doc: The comment on the field.
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
    """A table's columns at one point of its history.

    As text, it has one line for each field. Nested fields are indented.

    Attributes:
        fields: The top-level columns, in order.
        id: The schema id (Iceberg `schema-id`). 0 for Delta.
        identifier_field_ids: The fields that identify rows, for information only. They do not affect rows (iceberg
            5.20).
    """

    fields: tuple[Field, ...]
    id: int = 0
    identifier_field_ids: tuple[int, ...] = ()

    def __str__(self) -> str:
        from harness.metadata.model.text_tables import align  # reads do not need this import

        lines = []
        for path, f in self.walk():
            word = str(f.type).partition("<")[0] if children(f.type) else str(f.type)
            lines.append(("  " * (len(path) - 1) + f.name, word, "required" if f.required else "nullable"))
        return "\n".join(align(lines))

    __repr__ = __str__

    def names(self) -> tuple[str, ...]:
        """Return the top-level column names, in order."""
        return tuple(f.name for f in self.fields)

    def walk(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """Yield every field at every level, parents first, with its path of names from the top-level column down."""
        return walk(self.fields)

    def by_id(self) -> dict[int, tuple[tuple[str, ...], Field]]:
        """Return the path of names and the field for each field id, at every level."""
        return {f.id: (path, f) for path, f in self.walk()}


def walk(fields: tuple[Field, ...], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yield the fields and all their descendants, parents first, each with its path of names."""
    for f in fields:
        path = (*prefix, f.name)
        yield path, f
        yield from walk(children(f.type), path)


def children(type_: Type) -> tuple[Field, ...]:
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


def describe_field(field_: Field) -> dict[str, object]:
    """Return the field and its parts as plain values. Missing properties have no key."""
    optional = {"initial_default": field_.initial_default, "physical_name": field_.physical_name, "doc": field_.doc}
    return {
        **{"id": field_.id, "name": field_.name, "type": str(field_.type), "required": field_.required},
        **{key: value for key, value in optional.items() if value is not None},
        **({"fields": [describe_field(part) for part in parts]} if (parts := children(field_.type)) else {}),
    }


def value_text(value: CellValue, type_: Type | None) -> str:
    """Return a value in the internal form as text. Dates and instants are in ISO 8601."""
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
    """Return the Arrow type of a column in results: variant as JSON text, geo types as WKB, unknown as int32 nulls."""
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
    """Return the Arrow field of a logical field, with its name and nullability, without metadata."""
    return pa.field(field_.name, arrow_type(field_.type), nullable=not field_.required)


def check_nesting(fields: tuple[Field, ...], limits: Limits, *, file: str | None = None) -> None:
    """Refuse columns with more nested levels than `limits.nesting`, because functions recurse once for each level.

    Raises:
        LimitError: There are too many levels.
    """
    level, depth = fields, 0
    while level:
        depth += 1
        limits.check("nesting", depth, "levels of types", file=file)
        level = tuple(part for field in level for part in children(field.type))


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
"""The metadata columns by name, with the ids that Iceberg reserves (iceberg 5.17).

They are not stored in files. The last one belongs to Delta (delta W3).
"""

CHANGES: dict[str, Field] = {
    f.name: f
    for f in (
        Field(id=2147483543, name="_change_type", type=StringType()),
        Field(id=2147483537, name="_commit_version", type=IntegerType(64)),
        Field(id=2147483536, name="_commit_timestamp", type=TimestampType(utc=True)),
    )
}
"""The columns that a Delta change data feed adds to the columns of the table, in order (delta C10).

Iceberg reserves an id for the type of a change. The other columns have unused ids, because no delete file has such
columns.
"""

SNAPSHOT_CHANGES: dict[str, Field] = {
    f.name: f
    for f in (
        CHANGES["_change_type"],
        Field(id=2147483542, name="_change_ordinal", type=IntegerType(32)),
        Field(id=2147483541, name="_commit_snapshot_id", type=IntegerType(64)),
    )
}
"""The columns that a read of changes of an Iceberg table adds to the columns of the table, in order (iceberg 8.4).

Iceberg reserves their ids.
"""

LIFETIMES: dict[str, Field] = {
    f.name: f
    for f in (
        Field(id=2147483535, name="_added_commit", type=IntegerType(32)),
        Field(id=2147483534, name="_removed_commit", type=IntegerType(32)),
        Field(id=2147483533, name="_deleted_by", type=IntegerType(64)),
        Field(id=2147483532, name="_file_number", type=IntegerType(32)),
    )
}
"""The columns of a plan with lifetimes (`harness.metadata.plan.lifetimes`); the last one is the ordinal of the row's
file in the plan. Users cannot name these columns."""


def from_unscaled(number: int, scale: int) -> Decimal:
    """Return `number` / 10**scale, exact at any precision."""
    # Arithmetic would round: the default context has 28 digits, and tables have up to 38.
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def unscaled(value: Decimal, scale: int) -> int:
    """Return `value` * 10**scale as an integer, exact at any precision.

    Raises:
        ValueError: `value` has more than `scale` digits after the point, or is not finite.
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
