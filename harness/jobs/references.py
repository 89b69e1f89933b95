"""Sessions with the reference implementations, for jobs that do what harness does not: merge, update, delete."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engines.spark import session as engine
from harness.errors import RequestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PINNED = Path(__file__).parents[1] / "conformance/readers/reference.json"
_ICEBERG = "spark.sql.catalog.spark_catalog"


def reference_session(reference: str, *, app_name: str, master: str, config: Mapping[str, str] | None) -> SparkSession:
    """A session with Apache Iceberg's or Delta Lake's own jars, whose tables are in a temporary warehouse.

    Raises:
        RequestError: there is no such implementation, its jars are for another pyspark, or another session runs.
        EngineError: Spark does not start.
    """
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
