"""The one error of this package."""

from __future__ import annotations

from sqlglot import exp

from harness.errors import UnsupportedError


def refused(node: exp.Expr, what: str | None = None) -> UnsupportedError:
    """The error for something that may mean different things on the two engines."""
    shown = node.sql("duckdb", comments=False)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return UnsupportedError(
        f"Cannot run {what or type(node).__name__} on Spark with certainly the same rows as on DuckDB, in: {shown}; "
        "run it on DuckDB, or write the query for Spark and say dialect='spark'",
        options=("dialect",),
    )
