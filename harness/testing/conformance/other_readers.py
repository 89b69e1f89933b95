"""Other projects' readers. `python worker.py other_readers.py NAME` serves one in its own interpreter.

This script imports nothing of harness, and of the engines only the named one: their packages clash with harness's and
with each other's. Each reader asks its engine for the rows as its documentation shows, without work-arounds.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version as installed
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Unsupported(Exception):
    """The engine has no call for it."""


class SparkRefusal(Exception):
    """The message of a data source of Spark, without the exceptions that carried it."""


_Columns: TypeAlias = "tuple[str, ...] | None"
_Read: TypeAlias = "Callable[[SimpleNamespace, _Columns, str | None], Any]"
_Select: TypeAlias = "Callable[[str], str]"
"""The statement over a table, which is named so in it."""
_Count: TypeAlias = "Callable[[SimpleNamespace, str | None], int]"
_Reader: TypeAlias = "tuple[str, _Read, _Count]"
"""An engine, imported: its version with that of what reads its files, and the functions that give rows and a count."""


def _pyiceberg() -> _Reader:
    """PyIceberg, over a table's metadata file."""
    import pyarrow as pa
    import pyiceberg
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.parser import parse
    from pyiceberg.table import StaticTable

    def scan(table: SimpleNamespace, where: str | None) -> Any:
        _check_format(table, "iceberg", "PyIceberg")
        opened = StaticTable.from_metadata(table.metadata_path)
        try:
            condition = AlwaysTrue() if where is None else parse(where)
        except Exception as error:  # of the parser library beneath it
            raise Unsupported(f"PyIceberg's filters have no such expression: {where}") from error
        at, snapshot_id = table.at, None
        if at is not None and at.kind != "snapshot_id":
            found = opened.snapshot_by_name(at.value) if at.kind == "ref" else opened.snapshot_as_of_timestamp(at.value)
            if found is None:
                raise ValueError(f"There is no snapshot for {at.kind} {at.value}")
            snapshot_id = int(found.snapshot_id)
        elif at is not None:
            snapshot_id = int(at.value)
        return opened.scan(row_filter=condition, snapshot_id=snapshot_id)

    def read(table: SimpleNamespace, columns: _Columns, where: str | None) -> Any:
        found = scan(table, where)
        return found.to_arrow() if columns is None else found.select(*columns).to_arrow().select(list(columns))

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(scan(table, where).count())

    return f"{pyiceberg.__version__}, pyarrow {pa.__version__}", read, count


def _deltalake() -> _Reader:
    """delta-rs: a query that DataFusion runs inside deltalake."""
    import deltalake

    def query(table: SimpleNamespace, select: _Select) -> Any:
        _check_format(table, "delta", "delta-rs")
        version = _at("delta-rs", table).get("version")
        opened = deltalake.DeltaTable(table.location, version=version if isinstance(version, int) else None)
        if isinstance(version, datetime):
            opened.load_as_version(version)
        return deltalake.QueryBuilder().register("t", opened).execute(select("t"))

    return str(deltalake.__version__), *_by_sql(query)


def _polars() -> _Reader:
    """Polars: its own reader for Iceberg, and deltalake's log with its own reader for Delta."""
    import polars as pl

    def scan(table: SimpleNamespace, where: str | None) -> Any:
        frame: Any
        if table.format == "delta":
            frame = pl.scan_delta(table.location, **_at("Polars", table))
        else:
            frame = pl.scan_iceberg(table.metadata_path, reader_override="native", **_at("Polars", table))
        return frame if where is None else frame.filter(pl.sql_expr(where))

    def read(table: SimpleNamespace, columns: _Columns, where: str | None) -> Any:
        frame = scan(table, where)
        return (frame if columns is None else frame.select(list(columns))).collect()

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(scan(table, where).select(pl.len()).collect().item())

    return str(pl.__version__), read, count


def _daft() -> _Reader:
    """Daft: files that PyIceberg or deltalake plan, read by Daft."""
    import daft

    def of_ref(table: SimpleNamespace) -> dict[str, Any]:
        """Arguments of Daft's reader for a branch or a tag."""
        from pyiceberg.table import StaticTable

        found = StaticTable.from_metadata(table.metadata_path).refs().get(table.at.value)
        if found is None:
            raise ValueError(f"There is no branch or tag {table.at.value}")
        return {found.snapshot_ref_type.value: table.at.value}

    def scan(table: SimpleNamespace, where: str | None) -> Any:
        frame: Any
        if table.format == "iceberg":
            is_ref = table.at is not None and table.at.kind == "ref"
            frame = daft.read_iceberg(table.metadata_path, **(of_ref(table) if is_ref else _at("Daft", table)))
        else:
            frame = daft.read_deltalake(table.location, **_at("Daft", table))
        return frame if where is None else frame.where(daft.sql_expr(where))

    def read(table: SimpleNamespace, columns: _Columns, where: str | None) -> Any:
        frame = scan(table, where)
        return (frame if columns is None else frame.select(*columns)).to_arrow()

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(scan(table, where).count_rows())

    return str(daft.__version__), read, count


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_ARGUMENTS: Mapping[str, Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "delta": {"version": ("version", int), "timestamp_ms": ("version", _moment)},
    "iceberg": {"snapshot_id": ("snapshot_id", int)},
}
"""Arguments of readers in Python for a point of history, by format and kind of point."""


def _at(engine: str, table: SimpleNamespace) -> dict[str, Any]:
    """Arguments of a reader in Python for the table's point of history."""
    if table.at is None:
        return {}
    if table.at.kind not in _ARGUMENTS[table.format]:
        raise Unsupported(f"{engine} does not read {table.format.capitalize()} tables by {table.at.kind}")
    name, value = _ARGUMENTS[table.format][table.at.kind]
    return {name: value(table.at.value)}


def _duckdb(format: str, extensions: tuple[str, ...]) -> _Reader:
    """DuckDB's own extension for a format, from its package and not from the network."""
    import duckdb

    files: list[str] = []
    for name in extensions:
        package = importlib.import_module(f"duckdb_extension_{name}")
        (file,) = Path(str(package.__file__)).parent.rglob(f"{name}.duckdb_extension")
        files.append(str(file))

    def query(table: SimpleNamespace, select: _Select) -> Any:
        _check_format(table, format, f"The extension {format}")
        place = table.metadata_path if format == "iceberg" else table.location
        connection = duckdb.connect()
        for file in files:
            connection.load_extension(file)
        text = "'" + place.replace("'", "''") + "'"
        return connection.sql(select(f"{format}_scan({text}{_scan_at(format, table.at)})")).to_arrow_table()

    return f"{duckdb.__version__}, extension {installed(f'duckdb-extension-{format}')}", *_by_sql(query)


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


def _by_sql(query: Callable[[SimpleNamespace, _Select], Any]) -> tuple[_Read, _Count]:
    """The functions of an engine that runs SQL: `query` gives the rows of a statement over the table's name."""

    def asked(table: SimpleNamespace, shown: str, where: str | None) -> Any:
        condition = "" if where is None else f" WHERE {where}"
        return query(table, lambda source: f"SELECT {shown} FROM {source}{condition}")

    def read(table: SimpleNamespace, columns: _Columns, where: str | None) -> Any:
        shown = "*" if columns is None else ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        return asked(table, shown, where)

    def count(table: SimpleNamespace, where: str | None) -> int:
        import pyarrow as pa

        return int(pa.table(asked(table, "count(*)", where)).column(0)[0].as_py())

    return read, count


_CLICKHOUSE = {
    "iceberg": ("icebergLocal", {"snapshot_id": "iceberg_snapshot_id", "timestamp_ms": "iceberg_timestamp_ms"}),
    "delta": ("deltaLakeLocal", {"version": "delta_lake_snapshot_version"}),
}
"""ClickHouse's table functions, and its settings for a point of history by kind."""


def _chdb() -> _Reader:
    """chDB: ClickHouse in this process, by its table functions."""
    os.chdir("/")  # it reads files below the directory that it starts in, and no other
    import chdb

    def query(table: SimpleNamespace, select: _Select) -> Any:
        function, points = _CLICKHOUSE[table.format]
        # Cached metadata is found by path, and paths of tables are used again.
        settings = "SETTINGS use_iceberg_metadata_files_cache = 0"
        if table.at is not None:
            if table.at.kind not in points:
                raise Unsupported(f"{function} does not read by {table.at.kind}")
            settings += f", {points[table.at.kind]} = {int(table.at.value)}"
        inside = ""
        if table.format == "iceberg":
            inside = f", SETTINGS iceberg_metadata_file_path = {_text(f'metadata/{Path(table.metadata_path).name}')}"
        return chdb.query(f"{select(f'{function}({_text(table.location)}{inside})')} {settings}", "ArrowTable")

    return str(chdb.__version__), *_by_sql(query)


def _sail() -> _Reader:
    """Sail: its server of Spark Connect, in this process, and PySpark's client."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer()
    server.start()
    atexit.register(server.stop)  # and so it lives until then
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://localhost:{port}").getOrCreate()

    def frame(table: SimpleNamespace, where: str | None) -> Any:
        reader = spark.read.format(table.format)
        for name, value in _options(table.format, table.at).items():
            reader = reader.option(name, value)
        return _filtered(reader.load(table.location), where)

    def read(table: SimpleNamespace, columns: _Columns, where: str | None) -> Any:
        found = frame(table, where)
        return (found if columns is None else found.select(*map(_ticked, columns))).toArrow()

    def count(table: SimpleNamespace, where: str | None) -> int:
        return int(frame(table, where).count())

    return installed("pysail"), read, count


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _ticked(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


# The reference implementations' own readers for Spark. Their jars, pinned in `reference.json`, are fetched when Spark
# starts.

_PINNED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))

_LINEAGE = {"_row_id": "_metadata.row_id", "_row_commit_version": "_metadata.row_commit_version"}
"""Columns of row tracking, and where Delta Lake has them."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",  # a log of some lines takes 50 tasks otherwise
}
_READING = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
_READING_OF = {"iceberg": {**_READING, "spark.sql.caseSensitive": "true"}, "delta": _READING}
"""Settings of a session that reads need, by format."""


class SparkReference:
    """The data source of one format. session: a session with its jars; None: one is started when first needed."""

    def __init__(self, format: str, session: SparkSession | None = None) -> None:
        import pyspark  # noqa: F401  # not installed: said at once

        self._format, self._given = format, session

    def version(self) -> str:
        """Spark's version and the runtime's. Starts Spark, so that a failing download shows at once."""
        return f"{self._session.version}, {_PINNED[self._format]['packages'][0].rpartition(':')[2]}"

    def read(self, table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
        """The rows, of Iceberg from the metadata file, of Delta from the table's folder."""
        return self._run(table, columns, where, lambda frame: frame.toArrow())

    def count(self, table: SimpleNamespace, *, where: str | None) -> int:
        """The number of rows."""
        return int(self._run(table, None, where, lambda frame: frame.count()))

    def _run(
        self, table: SimpleNamespace, columns: _Columns, where: str | None, action: Callable[[DataFrame], Any]
    ) -> Any:
        from py4j.protocol import Py4JJavaError

        if table.format != self._format:
            raise Unsupported(f"This reads {self._format} tables only")
        reader = self._session.read.format(self._format)
        for name, value in _options(self._format, table.at).items():
            reader = reader.option(name, value)
        try:
            frame = reader.load(table.metadata_path if self._format == "iceberg" else table.location)
            if self._format == "delta":
                used = {*(columns or ()), *re.findall(r"\w+", where or "")}
                for name in sorted(used & _LINEAGE.keys() - set(frame.columns)):
                    frame = frame.withColumn(name, frame[_LINEAGE[name]])
            frame = _filtered(frame, where)
            if columns is not None:
                frame = frame.select(*map(_ticked, columns))
            return action(frame)
        except Py4JJavaError as error:
            thrown = error.java_exception
            while (cause := thrown.getCause()) is not None:  # the exception of Java that began it
                thrown = cause
            raise SparkRefusal(str(thrown.toString())) from error

    @property
    def _session(self) -> SparkSession:
        return self._given or _started(self._format)


def _options(format: str, at: SimpleNamespace | None) -> dict[str, Any]:
    if at is None:
        return {}
    if at.kind == "timestamp_ms":
        return {"timestampAsOf": _moment(at.value).strftime("%Y-%m-%d %H:%M:%S.%f")}
    if format == "iceberg" or at.kind == "version":
        return {"versionAsOf": at.value}  # of Iceberg a snapshot's id, or the name of a branch or tag
    raise Unsupported(f"Delta tables are not read by {at.kind}")


def _filtered(frame: DataFrame, where: str | None) -> DataFrame:
    from pyspark.errors import ParseException

    if where is None:
        return frame
    try:
        return frame.where(re.sub(r"\bstarts_with\(", "startswith(", where).replace("TIMESTAMPTZ '", "TIMESTAMP '"))
    except ParseException as error:
        raise Unsupported(f"Spark cannot parse {where}") from error


@cache
def _started(format: str) -> SparkSession:
    """A session with the format's jars."""
    import pyspark
    from pyspark.sql import SparkSession

    pinned = ".".join(_PINNED[format]["pyspark"].split(".")[:2])
    if not pyspark.__version__.startswith(f"{pinned}."):
        raise ImportError(f"the jars are for pyspark {pinned}, and {pyspark.__version__} is installed")
    builder = SparkSession.builder.master("local[2]").config(
        "spark.jars.packages", ",".join(_PINNED[format]["packages"])
    )
    for name, value in {**_SETTINGS, **_READING_OF[format], **_PINNED[format]["settings"]}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def beside(spark: SparkSession, format: str) -> SparkSession:
    """A session like the one given, with the settings that reads need."""
    own = spark.newSession()
    for name, value in _READING_OF[format].items():
        own.conf.set(name, value)
    return own


def _spark(format: str) -> _Reader:
    reader = SparkReference(format)
    return (
        reader.version(),
        lambda table, columns, where: reader.read(table, columns=columns, where=where),
        lambda table, where: reader.count(table, where=where),
    )


_READERS: Mapping[str, Callable[[], _Reader]] = {
    "pyiceberg": _pyiceberg,
    "deltalake": _deltalake,
    "polars": _polars,
    "daft": _daft,
    "duckdb-iceberg": partial(_duckdb, "iceberg", ("avro", "iceberg")),
    "duckdb-delta": partial(_duckdb, "delta", ("delta",)),
    "chdb": _chdb,
    "sail": _sail,
    "spark-iceberg": partial(_spark, "iceberg"),
    "spark-delta": partial(_spark, "delta"),
}

if __name__ == "harness_worker":
    _said, read, count = _READERS[sys.argv[1]]()

    def version() -> str:
        """The engine's version."""
        return _said
