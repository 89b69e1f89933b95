"""Spark's side of the steps in `harness.engines.changes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions

from harness.engines.changes import Dialect
from harness.engines.spark.arrow_worker import worker_error
from harness.engines.spark.types import quote_name
from harness.errors import HarnessError


def _fail(error: HarnessError) -> str:
    """Return an expression that fails the query. The text is in hexadecimal, because a setting affects escapes."""
    return f"raise_error(decode(unhex('{str(worker_error(error)).encode().hex()}'), 'UTF-8'))"


DIALECT = Dialect(
    filter_list="filter",
    # Spark 4.3 reads even a null element, which fails if the file's dictionary is empty. `reverse` copies the elements.
    transform_list="transform(reverse({items}), {function})",
    least_item="array_min",
    sort_list="array_sort",
    pack="struct",
    function="{name} -> {body}",
    repeat="explode(sequence({first}, {end} - 1))",
    text_key="({text} COLLATE UTF8_BINARY)",
    text_of_key="{key}",
    inner_text_key="({text} COLLATE UTF8_BINARY)",
    number_key="{number}",
    # Spark's atan2 and hash functions do not see the sign of zero, and it has no signbit.
    negative_zero="CASE WHEN {number} = 0 THEN power({number}, -1) < 0 END",
    extract=lambda struct, name: f"{struct}.{quote_name(name)}",
    fail=_fail,
)


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows as a frame."""

    frame: DataFrame

    def select(self, columns: Mapping[str, str]) -> FrameRows:
        """Compute columns from expressions, by label."""
        return FrameRows(self.frame.selectExpr(*[f"{value} AS {label}" for label, value in columns.items()]))

    def where(self, condition: str) -> FrameRows:
        """Keep the rows for which a condition is true."""
        return FrameRows(self.frame.where(condition))

    def group(self, keys: Sequence[str], aggregates: Mapping[str, str]) -> FrameRows:
        """Return a row for each group of rows with equal keys, with the keys and aggregates."""
        columns = [functions.expr(f"{value} AS {label}") for label, value in aggregates.items()]
        return FrameRows(self.frame.groupBy(*keys).agg(*columns))

    def union(self, other: FrameRows) -> FrameRows:
        """Append rows with the same columns."""
        return FrameRows(self.frame.union(other.frame))

    def join(self, other: FrameRows, on: str) -> FrameRows:
        """Return the pairs of rows for which a condition is true, with the columns of both. `other` must be small."""
        return FrameRows(self.frame.join(functions.broadcast(other.frame), functions.expr(on)))
