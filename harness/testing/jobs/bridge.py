"""Python's end of the bridge to the JVM: answers Spark's questions for tables, rows and writes.

Spark's catalogs and data sources are JVM interfaces, implemented by the Java classes beside this module, which know
nothing of tables: each call comes here as JSON, through py4j's callback server, and goes back as JSON or as a frame.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from harness.errors import HarnessError, RequestError, TableNotFoundError, UnsupportedError
from harness.table import open_table
from harness.testing.jobs.opened import JobTable
from harness.testing.jobs.tables import JobTables, Write, WrittenTable, overwrite_of, path_key, simple_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Numbered:
    """A table or a read behind a number.

    opened: None: an unknown name, which is written to. key: the table's name, under which written rows are kept.
    settled: True: options of the read were followed when it was opened.
    staged: mode, schema and partitioning of the table to make. pending: its writes until then.
    """

    opened: JobTable | None
    key: tuple[str, ...]
    settled: bool = False
    staged: tuple[str, StructType, tuple[str, ...]] | None = None
    pending: list[Write] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    """A session of Spark that asks."""

    name: str
    spark: SparkSession
    tables: JobTables
    entries: dict[str, Numbered] = field(default_factory=dict)


class _Classic:
    """Makes pyspark's functions give classic columns in a process with a session of Spark Connect.

    PySpark decides by the environment. While Spark asks, its user waits for the answer.
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


_CLASSIC = _Classic()


class Bridge:
    """Answers all sessions of this process."""

    def __init__(self) -> None:
        self.jobs: dict[str, _Job] = {}
        self._numbers = count(1)

    def apply(self, text: str, more: Any) -> Any:
        """The answer to one request; called by the JVM."""
        try:
            request = json.loads(text)
            job = self.jobs.get(request["session"])
            if job is None:
                raise RequestError("Cannot answer Spark: this session's tables are gone, because its test is over")
            answer: Callable[[_Job, Mapping[str, Any]], Any] = getattr(self, f"_{request['do']}")
            with _CLASSIC:
                told = answer(job, request | {"rows": more})
            return json.dumps(told) if isinstance(told, dict) else told
        except HarnessError as error:
            return json.dumps({"error": str(error)})
        except Exception as error:  # the JVM must be told of any error in its own terms
            return json.dumps({"error": f"{type(error).__name__}: {error}"})

    def add(self, spark: SparkSession, tables: JobTables) -> str:
        """A name for a session, by which it asks."""
        name = f"harness-{next(self._numbers)}"
        self.jobs[name] = _Job(name, spark, tables)
        return name

    def _enter(
        self, job: _Job, entry: Numbered, name: str, schema: StructType | None, *, writable: bool
    ) -> dict[str, Any]:
        number = str(next(self._numbers))
        job.entries[number] = entry
        opened = entry.opened
        return {
            "table": number,
            "key": (None if opened is None else opened.key) or f"{job.name}/{number}",
            "name": name,
            "schema": None if schema is None else schema.json(),
            "writable": writable,
            "partitioning": [] if opened is None else [p for p in opened.partitioned_by if "(" not in p],
        }

    def _settled(self, job: _Job, opened: JobTable) -> dict[str, Any]:
        """A table that was opened with the options of the read."""
        return self._enter(job, Numbered(opened, (), settled=True), opened.name, opened.schema, writable=False)

    def _load(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        key = job.tables.key_of(request["catalog"], request["namespace"], request["name"])
        opened = job.tables.load(key, request.get("version"), request.get("timestamp"))
        if opened is not None:
            return self._enter(job, Numbered(opened, key), opened.name, opened.schema, writable=True)
        if not request.get("create"):
            return {"missing": True}
        return self._enter(job, Numbered(None, key), ".".join(key), None, writable=True)

    def _path(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._settled(job, job.tables.load_path(request["format"], request["options"]))

    def _changes(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._settled(job, job.tables.changes(request["function"], request["values"], request["types"]))

    def _plan(self, job: _Job, request: Mapping[str, Any]) -> Any:
        entry = job.entries[request["table"]]
        assert entry.opened is not None, "a table without columns is not read"
        options = {} if entry.settled else request["options"]
        return entry.opened.frame(job.spark, request["columns"], request["filters"], options)._jdf

    def _stage(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        key = job.tables.key_of(request["catalog"], request["namespace"], request["name"])
        schema = StructType.fromJson(json.loads(request["schema"]))
        entry = Numbered(None, key, staged=(request["mode"], schema, tuple(request["partitioning"])))
        return self._enter(job, entry, ".".join(key), schema, writable=True)

    def _directory(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        entry = job.entries[request["table"]]
        if entry.staged is not None and overwrite_of(request["options"]) != ("overwrite", None):
            raise RequestError(
                f"Cannot write {'.'.join(entry.key)}: the options overwrite a part of a table that is made anew; "
                "save to its path, or use insertInto or writeTo"
            )
        return {"directory": str(job.tables.new_directory())}

    def _written(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        entry = job.entries[request["table"]]
        key = job.tables.target_key(entry.key)
        target = job.tables.targets.get(key, WrittenTable())
        known = target.partitioned_by if entry.opened is None else entry.opened.partitioned_by
        mode, where = request["mode"], request["where"]
        if mode == "overwrite" and where is None:
            mode, where = overwrite_of(request["options"])
        write = Write(
            mode=mode if entry.staged is None else entry.staged[0],
            schema=StructType.fromJson(json.loads(request["schema"])),
            directory=Path(request["directory"]),
            partitioned_by=known if entry.staged is None else entry.staged[2],
            where=where if entry.staged is None else None,
            options=request["options"],
        )
        if entry.staged is not None:
            entry.pending.append(write)
            return {}
        job.tables.targets.setdefault(key, target).writes.append(write)
        return {}

    def _commit(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        entry = job.entries[request["table"]]
        assert entry.staged is not None, "only what was staged is committed"
        mode, schema, partitioned_by = entry.staged
        target = job.tables.targets.setdefault(job.tables.target_key(entry.key), WrittenTable())
        target.created, target.partitioned_by = schema, partitioned_by
        empty = Write(mode=mode, schema=schema, directory=None, partitioned_by=partitioned_by)
        target.writes.extend(entry.pending or [empty])
        entry.staged = None
        return {}

    def _abort(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        job.entries.pop(request["table"], None)
        return {}

    def _drop(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        key = job.tables.key_of(request["catalog"], request["namespace"], request["name"])
        target = job.tables.targets.get(key)
        if target is not None and target.created is not None:
            del job.tables.targets[key]
            return {"dropped": True}
        if job.tables.load(key) is not None:
            raise RequestError(
                f"Cannot drop {'.'.join(key)}: it is a source of the test, and sources are never changed"
            )
        return {"dropped": False}

    def _save(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        options = {name: value for name, value in request["options"].items() if value is not None}
        path = {name.lower(): value for name, value in options.items()}.get("path")
        if path is None:
            raise RequestError(f"Cannot save {request['format']} rows: no path is given", options=("path",))
        key, mode = path_key(path), request["mode"]
        is_there = key in job.tables.targets or _has_table(path)
        if is_there and mode == "ErrorIfExists":
            raise RequestError(f"Cannot save to {path}: a table is there already; choose a mode")
        if is_there and mode == "Ignore":
            return {}
        rows, known = DataFrame(request["rows"], job.spark), job.tables.targets.get(key, WrittenTable()).created
        changes = mode == "Overwrite" and options.get("overwriteSchema", "false").lower() == "true"
        if known is not None and not changes and simple_columns(rows.schema) != simple_columns(known):
            raise RequestError(
                f"Cannot save to {path}: the columns are {rows.schema.simpleString()}, there are {known.simpleString()}"
            )
        directory = job.tables.new_directory()
        rows.write.parquet(str(directory))
        partitions = tuple(json.loads(options.get("__partition_columns", "[]")))
        dynamic = str(job.spark.conf.get("spark.sql.sources.partitionOverwriteMode")).lower() == "dynamic"
        name, where = {"Append": ("append", None), "Overwrite": overwrite_of(options, dynamic=dynamic)}.get(
            mode, ("create", None)
        )
        target = job.tables.targets.setdefault(key, WrittenTable())
        if not is_there or changes:
            target.created, target.partitioned_by = rows.schema, partitions
        target.writes.append(
            Write(
                mode=name,
                schema=rows.schema,
                directory=directory,
                partitioned_by=partitions,
                where=where,
                options=options,
            )
        )
        return {}

    def _tables(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"names": job.tables.names(request["catalog"], request["namespace"])}

    def _namespaces(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"names": job.tables.namespaces(request["catalog"], request["namespace"])}

    def _refuse(self, job: _Job, request: Mapping[str, Any]) -> dict[str, Any]:
        raise UnsupportedError(
            f"Cannot {request['command']} {request['name']}: harness reads tables, and records what a job writes; "
            "run the test in a session with the real writers, harness.spark_session(reference='iceberg') "
            "or 'delta'",
            cause="Writes",
        )

    class Java:
        """The Java interface, for py4j."""

        implements = ("java.util.function.BiFunction",)


def _has_table(path: str) -> bool:
    try:
        open_table(path)
    except TableNotFoundError:
        return False
    return True


BRIDGE = Bridge()
