"""harness.differ.reports."""
