"""The columns of a table in one data file: found by id or name, converted, or filled with constants and defaults.

Each requested field gets a function that maps the values of one level of the file (a row, or a struct in it) to the
field's value in the form that the module `types` describes. A file that cannot provide a field is therefore rejected
before its first row is read.

Spec: Iceberg, "Column Projection", "Default values" (5.1 to 5.16); Delta, "Column Mapping", "Schema" (T6 to T11, V1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

from harness.errors import SchemaMismatchError, UnsupportedError
from harness.suite.oracle import types as dt
from harness.suite.oracle.scan import DataFile, Scan
from harness.suite.oracle.types import CHANGES, Field, MappedName, RawColumn, StoredFile, children, walk
from harness.suite.oracle.values import Conversion, delta_conversion, iceberg_conversion
from harness.suite.oracle.variants import is_variant, variant_json

ValueReader: TypeAlias = Callable[[Sequence[Any]], Any]
"""Returns the value of a field from the values of one level of the file, in the file's column order."""

_OLDEST_DAY = -141_427
"""1582-10-15 in days since 1970. Dates from then on are the same in both calendars (delta T20)."""
_OLDEST_MICROS = -2_208_988_800_000_000
"""1900-01-01 in micros since 1970. Timestamps from then on are the same in all time zones (delta T20)."""


def refuse_opaque(field: Field, path: str, scan: Scan) -> None:
    """Raise UnsupportedError for a column of an unknown type, even if no file has it (iceberg 1.22, delta T28)."""
    if isinstance(field.type, dt.OpaqueType):
        message = f"Cannot read column {path}: its type {field.type.text!r} is not known; leave the column out"
        rule = "delta T28" if scan.is_delta else "iceberg 1.22"
        raise UnsupportedError(message, cause="UnsupportedType", field=path, rule=rule)


@dataclass(frozen=True)
class FileColumns:
    """The columns of one data file, matched to a table's fields.

    Attributes:
        columns: The file's columns, with the ids that a name mapping or their positions assign.
        has_ids: Whether the file itself has field ids.
        by_position: Whether the ids are column positions.
    """

    scan: Scan
    file: DataFile
    stored: StoredFile
    columns: tuple[RawColumn, ...]
    has_ids: bool
    by_position: bool

    @staticmethod
    def from_file(scan: Scan, file: DataFile, stored: StoredFile, fields: Sequence[Field]) -> FileColumns:
        """Return the columns of an opened file. A file without field ids gets ids here (iceberg 5.6, 5.7)."""
        columns, by_position = stored.columns, False
        has_ids = any(map(_has_id, columns))
        if not has_ids and not scan.is_delta:
            if scan.name_mapping is not None:
                columns = tuple(_with_mapped_ids(c, c.name, scan.name_mapping) for c in columns)
            elif file.format == "parquet":
                columns = tuple(replace(c, id=place) for place, c in enumerate(columns, start=1))
                by_position = True
            else:
                columns = _with_ids_by_name(columns, fields)
        return FileColumns(scan, file, stored, columns, has_ids, by_position)

    def reader(self, field: Field) -> ValueReader:
        """Return the function from a row to a top-level field's value. Raise an error if the file cannot provide it."""
        return self._reader(field, self.columns, field.name)

    def place_of(self, field: Field) -> int | None:
        """Return the position of a top-level field in the file, or None if its value comes from elsewhere."""
        if self._is_constant(field) or field.type == dt.UNKNOWN:
            return None
        return self._find(field, self.columns, field.name)

    def provides(self, field: Field, level: tuple[RawColumn, ...] | None = None) -> bool:
        """Return whether the file, the partition, or a default provides the innermost field of `field`."""
        level = self.columns if level is None else level
        below, constants = children(field.type), self.file.constants
        if field.type == dt.UNKNOWN or self._is_constant(field):
            return True
        place = self._find(field, level, field.name)
        if place is not None:
            return not below or self.provides(below[0], level[place].parts)
        value = None if field.id in constants else self._default(field, field.name)
        while value is not None and below:
            value, below = value[below[0].id], children(below[0].type)
        return field.id in constants or value is not None

    def stored_metadata(self, field: Field, name: str | None) -> ValueReader | None:
        """Return a reader for a metadata column that the file stores, or None.

        Iceberg files identify it by the reserved field id, Delta files by `name`.
        """
        for place, column in enumerate(self.columns):
            if column.name == name if self.scan.is_delta else column.id == field.id:
                return self._value_reader(field, column, place, field.name)
        return None

    def _is_constant(self, field: Field) -> bool:
        """Return whether the value is the partition value.

        Delta always prefers it to the file's value (V1), Iceberg only if the file has no field ids (5.2).
        """
        return field.id in self.file.constants and (self.scan.is_delta or not self.has_ids)

    def _reader(self, field: Field, level: tuple[RawColumn, ...], path: str) -> ValueReader:
        if field.type == dt.UNKNOWN:
            return _constant(None)
        refuse_opaque(field, path, self.scan)
        place = None if self._is_constant(field) else self._find(field, level, path)
        if place is not None:
            return self._value_reader(field, level[place], place, path)
        if field.id in self.file.constants:
            return _constant(self.file.constants[field.id])
        return _constant(None if self.scan.is_delta else self._default(field, path))

    def _find(self, field: Field, level: tuple[RawColumn, ...], path: str) -> int | None:
        """Return the position of the field among the columns of its level, or None."""
        is_change = self.scan.is_delta and field.id in (f.id for f in CHANGES.values())
        if self.scan.lookup in ("delta name", "delta exact name") or is_change:
            name = field.name if field.physical_name is None else field.physical_name
            positions = [i for i, c in enumerate(level) if c.name == name]
            if not positions and self.scan.lookup != "delta exact name":
                positions = [i for i, c in enumerate(level) if c.name.lower() == name.lower()]
            cause, rule = "AmbiguousColumn", "delta T10"
        else:
            if self.scan.lookup == "delta id" and level and all(c.id is None for c in level):
                reason = "the table uses field ids, and the file has none"
                self._mismatch(reason, "MissingFieldIds", path, "delta T11")
            positions = [i for i, c in enumerate(level) if c.id == field.id]
            cause, rule = "DuplicateFieldId", "delta T11" if self.scan.is_delta else "iceberg 5.1"
        if len(positions) > 1:
            names = " and ".join(repr(level[i].name) for i in positions)
            self._mismatch(f"it matches several columns of the file: {names}", cause, path, rule)
        return positions[0] if positions else None

    def _value_reader(self, field: Field, column: RawColumn, place: int, path: str) -> ValueReader:
        read = self._conversion(field, column, path)
        return lambda level: None if level[place] is None else read(level[place])

    def _conversion(self, field: Field, column: RawColumn, path: str) -> Conversion:
        """Return the conversion from a stored value that is not null to the field's value."""
        if column.type == dt.UNKNOWN:
            return _constant(None)
        if self.by_position and (children(field.type) or column.parts):
            message = f"Cannot read nested {path} without field ids: set the table property schema.name-mapping.default"
            raise UnsupportedError(message, cause="MissingFieldIds", field=path, rule="iceberg 5.6")
        match field.type, column.type:
            case dt.StructType(fields=fields), "struct":
                readers = {f.id: self._reader(f, column.parts, f"{path}.{f.name}") for f in fields}
                return lambda level: {field_id: read(level) for field_id, read in readers.items()}
            case dt.ListType(element=element), "list":
                item = self._part_reader(element, column.parts[0], path)
                return lambda items: [item((x,)) for x in items]
            case dt.MapType(key=key, value=value), "map":
                if not self.scan.is_delta and not _is_whole(key, column.parts[0]):
                    # Fields that were added to a key could make distinct keys equal (iceberg 5.10).
                    self._mismatch("the file lacks a part of the map's key", "IncompatibleType", path, "iceberg 5.10")
                keys, values = (self._part_reader(f, c, path) for f, c in zip((key, value), column.parts, strict=True))
                return lambda pairs: [(keys((k,)), values((v,))) for k, v in pairs]
            case dt.VARIANT, "struct" if is_variant(column):
                return lambda group: variant_json(column, group)
            case _, "struct" | "list" | "map":
                self._incompatible(field, column, path)
            case _, stored:
                return self._primitive_conversion(field, column, stored, path)

    def _part_reader(self, field: Field, column: RawColumn, path: str) -> ValueReader:
        """Return a reader for a list element, map key, or map value.

        Its id in the file must not be another field's id.
        """
        path = f"{path}.{field.name}"
        if field.type == dt.UNKNOWN:
            return _constant(None)
        refuse_opaque(field, path, self.scan)
        if column.id not in (None, field.id) and not self.scan.is_delta:
            reason = f"it has field id {column.id} in the file and {field.id} in the table"
            self._mismatch(reason, "IncompatibleType", path, "iceberg 5.1")
        return self._value_reader(field, column, 0, path)

    def _primitive_conversion(self, field: Field, column: RawColumn, stored: dt.ColumnType, path: str) -> Conversion:
        type_ = field.type
        convert = (delta_conversion if self.scan.is_delta else iceberg_conversion)(stored, type_)
        zones = isinstance(type_, dt.TimestampType) and isinstance(stored, dt.TimestampType) and type_.utc != stored.utc
        if convert is None or (zones and self.file.format == "orc"):
            # ORC's `timestamp` has no time zone and `timestamp_instant` has one. Neither can be read as the other
            # (7.4).
            self._incompatible(field, column, path)
        oldest, final = self._oldest(stored), convert

        def checked(value: Any) -> Any:
            if oldest is not None and value < oldest:
                raise ValueError(f"{stored} {value} was written in the Julian calendar (delta T20)")
            return final(value)

        return checked

    def _oldest(self, stored: dt.ColumnType) -> int | None:
        """Return the smallest stored value that is correct, or None if all values are (delta T20)."""
        old = self.stored.old_calendar if self.scan.is_delta else frozenset[str]()
        match stored:
            case dt.DATE if "dates" in old:
                return _OLDEST_DAY
            case dt.TimestampType(unit=unit, utc=True) if "dates" in old:
                return _OLDEST_MICROS // 1000 if unit == "ms" else _OLDEST_MICROS
            case dt.INT96 if "int96" in old:
                return _OLDEST_MICROS
            case _:
                return None

    def _default(self, field: Field, path: str) -> Any:
        """Return the value of a field that the file lacks (iceberg 5.2, 5.9)."""
        if any(f.id in self.file.constants for _, f in walk(children(field.type))):
            message = f"Cannot read column {path}: the file lacks the struct, but the partition tuple has its fields"
            raise UnsupportedError(message, cause="UnsupportedType", field=path, rule="iceberg 5.2")
        if field.initial_default is None and field.required:
            reason = f"it is required, and the file lacks field id {field.id}"
            self._mismatch(reason, "MissingRequiredField", path, "iceberg 5.2")
        return self._with_nested_defaults(field, field.initial_default, path)

    def _with_nested_defaults(self, field: Field, value: Any, path: str) -> Any:
        """Return a struct's default, completed with the defaults of the fields that it omits."""
        if not isinstance(field.type, dt.StructType) or value is None:
            return value
        places = [(f, f"{path}.{f.name}") for f in field.type.fields]
        return {
            f.id: self._with_nested_defaults(f, value[f.id], below) if f.id in value else self._default(f, below)
            for f, below in places
        }

    def _incompatible(self, field: Field, column: RawColumn, path: str) -> NoReturn:
        rule = "delta T23" if self.scan.is_delta else "iceberg 5.12"
        reason = f"the file stores {column.type}, which cannot be read as {field.type}"
        self._mismatch(reason, "IncompatibleType", path, rule)

    def _mismatch(self, reason: str, cause: str, path: str, rule: str) -> NoReturn:
        message = f"Cannot read column {path}: {reason}; rewrite the file"
        raise SchemaMismatchError(message, cause=cause, field=path, rule=rule)


def _constant(value: object) -> Callable[[Any], object]:
    return lambda _: value


def _has_id(column: RawColumn) -> bool:
    return column.id is not None or any(map(_has_id, column.parts))


def _is_whole(field: Field, column: RawColumn) -> bool:
    """Return whether a file has a field and all fields below it."""
    if dt.UNKNOWN in (field.type, column.type):
        return False
    if isinstance(field.type, dt.StructType) and column.type == "struct":
        below = {c.id: c for c in column.parts}
        return all(f.id in below and _is_whole(f, below[f.id]) for f in field.type.fields)
    return all(_is_whole(f, c) for f, c in zip(children(field.type), column.parts, strict=False))


def _with_mapped_ids(column: RawColumn, name: str, entries: Sequence[MappedName]) -> RawColumn:
    """Return the column and its nested columns with the ids from a name mapping (iceberg 5.7)."""
    entry = next((e for e in entries if name in e.names), None)
    below = () if entry is None else entry.fields
    names = {"list": ["element"], "map": ["key", "value"]}.get(str(column.type), [c.name for c in column.parts])
    parts = tuple(_with_mapped_ids(c, n, below) for c, n in zip(column.parts, names, strict=True))
    return replace(column, id=None if entry is None else entry.field_id, parts=parts)


def _with_ids_by_name(columns: Sequence[RawColumn], fields: Sequence[Field]) -> tuple[RawColumn, ...]:
    """Return the columns with the ids of the fields of the same names, at every level.

    Parts of lists match by position.
    """
    result = []
    for column in columns:
        field = next((f for f in fields if f.name == column.name), None)
        below = () if field is None else children(field.type)
        if column.type in ("list", "map"):
            below = tuple(replace(f, name=part.name) for f, part in zip(below, column.parts, strict=False))
        parts = _with_ids_by_name(column.parts, below)
        result.append(column if field is None else replace(column, id=field.id, parts=parts))
    return tuple(result)
