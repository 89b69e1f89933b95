"""References to columns in SQL text: where they are. What they mean is said by `harness.filters.column_names`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from harness.records import dataclass


@dataclass(frozen=True, slots=True)
class Path:
    """A column reference: its outermost node, and its identifiers from the left."""

    node: exp.Expr
    identifiers: tuple[exp.Identifier, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, from the left."""
        return tuple(i.name for i in self.identifiers)


def paths_of(condition: exp.Expr) -> Iterator[Path]:
    """Every reference to a column, without the variables of lambdas and list comprehensions."""
    for node in condition.find_all(exp.Column, exp.Dot):
        inner = node.this
        if isinstance(node, exp.Column):
            identifiers = tuple(part for part in node.parts if isinstance(part, exp.Identifier))
            if identifiers and not _is_variable(node, identifiers[0].name):
                yield _extended(node, identifiers)
        # `name.upper()` has a bare identifier where other expressions have a column.
        elif isinstance(inner, exp.Identifier) and not _is_variable(node, inner.name):
            yield _extended(inner, (inner,))


def _extended(node: exp.Expr, identifiers: tuple[exp.Identifier, ...]) -> Path:
    """The path with the fields after it, up to a method call."""
    parent = node.parent
    while isinstance(parent, exp.Dot) and parent.this is node and isinstance(parent.expression, exp.Identifier):
        node, identifiers = parent, (*identifiers, parent.expression)
        parent = node.parent
    return Path(node, identifiers)


def _is_variable(node: exp.Expr, name: str) -> bool:
    ancestor = node.parent
    while ancestor is not None:
        if isinstance(ancestor, exp.Lambda) and any(v.name == name for v in ancestor.expressions):
            return True
        if isinstance(ancestor, exp.Comprehension) and ancestor.expression.name == name:
            return True
        ancestor = ancestor.parent
    return False
