"""Filter expressions in a form that planning can decide.

A `Filter` holds the SQL text, which engines apply to rows unchanged, and a `Predicate`, the part of its meaning that
planning understands. Predicates follow SQL's three-valued logic: a comparison with null is unknown, and a row is kept
only if the whole condition is true (iceberg 3.1). NOT is pushed down to the leaves when a predicate is made (`negate`),
so there is no Not node. Without Not nodes, treating an unknown part as true can only make the whole condition true more
often, so planning never loses a row.

Values are ordered as in DuckDB and Spark: NaN equals NaN and is above all other numbers (iceberg 3.21, delta F8), -0.0
equals 0.0, strings compare by code point (which is the byte order of UTF-8), and bytes compare unsigned.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, assert_never

from harness.errors import RequestError
from harness.metadata.model.schema import METADATA, DateType, Field, Schema, TimestampType, Type, walk
from harness.storage.records import dataclass

IN_LIMIT = 200
"""IN lists with more values are not compared with bounds (iceberg 3.25)."""


class Op(enum.Enum):
    """Comparison operators. The values are their SQL text."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field op value`: false or unknown for null.

    Attributes:
        field: The column.
        op: The operator.
        value: An internal value of the column's type.
    """

    field: Field
    op: Op
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """`field IN (values)`, or NOT IN if `negated`: unknown for null.

    Attributes:
        field: The column.
        values: Internal values, without nulls, at least one.
        negated: True for NOT IN.
    """

    field: Field
    values: tuple[Any, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`field IS NULL`, or IS NOT NULL if `negated`.

    Attributes:
        field: The column.
        negated: True for IS NOT NULL.
    """

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNan:
    """`isnan(field)`, or its negation if `negated`: unknown for null.

    Attributes:
        field: The column.
        negated: True for the negation.
    """

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`field LIKE 'prefix%'`, or NOT LIKE if `negated`: unknown for null.

    Attributes:
        field: The column.
        prefix: The start of the text.
        negated: True for NOT LIKE.
    """

    field: Field
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """A condition that is true if all of `parts` are."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A condition that is true if any of `parts` is."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A condition with the same result for every row. None is SQL's unknown, and so is its negation."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Undecided:
    """A part that planning cannot evaluate (a function, arithmetic, or two columns). Any row may satisfy it."""


Predicate: TypeAlias = Comparison | In | IsNull | IsNan | StartsWith | And | Or | Constant | Undecided


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition on rows.

    Attributes:
        sql: A boolean expression in DuckDB's dialect, with the table's column names in quotes. Engines apply all of it.
        predicate: The part that planning understands.
        columns: The top-level fields (of the schema, or metadata columns) in `sql`.
        any_zone: True if `predicate` is correct in whatever time zone an engine evaluates `sql`; False if only in UTC.
    """

    sql: str
    predicate: Predicate
    columns: tuple[Field, ...]
    any_zone: bool = False


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """Return the AND of `parts`; a single part is returned unchanged."""
    return parts[0] if len(parts) == 1 else And(parts)


def disjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """Return the OR of `parts`; a single part is returned unchanged."""
    return parts[0] if len(parts) == 1 else Or(parts)


def negate(predicate: Predicate) -> Predicate:
    """Return the negation: true for false, false for true, and unknown for unknown."""
    match predicate:
        case Comparison(field=field, op=op, value=value):
            return Comparison(field, _OPPOSITE[op], value)
        case In() | IsNull() | IsNan() | StartsWith():
            return replace(predicate, negated=not predicate.negated)
        case And(parts=parts):
            return Or(tuple(negate(p) for p in parts))
        case Or(parts=parts):
            return And(tuple(negate(p) for p in parts))
        case Constant(value=value):
            return Constant(None if value is None else not value)
        case Undecided():
            return predicate
        case _ as unreachable:
            assert_never(unreachable)


def opposite(filter_: Filter) -> Filter:
    """Return the negation of a filter, as `negate` does for predicates."""
    return replace(filter_, sql=f"NOT ({filter_.sql})", predicate=negate(filter_.predicate))


def fields_of(predicate: Predicate) -> frozenset[int]:
    """Return the ids of the fields in `predicate`, except those in `Undecided` parts."""
    match predicate:
        case Comparison(field=f) | In(field=f) | IsNull(field=f) | IsNan(field=f) | StartsWith(field=f):
            return frozenset((f.id,))
        case And(parts=parts) | Or(parts=parts):
            return frozenset[int]().union(*(fields_of(p) for p in parts))
        case Constant() | Undecided():
            return frozenset()
        case _ as unreachable:
            assert_never(unreachable)


def is_decided(predicate: Predicate) -> bool:
    """Return whether `predicate` has no `Undecided` part, so that it means exactly the same as its SQL."""
    match predicate:
        case And(parts=parts) | Or(parts=parts):
            return all(is_decided(p) for p in parts)
        case _:
            return not isinstance(predicate, Undecided)


Leaf: TypeAlias = Comparison | In | IsNull | IsNan | StartsWith

OPERATORS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


_NAMES_INSTANTS = re.compile("tz|zone", re.IGNORECASE)
"""Matches every filter that names SQL's type of instants, and some others."""
_DAYS = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def filter_for(where: str | Filter, schema: Schema) -> Filter:
    """Return the filter for a table with a schema, from SQL text or from a filter that has been parsed before.

    Raises:
        RequestError: As for `parse_filter`, or the filter was parsed for other columns, so that its values and names
            may have another meaning.
    """
    if isinstance(where, str):
        from harness.metadata.filters.parse import parse_filter  # imports sqlglot, which only filters need

        return parse_filter(where, schema)
    columns = []
    for column in where.columns:
        metadata = METADATA.get(column.name)
        is_metadata = metadata is not None and metadata.id == column.id
        if column not in schema.fields and not is_metadata:
            raise RequestError(
                f'Cannot use the filter: it was parsed for another schema, with another column "{column.name}". '
                "Parse it for this schema, or pass its text.",
                field=column.name,
            )
        # In a plan, `_partition` has the type for its table.
        columns.append(column if metadata is None or column in schema.fields else metadata)
    return replace(where, columns=tuple(columns))


def all_filters(filters: Sequence[Filter], schema: Schema) -> Filter:
    """Return the AND of one or more filters for `schema`. Equal filters are included once."""
    distinct = tuple({f.sql: f for f in filters}.values())
    columns_by_id = {column.id: column for f in distinct for column in f.columns}
    return Filter(
        sql=" AND ".join(f"({f.sql})" for f in distinct),
        predicate=conjunction(tuple(f.predicate for f in distinct)),
        columns=tuple(f for f in (*schema.fields, *METADATA.values()) if columns_by_id.get(f.id) is f),
        any_zone=all(f.any_zone for f in distinct),
    )


def depends_on_zone(filter_: Filter) -> bool:
    """Return whether the session's time zone may affect which rows satisfy the filter (iceberg 11.10)."""
    instants = (f for _, f in walk(filter_.columns) if isinstance(f.type, TimestampType) and f.type.utc)
    return next(instants, None) is not None or _NAMES_INSTANTS.search(filter_.sql) is not None


def in_any_zone(filter_: Filter) -> Filter:
    """Return the filter with a predicate that holds for all matching rows in any time zone of a session.

    If text, dates, or times without a zone are compared with instants, planning reads them in UTC, but an engine reads
    them in its session's zone. The difference is less than a day.
    """
    has_instants = _NAMES_INSTANTS.search(filter_.sql) is not None
    if has_instants and any(isinstance(f.type, DateType) for _, f in walk(filter_.columns)):
        # A value that equals no date in UTC may equal one in another zone.
        return replace(filter_, predicate=Undecided(), any_zone=True)
    return replace(filter_, predicate=_widen_by_a_day(filter_.predicate, clocks=has_instants), any_zone=True)


def _widen_by_a_day(predicate: Predicate, *, clocks: bool) -> Predicate:
    """Widen comparisons with instants by a day.

    `clocks`: also widen times without a zone, which may be compared with instants.
    """
    from harness.metadata.filters.literal_comparison import compare_uncertain, covering_ranges

    match predicate:
        case And(parts=parts):
            return And(tuple(_widen_by_a_day(part, clocks=clocks) for part in parts))
        case Or(parts=parts):
            return Or(tuple(_widen_by_a_day(part, clocks=clocks) for part in parts))
        case Comparison(field=field, op=op, value=value) if value is not None:
            day = _day(field.type, clocks=clocks)
            return predicate if day is None else compare_uncertain(field, op, value - day, value + day)
        case In(field=field, values=values, negated=negated) if _day(field.type, clocks=clocks) is not None:
            return Undecided() if negated else _widen_by_a_day(covering_ranges(field, values), clocks=clocks)
        case _:
            return predicate


def _day(type_: Type, *, clocks: bool) -> int | None:
    """Return the length of a day in units of a type, or None if values of the type do not depend on the time zone."""
    return _DAYS[type_.unit] if isinstance(type_, TimestampType) and (type_.utc or clocks) else None
