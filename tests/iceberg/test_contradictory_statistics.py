"""Counts and bounds of equality keys that contradict each other hold no delete back: deleted rows stay deleted."""

import pytest

import harness
from harness.writing.iceberg.builder import IcebergTable


@pytest.mark.parametrize("false", ["data", "delete"])
@pytest.mark.parametrize("more", [0, 1], ids=["all rows null", "more nulls than rows"])
def test_a_delete_is_applied_beside_a_false_null_count(tmp_path, false, more):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": number} for number in range(10)])
    delete = table.write_equality_deletes(["id"], [{"id": 3}, {"id": 5}])
    handle, rows = (data, 10) if false == "data" else (delete, 2)
    handle.data_file["null_value_counts"] = [{"key": 1, "value": rows + more}]
    table.append(data)
    table.commit(add=[delete])
    snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
    assert sorted(snapshot.to_arrow()["id"].to_pylist()) == [0, 1, 2, 4, 6, 7, 8, 9]
