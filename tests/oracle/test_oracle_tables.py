"""Small tables by hand, read by the oracle: what a person can check with pencil and paper."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.engines.registry import find_engine
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


def rows(location: Any, columns: list[str] | None = None, where: str | None = None) -> list[tuple[Any, ...]]:
    table = harness.open_table(str(location)).snapshot().to_arrow(columns=columns, where=where, engine="oracle")
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def test_it_is_an_engine_like_the_others(tmp_path: Path) -> None:
    schema = {"id": "long not null", "s": "struct<a: uuid, b: list<date>>", "m": "map<string, time>"}
    t = IcebergTable.create(tmp_path / "t", schema)
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan()
    found = find_engine("oracle")
    assert (found.name, found.version()[:8]) == ("oracle", "Python 3")
    assert found.to_arrow(plan).schema == find_engine("duckdb").to_arrow(plan).schema
    t.append(t.write_data([{"id": 1, "s": None, "m": None}]))
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan(["id"])
    assert found.to_arrow(plan) == pa.table({"id": pa.array([1], pa.int64())})


def test_a_value_of_a_row_that_the_filter_drops_is_not_looked_at(tmp_path: Path) -> None:
    legacy = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
    t = DeltaTable.create(tmp_path / "d", {"id": "long", "d": "date"})
    t.append(t.write_data([{"id": 1, "d": 0}, {"id": 2, "d": -719164}], footer=legacy))
    assert rows(tmp_path / "d", ["id"], "id < 3") == [(1,), (2,)]
    assert [d.year for _, d in rows(tmp_path / "d", where="id = 1")] == [1970]
    with pytest.raises(harness.SchemaMismatchError, match="-719164 is in the calendar of an old writer"):
        rows(tmp_path / "d", ["d"], "id = 2")
