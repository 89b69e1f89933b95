"""harness.metadata.iceberg.columns."""
