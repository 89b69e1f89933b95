"""A local Spark session for reads and tests.

In processor seconds on two cores, stopping the JVM's compiler at its first tier takes a start from 9 to 5, the first
read from 7 to 5, and a small read on a warm session from 0.36 to 0.22. A scan of 20 million rows takes 1.5 to 1.9 times
as much, so whoever scans that much passes `config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}`.
Adaptive execution costs a tenth of a small read and stays on, because it chooses the joins of large ones.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines.spark.java_runtime import JavaRuntime, coordinates, start_environment, usable_java
from harness.errors import EngineError, RequestError
from harness.metadata.model.file_schema import PhysicalField, walk_stored
from harness.metadata.model.schema import Field, StructType, TimestampType, Type, children
from harness.storage.threads import phase, track

if TYPE_CHECKING:  # where there is no pyspark, `spark_session` says so
    from pyspark.sql import SparkSession

OLDEST_PYSPARK = 4

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MOST_PARTITIONS = 8
_MOST_MEMORY_MIB = 8192
# What fails on an executor reaches the caller as an exception: its trace need not be on stderr too. The gateway has a
# level of its own because Spark would otherwise announce that it takes another.
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = off
"""


def spark_session(
    app_name: str = "harness",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    packages: str | None = None,
) -> SparkSession:
    """A session tuned for many small local reads, or the one that is there.

    A session that runs already is returned as it is: none of its settings is changed. A new one has no UI, keeps to
    the loopback address, logs errors only, keeps its warehouse in a temporary directory (nothing is left in the working
    directory), runs Python workers on this machine with this Python, and has UTC as its time zone. Executors of a
    cluster run the Python that `PYSPARK_PYTHON` or `spark.pyspark.python` names, else `python3`.

    Args:
        master: of a new session.
        config: settings of a new session, over those chosen here. Options of the JVM are added to those chosen here.
        packages: of Java, for a new session, which are fetched from Maven Central once: `s3` for tables in S3 (some
            700 MB, most of it Amazon's client), or Maven coordinates, with commas between them.

    Raises:
        RequestError: `packages` are none; pyspark is older than 4.0; no Java that runs this
            pyspark (`usable_java`); the session that runs has other values for `config` or `packages` than asked.
        EngineError: Spark does not start.
    """
    check_pyspark()
    wanted = dict(config or {})
    if packages is not None:
        wanted["spark.jars.packages"] = coordinates(packages)
    existing = running_session()
    if existing is not None:
        for key, value in wanted.items():
            got = existing.conf.get(key, None)
            if got != value:
                raise RequestError(
                    f"Cannot have a Spark session with {key}={value}: one runs already, with {got}, and is not "
                    "changed; stop it first, or set it there"
                )
        return existing
    from pyspark import SparkContext

    java = usable_java() if SparkContext._gateway is None else None  # a JVM that runs is what it is
    return _start(app_name, master, wanted, java)


def running_session() -> SparkSession | None:
    """The session that runs in this process; None: there is none. Starts nothing."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()  # without settings, which it would apply


def check_pyspark() -> None:
    """Raises RequestError for a pyspark that is older than 4.0."""
    import pyspark

    version = pyspark.__version__
    if int(version.split(".", 1)[0]) < OLDEST_PYSPARK:
        raise RequestError(
            f"Cannot use Spark: pyspark is {version}, needed is {OLDEST_PYSPARK}.0 or newer; "
            "pip install 'lakeharness[spark]'"
        )


def _start(app_name: str, master: str, wanted: Mapping[str, str], java: JavaRuntime | None) -> SparkSession:
    from pyspark.sql import SparkSession

    directory = Path(tempfile.mkdtemp(prefix="harness-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    settings = {**_settings(directory, local=master.startswith("local")), **wanted}
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING, encoding="utf-8")
    options = (
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=256m",  # with one tier it would be 48 MiB, which a long test run fills
        "-Duser.timezone=UTC",
        f'"-Dlog4j2.configurationFile={logging.as_uri()}"',
        f'"-Dderby.system.home={directory}"',
    )
    settings[_JAVA_OPTIONS] = " ".join((*options, wanted.get(_JAVA_OPTIONS, ""))).strip()
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    environment = {} if java is None else start_environment(java, directory)
    with _environment(settings, environment), _signal_handler(), phase("starting Spark"):
        try:
            session = builder.getOrCreate()
        except Exception as error:  # pyspark has no common base of what starting raises
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise EngineError(f"Cannot start Spark with master {master}: {first}") from error
    _started.append(track(_Jobs(session)))
    return session


class _Jobs:
    """The jobs of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def interrupt(self) -> None:
        self._session.sparkContext.cancelAllJobs()


_started: list[_Jobs] = []
"""Jobs of the sessions that were started here, which stay known by this list."""


def _settings(directory: Path, *, local: bool) -> dict[str, str]:
    cores = os.cpu_count() or 1
    settings = {
        "spark.api.mode": "classic",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",  # each holds the text of a plan
        # Else each operation on a column asks the JVM six times more, to say in errors where in Python it was written.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.memory": f"{_driver_memory_mib()}m",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(min(_MOST_PARTITIONS, max(2, cores))),
        # Over this many paths, Spark lists them by a job of one task a path: minutes for what a loop does in seconds.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    }
    if local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.pyspark.python": sys.executable,
        }
    return settings


def _driver_memory_mib() -> int:
    """A quarter of the machine's memory, at least 1 GiB, at most 8: in local mode the driver does all of the work."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (AttributeError, ValueError, OSError):  # not on this platform
        return 1024
    return max(1024, min(_MOST_MEMORY_MIB, total // 4))


@contextmanager
def _signal_handler() -> Iterator[None]:
    """Whoever handles Ctrl-C goes on doing so. Else PySpark does, over the connection that it may just be reading."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(before) and before is not signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _environment(settings: Mapping[str, str], java: Mapping[str, str]) -> Iterator[None]:
    """Set what Spark takes from the environment alone, while it starts: its address, the Python of its workers, Java.

    The address and the Python that the user has set stay. Java's variables replace those of a Java that does not run.
    """
    # Without an address of its own it resolves the name of the host.
    wanted = {"PYSPARK_PYTHON": "spark.pyspark.python", "SPARK_LOCAL_IP": "spark.driver.bindAddress"}
    added = {name: settings[key] for name, key in wanted.items() if key in settings and name not in os.environ}
    added |= java
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# Settings of a user's session that a lowered plan depends on, where harness can make no session beside it. They must
# stay as they are until the rows are read.


_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "UTC+0", "Universal", "Zulu", "Etc/UCT", "UCT")
_FILTER_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}


def check_session(session: SparkSession, columns: Sequence[Field], condition: str | None) -> None:
    """Refuses a session under whose settings the rows would come out wrong.

    columns: all that a plan reads. condition: its filter, in Spark's SQL.

    Raises RequestError: naming the setting, its value, and the value needed.
    """
    require(session, "spark.sql.ansi.enabled", "true")
    if _has_times(columns) or "TIMESTAMP" in (condition or "").upper():
        require(session, "spark.sql.session.timeZone", *_UTC)
    if not all(_is_distinct_type(column.type) for column in columns):
        require(session, "spark.sql.caseSensitive", "true")
    if condition is not None:
        for setting, needed in _FILTER_SETTINGS.items():
            require(session, setting, needed)


def check_nested(session: SparkSession, schema: Sequence[PhysicalField]) -> None:
    """Refuses, as `check_session`, a session that cannot tell apart parts of structs that differ by case alone."""
    nested = [level for top in schema for level in levels(top.children)]
    if not all(are_distinct([f.name for f in level]) for level in nested):
        require(session, "spark.sql.caseSensitive", "true")


def can_distinguish(session: SparkSession, used: Sequence[PhysicalField]) -> bool:
    """Tells whether the session can tell apart the columns of a file that are read; raises as `check_nested`."""
    check_nested(session, used)
    return are_distinct([f.name for f in used]) or setting_of(session, "spark.sql.caseSensitive") == "true"


def require(session: SparkSession, setting: str, *allowed: str) -> None:
    """Raises RequestError for a setting that has none of the allowed values, in any case."""
    found = setting_of(session, setting)
    if found is not None and found.lower() not in {value.lower() for value in allowed}:
        raise RequestError(
            f"Cannot read with this Spark session: {setting} is {found}, needed is {allowed[0]}; "
            "set it in the session, where no JVM gateway lets harness read beside it",
            cause="SparkSetting",
        )


def setting_of(session: SparkSession, name: str) -> str | None:
    """The value of a setting, set or not; None: this Spark has no such setting."""
    from pyspark.errors import PySparkException

    try:
        return str(session.conf.get(name))
    except PySparkException as error:
        if "SQL_CONF_NOT_FOUND" in str(error):
            return None
        raise failure(error) from error


def failure(error: Exception) -> EngineError:
    """The error for a request that the server refused."""
    return EngineError(f"Spark failed: {' '.join(str(error).split(' JVM stacktrace:')[0].split())[:500]}")


def levels(schema: Sequence[PhysicalField]) -> list[Sequence[PhysicalField]]:
    """The fields that stand beside each other, at every level."""
    inner = [f.children for f in walk_stored(schema) if isinstance(f.type, StructType)]
    return [schema, *inner]


def are_distinct(names: Sequence[str]) -> bool:
    """Tells whether no two names differ by case alone, or not at all."""
    return len({name.casefold() for name in names}) == len(names)


def _is_distinct_type(type_: Type) -> bool:
    parts = children(type_)
    if isinstance(type_, StructType) and not are_distinct([part.name for part in parts]):
        return False
    return all(_is_distinct_type(part.type) for part in parts)


def _has_times(columns: Sequence[Field]) -> bool:
    return any(isinstance(f.type, TimestampType) or _has_times(children(f.type)) for f in columns)
