"""The request for a read, and the scan that answers it: live data files with the deletes that apply to each.

The modules for the two formats turn a request into a scan. The module `reading` reads the rows of a scan.
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
        columns: The columns that the condition uses.
        matches: A function that takes these columns of several rows as a table and returns the row numbers for which
            the condition is true. Rows for which it is false or unknown are dropped (iceberg 3.1).
    """

    columns: tuple[Field, ...]
    matches: Callable[[pa.Table], Sequence[int]]


Condition: TypeAlias = Callable[[Callable[[str], Field]], Filter]
"""A function that makes the filter for a table. Its argument is a function that returns the column of a name."""


@dataclass(frozen=True, kw_only=True)
class ChangeRange:
    """A range of commits whose changes are read.

    Attributes:
        from_: The first version of a Delta table. For Iceberg a snapshot id or the name of a branch or tag; None for
            the oldest snapshot that the table still has, whose own changes are included.
        to: The last version, snapshot id, branch, or tag, inclusive. None for the current snapshot.
        from_inclusive: Whether the changes of the commit `from_` are included. None for the habit of the format: they
            are for Delta, and are not for Iceberg.
        mode: `appends`, `changelog`, `net`, or `updates` for Iceberg. Delta tables have only one feed.
        keys: The columns that pair updates. None for the identifier fields of the schema.
    """

    from_: Any
    to: Any
    from_inclusive: bool | None = None
    mode: str = "changelog"
    keys: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A read of a table.

    Attributes:
        location: The table's directory or, for Iceberg, a metadata file.
        snapshot_id: A snapshot id. For Delta it is a version.
        version: A version of a Delta table.
        timestamp_ms: A time in milliseconds since 1970, inclusive.
        ref: A branch or tag of an Iceberg table.
        changes: The range of a read of changes. None reads rows.
        columns: Column names in output order. None means all columns of the schema.
        where: A condition. None means every row.
        path_map: Prefixes of recorded paths, with the prefixes of the current locations.
        max_version: The latest version according to the catalog of a Delta table (frontier F4.4).
        ratified: Commits that the catalog has ratified and not published: each a version with the name of a staged file
            or with the content of the commit (frontier F4.4).
        published_only: Whether only the published commits of a catalog-managed table are read.
    """

    location: str
    snapshot_id: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    ref: str | None = None
    changes: ChangeRange | None = None
    columns: Sequence[str] | None = None
    where: Condition | None = None
    path_map: Mapping[str, str] = field(default_factory=dict)
    max_version: int | None = None
    ratified: Sequence[tuple[int, str | bytes]] = ()
    published_only: bool = False


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A live data file. For a delete file, only the fields up to `first_row_id` are used.

    Attributes:
        path: The recorded path.
        physical: The physical path.
        record_count: The number of physical rows. None if the metadata does not say.
        partition: Values by partition field id.
        constants: Values by column field id that apply to every row (iceberg 5.2, delta V1).
        sequence_number: The data sequence number, unless a column of the file overrides it. None for Delta.
        first_row_id: The row id of the first row, unless a column of the file overrides it.
        commit_version: The row commit version, unless a column of the file overrides it.
        equality: The equality deletes that apply to the file.
        positions: A function that returns the deleted positions. None if no row is deleted by position.
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
    """An equality delete file. It deletes rows that equal one of its rows in all keys (iceberg 4.23).

    Attributes:
        keys: The top-level columns that contain the keys.
        paths: For each key, the field ids from the top-level column down to the key.
    """

    file: DataFile
    keys: tuple[Field, ...]
    paths: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Everything that is needed to produce the rows of a read.

    Attributes:
        lookup: How columns are found in data files: `iceberg`, `delta name`, `delta exact name`, or `delta id`.
        name_mapping: Field ids for the columns of Iceberg files without ids. None if there is no mapping.
        materialized: For each metadata column, the column of Delta's data files that stores its values (delta W2, W3).
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
        """Whether the rules of Delta apply."""
        return self.format == "delta"


def resolve_columns(
    request: Request, schema: Schema, typed: Callable[[Field], Field]
) -> tuple[tuple[Field, ...], Filter | None, set[str]]:
    """Resolve the columns and the filter of a request in a schema.

    A column of the table hides a metadata column of the same name (iceberg 5.19).

    Args:
        request: The read.
        schema: The columns of the table.
        typed: A function that returns a metadata column with its type in this table.

    Returns:
        The output columns, the filter or None, and the names of all metadata columns that either uses.
    """

    def find(name: str) -> Field:
        metadata = find_field(name, METADATA.values())
        field = find_field(name, schema.fields) or (None if metadata is None else typed(metadata))
        if field is None:
            raise UnknownColumnError(f"Unknown column {name!r}", field=name)
        return field

    columns = schema.fields if request.columns is None else tuple(map(find, request.columns))
    if request.columns is not None and len({f.id for f in columns}) < len(columns):
        raise RequestError("Invalid columns: a column is named twice")
    condition = None if request.where is None else request.where(find)
    used = (*columns, *(() if condition is None else condition.columns))
    return columns, condition, {f.name for f in used if f.name in METADATA and f.id == METADATA[f.name].id}
