"""The one error of this package."""

from __future__ import annotations

from sqlglot import exp

from harness.errors import UnsupportedError

_ANY = "run it on DuckDB, or write the query for Spark and say dialect='spark'"


def refused(node: exp.Expr, what: str | None = None, instead: str | None = None) -> UnsupportedError:
    """The error for something that may mean different things on the two engines.

    Args:
        what: what it is called; None: by its node.
        instead: what both engines read alike, as an order.
    """
    shown = node.sql("duckdb", comments=False)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return UnsupportedError(
        f"Cannot run {what or _name(node)} on Spark with certainly the same rows as on DuckDB, in: {shown}; "
        f"{f'{instead}, ' if instead else ''}{_ANY}",
        options=("dialect",),
    )


def _name(node: exp.Expr) -> str:
    return f"{node.this}()" if type(node) is exp.Anonymous else type(node).__name__
