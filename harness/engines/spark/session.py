"""A local Spark session for reads and tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession


def spark_session(
    app_name: str = "harness", *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session tuned for small local queries."""
    builder = SparkSession.builder.appName(app_name).master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.pyspark.python": sys.executable,
    }
    for key, value in {**settings, **dict(config or {})}.items():
        builder = builder.config(key, value)
    # Of a session in this process, PySpark takes the workers' Python from the environment, whatever the settings say.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder.getOrCreate()
