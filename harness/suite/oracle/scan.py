"""The read that is asked for, and the scan that answers: live files, each with the deletes that hit the file.

Chapters on a format make a scan of a request; the last chapter reads the rows of a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from harness.errors import RequestError, UnknownColumnError
from harness.suite.oracle.paths import Files
from harness.suite.oracle.types import METADATA, Field, MappedName, Schema, find_field


@dataclass(frozen=True)
class Filter:
    """A condition on rows. Neither format defines a language for conditions, so the condition is a function.

    Attributes:
        columns: The columns that the condition names.
        matches: Takes the columns of several rows as a table, and returns the numbers of the rows for which the
            condition is true. False and unknown drop a row (iceberg 3.1).
    """

    columns: tuple[Field, ...]
    matches: Callable[[pa.Table], Sequence[int]]


Condition: TypeAlias = Callable[[Callable[[str], Field]], Filter]
"""Makes the filter of a table, by the function that gives the column of a name."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A read of a table.

    location: a table's directory or, for Iceberg, a metadata file.
    snapshot_id, version, timestamp_ms, ref: the moment of the table's history; of Delta a snapshot is a version.
    changes: the first and the last version whose changes are read instead of rows; None: rows are read.
    columns: names in the order wanted; None: all of the schema.
    where: a condition; None: every row.
    path_map: prefixes of recorded paths, and where the files are now.
    max_version, ratified: a catalog's answer about a Delta table: the latest version, and commits that are not
        published, each a version with the name of a staged file or with the commit's bytes (frontier F4.4).
    published_only: read the published commits of a table that a catalog manages.
    """

    location: str
    snapshot_id: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    ref: str | None = None
    changes: tuple[int, int] | None = None
    columns: Sequence[str] | None = None
    where: Condition | None = None
    path_map: Mapping[str, str] = field(default_factory=dict)
    max_version: int | None = None
    ratified: Sequence[tuple[int, str | bytes]] = ()
    published_only: bool = False


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A live data file; of a delete file the first lines.

    path, physical: as recorded, and where the bytes are. record_count: physical rows; None: the metadata does not say.
    partition: values by partition field id. constants: values of columns by field id (iceberg 5.2, delta V1).
    sequence_number, first_row_id, commit_version: of its rows, where no column of the file says another.
    equality: the equality deletes that hit the file.
    positions: gives the deleted positions; None: there are none.
    """

    path: str
    physical: str
    format: str
    record_count: int | None
    spec_id: int
    partition: Mapping[int, Any]
    constants: Mapping[int, object]
    sequence_number: int | None
    first_row_id: int | None
    commit_version: int | None = None
    equality: tuple[EqualityDelete, ...] = ()
    positions: Callable[[], Iterable[int]] | None = None


@dataclass(frozen=True)
class EqualityDelete:
    """An equality delete file, which deletes rows that equal one of the file's rows in all keys (iceberg 4.23).

    keys: the top-level columns that hold the keys. paths: per key, field ids from there down.
    """

    file: DataFile
    keys: tuple[Field, ...]
    paths: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Scan:
    """All that a read has to do.

    lookup: how columns are found in data files: `iceberg`, `delta name`, `delta exact name`, or `delta id`.
    name_mapping: gives ids to the columns of Iceberg files that have none; None: there is no mapping.
    materialized: by name of a metadata column, the column of Delta's data files that holds the values (delta W2, W3).
    """

    table: str
    format: str
    snapshot: int | None
    columns: tuple[Field, ...]
    filter: Filter | None
    data: tuple[DataFile, ...]
    files: Files
    lookup: str = "iceberg"
    name_mapping: tuple[MappedName, ...] | None = None
    materialized: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_delta(self) -> bool:
        """Tells whether the rules of Delta hold."""
        return self.format == "delta"


def resolve_columns(
    request: Request, schema: Schema, typed: Callable[[Field], Field]
) -> tuple[tuple[Field, ...], Filter | None, set[str]]:
    """The columns that a read gives, the filter, and the names of all metadata columns in either.

    A column hides a metadata column of its name (iceberg 5.19). typed: gives a metadata column the table's own type.
    """

    def find(name: str) -> Field:
        metadata = find_field(name, METADATA.values())
        found = find_field(name, schema.fields) or (None if metadata is None else typed(metadata))
        if found is None:
            raise UnknownColumnError(f"Unknown column {name!r}", field=name)
        return found

    columns = schema.fields if request.columns is None else tuple(map(find, request.columns))
    if request.columns is not None and len({f.id for f in columns}) < len(columns):
        raise RequestError("Invalid columns: one is named twice")
    condition = None if request.where is None else request.where(find)
    used = (*columns, *(() if condition is None else condition.columns))
    return columns, condition, {f.name for f in used if f.name in METADATA and f.id == METADATA[f.name].id}
