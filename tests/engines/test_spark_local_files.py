"""Local files on Spark: beside stale checksums of Hadoop's, and by relative paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.engines.spark import engine as spark_engine
from harness.engines.spark.connect import PlainPaths
from harness.testing.delta import DeltaTable
from harness.testing.iceberg import IcebergTable


@pytest.fixture(params=["gateway", "plain paths"])
def session(request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The session with its gateway, and as if it had none."""
    if request.param == "plain paths":
        monkeypatch.setattr(spark_engine, "reader_of", PlainPaths)
    before = spark.sparkContext._jsc.hadoopConfiguration().get("fs.file.impl")
    yield spark
    assert spark.sparkContext._jsc.hadoopConfiguration().get("fs.file.impl") == before


def stale(file: Path) -> None:
    """Puts Hadoop's checksum of another content beside a file: its head, the bytes per sum, and sums of 0."""
    sums = file.stat().st_size // 512 + 1
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + bytes(4 * sums))


def ids(location: Path, session: Any) -> list[int]:
    plan = harness.open_table(str(location)).snapshot().plan(columns=["id"])
    return sorted(spark_engine.to_arrow(plan, session)["id"].to_pylist())


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_checksums_of_hadoop_have_no_say(tmp_path: Path, session: Any, format: str) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": i} for i in range(5)], format=format)
    table.append(data)
    gone = table.write_equality_deletes(["id"], [{"id": 2}], format=format)
    table.commit(add=[gone])
    for handle in (data, gone):
        stale(table.file_of(handle.path))
    assert ids(tmp_path / "t", session) == [0, 1, 3, 4]


def test_checksums_of_hadoop_beside_a_delta_table(tmp_path: Path, session: Any) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 7}]))
    for file in (tmp_path / "t").glob("**/*.parquet"):
        stale(file)
    assert ids(tmp_path / "t", session) == [7]


def test_the_users_own_reads_keep_their_checksums(tmp_path: Path, spark: Any) -> None:
    """The file systems that a session keeps open are not those of harness's reads."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 1}])
    table.append(data)
    file = table.file_of(data.path)
    stale(file)
    assert ids(tmp_path / "t", spark) == [1]
    with pytest.raises(Exception, match="(?i)checksum"):
        spark.read.parquet(str(file)).collect()
