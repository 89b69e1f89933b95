"""The dialects that SQL text is parsed in: sqlglot's, but for what that reads otherwise than DuckDB does."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect


def language(dialect: str) -> Dialect:
    """The dialect of that name.

    Raises:
        ValueError: sqlglot has none.
    """
    return _duckdb()() if dialect == "duckdb" else Dialect.get_or_raise(dialect)


@cache
def _duckdb() -> type[Dialect]:
    from sqlglot.dialects.duckdb import DuckDB

    base: Any = DuckDB.Parser

    class Parser(base):  # type: ignore[misc]
        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr:
            """`x IN [1, 2]` looks into a list; sqlglot takes it for `x IN (1, 2)`, which has nulls of its own."""
            if self._curr is not None and self._curr.text == "[":
                return exp.In(this=this, field=self._parse_bitwise())
            found: exp.Expr = super()._parse_in(this, alias)
            return found

    return type("HarnessDuckDB", (DuckDB,), {"Parser": Parser})


# Nodes of parsed SQL that are a special form of another one: `concat_ws` is, for sqlglot, a `Concat`.
#
# Python's `match` and `isinstance` take such a node for the general one, whose meaning it has not. So whoever gives
# nodes a meaning asks here first, and knows a special form by its own name or not at all. That holds for classes that
# later releases of sqlglot add, too.


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
