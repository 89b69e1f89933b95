"""Which files are read together where deleted positions are joined by position.

A positional join reads all that it joins on one thread, in order. So files are cut into runs, each with a join of its
own: enough runs to keep the threads busy, and no more, because each costs 2 ms to plan and to start.
"""

from __future__ import annotations

from collections.abc import Sequence

_LEAST_ROWS = 250_000
"""Of a run. A join by position saves 7 ns a row (2 columns, DuckDB 2.0), so fewer rows do not earn what a run costs."""
_FEWEST_RUNS = 16
"""Into how many runs a large table is cut at least, so that threads that are done early find another one."""
_MOST_ROWS = 200_000_000
"""That are joined in one query, which holds a byte for each of them, where bitmaps need a bit."""
_LARGEST_SHARE = 1.5
"""What a thread's fair share of the rows may be exceeded by: bitmaps take about so much more time for the same rows."""


def runs(deleted: Sequence[Sequence[int]], others: int, threads: int) -> list[list[slice]] | None:
    """Runs of files to join by position; None: bitmaps are faster.

    Args:
        deleted: per arm, the row counts of its files, some of whose rows are deleted.
        others: how many rows the other arms have.
        threads: how many the query has.

    Returns:
        Per arm, the runs that its files are cut into, in order.
    """
    joined = sum(map(sum, deleted))
    if joined > _MOST_ROWS:
        return None
    target = max(_LEAST_ROWS, joined // max(_FEWEST_RUNS, 2 * threads))
    cut = [_cut(counts, target) for counts in deleted]
    sizes = [sum(counts[run]) for counts, arm in zip(deleted, cut, strict=True) for run in arm]
    if joined < _LEAST_ROWS * len(sizes) // 2 or max(sizes, default=0) * threads > _LARGEST_SHARE * (joined + others):
        return None
    return cut


def _cut(counts: Sequence[int], target: int) -> list[slice]:
    """Neighbours, as many as together have no more than `target` rows; a larger file is a run alone."""
    cut, start, filled = [], 0, 0
    for i, count in enumerate(counts):
        if i > start and filled + count > target:
            cut.append(slice(start, i))
            start, filled = i, 0
        filled += count
    return [*cut, slice(start, len(counts))]
