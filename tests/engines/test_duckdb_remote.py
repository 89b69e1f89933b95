"""Tables that are not on the local disk: fsspec serves the metadata and the data files, no DuckDB extension does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

import harness
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture
def remote():
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/remote", recursive=True)


def iceberg(folder: Path) -> Path:
    table = IcebergTable.create(
        folder / "t", {"id": "long", "region": "string"}, partition_spec=[("region", "identity")]
    )
    rows = [{"id": i, "region": region} for i, region in enumerate(["a b", "a b", "c", "c", "[d]"])]
    files = table.write_partitioned(rows)
    table.append(*files)
    table.append(table.write_position_deletes([(files[0], 0)]))
    table.append(table.write_equality_deletes(["id"], [{"id": 2}], partition={"region": "c"}))
    return folder / "t"


def delta(folder: Path) -> Path:
    table = DeltaTable.create(folder / "t", {"id": "long", "region": "string"}, partition_columns=["region"])
    rows = [{"id": i, "region": region} for i, region in enumerate(["a b", "a b", "c", "c", "[d]"])]
    files = table.write_partitioned(rows)
    table.append(*files)
    table.delete(files[0], [0])
    table.delete(files[1], [0], storage="i")
    return folder / "t"


@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_remote_table_gives_its_rows(tmp_path: Path, remote: Any, make: Any) -> None:
    remote.put(str(make(tmp_path)), "/remote/t", recursive=True)
    snapshot = harness.open_table("memory://remote/t").snapshot()
    assert sorted(row["id"] for row in snapshot.to_arrow().to_pylist()) == [1, 3, 4]
    assert snapshot.to_arrow(where="region = 'c'").to_pylist() == [{"id": 3, "region": "c"}]
    assert harness.sql("SELECT count(*) AS n FROM t", t=snapshot).fetchall() == [(3,)]


@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_missing_remote_file_is_named(tmp_path: Path, remote: Any, make: Any) -> None:
    remote.put(str(make(tmp_path)), "/remote/t", recursive=True)
    lost = next(path for path in remote.find("/remote/t") if "region=c" in path and "delete" not in path)
    remote.rm(lost)
    with pytest.raises(harness.MissingFileError, match="missing or empty") as caught:
        harness.open_table("memory://remote/t").snapshot().to_arrow()
    assert lost.rsplit("/", 1)[1] in str(caught.value.file)
