"""The projection of a data file's schema onto the table's: each column of a read finds its source in the file.

Pure: takes a file's physical schema and the fields that a read wants, and says per field where its values come from.
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

# The ways in which a table's columns are found among those of a data file.
#
# Spec: Delta, "Column Mapping"; Iceberg, "Column Projection".


class ColumnLookup(enum.Enum):
    """The rules of one format, and of one way of its writers, by which columns are found at every struct level.

    ICEBERG: by field id, or as a name mapping says in files without ids; the file comes before the partition tuple.
    DELTA_NAME: by the physical name, else the display name, whatever ids a file has; the partition values come first.
        A column of that name in another letter case counts where there is no other.
    DELTA_EXACT_NAME: as DELTA_NAME, in that letter case only: names of the table differ in nothing else.
    DELTA_ID: by field id, whatever names a file has; the partition values come first.
    """

    ICEBERG = "iceberg"
    DELTA_NAME = "delta name"
    DELTA_EXACT_NAME = "delta exact name"
    DELTA_ID = "delta id"

    @property
    def is_delta(self) -> bool:
        """True where Delta's rules hold for missing and wider columns, and for partition values."""
        return self is not ColumnLookup.ICEBERG

    @property
    def is_by_name(self) -> bool:
        """True where a column is found by its name, whatever ids a file has."""
        return self in (ColumnLookup.DELTA_NAME, ColumnLookup.DELTA_EXACT_NAME)


def stored_name(field: dt.Field) -> str:
    """The name under which data files, statistics and partition values know a field: physical, else logical."""
    return field.name if field.physical_name is None else field.physical_name


def _id(stored: PhysicalField) -> int | None:
    return stored.id


def _name(stored: PhysicalField) -> str:
    return stored.name


def _lower_name(stored: PhysicalField) -> str:
    return stored.name.lower()


class _FieldIndex:
    """The stored fields of the levels of one file, indexed by id and by name when a lookup first needs the index."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, Callable[[PhysicalField], Any]], tuple[PhysicalSchema, dict[Any, list[int]]]] = {}

    def by_id(self, field_id: int | None, level: PhysicalSchema) -> Sequence[int]:
        """Return the places of the fields with that id; None: of those without an id."""
        return self._indexed(level, _id).get(field_id, ())

    def by_name(self, name: str, level: PhysicalSchema, lookup: ColumnLookup) -> Sequence[int]:
        """Return the places of the fields called `name`, else of those that differ by letter case (delta T10, E4)."""
        exact = self._indexed(level, _name).get(name, ())
        if exact or lookup is ColumnLookup.DELTA_EXACT_NAME:
            return exact
        return self._indexed(level, _lower_name).get(name.lower(), ())

    def _indexed(self, level: PhysicalSchema, key: Callable[[PhysicalField], Any]) -> dict[Any, list[int]]:
        known = self._places.get((id(level), key))
        if known is None:
            places: dict[Any, list[int]] = {}
            for place, stored in enumerate(level):
                places.setdefault(key(stored), []).append(place)
            # The entry keeps the level alive, so that no other level gets its id.
            known = self._places[id(level), key] = level, places
        return known[1]


# Sources of a field's values.


@dataclass(frozen=True, slots=True)
class FileColumn:
    """The file has the field.

    parts: sources of a struct's wanted fields in the table's order, or of (element,), or of (key, value); empty for a
        single value and for a variant. All of a struct's parts may be `ConstantValue`: its own nulls still count (iceberg 5.9).
        An element or map value may be `Value(None)`: lengths and keys still count (5.10).
    place: index of the field among those of its level in the file. `physical` may be a copy that carries the id which
        a name mapping gives, so this, not the object, says which stored field it is.
    """

    physical: PhysicalField
    parts: tuple[ColumnSource, ...] = ()
    place: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """The same value in every row of the file, as internal values: a default, or null."""

    value: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The constant of the file's partition tuple for this field id; may differ from file to file."""

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
    """The source of each of `fields` in a file, in order (iceberg 5.1 to 5.15; delta T5 to T11, V1).

    Iceberg: a field that the file has by id is read; else the partition tuple's value is taken, else the field's
    default, else null (5.2). A file without any id gets ids first: the partition tuple goes before it, then the name
    mapping, or without one the names (avro, orc) or the positions of the columns (parquet, top level only; 5.6).

    Delta: a partition column is the partition tuple's value, whatever the file holds (V1). Any other field that the
    file has by name or by id, at each struct level, is read, with Delta's own widenings (T16 to T18, T22); else it is
    null, whatever it promises about nulls (T7, T8).

    fields: table fields, possibly pruned; `find_stored` looks metadata columns up.
    name_mapping: used only for a file without ids of an Iceberg table.
    partition_ids: source ids of the identity fields in the file's own partition spec; Delta: of the partition columns.
    file_format: `parquet`, `avro` or `orc`.

    Raises:
        SchemaMismatchError: a stored type that the table's type cannot be read from (`IncompatibleType`), a required
            field without a value (`MissingRequiredField`, Iceberg only), an id or a name that two columns claim
            (`DuplicateFieldId`, `AmbiguousColumn`), no ids where the table goes by ids (`MissingFieldIds`, delta T11).
        UnsupportedError: a field of an unknown type (iceberg 1.22, delta T28), a nested field found only by position
            (iceberg 5.6).
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
    """Return the function that finds the source of each of `fields`, for callers that handle each error by itself.

    Arguments and errors are those of `resolve`.
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
    found = _Resolver(
        partition_ids=partition_ids,
        has_ids=has_ids,
        by_position=by_position,
        is_mapped=not has_ids and lookup is ColumnLookup.ICEBERG and name_mapping is not None,
        strict_zones=file_format == "orc",
        lookup=lookup,
        file_path=file_path,
        table=table,
    )
    return lambda wanted: found.source(wanted, file, wanted.name)


def is_positional(file: PhysicalSchema, *, name_mapping: NameMapping | None, file_format: str = "parquet") -> bool:
    """True where `resolve` can only go by the position of columns, which deserves a warning (iceberg 5.6)."""
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
    """True where a file has any of the top-level `fields`, by the rules of `resolve`, or has no columns at all.

    Arguments as there. If it has none, all that it gives are nulls, defaults and partition values.
    """
    if not file:
        return True
    if lookup is ColumnLookup.DELTA_EXACT_NAME:
        return not {stored_name(f) for f in fields}.isdisjoint(f.name for f in file)
    if lookup.is_by_name:
        return not {stored_name(f).lower() for f in fields}.isdisjoint(f.name.lower() for f in file)
    if lookup is ColumnLookup.ICEBERG and all(f.id is None for f in walk_stored(file)):
        if name_mapping is None and file_format == "parquet":
            return True  # by position
        file = with_mapped_ids(file, mapping_by_name(fields) if name_mapping is None else name_mapping)
    return not {f.id for f in fields}.isdisjoint(f.id for f in file)


def find_stored(field_id: int, file: PhysicalSchema) -> FileColumn | None:
    """The top-level column with that id, such as a stored `_row_id`; None if the file has none (iceberg 5.18)."""
    return next((FileColumn(f, place=place) for place, f in enumerate(file) if f.id == field_id), None)


def find_named(name: str, file: PhysicalSchema) -> FileColumn | None:
    """The top-level column of exactly that name, such as Delta's materialised row ids (delta T14, W5), or None."""
    return next((FileColumn(f, place=place) for place, f in enumerate(file) if f.name == name), None)


def check_stored(wanted: dt.Field, stored: FileColumn, *, file_path: str, table: str, lookup: ColumnLookup) -> None:
    """Refuses a stored metadata column of a type that its own cannot be read from (iceberg 5.12, delta T23)."""
    found = _Resolver(
        partition_ids=frozenset(),
        has_ids=True,
        by_position=False,
        strict_zones=False,
        lookup=lookup,
        file_path=file_path,
        table=table,
    )
    found.from_stored(wanted, stored.physical, wanted.name, stored.place)


def is_identity(wanted: dt.Field, source: ColumnSource) -> bool:
    """True where the stored column is the table's as it is: same types, and below the top the same names and order.

    The column's own name is not compared. Never true for a variant or a geometry, which engines have to convert.
    """
    if not isinstance(source, FileColumn):
        return False
    stored, parts = source.physical, source.parts
    match wanted.type:
        case dt.StructType(fields=fields):
            same_names = tuple(f.name for f in fields) == tuple(f.name for f in stored.children)
            return same_names and _are_unchanged(fields, stored.children, parts)
        case dt.ListType() | dt.MapType():
            return _are_unchanged(dt.children(wanted.type), stored.children, parts)
        case dt.VariantType() | dt.GeometryType() | dt.GeographyType():
            return False
        case _:
            return stored.type == wanted.type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolver:
    """The constants of resolving one file's fields; paths are dotted names from the top.

    is_mapped: the ids of the file's columns are those that the table's name mapping gives them.
    strict_zones: ORC's timestamp is a wall clock and its timestamp_instant is not, so neither can stand for the other.
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

    def source(self, wanted: dt.Field, level: PhysicalSchema, path: str) -> ColumnSource:
        if isinstance(wanted.type, dt.UnknownType):
            return ConstantValue(None)
        self.refuse_opaque(wanted, path)
        is_partition = wanted.id in self.partition_ids
        if is_partition and (self.lookup.is_delta or not self.has_ids):
            return PartitionValue(wanted.id)
        place = self.find(wanted, level, path)
        if place is not None:
            return self.from_stored(wanted, level[place], path, place)
        if is_partition:
            return PartitionValue(wanted.id)
        return ConstantValue(None if self.lookup.is_delta else self.default(wanted, path))

    def find(self, wanted: dt.Field, level: PhysicalSchema, path: str) -> int | None:
        """Return the place of the field in the level; None: the level does not have it."""
        if self.lookup.is_by_name or (self.lookup.is_delta and dt.CHANGES.get(wanted.name) == wanted):
            name = stored_name(wanted)
            found = self.levels.by_name(name, level, self.lookup)
            if len(found) > 1:
                names = " and ".join(repr(level[place].name) for place in found)
                raise SchemaMismatchError(
                    f"Cannot read column {path}: the file's columns {names} may both be {name!r}; rewrite the file",
                    **self.error_place("AmbiguousColumn", path, "delta T10"),
                )
            return found[0] if found else None
        if self.lookup is ColumnLookup.DELTA_ID and level and len(self.levels.by_id(None, level)) == len(level):
            raise SchemaMismatchError(
                f"Cannot read column {path}: the table finds columns by field id, and the file's columns at its level "
                "have none; rewrite the file",
                **self.error_place("MissingFieldIds", path, "delta T11"),
            )
        found = self.levels.by_id(wanted.id, level)
        if len(found) > 1:
            names = " and ".join(repr(level[place].name) for place in found)
            raise SchemaMismatchError(
                f"Cannot read column {path}: the file's columns {names} both have field id {wanted.id}; "
                "correct the file or the name mapping",
                **self.error_place("DuplicateFieldId", path, self.rule("iceberg 5.1", "delta T11")),
            )
        return found[0] if found else None

    def from_stored(self, wanted: dt.Field, stored: PhysicalField, path: str, place: int) -> ColumnSource:
        if isinstance(stored.type, dt.UnknownType):
            return ConstantValue(None)
        if self.by_position and (dt.children(wanted.type) or stored.children):
            raise UnsupportedError(
                f"Cannot read nested {path} by position: the file has no field ids and the table no name mapping; "
                "set the table property schema.name-mapping.default",
                **self.error_place("MissingFieldIds", path, "iceberg 5.6"),
            )
        match wanted.type, stored.type:
            case dt.StructType(fields=fields), dt.StructType():
                inner = tuple(self.source(f, stored.children, f"{path}.{f.name}") for f in fields)
                return FileColumn(stored, inner, place)
            case dt.ListType(element=element), dt.ListType():
                return FileColumn(stored, (self.part(element, stored, path, 0),), place)
            case dt.MapType(key=key, value=value), dt.MapType():
                parts = (self.part(key, stored, path, 0), self.part(value, stored, path, 1))
                # Fields added to a key could make keys equal (iceberg 5.10).
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
                if (is_readable_in_delta if self.lookup.is_delta else is_readable)(stored.type, wanted.type):
                    return FileColumn(stored, place=place)
        raise SchemaMismatchError(
            f"Cannot read column {path}: the file stores {stored_type_text(stored)} and the table has {wanted.type}, which it "
            f"cannot be read as; {'rewrite the file, or ' if self.is_mapped else ''}{self.remedy()}",
            **self.error_place("IncompatibleType", path, self.rule("iceberg 5.12", "delta T23")),
        )

    def part(self, wanted: dt.Field, parent: PhysicalField, path: str, place: int) -> ColumnSource:
        """The source of an element, key or value: there is only one candidate, which must not be another field's."""
        stored = parent.children[place]
        path = f"{path}.{wanted.name}"
        if isinstance(wanted.type, dt.UnknownType):
            return ConstantValue(None)
        self.refuse_opaque(wanted, path)
        if stored.id is not None and stored.id != wanted.id and not self.lookup.is_delta:
            where = "the name mapping" if self.is_mapped else "the file"
            raise SchemaMismatchError(
                f"Cannot read column {path}: it has field id {stored.id} in {where} and {wanted.id} in the table's "
                f"schema; {self.remedy()}",
                **self.error_place("IncompatibleType", path, "iceberg 5.1"),
            )
        return self.from_stored(wanted, stored, path, place)

    def default(self, wanted: dt.Field, path: str) -> Any:
        """The value of a field that the file lacks (iceberg 5.2, 5.9)."""
        held = sorted(f.id for _, f in dt.walk(dt.children(wanted.type)) if f.id in self.partition_ids)
        if held:
            raise UnsupportedError(
                f"Cannot read column {path}: the file lacks the struct, but its partition tuple has values for the "
                f"struct's fields {held}; rewrite the file",
                **self.error_place("UnsupportedType", path, "iceberg 5.2"),
            )
        if wanted.initial_default is None and wanted.required:
            raise SchemaMismatchError(
                f"Cannot read required column {path}: the file lacks field id {wanted.id}, which has no initial "
                f"default; {self.remedy()}, or make the column optional",
                **self.error_place("MissingRequiredField", path, "iceberg 5.2"),
            )
        return self.filled(wanted, wanted.initial_default, path)

    def filled(self, wanted: dt.Field, value: Any, path: str) -> Any:
        """A struct's default with the defaults of the fields that it does not mention, in the struct's order."""
        if not isinstance(wanted.type, dt.StructType) or value is None:
            return value
        return {
            f.id: self.filled(f, value[f.id], f"{path}.{f.name}")
            if f.id in value
            else self.default(f, f"{path}.{f.name}")
            for f in wanted.type.fields
        }

    def refuse_opaque(self, wanted: dt.Field, path: str) -> None:
        if isinstance(wanted.type, dt.OpaqueType):
            raise UnsupportedError(
                f"Cannot read column {path}: its type {wanted.type.text!r} is not known; leave the column out",
                **self.error_place("UnsupportedType", path, self.rule("iceberg 1.22", "delta T28")),
            )

    def remedy(self) -> str:
        """The remedy for a column that is not there, or is taken for another."""
        if self.is_mapped:
            return "correct the table property schema.name-mapping.default, by which the file's columns have their ids"
        return "rewrite the file"

    def rule(self, iceberg: str, delta: str) -> str:
        return delta if self.lookup.is_delta else iceberg

    def error_place(self, cause: str, path: str, rule: str) -> dict[str, str]:
        return {"cause": cause, "table": self.table, "file": self.file_path, "field": path, "rule": rule}


def _is_fully_stored(source: ColumnSource) -> bool:
    return isinstance(source, FileColumn) and all(_is_fully_stored(part) for part in source.parts)


def _are_unchanged(fields: tuple[dt.Field, ...], stored: PhysicalSchema, parts: tuple[ColumnSource, ...]) -> bool:
    """True where each part is the stored child at its own place, unchanged."""
    return len(fields) == len(stored) == len(parts) and all(
        isinstance(part, FileColumn) and part.physical == child and is_identity(f, part)
        for f, child, part in zip(fields, stored, parts, strict=True)
    )
