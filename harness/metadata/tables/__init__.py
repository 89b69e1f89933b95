"""harness.metadata.tables."""
