"""harness.metadata.files."""
