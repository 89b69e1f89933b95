"""The roles of data files in a read of changes: which steps their rows take (`harness.engines.changes`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from typing import Final

import numpy as np
import pyarrow.compute as pc

from harness.metadata.model.arrow_values import from_numpy, to_numpy
from harness.metadata.plan.deletes import DatedPositions
from harness.metadata.plan.lifetimes import BEFORE, ChangeMode, Lifetimes
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """The changes that the rows of a data file may be.

    Attributes:
        inserts: True if the commit that added the file shows changes.
        dies: True if the file was removed, or a delete may apply to its rows.
        compared: True if changes of the file may cancel or be paired with changes of other files.
        part: The number of the part of the compared files that has the file. Changes of different parts are never
            compared.
        old_ids: True if rows of the file may have the ids of rows in other files. Otherwise their ids are new.
    """

    inserts: bool
    dies: bool
    compared: bool
    part: int = 0
    old_ids: bool = True


def file_roles(plan: ScanPlan, lifetimes: Lifetimes) -> list[Role]:
    """Return the role of each file of a plan with lifetimes. The files of a plan without a mode have the same role."""
    if lifetimes.mode is None:
        return [Role(inserts=True, dies=True, compared=False)] * plan.files.num_rows
    inserting: list[set[int]] = [set() if span.added == BEFORE else {span.added} for span in lifetimes.files]
    removing: list[set[int]] = [set() if span.removed is None else {span.removed} for span in lifetimes.files]
    deleting = _deleting_commits(plan, lifetimes)
    moving = [added | removed for added, removed in zip(inserting, removing, strict=True)]
    ending = [removed | deleted for removed, deleted in zip(removing, deleting, strict=True)]
    match lifetimes.mode:
        case ChangeMode.APPENDS:
            compared = [False] * len(moving)
        case ChangeMode.CHANGELOG:
            rewriting = {number for number, commit in enumerate(lifetimes.commits) if commit.rewrites}
            compared = [not rewriting.isdisjoint(commits) for commits in moving]
        case ChangeMode.NET:
            compared = [any(inserting) and any(ending)] * len(moving)
        case ChangeMode.UPDATES:
            pairing = set[int]().union(*inserting) & set[int]().union(*ending)
            compared = [not pairing.isdisjoint(added | ended) for added, ended in zip(inserting, ending, strict=True)]
    changing = moving if lifetimes.mode is ChangeMode.CHANGELOG else list(map(set.union, inserting, ending))
    if lifetimes.mode is ChangeMode.NET:  # rows of all commits are compared
        parts = [0] * len(compared)
    else:
        parts = _parts(changing, compared, plan.files.column("record_count").to_pylist())
    return [
        Role(
            inserts=any(lifetimes.commits[number].ordinal is not None for number in added),
            dies=bool(ended),
            compared=is_compared,
            part=part,
        )
        for added, ended, is_compared, part in zip(inserting, ending, compared, parts, strict=True)
    ]


_PART_ROWS: Final = 250_000
"""The rows that a part has at least, because each part makes the query longer."""
_MOST_PARTS: Final = 8


def _parts(changing: Sequence[Set[int]], compared: Sequence[bool], rows: Sequence[int | None]) -> list[int]:
    """Return the number of the part of each compared file, and 0 for other files.

    Files of different parts do not change in the same commit. Parts are compared one after another, so that not all
    rows are in memory at once.

    Args:
        changing: The commits in which rows of each file change.
        compared: Whether each file is compared.
        rows: The number of rows of each file, None if unknown.
    """
    leaders: dict[int, int] = {}

    def leader(commit: int) -> int:
        while leaders.setdefault(commit, commit) != commit:
            commit = leaders[commit]
        return commit

    members = [number for number, is_compared in enumerate(compared) if is_compared]
    for number in members:
        for commit in changing[number]:
            leaders[leader(commit)] = leader(min(changing[number]))
    sizes: defaultdict[int, int] = defaultdict(int)
    for number in members:
        sizes[leader(min(changing[number]))] += rows[number] or 0
    least = max(_PART_ROWS, sum(sizes.values()) // _MOST_PARTS)
    numbers: dict[int, int] = {}
    part = size = 0
    for commit in sorted(sizes):
        numbers[commit] = part
        size += sizes[commit]
        if size >= least:
            part, size = part + 1, 0
    parts = [0] * len(compared)
    for number in members:
        parts[number] = numbers[leader(min(changing[number]))]
    return parts


def files_with_shared_ids(plan: ScanPlan) -> list[bool]:
    """Return whether each file of a plan has rows that inherit the same row ids as rows of another file.

    A file whose recorded row count or first id is unknown counts as one of them.
    """
    first, count = (plan.files.column(name) for name in ("first_row_id", "record_count"))
    shared = np.asarray(pc.or_(first.is_null(), count.is_null()))
    (places,) = np.nonzero(~shared)
    starts = to_numpy(first.take(from_numpy(places)))
    ends = starts + to_numpy(count.take(from_numpy(places)))
    order = np.argsort(starts, kind="stable")
    latest = np.maximum.accumulate(ends[order])
    overlaps = starts[order][1:] < latest[:-1]
    shared[places[order[1:][overlaps]]] = True
    earliest = np.minimum.accumulate(starts[order][::-1])[::-1]
    shared[places[order[:-1][ends[order][:-1] > earliest[1:]]]] = True
    listed: list[bool] = shared.tolist()
    return listed


def _deleting_commits(plan: ScanPlan, lifetimes: Lifetimes) -> list[set[int]]:
    """Return, for each file, the commits that added a delete which may apply to its rows."""
    by_set = [{lifetimes.equality_deletes[d].added for d in members} for members in plan.delete_sets]
    sources = plan.position_deletes.sources(plan.files.column("positions").to_pylist())
    commits = []
    for number, source in zip(to_numpy(plan.files.column("delete_set")).tolist(), sources, strict=True):
        dated = {each.span.added for each in source.deletes} if isinstance(source, DatedPositions) else set()
        commits.append(by_set[number] | dated)
    return commits
