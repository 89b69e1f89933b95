"""Counts and bounds that contradict each other are ignored: they skip no file and keep no delete from a file."""

import struct

import pytest

import harness
from harness.writing.iceberg.builder import IcebergTable


@pytest.mark.parametrize("false", ["data", "delete"])
@pytest.mark.parametrize("more", [0, 1], ids=["all rows null", "more nulls than rows"])
def test_a_delete_applies_despite_a_wrong_null_count(tmp_path, false, more):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": number} for number in range(10)])
    delete = table.write_equality_deletes(["id"], [{"id": 3}, {"id": 5}])
    handle, rows = (data, 10) if false == "data" else (delete, 2)
    handle.data_file["null_value_counts"] = [{"key": 1, "value": rows + more}]
    table.append(data)
    table.commit(add=[delete])
    snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
    assert sorted(snapshot.to_arrow()["id"].to_pylist()) == [0, 1, 2, 4, 6, 7, 8, 9]


COUNTS = {
    "all rows null, beside bounds": {"null_value_counts": 5},
    "more nulls than values": {"null_value_counts": 6},
    "all values NaN, beside bounds": {"nan_value_counts": 5},
    "more nulls and NaN than values": {"null_value_counts": 3, "nan_value_counts": 3},
}


@pytest.mark.parametrize("others", [0, 1, 150], ids=["alone", "few files", "many files"])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_bounds_with_wrong_counts_skip_no_file(tmp_path, counts, others):
    """The specification defines bounds over values that are neither null nor NaN, so such values must exist."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "x": "double"})
    handle = table.write_data([{"id": number, "x": 7.0} for number in range(5)])
    for name, value in counts.items():
        handle.data_file[name] = [
            *(pair for pair in handle.data_file[name] or () if pair["key"] != 2),
            {"key": 2, "value": value},
        ]
    for name in ("lower_bounds", "upper_bounds"):
        handle.data_file[name] = [
            *(pair for pair in handle.data_file[name] if pair["key"] != 2),
            {"key": 2, "value": struct.pack("<d", 50.0)},
        ]
    table.append(handle, *(table.write_data([{"id": 9, "x": 100.0 + number}]) for number in range(others)))
    assert harness.open_table(str(tmp_path / "t")).snapshot().to_arrow(where="x = 7").num_rows == 5
