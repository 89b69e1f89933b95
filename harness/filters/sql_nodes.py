"""Nodes of parsed SQL that are a special form of another one: `concat_ws` is, for sqlglot, a `Concat`.

Python's `match` and `isinstance` take such a node for the general one, whose meaning it has not. So whoever gives
nodes a meaning asks here first, and knows a special form by its own name or not at all. That holds for classes that
later releases of sqlglot add, too.
"""

from __future__ import annotations

from sqlglot import exp

GROUPS = frozenset(
    {
        exp.Expr,
        exp.Expression,
        exp.AggFunc,
        exp.Binary,
        exp.Condition,
        exp.Connector,
        exp.DDL,
        exp.DML,
        exp.DerivedTable,
        exp.Func,
        exp.IntervalOp,
        exp.Predicate,
        exp.Property,
        exp.Query,
        exp.Selectable,
        exp.SetOperation,
        exp.SubqueryPredicate,
        exp.TimeUnit,
        exp.UDTF,
        exp.Unary,
    }
)
"""Classes that only group others: being one of them says nothing about the meaning of a node."""


def general_form(kind: type[exp.Expr]) -> type[exp.Expr] | None:
    """The class of nodes for one of which a node of this class would be taken; None if there is none."""
    for base in kind.__mro__[1:]:
        # Classes with an underscore are private to sqlglot, and no parser makes nodes of them.
        if issubclass(base, exp.Expr) and base not in GROUPS and not base.__name__.startswith("_"):
            return base
    return None
