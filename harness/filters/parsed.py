"""Filters that are parsed already: in place of their text, and several as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.errors import RequestError
from harness.filters.predicate import Filter, conjunction
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, Schema


def filter_for(where: str | Filter, schema: Schema) -> Filter:
    """The filter that a caller asks of a table with that schema: the text's, or one that is parsed already.

    Raises:
        RequestError: as for `parse_filter`; or the filter was parsed for columns that are not the schema's, where its
            values and names may mean other things.
    """
    if isinstance(where, str):
        from harness.filters.parse import parse_filter  # brings sqlglot, which a filter needs and nothing else

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
    )
