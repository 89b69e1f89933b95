"""Changes of real ranges of snapshots: from the planner to the rows, through encoded plans, and their costs."""

from pathlib import Path

import pyarrow as pa
import pytest
from lifetimes import ENGINES, RANGE, make_range, planned_range, read_changes
from reading import in_order

import harness
from harness.metadata.plan.scan_plan import ScanPlan
from harness.snapshot import PlannedRows
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import IcebergFile


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", list(RANGE))
def test_every_kind_of_delete(tmp_path: Path, engine: str, mode: str, version: int) -> None:
    location = make_range(tmp_path, version)
    plan = planned_range(location, mode, ["id", "v", "_change_type", "_change_ordinal"])
    assert read_changes(plan, engine) == in_order(RANGE[mode])
    again = harness.open_plan(ScanPlan.from_ipc(plan.to_ipc()))
    if engine == "duckdb":
        assert in_order(again.to_duckdb().fetchall()) == in_order(RANGE[mode])
    else:
        assert in_order(map(tuple, again.to_spark().collect())) == in_order(RANGE[mode])


def test_changes_of_many_commits_stream(tmp_path: Path) -> None:
    """No step of a range of appends and deletes holds the rows."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    files = [table.write_data([{"id": 1000 * number + i} for i in range(1000)]) for number in range(40)]
    for file in files:
        table.append(file)
    table.commit(add=table.write_deletion_vectors({file: [0, 999] for file in files}))
    plan = planned_range(table.location, "changelog", ["id", "_change_type"])
    query = PlannedRows(plan).to_duckdb().explain()
    assert "WINDOW" not in query.upper()
    assert "GROUP_BY" not in query.upper().replace(" ", "_")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["changelog", "updates"])
def test_rewrites_of_many_rows_are_compared_in_parts(tmp_path: Path, engine: str, mode: str) -> None:
    """Commits that rewrite other files are compared apart, and a commit that rewrites a new file again is not."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "v": "long"})
    size = 150_000

    def write(first: int, *, last: int = 0, changed: int | None = None) -> IcebergFile:
        ids = range(first + 1, first + size - last)
        return table.write_data(pa.table({"id": ids, "v": [int(id == changed) for id in ids]}))

    a, b, c = (write(first) for first in (0, size, 2 * size))
    start = table.append(a, b, c)
    moved, without = table.write_data(pa.table({"id": [size - 1], "v": [0]})), write(0, last=1)
    second_a, second_b = write(0, last=1, changed=7), write(size, changed=size + 7)
    table.commit(add=[without], remove=[a])
    table.commit(add=[second_b, moved], remove=[b])
    table.commit(add=[second_a], remove=[without])
    columns = ["id", "v", "_change_type", "_change_ordinal"]
    keys = ["id"] if mode == "updates" else None
    changes = harness.open_table(table.location).changes(start, mode=mode, keys=keys, columns=columns)
    old, new = ("delete", "insert") if mode == "changelog" else ("update_preimage", "update_postimage")
    assert in_order(tuple(row.values()) for row in changes.to_arrow(engine=engine).to_pylist()) == in_order(
        [
            (size - 1, 0, "delete", 0),
            (size - 1, 0, "insert", 1),
            *((size + 7, value, word, 1) for value, word in ((0, old), (1, new))),
            *((7, value, word, 2) for value, word in ((0, old), (1, new))),
        ]
    )
