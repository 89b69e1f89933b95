"""The columns of a table in one file: found by id or by name, converted, or made up.

For every wanted field a function is made, from the values of one level of the file (the row, or a struct in it) to the
field's value as `types` has it. Nothing is looked up while rows are read.

Spec: Iceberg, "Column Projection" (5.1 to 5.16); Delta, "Column Mapping" and "Schema" (T6 to T11, V1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

from harness.errors import SchemaMismatchError, UnsupportedError
from harness.testing.oracle import types as dt
from harness.testing.oracle.conversions import Conversion, delta_conversion, iceberg_conversion
from harness.testing.oracle.scan import Scan
from harness.testing.oracle.types import CHANGES, Field, RawColumn, StoredFile, children, walk
from harness.testing.oracle.variants import is_variant, variant_json

Level: TypeAlias = Sequence[Any]
"""The values of a level's columns in the file's order."""
Reader: TypeAlias = Callable[[Level], Any]
"""Reads the value of a field from a level of the file."""

_OLDEST_DAY = -141_427
"""1582-10-15 in days since 1970: dates from then on are the same in both calendars (delta T20)."""
_OLDEST_MICROS = -2_208_988_800_000_000
"""1900-01-01 in micros since 1970: timestamps from then on are the same in all zones (delta T20)."""


def refuse_opaque(wanted: Field, path: str, scan: Scan) -> None:
    """Refuses a column of an unknown type, also if no file has the column (iceberg 1.22, delta T28).

    Raises:
        UnsupportedError: it has such a type.
    """
    if isinstance(wanted.type, dt.OpaqueType):
        raise UnsupportedError(
            f"Cannot read column {path}: its type {wanted.type.text!r} is not known; leave the column out",
            cause="UnsupportedType",
            field=path,
            rule="delta T28" if scan.is_delta else "iceberg 1.22",
        )


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of one file, as a table's fields see them.

    scan: how columns are found, and for messages.
    columns: the file's, with the ids that a name mapping or their places give them.
    constants: the partition tuple's values by source field id.
    has_ids: whether the file has ids of its own.
    by_position: whether ids are places.
    file, file_format: for messages, and for what only ORC does.
    """

    scan: Scan
    columns: tuple[RawColumn, ...]
    constants: Mapping[int, Any]
    has_ids: bool
    by_position: bool
    old_calendar: frozenset[str]
    file: str
    file_format: str

    @staticmethod
    def of(
        scan: Scan,
        stored: StoredFile,
        wanted: Sequence[Field],
        constants: Mapping[int, Any],
        *,
        file: str,
        file_format: str,
    ) -> FileColumns:
        """The columns of an opened file; a file without ids gets them here (iceberg 5.6, 5.7)."""
        columns = stored.columns
        has_ids, by_position = any(c.id is not None for c in _all(columns)), False
        if not has_ids and not scan.is_delta:
            if scan.name_mapping is not None:
                columns = tuple(_mapped(c, c.name, scan.name_mapping.fields) for c in columns)
            elif file_format == "parquet":
                columns = tuple(replace(c, id=place) for place, c in enumerate(columns, start=1))
                by_position = True
            else:
                columns = _with_ids_by_name(columns, wanted)
        old = stored.old_calendar if scan.is_delta else frozenset[str]()
        return FileColumns(scan, columns, constants, has_ids, by_position, old, file, file_format)

    def reader(self, wanted: Field) -> Reader:
        """The function from a row of the file to the value of a top-level field.

        Raises:
            SchemaMismatchError, UnsupportedError: the file cannot give the field.
        """
        return self._reader(wanted, self.columns, wanted.name)

    def place_of(self, wanted: Field) -> int | None:
        """The place of a top-level field in the file; None: the field comes from elsewhere."""
        if self._is_constant(wanted) or wanted.type == dt.UNKNOWN:
            return None
        return self._find(wanted, self.columns, wanted.name)

    def provides(self, wanted: Field) -> bool:
        """Tells whether file, partition or default gives a value to the field at the bottom of `wanted`."""
        return self._provides(wanted, self.columns, wanted.name)

    def stored_metadata(self, wanted: Field, name: str | None) -> Reader | None:
        """Reads a metadata column of the file, by its reserved id, in Delta by `name`; None: the file has none."""
        is_delta = self.scan.is_delta
        for place, column in enumerate(self.columns):
            if column.name == name if is_delta else column.id == wanted.id:
                return self._value(wanted, column, place, wanted.name)
        return None

    def _is_constant(self, wanted: Field) -> bool:
        return wanted.id in self.constants and (self.scan.is_delta or not self.has_ids)

    def _reader(self, wanted: Field, level: tuple[RawColumn, ...], path: str) -> Reader:
        if wanted.type == dt.UNKNOWN:
            return _always(None)
        refuse_opaque(wanted, path, self.scan)
        if self._is_constant(wanted):
            return _always(self.constants[wanted.id])
        place = self._find(wanted, level, path)
        if place is not None:
            return self._value(wanted, level[place], place, path)
        if wanted.id in self.constants:
            return _always(self.constants[wanted.id])
        return _always(None if self.scan.is_delta else self._default(wanted, path))

    def _find(self, wanted: Field, level: tuple[RawColumn, ...], path: str) -> int | None:
        """The place of the field among the columns of its level."""
        lookup = self.scan.lookup
        is_change = self.scan.is_delta and CHANGES.get(wanted.name) == wanted
        if lookup == "delta name" or is_change:
            name = wanted.name if wanted.physical_name is None else wanted.physical_name
            found = [i for i, c in enumerate(level) if c.name == name]
            found = found or [i for i, c in enumerate(level) if c.name.lower() == name.lower()]
            cause, rule = "AmbiguousColumn", "delta T10"
        else:
            if lookup == "delta id" and level and all(c.id is None for c in level):
                self._mismatch(
                    "the table goes by field ids, and the file has none", "MissingFieldIds", path, "delta T11"
                )
            found = [i for i, c in enumerate(level) if c.id == wanted.id]
            cause, rule = "DuplicateFieldId", "delta T11" if self.scan.is_delta else "iceberg 5.1"
        if len(found) > 1:
            names = " and ".join(repr(level[i].name) for i in found)
            self._mismatch(f"it may be any of the file's columns {names}", cause, path, rule)
        return found[0] if found else None

    def _provides(self, wanted: Field, level: tuple[RawColumn, ...], path: str) -> bool:
        below = children(wanted.type)
        if wanted.type == dt.UNKNOWN or self._is_constant(wanted):
            return True
        place = self._find(wanted, level, path)
        if place is not None:
            return not below or self._provides(below[0], level[place].parts, f"{path}.{below[0].name}")
        if wanted.id in self.constants:
            return True
        value, inner = self._default(wanted, path), wanted
        while value is not None and children(inner.type):
            (inner,) = children(inner.type)
            value = value[inner.id]
        return value is not None

    def _value(self, wanted: Field, column: RawColumn, place: int, path: str) -> Reader:
        read = self._converted(wanted, column, path)

        def value(level: Level) -> Any:
            stored = level[place]
            return None if stored is None else read(stored)

        return value

    def _converted(self, wanted: Field, column: RawColumn, path: str) -> Conversion:
        """Converts a stored value that is not null to the field's."""
        if column.type == dt.UNKNOWN:
            return _always(None)
        if self.by_position and (children(wanted.type) or column.parts):
            raise UnsupportedError(
                f"Cannot read nested {path} by position: the file has no field ids and the table no name mapping; "
                "set the table property schema.name-mapping.default",
                **self._at("MissingFieldIds", path, "iceberg 5.6"),
            )
        match wanted.type, column.type:
            case dt.StructType(fields=fields), "struct":
                readers = {f.id: self._reader(f, column.parts, f"{path}.{f.name}") for f in fields}
                return lambda level: {field_id: read(level) for field_id, read in readers.items()}
            case dt.ListType(element=element), "list":
                item = self._part(element, column, 0, path)
                return lambda items: [item((x,)) for x in items]
            case dt.MapType(key=key, value=value), "map":
                return self._map(key, value, column, path)
            case dt.VARIANT, "struct" if is_variant(column):
                return lambda group: variant_json(column, group)
            case _, "struct" | "list" | "map":
                self._incompatible(wanted, str(column.type), path)
            case type_, stored:
                return self._single(wanted, type_, stored, path)

    def _map(self, key: Field, value: Field, column: RawColumn, path: str) -> Conversion:
        if not self.scan.is_delta and not self._is_whole(key, column.parts[0]):
            # Fields added to a key could make keys equal (iceberg 5.10).
            self._mismatch("the file lacks a part of the map's key", "IncompatibleType", path, "iceberg 5.10")
        keys, values = self._part(key, column, 0, path), self._part(value, column, 1, path)
        return lambda pairs: [(keys((k,)), values((v,))) for k, v in pairs]

    def _is_whole(self, wanted: Field, column: RawColumn) -> bool:
        """Tells whether the file has the field and everything below it."""
        if wanted.type == dt.UNKNOWN or column.type == dt.UNKNOWN:
            return False
        if isinstance(wanted.type, dt.StructType) and column.type == "struct":
            below = {c.id: c for c in column.parts}
            return all(f.id in below and self._is_whole(f, below[f.id]) for f in wanted.type.fields)
        return all(self._is_whole(f, c) for f, c in zip(children(wanted.type), column.parts, strict=False))

    def _part(self, wanted: Field, parent: RawColumn, place: int, path: str) -> Reader:
        """Reads an element, key or value: the file's only candidate, which must not be another field's."""
        column, path = parent.parts[place], f"{path}.{wanted.name}"
        if wanted.type == dt.UNKNOWN:
            return _always(None)
        refuse_opaque(wanted, path, self.scan)
        if column.id is not None and column.id != wanted.id and not self.scan.is_delta:
            reason = f"it has field id {column.id} in the file and {wanted.id} in the table"
            self._mismatch(reason, "IncompatibleType", path, "iceberg 5.1")
        return self._value(wanted, column, 0, path)

    def _single(self, wanted: Field, type_: dt.Type, stored: dt.Type, path: str) -> Conversion:
        find = delta_conversion if self.scan.is_delta else iceberg_conversion
        convert = find(stored, type_)
        zones = isinstance(type_, dt.TimestampType) and isinstance(stored, dt.TimestampType) and type_.utc != stored.utc
        if convert is None or (zones and self.file_format == "orc"):
            # ORC's timestamp is a wall clock, its timestamp_instant is none: neither stands for the other (7.4).
            self._incompatible(wanted, str(stored), path)
        limit = self._oldest(stored)
        if limit is None:
            return convert
        (oldest, unit), final = limit, convert

        def checked(value: Any) -> Any:
            if value * unit < oldest:
                raise ValueError(f"{stored} {value} is in the calendar of an old writer (delta T20)")
            return final(value)

        return checked

    def _oldest(self, stored: dt.Type) -> tuple[int, int] | None:
        """The least right value, and its units in one stored unit; None: all values are right."""
        match stored:
            case dt.DATE if "dates" in self.old_calendar:
                return _OLDEST_DAY, 1
            case dt.TimestampType(unit=unit, utc=True) if "dates" in self.old_calendar:
                return _OLDEST_MICROS, 1000 if unit == "ms" else 1
            case dt.INT96 if "int96" in self.old_calendar:
                return _OLDEST_MICROS, 1
            case _:
                return None

    def _default(self, wanted: Field, path: str) -> Any:
        """The value of a field that the file lacks (iceberg 5.2, 5.9)."""
        if any(f.id in self.constants for _, f in walk(children(wanted.type))):
            raise UnsupportedError(
                f"Cannot read column {path}: the file lacks the struct, and its partition tuple has values in it; "
                "rewrite the file",
                **self._at("UnsupportedType", path, "iceberg 5.2"),
            )
        if wanted.initial_default is None and wanted.required:
            self._mismatch(
                f"it is required, and the file lacks field id {wanted.id}", "MissingRequiredField", path, "iceberg 5.2"
            )
        return self._filled(wanted, wanted.initial_default, path)

    def _filled(self, wanted: Field, value: Any, path: str) -> Any:
        """A struct's default with the defaults of the fields that it does not name."""
        if not isinstance(wanted.type, dt.StructType) or value is None:
            return value
        filled = {}
        for f in wanted.type.fields:
            below = f"{path}.{f.name}"
            filled[f.id] = self._filled(f, value[f.id], below) if f.id in value else self._default(f, below)
        return filled

    def _incompatible(self, wanted: Field, stored: str, path: str) -> NoReturn:
        rule = "delta T23" if self.scan.is_delta else "iceberg 5.12"
        reason = f"the file stores {stored} and the table has {wanted.type}, which it cannot be read as"
        self._mismatch(reason, "IncompatibleType", path, rule)

    def _mismatch(self, reason: str, cause: str, path: str, rule: str) -> NoReturn:
        raise SchemaMismatchError(
            f"Cannot read column {path}: {reason}; rewrite the file", **self._at(cause, path, rule)
        )

    def _at(self, cause: str, path: str, rule: str) -> dict[str, str]:
        return {"cause": cause, "table": self.scan.table, "file": self.file, "field": path, "rule": rule}


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _all(columns: Sequence[RawColumn]) -> Iterator[RawColumn]:
    for column in columns:
        yield column
        yield from _all(column.parts)


def _mapped(column: RawColumn, name: str, entries: Sequence[Any]) -> RawColumn:
    """The column under the ids that a name mapping gives to `name` and to the columns below (iceberg 5.7)."""
    entry = next((e for e in entries if name in e.names), None)
    below = () if entry is None else entry.fields
    names = {"list": ("element",), "map": ("key", "value")}.get(str(column.type), tuple(c.name for c in column.parts))
    parts = tuple(_mapped(c, n, below) for c, n in zip(column.parts, names, strict=True))
    return replace(column, id=None if entry is None else entry.field_id, parts=parts)


def _with_ids_by_name(columns: tuple[RawColumn, ...], wanted: Sequence[Field]) -> tuple[RawColumn, ...]:
    """The columns with the ids of the wanted fields of their names, at every level."""
    by_name = {f.name if f.physical_name is None else f.physical_name: f for f in wanted}
    return tuple(_with_id(c, by_name.get(c.name)) for c in columns)


def _with_id(column: RawColumn, wanted: Field | None) -> RawColumn:
    if wanted is None:
        return column
    below = children(wanted.type)
    if column.type in ("list", "map"):
        parts = tuple(_with_id(c, below[i] if i < len(below) else None) for i, c in enumerate(column.parts))
    else:
        parts = _with_ids_by_name(column.parts, below)
    return replace(column, id=wanted.id, parts=parts)
