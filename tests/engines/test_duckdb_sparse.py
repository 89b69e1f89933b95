"""When the keys of an anti join are padded, and by how much."""

from __future__ import annotations

import pytest

from harness.engines.duckdb.scans import padding

M = 1_000_000
CASES = {
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


@pytest.mark.parametrize(("keys", "probes", "rows"), CASES.values(), ids=CASES)
def test_padding(keys: int, probes: int, rows: int) -> None:
    assert keys + padding(keys, probes) == rows
