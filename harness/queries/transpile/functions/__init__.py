"""harness.queries.transpile.functions."""
