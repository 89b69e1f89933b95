"""Differing rows of a partitioned table are counted by its partition columns, unless others are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.differ.result import GroupDifference
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.usefixtures("one_duckdb")

ROWS = [{"id": i, "day": day, "v": i} for i, day in enumerate(["mon", "mon", "tue", "wed"])]
OTHER = pa.table({"id": [0, 1, 2, 3], "day": ["mon", "mon", "tue", "wed"], "v": [-1, -1, -1, 3]})
BY_DAY = {GroupDifference(values=("'mon'",), changed=2), GroupDifference(values=("'tue'",), changed=1)}


def iceberg(place: Path) -> harness.Table:
    spec = [("day", "identity"), ("id", "bucket[4]")]
    t = IcebergTable.create(place, {"id": "int", "day": "string", "v": "int"}, partition_spec=spec)
    t.append(*t.write_partitioned(ROWS))
    return harness.open_table(t.location)


def delta(place: Path) -> harness.Table:
    t = DeltaTable.create(place, {"id": "integer", "day": "string", "v": "integer"}, partition_columns=["day"])
    t.append(*t.write_partitioned(ROWS))
    return harness.open_table(str(place))


@pytest.mark.parametrize("few", [50_000, 0], ids=["in-memory", "by-hashes"])
@pytest.mark.parametrize("make", [iceberg, delta])
def test_partition_columns(tmp_path: Path, make: Any, few: int) -> None:
    sides = (make(tmp_path / "t"), duckdb.connect().from_arrow(OTHER))
    how = {"keys": ["id"], "few": few}
    for found in (harness.compare(*sides, **how), harness.compare(*sides[::-1], **how)):
        assert (found.grouped_by, set(found.by_group), found.groups) == (("day",), BY_DAY, 2)
    assert harness.compare(*sides, max_rows=0, **how).groups == 2
    assert harness.compare(sides[0], sides[0], **how).grouped_by == ()
    asked = harness.compare(*sides, group_by=["v"], **how)
    assert (asked.grouped_by, asked.groups) == (("v",), 3)
    relaxed = harness.Relaxations(rename={"day": "Day"}, trim=True)
    renamed = OTHER.rename_columns(["id", "Day", "v"])
    assert harness.compare(sides[0], renamed, relaxations=relaxed, **how).by_group == found.by_group
    assert harness.compare(sides[0], OTHER.drop_columns(["day"]), **how).grouped_by == ()


def test_a_null_struct_with_a_required_field_is_a_group() -> None:
    type_ = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    left, right = (
        pa.table({"id": [1, 2], "s": pa.array([None, {"a": 1}], type_), "v": [first, 2]}) for first in (1, 0)
    )
    found = harness.compare(left, right, keys=["id"], group_by=["s"])
    assert found.by_group == (GroupDifference(values=("NULL",), changed=1),)
