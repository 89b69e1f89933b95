"""Which files are read together where deleted positions are joined by position.

A positional join reads all that it joins on one thread, in order. So files are dealt out to runs, each with a join of
its own: enough runs to keep the threads busy, and no more, because each costs 1 to 2 ms to bind and to plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Run: TypeAlias = tuple[int, ...]
"""Files of an arm, by their places among its files, ascending."""

_LEAST_ROWS = 250_000
"""Of a run. A join by position saves 7 ns a row (2 columns, DuckDB 2.0), so fewer rows do not earn what a run costs."""
_OF_A_THREAD = 2
"""Runs of a thread at least, so that one that is done early finds another. More cost planning: of 20 million rows in 10
files on 2 threads, 10 runs took 14 ms, 4 runs 8 ms."""
_RUN_ROWS = 10_000_000
"""Of a run in a large table, where planning is a small part, and a thread that ends early would wait long."""
_MOST_ROWS = 200_000_000
"""That are joined in one query, which holds a byte for each of them, where bitmaps need a bit."""
_LARGEST_SHARE = 1.5
"""What a thread's fair share of the rows may be exceeded by: bitmaps take about so much more time for the same rows."""


def runs(deleted: Sequence[Sequence[int]], others: int, threads: int) -> list[list[Run]] | None:
    """Runs of files to join by position; None: bitmaps are faster.

    Args:
        deleted: per arm, the row counts of its files, some of whose rows are deleted.
        others: how many rows the other arms have.
        threads: how many the query has.

    Returns:
        Per arm, the runs that its files are dealt out to. The larger ones are first.
    """
    joined = sum(map(sum, deleted))
    if joined > _MOST_ROWS:
        return None
    target = max(_LEAST_ROWS, min(joined // (_OF_A_THREAD * threads), _RUN_ROWS))
    dealt = [_dealt(counts, max(1, sum(counts) // target)) for counts in deleted]
    sizes = [_rows(counts, run) for counts, arm in zip(deleted, dealt, strict=True) for run in arm]
    if joined < _LEAST_ROWS * len(sizes) // 2 or max(sizes, default=0) * threads > _LARGEST_SHARE * (joined + others):
        return None
    return dealt


def _dealt(counts: Sequence[int], most: int) -> list[Run]:
    """Runs of about equal size, at most so many, the larger ones first; none is too small to be one, unless alone."""
    dealt = _packed(counts, most)
    while len(dealt) > 1 and _rows(counts, dealt[-1]) < _LEAST_ROWS:
        dealt = _packed(counts, len(dealt) - 1)
    return dealt


def _packed(counts: Sequence[int], size: int) -> list[Run]:
    """Each file, the largest first, goes to the run that is smallest yet."""
    sizes = [0] * min(size, len(counts))
    members: list[list[int]] = [[] for _ in sizes]
    for place in sorted(range(len(counts)), key=lambda place: -counts[place]):
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        members[smallest].append(place)
        sizes[smallest] += counts[place]
    return sorted((tuple(sorted(run)) for run in members), key=lambda run: -_rows(counts, run))


def _rows(counts: Sequence[int], run: Run) -> int:
    return sum(counts[place] for place in run)
