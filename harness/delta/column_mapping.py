"""Ids and physical names of a Delta table's columns, as column mapping records them or as harness gives them.

With column mapping, a schema annotates every struct field with an id and a physical name (delta T10 to T13); elements
of arrays, keys and values of maps have neither, since files hold them by position. Harness needs an id for every field
all the same, so it numbers what the table does not.

Spec: Delta, "Column Mapping", "Reader Requirements for Column Mapping".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from harness.delta.protocol import MappingMode
from harness.errors import InvalidTableError
from harness.plan.column_mapping import ColumnLookup
from harness.records import dataclass

ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"

_LARGEST_ID = 2147483447
"""Ids above it are those of harness's own metadata columns."""


@dataclass(slots=True)
class PositionalIds:
    """Ids 1, 2, 3, … in the order of the schema, parents first: for tables without column mapping."""

    _next: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def identify(self, annotations: Mapping[str, Any], path: str) -> tuple[int, str | None]:
        """Id and physical name of a struct field; annotations of a mode that is not in force mean nothing (P4)."""
        return next(self._next), None

    def part(self) -> int:
        """The id of an element, a key or a value."""
        return next(self._next)


@dataclass(slots=True)
class MappedIds:
    """Ids and physical names as annotated; parts of arrays and maps are numbered above the largest annotated id."""

    _next: Iterator[int]
    _seen: dict[int, str] = field(default_factory=dict)

    @staticmethod
    def of(schema: Any) -> MappedIds:
        """For the schema with this JSON."""
        return MappedIds(itertools.count(max(_annotated_ids(schema), default=0) + 1))

    def identify(self, annotations: Mapping[str, Any], path: str) -> tuple[int, str | None]:
        """Id and physical name of a struct field.

        Raises:
            InvalidTableError: one of them is missing, or the id is out of range or another field's (delta T13).
        """
        id_, name = annotations.get(ID), annotations.get(PHYSICAL_NAME)
        if not isinstance(id_, int) or isinstance(id_, bool):
            raise _invalid(f"got {ID} {id_!r}, expected an integer, because column mapping is in force", path)
        if not isinstance(name, str) or not name:
            raise _invalid(f"got {PHYSICAL_NAME} {name!r}, expected a name, because column mapping is in force", path)
        if not 0 <= id_ <= _LARGEST_ID:
            raise _invalid(f"got {ID} {id_}, expected 0 to {_LARGEST_ID}", path)
        if id_ in self._seen:
            raise _invalid(f"got {ID} {id_}, which column {self._seen[id_]!r} has too; expected unique ids", path)
        self._seen[id_] = path
        return id_, name

    def part(self) -> int:
        """The id of an element, a key or a value."""
        return next(self._next)


Ids: TypeAlias = PositionalIds | MappedIds


def ids_for(mode: MappingMode, schema: Any) -> Ids:
    """Where the ids of the schema with this JSON come from."""
    return PositionalIds() if mode is MappingMode.NONE else MappedIds.of(schema)


def lookup_of(mode: MappingMode) -> ColumnLookup:
    """How the columns of data files are found in this mode (delta T10)."""
    return ColumnLookup.DELTA_ID if mode is MappingMode.ID else ColumnLookup.DELTA_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedColumns:
    """Physical names of the columns outside the schema that hold row ids and row commit versions (delta W2, W3, W5).

    None: the table names no such column. They are found by name in every mode, and a file may lack them.
    """

    row_id: str | None
    row_commit_version: str | None


def materialized_columns(configuration: Mapping[str, str]) -> MaterializedColumns:
    """The materialised columns that the table's properties name."""
    return MaterializedColumns(
        row_id=configuration.get("delta.rowTracking.materializedRowIdColumnName"),
        row_commit_version=configuration.get("delta.rowTracking.materializedRowCommitVersionColumnName"),
    )


def _annotated_ids(json: Any) -> Iterator[int]:
    """Every annotated id in a schema's JSON."""
    if isinstance(json, dict):
        for key, value in json.items():
            if key == ID and isinstance(value, int):
                yield value
            else:
                yield from _annotated_ids(value)
    elif isinstance(json, list):
        for item in json:
            yield from _annotated_ids(item)


def _invalid(reason: str, path: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid schema: {reason}", cause="SchemaError", field=path, rule="delta T13")
