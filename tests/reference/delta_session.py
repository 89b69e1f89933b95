"""Settings under which Delta Lake does many small things quickly."""

from __future__ import annotations

# What runs once is interpreted: compiling it costs more. Of what the JVM compiles, all fits.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=512m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "9999",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM takes 10,000 tasks otherwise
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
