"""Tables and snapshots: where every read begins.

    table = open_table("warehouse/orders")
    snapshot = table.snapshot(ref="audit")
    snapshot.plan(where="region = 'eu'").explain()
    snapshot.to_arrow(columns=["id", "total"])

Nothing is cached behind the user's back but the metadata itself: a `Table` is one version of it, and a `Snapshot` of it
gives the same rows for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.engines.batches import BATCH_ROWS, Batches
from harness.engines.registry import duckdb_engine, find_engine, spark_engine
from harness.errors import RequestError, UnknownColumnError
from harness.filters.predicate import Filter
from harness.limits import DEFAULT, Limits, contained
from harness.model.metadata_columns import METADATA
from harness.model.schema import Schema
from harness.opening import OpenedTable, Point, Selection, load_table, open_storage, plan_changes
from harness.plan.pruning import parse_prune
from harness.plan.read_options import ReadOptions
from harness.plan.scan_plan import ScanPlan
from harness.reading import reading
from harness.storage.paths import PathMap, shown

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import DataFrame, SparkSession

    from harness.plan.file_index import FileIndex


def open_table(
    location: str,
    *,
    path_map: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allow_version_guess: bool = False,
    lenient_delete_partition: bool = False,
    allow_duplicate_files: bool = False,
    allow_checkpoint_only: bool = False,
    enforce_retention: bool = False,
    prune: str = "all",
    format_hint: str | None = None,
    allowed_roots: Sequence[str] = (),
    outside: str = "warn",
    limits: Limits | None = None,
    untrusted: bool = False,
) -> Table:
    """The table at a location, as its current metadata says.

    Args:
        location: a table's directory or, for Iceberg, a metadata file; a local path, or a URI that fsspec can open.
            A relative path is that of the process's directory now, wherever it is when rows are read.
        path_map: recorded path prefixes and where they are now, for tables that were moved in parts. A table that was
            moved as a whole needs none. Relative paths start where those of `location` do.
        storage_options: passed to fsspec for locations that are not local: for the scheme, host and bucket of
            `location` or, if that is local, of the targets of `path_map`. Those of another store stand under its name,
            `{"s3://other": {"key": …}}`.
        allow_version_guess: where no version hint tells the current metadata file, take the highest number
            (iceberg 1.5); without it that is an error.
        lenient_delete_partition: apply position delete files to data files of other partitions by path (iceberg 4.4).
        allow_duplicate_files: read a data file twice that is listed twice (iceberg 2.13).
        allow_checkpoint_only: read a Delta table whose newest checkpoint has no commit of its version (delta L23).
        enforce_retention: refuse snapshots of a Delta table, but the latest, that are older than the table keeps
            deleted files, as Spark does (delta L37); without it, they are read as long as their files are there.
            Changes are not held against it.
        prune: `all` skips data files by partition and statistics, and Iceberg's manifests by their summaries, as far
            as these are trusted (iceberg 3.9); `files` skips no manifest; `off` reads all files, and holds no delete
            back by statistics.
        format_hint: `iceberg` or `delta`; None: Delta where there is a `_delta_log`, else Iceberg.
        allowed_roots: directories, local paths or URIs, that the table may be read from beside its own location and the
            targets of `path_map`. Relative ones start where `location` does.
        outside: what becomes of an absolute path elsewhere in the store of `location`: `warn` reads the file, with one
            warning for each read that names the directories; `refuse` is an error. A path that leaves the table by
            `..`, or is in another store, is always refused.
        limits: how much memory and how many items the table's metadata may ask for; None: `harness.Limits()`.
        untrusted: somebody else wrote the table: `outside` is `refuse`, and what is only odd of your own tables is an
            error: recorded counts that are wrong, files without a column of the table, columns that are taken by
            position, a checksum that says otherwise. It reads in this process; `harness.read_untrusted` reads in one
            that has limits and no network.

    An option of one format is refused for a table of the other.

    Raises:
        TableNotFoundError: there is no table, or it cannot be told which metadata file is the current one.
        InvalidTableError: the metadata breaks the specification.
        UnsupportedError: the table uses what harness does not read.
        AmbiguousTableError: the metadata of both formats is there.
        LimitError: a file asks for more than `limits` allow.
        StorageError: storage failed.
        RequestError: an option has no such value, or is not for the table's format.
        OutsideTableError: the metadata is, or leads, where the table may not be read from.
    """
    options = ReadOptions(
        path_map=PathMap(tuple((path_map or {}).items())),
        prune=parse_prune(prune),
        allow_version_guess=allow_version_guess,
        lenient_delete_partition=lenient_delete_partition,
        allow_duplicate_files=allow_duplicate_files,
        allow_checkpoint_only=allow_checkpoint_only,
        enforce_retention=enforce_retention,
    )
    storage = open_storage(
        str(location),
        options=storage_options or {},
        limits=DEFAULT if limits is None else limits,
        targets=tuple((path_map or {}).values()),
        allowed_roots=_listed(allowed_roots),
        outside=outside,
        untrusted=untrusted,
    )
    with contained(table=str(location)):
        return Table(load_table(str(location), storage, options, format_hint=format_hint))


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a table's metadata."""

    source: OpenedTable = field(repr=False)

    def __repr__(self) -> str:
        return f"Table({_shown(self, self.source.current)})"

    @property
    def location(self) -> str:
        """The location that was opened."""
        return self.source.location

    @property
    def format(self) -> str:
        """`iceberg` or `delta`."""
        return self.source.format

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.source.schema

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the table but harmless to a reader, one sentence each."""
        return self.source.warnings

    def snapshots(self) -> list[dict[str, Any]]:
        """All snapshots as plain values: id, parent_id, timestamp_ms, operation and what the format says besides."""
        with reading(self.source, None):
            return self.source.snapshots()

    def refs(self) -> dict[str, dict[str, Any]]:
        """Branches and tags by name, as plain values."""
        return self.source.refs()

    def describe(self) -> dict[str, Any]:
        """All that the metadata says, as plain values."""
        with reading(self.source, None):
            return self.source.describe()

    def snapshot(
        self,
        snapshot_id: int | None = None,
        *,
        version: int | None = None,
        timestamp: int | str | datetime | None = None,
        ref: str | None = None,
    ) -> Snapshot:
        """A snapshot and the schema that belongs to it; without a selector, the current one.

        Rules: iceberg 1.32 to 1.37; delta L32 to L36.

        Args:
            snapshot_id: the id of any snapshot in the metadata; for Delta the version.
            version: a version of a Delta table.
            timestamp: what the table was at that time: milliseconds since 1970-01-01 UTC, a datetime, or ISO text
                (UTC unless it has an offset).
            ref: a branch or tag; Delta has none.

        Raises:
            RequestError: more than one selector, one that the format does not have, or a text that is no time.
            SnapshotNotFoundError: there is no such snapshot, and the message says what there is; or it is older than
                `enforce_retention` allows.
            EncryptedTableError: the snapshot is encrypted.
        """
        if version is not None:
            if snapshot_id is not None:
                raise RequestError(
                    "Cannot select by snapshot_id and version at once: give one of them",
                    options=("snapshot_id", "version"),
                )
            if self.format != "delta":
                raise RequestError(f"Cannot select version {version}: {self.format} tables have snapshot ids")
        with reading(self.source, None):
            return Snapshot(self, self.source.select(snapshot_id if version is None else version, timestamp, ref))

    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_timestamp: int | str | datetime | None = None,
        to_timestamp: int | str | datetime | None = None,
        columns: Sequence[str] | None = None,
        allow_out_of_range: bool = False,
    ) -> Changes:
        """The rows that a range of versions of a Delta table inserted, deleted and updated, from its change data feed.

        The rows have the columns of the table as of the last version of the range; after them `_change_type` (`insert`,
        `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`. Where a version
        recorded no change files, an update shows as a delete and an insert, and so may a row that was only moved.

        Rules: delta C1 to C12.

        Args:
            from_version, to_version: the first and the last version, inclusive; without an end, the latest version.
            from_timestamp, to_timestamp: in place of versions: commits at or after, and at or before, these times, as
                for `snapshot`.
            columns: names of columns of the table and of the feed, `_file` and `_pos`, in the order wanted.
            allow_out_of_range: a range outside the table's versions is empty instead of an error.

        Raises:
            RequestError: no start, or a bad range; the change data feed is not enabled in all of the range, or the
                schema changed in it other than by new columns.
            SnapshotNotFoundError, InvalidTableError: versions of the range are no longer in the log.
            UnsupportedError: an Iceberg table, or a feature that harness does not read.
        """
        from harness.delta.change_range import ChangeRequest

        request = ChangeRequest(
            from_version=from_version,
            to_version=to_version,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        with reading(self.source, None):
            return Changes(plan_changes(self.source, request, _names(columns, self.location)))


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a range of versions. Anything that takes an Arrow stream takes them.

    plan: the files to read; each once per version that changed rows of it.
    """

    plan: ScanPlan = field(repr=False)

    def __repr__(self) -> str:
        return repr(self.plan).replace("ScanPlan", "Changes", 1)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The changes as a lazy DuckDB relation; the arguments are those of `Snapshot.to_duckdb`.

        Raises:
            MissingFileError: a file that was removed has been vacuumed.
            InvalidTableError, UnsupportedError, EngineError: a file cannot be read; the message names it.
        """
        with contained(table=self.plan.table):
            return duckdb_engine().relation(self.plan, connection, name=name)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The changes as a lazy Spark DataFrame, as `Snapshot.to_spark` says.

        Raises:
            As `to_duckdb`, and RequestError: pyspark or Java is missing.
        """
        return spark_engine().dataframe(self.plan, spark)

    def to_arrow(self, *, engine: str = "duckdb") -> pa.Table:
        """The changes as an Arrow table in exact types, read by DuckDB or by Spark. Row order is open.

        Raises:
            As `to_duckdb` or `to_spark`, and RequestError: there is no such engine.
        """
        with contained(table=self.plan.table):
            return find_engine(engine).to_arrow(self.plan)

    def to_batches(self, *, batch_rows: int = BATCH_ROWS) -> Batches:
        """The changes as a stream of Arrow batches, as `Snapshot.to_batches` says.

        Raises:
            As `to_duckdb`, and RequestError: `batch_rows` is no number of rows.
        """
        context = partial(contained, table=self.plan.table)
        with context():
            return duckdb_engine().batches(self.plan, rows=_rows(batch_rows), context=context)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one point of its history, with the schema that its rows are shown in.

    Anything that takes an Arrow stream takes a snapshot.
    """

    table: Table
    selection: Selection = field(repr=False)

    def __repr__(self) -> str:
        return f"Snapshot({_shown(self.table, self.selection.snapshot)})"

    @property
    def id(self) -> int | None:
        """The snapshot's id, for Delta the version; None for a table that has none, and so no rows."""
        return None if self.selection.snapshot is None else self.selection.snapshot.id

    @property
    def timestamp_ms(self) -> int | None:
        """When it was committed, milliseconds since 1970-01-01 UTC."""
        return None if self.selection.snapshot is None else self.selection.snapshot.timestamp_ms

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.selection.schema

    def plan(self, columns: Sequence[str] | None = None, where: str | Filter | None = None) -> ScanPlan:
        """What a read must do: the files that may hold matching rows, and the deletes that hit them.

        Args:
            columns: names of top-level columns and metadata columns (`_file`, `_pos`, `_spec_id`, `_partition`,
                `_deleted`, `_row_id`; Iceberg's `_last_updated_sequence_number`, Delta's `_row_commit_version`), in the
                order wanted; None: all of the schema.
            where: a boolean SQL expression in DuckDB's dialect; or a filter that was parsed for this snapshot's schema,
                as `harness.filters.parse.parse_filter` gives it, or `ScanPlan.filter` of another plan.

        Raises:
            UnknownColumnError: a name is not in the schema.
            RequestError: `where` cannot be parsed, or was parsed for a schema with other columns.
            InvalidTableError, MissingFileError, UnsupportedError: the table cannot be read; the message names the file.
        """
        with self._reading():
            plan = self.table.source.plan(self.selection, _names(columns, self.table.location), where)
            _refuse_foreign_columns(plan)
            return plan

    def file_index(self) -> FileIndex:
        """The live files as Spark's `FileIndex` sees them: grouped by partition, and pruned by filters.

        Raises:
            As `plan`.
        """
        from harness.plan.file_index import FileIndex

        return FileIndex.of(self.plan, self.table.location)

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | Filter | None = None,
        name: str | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a lazy DuckDB relation, filtered and projected natively as you go on.

        Deleted positions are looked up row by row, so that filters of yours still skip row groups: a scan of all rows
        takes 1.75 times the plain one. `harness.sql` and `to_arrow` know the whole query, and take 1.15 times where it
        has no filter.

        Args:
            connection: yours, or None for a new one. On yours no setting is changed; what is put there is temporary,
                and goes with `harness.release`.
            columns, where: as for `plan`; `where` skips files.
            name: also make the rows a temporary view of this name on the connection.

        Rows are read when they are fetched. What fails then, such as a file that is gone by now, is a `duckdb.Error`:
        `docs/reference/errors.md` shows how to catch it. `to_arrow` reads at once.

        Raises:
            As `plan`, and EngineError.
        """
        with self._reading():
            return duckdb_engine().relation(self.plan(columns, where), connection, name=name)

    def to_spark(
        self,
        spark: SparkSession | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | Filter | None = None,
    ) -> DataFrame:
        """The rows as a lazy Spark DataFrame over the planned files, filtered and projected natively as you go on.

        Spark has no type for some of the table's; their values travel in another one, and every column's metadata says
        under `harness.arrow` which type it was (base64 of an Arrow schema in IPC form): `time` is a bigint of micros
        since midnight, `timestamp_ns` and `timestamptz_ns` are bigints of nanos since 1970-01-01 UTC, `uuid` is its
        canonical text in lower case, `fixed` and geo types are binary, `variant` is JSON text, `unknown` is an int that
        is always null. `timestamp` is TIMESTAMP_NTZ, `timestamptz` is TIMESTAMP.

        No setting, view or function of the session is changed, and none changes what is read: the files are planned in
        a session of harness's own that shares its Spark application. Where there is no JVM gateway to do that (Spark
        Connect), the files are read by their plain paths instead: Spark then looks up every path again (3 s to 47 s for
        10,000 files) and joins what is known of a file to its rows; files whose names or types Spark might take
        otherwise are read by harness on the executors, whose Python then needs it. A session with a setting under which
        the rows would come out wrong is refused (RequestError), and must stay as it is until the rows are read.

        Args:
            spark: yours; None: `harness.spark_session()`.
            columns, where: as for `plan`; `where` skips files.

        Raises:
            RequestError: pyspark or Java is missing, or `spark` is no session, was stopped, or has such a setting.
            UnsupportedError: a part of `where` has no meaning in Spark that is certain to be the same.
            As `plan`, and EngineError.
        """
        with self._reading():
            return spark_engine().dataframe(self.plan(columns, where), spark)

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, where: str | Filter | None = None, engine: str = "duckdb"
    ) -> pa.Table:
        """The rows as an Arrow table in exact types (`harness.model.schema.arrow_type`). Row order is open.

        Args:
            columns, where: as for `plan`.
            engine: `duckdb`, or `spark` (in `harness.spark_session()`); who reads.

        Raises:
            As `plan`, EngineError, and RequestError: there is no such engine.
        """
        with self._reading():
            return find_engine(engine).to_arrow(self.plan(columns, where))

    def to_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | Filter | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Batches:
        """The rows as a stream of Arrow batches, in the types of `to_arrow`, for more rows than memory holds.

        DuckDB reads as batches are asked for. Closing the stream early ends the query:

            with snapshot.to_batches(columns=["id", "total"]) as batches:
                for batch in batches:
                    ...

        Args:
            columns, where: as for `plan`.
            batch_rows: the most rows of a batch; a batch is what stays in memory, beside what DuckDB reads with.

        Raises:
            As `to_arrow`, also while the stream is read; and RequestError: `batch_rows` is no number of rows.
        """
        with self._reading():
            plan = self.plan(columns, where)
            return duckdb_engine().batches(plan, rows=_rows(batch_rows), context=self._reading)

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.table.source, self.selection.snapshot)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)


def _listed(allowed_roots: Sequence[str]) -> tuple[str, ...]:
    if isinstance(allowed_roots, str):
        raise RequestError(
            f"Invalid allowed_roots={allowed_roots!r}: expected a list of directories", options=("allowed_roots",)
        )
    return tuple(map(str, allowed_roots))


def _rows(batch_rows: int) -> int:
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise RequestError(
            f"Invalid batch_rows={batch_rows!r}: expected a number of rows above 0", options=("batch_rows",)
        )
    return batch_rows


def _shown(table: Table, point: Point | None) -> str:
    name = "version" if table.format == "delta" else "snapshot"
    return f"{shown(table.location)!r}, format={table.format!r}, {name}={None if point is None else point.id}"


def _names(columns: Sequence[str] | None, table: str) -> tuple[str, ...] | None:
    if isinstance(columns, str):
        raise RequestError(f"Invalid columns {columns!r}: expected a list of names", table=table)
    return None if columns is None else tuple(columns)


def _refuse_foreign_columns(plan: ScanPlan) -> None:
    """Metadata columns that only the other format has."""
    used = (*plan.columns, *(plan.filter.columns if plan.filter is not None else ()))
    if plan.format == "iceberg" and METADATA["_row_commit_version"] in used:
        raise UnknownColumnError(
            "Cannot read _row_commit_version: only Delta tables have it; read _last_updated_sequence_number",
            table=plan.table,
            field="_row_commit_version",
        )
