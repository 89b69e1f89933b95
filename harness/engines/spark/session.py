"""A local Spark session for reads and tests.

Stopping the JVM's compiler at its first tier reduces processor time on two cores from 9 s to 5 s for a start, from 7 s
to 5 s for the first read, and from 0.36 s to 0.22 s for a small read on a warm session. A scan of 20 million rows takes
1.5 to 1.9 times as long, so for large scans pass `config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}`.
Adaptive execution costs a tenth of a small read, but stays on because it chooses the joins of large reads.
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

if TYPE_CHECKING:  # `spark_session` reports a missing pyspark
    from pyspark.sql import SparkSession

OLDEST_PYSPARK = 4

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MOST_PARTITIONS = 8
_MOST_MEMORY_MIB = 8192
# Failures on executors reach the caller as exceptions, so their traces are not printed to stderr as well. The gateway
# has its own level, because Spark would otherwise print that it changes the level.
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
    """Start a Spark session tuned for many small local reads, or return the running session.

    A running session is returned unchanged, with all its settings. A new session has no UI, binds to the loopback
    address, logs only errors, keeps its warehouse in a temporary directory, and leaves nothing in the working
    directory. It runs Python workers on this machine with the current Python, and its time zone is UTC. Executors of a
    cluster run the Python that `PYSPARK_PYTHON` or `spark.pyspark.python` names, or `python3` by default.

    Args:
        app_name: The application name of a new session.
        master: The master of a new session.
        config: Settings of a new session, which override the defaults above. JVM options are added to the default ones.
        packages: Java packages for a new session, separated by commas. They are downloaded from Maven Central once:
            `s3` for tables in S3 (some 700 MB, most of it Amazon's client), `azure`, `gcs`, or Maven coordinates.

    Returns:
        The session.

    Raises:
        RequestError: `packages` is invalid, pyspark is older than 4.0, there is no Java that can run this pyspark, or a
            running session has other values for `config` or `packages`.
        EngineError: Spark does not start.
    """
    check_pyspark()
    settings = dict(config or {})
    if packages is not None:
        settings["spark.jars.packages"] = coordinates(packages)
    existing = running_session()
    if existing is not None:
        for key, value in settings.items():
            current = existing.conf.get(key, None)
            if current != value:
                raise RequestError(
                    f"Cannot start a Spark session with {key}={value}: a session with {current} is running; "
                    "stop it first, or set the value there"
                )
        return existing
    from pyspark import SparkContext

    java = usable_java() if SparkContext._gateway is None else None  # a running JVM cannot be replaced
    return _start(app_name, master, settings, java)


def running_session() -> SparkSession | None:
    """Return the Spark session that runs in this process, or None. Starts nothing."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()  # the builder would apply settings


def check_pyspark() -> None:
    """Raise RequestError if the installed pyspark is older than 4.0."""
    import pyspark

    version = pyspark.__version__
    if int(version.split(".", 1)[0]) < OLDEST_PYSPARK:
        raise RequestError(
            f"Cannot use Spark: pyspark is {version}, but {OLDEST_PYSPARK}.0 or newer is required; "
            "pip install 'lakeharness[spark]'"
        )


def _start(app_name: str, master: str, overrides: Mapping[str, str], java: JavaRuntime | None) -> SparkSession:
    from pyspark.sql import SparkSession

    directory = Path(tempfile.mkdtemp(prefix="harness-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    settings = {**_settings(directory, local=master.startswith("local")), **overrides}
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING, encoding="utf-8")
    options = (
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=256m",  # with one tier the default would be 48 MiB, which a long test run fills
        "-Duser.timezone=UTC",
        f'"-Dlog4j2.configurationFile={logging.as_uri()}"',
        f'"-Dderby.system.home={directory}"',
    )
    settings[_JAVA_OPTIONS] = " ".join((*options, overrides.get(_JAVA_OPTIONS, ""))).strip()
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    environment = {} if java is None else start_environment(java, directory)
    with _environment(settings, environment), _signal_handler(), phase("starting Spark"):
        try:
            session = builder.getOrCreate()
        except Exception as error:  # pyspark raises unrelated classes when it fails to start
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise EngineError(f"Cannot start Spark with master {master}: {first}") from error
    _started.append(track(_Jobs(session)))
    return session


class _Jobs:
    """The jobs of a session, which can be interrupted."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def interrupt(self) -> None:
        self._session.sparkContext.cancelAllJobs()


_started: list[_Jobs] = []
"""The jobs of sessions that harness started. The list keeps the objects alive."""


def _settings(directory: Path, *, local: bool) -> dict[str, str]:
    cores = os.cpu_count() or 1
    settings = {
        "spark.api.mode": "classic",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",  # each execution keeps the text of a plan
        # Without this, each operation on a column calls the JVM 6 more times, to record the Python line for error
        # messages.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.memory": f"{_driver_memory_mib()}m",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(min(_MOST_PARTITIONS, max(2, cores))),
        # For more paths than this, Spark lists them in a job with one task per path: minutes instead of seconds.
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
    """Return the driver's memory in MiB: a quarter of the machine's memory, but at least 1 GiB and at most 8 GiB.

    In local mode, the driver does all work.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (AttributeError, ValueError, OSError):  # not available on this platform
        return 1024
    return max(1024, min(_MOST_MEMORY_MIB, total // 4))


@contextmanager
def _signal_handler() -> Iterator[None]:
    """Keep the current handler of Ctrl-C while Spark starts.

    PySpark would install its own handler, which uses a connection that may be in the middle of a read.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(before) and before is not signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _environment(settings: Mapping[str, str], java: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that Spark reads while it starts: its address, the Python of its workers, and Java.

    An address and Python that the user has set are kept. The Java variables are replaced, because they may name a Java
    that does not run.
    """
    # Without an address, Spark would resolve the host name.
    variables = {"PYSPARK_PYTHON": "spark.pyspark.python", "SPARK_LOCAL_IP": "spark.driver.bindAddress"}
    added = {name: settings[key] for name, key in variables.items() if key in settings and name not in os.environ}
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


# Settings of a user's session on which a lowered plan depends if harness cannot create a private session. They must not
# change until the rows are read.


_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "UTC+0", "Universal", "Zulu", "Etc/UCT", "UCT")
_FILTER_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}


def check_session(session: SparkSession, columns: Sequence[Field], condition: str | None) -> None:
    """Refuse a session whose settings would change the rows.

    Args:
        session: The session.
        columns: All columns that a plan reads.
        condition: The plan's filter in Spark's SQL, or None.

    Raises:
        RequestError: A setting has a wrong value. The message names the setting, its value, and the required value.
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
    """Refuse a session that cannot distinguish struct fields whose names differ only in case.

    Raises:
        RequestError: As in `check_session`.
    """
    nested = [level for top in schema for level in levels(top.children)]
    if not all(are_distinct([f.name for f in level]) for level in nested):
        require(session, "spark.sql.caseSensitive", "true")


def can_distinguish(session: SparkSession, used: Sequence[PhysicalField]) -> bool:
    """Return whether the session can distinguish the columns of a file that are read.

    Raises the error of `check_nested`.
    """
    check_nested(session, used)
    return are_distinct([f.name for f in used]) or setting_of(session, "spark.sql.caseSensitive") == "true"


def require(session: SparkSession, setting: str, *allowed: str) -> None:
    """Raise RequestError if a setting has none of the allowed values, ignoring case."""
    setting_value = setting_of(session, setting)
    if setting_value is not None and setting_value.lower() not in {value.lower() for value in allowed}:
        raise RequestError(
            f"Cannot read with this Spark session: {setting} is {setting_value}, but must be {allowed[0]}; "
            "set it in the session, because harness needs a JVM gateway to create a private session",
            cause="SparkSetting",
        )


def setting_of(session: SparkSession, name: str) -> str | None:
    """Return the value of a setting, or its default. None if this Spark does not have the setting."""
    from pyspark.errors import PySparkException

    try:
        return str(session.conf.get(name))
    except PySparkException as error:
        if "SQL_CONF_NOT_FOUND" in str(error):
            return None
        raise failure(error) from error


def failure(error: Exception) -> EngineError:
    """Return an EngineError with Spark's message on one line, without the JVM stack trace."""
    return EngineError(f"Spark failed: {' '.join(str(error).split(' JVM stacktrace:')[0].split())[:500]}")


def levels(schema: Sequence[PhysicalField]) -> list[Sequence[PhysicalField]]:
    """Return the fields of each level: the top level, then the fields of each struct."""
    inner = [f.children for f in walk_stored(schema) if isinstance(f.type, StructType)]
    return [schema, *inner]


def are_distinct(names: Sequence[str]) -> bool:
    """Return whether all names differ, ignoring case."""
    return len({name.casefold() for name in names}) == len(names)


def _is_distinct_type(type_: Type) -> bool:
    parts = children(type_)
    if isinstance(type_, StructType) and not are_distinct([part.name for part in parts]):
        return False
    return all(_is_distinct_type(part.type) for part in parts)


def _has_times(columns: Sequence[Field]) -> bool:
    return any(isinstance(f.type, TimestampType) or _has_times(children(f.type)) for f in columns)
