"""Choices by cost: which files are joined by position together, and when keys of an anti join are padded."""

import pytest

from harness.engines.duckdb.lowering import runs
from harness.engines.duckdb.scans import padding

M = 1_000_000
RUNS = {
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


@pytest.mark.parametrize(("deleted", "others", "threads", "expected"), RUNS.values(), ids=RUNS)
def test_runs(deleted, others, threads, expected):
    assert runs(deleted, others, threads) == expected


PADDING = {
    # keys, probes, the rows with padding: more than half of the slots by a load factor of 1.5 and of 2
    "no keys": (0, M, 0),
    "a small table is sparse by itself": (2_048, M, 2_048),
    "an eighth of 2^15 slots": (4_096, M, 10_923),
    "one more needs 2^16 slots": (4_097, M, 21_846),
    "many keys take a quarter of 2^20": (200_000, 20 * M, 349_526),
    "too many for any cache": (500_000, 100 * M, 500_000),
    "too few probes": (4_096, 16 * 10_923 - 1, 4_096),
    "just enough probes": (4_096, 16 * 10_923, 10_923),
}


@pytest.mark.parametrize(("keys", "probes", "rows"), PADDING.values(), ids=PADDING)
def test_padding(keys, probes, rows):
    assert keys + padding(keys, probes) == rows
