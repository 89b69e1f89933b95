"""Which files are joined by position together, and when bitmaps are faster."""

from __future__ import annotations

import pytest

from harness.engines.duckdb.lowering import runs

M = 1_000_000
CASES = {
    # deleted, others, threads, the runs by the places of their files
    "small files are put together": ([[125_000] * 6], 0, 2, [[(0, 3), (1, 4), (2, 5)]]),
    "runs are about as large": ([[M, 3 * M, 2 * M, 2 * M, M, 4 * M]], 0, 2, [[(5,), (1,), (0, 2), (3, 4)]]),
    "a large file is a run alone": ([[M // 10, M // 10, M, M // 10]], M, 2, [[(2,), (0, 1, 3)]]),
    "a thread has two runs": ([[M] * 8], 0, 2, [[(0, 4), (1, 5), (2, 6), (3, 7)]]),
    "many threads get more runs": ([[M] * 8], 0, 4, [[(i,) for i in range(8)]]),
    "a run of a large table ends": ([[20 * M] * 6], 0, 2, [[(i,) for i in range(6)]]),
    "arms are cut by themselves": ([[M, M], [M]], 0, 2, [[(0,), (1,)], [(0,)]]),
    "one file keeps one thread busy": ([[M]], 0, 1, [[(0,)]]),
    "one file would leave a thread without work": ([[M]], 0, 2, None),
    "other files keep the other threads busy": ([[M]], 3 * M, 4, [[(0,)]]),
    "a file is larger than what threads have on average": ([[5 * M, M, M]], 0, 4, None),
    "few rows are not worth a join": ([[50_000] * 2], 5 * M, 2, None),
    "nor are few rows of many kinds": ([[50_000]] * 20, 5 * M, 2, None),
    "so many rows that their flags would fill memory": ([[M] * 201], 0, 2, None),
    "files without rows": ([[0, 0]], 0, 2, None),
}


@pytest.mark.parametrize(("deleted", "others", "threads", "expected"), CASES.values(), ids=CASES)
def test_runs(
    deleted: list[list[int]], others: int, threads: int, expected: list[list[tuple[int, ...]]] | None
) -> None:
    assert runs(deleted, others, threads) == expected
