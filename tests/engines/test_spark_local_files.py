"""Local files on Spark: beside stale checksums of Hadoop's, and by relative paths."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.engines.oracle import to_arrow as oracle_arrow
from harness.engines.spark import engine as spark_engine
from harness.engines.spark.connect import PlainPaths
from harness.testing.writing.iceberg.builder import IcebergTable


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


def test_the_users_own_reads_keep_their_checksums(tmp_path: Path, spark: Any) -> None:
    """The file systems that a session keeps open are not those of harness's reads."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": 1}])
    table.append(data)
    file = table.file_of(data.path)
    stale(file)
    assert ids(tmp_path / "t", spark) == [1]
    with pytest.raises(Exception, match="Checksum"):
        spark.read.parquet(str(file)).collect()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where a table is opened, and where the process is when its rows are read. The JVM is elsewhere."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    return tmp_path / "here", tmp_path / "there"


@pytest.mark.parametrize("format", ["parquet", "avro"])
@pytest.mark.parametrize("way", ["location", "path map", "recorded path"])
def test_relative_paths_start_where_the_table_was_opened(
    folders: tuple[Path, Path], session: Any, monkeypatch: pytest.MonkeyPatch, format: str, way: str
) -> None:
    """Of the table; of where its data was moved; and of a file beside it, as its writer recorded it."""
    here, there = folders
    table = IcebergTable.create(here / "t", {"id": "long"})
    data = table.write_data([{"id": i} for i in range(3)], format=format)
    table.append(data)
    how: dict[str, Any] = {}
    if way == "path map":
        table.file_of(data.path).parent.rename(here / "moved")
        how = {"path_map": {data.path.rpartition("/")[0]: "moved"}}
    elif way == "recorded path":
        table.file_of(data.path).rename(here / f"beside.{format}")
        table.edit_manifest(data, lambda m: m.records[0]["data_file"].update(file_path=f"beside.{format}"))
        how = {"allowed_roots": ["."]}
    else:
        table.commit(add=[table.write_position_deletes([(data, 1)], format=format)])
    monkeypatch.chdir(here)
    opened = harness.open_table("t", **how)
    monkeypatch.chdir(there)
    assert opened.location == "t"
    same_everywhere(opened.snapshot(), session, [0, 2] if way == "location" else [0, 1, 2])


def same_everywhere(snapshot: harness.Snapshot, session: Any, expected: list[int]) -> None:
    plan = snapshot.plan(columns=["id"])
    assert sorted(snapshot.to_duckdb(columns=["id"]).fetchall()) == [(i,) for i in expected]
    for rows in (oracle_arrow(plan), spark_engine.to_arrow(plan, session)):
        assert sorted(rows["id"].to_pylist()) == expected
