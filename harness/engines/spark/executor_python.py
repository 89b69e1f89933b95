"""Harness in the Python of executors, for what is read there: it is sent along where it is not installed.

Executors of a local session run the driver's own Python. Those of a cluster run another, and whether it can import
what reads files is tried once, by a job of one task. A Python without harness gets the driver's, its modules and no
package beside them: numpy, pandas and pyarrow must be there, as PySpark wants them for what it does in Python.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from harness.engines.shared.head_worker import same
from harness.engines.spark.worker_errors import engine_error

Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_READY: WeakSet[Any] = WeakSet()
"""Contexts, and sessions of Spark Connect, whose executors can read files in Python."""
_HARNESS = "No module named 'harness'"
_PACKAGE = "lakeharness.zip"


def run_in_python(session: SparkSession, batches: Batches, count: int, tasks: int) -> pa.Table:
    """The rows that `batches` gives on executors for the numbers below `count`, a bigint and a binary column.

    Raises:
        EngineError: the job failed, or the executors' Python lacks a module.
    """
    prepare(session)
    schema = StructType([StructField("n", LongType()), StructField("found", BinaryType())])
    try:
        return session.range(0, count, 1, tasks).mapInArrow(batches, schema).toArrow()
    except (PySparkException, Py4JError) as error:
        raise engine_error(error) from error


def prepare(session: SparkSession) -> None:
    """Sees to it that executors can read files in Python; free when done.

    Raises:
        EngineError: they have no Python, or it lacks a package, naming it.
    """
    context = getattr(session, "_sc", None)  # none in a session of Spark Connect
    if context is not None and context.master.startswith("local"):
        return
    known = session if context is None else context
    if known in _READY:
        return
    lacking = _lacking(session)
    if lacking is not None and _HARNESS in str(lacking):
        _send(session)
        lacking = _lacking(session)
    if lacking is not None:
        raise engine_error(lacking) from lacking
    _READY.add(known)


def _lacking(session: SparkSession) -> Exception | None:
    """Spark's error where executors cannot import the reader of files; None: they can."""
    try:
        session.range(1).mapInArrow(same, "id bigint").count()
    except (PySparkException, Py4JError) as error:
        return error
    return None


def _send(session: SparkSession) -> None:
    package = _zipped()
    context = getattr(session, "_sc", None)
    if context is None:
        session.addArtifacts(str(package), pyfile=True)
        return
    before = list(sys.path)
    context.addPyFile(str(package))
    sys.path[:] = before  # the driver has it


@cache
def _zipped() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="harness-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    root = Path(__file__).parents[2]  # the package
    with zipfile.ZipFile(directory / _PACKAGE, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in root.rglob("*.py"):
            archive.write(source, source.relative_to(root.parent))
    return directory / _PACKAGE
