"""harness.engines.spark.engine."""
