"""Projection of a data file's schema onto the table's schema: the source of the values of each column.

These are pure functions: they take the physical schema of a file and the fields that a read needs, and return the
source of each field.

Spec: Delta, "Column Mapping"; Iceberg, "Column Projection".
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import (
    NameMapping,
    PhysicalField,
    PhysicalSchema,
    is_readable,
    is_readable_in_delta,
    is_variant_group,
    mapping_by_name,
    stored_type_text,
    walk_stored,
    with_mapped_ids,
)
from harness.storage.records import dataclass


class ColumnLookup(enum.Enum):
    """How the columns of a table are found in a data file, at every struct level.

    Attributes:
        ICEBERG: By field id, or by the name mapping if the file has no ids. A column in the file takes precedence over
            the partition tuple.
        DELTA_NAME: By the physical name, or else the display name, whatever ids the file has. Partition values take
            precedence. If no column has the exact name, letter case is ignored.
        DELTA_EXACT_NAME: Like DELTA_NAME, but in exact letter case, because names in the table differ only by case.
        DELTA_ID: By field id, whatever names the file has. Partition values take precedence.
    """

    ICEBERG = "iceberg"
    DELTA_NAME = "delta name"
    DELTA_EXACT_NAME = "delta exact name"
    DELTA_ID = "delta id"

    @property
    def is_delta(self) -> bool:
        """True if Delta's rules apply to missing columns, wider types, and partition values."""
        return self is not ColumnLookup.ICEBERG

    @property
    def is_by_name(self) -> bool:
        """True if columns are found by name, whatever ids a file has."""
        return self in (ColumnLookup.DELTA_NAME, ColumnLookup.DELTA_EXACT_NAME)


def stored_name(field: dt.Field) -> str:
    """Return the name of a field in data files, statistics, and partition values: physical, or else logical."""
    return field.name if field.physical_name is None else field.physical_name


def _id(stored: PhysicalField) -> int | None:
    return stored.id


def _name(stored: PhysicalField) -> str:
    return stored.name


def _lower_name(stored: PhysicalField) -> str:
    return stored.name.lower()


class _FieldIndex:
    """The fields of one file by id and by name, indexed per level when a lookup first needs the index."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, Callable[[PhysicalField], Any]], tuple[PhysicalSchema, dict[Any, list[int]]]] = {}

    def by_id(self, field_id: int | None, level: PhysicalSchema) -> Sequence[int]:
        """Return the positions of the fields with an id or, for None, of the fields without an id."""
        return self._indexed(level, _id).get(field_id, ())

    def by_name(self, name: str, level: PhysicalSchema, lookup: ColumnLookup) -> Sequence[int]:
        """Return the positions of fields with a name, or else of fields that differ in case only (delta T10, E4)."""
        exact = self._indexed(level, _name).get(name, ())
        if exact or lookup is ColumnLookup.DELTA_EXACT_NAME:
            return exact
        return self._indexed(level, _lower_name).get(name.lower(), ())

    def _indexed(self, level: PhysicalSchema, key: Callable[[PhysicalField], Any]) -> dict[Any, list[int]]:
        entry = self._places.get((id(level), key))
        if entry is None:
            places: dict[Any, list[int]] = {}
            for place, stored in enumerate(level):
                places.setdefault(key(stored), []).append(place)
            # The entry keeps the level alive, so that its `id()` is not reused.
            entry = self._places[id(level), key] = level, places
        return entry[1]


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column that is stored in the file.

    Attributes:
        physical: The stored field. It may be a copy with the id that a name mapping assigns.
        parts: The sources of the needed fields of a struct in the table's order, of the element of a list as
            (element,), or of a map as (key, value). Empty for a single value and for a variant. All parts of a struct
            may be `ConstantValue`; the struct's own nulls still count (iceberg 5.9). An element or map value may be
            `ConstantValue(None)`; lengths and keys still count (5.10).
        place: Index of the field at its level in the file. It identifies the stored field, because `physical` may be a
            copy.
    """

    physical: PhysicalField
    parts: tuple[ColumnSource, ...] = ()
    place: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """The same internal value in every row of the file: a default, or null."""

    value: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The value of a field in the file's partition tuple. It may differ from file to file."""

    field_id: int


ColumnSource: TypeAlias = FileColumn | ConstantValue | PartitionValue


def resolve(
    fields: tuple[dt.Field, ...],
    file: PhysicalSchema,
    *,
    name_mapping: NameMapping | None,
    partition_ids: frozenset[int] = frozenset(),
    file_format: str = "parquet",
    file_path: str,
    table: str,
    lookup: ColumnLookup = ColumnLookup.ICEBERG,
) -> tuple[ColumnSource, ...]:
    """Return the source of each of `fields` in a file, in order (iceberg 5.1 to 5.15; delta T5 to T11, V1).

    Iceberg: if the file has a column with the field's id, the field is read from that column. Otherwise its value comes
    from the partition tuple, else from the field's default, else it is null (5.2). A file without any ids gets ids
    first: from the name mapping, or, if there is none, from the names (avro, orc) or from the positions of the columns
    (parquet, top level only; 5.6). For a file without ids, the partition tuple takes precedence over the file.

    Delta: a partition column has the value of the partition tuple, even if the file contains the column (V1). Any other
    field, at each struct level, is read if the file has a column with its name or id, with Delta's type widening (T16
    to T18, T22). Otherwise it is null, even if the table declares it not nullable (T7, T8).

    Args:
        fields: Table fields, possibly with only some of their children. For metadata columns, use `find_stored`.
        file: The physical schema of the file.
        name_mapping: Used only for a file without ids in an Iceberg table.
        partition_ids: Iceberg: source ids of the identity fields in the file's partition spec. Delta: ids of the
            partition columns.
        file_format: `parquet`, `avro`, or `orc`.
        file_path: The path of the file, for messages.
        table: The location of the table, for messages.
        lookup: How columns are found.

    Raises:
        SchemaMismatchError: A stored type cannot be read as the table's type (`IncompatibleType`), a required field has
            no value (`MissingRequiredField`, Iceberg only), two columns have one id or name (`DuplicateFieldId`,
            `AmbiguousColumn`), or the file has no ids although the table finds columns by id (`MissingFieldIds`, delta
            T11).
        UnsupportedError: A field has an unknown type (iceberg 1.22, delta T28), or a nested field could be found only
            by position (iceberg 5.6).
    """
    source_of = resolver(
        fields,
        file,
        name_mapping=name_mapping,
        partition_ids=partition_ids,
        file_format=file_format,
        file_path=file_path,
        table=table,
        lookup=lookup,
    )
    return tuple(map(source_of, fields))


def resolver(
    fields: tuple[dt.Field, ...],
    file: PhysicalSchema,
    *,
    name_mapping: NameMapping | None,
    partition_ids: frozenset[int] = frozenset(),
    file_format: str = "parquet",
    file_path: str,
    table: str,
    lookup: ColumnLookup = ColumnLookup.ICEBERG,
) -> Callable[[dt.Field], ColumnSource]:
    """Return a function that finds the source of one field, for callers that handle each error separately.

    The arguments are those of `resolve`, and the returned function raises the errors of `resolve`.
    """
    has_ids = any(f.id is not None for f in walk_stored(file))
    by_position = False
    if not has_ids and lookup is ColumnLookup.ICEBERG:
        if name_mapping is not None:
            file = with_mapped_ids(file, name_mapping)
        elif file_format == "parquet":
            file, by_position = tuple(replace(f, id=position) for position, f in enumerate(file, start=1)), True
        else:
            file = with_mapped_ids(file, mapping_by_name(fields))
    field_resolver = _Resolver(
        partition_ids=partition_ids,
        has_ids=has_ids,
        by_position=by_position,
        is_mapped=not has_ids and lookup is ColumnLookup.ICEBERG and name_mapping is not None,
        strict_zones=file_format == "orc",
        lookup=lookup,
        file_path=file_path,
        table=table,
    )
    return lambda target: field_resolver.source(target, file, target.name)


def is_positional(file: PhysicalSchema, *, name_mapping: NameMapping | None, file_format: str = "parquet") -> bool:
    """Return whether `resolve` finds columns only by position, which deserves a warning (iceberg 5.6)."""
    if not file or file_format != "parquet" or name_mapping is not None:
        return False
    return all(f.id is None for f in walk_stored(file))


def shares_columns(
    fields: tuple[dt.Field, ...],
    file: PhysicalSchema,
    *,
    name_mapping: NameMapping | None,
    file_format: str = "parquet",
    lookup: ColumnLookup = ColumnLookup.ICEBERG,
) -> bool:
    """Return whether a file has any of the top-level `fields` by the rules of `resolve`, or has no columns at all.

    A file without any of these columns yields only nulls, defaults, and partition values. Arguments are as for
    `resolve`.
    """
    if not file:
        return True
    if lookup is ColumnLookup.DELTA_EXACT_NAME:
        return not {stored_name(f) for f in fields}.isdisjoint(f.name for f in file)
    if lookup.is_by_name:
        return not {stored_name(f).lower() for f in fields}.isdisjoint(f.name.lower() for f in file)
    if lookup is ColumnLookup.ICEBERG and all(f.id is None for f in walk_stored(file)):
        if name_mapping is None and file_format == "parquet":
            return True  # found by position
        file = with_mapped_ids(file, mapping_by_name(fields) if name_mapping is None else name_mapping)
    return not {f.id for f in fields}.isdisjoint(f.id for f in file)


def find_stored(field_id: int, file: PhysicalSchema) -> FileColumn | None:
    """Return the top-level column with an id, for example a stored `_row_id`, or None (iceberg 5.18)."""
    return next((FileColumn(f, place=place) for place, f in enumerate(file) if f.id == field_id), None)


def find_named(name: str, file: PhysicalSchema) -> FileColumn | None:
    """Return the top-level column with exactly that name, for example stored row ids (delta T14, W5), or None."""
    return next((FileColumn(f, place=place) for place, f in enumerate(file) if f.name == name), None)


def check_stored(target: dt.Field, stored: FileColumn, *, file_path: str, table: str, lookup: ColumnLookup) -> None:
    """Raise SchemaMismatchError if a stored metadata column has an incompatible type (iceberg 5.12, delta T23)."""
    field_resolver = _Resolver(
        partition_ids=frozenset(),
        has_ids=True,
        by_position=False,
        strict_zones=False,
        lookup=lookup,
        file_path=file_path,
        table=table,
    )
    field_resolver.from_stored(target, stored.physical, target.name, stored.place)


def is_identity(target: dt.Field, source: ColumnSource) -> bool:
    """Return whether a stored column has exactly the table's types, and the same names and order below the top level.

    The name of the column itself is not compared. The result is False for a variant or a geometry, which engines must
    convert.
    """
    if not isinstance(source, FileColumn):
        return False
    stored, parts = source.physical, source.parts
    match target.type:
        case dt.StructType(fields=fields):
            same_names = tuple(f.name for f in fields) == tuple(f.name for f in stored.children)
            return same_names and _are_unchanged(fields, stored.children, parts)
        case dt.ListType() | dt.MapType():
            return _are_unchanged(dt.children(target.type), stored.children, parts)
        case dt.VariantType() | dt.GeometryType() | dt.GeographyType():
            return False
        case _:
            return stored.type == target.type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolver:
    """The state of resolving the fields of one file. Paths are dotted names from the top.

    Attributes:
        partition_ids: As for `resolve`.
        has_ids: True if the file itself has field ids.
        by_position: True if columns are found by position.
        strict_zones: True for ORC, where a timestamp is a wall clock and a timestamp_instant is not, so that neither
            can be read as the other.
        lookup: How columns are found.
        file_path: For messages.
        table: For messages.
        is_mapped: True if the ids of the file's columns come from the name mapping.
        levels: Index of the file's fields.
    """

    partition_ids: frozenset[int]
    has_ids: bool
    by_position: bool
    strict_zones: bool
    lookup: ColumnLookup
    file_path: str
    table: str
    is_mapped: bool = False
    levels: _FieldIndex = field(default_factory=_FieldIndex, repr=False, compare=False)

    def source(self, target: dt.Field, level: PhysicalSchema, path: str) -> ColumnSource:
        if isinstance(target.type, dt.UnknownType):
            return ConstantValue(None)
        self.refuse_opaque(target, path)
        is_partition = target.id in self.partition_ids
        if is_partition and (self.lookup.is_delta or not self.has_ids):
            return PartitionValue(target.id)
        place = self.find(target, level, path)
        if place is not None:
            return self.from_stored(target, level[place], path, place)
        if is_partition:
            return PartitionValue(target.id)
        return ConstantValue(None if self.lookup.is_delta else self.default(target, path))

    def find(self, target: dt.Field, level: PhysicalSchema, path: str) -> int | None:
        """Return the position of a field in a level, or None if the level does not have the field."""
        if self.lookup.is_by_name or (self.lookup.is_delta and dt.CHANGES.get(target.name) == target):
            name = stored_name(target)
            places = self.levels.by_name(name, level, self.lookup)
            if len(places) > 1:
                names = " and ".join(repr(level[place].name) for place in places)
                raise SchemaMismatchError(
                    f"Cannot read column {path}: the file's columns {names} both match {name!r}; rewrite the file",
                    **self.error_place("AmbiguousColumn", path, "delta T10"),
                )
            return places[0] if places else None
        if self.lookup is ColumnLookup.DELTA_ID and level and len(self.levels.by_id(None, level)) == len(level):
            raise SchemaMismatchError(
                f"Cannot read column {path}: the table finds columns by field id, and the file's columns at this level "
                "have none; rewrite the file",
                **self.error_place("MissingFieldIds", path, "delta T11"),
            )
        places = self.levels.by_id(target.id, level)
        if len(places) > 1:
            names = " and ".join(repr(level[place].name) for place in places)
            raise SchemaMismatchError(
                f"Cannot read column {path}: the file's columns {names} both have field id {target.id}; "
                "correct the file or the name mapping",
                **self.error_place("DuplicateFieldId", path, self.rule("iceberg 5.1", "delta T11")),
            )
        return places[0] if places else None

    def from_stored(self, target: dt.Field, stored: PhysicalField, path: str, place: int) -> ColumnSource:
        if isinstance(stored.type, dt.UnknownType):
            return ConstantValue(None)
        if self.by_position and (dt.children(target.type) or stored.children):
            raise UnsupportedError(
                f"Cannot read nested {path} by position: the file has no field ids and the table no name mapping; "
                "set the table property schema.name-mapping.default",
                **self.error_place("MissingFieldIds", path, "iceberg 5.6"),
            )
        match target.type, stored.type:
            case dt.StructType(fields=fields), dt.StructType():
                inner = tuple(self.source(f, stored.children, f"{path}.{f.name}") for f in fields)
                return FileColumn(stored, inner, place)
            case dt.ListType(element=element), dt.ListType():
                return FileColumn(stored, (self.part(element, stored, path, 0),), place)
            case dt.MapType(key=key, value=value), dt.MapType():
                parts = (self.part(key, stored, path, 0), self.part(value, stored, path, 1))
                # Two keys could become equal if a field of the key were filled in (iceberg 5.10).
                if not _is_fully_stored(parts[0]) and not self.lookup.is_delta:
                    raise SchemaMismatchError(
                        f"Cannot read column {path}: the file lacks a part of the map's key {key.type}; "
                        f"{self.remedy()}",
                        **self.error_place("IncompatibleType", path, "iceberg 5.10"),
                    )
                return FileColumn(stored, parts, place)
            case dt.VariantType(), dt.StructType() if is_variant_group(stored):
                return FileColumn(stored, place=place)
            case dt.TimestampType(utc=utc), dt.TimestampType(utc=stored_utc) if self.strict_zones and utc != stored_utc:
                pass
            case _:
                if (is_readable_in_delta if self.lookup.is_delta else is_readable)(stored.type, target.type):
                    return FileColumn(stored, place=place)
        raise SchemaMismatchError(
            f"Cannot read column {path}: the file stores {stored_type_text(stored)}, which cannot be read as "
            f"{target.type}, the type in the table; {'rewrite the file, or ' if self.is_mapped else ''}{self.remedy()}",
            **self.error_place("IncompatibleType", path, self.rule("iceberg 5.12", "delta T23")),
        )

    def part(self, target: dt.Field, parent: PhysicalField, path: str, place: int) -> ColumnSource:
        """Return the source of an element, key, or value. A stored part must not have another field's id."""
        stored = parent.children[place]
        path = f"{path}.{target.name}"
        if isinstance(target.type, dt.UnknownType):
            return ConstantValue(None)
        self.refuse_opaque(target, path)
        if stored.id is not None and stored.id != target.id and not self.lookup.is_delta:
            source = "the name mapping" if self.is_mapped else "the file"
            raise SchemaMismatchError(
                f"Cannot read column {path}: it has field id {stored.id} in {source} and {target.id} in the table's "
                f"schema; {self.remedy()}",
                **self.error_place("IncompatibleType", path, "iceberg 5.1"),
            )
        return self.from_stored(target, stored, path, place)

    def default(self, target: dt.Field, path: str) -> Any:
        """Return the value of a field that the file lacks (iceberg 5.2, 5.9)."""
        partition_fields = sorted(f.id for _, f in dt.walk(dt.children(target.type)) if f.id in self.partition_ids)
        if partition_fields:
            raise UnsupportedError(
                f"Cannot read column {path}: the file lacks the struct, but its partition tuple has values for the "
                f"struct's fields {partition_fields}; rewrite the file",
                **self.error_place("UnsupportedType", path, "iceberg 5.2"),
            )
        if target.initial_default is None and target.required:
            raise SchemaMismatchError(
                f"Cannot read required column {path}: the file lacks field id {target.id}, which has no initial "
                f"default; {self.remedy()}, or make the column optional",
                **self.error_place("MissingRequiredField", path, "iceberg 5.2"),
            )
        return self.filled(target, target.initial_default, path)

    def filled(self, target: dt.Field, value: Any, path: str) -> Any:
        """Return a struct's default in the struct's order. Fields that it lacks get their own defaults."""
        if not isinstance(target.type, dt.StructType) or value is None:
            return value
        return {
            f.id: self.filled(f, value[f.id], f"{path}.{f.name}")
            if f.id in value
            else self.default(f, f"{path}.{f.name}")
            for f in target.type.fields
        }

    def refuse_opaque(self, target: dt.Field, path: str) -> None:
        if isinstance(target.type, dt.OpaqueType):
            raise UnsupportedError(
                f"Cannot read column {path}: its type {target.type.text!r} is not known; leave the column out",
                **self.error_place("UnsupportedType", path, self.rule("iceberg 1.22", "delta T28")),
            )

    def remedy(self) -> str:
        """Return advice for a column that is missing or has another column's id."""
        if self.is_mapped:
            return "correct the table property schema.name-mapping.default, which assigns ids to the file's columns"
        return "rewrite the file"

    def rule(self, iceberg: str, delta: str) -> str:
        return delta if self.lookup.is_delta else iceberg

    def error_place(self, cause: str, path: str, rule: str) -> dict[str, str]:
        return {"cause": cause, "table": self.table, "file": self.file_path, "field": path, "rule": rule}


def _is_fully_stored(source: ColumnSource) -> bool:
    return isinstance(source, FileColumn) and all(_is_fully_stored(part) for part in source.parts)


def _are_unchanged(fields: tuple[dt.Field, ...], stored: PhysicalSchema, parts: tuple[ColumnSource, ...]) -> bool:
    """Return whether each part is the stored child at the same position, unchanged."""
    return len(fields) == len(stored) == len(parts) and all(
        isinstance(part, FileColumn) and part.physical == child and is_identity(f, part)
        for f, child, part in zip(fields, stored, parts, strict=True)
    )
