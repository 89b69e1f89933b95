"""Which files are joined by position together, and when bitmaps are faster."""

from __future__ import annotations

import pytest

from harness.engines.duckdb.runs import runs

M = 1_000_000
CASES = {
    # deleted, others, threads, the runs by their first and last file
    "files that are large are runs alone": ([[2 * M] * 3], 0, 2, [[(0, 1), (1, 2), (2, 3)]]),
    "small files are put together": ([[125_000] * 6], 0, 2, [[(0, 2), (2, 4), (4, 6)]]),
    "a large file ends a run": ([[M // 10, M // 10, M, M // 10]], M, 2, [[(0, 2), (2, 3), (3, 4)]]),
    "many files are sixteen runs": ([[M] * 64], 0, 2, [[(i, i + 4) for i in range(0, 64, 4)]]),
    "many threads get more runs": ([[M] * 64], 0, 16, [[(i, i + 2) for i in range(0, 64, 2)]]),
    "arms are cut by themselves": ([[M, M], [M]], 0, 2, [[(0, 1), (1, 2)], [(0, 1)]]),
    "one file keeps one thread busy": ([[M]], 0, 1, [[(0, 1)]]),
    "one file would leave a thread without work": ([[M]], 0, 2, None),
    "other files keep the other threads busy": ([[M]], 3 * M, 4, [[(0, 1)]]),
    "a file is larger than what threads have on average": ([[5 * M, M, M]], 0, 4, None),
    "few rows are not worth a join": ([[50_000] * 2], 5 * M, 2, None),
    "nor are few rows of many kinds": ([[50_000]] * 20, 5 * M, 2, None),
    "so many rows that their flags would fill memory": ([[M] * 201], 0, 2, None),
    "files without rows": ([[0, 0]], 0, 2, None),
}


@pytest.mark.parametrize(("deleted", "others", "threads", "expected"), CASES.values(), ids=CASES)
def test_runs(
    deleted: list[list[int]], others: int, threads: int, expected: list[list[tuple[int, int]]] | None
) -> None:
    found = runs(deleted, others, threads)
    assert (None if found is None else [[(run.start, run.stop) for run in arm] for arm in found]) == expected
