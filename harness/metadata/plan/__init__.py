"""harness.metadata.plan."""
