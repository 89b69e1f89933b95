"""harness.metadata."""
