"""harness.engines.duckdb.engine."""
