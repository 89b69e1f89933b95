"""Changes of real ranges of snapshots: from the planner to the rows, through encoded plans, and their costs."""

from pathlib import Path

import pytest
from lifetimes import ENGINES, RANGE, make_range, planned_range, read_changes
from reading import in_order

import harness
from harness.metadata.plan.scan_plan import ScanPlan
from harness.snapshot import PlannedRows
from harness.writing.iceberg.builder import IcebergTable


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
