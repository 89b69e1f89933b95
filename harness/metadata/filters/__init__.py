"""harness.metadata.filters."""
