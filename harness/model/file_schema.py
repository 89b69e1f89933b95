"""What a data file holds: its columns as stored, and how columns without field ids get them.

The vocabulary between the readers of files and `harness.plan.projection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from harness.model.schema import Field, ListType, MapType, StructType, Type, UnknownType, children
from harness.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalField:
    """One column or nested field of a data file.

    name: as stored, which may differ from the table's (sanitised, renamed, Hive style).
    id: the field id in the file; None: the file gives none.
    type: the type as stored; nested types have `PhysicalField`s in `children`, and only their kind here:
        `STORED_STRUCT`, `STORED_LIST` or `STORED_MAP`.
    children: struct fields; or (element,); or (key, value). A list or map says what users see, without the
        repeated groups in between.
    """

    name: str
    id: int | None
    type: Type
    children: tuple[PhysicalField, ...] = ()


PhysicalSchema: TypeAlias = tuple[PhysicalField, ...]

STORED_STRUCT = StructType(())
STORED_LIST = ListType(Field(id=0, name="element", type=UnknownType()))
STORED_MAP = MapType(Field(id=0, name="key", type=UnknownType()), Field(id=0, name="value", type=UnknownType()))
"""Kinds of nested stored types; what is inside says `PhysicalField.children`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedName:
    """One entry of a name mapping: a column called any of `names` has `field_id`; None hides it (iceberg 5.7)."""

    names: tuple[str, ...]
    field_id: int | None
    fields: tuple[MappedName, ...] = ()


@dataclass(frozen=True, slots=True)
class NameMapping:
    """Field ids for the columns of files that have none. Nested levels use `element`, `key` and `value`."""

    fields: tuple[MappedName, ...]


def walk_stored(fields: Iterable[PhysicalField]) -> Iterator[PhysicalField]:
    """The given stored fields and all their descendants, parents first."""
    for f in fields:
        yield f
        yield from walk_stored(f.children)


def is_variant_group(stored: PhysicalField) -> bool:
    """Whether a stored struct has the fields of a variant: `metadata`, and `value` or `typed_value` (iceberg 6.15)."""
    names = {f.name for f in stored.children}
    shaped = "metadata" in names and names <= {"metadata", "value", "typed_value"} and len(names) > 1
    return isinstance(stored.type, StructType) and shaped


def describe(stored: PhysicalField) -> str:
    """The stored type in the words that table types use, for messages."""
    match stored.type:
        case StructType():
            return f"struct<{', '.join(f'{f.name}: {describe(f)}' for f in stored.children)}>"
        case ListType():
            return f"list<{describe(stored.children[0])}>"
        case MapType():
            return f"map<{describe(stored.children[0])}, {describe(stored.children[1])}>"
        case _:
            return str(stored.type)


def mapping_by_name(fields: tuple[Field, ...]) -> NameMapping:
    """The mapping that finds every field under its physical name, or else its logical one, at every level."""
    return NameMapping(tuple(_mapped_by_name(f) for f in fields))


def _mapped_by_name(wanted: Field) -> MappedName:
    name = wanted.name if wanted.physical_name is None else wanted.physical_name
    nested = tuple(_mapped_by_name(child) for child in children(wanted.type))
    return MappedName(names=(name,), field_id=wanted.id, fields=nested)


def with_mapped_ids(file: PhysicalSchema, mapping: NameMapping) -> PhysicalSchema:
    """The same columns with the ids of the mapping; what it does not name, or hides, has no id (iceberg 5.7)."""
    return _mapped(file, tuple(f.name for f in file), mapping.fields)


def _mapped(level: PhysicalSchema, names: tuple[str, ...], entries: tuple[MappedName, ...]) -> PhysicalSchema:
    by_name = {name: entry for entry in entries for name in entry.names}
    mapped = []
    for stored, name in zip(level, names, strict=True):
        entry = by_name.get(name)
        nested = _mapped(stored.children, _names_inside(stored), () if entry is None else entry.fields)
        mapped.append(replace(stored, id=None if entry is None else entry.field_id, children=nested))
    return tuple(mapped)


def _names_inside(stored: PhysicalField) -> tuple[str, ...]:
    """The names under which a mapping knows the children: fixed words in lists and maps, whatever the file says."""
    match stored.type:
        case ListType():
            return ("element",)
        case MapType():
            return ("key", "value")
        case _:
            return tuple(f.name for f in stored.children)


def with_positional_ids(file: PhysicalSchema) -> PhysicalSchema:
    """The same columns with ids 1 to n by position; nested fields have none (iceberg 5.6)."""
    return tuple(replace(f, id=position) for position, f in enumerate(file, start=1))
