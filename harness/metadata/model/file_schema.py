"""The columns of a data file as stored, and the ids of columns in files without field ids.

The readers of files return these types, and `harness.metadata.plan.projection` uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from harness.metadata.model import schema as dt
from harness.metadata.model.schema import children
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalField:
    """A column or nested field of a data file.

    Attributes:
        name: The stored name, which may differ from the name in the table (sanitized, renamed, or in Hive style).
        id: The field id in the file. None: the file has no id for the field.
        type: The stored type. For nested types it is only the kind: `STORED_STRUCT`, `STORED_LIST`, or `STORED_MAP`.
        children: The fields of a struct, (element,) of a list, or (key, value) of a map, as users see them, without the
            repeated groups in between.
        is_binary: True if a decimal is stored as bytes of any length, Parquet's BYTE_ARRAY.
    """

    name: str
    id: int | None
    type: dt.Type
    children: tuple[PhysicalField, ...] = ()
    is_binary: bool = False


PhysicalSchema: TypeAlias = tuple[PhysicalField, ...]

STORED_STRUCT = dt.StructType(())
STORED_LIST = dt.ListType(dt.Field(id=0, name="element", type=dt.UnknownType()))
STORED_MAP = dt.MapType(
    dt.Field(id=0, name="key", type=dt.UnknownType()), dt.Field(id=0, name="value", type=dt.UnknownType())
)
"""The kinds of nested stored types. `PhysicalField.children` has their contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedName:
    """The field id of a column with one of several names (iceberg 5.7).

    Attributes:
        names: The names.
        field_id: The field id. None: the column is hidden.
        fields: The mapping of nested fields.
    """

    names: tuple[str, ...]
    field_id: int | None
    fields: tuple[MappedName, ...] = ()


@dataclass(frozen=True, slots=True)
class NameMapping:
    """Field ids for the columns of files without ids.

    Attributes:
        fields: The mapping of the top-level columns. Nested levels use the names `element`, `key`, and `value`.
    """

    fields: tuple[MappedName, ...]


def walk_stored(fields: Iterable[PhysicalField]) -> Iterator[PhysicalField]:
    """Yield the stored fields and all their descendants, parents first."""
    for f in fields:
        yield f
        yield from walk_stored(f.children)


def is_variant_group(stored: PhysicalField) -> bool:
    """Return whether a stored field is a variant: a struct of `metadata` and `value` or `typed_value`.

    Spec: rule iceberg 6.15.
    """
    names = {f.name for f in stored.children}
    shaped = "metadata" in names and names <= {"metadata", "value", "typed_value"} and len(names) > 1
    return isinstance(stored.type, dt.StructType) and shaped


def stored_type_text(stored: PhysicalField) -> str:
    """Return a stored type as text, in the notation of table types."""
    match stored.type:
        case dt.StructType():
            return f"struct<{', '.join(f'{f.name}: {stored_type_text(f)}' for f in stored.children)}>"
        case dt.ListType():
            return f"list<{stored_type_text(stored.children[0])}>"
        case dt.MapType():
            return f"map<{stored_type_text(stored.children[0])}, {stored_type_text(stored.children[1])}>"
        case _:
            return str(stored.type)


def mapping_by_name(fields: tuple[dt.Field, ...]) -> NameMapping:
    """Return a mapping that finds every field by its physical name, or else its logical name, at every level."""
    return NameMapping(tuple(_name_entry(f) for f in fields))


def _name_entry(table_type: dt.Field) -> MappedName:
    name = table_type.name if table_type.physical_name is None else table_type.physical_name
    nested = tuple(_name_entry(child) for child in children(table_type.type))
    return MappedName(names=(name,), field_id=table_type.id, fields=nested)


def with_mapped_ids(file: PhysicalSchema, mapping: NameMapping) -> PhysicalSchema:
    """Return the columns with the ids of a mapping. Unnamed and hidden columns have no id (iceberg 5.7)."""
    return _map_level(file, tuple(f.name for f in file), mapping.fields)


def _map_level(level: PhysicalSchema, names: tuple[str, ...], entries: tuple[MappedName, ...]) -> PhysicalSchema:
    by_name = {name: entry for entry in entries for name in entry.names}
    mapped = []
    for stored, name in zip(level, names, strict=True):
        entry = by_name.get(name)
        match stored.type:  # lists and maps use fixed names, whatever the file has
            case dt.ListType():
                inside: tuple[str, ...] = ("element",)
            case dt.MapType():
                inside = ("key", "value")
            case _:
                inside = tuple(f.name for f in stored.children)
        nested = _map_level(stored.children, inside, () if entry is None else entry.fields)
        mapped.append(replace(stored, id=None if entry is None else entry.field_id, children=nested))
    return tuple(mapped)


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""The digits before the point that a decimal needs for all integers of a number of bits.

The Delta protocol requires 10 digits for 32 bits and less (delta T22). Delta on Spark records fewer, and every value
fits.
"""


def is_readable(stored: dt.Type, table_type: dt.Type) -> bool:
    """Return whether every stored value has one exact meaning in the Iceberg type `table_type`.

    The instant flag in the file has no effect, because the table's type decides (iceberg 6.8). Some pairs can still
    fail for a value: a date or microseconds outside of the range of nanoseconds (5.12, 6.10), text that is not a UUID
    (6.12), or bytes that are not UTF-8 (6.11). Nested types and variants are never readable here.
    """
    match table_type, stored:
        case dt.BooleanType() | dt.FixedType(), _:
            return stored == table_type
        case dt.IntegerType(bits=bits), dt.IntegerType(bits=width):
            return width <= bits
        case dt.IntegerType(bits=bits), dt.UnsignedType(bits=width):
            return width < bits
        case dt.FloatType(bits=bits), dt.FloatType(bits=width):
            return 32 <= width <= bits
        case dt.DecimalType(precision=precision, scale=scale), dt.DecimalType(precision=digits, scale=stored_scale):
            return stored_scale == scale and digits <= precision
        case dt.DateType(), dt.DateType() | dt.IntegerType(bits=32):
            return True
        case dt.TimeType(), dt.TimeType(unit=unit):
            return unit in ("ms", "us")
        case dt.TimestampType(unit=unit), dt.Int96Type():
            # Engines read INT96 in microseconds, so nanoseconds would be lost silently.
            return unit == "us"
        case dt.TimestampType(utc=utc), dt.DateType():
            return not utc
        case dt.TimestampType(), dt.TimestampType():
            return True
        case dt.StringType(), dt.StringType() | dt.BinaryType():
            return True
        case dt.UuidType(), dt.UuidType() | dt.StringType() | dt.FixedType(length=16):
            return True
        case dt.BinaryType(), dt.BinaryType():
            return True
        case dt.GeometryType() | dt.GeographyType(), dt.BinaryType() | dt.GeometryType() | dt.GeographyType():
            return True
        case dt.UnknownType(), _:
            return True
        case _:
            return False


def is_readable_in_delta(stored: dt.Type, table_type: dt.Type) -> bool:
    """Return whether a file's values of type `stored` may be read as a Delta table's type (delta T16, T18, T22).

    A stored type may be wider than the table's if its values may not fit, but cannot mean something else. This applies
    to integers of up to 32 bits (files have no narrower ones) and decimals of the same scale. Some pairs can therefore
    fail for a value: an integer or decimal out of range, or bytes that are not UTF-8. Nested types and variants are
    never readable here.
    """
    match table_type, stored:
        case dt.IntegerType(bits=bits), dt.IntegerType(bits=width):
            return width <= max(bits, 32)
        case dt.IntegerType(bits=bits), dt.UnsignedType(bits=width):
            return width < bits
        case dt.DecimalType(scale=scale), dt.DecimalType(scale=stored_scale):
            return scale == stored_scale or widens(stored, table_type)
        case dt.TimestampType(unit="us"), dt.TimestampType(unit=unit):
            # The instant flag in the file has no effect. Nanoseconds would lose digits.
            return unit != "ns"
        case dt.TimestampType(unit="us"), dt.Int96Type():
            return True
        case dt.StringType(), dt.BinaryType():
            return True
        case dt.BinaryType(), dt.StringType() | dt.FixedType():
            return True
        case dt.UnknownType(), _:
            return True
        case dt.BooleanType() | dt.FloatType() | dt.DateType() | dt.StringType() | dt.BinaryType(), _ if (
            stored == table_type
        ):
            return True
        case _:
            return widens(stored, table_type)


def widens(before: dt.Type, after: dt.Type) -> bool:
    """Return whether a Delta table may widen a column from `before` to `after` without rewriting files (delta T22)."""
    match before, after:
        case dt.IntegerType(bits=old), dt.IntegerType(bits=new):
            return old < new
        case dt.FloatType(bits=32), dt.FloatType(bits=64):
            return True
        case dt.IntegerType(bits=old), dt.FloatType(bits=64):
            return old <= 32
        case dt.IntegerType(bits=old), dt.DecimalType(precision=precision, scale=scale):
            return precision - scale >= _DIGITS[old]
        case dt.DecimalType(precision=p, scale=s), dt.DecimalType(precision=precision, scale=scale):
            return before != after and scale >= s and precision - scale >= p - s
        case dt.DateType(), dt.TimestampType(unit="us", utc=False):
            return True
        case _:
            return False
