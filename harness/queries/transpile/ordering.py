"""Items of ORDER BY, in queries, windows and aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.metadata.filters.literals import Kind, literal_of
from harness.metadata.model.schema import ListType, MapType, StructType, Type, UuidType, VariantType
from harness.queries.transpile.spark_text import refused

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


def ordered(expressions: Expressions, node: exp.Expr) -> str:
    """An item of ORDER BY. Nulls come last on DuckDB unless it is said otherwise."""
    subject = node.this if isinstance(node, exp.Ordered) else node
    value = expressions.translate(subject)
    check_ordered(node, value.type)
    return f"{value.sql}{direction(node)}"


def check_ordered(node: exp.Expr, type_: Type) -> None:
    """Refuses types whose values the engines put in different orders."""
    if isinstance(type_, ListType | StructType | MapType | VariantType | UuidType):
        raise refused(node, f"an order of {type_}")


def direction(node: exp.Expr) -> str:
    """What follows an expression in ORDER BY: which way, and where nulls are."""
    if not isinstance(node, exp.Ordered):
        return " ASC NULLS LAST"
    if node.args.get("with_fill") is not None:
        raise refused(node)
    return f" {'DESC' if node.args.get('desc') else 'ASC'} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


# Numbers of rows and of values that a call is given.


def whole(call: exp.Expr, node: exp.Expr, what: str = "a number") -> int:
    """The number that a literal says, from 1 on and as far as Spark counts.

    Args:
        call: what takes it. node: what stands there. what: what it is called.

    Raises:
        UnsupportedError: it is no such literal.
    """
    literal = literal_of(node)
    if literal is None or literal.kind is not Kind.INTEGER or not 0 < literal.value < 2**31:
        raise refused(call, f"{what} that is no literal from 1 on")
    return int(literal.value)
