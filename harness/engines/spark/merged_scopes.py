"""Fewer delete sets: data files that the rules give the same equality deletes share one join.

A plan leaves out the deletes whose bounds keep them off a file, so that each of many files may have a set of its own.
On Spark each set is a scan and two joins with broadcasts, which cost more than keys that hit nothing in a hash table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.plan.scan_plan import EqualityDelete, ScanPlan

Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

_MOST_ROWS = 1_000_000
"""Of the deletes of a merged set: a hash table of more no longer pays for what its bounds spare."""
_MOST_WORK = 1_000_000
"""Deletes over all sets of a plan that is looked at."""


def with_merged_scopes(plan: ScanPlan) -> ScanPlan:
    """The plan with the delete sets of a class made one, where that has a known and moderate number of rows.

    By the rules of sequence numbers and partitions a delete hits all files of a class or none (iceberg 4.6, 4.29): they
    are older than the same deletes, and in one partition, or in partitions that no delete is for alone. So each of them
    may have the deletes of the others. A file that no delete hits stays so.
    """
    sets, place = plan.delete_sets, plan.files.schema.get_field_index("delete_set")
    own: Numbers = plan.files.column(place).to_numpy()
    if len(sets) < 2 or plan.files.column("sequence_number").null_count or sum(map(len, sets)) > _MOST_WORK:
        return plan
    merged, shared = own.copy(), list(sets)
    hit = np.flatnonzero(np.isin(own, [number for number, members in enumerate(sets) if members]))
    classes = _classes(plan)[hit]
    shares = np.full(len(own), -1)
    for class_, numbers in _sets_by_class(classes, own[hit]).items():
        members = sorted({member for number in numbers for member in sets[number]})
        if len(numbers) > 1 and _rows(plan.equality_deletes[member] for member in members) <= _MOST_ROWS:
            shares[class_] = len(shared)
            shared.append(tuple(members))
    merged[hit] = np.where(shares[classes] < 0, own[hit], shares[classes])
    used, numbered = np.unique(merged, return_inverse=True)
    files = plan.files.set_column(place, plan.files.schema.field(place), pa.array(numbered.ravel(), pa.int32()))
    return replace(plan, files=files, delete_sets=tuple(shared[number] for number in used.tolist()))


def _classes(plan: ScanPlan) -> Numbers:
    """The class of each file, as a number below that of the files."""
    deletes = plan.equality_deletes
    numbers, partitions = (plan.files.column(name).to_numpy() for name in ("sequence_number", "partition"))
    age = np.searchsorted(np.unique([d.sequence_number for d in deletes]), numbers, side="right")
    alone = np.isin(partitions, [d.partition for d in deletes if d.partition is not None])
    return np.unique(np.stack([age, np.where(alone, partitions, -1)]), axis=1, return_inverse=True)[1].ravel()


def _sets_by_class(classes: Numbers, own: Numbers) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for class_, number in np.unique(np.stack([classes, own]), axis=1).T.tolist():
        found.setdefault(class_, []).append(number)
    return found


def _rows(deletes: Iterable[EqualityDelete]) -> float:
    """Of all of them; more than any number where one does not say."""
    return sum(float("inf") if d.record_count is None else d.record_count for d in deletes)
