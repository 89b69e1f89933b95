"""harness.testing.oracle.engine."""
