"""harness.testing.scenarios."""
