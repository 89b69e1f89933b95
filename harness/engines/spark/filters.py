"""A plan's filter over a frame."""

from __future__ import annotations

from collections.abc import Mapping

from harness.filters.predicate import Filter
from harness.queries.transpile import condition


def spark_condition(filter: Filter, columns: Mapping[str, str]) -> str:
    """Spark SQL that is true exactly for the rows that the filter keeps; to be analysed under ANSI, in UTC.

    Args:
        columns: by name of each column of the filter, the name that it has in the frame. Its values are what
            `Snapshot.to_spark` would show.

    Raises:
        UnsupportedError: a part of the filter may mean something else on Spark than on DuckDB; the message names it.
    """
    return condition(filter, columns)
