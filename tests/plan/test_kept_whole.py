"""Of which planned files the metadata says that a filter keeps all rows: none fails it, by statistics or partition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.table import open_table
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

SCHEMA = {"id": "long", "k": "int", "region": "string"}


def rows(first: int, region: str) -> list[dict[str, Any]]:
    return [{"id": i, "k": None if i == 13 else i % 3, "region": region} for i in range(first, first + 10)]


FILES = [rows(0, "eu"), rows(10, "us"), rows(20, "us")]


def iceberg(path: Path) -> str:
    t = IcebergTable.create(path, SCHEMA, partition_spec=[("region", "identity")])
    for file in FILES:
        t.append(*t.write_partitioned(file))
    return t.location


def delta(path: Path) -> str:
    t = DeltaTable.create(path, SCHEMA, partition_columns=["region"])
    for file in FILES:
        t.append(*t.write_partitioned(file))
    return str(path)


CASES: dict[str, list[int]] = {
    # By the first id of each file: those of the planned files that the filter keeps whole.
    "id >= 10": [10, 20],
    "id >= 15": [20],
    "id < 100": [0, 10, 20],
    "id <> 5": [10, 20],
    "id = 5": [],
    "id = 3 OR id >= 10": [10, 20],
    "id IS NOT NULL": [0, 10, 20],
    "k IS NOT NULL": [0, 20],
    "region = 'us'": [10, 20],
    "region = 'us' AND id >= 15": [20],
    "abs(id) >= 0": [],
    "id >= 0 AND abs(id) >= 0": [],
    "_pos >= 0": [],
}


@pytest.mark.parametrize("make", [iceberg, delta])
def test_files_that_a_filter_keeps_whole(tmp_path: Path, make: Callable[[Path], str]) -> None:
    table = open_table(make(tmp_path / "t"))
    firsts: dict[str, int] = {}
    for row in table.snapshot().to_arrow(columns=["id", "_file"]).to_pylist():
        firsts[row["_file"]] = min(row["id"], firsts.get(row["_file"], row["id"]))
    assert sorted(firsts.values()) == [0, 10, 20]
    found = {}
    for where in CASES:
        plan = table.snapshot().plan(["id"], where=where)
        assert plan.kept_whole is not None
        paths = plan.files.column("path").to_pylist()
        flags = plan.kept_whole().tolist()
        found[where] = sorted(firsts[path] for path, flag in zip(paths, flags, strict=True) if flag)
    assert found == CASES


@pytest.mark.parametrize("make", [iceberg, delta])
def test_without_a_filter_or_statistics_nobody_says_so(tmp_path: Path, make: Callable[[Path], str]) -> None:
    location = make(tmp_path / "t")
    assert open_table(location).snapshot().plan().kept_whole is None
    unpruned = open_table(location, prune="off").snapshot().plan(where="id >= 10").kept_whole
    assert unpruned is not None
    assert unpruned().tolist() == [False, False, False]
