"""Numbers of rows and of values that a call is given."""

from __future__ import annotations

from sqlglot import exp

from harness.filters.literals import Kind, literal_of
from harness.queries.transpile.refusal import refused


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
