"""WITH RECURSIVE: a query that goes on from its own rows, on Spark 4.1 and later."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from harness.model.schema import IntegerType
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.relations import Lowered, as_types, check_parts, renamed
from harness.queries.transpile.scopes import Scope
from harness.queries.transpile.values import HUGE

SINCE = (4, 1)
"""The first version of Spark that has it."""
LEVELS = 10_000
"""How often a query may go on from its own rows; more is an error. Spark's own limit is 100."""


def names_itself(cte: exp.CTE) -> bool:
    """Whether a query of WITH RECURSIVE is recursive."""
    return _mentions(cte.this, cte.alias) > 0


def _mentions(node: exp.Expr, name: str) -> int:
    return sum(t.name.casefold() == name.casefold() and not t.args.get("db") for t in node.find_all(exp.Table))


def lowered(cte: exp.CTE, name: str, around: Scope, query: Callable[[exp.Expr, Scope], Lowered]) -> Lowered:
    """The recursive query; its columns have the types of its first part. Raises UnsupportedError.

    Args:
        name: what Spark calls it.
        around: the queries that WITH defines before it.
        query: lowers a query.
    """
    node = cte.this
    if not isinstance(node, exp.Union) or node.args.get("distinct") or cte.args.get("key_expressions"):
        raise refused(cte, "WITH RECURSIVE without UNION ALL", "write UNION ALL, and a condition that ends it")
    check_parts(node, {"this", "expression", "distinct"})
    if _mentions(node.this, cte.alias) or _mentions(node.expression, cte.alias) != 1:
        raise refused(cte, "WITH RECURSIVE of a query that names itself more than once")
    start = query(node.this, Scope(ctes=around.ctes))
    columns = renamed(start.columns, cte)
    known = {**around.ctes, cte.alias.casefold(): (name, columns)}
    step = query(node.expression, Scope(ctes=known))
    if len(step.columns) != len(columns):
        raise refused(cte)
    for first, then in zip(columns, step.columns, strict=True):
        integers = all(isinstance(c.type, IntegerType) or c.type == HUGE for c in (first, then))
        if str(first.type) != str(then.type) and not integers:
            raise refused(cte, f"WITH RECURSIVE of {first.type} and {then.type}", "cast both parts to one type")
    types = [c.type for c in columns]
    return Lowered(f"{start.sql} UNION ALL ({as_types(step, types)})", columns)
