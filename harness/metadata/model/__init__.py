"""harness.metadata.model."""
