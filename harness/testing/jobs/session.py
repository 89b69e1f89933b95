"""Sessions of Spark in which a job finds a test's tables by the names and paths that it says."""

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
    """A session tuned for many small local reads, or the running one; or a session in which jobs find their tables.

    Without tables, a session that runs already is returned as it is. A new one has no UI, keeps to the loopback
    address, logs errors only, keeps its warehouse in a temporary directory, runs its Python workers with this Python,
    and has UTC as its time zone.

    With `warehouse`, `catalog` or `tables` it is always a new session, on the JVM that runs or a new one, with settings
    and views of its own, and it becomes the one that `SparkSession.builder.getOrCreate()` gives. Iceberg and Delta
    tables are read there as harness plans them, with no jar of theirs, in the words of a job: `spark.table`,
    `format("iceberg")`, `VERSION AS OF`, `DESCRIBE HISTORY`. Written rows go to a scratch directory, and no
    source is ever changed: see `harness.testing.SparkJob`, and `docs/how-to/test-a-spark-job.md`.

    Args:
        master: of a new JVM. config: settings of a new JVM, over those chosen here; options of the JVM are added.
        packages: of Java, for a new JVM, which are fetched from Maven Central once: `s3` for tables in S3 (some
            700 MB, most of it Amazon's client), `azure`, `gcs` (from Spark 4.3 on), or Maven coordinates, with commas
            between them.
        warehouse: a directory; its tables are found as `db.orders`.
        catalog: as for `harness.open_catalog`; its tables are found as `db.orders`, and with its name before it.
        tables: by the names that the job says: locations, opened tables, snapshots, or anything with a `location`, such
            as tables of `lake_table` and builders. `prod.db.orders` makes a Spark catalog `prod`.
        reference: `iceberg` or `delta`: a session with the real jars in place of harness's reading, for a job that
            alters tables or reads streams. Nothing may run yet; the jars are fetched from Maven Central once.

    Raises:
        RequestError: `packages` are none; pyspark is missing or older than 4.0; no Java, or one older than 17; the
            session that runs has other values for `config` or `packages` than asked; options exclude each other.
        EngineError: Spark does not start.
        HarnessError: the warehouse or the catalog cannot be opened.
    """
    find_engine("spark")  # says what to install if pyspark is missing
    has_tables = not (warehouse is None and catalog is None and tables is None)
    if reference is not None:
        if has_tables:
            raise RequestError("Cannot use tables with reference=: its own jars read", options=("reference",))
        return _reference_session(reference, app_name=app_name, master=master, config=config)
    root = engine.spark_session(app_name, master=master, config=config, packages=packages)
    if not has_tables:
        return root
    from harness.testing.jobs.job import open_job, open_job_catalog

    return open_job(root, tables=tables, catalog=open_job_catalog(warehouse, catalog)).spark


_PINNED = Path(__file__).parents[2] / "suite/jars.json"
_ICEBERG = "spark.sql.catalog.spark_catalog"


def _reference_session(reference: str, *, app_name: str, master: str, config: Mapping[str, str] | None) -> SparkSession:
    """A session with Apache Iceberg's or Delta Lake's own jars, whose tables are in a temporary warehouse."""
    pinned = json.loads(_PINNED.read_text(encoding="utf-8"))
    if reference not in pinned:
        raise RequestError(
            f"Invalid reference={reference!r}: expected {' or '.join(map(repr, pinned))}", options=("reference",)
        )
    engine.check_pyspark()
    import pyspark

    wanted = pinned[reference]["pyspark"]
    if pyspark.__version__.rsplit(".", 1)[0] != wanted.rsplit(".", 1)[0]:
        raise RequestError(
            f"Cannot start Spark with the jars of {reference}: they are for pyspark {wanted}, there is "
            f"{pyspark.__version__}; pip install 'pyspark=={wanted}', in an environment of its own",
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
