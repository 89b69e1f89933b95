"""Filter expressions: from SQL text, to a form that planning can decide on.

A `Filter` keeps both the SQL text, which engines run on rows unchanged, and a `Predicate`, the part of its meaning that
planning understands. Predicates follow SQL's three-valued logic: a comparison with null is unknown, and a row is kept
only where the whole is true (iceberg 3.1). NOT is pushed to the leaves when a predicate is made, so there is no Not node.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.schema import Field


class Op(enum.Enum):
    """Comparison operators; the values are SQL's."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field op value`: false or unknown for null. `value` is in stored form, of the field's type."""

    field: Field
    op: Op
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """`field IN (values)`, or with `negated` NOT IN; unknown for null. Values in stored form, without nulls."""

    field: Field
    values: tuple[Any, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`field IS NULL`, or with `negated` IS NOT NULL."""

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNan:
    """`isnan(field)`, or with `negated` its opposite; unknown for null."""

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`field LIKE 'prefix%'`, or with `negated` NOT LIKE; unknown for null."""

    field: Field
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All of `parts`."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of `parts`."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Undecided:
    """Something that planning does not understand (a function, arithmetic, two columns): any row may satisfy it."""


Predicate: TypeAlias = Comparison | In | IsNull | IsNan | StartsWith | And | Or | Constant | Undecided


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What rows must satisfy.

    sql: a boolean expression in DuckDB's dialect over the table's column names, quoted; engines run it in full.
    predicate: what planning may conclude from it.
    columns: the top-level fields (of the schema, or metadata columns) that `sql` mentions.
    """

    sql: str
    predicate: Predicate
    columns: tuple[Field, ...]
