"""Spark sessions with a reference implementation, with settings that make many small operations fast."""

from collections.abc import Mapping
from typing import Any

import harness
from harness.suite.readers import PINNED

# Code that runs once is interpreted, because compiling it takes longer.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
QUICK_DELTA = {
    **QUICK,
    "spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=512m",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "9999",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # otherwise VACUUM starts 10,000 tasks
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


def start(format: str, settings: Mapping[str, str]) -> Any:
    """Start a session with the jars and settings that are pinned for a format, and further settings."""
    packages = {"spark.jars.packages": ",".join(PINNED[format]["packages"])}
    return harness.spark_session(config={**packages, **PINNED[format]["settings"], **settings})
