"""The one error of this package."""

from __future__ import annotations

import re

from sqlglot import exp

from harness.errors import UnsupportedError

_ANY = "run it on DuckDB, or write the query for Spark and say dialect='spark'"


def refused(node: exp.Expr, what: str | None = None, instead: str | None = None) -> UnsupportedError:
    """The error for something that may mean different things on the two engines.

    Args:
        what: what it is called; None: a function is called by its name, anything else is only shown.
        instead: what both engines read alike, as an order.
    """
    while isinstance(node, exp.JSONPath | exp.JSONPathPart) and node.parent is not None:
        node = node.parent  # to something that the user wrote
    shown = node.sql("duckdb", comments=False)
    what = what or _name(node, shown)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return UnsupportedError(
        f"Cannot run {what} on Spark with certainly the same rows as on DuckDB, in: {shown}; "
        f"{f'{instead}, ' if instead else ''}{_ANY}",
        options=("dialect",),
    )


def _name(node: exp.Expr, text: str) -> str:
    called = re.match(r"\w+(?=\()", text) if isinstance(node, exp.Func) and not isinstance(node, exp.Binary) else None
    return "this" if called is None else f"{called[0].lower()}()"
