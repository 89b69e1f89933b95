"""harness.testing.writing."""
