"""Snapshots and ranges of changes: what is read, planned or handed to an engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.registry import BATCH_ROWS, Batches, find_engine
from harness.errors import HarnessError, MissingFileError, RequestError, UnknownColumnError
from harness.metadata.filters.predicate import Filter, filter_for
from harness.metadata.model import frames
from harness.metadata.model.arguments import validate_call
from harness.metadata.model.schema import METADATA, Schema
from harness.metadata.model.times import show_ms
from harness.metadata.plan.scan_plan import ScanPlan
from harness.metadata.planned_scan import PlannedScan
from harness.storage.gate import metadata_root
from harness.storage.limits import contained
from harness.storage.paths import is_local, local_path, redact, slashed
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from harness.metadata.delta.scan import DeltaSnapshot
    from harness.metadata.delta.table import DeltaSelection, DeltaTable
    from harness.metadata.iceberg.model import IcebergSnapshot
    from harness.metadata.iceberg.table import IcebergTable
    from harness.metadata.iceberg.time_travel import IcebergSelection
    from harness.metadata.tables.reading import MetadataTable

    FormatTable: TypeAlias = IcebergTable | DeltaTable
    """A table of either format, at the metadata that it had when it was opened."""
    Point: TypeAlias = IcebergSnapshot | DeltaSnapshot
    """A point of a table's history: a snapshot of an Iceberg table, or a version of a Delta table."""


# Errors that no decoder raises: no memory left, and files that went.


@contextmanager
def read_context(table: FormatTable, point: Point | None) -> Iterator[None]:
    """Surrounds a read of `table` at `point`; None: the table has no snapshot.

    Raises:
        LimitError: memory or Python's stack ended.
        MissingFileError: as raised inside, with what was read and what the newest is, where that is not the same.
    """
    try:
        with contained(table=table.location):
            yield
    except MissingFileError as error:
        newest = None
        try:
            if point is not None and error.cause != _TABLE_MOVED_ON:
                newest = table.newest()
        except HarnessError:  # then the first error says all that is known
            pass
        if point is not None and newest not in (None, point.id):
            what = "version" if table.format == "delta" else "snapshot"
            error.cause = _TABLE_MOVED_ON
            error.message += (
                f". The table has moved on: {what} {point.id} was read, the newest is {newest}, and files of the one "
                "may have been removed since; open the table again"
            )
        raise


_TABLE_MOVED_ON = "TableMovedOn"


_LOG = logging.getLogger("harness.plan")


class PlannedRows:
    """The rows of a plan in the forms of other libraries. Anything that takes an Arrow stream takes them."""

    __slots__ = ("_plan",)

    def __init__(self, plan: PlannedScan) -> None:
        self._plan = plan

    @property
    def plan(self) -> ScanPlan:
        """The plan: which files are read. A file of changes is listed once for each version that changed its rows."""
        return self._plan

    def __repr__(self) -> str:
        return repr(self.plan).replace("ScanPlan", type(self).__name__, 1)

    def _repr_html_(self) -> str:
        """Return the plan for notebooks."""
        return self._plan._repr_html_()

    def _reading(self) -> AbstractContextManager[None]:
        """Return the context of each step of a read, which names in errors what was read."""
        return contained(table=self._plan.table)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a lazy DuckDB relation, with the arguments and errors of `Snapshot.to_duckdb`.

        Raises:
            MissingFileError: A file that was removed has been vacuumed.
        """
        from harness.engines.duckdb.relations import relation

        with self._reading():
            return relation(self._plan, connection, name=name)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the rows as a lazy Spark DataFrame, as `Snapshot.to_spark` does."""
        with self._reading():
            find_engine("spark")  # says what to install if pyspark is missing
            from harness.engines.spark.engine import dataframe

            return dataframe(self._plan, spark)

    def to_arrow(self, *, engine: str = "duckdb") -> pa.Table:
        """Return the rows as an Arrow table in exact types, as `Snapshot.to_arrow` does."""
        with self._reading():
            return find_engine(engine).to_arrow(self._plan)

    def to_pandas(self, *, engine: str = "duckdb") -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, as `Snapshot.to_pandas` does."""
        return frames.to_pandas(self.to_arrow(engine=engine))

    def to_polars(self, *, engine: str = "duckdb") -> pl.DataFrame:
        """Return the rows as a Polars DataFrame, as `Snapshot.to_polars` does."""
        return frames.to_polars(self.to_arrow(engine=engine))

    def to_batches(self, *, batch_rows: int = BATCH_ROWS) -> Batches:
        """Return the rows as a stream of Arrow batches, as `Snapshot.to_batches` does."""
        from harness.engines.duckdb.engine import batches

        with self._reading():
            _check_number("batch_rows", batch_rows, 1)
            return batches(self._plan, rows=batch_rows, context=self._reading)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)


class Changes(PlannedRows):
    """The changes of a range of versions. Anything that takes an Arrow stream takes them."""

    __slots__ = ()


class _RowArguments(TypedDict, total=False):
    columns: Sequence[str] | None
    where: str | Filter | None
    limit: int | None


class ReadArguments(_RowArguments, total=False):
    """Arguments of `Snapshot.to_arrow`."""

    engine: str


class BatchArguments(_RowArguments, total=False):
    """Arguments of `Snapshot.to_batches`."""

    batch_rows: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one point of its history, with the schema that its rows are shown in.

    Anything that takes an Arrow stream takes a snapshot.

    name: what a catalog calls the table, the catalog's name first; None: it was opened by its location.
    """

    _source: FormatTable = field(repr=False)
    _selection: IcebergSelection | DeltaSelection = field(repr=False)
    name: str | None = None

    def __repr__(self) -> str:
        return f"Snapshot({point_text(self._source, self._selection.snapshot, self.name)})"

    def _repr_html_(self) -> str:
        """For notebooks: which point of the table's history it is, and the columns. Reads nothing."""
        time = None if self.timestamp_ms is None else show_ms(self.timestamp_ms)
        kind = "version" if self._source.format == "delta" else "snapshot"
        facts = {
            "name": self.name,
            "location": redact(self._source.location),
            "format": self._source.format,
            kind: self.id,
            "time": time,
        }
        return frames.html_description("Snapshot", facts, self.schema)

    @property
    def id(self) -> int | None:
        """The snapshot's id, for Delta the version; None for a table that has none, and so no rows."""
        return None if self._selection.snapshot is None else self._selection.snapshot.id

    @property
    def timestamp_ms(self) -> int | None:
        """When it was committed, milliseconds since 1970-01-01 UTC."""
        return None if self._selection.snapshot is None else self._selection.snapshot.timestamp_ms

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self._selection.schema

    @validate_call
    def head(
        self, n: int = 10, *, columns: Sequence[str] | None = None, where: str | Filter | None = None
    ) -> duckdb.DuckDBPyRelation:
        """The first rows to look at, as a lazy DuckDB relation, which prints itself as a table.

        No more files are opened than `n` rows need. Which rows are the first is open. Arguments and errors as for
        `to_duckdb`.
        """
        with self._reading():
            _check_number("n", n, 0)
            return self._rows(columns, where, n).to_duckdb().limit(n)

    @validate_call
    def count(self, *, where: str | Filter | None = None) -> int:
        """The number of rows. Arguments and errors as for `to_batches`.

        Without `where`, it is the recorded one if the metadata must be right: all files have row ids or are no Parquet
        files, and no delete hits any (iceberg 7.2). Otherwise, and of an untrusted table, the footers of the data files
        are read, with `where` or deletes also the columns that these need.
        """
        with self._reading():
            plan = self._planned((), where)
            if (recorded := _recorded_rows(plan)) is not None:
                return recorded
            with _SnapshotRows(plan, self).to_batches() as batches:
                return sum(batch.num_rows for batch in batches)

    @validate_call
    def plan(self, columns: Sequence[str] | None = None, where: str | Filter | None = None) -> ScanPlan:
        """Plans a read: the files that may hold matching rows, and the deletes that hit them.

        Args:
            columns: names of top-level columns and metadata columns (`_file`, `_pos`, `_spec_id`, `_partition`,
                `_deleted`, `_row_id`; Iceberg's `_last_updated_sequence_number`, Delta's `_row_commit_version`), in the
                order wanted; None: all of the schema.
            where: a boolean SQL expression in DuckDB's dialect; or `ScanPlan.filter` of another plan of this schema, so
                that many reads parse it once.

        Raises:
            UnknownColumnError: a name is not in the schema.
            RequestError: `where` cannot be parsed, or was parsed for a schema with other columns.
            InvalidTableError, MissingFileError, UnsupportedError: the table cannot be read; the message names the file.
        """
        return self._planned(columns, where)

    def _planned(self, columns: Sequence[str] | None = None, where: str | Filter | None = None) -> PlannedScan:
        names = None if columns is None else tuple(columns)
        with self._reading():
            plan = self._source.plan(self._selection, names, where)  # type: ignore[arg-type]  # both are of one format
            _refuse_foreign_columns(plan)
        _LOG.info("%r: %d files are read, %d are skipped", self, plan.files.num_rows, len(plan.skipped))
        return plan

    @validate_call
    def metadata(self, name: str) -> MetadataTable:
        """Return a metadata table, whose files, manifests and partitions are those of this snapshot.

            snapshot.metadata("files")  # prints its first rows, and shows them in a notebook
            snapshot.metadata("files").to_arrow(["file_path", "record_count"])

        Args:
            name: For an Iceberg table, `snapshots`, `history`, `refs`, `metadata_log_entries`, `manifests`, `files`,
                `data_files`, `delete_files`, `position_deletes`, `entries` or `partitions`; with `all_` before
                `manifests`, `files`, `data_files`, `delete_files` or `entries`, those of all snapshots. For a Delta
                table, `versions`, `files`, or `partitions`.

        Raises:
            RequestError: There is no such metadata table.
            InvalidTableError, MissingFileError, UnsupportedError: The metadata cannot be read.
        """
        from harness.metadata.tables.reading import MetadataTable, metadata_table

        with self._reading():
            table = metadata_table(self._source, self._selection, name)

        def read(columns: frozenset[str]) -> pa.Table:
            with self._reading():
                return table.read(columns)

        return MetadataTable(table.schema, read)

    @validate_call
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
                and goes with `harness.detach`.
            columns, where: as for `plan`; `where` skips files. It is read in the time zone of the connection, as your
                own filters are.
            name: also make the rows a temporary view of this name on the connection.

        Rows are read when they are fetched. What fails then, such as a file that is gone by now, is a `duckdb.Error`:
        `docs/reference/errors.md` shows how to catch it. `to_arrow` reads at once.

        Raises:
            As `plan`, and EngineError.
        """
        with self._reading():
            if where is not None and connection is not None:
                from harness.engines.duckdb.relations import filter_for_connection

                where = filter_for_connection(filter_for(where, self.schema), connection)
            return self._rows(columns, where).to_duckdb(connection, name=name)

    @validate_call
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
        a session of harness's own that shares its Spark application. On Spark Connect a class of harness's does so on
        the server, which gets the class once; the expressions above the files belong to your session. A setting under
        which their rows would come out wrong is refused (RequestError), and must stay as it is until the rows are read.
        A server that takes no class, and a table with `storage_options`, are read by the files' plain paths: 20 to 50 s
        for 10,000 files, which this process looks at first.

        A small job on the executors finds out what the footers of the files say. A file that is missing or damaged
        fails the queries that read it, with Spark's exception, whose text has harness's error; and so does a file that
        was replaced by then.

        Args:
            spark: yours; None: `harness.spark_session()`.
            columns, where: as for `plan`; `where` skips files. So do filters of the frame that compare columns with
                values, by what the metadata says of a column's bounds and nulls.

        Raises:
            RequestError: pyspark or Java is missing, or `spark` is no session, was stopped, or has such a setting.
            UnsupportedError: a part of `where` has no meaning in Spark that is certain to be the same.
            As `plan`, and EngineError.
        """
        return self._rows(columns, where).to_spark(spark)

    @validate_call
    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | Filter | None = None,
        limit: int | None = None,
        engine: str = "duckdb",
    ) -> pa.Table:
        """The rows as an Arrow table in exact types (`harness.metadata.model.schema.arrow_type`). Row order is open.

        Args:
            columns, where: as for `plan`.
            limit: the most rows; files that so many do not need stay unopened. None: all.
            engine: `duckdb`, or `spark` (in `harness.spark_session()`); who reads.

        Raises:
            As `plan`, EngineError, and RequestError: there is no such engine, or `limit` is no number of rows.
        """
        rows = self._rows(columns, where, limit).to_arrow(engine=engine)
        return rows if limit is None else rows.slice(0, limit)  # engines may return more

    def to_pandas(self, **read: Unpack[ReadArguments]) -> pd.DataFrame:
        """The rows as a pandas DataFrame with Arrow dtypes, in which nothing is rounded; UUIDs are text.

        read: the arguments of `to_arrow`.

        Raises:
            As `to_arrow`, and RequestError: pandas is not installed.
        """
        return frames.to_pandas(self.to_arrow(**read))

    def to_polars(self, **read: Unpack[ReadArguments]) -> pl.DataFrame:
        """The rows as a Polars DataFrame; UUIDs are text.

        read: the arguments of `to_arrow`.

        Raises:
            As `to_arrow`, and RequestError: Polars is not installed.
        """
        return frames.to_polars(self.to_arrow(**read))

    def to_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | Filter | None = None,
        limit: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Batches:
        """The rows as a stream of Arrow batches, in the types of `to_arrow`, for more rows than memory holds.

        DuckDB reads as batches are asked for. Closing the stream early ends the query:

            with snapshot.to_batches(columns=["id", "total"]) as batches:
                for batch in batches:
                    ...

        Args:
            columns, where, limit: as for `to_arrow`.
            batch_rows: the most rows of a batch; a batch is what stays in memory, beside what DuckDB reads with.

        Raises:
            As `to_arrow`, also while the stream is read; and RequestError: `batch_rows` is no number of rows.
        """
        return self._rows(columns, where, limit).to_batches(batch_rows=batch_rows)

    def _rows(
        self, columns: Sequence[str] | None, where: str | Filter | None, limit: int | None = None
    ) -> _SnapshotRows:
        """Return the planned rows of the snapshot, of which `limit` are enough."""
        with self._reading():
            if limit is None:
                return _SnapshotRows(self._planned(columns, where), self)
            _check_number("limit", limit, 0)
            return _SnapshotRows(replace(self._planned(columns, where), enough=limit), self)

    def _reading(self) -> AbstractContextManager[None]:
        return read_context(self._source, self._selection.snapshot)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class _SnapshotRows(PlannedRows):
    _plan: PlannedScan
    snapshot: Snapshot

    def _reading(self) -> AbstractContextManager[None]:
        return self.snapshot._reading()


def point_text(table: FormatTable, point: Point | None, name: str | None) -> str:
    """A table's name or location, with the point of its history, for people."""
    kind = "version" if table.format == "delta" else "snapshot"
    title = redact(table.location) if name is None else name
    return f"{title!r}, format={table.format!r}, {kind}={None if point is None else point.id}"


def short_table_name(location: str, name: str | None = None) -> str:
    """Return a short name of a table: its catalog's, else that of its directory, also of a location such as `.`."""
    plain = local_path(location)
    place = slashed(os.path.abspath(plain)) if is_local(plain) else redact(location)
    folder = metadata_root(place) if place.endswith(".metadata.json") else place
    return name or folder.rstrip("/").rpartition("/")[2]


def _check_number(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"Invalid {name}={value!r}: expected a number of rows, {least} or more", options=(name,))


def _recorded_rows(plan: PlannedScan) -> int | None:
    """The rows by the metadata alone; None: it may be wrong, or says nothing."""
    files, rows = plan.files, plan.files.column("record_count")
    if plan.storage.untrusted or plan.filter is not None or plan.equality_deletes:
        return None
    is_bound = pc.or_(pc.not_equal(files.column("format"), "parquet"), pc.is_valid(files.column("first_row_id")))
    is_exact = pc.and_not(pc.and_(is_bound, pc.is_valid(rows)), pc.is_valid(files.column("positions")))
    return (pc.sum(rows).as_py() or 0) if pc.all(is_exact, min_count=0).as_py() else None


def _refuse_foreign_columns(plan: PlannedScan) -> None:
    """Metadata columns that only the other format has."""
    used = (*plan.columns, *(plan.filter.columns if plan.filter is not None else ()))
    if plan.format == "iceberg" and METADATA["_row_commit_version"] in used:
        message = "Cannot read _row_commit_version: only Delta tables have it; read _last_updated_sequence_number"
        raise UnknownColumnError(message, table=plan.table, field="_row_commit_version")
