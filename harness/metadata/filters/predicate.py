"""Filter expressions: from SQL text, to a form that planning can decide on.

A `Filter` keeps both the SQL text, which engines run on rows unchanged, and a `Predicate`, the part of its meaning that
planning understands. Predicates follow SQL's three-valued logic: a comparison with null is unknown, and a row is kept
only where the whole is true (iceberg 3.1). NOT is pushed to the leaves when a predicate is made (`negate`), so there is
no Not node; with none, a part that counts as true where it is not understood can only make the whole truer.

Order is that of DuckDB and Spark: NaN equals NaN and is above all other numbers (iceberg 3.21, delta F8), -0.0 equals
0.0, strings compare by code point (which is UTF-8 byte order), bytes unsigned.
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
"""IN lists with more values are not held against bounds (iceberg 3.25)."""


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
    """`field op value`: false or unknown for null. `value` is as internal values, of the field's type."""

    field: Field
    op: Op
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """`field IN (values)`, or with `negated` NOT IN; unknown for null. Values: internal values, no nulls, not empty."""

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
    """A condition with the same value for every row; None is SQL's unknown, which no NOT makes true."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Undecided:
    """A part that planning does not understand (a function, arithmetic, two columns): any row may satisfy it."""


Predicate: TypeAlias = Comparison | In | IsNull | IsNan | StartsWith | And | Or | Constant | Undecided


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition on rows.

    sql: a boolean expression in DuckDB's dialect over the table's column names, quoted; engines run it in full.
    predicate: the conclusions that planning may draw.
    columns: the top-level fields (of the schema, or metadata columns) that `sql` mentions.
    any_zone: whether `predicate` holds in whatever time zone an engine reads `sql`, and not in UTC alone.
    """

    sql: str
    predicate: Predicate
    columns: tuple[Field, ...]
    any_zone: bool = False


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """All of `parts`, without a node around a single one."""
    return parts[0] if len(parts) == 1 else And(parts)


def disjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """Any of `parts`, without a node around a single one."""
    return parts[0] if len(parts) == 1 else Or(parts)


def negate(predicate: Predicate) -> Predicate:
    """The negation: true where `predicate` is false, false where it is true, unknown where it is unknown."""
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
    """The negation of a filter, as `negate`."""
    return replace(filter_, sql=f"NOT ({filter_.sql})", predicate=negate(filter_.predicate))


def fields_of(predicate: Predicate) -> frozenset[int]:
    """Ids of the fields that `predicate` mentions; those of Undecided parts are not among them."""
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
    """True if `predicate` has no Undecided part, so that it means exactly what its SQL means."""
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
"""A word in the text of every filter that names SQL's type of instants, and of some others."""
_DAYS = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def filter_for(where: str | Filter, schema: Schema) -> Filter:
    """The filter that a caller asks of a table with that schema: the text's, or one that is parsed already.

    Raises:
        RequestError: as for `parse_filter`; or the filter was parsed for columns that are not the schema's, where its
            values and names may mean other things.
    """
    if isinstance(where, str):
        from harness.metadata.filters.parse import parse_filter  # brings sqlglot, which a filter needs and nothing else

        return parse_filter(where, schema)
    columns = []
    for column in where.columns:
        metadata = METADATA.get(column.name)
        is_metadata = metadata is not None and metadata.id == column.id
        if column not in schema.fields and not is_metadata:
            raise RequestError(
                f'Cannot use the filter: it was parsed for another schema, whose column "{column.name}" is not the '
                "same here. Parse it for this schema, or give its text.",
                field=column.name,
            )
        # A plan gives `_partition` the type that it has in its table.
        columns.append(column if metadata is None or column in schema.fields else metadata)
    return replace(where, columns=tuple(columns))


def all_filters(filters: Sequence[Filter], schema: Schema) -> Filter:
    """The filter that asks for all of `filters`, one or more, which are for `schema`; equal ones count once."""
    distinct = tuple({f.sql: f for f in filters}.values())
    used = {column.id: column for f in distinct for column in f.columns}
    return Filter(
        sql=" AND ".join(f"({f.sql})" for f in distinct),
        predicate=conjunction(tuple(f.predicate for f in distinct)),
        columns=tuple(f for f in (*schema.fields, *METADATA.values()) if used.get(f.id) is f),
        any_zone=all(f.any_zone for f in distinct),
    )


def depends_on_zone(filter_: Filter) -> bool:
    """True if rows may satisfy the filter in one time zone of a session and not in another one (iceberg 11.10)."""
    instants = (f for _, f in walk(filter_.columns) if isinstance(f.type, TimestampType) and f.type.utc)
    return next(instants, None) is not None or _NAMES_INSTANTS.search(filter_.sql) is not None


def in_any_zone(filter_: Filter) -> Filter:
    """The filter, with a predicate that holds for all rows that satisfy it in any time zone of a session.

    Planning takes text, dates and wall-clock times for UTC where they meet instants, an engine for its session's zone,
    which is less than a day away.
    """
    named = _NAMES_INSTANTS.search(filter_.sql) is not None
    if named and any(isinstance(f.type, DateType) for _, f in walk(filter_.columns)):
        # What is no day in UTC, and so equals none, may be one elsewhere.
        return replace(filter_, predicate=Undecided(), any_zone=True)
    return replace(filter_, predicate=_widen_by_a_day(filter_.predicate, clocks=named), any_zone=True)


def _widen_by_a_day(predicate: Predicate, *, clocks: bool) -> Predicate:
    """clocks: whether times without a zone may be compared with instants, too."""
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
    """A day in the units of a type whose values planning may see in another zone; None: they are the same in all."""
    return _DAYS[type_.unit] if isinstance(type_, TimestampType) and (type_.utc or clocks) else None
