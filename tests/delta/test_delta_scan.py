import json
from typing import Any

import pytest

import harness
from harness.errors import UnknownColumnError
from harness.writing.delta.builder import DeltaTable


def snapshot(table: DeltaTable, **how: Any) -> harness.Snapshot:
    return harness.open_table(str(table.directory), **how).snapshot()


@pytest.fixture
def table(tmp_path) -> DeltaTable:
    """A table with ids 0 to 9 in partition eu, 10 to 19 in us, and 20 to 29 in the null partition."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "region": "string"}, partition_columns=["region"])
    for region, start in (("eu", 0), ("us", 10), (None, 20)):
        table.append(table.write_data([{"id": start + i, "region": region} for i in range(10)]))
    return table


def test_skipped_files_have_reasons(table):
    plan = snapshot(table).plan(where="region = 'us' AND id < 10 OR region IS NULL AND id = 20")
    assert [file["partition"] for file in plan.files.to_pylist()] == [2]
    skipped = plan.skipped.to_pylist()
    assert [(s["path"], s["reason"], s["record_count"]) for s in skipped] == [
        (table.handles[0].path, "partition", 10),
        (table.handles[1].path, "statistics", 10),
    ]
    assert plan.skipped.to_pylist(1) == skipped[:1]
    assert plan.counts.files == 3
    assert "2 skipped (1 by partition, 1 by statistics) of 3" in plan.explain()
    assert json.loads(json.dumps(plan.to_dict()))["totals"]["files_read"] == 1


def test_columns_of_the_other_format(table):
    with pytest.raises(UnknownColumnError, match="Delta tables have no sequence numbers"):
        snapshot(table).plan(columns=["_last_updated_sequence_number"])
