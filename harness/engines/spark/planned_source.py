"""Reading on Spark Connect through a data source of harness that the server's JVM loads.

The client has no JVM to plan in. It sends the engine's Java classes to the server as an artifact of its session, and
each read as options of `harness.spark.PlannedSource`. The server then reads like a classic session. Operators above the
scan are analyzed in the user's session, so its settings are checked.

Anyone who can see the server's request log sees the options of a read. Therefore `connect.PlainPaths` reads tables that
were opened with their own store options. It also reads all tables if the server runs another Spark version than the
client, does not accept artifacts, or if the client has no Java to compile the classes.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from harness.engines.spark.compiled import compile_client_jar
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.gateway import (
    OPTIONS,
    SETTINGS,
    PlannedRead,
    PlannedReads,
    ipc,
    join_locations,
    location,
    stream,
)
from harness.engines.spark.hadoop_options import check_schemes
from harness.errors import HarnessError, RequestError
from harness.storage.threads import Lock

_SOURCE = "harness.spark.PlannedSource"
_POSITION = "#position"
_SERVED: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""By session: True if its server has loaded the source."""
_LOCK = Lock()


@dataclass(frozen=True, slots=True, eq=False)
class PlannedSource(PlannedReads):
    """Reads planned files on the server of a Spark Connect session, as `Gateway` does in a classic session."""

    session: SparkSession

    @classmethod
    def for_session(cls, session: SparkSession) -> PlannedSource | None:
        """Return the source in a session, sending it to the server once. None if the server cannot load it."""
        with _LOCK:
            source = cls(session)
            if session not in _SERVED:
                try:
                    # the classes are compiled for the client's version
                    is_served = str(session.version) == pyspark.__version__
                    if is_served:
                        session.addArtifacts(str(compile_client_jar()))
                        source._answer("access", scheme="file")
                except (PySparkException, HarnessError, OSError):
                    is_served = False
                _SERVED[session] = is_served
            return source if _SERVED[session] else None

    @property
    def is_local(self) -> bool:
        """Always False, because the server is another process and usually runs on another machine."""
        return False

    def check_access(self, physical: Sequence[str]) -> None:
        """Refuse files in stores that the server has no file system for, see `hadoop_options`."""
        check_schemes(physical, lambda scheme: self._answer("access", scheme=scheme) == b"\1")

    def expose(self, frame: DataFrame) -> DataFrame:
        """Return the frame unchanged: it already belongs to the user's session."""
        return frame

    def planned_frame(self, read: PlannedRead) -> DataFrame:
        """Return the rows of a read in the user's session."""
        options = {
            "kind": read.file_format,
            "schema": read.read_schema.json(),
            "files": _packed(stream(read.files, read.constants)),
            "hadoop": _hadoop(read.options),
            "settings": json.dumps(SETTINGS),
            "positions": str(read.positions).lower(),
            "bitmap": str(read.bitmap),
        }
        if read.bounds is not None:
            options["bounds"] = _packed(ipc(read.bounds))
        if read.root is not None:
            options["root"] = location(read.root)
        stored = [f"p{i}" for i in range(len(read.read_schema.names))]
        position = [_POSITION] if read.positions else []
        # Rename by position: the source uses the files' own names, which the session may not be able to distinguish.
        frame = self._source(options).toDF(*stored, *position, *read.constants.column_names)
        columns = [functions.col(name) for name in (*stored, *read.constants.column_names)]
        if read.positions:  # a reader that left positions unset would delete the wrong rows
            unfilled = functions.raise_error(functions.lit("Spark returned a row without its position"))
            filled = functions.coalesce(functions.col(_POSITION), unfilled.cast("bigint"))
            columns.append(filled.alias("pos"))
        return frame.select(*columns)

    def arrow_frame(self, table: pa.Table) -> DataFrame:
        """Return the rows of a table in the user's session."""
        return self.session.createDataFrame(table)

    def read_ends(self, physical: Sequence[str], options: Mapping[str, str], most: int) -> bytes:
        """Read the ends of files on the executors of the server."""
        try:
            return self._answer(
                "ends", files=_packed(join_locations(physical)), hadoop=_hadoop(options), most=str(most)
            )
        except PySparkException as error:
            raise engine_error(error) from error

    def _answer(self, kind: str, **options: str) -> bytes:
        return bytes(self._source({"kind": kind, **options}).collect()[0][0])

    def _source(self, options: Mapping[str, str]) -> DataFrame:
        return self.session.read.format(_SOURCE).options(**options).load()


def _hadoop(options: Mapping[str, str]) -> str:
    if options:
        raise RequestError(
            "Cannot pass store options to Spark Connect, because its server may log them: configure the server's own "
            "fs.* settings, and open the table without store options",
            options=("storage_options",),
        )
    return json.dumps(OPTIONS)


def _packed(data: bytes | bytearray) -> str:
    return base64.b64encode(gzip.compress(data, 1)).decode()
