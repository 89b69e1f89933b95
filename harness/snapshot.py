"""Snapshots and change ranges, which can be planned, read, and handed to an engine."""

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
from harness.metadata.plan.lifetimes import ChangeRange
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


@contextmanager
def read_context(table: FormatTable, point: Point | None) -> Iterator[None]:
    """Return a context for reading `table` at `point` that completes the errors raised inside.

    Args:
        table: The table.
        point: The snapshot or version that is read. None if the table has no snapshot.

    Raises:
        LimitError: Memory or Python's stack was exhausted.
        MissingFileError: The error from inside. If the table has a newer snapshot, the message adds its id, because the
            file may have been removed since.
    """
    try:
        with contained(table=table.location):
            yield
    except MissingFileError as error:
        newest = None
        try:
            if point is not None and error.cause != _TABLE_MOVED_ON:
                newest = table.newest()
        except HarnessError:  # Report the missing file alone if the newest snapshot cannot be determined.
            pass
        if point is not None and newest not in (None, point.id):
            kind = "version" if table.format == "delta" else "snapshot"
            error.cause = _TABLE_MOVED_ON
            error.message += (
                f". The table has changed: {kind} {point.id} was read, the newest is {newest}, and files of {kind} "
                f"{point.id} may have been removed since. Open the table again"
            )
        raise


_TABLE_MOVED_ON = "TableMovedOn"


_LOG = logging.getLogger("harness.plan")


class PlannedRows:
    """The rows of a plan, which can be read by DuckDB, Spark, and every library that accepts an Arrow stream."""

    __slots__ = ("_plan",)

    def __init__(self, plan: PlannedScan) -> None:
        self._plan = plan

    @property
    def plan(self) -> ScanPlan:
        """The plan with the files to read.

        A plan of changes of a Delta table lists a file once for each version that changed its rows.
        """
        return self._plan

    def __repr__(self) -> str:
        return repr(self.plan).replace("ScanPlan", type(self).__name__, 1)

    def _repr_html_(self) -> str:
        """Return the plan for notebooks."""
        return self._plan._repr_html_()

    def _reading(self) -> AbstractContextManager[None]:
        """Return the context for each step of a read, which adds the table to errors."""
        return contained(table=self._plan.table)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, name: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a lazy DuckDB relation.

        Args:
            connection: As for `Snapshot.to_duckdb`.
            name: As for `Snapshot.to_duckdb`.

        Returns:
            The relation.

        Raises:
            HarnessError: As for `Snapshot.to_duckdb`.
            MissingFileError: A file of the plan no longer exists, for example because the table was vacuumed.
        """
        from harness.engines.duckdb.relations import relation

        with self._reading():
            return relation(self._plan, connection, name=name)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the rows as a lazy Spark DataFrame.

        Args:
            spark: As for `Snapshot.to_spark`.

        Returns:
            The DataFrame.

        Raises:
            HarnessError: As for `Snapshot.to_spark`.
        """
        with self._reading():
            find_engine("spark")  # Raises an error that names the package to install if pyspark is missing.
            from harness.engines.spark.engine import dataframe

            return dataframe(self._plan, spark)

    def to_arrow(self, *, engine: str = "duckdb") -> pa.Table:
        """Return the rows as an Arrow table in the exact types of `Snapshot.to_arrow`.

        Args:
            engine: `duckdb` or `spark`.

        Returns:
            The rows in an unspecified order.

        Raises:
            HarnessError: As for `Snapshot.to_arrow`.
        """
        with self._reading():
            return find_engine(engine).to_arrow(self._plan)

    def to_pandas(self, *, engine: str = "duckdb") -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, like `Snapshot.to_pandas`.

        Args:
            engine: `duckdb` or `spark`.

        Returns:
            The rows with Arrow dtypes.

        Raises:
            HarnessError: As for `Snapshot.to_pandas`.
        """
        return frames.to_pandas(self.to_arrow(engine=engine))

    def to_polars(self, *, engine: str = "duckdb") -> pl.DataFrame:
        """Return the rows as a Polars DataFrame, like `Snapshot.to_polars`.

        Args:
            engine: `duckdb` or `spark`.

        Returns:
            The rows.

        Raises:
            HarnessError: As for `Snapshot.to_polars`.
        """
        return frames.to_polars(self.to_arrow(engine=engine))

    def to_batches(self, *, batch_rows: int = BATCH_ROWS) -> Batches:
        """Return the rows as a stream of Arrow batches, like `Snapshot.to_batches`.

        Args:
            batch_rows: The maximum number of rows per batch.

        Returns:
            The stream, which reads as batches are requested.

        Raises:
            HarnessError: As for `Snapshot.to_batches`.
        """
        from harness.engines.duckdb.engine import batches

        with self._reading():
            _check_number("batch_rows", batch_rows, 1)
            return batches(self._plan, rows=batch_rows, context=self._reading)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)


class Changes(PlannedRows):
    """The row changes between two moments. Every library that accepts an Arrow stream accepts this object."""

    __slots__ = ("_range",)

    def __init__(self, plan: PlannedScan, requested: ChangeRange) -> None:
        super().__init__(plan)
        self._range = requested

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        return Schema(fields=self._plan.columns)

    def __repr__(self) -> str:
        requested, plan = self._range, self._plan
        mode = None if requested.mode is None else requested.mode.value
        return (
            f"Changes({redact(plan.table)!r}, format={plan.format!r}, from_={requested.from_!r}, to={requested.to!r}, "
            f"from_inclusive={requested.from_inclusive}, mode={mode!r}, files={plan.files.num_rows}, "
            f"skipped={len(plan.skipped)})"
        )

    def _repr_html_(self) -> str:
        """Return the range, the size of the read, and the columns for notebooks. No file is read."""
        requested, plan = self._range, self._plan
        end = "included" if requested.from_inclusive else "excluded"
        facts = {
            "location": redact(plan.table),
            "format": plan.format,
            "from": "the oldest" if requested.from_ is None else f"{requested.from_} ({end})",
            "to": "the current state" if requested.to is None else requested.to,
            "mode": None if requested.mode is None else requested.mode.value,
            "keys": None if requested.keys is None else ", ".join(requested.keys),
            "commits": None if plan.lifetimes is None else len(plan.lifetimes.commits),
            "files read": plan.files.num_rows,
            "files skipped": len(plan.skipped),
        }
        return frames.html_description("Changes", facts, self.schema)


class _RowArguments(TypedDict, total=False):
    columns: Sequence[str] | None
    where: str | Filter | None
    limit: int | None


class ReadArguments(_RowArguments, total=False):
    """Keyword arguments of `Snapshot.to_arrow`, which describes them."""

    engine: str


class BatchArguments(_RowArguments, total=False):
    """Keyword arguments of `Snapshot.to_batches`, which describes them."""

    batch_rows: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one point of its history, with the schema of its rows.

    Every library that accepts an Arrow stream accepts a snapshot.

    Attributes:
        name: The table's full name in its catalog, starting with the catalog's name. None if the table was opened by
            location.
    """

    _source: FormatTable = field(repr=False)
    _selection: IcebergSelection | DeltaSelection = field(repr=False)
    name: str | None = None

    def __repr__(self) -> str:
        return f"Snapshot({point_text(self._source, self._selection.snapshot, self.name)})"

    def _repr_html_(self) -> str:
        """Return the snapshot for notebooks: its id, time, and columns. No file is read."""
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
        """The snapshot id, or the version of a Delta table. None if the table has no snapshot, and no rows."""
        return None if self._selection.snapshot is None else self._selection.snapshot.id

    @property
    def timestamp_ms(self) -> int | None:
        """The commit time in milliseconds since 1970-01-01 UTC. None if the table has no snapshot."""
        return None if self._selection.snapshot is None else self._selection.snapshot.timestamp_ms

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self._selection.schema

    @validate_call
    def head(
        self, n: int = 10, *, columns: Sequence[str] | None = None, where: str | Filter | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the first rows as a lazy DuckDB relation, which prints as a table.

        Only as many files are opened as `n` rows need. A table has no row order, so which rows come first is
        unspecified.

        Args:
            n: The number of rows.
            columns: As for `to_duckdb`.
            where: As for `to_duckdb`.

        Returns:
            The relation.

        Raises:
            RequestError: `n` is not a number of rows.
            HarnessError: As for `to_duckdb`.
        """
        with self._reading():
            _check_number("n", n, 0)
            return self._rows(columns, where, n).to_duckdb().limit(n)

    @validate_call
    def count(self, *, where: str | Filter | None = None) -> int:
        """Return the number of rows.

        Without `where`, the recorded count is returned if the metadata guarantees it: no delete applies to any file,
        and each file has row ids or a format other than Parquet (iceberg 7.2). Otherwise, and always for an untrusted
        table, the footers of the data files are read. With `where` or deletes, the columns that these need are read
        too.

        Args:
            where: As for `plan`. None to count all rows.

        Returns:
            The number of matching rows.

        Raises:
            HarnessError: As for `to_batches`.
        """
        with self._reading():
            plan = self._planned((), where)
            if (recorded := _recorded_rows(plan)) is not None:
                return recorded
            with _SnapshotRows(plan, self).to_batches() as batches:
                return sum(batch.num_rows for batch in batches)

    @validate_call
    def plan(self, columns: Sequence[str] | None = None, where: str | Filter | None = None) -> ScanPlan:
        """Plan a read: find the files that may hold matching rows, and the deletes that apply to them.

        Args:
            columns: Names of top-level columns and of metadata columns, in the order of the result. The metadata
                columns are `_file`, `_pos`, `_spec_id`, `_partition`, `_deleted`, and `_row_id`;
                `_last_updated_sequence_number` for Iceberg; and `_row_commit_version` for Delta. None for all columns
                of the schema.
            where: A boolean SQL expression in DuckDB's dialect. To parse an expression only once for many reads, pass
                `ScanPlan.filter` of another plan with the same schema. None for all rows.

        Returns:
            The plan.

        Raises:
            UnknownColumnError: A name is not in the schema.
            RequestError: `where` cannot be parsed, or was parsed for a schema with other columns.
            InvalidTableError: The metadata breaks the specification. The message names the file.
            MissingFileError: A metadata file does not exist. The message names the file.
            UnsupportedError: The table uses a feature that harness cannot read.
        """
        return self._planned(columns, where)

    def _planned(self, columns: Sequence[str] | None = None, where: str | Filter | None = None) -> PlannedScan:
        names = None if columns is None else tuple(columns)
        with self._reading():
            plan = self._source.plan(self._selection, names, where)  # type: ignore[arg-type]  # both have the same format
            _refuse_foreign_columns(plan)
        _LOG.info("%r: %d files are read, %d are skipped", self, plan.files.num_rows, len(plan.skipped))
        return plan

    @validate_call
    def metadata(self, name: str) -> MetadataTable:
        """Return a metadata table. It describes the files, manifests, and partitions of this snapshot.

            snapshot.metadata("files")  # prints its first rows, and shows them in a notebook
            snapshot.metadata("files").to_arrow(["file_path", "record_count"])

        Args:
            name: For an Iceberg table, `snapshots`, `history`, `refs`, `metadata_log_entries`, `manifests`, `files`,
                `data_files`, `delete_files`, `position_deletes`, `entries`, or `partitions`. With the prefix `all_`,
                `manifests`, `files`, `data_files`, `delete_files`, and `entries` cover all snapshots. For a
                Delta table, `versions`, `files`, or `partitions`.

        Returns:
            The metadata table, which is read when its rows are requested.

        Raises:
            RequestError: There is no metadata table with this name.
            InvalidTableError: The metadata breaks the specification.
            MissingFileError: A metadata file does not exist.
            UnsupportedError: The table uses a feature that harness cannot read.
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
        """Return the rows as a lazy DuckDB relation, which you can filter and project further.

        DuckDB reads rows when they are fetched. An error at that time, for example because a file was deleted
        meanwhile, is a `duckdb.Error`: `docs/reference/errors.md` shows how to catch it. `to_arrow` reads at once.

        Deleted positions are looked up for each row, so that your own filters can still skip row groups. Therefore a
        scan of all rows takes 1.75 times as long as a plain scan of the files. `harness.sql` and `to_arrow` know the
        whole query, and take 1.15 times as long if it has no filter.

        Args:
            connection: Your connection, or None for a new one. No setting of your connection is changed. Everything
                that harness creates in it is temporary, and `harness.detach` removes it.
            columns: As for `plan`.
            where: As for `plan`. Files that cannot match are skipped. Times in the expression are read in the
                connection's time zone, as in your own filters.
            name: The name of a temporary view with the rows to create in the connection. None for no view.

        Returns:
            The relation.

        Raises:
            HarnessError: As for `plan`.
            EngineError: DuckDB refused the query.
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
        """Return the rows as a lazy Spark DataFrame over the planned files, which you can filter and project further.

        Spark has no equivalent for some types. Their columns have another type, and the metadata of each column records
        the original type under `harness.arrow` (base64 of an Arrow schema in IPC format): `time` is a bigint of
        microseconds since midnight, `timestamp_ns` and `timestamptz_ns` are bigints of nanoseconds since 1970-01-01
        UTC, `uuid` is its canonical text in lower case, `fixed` and the geo types are binary, `variant` is JSON text,
        and `unknown` is an int that is always null. `timestamp` is TIMESTAMP_NTZ, and `timestamptz` is TIMESTAMP.

        Harness changes no setting, view, or function of your session, and your settings do not change which values are
        read: the files are planned in a separate session of the same Spark application. On Spark Connect, harness sends
        a class to the server once, which does the same there; the expressions above the files belong to your session. A
        setting that would make the rows wrong raises `RequestError`. Do not change it to that value before the
        rows are read. If the server accepts no classes, or the table has `storage_options`, Spark reads the plain file
        paths, which this process checks first; that takes 20 to 50 s for 10,000 files.

        A small Spark job reads the file footers. If a file is missing, damaged, or was replaced after planning, the
        queries that read it fail with Spark's exception, whose text contains the harness error.

        Args:
            spark: Your session. None for `harness.spark_session()`.
            columns: As for `plan`.
            where: As for `plan`. Files that cannot match are skipped. Filters of the DataFrame that compare columns
                with values also skip files, by the bounds and null counts in the metadata.

        Returns:
            The DataFrame.

        Raises:
            RequestError: pyspark or Java is missing, `spark` is not a session or was stopped, or a setting would make
                rows wrong.
            UnsupportedError: A part of `where` cannot be translated to Spark with certainly the same meaning.
            HarnessError: As for `plan`.
            EngineError: Spark refused the query.
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
        """Return the rows as an Arrow table in exact types (see `harness.metadata.model.schema.arrow_type`).

        Args:
            columns: As for `plan`.
            where: As for `plan`.
            limit: The maximum number of rows. Only as many files are opened as these rows need. None for all rows.
            engine: The engine that reads: `duckdb`, or `spark` (in `harness.spark_session()`).

        Returns:
            The rows in an unspecified order.

        Raises:
            RequestError: There is no such engine, or `limit` is not a number of rows.
            HarnessError: As for `plan`.
            EngineError: The engine failed.
        """
        rows = self._rows(columns, where, limit).to_arrow(engine=engine)
        return rows if limit is None else rows.slice(0, limit)  # Engines may return more rows than the limit.

    def to_pandas(self, **read: Unpack[ReadArguments]) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame with Arrow dtypes, so that no value is rounded. UUIDs are text.

        Args:
            read: The arguments of `to_arrow`.

        Returns:
            The rows in an unspecified order.

        Raises:
            RequestError: pandas is not installed.
            HarnessError: As for `to_arrow`.
        """
        return frames.to_pandas(self.to_arrow(**read))

    def to_polars(self, **read: Unpack[ReadArguments]) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame. UUIDs are text.

        Args:
            read: The arguments of `to_arrow`.

        Returns:
            The rows in an unspecified order.

        Raises:
            RequestError: Polars is not installed.
            HarnessError: As for `to_arrow`.
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
        """Return the rows as a stream of Arrow batches in the types of `to_arrow`, for tables larger than memory.

        DuckDB reads as batches are requested. Closing the stream early ends the query:

            with snapshot.to_batches(columns=["id", "total"]) as batches:
                for batch in batches:
                    ...

        Args:
            columns: As for `to_arrow`.
            where: As for `to_arrow`.
            limit: As for `to_arrow`.
            batch_rows: The maximum number of rows per batch. Memory holds one batch, and the buffers that DuckDB reads
                with.

        Returns:
            The stream.

        Raises:
            RequestError: `batch_rows` is not a number of rows.
            HarnessError: As for `to_arrow`, also while the stream is read.
        """
        return self._rows(columns, where, limit).to_batches(batch_rows=batch_rows)

    def _rows(
        self, columns: Sequence[str] | None, where: str | Filter | None, limit: int | None = None
    ) -> _SnapshotRows:
        """Return the planned rows of the snapshot. If `limit` is set, reading that many rows is enough."""
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
    """Return a table's name or location, and a point of its history, for people to read."""
    kind = "version" if table.format == "delta" else "snapshot"
    title = redact(table.location) if name is None else name
    planning = ", planning='server'" if table.format == "iceberg" and table.server is not None else ""
    return f"{title!r}, format={table.format!r}, {kind}={None if point is None else point.id}{planning}"


def short_table_name(location: str, name: str | None = None) -> str:
    """Return a short name of a table: its name in the catalog, or else the name of its directory."""
    plain = local_path(location)
    place = slashed(os.path.abspath(plain)) if is_local(plain) else redact(location)
    folder = metadata_root(place) if place.endswith(".metadata.json") else place
    return name or folder.rstrip("/").rpartition("/")[2]


def _check_number(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"Invalid {name}={value!r}: expected a number of rows, {least} or more", options=(name,))


def _recorded_rows(plan: PlannedScan) -> int | None:
    """Return the number of rows according to the metadata, or None if the metadata may be wrong or has no count."""
    files, rows = plan.files, plan.files.column("record_count")
    if plan.storage.untrusted or plan.filter is not None or plan.equality_deletes:
        return None
    is_bound = pc.or_(pc.not_equal(files.column("format"), "parquet"), pc.is_valid(files.column("first_row_id")))
    is_exact = pc.and_not(pc.and_(is_bound, pc.is_valid(rows)), pc.is_valid(files.column("positions")))
    return (pc.sum(rows).as_py() or 0) if pc.all(is_exact, min_count=0).as_py() else None


def _refuse_foreign_columns(plan: PlannedScan) -> None:
    """Raise UnknownColumnError if a plan reads a metadata column that only the other format has."""
    used = (*plan.columns, *(plan.filter.columns if plan.filter is not None else ()))
    if plan.format == "iceberg" and METADATA["_row_commit_version"] in used:
        message = "Cannot read _row_commit_version: only Delta tables have it; read _last_updated_sequence_number"
        raise UnknownColumnError(message, table=plan.table, field="_row_commit_version")
