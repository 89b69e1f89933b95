"""Filters and plans: files whose rows all match, files skipped by partition, and faults of writers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.table import open_table
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

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
    # By the first id of each file: the planned files whose rows all match the filter.
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
        assert plan.statistics is not None
        paths = plan.files.column("path").to_pylist()
        flags = plan.statistics.matches_all_rows().tolist()
        found[where] = sorted(firsts[path] for path, flag in zip(paths, flags, strict=True) if flag)
    assert found == CASES


@pytest.mark.parametrize("make", [iceberg, delta])
def test_files_are_skipped_by_partition_alone(tmp_path: Path, make: Callable[[Path], str]) -> None:
    """The partition filter skips the file of `eu`, and the bounds of id skip one of the remaining two files."""
    found, location = {}, make(tmp_path / "t")
    for prune in ("off", "partition", "files"):
        skipped = open_table(location, prune=prune).snapshot().plan(where="region = 'us' AND id = 11").skipped
        found[prune] = [
            [s["reason"] for s in skipped.to_pylist()].count(reason) for reason in ("partition", "statistics")
        ]
    assert found == {"off": [0, 0], "partition": [1, 0], "files": [1, 1]}


PRICES = {"id": "long", "price": "double", "cost": "decimal(17,2)"}


def test_the_command_lists_guarded_filters_in_json(tmp_path, capsys):
    table = DeltaTable.create(tmp_path / "t", PRICES)
    table.append(table.write_data([{"id": 1, "price": 1.0, "cost": 1}]))
    assert main(["plan", str(tmp_path / "t"), "--where", "price > 2", "--format", "json"]) == 0
    (sentence,) = json.loads(capsys.readouterr().out)["guarded"]
    assert sentence == "price: the maximum ignores NaN (https://github.com/delta-io/delta/pull/7101)"
