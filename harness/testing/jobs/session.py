"""Spark sessions in which a job finds a test's tables by the names and paths that it uses."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines.registry import find_engine
from harness.engines.spark import session as engine
from harness.errors import RequestError
from harness.metadata.catalogs.catalog import Catalog
from harness.metadata.model.arguments import validate_call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@validate_call
def spark_session(
    app_name: str = "harness",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    packages: str | None = None,
    warehouse: str | None = None,
    catalog: Catalog | str | None = None,
    tables: Mapping[str, object] | None = None,
    reference: str | None = None,
) -> SparkSession:
    """Return a Spark session tuned for many small local reads, or a new session in which jobs find their tables.

    Without tables, a session that already runs is returned unchanged. A new one has no UI, uses only the loopback
    address, logs only errors, keeps its warehouse in a temporary directory, runs its Python workers with this Python,
    and has UTC as its time zone.

    With `warehouse`, `catalog`, or `tables`, the session is always a new one with its own settings and views, on the
    running JVM or a new one. `SparkSession.builder.getOrCreate()` then returns it. In it, harness reads Iceberg and
    Delta tables without their jars, in the forms that jobs use: `spark.table`, `format("iceberg")`, `VERSION AS OF`,
    `DESCRIBE HISTORY`. Written rows go to a temporary directory, and no source is ever changed: see
    `harness.testing.SparkJob` and `docs/how-to/test-a-spark-job.md`.

    Args:
        app_name: The name of the application.
        master: The master of a new JVM.
        config: Settings of a new JVM, which override those chosen here. JVM options are added to them.
        packages: Java packages for a new JVM, which are downloaded once from Maven Central: `s3` for tables in S3
            (about 700 MB, mostly Amazon's client), `azure`, `gcs` (from Spark 4.3), or Maven coordinates, separated by
            commas.
        warehouse: A directory, whose tables are found as `db.orders`.
        catalog: As for `harness.open_catalog`. Its tables are found as `db.orders`, and with the catalog's name before
            it.
        tables: Tables by the names that the job uses: locations, opened tables, snapshots, or objects with a
            `location`, for example tables of `lake_table` and builders. `prod.db.orders` creates a Spark catalog
            `prod`.
        reference: `iceberg` or `delta`, for a session with the real jars instead of harness's readers, for a job that
            alters tables or reads streams. No session may be running. The jars are downloaded once from Maven Central.

    Returns:
        The session.

    Raises:
        RequestError: `packages` is invalid; pyspark is missing or older than 4.0; Java is missing or older than 17; the
            running session has other values for `config` or `packages`; or options exclude each other.
        EngineError: Spark does not start.
        HarnessError: The warehouse or the catalog cannot be opened.
    """
    find_engine("spark")  # reports how to install pyspark if it is missing
    has_tables = not (warehouse is None and catalog is None and tables is None)
    if reference is not None:
        if has_tables:
            raise RequestError(
                "Cannot use tables with reference=: the real jars read only their own tables", options=("reference",)
            )
        return _reference_session(reference, app_name=app_name, master=master, config=config)
    root = engine.spark_session(app_name, master=master, config=config, packages=packages)
    if not has_tables:
        return root
    from harness.testing.jobs.job import open_job, open_job_catalog

    return open_job(root, tables=tables, catalog=open_job_catalog(warehouse, catalog)).spark


_PINNED = Path(__file__).parents[2] / "suite/jars.json"
_ICEBERG = "spark.sql.catalog.spark_catalog"


def _reference_session(reference: str, *, app_name: str, master: str, config: Mapping[str, str] | None) -> SparkSession:
    """Start a session with the jars of Apache Iceberg or Delta Lake, whose tables are in a temporary warehouse."""
    pinned = json.loads(_PINNED.read_text(encoding="utf-8"))
    if reference not in pinned:
        raise RequestError(
            f"Invalid reference={reference!r}: expected {' or '.join(map(repr, pinned))}", options=("reference",)
        )
    engine.check_pyspark()
    import pyspark

    required_version = pinned[reference]["pyspark"]
    if pyspark.__version__.rsplit(".", 1)[0] != required_version.rsplit(".", 1)[0]:
        raise RequestError(
            f"Cannot start Spark with the jars of {reference}: they need pyspark {required_version}, but this is "
            f"{pyspark.__version__}; pip install 'pyspark=={required_version}', in a separate environment",
            options=("reference",),
        )
    settings = {"spark.jars.packages": ",".join(pinned[reference]["packages"]), **pinned[reference]["settings"]}
    if reference == "iceberg":
        warehouse = tempfile.mkdtemp(prefix="harness-reference-")
        atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
        settings |= {
            _ICEBERG: "org.apache.iceberg.spark.SparkSessionCatalog",
            f"{_ICEBERG}.type": "hadoop",
            f"{_ICEBERG}.warehouse": Path(warehouse).as_uri(),
        }
    return engine.spark_session(app_name, master=master, config={**settings, **(config or {})})
