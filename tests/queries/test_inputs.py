"""What a query reads besides tables by name: tables by their locations, values, and frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`lake/i` holds 0, 1 and 2, a commit each; `lake/d` holds 1 and 5."""
    lake = tmp_path_factory.mktemp("inputs") / "lake"
    iceberg = IcebergTable.create(lake / "i", {"id": "long"})
    for i in range(3):
        iceberg.append(iceberg.write_data([{"id": i}]))
    delta = DeltaTable.create(lake / "d", {"id": "long"})
    delta.append(delta.write_data([{"id": 1}, {"id": 5}]))
    return lake


def by_location(lake: Path) -> dict[str, list[tuple[Any, ...]]]:
    first = harness.open_table(str(lake / "i")).snapshots()[0]["id"]
    return {
        f"SELECT sum(id)::INT FROM '{lake}/i'": [(3,)],
        f"SELECT count(*) FROM '{lake}/i' AS a JOIN \"{lake}/d\" AS b USING (id)": [(1,)],
        f"SELECT max(d.id) FROM '{lake}/d/' WHERE d.id < 5": [(1,)],
        f"SELECT id FROM '{lake}/i' AT (VERSION => {first})": [(0,)],
        f"SELECT count(*) FROM given JOIN '{lake}/d' AS d ON d.id = given.id": [(1,)],
    }


def test_a_table_by_its_location(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for query, rows in by_location(lake).items():
        assert harness.sql(query, given=str(lake / "i")).fetchall() == rows, query
    metadata = harness.sql(f"SELECT count(*) FROM '{lake}/i'.snapshots")
    assert metadata.fetchall() == [(3,)]
    monkeypatch.chdir(lake.parent)
    assert harness.sql("SELECT count(*) FROM 'lake/d'").fetchall() == [(2,)]
    # The table that is given goes before the one that is there.
    given = harness.open_table("lake/i")
    assert harness.queries.sql.run_query("SELECT count(*) FROM 'lake/d'", {"lake/d": given}).fetchall() == [(3,)]


def test_a_table_by_its_location_on_spark(lake: Path, spark: Any) -> None:
    for query, rows in by_location(lake).items():
        found = harness.sql(query, engine="spark", spark=spark, given=str(lake / "i")).collect()
        assert [tuple(row) for row in found] == rows, query
    own = harness.sql(f"SELECT count(*) FROM `{lake}/d`", engine="spark", dialect="spark", spark=spark)
    assert own.collect() == [(2,)]
