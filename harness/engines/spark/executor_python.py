"""Harness in the Python of executors. Harness is sent to executors on which it is not installed.

Executors of a local session run the driver's Python. Executors of a cluster run another Python; a job with one task
tests whether it can import the modules that read files. A Python without harness receives the driver's copy, which
consists of harness's modules only: numpy, pandas, and pyarrow must be installed there, as PySpark requires for its own
Python functions.
"""

from __future__ import annotations

import atexit
import base64
import json
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote
from weakref import WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from harness import errors
from harness.engines.data_files import corrupt_file
from harness.engines.spark.arrow_worker import unchanged
from harness.errors import EngineError, HarnessError, MissingFileError

# Errors from executors reach the driver only as text.
#
# Errors of harness carry their fields behind a mark, so that the driver raises the same class. Failures of Spark's own
# readers are recognized by the name of Spark's error and the Java exceptions that caused it.


_MARK = re.compile(r"\[harness:([A-Za-z0-9_-]+=*)\]")
_LACKING = re.compile(r"No module named '(harness|numpy|pandas|pyarrow|fsspec)\b")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')
_OTHER_PYTHON = re.compile(r"different version: ([\d.]+) than that in driver:? ([\d.]+)")
_FAILED_READ = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (\S+)\.(?=\s|$)")
_CHANGED = re.compile(r"\[harness\.FILE_CHANGED\] (\S+)")
_THROWN = re.compile(r"^: (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_NO_DAMAGE = re.compile(
    r"java\.net\.|Timeout|Interrupt|ClosedChannel|AccessDenied|AccessControl|Permission denied|Too many open files"
    r"|ClassNotFound|NoClassDefFound|Unsupported|OutOfMemory|amazonaws|software\.amazon|\.azure\.|com\.google\.cloud"
)
"""Reasons for a failed read that do not indicate a corrupt file."""


def unwrap(error: BaseException) -> HarnessError | None:
    """Return the HarnessError that an executor raised, decoded from Spark's exception. None for other errors."""
    texts: dict[int, str] = {}  # of the error and its causes
    following: BaseException | None = error
    while following is not None and id(following) not in texts:
        texts[id(following)] = str(following)
        following = following.__cause__ or following.__context__
    for text in texts.values():
        match = _MARK.search(text)
        if match is not None:
            parts = json.loads(base64.urlsafe_b64decode(match[1]))
            kind = getattr(errors, parts.pop("class"), HarnessError)
            assert isinstance(kind, type)
            assert issubclass(kind, HarnessError)
            return kind(parts.pop("message"), **parts)
        replacement = _CHANGED.search(text)
        if replacement is not None:
            reason = "Cannot read file: it was replaced after the read was planned; plan the read again"
            return corrupt_file(reason, _path(replacement.group(1)))
        clause = _lacking_module(text)
        if clause is not None:
            return EngineError(
                f"Cannot read files on Spark's executors: {clause} in PYSPARK_PYTHON before you create the session",
                cause="MissingModule",
            )
        failure = _FAILED_READ.search(text)
        if failure is not None:
            return _unread(failure.group(1), failure.group(2), causes(text))
    return None


def engine_error(error: Exception, table: str | None = None) -> HarnessError:
    """Translate a failure of Spark. The reason becomes one line.

    An error that harness raised on an executor is returned with its class and fields. If Spark's own reader could not
    read a file, the result is a MissingFileError or a CorruptFileError with the file's name.
    """
    original = unwrap(error)
    if original is not None:
        return original.within(table=table)
    # the text before the causes only shows what Python was waiting for
    reasons = causes(str(error)) or _THROWN.findall(str(error))
    text = reasons[-1] if reasons else " ".join(str(error).split(" JVM stacktrace:")[0].split())
    return EngineError(f"Spark failed: {text[:500]}", table=table)


def causes(text: str) -> list[str]:
    """Return the causes in a printed Java stack trace, in their order, each as class and message."""
    return list(dict.fromkeys(" ".join(cause.split()) for cause in _CAUSE.findall(text)))


def _lacking_module(text: str) -> str | None:
    """Return a clause that says what the executors' Python lacks and how to fix it. None for other failures."""
    module, no_python, versions = _LACKING.search(text), _NO_PYTHON.search(text), _OTHER_PYTHON.search(text)
    if module is not None:
        return f"their Python has no module {module[1]!r}; install lakeharness there, and set this Python"
    if no_python is not None:
        return f"they have no Python {no_python[1]!r}; set an existing Python with lakeharness"
    if versions is not None:
        remedy = "set a Python of the driver's version with lakeharness"
        return f"their Python is {versions[1]}, the driver's is {versions[2]}; {remedy}"
    return None


def _unread(kind: str, location: str, reasons: list[str]) -> HarnessError:
    """Return the error for a file that Spark's own reader failed on.

    It is an EngineError if the file may not be at fault.
    """
    file = _path(location)
    if kind == "FILE_NOT_EXIST":
        message = (
            "Cannot read a data file: it was removed after the read was planned; restore it, or plan the read again"
        )
        return MissingFileError(message, cause="MissingFile", file=file, rule="iceberg 7.6")
    reason = reasons[-1] if reasons else ""
    if kind not in ("NO_HINT", "CANNOT_READ_FILE_FOOTER") or any(_NO_DAMAGE.search(r) for r in reasons):
        return EngineError(f"Spark failed to read a file: {reason or kind}"[:500], file=file)
    return corrupt_file(f"Cannot read file: it is damaged: {reason[:300]}; restore it", file)


def _path(location: str) -> str:
    """Return the path that harness uses for a file, from Spark's name for it."""
    return re.sub("^file:/+", "/", unquote(location))


Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_READY: WeakSet[Any] = WeakSet()
"""The contexts, and sessions of Spark Connect, whose executors can read files in Python."""
_HARNESS = "No module named 'harness'"
_PACKAGE = "lakeharness.zip"


def run_in_python(session: SparkSession, batches: Batches, count: int, tasks: int) -> pa.Table:
    """Call `batches` on executors for the numbers from 0 to `count` - 1. Return its rows: a bigint and a binary column.

    Args:
        session: The session.
        batches: The function. It receives batches of numbers.
        count: How many numbers to process.
        tasks: The number of Spark tasks.

    Raises:
        EngineError: The job failed, or the executors' Python lacks a module.
    """
    prepare(session)
    schema = StructType([StructField("n", LongType()), StructField("found", BinaryType())])
    try:
        return session.range(0, count, 1, tasks).mapInArrow(batches, schema).toArrow()
    except (PySparkException, Py4JError) as error:
        raise engine_error(error) from error


def prepare(session: SparkSession) -> None:
    """Make sure that executors can read files in Python. Later calls for the same context return at once.

    Raises:
        EngineError: The executors' Python is missing, unsuitable, or lacks a module.
    """
    context = getattr(session, "_sc", None)  # a session of Spark Connect has none
    if context is not None and context.master.startswith("local"):
        return
    holder = session if context is None else context
    if holder in _READY:
        return
    lacking = _missing_requirement(session)
    if lacking is not None and _HARNESS in str(lacking):
        if context is None:
            session.addArtifacts(str(_package_zip()), pyfile=True)
        else:
            before = list(sys.path)
            context.addPyFile(str(_package_zip()))
            sys.path[:] = before  # the driver has the package already
        lacking = _missing_requirement(session)
    if lacking is not None:
        raise engine_error(lacking) from lacking
    _READY.add(holder)


def _missing_requirement(session: SparkSession) -> Exception | None:
    """Return Spark's error if executors cannot import the module that reads files. None if they can."""
    try:
        session.range(1).mapInArrow(unchanged, "id bigint").count()
    except (PySparkException, Py4JError) as error:
        return error
    return None


@cache
def _package_zip() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="harness-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    root = Path(__file__).parents[2]  # the root of the package
    with zipfile.ZipFile(directory / _PACKAGE, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in root.rglob("*.py"):
            archive.write(source, source.relative_to(root.parent))
    return directory / _PACKAGE
