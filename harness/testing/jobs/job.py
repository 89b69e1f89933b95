"""A Spark session with named tables: its reads, its writes, and its end."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from harness.engines.spark.compiled import add_to_driver, load_classes
from harness.engines.spark.gateway import has_gateway
from harness.errors import RequestError
from harness.metadata.catalogs.catalog import Catalog
from harness.metadata.catalogs.resolving import open_catalog
from harness.metadata.catalogs.warehouse import open_warehouse
from harness.testing.jobs.bridge import BRIDGE
from harness.testing.jobs.tables import (
    DEFAULT_CATALOG,
    PATH_CATALOGS,
    SESSION_CATALOG,
    JobTables,
    Write,
    after_last_overwrite,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


PACKAGE = "harness.testing.jobs"
"""The Python package with the Java sources."""
_JAVA = "harness.jobs"
"""The Java package of these classes. Users' settings may name it."""
_SERVICES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_CLASSES = {"iceberg": "IcebergSource", "delta": "DeltaSource"}


_SOURCES: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
"""The short names of data sources that harness provides. Others belong to a real jar."""
_PARSED: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()


def load(spark: SparkSession) -> frozenset[str]:
    """Add harness's classes to the driver, and data sources for formats without a jar. Repeated calls do nothing.

    Raises:
        EngineError, UnsupportedError: As for `harness.engines.spark.compiled.load_classes`.
    """
    context = spark.sparkContext
    gateway: Any = context._gateway
    load_classes(context)
    load_classes(context, PACKAGE)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    gateway.jvm.harness.jobs.Answers.answerWith(BRIDGE)
    if gateway not in _SOURCES:
        ours = frozenset(short for short in _CLASSES if _is_unregistered(spark, short))
        if ours:
            lines = "".join(f"{_JAVA}.{_CLASSES[short]}\n" for short in sorted(ours))
            add_to_driver(context, {_SERVICES: lines.encode()})
        _SOURCES[gateway] = ours
    return _SOURCES[gateway]


def _is_unregistered(spark: SparkSession, short: str) -> bool:
    jvm: Any = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().conf()
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(short, conf)
    except (Py4JJavaError, PySparkException):
        return True
    return False


def _server_session(spark: Any) -> SparkSession:
    """Return the session that belongs to a Spark Connect client. Its server must run in this process."""
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        raise RequestError(
            "Cannot name tables on a Spark Connect server in another process; read tables there with "
            "harness.open_table(…).to_spark(spark), or start the server in this process: "
            "SparkSession.builder.remote('local')",
            cause="NoGateway",
        )
    spark.sql("SELECT 1").collect()  # the server creates the session on the first request
    jvm: Any = context._jvm
    service = getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    key = jvm.org.apache.spark.sql.connect.service.SessionKey(spark._client._user_id or "", spark.session_id)
    holder = getattr(service, "MODULE$").sessionManager().getIsolatedSessionIfPresent(key)
    if holder.isEmpty():
        raise RequestError("Cannot find the session of this client in the server of Spark Connect in this process")
    return SparkSession(context, holder.get().session())


_NAMED = f"{_JAVA}.NamedTables"
NEEDS_OWN_SESSION = (
    "DESCRIBE HISTORY, DESCRIBE DETAIL: Spark's grammar lacks them, and a parser can only be set when a session is "
    "created",
    "writeTo(…).createOrReplace() and saveAsTable without a catalog's name and without the format iceberg or delta: "
    "Spark's session catalog does not forward them",
)


OF_DELTAS_JAR = (
    "DESCRIBE HISTORY, DESCRIBE DETAIL, table_changes: the Delta jar of this session handles them, for its own tables"
)


@dataclass(slots=True)
class SparkJob:
    """A Spark session that lets a job find tables that harness reads.

    Attributes:
        spark: The session.
        settings: The settings that were changed in the session.
        missing: The forms of SQL and writes that this session cannot support, with reasons.
    """

    spark: SparkSession
    settings: Mapping[str, str]
    missing: tuple[str, ...]
    _name: str = field(repr=False)
    _tables: JobTables = field(repr=False)
    _inner: SparkSession = field(repr=False)
    _before: tuple[SparkSession | None, JavaObject | None] = field(default=(None, None), repr=False)

    @staticmethod
    def on(
        spark: SparkSession,
        *,
        warehouse: str | None = None,
        catalog: Catalog | str | None = None,
        tables: Mapping[str, object] | None = None,
    ) -> SparkJob:
        """Let jobs on your own session read lake tables by names and paths, as harness plans them.

        Written rows go to a temporary directory. Names that a real Iceberg or Delta jar handles stay with that jar.
        Some forms work only in a session that harness creates, `harness.spark_session(tables=…)`; `missing` lists them.

        Args:
            spark: A classic session, or a Spark Connect session whose server runs in this process
                (`SparkSession.builder.remote("local")`).
            warehouse: As for `harness.spark_session`.
            catalog: As for `harness.spark_session`.
            tables: As for `harness.spark_session`.

        Returns:
            The job. Call `close` when it is done.

        Raises:
            RequestError: The object is not a session, its server runs elsewhere, or it already has a catalog of that
                name.
            HarnessError: The warehouse or the catalog cannot be opened.
        """
        if not all(hasattr(spark, part) for part in ("read", "conf", "sql")):
            raise RequestError(f"Cannot use an object of type {type(spark).__name__}: expected a SparkSession")
        inner = spark if has_gateway(spark) else _server_session(spark)
        return _register_job(
            spark, inner, load(inner), tables, open_job_catalog(warehouse, catalog), is_new_session=False
        )

    def written(self, table: str) -> pa.Table:
        """Return the rows that the job wrote to a table and did not overwrite. The order is not defined.

        Args:
            table: The table's name, or the path to which it was saved.

        Raises:
            RequestError: The job wrote nothing there, or it overwrote parts of its earlier writes, see `writes`.
        """
        writes = after_last_overwrite(self.writes(table))
        if len(writes) > 1 and not all(write.is_known for write in writes[1:]):
            raise RequestError(
                f"Cannot determine the rows of {table}: the job overwrote parts of earlier writes; see .writes"
            )
        return pa.concat_tables([write.rows for write in writes], promote_options="permissive")

    def writes(self, table: str) -> tuple[Write, ...]:
        """Return each write to a table, in order.

        Args:
            table: The table's name, or the path to which it was saved.

        Raises:
            RequestError: The job wrote nothing there.
        """
        return self._tables.writes_to(table)

    def add(self, tables: Mapping[str, object]) -> None:
        """Make further tables available by name.

        Args:
            tables: As `tables` of `harness.spark_session`.

        Raises:
            RequestError: The session already has a catalog of that name.
        """
        self._tables.add(tables)
        _set_catalogs(self._inner, self._name, _catalog_settings(self._inner, self._tables.catalog_names()))

    def close(self) -> None:
        """Remove the tables, delete the written rows, and make the earlier session current again."""
        BRIDGE.jobs.pop(self._name, None)
        if self._tables.scratch is not None:
            shutil.rmtree(self._tables.scratch, ignore_errors=True)
        session, default = self._before
        context = SparkContext._active_spark_context
        if session is not None and context is not None and context._jsc is not None:
            _make_current(session, default)


def _make_current(spark: SparkSession, default: JavaObject | None) -> None:
    sessions: Any = spark.sparkContext._jvm.SparkSession  # type: ignore[union-attr]  # set while Spark runs
    SparkSession._instantiatedSession = spark
    SparkSession._activeSession = spark  # PySpark's own record of the session, which `createDataFrame` uses
    sessions.setActiveSession(spark._jsparkSession)
    if default is not None:
        sessions.setDefaultSession(default)


def open_job(root: SparkSession, *, tables: Mapping[str, object] | None, catalog: Catalog | None) -> SparkJob:
    """Create a new session on the JVM of another one, and make it current."""
    sources = load(root)
    if "delta" in sources:
        context = root.sparkContext
        if context not in _PARSED:
            jvm: Any = context._jvm
            jvm.harness.jobs.Statements.addTo(root._jsparkSession.extensions())
            _PARSED[context] = True
    default = root.sparkContext._jvm.SparkSession.getDefaultSession()  # type: ignore[union-attr]  # set while Spark runs
    before = SparkSession._instantiatedSession, default.get() if default.isDefined() else None
    spark = root.newSession()
    job = _register_job(spark, spark, sources, tables, catalog, is_new_session=True)
    _make_current(spark, spark._jsparkSession)
    job._before = before
    return job


def open_job_catalog(warehouse: str | None, catalog: Catalog | str | None) -> Catalog | None:
    """Return the catalog of a job's tables, or None if neither argument is given.

    Raises:
        RequestError: Both arguments are given.
        HarnessError: As for `open_catalog`.
    """
    if warehouse is not None and catalog is not None:
        raise RequestError(
            "Cannot use warehouse= and catalog= at once: pass one of them", options=("warehouse", "catalog")
        )
    if warehouse is not None:
        return open_warehouse(warehouse)
    return None if catalog is None else open_catalog(catalog)


def _register_job(
    spark: SparkSession,
    inner: SparkSession,
    sources: frozenset[str],
    tables: Mapping[str, object] | None,
    catalog: Catalog | None,
    *,
    is_new_session: bool,
) -> SparkJob:
    job_tables = JobTables(tables or {}, catalog, zone=str(inner.conf.get("spark.sql.session.timeZone")))
    settings = _job_settings(inner, job_tables, sources, is_new_session=is_new_session)
    name = BRIDGE.add(inner, job_tables)
    _set_catalogs(inner, name, settings)
    jvm: Any = inner.sparkContext._jvm
    jvm.harness.jobs.PlannedReads.addTo(inner._jsparkSession)
    if "delta" in sources:
        jvm.harness.jobs.ChangesFunction.addTo(inner._jsparkSession, name)
    statements, writes = NEEDS_OWN_SESSION
    missing = () if is_new_session else (statements if "delta" in sources else OF_DELTAS_JAR, writes)
    return SparkJob(spark, settings, missing, name, job_tables, inner)


_CATALOG = "spark.sql.catalog."


def _job_settings(
    spark: SparkSession, tables: JobTables, sources: frozenset[str], *, is_new_session: bool
) -> dict[str, str]:
    """Return the settings that register the job's catalogs in Spark. Names that a real jar handles are omitted."""
    settings = _catalog_settings(spark, tables.catalog_names())
    kinds = {SESSION_CATALOG: "SessionTables"}
    kinds |= {name: "NamedTables" for name in PATH_CATALOGS if name in sources}
    settings |= {
        f"{_CATALOG}{name}": f"{_JAVA}.{kind}" for name, kind in kinds.items() if _foreign_catalog(spark, name) is None
    }
    if is_new_session:
        settings |= {f"{_CATALOG}{DEFAULT_CATALOG}": _NAMED, "spark.sql.defaultCatalog": DEFAULT_CATALOG}
    return settings


def _catalog_settings(spark: SparkSession, catalogs: Sequence[str]) -> dict[str, str]:
    for name in catalogs:
        class_name = _foreign_catalog(spark, name)
        if class_name is not None:
            raise RequestError(f"Cannot use the name {name} for a catalog: the session already has it, {class_name}")
    return {f"{_CATALOG}{name}": _NAMED for name in catalogs}


def _foreign_catalog(spark: SparkSession, catalog: str) -> str | None:
    """Return the class of a catalog that is not harness's, or None if there is none."""
    class_name = spark.conf.get(f"{_CATALOG}{catalog}", None)
    return None if class_name is None or class_name == "builtin" or class_name.startswith(f"{_JAVA}.") else class_name


def _set_catalogs(spark: SparkSession, name: str, settings: Mapping[str, str]) -> None:
    for key, value in settings.items():
        spark.conf.set(key, value)
        if key.startswith(_CATALOG):
            spark.conf.set(f"{key}.harness", name)
