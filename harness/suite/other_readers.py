"""Readers of other projects. `python worker.py other_readers.py NAME [SETTING=VALUE ...]` serves one of them.

This script imports only the named engine and no module of harness, because the packages of the engines conflict with
each other and with the packages of harness. Each reader reads rows as the engine's documentation shows, without
workarounds and with the engine's default settings. Other settings are passed by name. `docs/suite/readers.md` lists the
settings that are needed anyway, with reasons.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib.metadata import version as installed
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Unsupported(Exception):
    """The engine has no API for the read."""


class SparkRefusal(Exception):
    """The message of a Spark data source, without the exceptions that wrap it."""


_ReadRows: TypeAlias = "Callable[..., Any]"
"""Returns the rows of a table, with columns and a condition. Options of the protocol are keyword arguments."""
_Select: TypeAlias = "Callable[[list[str]], str]"
"""Returns the SQL statement over tables with the given names."""
_Count: TypeAlias = "Callable[[SimpleNamespace, str | None], int]"


@dataclass(frozen=True)
class _ReaderCalls:
    """An imported engine.

    Attributes:
        version: The versions of it and its file reader.
        read: The function for rows.
        count: The function for a count.
        options: The options that `read` takes.
        changes: The function for the changes in a range. None if the engine has no API for them.
    """

    version: str
    read: _ReadRows
    count: _Count
    options: tuple[str, ...]
    changes: _ReadRows | None = None


_CHANGES = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
"""The columns that a read of changes of an Iceberg table adds."""


def _pyiceberg() -> _ReaderCalls:
    """Return the calls of PyIceberg, which opens a table's metadata file."""
    import pyarrow as pa
    import pyiceberg
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.parser import parse
    from pyiceberg.table import StaticTable

    def parsed(where: str | None) -> Any:
        try:
            return AlwaysTrue() if where is None else parse(where)
        except Exception as error:  # from the parser library that PyIceberg uses
            raise Unsupported(f"PyIceberg's filters do not support this expression: {where}") from error

    def scan(table: SimpleNamespace, where: str | None, limit: int | None = None) -> Any:
        _check_format(table, "iceberg", "PyIceberg")
        opened = StaticTable.from_metadata(table.metadata_path)
        at, snapshot_id = table.at, None
        if at is not None and at.kind != "snapshot_id":
            snapshot = (
                opened.snapshot_by_name(at.value) if at.kind == "ref" else opened.snapshot_as_of_timestamp(at.value)
            )
            if snapshot is None:
                raise ValueError(f"There is no snapshot for {at.kind} {at.value}")
            snapshot_id = int(snapshot.snapshot_id)
        elif at is not None:
            snapshot_id = int(at.value)
        return opened.scan(row_filter=parsed(where), snapshot_id=snapshot_id, limit=limit)

    def read(
        table: SimpleNamespace,
        columns: tuple[str, ...] | None,
        where: str | None,
        limit: int | None = None,
        batch_rows: int | None = None,
    ) -> Any:
        table_scan = scan(table, where, limit)
        table_scan = table_scan if columns is None else table_scan.select(*columns)
        rows = table_scan.to_arrow() if batch_rows is None else table_scan.to_arrow_batch_reader().read_all()
        return rows if columns is None else rows.select(list(columns))

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(scan(table, where).count())

    def changes(
        table: SimpleNamespace, range: SimpleNamespace, columns: tuple[str, ...] | None, where: str | None
    ) -> Any:
        _check_format(table, "iceberg", "PyIceberg")
        if range.mode != "appends" or columns is None or not set(columns).isdisjoint(_CHANGES):
            raise Unsupported("PyIceberg only reads appended rows, without their snapshot")
        opened = StaticTable.from_metadata(table.metadata_path)
        ids = [_snapshot_id(moment, opened.snapshot_by_name) for moment in (range.from_, range.to)]
        append_scan = opened.incremental_append_scan(
            to_snapshot_id_inclusive=ids[1], row_filter=parsed(where), selected_fields=columns
        )
        if ids[0] is not None:
            start = (
                append_scan.from_snapshot_id_inclusive
                if range.from_inclusive
                else append_scan.from_snapshot_id_exclusive
            )
            append_scan = start(ids[0])
        return append_scan.to_arrow().select(list(columns))

    return _ReaderCalls(
        f"{pyiceberg.__version__}, pyarrow {pa.__version__}", read, count, ("limit", "batch_rows"), changes
    )


def _snapshot_id(moment: int | str | None, find: Callable[[str], Any]) -> int | None:
    """Return the snapshot id of an end of a range. `find` returns the snapshot of a branch or tag."""
    if not isinstance(moment, str):
        return moment
    snapshot = find(moment)
    if snapshot is None:
        raise ValueError(f"There is no branch or tag {moment}")
    return int(snapshot.snapshot_id)


def _pyiceberg_core() -> _ReaderCalls:
    """Return the calls of iceberg-rust in pyiceberg-core. DataFusion queries a table that PyIceberg opens."""
    import datafusion
    import pyiceberg_core.datafusion  # noqa: F401  # a missing package fails here
    from pyiceberg.table import StaticTable

    def query(tables: list[SimpleNamespace], select: _Select, settings: dict[str, int]) -> Any:
        context = datafusion.SessionContext()
        for number, table in enumerate(tables):
            _check_format(table, "iceberg", "pyiceberg-core")
            if table.at is not None:
                raise Unsupported("pyiceberg-core only provides the current snapshot to DataFusion")
            opened = StaticTable.from_metadata(f"file://{table.metadata_path}")
            if "://" not in opened.location():
                raise Unsupported("pyiceberg-core only reads tables whose recorded paths are URLs")
            context.register_table(f"t{number}", opened)
        return context.sql(select([f"t{number}" for number in range(len(tables))])).to_arrow_table()

    return _ReaderCalls(
        f"{installed('pyiceberg-core')}, datafusion {datafusion.__version__}", *_by_sql(query), ("limit", "union")
    )


def _deltalake() -> _ReaderCalls:
    """Return the calls of delta-rs: queries that DataFusion runs inside deltalake."""
    import deltalake

    def query(tables: list[SimpleNamespace], select: _Select, settings: dict[str, int]) -> Any:
        builder = deltalake.QueryBuilder()
        for number, table in enumerate(tables):
            _check_format(table, "delta", "delta-rs")
            version = _at_arguments("delta-rs", table).get("version")
            opened = deltalake.DeltaTable(table.location, version=version if isinstance(version, int) else None)
            if isinstance(version, datetime):
                opened.load_as_version(version)
            builder = builder.register(f"t{number}", opened)
        return builder.execute(select([f"t{number}" for number in range(len(tables))]))

    return _ReaderCalls(str(deltalake.__version__), *_by_sql(query), ("limit", "union"))


def _polars_iceberg() -> _ReaderCalls:
    """Return the calls of Polars with its extra `iceberg`, which has its own planner for Iceberg tables."""
    import polars_iceberg  # noqa: F401  # a missing package fails here

    calls = _polars(("iceberg",))
    return replace(calls, version=f"{calls.version}, polars-iceberg {installed('polars-iceberg')}")


def _polars(formats: tuple[str, ...] = ("iceberg", "delta")) -> _ReaderCalls:
    """Return the calls of Polars, whose own reader reads the files that PyIceberg or deltalake plans."""
    import polars as pl

    def scan(table: SimpleNamespace, where: str | None) -> Any:
        if table.format not in formats:
            raise Unsupported(f"This reader only reads {' and '.join(formats)} tables")
        if where is not None and "::BLOB" in where:  # Polars' SQL would read the literal as the bytes of its text
            raise Unsupported("Polars does not support DuckDB's literals of bytes")
        frame: Any
        if table.format == "delta":
            frame = pl.scan_delta(table.location, **_at_arguments("Polars", table))
        else:
            frame = pl.scan_iceberg(table.metadata_path, **_at_arguments("Polars", table))
        return frame if where is None else frame.filter(pl.sql_expr(where))

    def read(
        table: SimpleNamespace,
        columns: tuple[str, ...] | None,
        where: str | None,
        union: Sequence[SimpleNamespace] = (),
        limit: int | None = None,
        batch_rows: int | None = None,
    ) -> Any:
        frames = [scan(table, where), *(scan(part, part.where) for part in union)]
        frame = pl.concat(frames) if union else frames[0]
        frame = frame if columns is None else frame.select(list(columns))
        frame = frame if limit is None else frame.limit(limit)
        if batch_rows is None:
            return frame.collect()
        with pl.Config(streaming_chunk_size=batch_rows):
            return frame.collect(engine="streaming")

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(scan(table, where).select(pl.len()).collect().item())

    return _ReaderCalls(str(pl.__version__), read, count, ("limit", "union", "batch_rows"))


def _daft() -> _ReaderCalls:
    """Return the calls of Daft, which reads files that PyIceberg or deltalake plans."""
    import daft

    def ref_arguments(table: SimpleNamespace) -> dict[str, object]:
        """Return the arguments of Daft's reader for a branch or tag."""
        from pyiceberg.table import StaticTable

        ref = StaticTable.from_metadata(table.metadata_path).refs().get(table.at.value)
        if ref is None:
            raise ValueError(f"There is no branch or tag {table.at.value}")
        return {ref.snapshot_ref_type.value: table.at.value}

    def scan(table: SimpleNamespace, where: str | None) -> Any:
        frame: Any
        if table.format == "iceberg":
            is_ref = table.at is not None and table.at.kind == "ref"
            frame = daft.read_iceberg(
                table.metadata_path, **(ref_arguments(table) if is_ref else _at_arguments("Daft", table))
            )
        else:
            frame = daft.read_deltalake(table.location, **_at_arguments("Daft", table))
        return frame if where is None else frame.where(daft.sql_expr(where))

    def read(
        table: SimpleNamespace,
        columns: tuple[str, ...] | None,
        where: str | None,
        union: Sequence[SimpleNamespace] = (),
        limit: int | None = None,
        batch_rows: int | None = None,
        split_bytes: int | None = None,
    ) -> Any:
        frame = scan(table, where)
        for part in union:
            frame = frame.concat(scan(part, part.where))
        frame = frame if columns is None else frame.select(*columns)
        frame = frame if limit is None else frame.limit(limit)
        settings = {"default_morsel_size": batch_rows, "scan_tasks_max_size_bytes": split_bytes}
        with daft.execution_config_ctx(**{name: value for name, value in settings.items() if value is not None}):
            return frame.to_arrow()

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(scan(table, where).count_rows())

    return _ReaderCalls(str(daft.__version__), read, count, ("limit", "union", "batch_rows", "split_bytes"))


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_ARGUMENTS: Mapping[str, Mapping[str, tuple[str, Callable[[Any], object]]]] = {
    "delta": {"version": ("version", int), "timestamp_ms": ("version", _moment)},
    "iceberg": {"snapshot_id": ("snapshot_id", int)},
}
"""The arguments of Python readers for a point in history, by format and kind of point."""


def _at_arguments(engine: str, table: SimpleNamespace) -> dict[str, object]:
    """Return the arguments of a Python reader for the table's point in history."""
    if table.at is None:
        return {}
    if table.at.kind not in _ARGUMENTS[table.format]:
        raise Unsupported(f"{engine} does not read {table.format.capitalize()} tables by {table.at.kind}")
    name, value = _ARGUMENTS[table.format][table.at.kind]
    return {name: value(table.at.value)}


def _duckdb(format: str, extensions: tuple[str, ...], settings: Mapping[str, str]) -> _ReaderCalls:
    """Return the calls of DuckDB's own extension for a format.

    The extension is loaded from its Python package, not from the network. `settings` are the arguments of `SET`.
    """
    import duckdb

    files: list[str] = []
    for name in extensions:
        package = importlib.import_module(f"duckdb_extension_{name}")
        (file,) = Path(str(package.__file__)).parent.rglob(f"{name}.duckdb_extension")
        files.append(str(file))

    @cache
    def load_connection(threads: int | None) -> Any:
        """Return an instance with the extensions. Loading them takes ten times as long as a read."""
        connection = duckdb.connect(config={} if threads is None else {"threads": threads})
        for file in files:
            connection.load_extension(file)
        for name, value in settings.items():  # some settings belong to the extensions
            connection.execute(f"SET {_quoted(name)} = {_literal(value)}")
        return connection

    if settings:  # so that wrong settings fail at once
        load_connection(None)

    def table_function(table: SimpleNamespace) -> str:
        _check_format(table, format, f"The extension {format}")
        place = table.metadata_path if format == "iceberg" else table.location
        return f"{format}_scan({_literal(place)}{_scan_at(format, table.at)})"

    def query(tables: list[SimpleNamespace], select: _Select, options: dict[str, int]) -> object:
        try:
            connection = load_connection(options.get("threads"))
            return connection.sql(select([table_function(table) for table in tables])).to_arrow_table()
        except duckdb.Error:  # some errors end the instance
            load_connection.cache_clear()
            raise

    version = f"{duckdb.__version__}, extension {installed(f'duckdb-extension-{format}')}"
    return _ReaderCalls(version, *_by_sql(query), ("limit", "union", "threads"))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _scan_at(format: str, at: SimpleNamespace | None) -> str:
    if at is None:
        return ""
    match format, at.kind:
        case "delta", "version":
            return f", version => {int(at.value)}"
        case "iceberg", "snapshot_id":
            return f", snapshot_from_id => {int(at.value)}"
        case "iceberg", "timestamp_ms":
            moment = _moment(at.value).replace(tzinfo=None)
            return f", snapshot_from_timestamp => TIMESTAMP '{moment.isoformat(sep=' ')}'"
        case _:
            raise Unsupported(f"{format}_scan does not read by {at.kind}")


def _check_format(table: SimpleNamespace, format: str, engine: str) -> None:
    if table.format != format:
        raise Unsupported(f"{engine} reads {format.capitalize()} tables only")


def _by_sql(query: Callable[[list[SimpleNamespace], _Select, dict[str, int]], object]) -> tuple[_ReadRows, _Count]:
    """Return the functions for rows and counts of an engine that runs SQL.

    `query` returns the rows of a statement over tables, with settings under the protocol's names.
    """

    def select(select_list: str, conditions: list[str | None], sources: list[str], limit: int | None) -> str:
        parts = [
            f"SELECT {select_list} FROM {source}{'' if where is None else f' WHERE {where}'}"
            for source, where in zip(sources, conditions, strict=True)
        ]
        return " UNION ALL ".join(parts) + ("" if limit is None else f" LIMIT {limit}")

    def read(
        table: SimpleNamespace,
        columns: tuple[str, ...] | None,
        where: str | None,
        union: Sequence[SimpleNamespace] = (),
        limit: int | None = None,
        **settings: int,
    ) -> Any:
        select_list = "*" if columns is None else ", ".join(map(_quoted, columns))
        conditions = [where, *(part.where for part in union)]
        return query([table, *union], lambda sources: select(select_list, conditions, sources, limit), settings)

    def count(table: SimpleNamespace, where: str | None) -> int:
        import pyarrow as pa

        rows = query([table], lambda sources: select("count(*)", [where], sources, None), {})
        return int(pa.table(rows).column(0)[0].as_py())

    return read, count


_CLICKHOUSE = {
    "iceberg": ("icebergLocal", {"snapshot_id": "iceberg_snapshot_id", "timestamp_ms": "iceberg_timestamp_ms"}),
    "delta": ("deltaLakeLocal", {"version": "delta_lake_snapshot_version"}),
}
"""ClickHouse's table functions, and its settings for each kind of point in history."""
_CLICKHOUSE_COLUMNS = {"iceberg": {"_file"}, "delta": {"_file", "_row_id"}}
"""Virtual columns of ClickHouse that hide metadata columns.

`_file` is only a file name, and `_row_id` exists for Iceberg only.
"""
_CLICKHOUSE_SETTINGS = {"threads": "max_threads", "batch_rows": "max_block_size"}


_MOMENT = re.compile(r"TIMESTAMP(?:TZ)? '([^']*)'")


def _clickhouse_moment(literal: re.Match[str]) -> str:
    """Return a literal of microseconds in UTC.

    ClickHouse's TIMESTAMP '...' has whole seconds, and no time before 1970.
    """
    moment = datetime.fromisoformat(literal[1])
    since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return f"fromUnixTimestamp64Micro({since // timedelta(microseconds=1)}, 'UTC')"


def _chdb(settings: Mapping[str, str]) -> _ReaderCalls:
    """Return the calls of chDB: ClickHouse in this process, with its table functions.

    `settings` apply to its queries.
    """
    os.chdir("/")  # chDB reads files below its start directory only
    import chdb

    base_settings = {name: _clickhouse_text(value) for name, value in settings.items()}

    def run_query(text: str, values: Mapping[str, object]) -> object:
        settings_text = ", ".join(f"{name} = {value}" for name, value in values.items())
        return chdb.query(f"{text} SETTINGS {settings_text}" if settings_text else text, "ArrowTable")

    run_query("SELECT 1", base_settings)  # so that wrong settings fail at once

    def table_function(table: SimpleNamespace) -> str:
        settings_text = ""
        if table.format == "iceberg":
            metadata = _clickhouse_text(f"metadata/{Path(table.metadata_path).name}")
            settings_text = f", SETTINGS iceberg_metadata_file_path = {metadata}"
        return f"{_CLICKHOUSE[table.format][0]}({_clickhouse_text(table.location)}{settings_text})"

    def query(tables: list[SimpleNamespace], select: _Select, options: dict[str, int]) -> object:
        settings_by_name: dict[str, object] = {
            **base_settings,
            **{_CLICKHOUSE_SETTINGS[name]: n for name, n in options.items()},
        }
        text = select(["t"] * len(tables))
        for table in tables:
            function, points = _CLICKHOUSE[table.format]
            if reserved := set(re.findall(r"\w+", text)) & _CLICKHOUSE_COLUMNS[table.format]:
                raise Unsupported(f"{function} has its own columns named {', '.join(sorted(reserved))}")
            if table.at is None:
                continue
            if table.at.kind not in points or len(tables) > 1:  # the settings apply to the whole query
                raise Unsupported(f"{function} does not read by {table.at.kind}")
            settings_by_name[points[table.at.kind]] = int(table.at.value)
        text = _MOMENT.sub(_clickhouse_moment, select(list(map(table_function, tables))))
        return run_query(text, settings_by_name)

    return _ReaderCalls(str(chdb.__version__), *_by_sql(query), ("limit", "union", *_CLICKHOUSE_SETTINGS))


def _sail() -> _ReaderCalls:
    """Return the calls of Sail: its Spark Connect server runs in this process, with PySpark as the client."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer()
    server.start()
    atexit.register(server.stop)  # this reference also keeps the server alive
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://localhost:{port}").getOrCreate()

    def frame(table: SimpleNamespace, where: str | None) -> Any:
        reader = spark.read.format(table.format)
        for name, value in _options(table.format, table.at).items():
            reader = reader.option(name, value)
        return _filter(reader.load(table.location), where)

    def read(
        table: SimpleNamespace,
        columns: tuple[str, ...] | None,
        where: str | None,
        union: Sequence[SimpleNamespace] = (),
        limit: int | None = None,
    ) -> Any:
        rows = frame(table, where)
        for part in union:
            rows = rows.unionAll(frame(part, part.where))
        rows = rows if columns is None else rows.select(*map(_backquoted, columns))
        return (rows if limit is None else rows.limit(limit)).toArrow()

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(frame(table, where).count())

    return _ReaderCalls(installed("pysail"), read, count, ("limit", "union"))


def _clickhouse_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _backquoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


# Iceberg's and Delta Lake's own readers for Spark. Spark downloads their jars, pinned in `jars.json`, when it starts.

_PINNED = json.loads(Path(__file__).with_name("jars.json").read_text(encoding="utf-8"))

_LINEAGE = {"_row_id": "_metadata.row_id", "_row_commit_version": "_metadata.row_commit_version"}
"""The columns of row tracking, and their names in Delta Lake."""

_SETTINGS = {
    "spark.ui.enabled": "false",  # opens no port
    "spark.driver.host": "127.0.0.1",  # needs no network
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",  # for times without an offset in filters of the suite
    "spark.databricks.delta.snapshotPartitions": "2",  # a short log would take 50 tasks otherwise
}
_SPLITS = {
    "split_bytes": "spark.sql.files.maxPartitionBytes",
    "batch_rows": "spark.sql.parquet.columnarReaderBatchSize",
}
_ICEBERG_SPLITS = {"split_bytes": "split-size", "batch_rows": "batch-size"}
"""Spark's settings and Iceberg's read options, by the names of the protocol."""


_ICEBERG_RANGE = ("start-snapshot-id", "end-snapshot-id")
_NO_DELETES = "Delete files are currently not supported in changelog scans"
_CATALOG_NUMBERS = itertools.count(1)
_CHANGE_TYPES = {
    **{"INSERT": "insert", "DELETE": "delete"},
    **{"UPDATE_BEFORE": "update_preimage", "UPDATE_AFTER": "update_postimage"},
}
"""The types of changes in Iceberg's view for Spark, and in the protocol."""


class SparkReference:
    """The data source of one format for Spark.

    Args:
        format: `iceberg` or `delta`.
        session: A session with the jars. None starts a session when it is first needed.
        settings: Settings of the session that is started.
    """

    def __init__(
        self, format: str, session: SparkSession | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        import pyspark  # noqa: F401  # a missing package fails here

        self._format, self._session_or_none, self._settings = format, session, settings or {}

    def version(self) -> str:
        """Return the versions of Spark and of the runtime. This starts Spark, so a failing download shows at once."""
        return f"{self._session.version}, {_PINNED[self._format]['packages'][0].rpartition(':')[2]}"

    def read(
        self,
        table: SimpleNamespace,
        *,
        columns: tuple[str, ...] | None,
        where: str | None,
        union: Sequence[SimpleNamespace] = (),
        limit: int | None = None,
        **settings: int,
    ) -> Any:
        """Return the rows. Iceberg tables are read from the metadata file, Delta tables from the table's folder."""

        def rows() -> Any:
            frame = self._frame(table, columns, where, settings)
            for part in union:
                frame = frame.unionAll(self._frame(part, columns, part.where, settings))
            return (frame if limit is None else frame.limit(limit)).toArrow()

        settings_by_name = {_SPLITS[name]: str(value) for name, value in settings.items()}
        for name, text in settings_by_name.items():
            self._session.conf.set(name, text)
        try:
            return _run(rows)
        finally:
            for name in settings_by_name:
                self._session.conf.unset(name)

    def count(self, table: SimpleNamespace, *, where: str | None) -> int:
        """Return the number of rows."""
        return int(_run(lambda: self._frame(table, None, where, {}).count()))

    def changes(
        self, table: SimpleNamespace, range: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None
    ) -> Any:
        """Return the changes: the change data feed of a Delta table, or an incremental read or the view of Iceberg."""
        if table.format != self._format:
            raise Unsupported(f"This reader only reads {self._format} tables")
        names = ("startingVersion", "endingVersion") if self._format == "delta" else _ICEBERG_RANGE
        if self._format == "iceberg" and (
            range.from_inclusive or isinstance(range.from_, str) or isinstance(range.to, str)
        ):
            raise Unsupported("Iceberg's reads of changes in Spark start after a snapshot and have no branches")
        ends = zip(names, (range.from_, range.to), strict=True)
        options = {name: str(value) for name, value in ends if value is not None}

        def rows() -> Any:
            if self._format == "delta":
                reader = self._session.read.format("delta").option("readChangeFeed", "true")
                changed = reader.options(**options).load(table.location)
            elif range.mode == "appends":
                changed = self._appends(table, options, columns)
            else:
                changed = self._view(table, options, range)
            if lacking := [name for name in columns or () if name[:1] == "_" and name not in changed.columns]:
                raise Unsupported(f"Changes have no column {lacking[0]} in Spark")
            changed = _filter(changed, where)
            return (changed if columns is None else changed.select(*map(_backquoted, columns))).toArrow()

        try:
            return _run(rows)
        except Exception as error:  # Spark's classes differ by where the view fails
            if _NO_DELETES in str(error):
                raise Unsupported(_NO_DELETES) from error
            raise

    def _appends(
        self, table: SimpleNamespace, options: Mapping[str, str], columns: tuple[str, ...] | None
    ) -> DataFrame:
        if _ICEBERG_RANGE[0] not in options or columns is None or not set(columns).isdisjoint(_CHANGES):
            raise Unsupported("Iceberg's incremental read needs a start, and does not show snapshots")
        return self._session.read.format("iceberg").options(**options).load(table.metadata_path)

    def _view(self, table: SimpleNamespace, options: Mapping[str, str], range: SimpleNamespace) -> DataFrame:
        """Return the rows of `create_changelog_view`, which needs a catalog: one whose only table is this one."""
        spark, name = self._session, f"suite{next(_CATALOG_NUMBERS)}"
        place = Path(table.location)
        spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
        spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(place.parent.parent))
        arguments = {
            "table": f"'{_backquoted(place.parent.name)}.{_backquoted(place.name)}'",
            "changelog_view": f"'{name}'",
            "options": f"map({', '.join(repr(text) for option in options.items() for text in option)})",
            "net_changes": "true" if range.mode == "net" else None,
            "compute_updates": "true" if range.mode == "updates" else None,
            "identifier_columns": None if range.keys is None else f"array({', '.join(map(repr, range.keys))})",
        }
        named = ", ".join(f"{key} => {value}" for key, value in arguments.items() if value is not None)
        spark.sql(f"CALL {name}.system.create_changelog_view({named})")
        kinds = ", ".join(f"'{theirs}', '{ours}'" for theirs, ours in _CHANGE_TYPES.items())
        return spark.table(name).withColumn("_change_type", _expression(f"map({kinds})[_change_type]"))

    def _frame(
        self, table: SimpleNamespace, columns: tuple[str, ...] | None, where: str | None, settings: Mapping[str, int]
    ) -> DataFrame:
        if table.format != self._format:
            raise Unsupported(f"This reader only reads {self._format} tables")
        reader = self._session.read.format(self._format)
        for name, value in _options(self._format, table.at).items():
            reader = reader.option(name, value)
        for name, number in settings.items() if self._format == "iceberg" else ():
            reader = reader.option(_ICEBERG_SPLITS[name], number)
        frame = reader.load(table.metadata_path if self._format == "iceberg" else table.location)
        if self._format == "delta":
            used = {*(columns or ()), *re.findall(r"\w+", where or "")}
            for name in sorted(used & _LINEAGE.keys() - set(frame.columns)):
                frame = frame.withColumn(name, frame[_LINEAGE[name]])
        frame = _filter(frame, where)
        return frame if columns is None else frame.select(*map(_backquoted, columns))

    @property
    def _session(self) -> SparkSession:
        return self._session_or_none or _start_session(self._format, tuple(self._settings.items()))


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def _run(action: Callable[[], object]) -> Any:
    """Return the result of a Spark action. Raise SparkRefusal with the Java exception that caused a failure."""
    from py4j.protocol import Py4JJavaError

    try:
        return action()
    except Py4JJavaError as error:
        thrown = error.java_exception
        while (cause := thrown.getCause()) is not None:
            thrown = cause
        raise SparkRefusal(str(thrown.toString())) from error


def _options(format: str, at: SimpleNamespace | None) -> dict[str, Any]:
    if at is None:
        return {}
    if at.kind == "timestamp_ms":
        return {"timestampAsOf": _moment(at.value).strftime("%Y-%m-%d %H:%M:%S.%f")}
    if format == "iceberg" or at.kind == "version":
        return {"versionAsOf": at.value}  # for Iceberg, a snapshot id or the name of a branch or tag
    raise Unsupported(f"Delta tables cannot be read by {at.kind}")


_QUOTED = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")+)\"")
"""A text, or a name in double quotes. Sail reads double quotes as text, whatever the settings are."""


def _filter(frame: DataFrame, where: str | None) -> DataFrame:
    from pyspark.errors import ParseException

    if where is None:
        return frame
    try:
        return frame.where(spark_condition(where))
    except ParseException as error:
        raise Unsupported(f"Spark cannot parse {where}") from error


def spark_condition(where: str) -> str:
    """Return a condition in DuckDB's dialect as Spark's SQL."""
    quoted = _QUOTED.sub(lambda part: _backquoted(part[1].replace('""', '"')) if part[1] else part[0], where)
    return re.sub(r"\bstarts_with\(", "startswith(", quoted).replace("TIMESTAMPTZ '", "TIMESTAMP '")


@cache
def _start_session(format: str, settings: tuple[tuple[str, str], ...] = ()) -> SparkSession:
    """Return a session with the format's jars and further settings."""
    import pyspark
    from pyspark.sql import SparkSession

    pinned = ".".join(_PINNED[format]["pyspark"].split(".")[:2])
    if not pyspark.__version__.startswith(f"{pinned}."):
        raise ImportError(f"the jars are for pyspark {pinned}, and {pyspark.__version__} is installed")
    if unknown := [name for name, _ in settings if not name.startswith("spark.")]:
        raise ValueError(f"{unknown[0]} is not a setting of Spark: their names begin with spark.")
    builder = SparkSession.builder.config("spark.jars.packages", ",".join(_PINNED[format]["packages"]))
    for name, value in {**_SETTINGS, **_PINNED[format]["settings"], **dict(settings)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for name, value in settings:
        if session.conf.isModifiable(name):  # Spark then checks the value
            session.conf.set(name, value)
    return session


def _spark(format: str, settings: Mapping[str, str]) -> _ReaderCalls:
    reader = SparkReference(format, settings=settings)
    return _ReaderCalls(
        reader.version(),
        reader.read,
        lambda table, where: reader.count(table, where=where),
        ("limit", "union", *_SPLITS),
        reader.changes,
    )


_READERS: Mapping[str, Callable[[], _ReaderCalls]] = {
    "pyiceberg": _pyiceberg,
    "pyiceberg-core": _pyiceberg_core,
    "deltalake": _deltalake,
    "polars": _polars,
    "polars-iceberg": _polars_iceberg,
    "daft": _daft,
    "sail": _sail,
}
_WITH_SETTINGS: Mapping[str, Callable[[Mapping[str, str]], _ReaderCalls]] = {
    "duckdb-iceberg": partial(_duckdb, "iceberg", ("avro", "iceberg")),
    "duckdb-delta": partial(_duckdb, "delta", ("delta",)),
    "chdb": _chdb,
    "spark-iceberg": partial(_spark, "iceberg"),
    "spark-delta": partial(_spark, "delta"),
}
"""Readers, and readers whose engines accept settings by name."""


def _open_reader(name: str, *pairs: str) -> _ReaderCalls:
    """Return the calls of the reader with a name. `pairs` are settings as `SETTING=VALUE`."""
    if name in _WITH_SETTINGS:
        return _WITH_SETTINGS[name]({setting: value for setting, _, value in (pair.partition("=") for pair in pairs)})
    if pairs:
        raise ValueError(f"{name} accepts no settings; readers that do: {', '.join(_WITH_SETTINGS)}")
    return _READERS[name]()


if __name__ == "harness_worker":
    _calls = _open_reader(*sys.argv[1:])
    read, count, changes, OPTIONS = _calls.read, _calls.count, _calls.changes, _calls.options

    def version() -> str:
        """Return the engine's version."""
        return _calls.version
