"""A filter against the statistics of many data files at once: what `metrics_filter` of one file says of each.

Comparisons of whole numbers, dates, times, floats and texts are made on arrays. Other conditions go file by file, over
those files that the conditions before left.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.filters.predicate import And, Constant, Leaf, Or, Predicate, Undecided, fields_of, may_match
from harness.iceberg.columns.bounds import Mask
from harness.iceberg.columns.column_facts import ColumnFacts, facts_of, stats_of
from harness.iceberg.columns.data_files import DataFiles
from harness.model.arrow_values import to_numpy
from harness.model.column_stats import ColumnStats
from harness.model.schema import Field
from harness.records import dataclass

Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matching:
    """Filters against the statistics of some data files. nested: ids of fields within structs."""

    files: DataFiles
    nested: frozenset[int]
    _facts: dict[int, ColumnFacts] = field(default_factory=dict)

    def may_hold(self, predicate: Predicate, places: Places) -> Mask:
        """For each file in `places`, whether it may hold a row that makes the predicate true.

        Files whose record count is unknown may hold anything: writers that could not count rows could not count values
        either (iceberg 2.21).
        """
        if not fields_of(predicate):
            return self._holds(predicate, places)
        counted = to_numpy(self.files.table.column("record_count").is_valid())[places]
        kept = np.ones(len(places), dtype=np.bool_)
        kept[counted] = self._holds(predicate, places[counted])
        return kept

    def _holds(self, predicate: Predicate, places: Places) -> Mask:
        match predicate:
            case And(parts=parts):
                kept = np.ones(len(places), dtype=np.bool_)
                for part in parts:
                    left = np.flatnonzero(kept)
                    kept[left] = self._holds(part, places[left])
                return kept
            case Or(parts=parts):
                kept = np.zeros(len(places), dtype=np.bool_)
                for part in parts:
                    left = np.flatnonzero(~kept)
                    kept[left] = self._holds(part, places[left])
                return kept
            case Constant(value=value):
                return np.full(len(places), value is True)
            case Undecided():
                return np.ones(len(places), dtype=np.bool_)
            case _:
                return self._leaf(predicate, places)

    def _leaf(self, leaf: Leaf, places: Places) -> Mask:
        if leaf.field.id not in self.files.fields:
            return np.ones(len(places), dtype=np.bool_)
        is_nested = leaf.field.id in self.nested
        if leaf.field.id not in self._facts:
            self._facts[leaf.field.id] = facts_of(self.files, leaf.field, is_nested=is_nested)
        facts = self._facts[leaf.field.id]
        decided = facts.may_match(leaf)
        kept = ~facts.known[places]
        if decided is not None:
            return kept | decided[places]
        for i in np.flatnonzero(~kept).tolist():
            kept[i] = may_match(leaf, partial(self._stats, int(places[i]), is_nested))
        return kept

    def _stats(self, place: int, is_nested: bool, column: Field) -> ColumnStats:
        return stats_of(self.files, place, column, is_nested=is_nested)
