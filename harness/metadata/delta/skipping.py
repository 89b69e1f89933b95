"""The live files of a snapshot that may hold a row that a filter wants (delta F1 to F13, V12).

Partition values are exact: the filter is decided once per partition tuple. Where other columns matter too, it is
decided again with the statistics of the tuple's files. The engine applies the whole filter again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from harness.metadata.delta.checkpoint_statistics import FilesStatistics
from harness.metadata.delta.partition_values import PartitionTuples
from harness.metadata.delta.statistics import FileStats, leaves
from harness.metadata.filters.predicate import Predicate, fields_of
from harness.metadata.filters.skipping import ColumnBounds, exact_facts, may_match
from harness.metadata.model.arrow_values import Places
from harness.metadata.model.schema import Field, Schema
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, Verdicts


def skip_files(
    files: FilesStatistics,
    partitions: PartitionTuples,
    schema: Schema,
    predicate: Predicate,
    *,
    by_statistics: bool = True,
) -> Verdicts:
    """A verdict on each file: KEPT, BY_PARTITION or BY_STATISTICS. partitions: the partition tuples of these files."""
    tuples, indexes = partitions.tuples, partitions.indexes
    ids = frozenset(tuples[0]) if tuples else frozenset[int]()
    facts = exact_facts(tuples)

    def of_tuples(column: Field) -> ColumnBounds | None:
        return facts(column) if column.id in ids else None

    kept = may_match(predicate, of_tuples, len(tuples))
    verdicts: Verdicts = np.where(kept, KEPT, BY_PARTITION).astype(np.int8)[indexes]
    certain = may_match(predicate, of_tuples, len(tuples), undecided=False)
    places = np.flatnonzero((kept & ~certain)[indexes])
    wanted = leaves(schema, fields_of(predicate) - ids)
    if not wanted or not by_statistics or not len(places):
        return verdicts
    for found, statistics in files.read(wanted, places):
        of_files = _facts_of_files(statistics, of_tuples, indexes[found].astype(np.int64))
        verdicts[found[~may_match(predicate, of_files, len(found))]] = BY_STATISTICS
    return verdicts


def _facts_of_files(
    statistics: FileStats, of_tuples: Callable[[Field], ColumnBounds | None], indexes: Places
) -> Callable[[Field], ColumnBounds | None]:
    """Return the facts of a column by its partition values, else by its statistics."""

    @cache
    def facts(column: Field) -> ColumnBounds | None:
        exact = of_tuples(column)
        return statistics.bounds(column) if exact is None else exact.take(indexes)

    return facts
