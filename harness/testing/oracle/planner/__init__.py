"""harness.testing.oracle.planner."""
