"""harness.queries.transpile."""
