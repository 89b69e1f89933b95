"""harness.testing.conformance.reports."""
