"""Which live data files cannot hold a row that a filter wants: by partition tuple, then by statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.filters.predicate import Filter, Predicate
from harness.iceberg.columns.data_files import DataFiles
from harness.iceberg.columns.matching import Matching
from harness.iceberg.pruning import decidable, nested_columns, partition_filter
from harness.iceberg.specs import PartitionSpec
from harness.model.arrow_values import to_numpy
from harness.model.schema import Schema
from harness.plan.skipped_files import BY_PARTITION, BY_STATISTICS, KEPT, Verdicts


def skip_files(data: DataFiles, specs: Mapping[int, PartitionSpec], schema: Schema, condition: Filter) -> Verdicts:
    """A verdict on each file: KEPT, BY_PARTITION or BY_STATISTICS.

    A record count of 0 decides nothing: counts are wrong in real tables, and opening an empty file costs little. This
    overrules iceberg 2.21, which lets such files be skipped.
    """
    verdicts = np.full(len(data), KEPT, dtype=np.int8)
    if not len(data):
        return verdicts
    may_match = _tuples_that_match(data, specs, schema, condition.predicate)
    verdicts[~may_match[to_numpy(data.table.column("tuple"))]] = BY_PARTITION
    places = np.flatnonzero(verdicts == KEPT)
    held = Matching(data, nested_columns(schema)).may_hold(decidable(condition.predicate, schema), places)
    verdicts[places[~held]] = BY_STATISTICS
    return verdicts


def _tuples_that_match(
    data: DataFiles, specs: Mapping[int, PartitionSpec], schema: Schema, predicate: Predicate
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each of `DataFiles.tuples` whether a row of the partition may make the filter true."""
    tests: dict[int, Callable[[Mapping[int, Any]], bool]] = {}
    for spec_id, spec in specs.items():
        tests[spec_id] = partition_filter(predicate, spec, schema) if spec.fields else lambda values: True
    found = zip(data.specs_of_tuples(), data.tuples, strict=True)
    return np.array([spec not in tests or tests[spec](values) for spec, values in found], dtype=np.bool_)
