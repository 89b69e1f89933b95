"""References to columns in SQL text: where they are, and which field each one means (iceberg 5.19, 5.21)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from harness.errors import UnknownColumnError
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, Schema, StructType, walk


@dataclass(frozen=True, slots=True)
class Path:
    """A column reference: its outermost node, and its identifiers from the left."""

    node: exp.Expr
    identifiers: tuple[exp.Identifier, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, from the left."""
        return tuple(i.name for i in self.identifiers)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a path names: the fields from the top-level column down, and the identifiers in front that are no fields."""

    fields: tuple[Field, ...]
    skipped: int
    rest: tuple[str, ...] = ()  # names within a metadata column, whose fields differ from table to table

    @property
    def leaf(self) -> Field | None:
        """The innermost field; None within a metadata column."""
        return None if self.rest else self.fields[-1]

    def sql(self) -> str:
        """The reference in DuckDB's dialect; parentheses keep a struct from being taken for a table."""
        first, *others = (*(f.name for f in self.fields), *self.rest)
        return ".".join((f"({quoted(first)})", *(quoted(n) for n in others))) if others else quoted(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one schema. `table`: what may stand before them. `case_sensitive`: see `parse_filter`."""

    schema: Schema
    case_sensitive: bool
    table: str | None

    def resolve(self, names: tuple[str, ...]) -> Resolved:
        """The fields that a path of names means. Raises UnknownColumnError."""
        found = self._descend(names, 0)
        is_qualified = self.table is not None and len(names) > 1 and names[0].casefold() == self.table.casefold()
        if found is None and is_qualified:
            found = self._descend(names[1:], 1)
        if found is None:
            raise self._unknown(names)
        return found

    def _descend(self, names: tuple[str, ...], skipped: int) -> Resolved | None:
        top = self._find(names[0], self.schema.fields)
        if top is None:
            top = self._find(names[0], METADATA.values())
            return None if top is None else Resolved((top,), skipped, names[1:])
        fields = [top]
        for name in names[1:]:
            inner = fields[-1].type
            child = self._find(name, inner.fields) if isinstance(inner, StructType) else None
            if child is None:
                return None
            fields.append(child)
        return Resolved(tuple(fields), skipped)

    def _find(self, name: str, fields: Iterable[Field]) -> Field | None:
        alike = [f for f in fields if f.name.casefold() == name.casefold()]
        exact = [f for f in alike if f.name == name]
        found = exact if exact and self.case_sensitive else alike
        if len(found) > 1:
            listed = ", ".join(f'"{f.name}"' for f in found)
            raise UnknownColumnError(
                f'Column "{name}" is ambiguous, it may be any of {listed}. Use the exact spelling, case-sensitively.',
                field=name,
                cause="AmbiguousColumn",
                rule="iceberg 5.21",
            )
        return found[0] if found else None

    def _unknown(self, names: tuple[str, ...]) -> UnknownColumnError:
        wanted = ".".join(names)
        known = {".".join(path): None for path, _ in walk(self.schema.fields)} | dict.fromkeys(METADATA)
        folded = {name.casefold(): name for name in known}
        near = [folded[n] for n in difflib.get_close_matches(wanted.casefold(), folded, n=3)]
        hint = f"did you mean {' or '.join(near)}?" if near else f"the table has {', '.join(self.schema.names()[:20])}."
        return UnknownColumnError(f'Unknown column "{wanted}": {hint}', field=wanted)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


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
