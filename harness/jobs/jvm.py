"""The JVM's side of sessions under test: classes, data sources, rules and the parser, each given once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from harness.engines.spark.compiled import add_to_driver, load_classes
from harness.errors import RequestError
from harness.jobs.bridge import BRIDGE

PACKAGE = "harness.jobs"
_SERVICES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_CLASSES = {"iceberg": "IcebergSource", "delta": "DeltaSource"}


@dataclass(frozen=True, slots=True)
class Sources:
    """Which short names of data sources are harness's; others are those of a real jar."""

    iceberg: bool
    delta: bool


_SOURCES: WeakKeyDictionary[Any, Sources] = WeakKeyDictionary()
_PARSED: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()


def load(spark: SparkSession) -> Sources:
    """Gives the driver harness's classes, and the data sources that no jar has; free when done.

    Raises:
        EngineError, UnsupportedError: as `harness.engines.spark.compiled.load_classes`.
    """
    context = spark.sparkContext
    gateway: Any = context._gateway
    load_classes(context)
    load_classes(context, PACKAGE)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    gateway.jvm.harness.jobs.Answers.answerWith(BRIDGE)
    if gateway not in _SOURCES:
        ours = {short: _is_ours(spark, short) for short in _CLASSES}
        lines = "".join(f"{PACKAGE}.{_CLASSES[short]}\n" for short, is_ours in ours.items() if is_ours)
        if lines:
            add_to_driver(context, {_SERVICES: lines.encode()})
        _SOURCES[gateway] = Sources(**ours)
    return _SOURCES[gateway]


def _is_ours(spark: SparkSession, short: str) -> bool:
    jvm: Any = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().conf()
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(short, conf)
    except (Py4JJavaError, PySparkException):
        return True
    return False


def add_to(spark: SparkSession, name: str, *, changes: bool) -> None:
    """Gives a session the rule that plans reads, and Delta's table functions."""
    jvm: Any = spark.sparkContext._jvm
    jvm.harness.jobs.PlannedReads.addTo(spark._jsparkSession)
    if changes:
        jvm.harness.jobs.ChangesFunction.addTo(spark._jsparkSession, name)


def add_parser(root: SparkSession) -> None:
    """Sessions that are made from now on in this application know Delta's statements."""
    context = root.sparkContext
    if context not in _PARSED:
        jvm: Any = context._jvm
        jvm.harness.jobs.Statements.addTo(root._jsparkSession.extensions())
        _PARSED[context] = True


def server_session(spark: Any) -> SparkSession:
    """The session that a server of Spark Connect in this process has for a client.

    Raises:
        RequestError: the server is elsewhere, where no catalog of this process can be reached.
    """
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        raise RequestError(
            "Cannot give names of tables to a server of Spark Connect in another process; read there with "
            "harness.open_table(…).to_spark(spark), or start it in this one: SparkSession.builder.remote('local')",
            cause="NoGateway",
        )
    spark.sql("SELECT 1").collect()  # the server makes the session when it is first asked
    jvm: Any = context._jvm
    service = getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    key = jvm.org.apache.spark.sql.connect.service.SessionKey(spark._client._user_id or "", spark.session_id)
    holder = getattr(service, "MODULE$").sessionManager().getIsolatedSessionIfPresent(key)
    if holder.isEmpty():
        raise RequestError("Cannot find the session of this client in the server of Spark Connect in this process")
    return SparkSession(context, holder.get().session())
