"""The inputs of a query: tables at snapshots or points in time, their metadata tables, and data frames."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from harness.errors import RequestError, UnsupportedError
from harness.metadata.catalogs.catalog import name_text
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.arguments import check_options
from harness.metadata.model.schema import METADATA, Field, OpaqueType, Schema
from harness.metadata.planned_scan import PlannedScan
from harness.queries.plain import Rewritten, TableReference, may_time_travel
from harness.snapshot import Snapshot, read_context
from harness.storage.paths import SCHEME, expanded, is_local, is_path, local_path
from harness.storage.records import dataclass
from harness.storage.threads import cached_property
from harness.table import Table, open_table

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from harness.metadata.catalogs.catalog import Name
    from harness.metadata.tables.reading import MetadataTable
    from harness.queries.changes import ChangesCall
    from harness.queries.time_travel import Moment
    from harness.snapshot import FormatTable

_METADATA_COLUMNS = {
    "delta": ("_file", "_pos"),
    "iceberg": ("_file", "_pos", "_row_id", "_spec_id", "_partition"),
}
"""The metadata columns that changes of a format have."""


def _to_arrow(name: str, value: object) -> pa.Table | None:
    """Return the rows of a data frame, or None if the value is a table, a snapshot, or a location.

    Raises:
        RequestError: The value is none of these four.
    """
    if isinstance(value, Snapshot | Table | str | os.PathLike):
        return None
    import pyarrow as pa

    from harness.metadata.catalogs.resolving import is_foreign_table  # local tables do not need catalogs

    if is_foreign_table(value):
        return None
    if not hasattr(value, "__arrow_c_stream__"):
        raise RequestError(
            f"Invalid table {name!r}: expected a table, a snapshot, a location or a frame, got {value!r}"[:_LONGEST]
        )
    try:
        is_of_pandas = type(value).__module__.partition(".")[0] == "pandas"
        return pa.Table.from_pandas(value, preserve_index=False) if is_of_pandas else pa.table(value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RequestError(f"Cannot read the frame {name!r} as Arrow: {error}") from error


_LONGEST = 200


def _untyped_schema(names: Iterable[str]) -> Schema:
    """Return a schema with column names but no types."""
    return Schema(fields=tuple(Field(id=i, name=n, type=OpaqueType("unknown")) for i, n in enumerate(names)))


def snapshot_of(
    value: Table | Snapshot | str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Snapshot:
    """Return the snapshot for a table, a snapshot, or a location, which is opened."""
    match value:
        case Snapshot():
            return value
        case Table():
            return value.snapshot()
        case str() | os.PathLike():
            return open_table(value, storage_options=storage_options).snapshot()
        case of_catalog:
            return open_table(of_catalog).snapshot()


def schema_of(name: str, value: object) -> Schema:
    """Return the columns of a query's input, without types if it is a data frame.

    Raises the same errors as the query.
    """
    frame = _to_arrow(name, value)
    return snapshot_of(cast("Table", value)).schema if frame is None else _untyped_schema(frame.column_names)


_T = TypeVar("_T")


class _LazyMapping(Mapping[str, _T]):
    """A mapping whose values are created on first access, because a query may name only some of its inputs."""

    def __init__(
        self, names: Iterable[str], make: Callable[[str], _T], computed: Mapping[str, _T] | None = None
    ) -> None:
        self._make, self._computed = make, dict(computed or {})
        self._names = dict.fromkeys((*names, *self._computed))

    @property
    def computed(self) -> Mapping[str, _T]:
        """The values that were created so far."""
        return self._computed

    def __getitem__(self, name: str) -> _T:
        if name not in self._computed:
            if name not in self._names:
                raise KeyError(name)
            self._computed[name] = self._make(name)
        return self._computed[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class TableChanges:
    """The changes of a table as an input of a query. It is planned as `Snapshot` is.

    Attributes:
        table: The table.
        arguments: The arguments of `Table.changes`, without columns and condition.
    """

    table: Table
    arguments: Mapping[str, Any]

    @property
    def _source(self) -> FormatTable:
        return self.table._source

    @cached_property
    def schema(self) -> Schema:
        """Return the columns of the table and the columns of changes."""
        check_options(Table.changes, self.arguments)
        return self.table._changes_schema(**self.arguments)

    def _planned(self, columns: Sequence[str] | None = None, where: str | Filter | None = None) -> PlannedScan:
        if columns is not None:
            # A name may belong to another table of the query. DuckDB reports columns that no table has.
            columns = [c for c in columns if c not in METADATA or c in _METADATA_COLUMNS[self.table.format]]
        return self.table.changes(**self.arguments, columns=columns, where=where)._plan

    def _reading(self) -> AbstractContextManager[None]:
        return read_context(self._source, None)


QuerySource: TypeAlias = Snapshot | TableChanges
"""An input of a query that is planned: a table at a snapshot, or the changes of a table."""


def at_moment(table: Table, moment: Moment | ChangesCall) -> QuerySource:
    """Return a table at a moment, or the changes that a call selects."""
    from harness.queries.changes import ChangesCall

    return TableChanges(table, moment.arguments) if isinstance(moment, ChangesCall) else table.snapshot(moment.at)


def _at_moments(
    query: str, dialect: str, snapshots: Mapping[str, Snapshot], fixed: Collection[str]
) -> tuple[str, dict[str, QuerySource]]:
    """Return the query without time travel clauses, and the inputs that the clauses selected, by their new names.

    Calls of `changes` are handled in the same way.

    Args:
        query: The query.
        dialect: Its dialect.
        snapshots: The tables by name.
        fixed: The names that are bound to snapshots or data frames, which have no other state.

    Raises:
        RequestError: A call of `changes` names one of `fixed`.
    """
    if not may_time_travel(query):
        return query, {}
    from harness.queries.changes import changes_calls
    from harness.queries.rewrite import bound_name, parse_statement
    from harness.queries.time_travel import pin

    def key(name: Name) -> str | None:
        table = bound_name(name[0], snapshots) if len(name) == 1 else None
        return None if table in fixed else table

    statement = parse_statement(query, dialect)
    for call in changes_calls(statement):
        if len(call.name) == 1 and bound_name(call.name[0], fixed) is not None:
            raise no_changes_error(call.name)
    pinned = pin(statement, lambda name: key(name) is not None)
    if pinned is None:
        return query, {}
    moments: dict[str, QuerySource] = {}
    for alias, (name, moment) in pinned.moments.items():
        moments[alias] = at_moment(Table(snapshots[str(key(name))]._source), moment)
    return pinned.query, moments


def no_changes_error(name: Name) -> RequestError:
    """Return the error for changes of a name that is bound to a snapshot or a data frame."""
    return RequestError(f"Cannot read changes of {name_text(name)}: it has only one state; bind the name to a table")


def plan_reference(
    reference: TableReference, source: QuerySource, connection: duckdb.DuckDBPyConnection | None = None
) -> PlannedScan:
    """Return the plan of a table at one place in a query. Raises the same errors as `Snapshot.plan`.

    Args:
        reference: The place in the query.
        source: The table's snapshot or changes.
        connection: The user's connection that runs the query, or None for DuckDB in UTC or for Spark.
    """
    where = reference.where
    if where is not None and connection is not None:
        from harness.engines.duckdb.relations import filter_for_connection

        where = filter_for_connection(where, connection)
    return replace(source._planned(columns=reference.columns, where=where), enough=reference.enough)


@dataclass(slots=True)
class MetadataTables:
    """The metadata tables that a query names, each opened once."""

    snapshots: Mapping[str, QuerySource]
    _opened: dict[tuple[str, str], MetadataTable] = field(default_factory=dict)

    def columns(self, table: str, name: str) -> Schema | None:
        """Return the columns of a metadata table of `table`, or None if there is no metadata table called `name`."""
        snapshot = self.snapshots.get(table)
        from harness.metadata.tables.reading import is_metadata_table  # most queries name no metadata table

        if not isinstance(snapshot, Snapshot) or not is_metadata_table(snapshot._source.format, name):
            return None
        opened = self._opened[table, name] = snapshot.metadata(name)
        return _untyped_schema(opened.schema.names)

    def read(self, reference: TableReference) -> pa.Table:
        """Read the metadata table at one place in a query."""
        opened = self._opened[reference.table, str(reference.metadata)]
        # Counting rows needs at least one column.
        names = None if reference.columns is None else reference.columns or opened.schema.names[:1]
        return opened.to_arrow(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The tables and data frames that a query may name. A table is opened on first access.

    Attributes:
        query: The query without time travel clauses. A table at a point in time has its own name.
        names: The names that the caller gave.
        snapshots: Snapshots and changes of tables by name.
        frames: Data frames as Arrow tables by name.
        schemas: Columns by name.
        metadata: The metadata tables of the tables.
    """

    query: str
    names: Collection[str]
    snapshots: Mapping[str, QuerySource]
    frames: Mapping[str, pa.Table]
    schemas: _LazyMapping[Schema]
    metadata: MetadataTables

    @classmethod
    def for_query(cls, query: str, dialect: str, tables: Mapping[str, object], **options: Any) -> Inputs:
        """Return the inputs of a query, including tables named by location. Raises the same errors as `harness.sql`.

        Args:
            query: The query.
            dialect: Its dialect, by sqlglot's name.
            tables: The caller's tables and data frames by name.
            **options: Arguments of `open_table`.
        """
        frames = {key: frame for key, value in tables.items() if (frame := _to_arrow(key, value)) is not None}
        openable: dict[str, Any] = {key: value for key, value in tables.items() if key not in frames}
        openable = {place: place for place in locations(query, dialect) if place not in tables} | openable
        opened = _LazyMapping(openable, lambda name: snapshot_of(openable[name], **options))
        fixed = {*frames, *(name for name, value in tables.items() if isinstance(value, Snapshot))}
        query, moments = _at_moments(query, dialect, opened, fixed)
        snapshots = _LazyMapping(opened, opened.__getitem__, moments)
        columns = {key: _untyped_schema(frame.column_names) for key, frame in frames.items()}
        return cls(
            query=query,
            names=tuple(tables),
            snapshots=snapshots,
            frames=frames,
            schemas=_LazyMapping(snapshots, lambda name: snapshots[name].schema, columns),
            metadata=MetadataTables(snapshots),
        )

    def named_schemas(self) -> dict[str, Schema]:
        """Return the names that the caller gave, with the columns of those that were opened."""
        return {name: self.schemas.computed.get(name, _untyped_schema(())) for name in self.names}

    def read(
        self, rewritten: Rewritten, connection: duckdb.DuckDBPyConnection | None
    ) -> dict[str, PlannedScan | pa.Table]:
        """Return plans of tables, and the rows of metadata tables and data frames, by the name of the view."""
        sources: dict[str, PlannedScan | pa.Table] = {}
        for each in rewritten.references:
            if each.metadata is not None:
                sources[each.view] = self.metadata.read(each)
            elif each.table in self.frames:
                rows = self.frames[each.table]
                names = [name for name in rows.column_names if each.columns is None or name in each.columns]
                # counting rows needs at least one column
                sources[each.view] = rows.select(names or rows.column_names[:1])
            else:
                sources[each.view] = plan_reference(each, self.snapshots[each.table], connection)
        return sources

    def plans(self, rewritten: Rewritten) -> dict[str, PlannedScan]:
        """Return the plans of tables by the name of the view.

        Raises:
            UnsupportedError: The query reads a data frame, which only DuckDB can read.
            RequestError: The query reads a metadata table, which only DuckDB can read.
        """
        plans = {}
        for reference in rewritten.references:
            if reference.table not in self.snapshots:
                raise UnsupportedError(
                    f"Cannot read the frame {reference.table!r} on Spark: DuckDB reads frames; use engine='duckdb', or "
                    "write it as a table",
                    options=("engine",),
                )
            if reference.metadata is not None:
                raise RequestError(
                    f"Cannot read {reference.table}.{reference.metadata} on Spark: DuckDB reads metadata tables; say "
                    "engine='duckdb'",
                    options=("engine",),
                )
            plans[reference.view] = plan_reference(reference, self.snapshots[reference.table])
        return plans


# DuckDB reads files by path, so a query can also name a table by location: `FROM 'warehouse/orders'`.

_METADATA_FILE = ".metadata.json"
_TABLE_DIRECTORIES = ("_delta_log", "metadata")
_FILE = re.compile(
    r"[*?\[]|\.(parquet|csv|tsv|json|jsonl|ndjson|xlsx|arrow|avro|txt|db|duckdb)(\.(gz|zst|bz2))?$", re.IGNORECASE
)
"""Names and patterns of files, which DuckDB reads itself."""
_QUOTED_PATH = re.compile(r"""['"`](?:[^'"`]*[/\\]|\.|file:)""", re.IGNORECASE)


def is_location(name: str) -> bool:
    """Return whether a name is the location of a table: a directory, a metadata file, or a URI that is no data file.

    A directory must be spelled as a path, for example `./orders`, because `FROM 'orders'` is the same SQL as `FROM
    orders`.
    """
    path = local_path(expanded(name))
    if name.endswith(_METADATA_FILE):
        return not is_local(path) or os.path.isfile(path)
    if not is_local(path):
        return SCHEME.match(path) is not None and _FILE.search(path) is None
    return is_path(name) and any(os.path.isdir(os.path.join(path, inner)) for inner in _TABLE_DIRECTORIES)


def locations(query: str, dialect: str = "duckdb") -> list[str]:
    """Return the locations of tables that a query names. Raise RequestError if the query cannot be parsed."""
    if _QUOTED_PATH.search(query) is None:
        return []
    from harness.queries.changes import table_names
    from harness.queries.rewrite import parse_statement

    names = (name[0] for name in table_names(parse_statement(query, dialect)))
    return [name for name in dict.fromkeys(names) if is_location(name)]
