"""harness.testing.oracle."""
