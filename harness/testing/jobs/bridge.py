"""The Python side of the bridge to the JVM. It answers Spark's calls about tables, rows, and writes.

Spark's catalogs and data sources are JVM interfaces. The Java classes in the folder `java/` implement them without any
data of their own: they send each call as JSON through py4j's callback server, and this module returns JSON or a
DataFrame.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from harness.errors import HarnessError, RequestError, TableNotFoundError, UnsupportedError
from harness.table import open_table
from harness.testing.jobs.reading import JobTable
from harness.testing.jobs.tables import JobTables, Write, WrittenTable, overwrite_mode, path_key, simple_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class _TableHandle:
    """A table or a read, to which the JVM refers by a number.

    Attributes:
        opened: The table, or None for an unknown name that is written to.
        key: The table's name, under which written rows are recorded.
        settled: True if the options of the read were applied when the table was opened.
        staged: The table to create, without rows.
        pending: The writes to the staged table until it is committed.
    """

    opened: JobTable | None
    key: tuple[str, ...]
    settled: bool = False
    staged: Write | None = None
    pending: list[Write] = field(default_factory=list)


class _ClassicColumns:
    """A block in which PySpark's functions return classic columns, although the process has a Spark Connect session.

    PySpark decides by an environment variable. It is changed while Spark waits for an answer.
    """

    _SWITCH = "PYSPARK_NO_NAMESPACE_SHARE"

    def __init__(self) -> None:
        self._lock, self._inside, self._ours = Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if is_remote() and self._SWITCH not in os.environ:
                os.environ[self._SWITCH], self._ours = "1", True

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._ours and not self._inside:
                del os.environ[self._SWITCH]
                self._ours = False


_CLASSIC = _ClassicColumns()
_NUMBERS = count(1)


@dataclass(slots=True)
class _JobSession:
    """A Spark session that sends requests to the bridge. Each request names a method `do_…` of this class."""

    name: str
    spark: SparkSession
    tables: JobTables
    entries: dict[str, _TableHandle] = field(default_factory=dict)

    def _key(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        return self.tables.key_of(request["catalog"], request["namespace"], request["name"])

    def _enter(self, entry: _TableHandle) -> dict[str, object]:
        number = str(next(_NUMBERS))
        self.entries[number] = entry
        opened, staged = entry.opened, entry.staged
        schema = opened.schema if opened is not None else None if staged is None else staged.schema
        return {
            "table": number,
            "key": (None if opened is None else opened.key) or f"{self.name}/{number}",
            "name": ".".join(entry.key) if opened is None else opened.name,
            "schema": None if schema is None else schema.json(),
            "writable": not entry.settled,
            "partitioning": [] if opened is None else [p for p in opened.partitioned_by if "(" not in p],
        }

    def do_load(self, request: Mapping[str, Any]) -> dict[str, object]:
        key = self._key(request)
        opened = self.tables.load(key, request.get("version"), request.get("timestamp"))
        if opened is None and not request.get("create"):
            return {"missing": True}
        return self._enter(_TableHandle(opened, key))

    def do_path(self, request: Mapping[str, Any]) -> dict[str, object]:
        opened = self.tables.load_path(request["format"], request["options"])
        return self._enter(_TableHandle(opened, (), settled=True))

    def do_changes(self, request: Mapping[str, Any]) -> dict[str, object]:
        opened = self.tables.changes(request["function"], request["values"], request["types"])
        return self._enter(_TableHandle(opened, (), settled=True))

    def do_plan(self, request: Mapping[str, Any]) -> object:
        entry = self.entries[request["table"]]
        assert entry.opened is not None, "a table without columns is not read"
        options = {} if entry.settled else request["options"]
        return entry.opened.frame(self.spark, request["columns"], request["filters"], options)._jdf

    def do_stage(self, request: Mapping[str, Any]) -> dict[str, object]:
        schema = StructType.fromJson(json.loads(request["schema"]))
        partitions = tuple(request["partitioning"])
        staged = Write(mode=request["mode"], schema=schema, directory=None, partitioned_by=partitions)
        return self._enter(_TableHandle(None, self._key(request), staged=staged))

    def do_directory(self, request: Mapping[str, Any]) -> dict[str, object]:
        entry = self.entries[request["table"]]
        if entry.staged is not None and overwrite_mode(request["options"]) != ("overwrite", None):
            raise RequestError(
                f"Cannot write {'.'.join(entry.key)}: the options overwrite part of a table, but this write replaces "
                "it; save to its path, or use insertInto or writeTo"
            )
        return {"directory": str(self.tables.new_directory())}

    def do_written(self, request: Mapping[str, Any]) -> None:
        entry = self.entries[request["table"]]
        rows = {
            "schema": StructType.fromJson(json.loads(request["schema"])),
            "directory": Path(request["directory"]),
            "options": request["options"],
        }
        if entry.staged is not None:
            entry.pending.append(replace(entry.staged, **rows))
            return
        target = self.tables.target(self.tables.target_key(entry.key))
        partition_columns = target.partitioned_by if entry.opened is None else entry.opened.partitioned_by
        mode, where = request["mode"], request["where"]
        if mode == "overwrite" and where is None:
            mode, where = overwrite_mode(request["options"])
        target.writes.append(Write(mode=mode, where=where, partitioned_by=partition_columns, **rows))

    def do_commit(self, request: Mapping[str, Any]) -> None:
        entry = self.entries[request["table"]]
        assert entry.staged is not None, "only what was staged is committed"
        target = self.tables.target(self.tables.target_key(entry.key))
        target.created, target.partitioned_by = entry.staged.schema, entry.staged.partitioned_by
        target.writes.extend(entry.pending or [entry.staged])
        entry.staged = None

    def do_drop(self, request: Mapping[str, object]) -> dict[str, object]:
        key = self._key(request)
        target = self.tables.targets.get(key)
        if target is not None and target.created is not None:
            del self.tables.targets[key]
            return {"dropped": True}
        if self.tables.load(key) is not None:
            raise RequestError(
                f"Cannot drop {'.'.join(key)}: it is a source of the test, and sources are never changed"
            )
        return {"dropped": False}

    def do_save(self, request: Mapping[str, Any]) -> None:
        options = {name: value for name, value in request["options"].items() if value is not None}
        path = {name.lower(): value for name, value in options.items()}.get("path")
        if path is None:
            raise RequestError(f"Cannot save {request['format']} rows: no path is given", options=("path",))
        key, mode = path_key(path), request["mode"]
        is_there = key in self.tables.targets or _has_table(path)
        if is_there and mode == "ErrorIfExists":
            raise RequestError(f"Cannot save to {path}: a table is there already; choose a mode")
        if is_there and mode == "Ignore":
            return
        rows, schema = (
            DataFrame(request["rows"], self.spark),
            self.tables.targets.get(key, WrittenTable()).created,
        )
        changes = mode == "Overwrite" and options.get("overwriteSchema", "false").lower() == "true"
        if schema is not None and not changes and simple_columns(rows.schema) != simple_columns(schema):
            raise RequestError(
                f"Cannot save to {path}: the rows are {rows.schema.simpleString()}, the table is "
                f"{schema.simpleString()}"
            )
        directory = self.tables.new_directory()
        rows.write.parquet(str(directory))
        partitions = tuple(json.loads(options.get("__partition_columns", "[]")))
        dynamic = str(self.spark.conf.get("spark.sql.sources.partitionOverwriteMode")).lower() == "dynamic"
        modes = {"Append": ("append", None), "Overwrite": overwrite_mode(options, dynamic=dynamic)}
        name, where = modes.get(mode, ("create", None))
        target = self.tables.target(key)
        if not is_there or changes:
            target.created, target.partitioned_by = rows.schema, partitions
        facts: dict[str, Any] = {"schema": rows.schema, "partitioned_by": partitions, "options": options}
        target.writes.append(Write(mode=name, where=where, directory=directory, **facts))

    def do_tables(self, request: Mapping[str, Any]) -> dict[str, object]:
        return {"names": self.tables.names(request["catalog"], request["namespace"])}

    def do_namespaces(self, request: Mapping[str, Any]) -> dict[str, object]:
        return {"names": self.tables.namespaces(request["catalog"], request["namespace"])}

    def do_refuse(self, request: Mapping[str, object]) -> None:
        raise UnsupportedError(
            f"Cannot {request['command']} {request['name']}: harness only reads tables and records writes; "
            "run the test in a session with the real writers, harness.spark_session(reference='iceberg') "
            "or 'delta'",
            cause="Writes",
        )


class Bridge:
    """Answers the requests of all sessions of this process."""

    def __init__(self) -> None:
        self.jobs: dict[str, _JobSession] = {}

    def apply(self, text: str, more: object) -> object:
        """Answer one request. The JVM calls this method.

        Args:
            text: The request as JSON.
            more: A DataFrame to save, or None.
        """
        try:
            request = json.loads(text)
            job = self.jobs.get(request["session"])
            if job is None:
                raise RequestError("Cannot answer Spark: the tables of this session were removed when its test ended")
            answer: Callable[[Mapping[str, Any]], object] = getattr(job, f"do_{request['do']}")
            with _CLASSIC:
                result = answer(request | {"rows": more})
            return json.dumps(result or {}) if result is None or isinstance(result, dict) else result
        except HarnessError as error:
            return json.dumps({"error": str(error)})
        except Exception as error:  # the JVM receives any error as JSON
            return json.dumps({"error": f"{type(error).__name__}: {error}"})

    def add(self, spark: SparkSession, tables: JobTables) -> str:
        """Register a session, and return its name for requests."""
        name = f"harness-{next(_NUMBERS)}"
        self.jobs[name] = _JobSession(name, spark, tables)
        return name

    class Java:
        """The Java interface that this class implements, for py4j."""

        implements = ("java.util.function.BiFunction",)


def _has_table(path: str) -> bool:
    try:
        open_table(path)
    except TableNotFoundError:
        return False
    return True


BRIDGE = Bridge()
