"""Spark with a reference implementation, and settings under which it does many small things quickly."""

from collections.abc import Mapping
from typing import Any

import harness
from harness.suite.readers import PINNED

# What runs once is interpreted: compiling it costs more.
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
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM takes 10,000 tasks otherwise
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


def start(format: str, settings: Mapping[str, str]) -> Any:
    """A session with the jars and settings that are pinned for a format, and further settings."""
    packages = {"spark.jars.packages": ",".join(PINNED[format]["packages"])}
    return harness.spark_session(config={**packages, **PINNED[format]["settings"], **settings})
