"""Filters that are parsed already: in place of their text, several as one, and for a session in any time zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.errors import RequestError
from harness.metadata.filters.predicate import And, Comparison, Filter, In, Or, Predicate, Undecided, conjunction
from harness.metadata.model.schema import METADATA, DateType, Field, Schema, TimestampType, Type, walk

_NAMES_INSTANTS = re.compile("tz|zone", re.IGNORECASE)
"""In the text of every filter that names SQL's type of instants, and of some others."""
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
    columns = tuple(_own(column, schema) for column in where.columns)
    return replace(where, columns=columns)


def _own(column: Field, schema: Schema) -> Field:
    if column in schema.fields:
        return column
    metadata = METADATA.get(column.name)
    if metadata is not None and metadata.id == column.id:
        return metadata  # a plan gives `_partition` the type that it has in its table
    raise RequestError(
        f'Cannot use the filter: it was parsed for another schema, whose column "{column.name}" is not the same here. '
        "Parse it for this schema, or give its text.",
        field=column.name,
    )


def all_of(filters: Sequence[Filter], schema: Schema) -> Filter:
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
    """Whether rows may satisfy the filter in one time zone of a session and not in another one (iceberg 11.10)."""
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
    return replace(filter_, predicate=_a_day_wider(filter_.predicate, clocks=named), any_zone=True)


def _a_day_wider(predicate: Predicate, *, clocks: bool) -> Predicate:
    """clocks: whether times without a zone may be compared with instants, too."""
    from harness.metadata.filters.literal_comparison import covering, near

    match predicate:
        case And(parts=parts):
            return And(tuple(_a_day_wider(part, clocks=clocks) for part in parts))
        case Or(parts=parts):
            return Or(tuple(_a_day_wider(part, clocks=clocks) for part in parts))
        case Comparison(field=field, op=op, value=value) if value is not None:
            day = _day(field.type, clocks=clocks)
            return predicate if day is None else near(field, op, value - day, value + day)
        case In(field=field, values=values, negated=negated) if _day(field.type, clocks=clocks) is not None:
            return Undecided() if negated else _a_day_wider(covering(field, values), clocks=clocks)
        case _:
            return predicate


def _day(type_: Type, *, clocks: bool) -> int | None:
    """A day in the units of a type whose values planning may see in another zone; None: they are the same in all."""
    return _DAYS[type_.unit] if isinstance(type_, TimestampType) and (type_.utc or clocks) else None
