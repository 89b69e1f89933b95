"""Planned files as relations on Spark; local files next to stale checksums of Hadoop, and with relative paths."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

import harness
from harness.engines.spark import engine as spark_engine
from harness.engines.spark.connect import PlainPaths
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead
from harness.suite.oracle_engine import to_arrow as oracle_arrow
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(params=["gateway", "plain paths"])
def session(request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the session with its gateway, and as if it had none."""
    if request.param == "plain paths":
        monkeypatch.setattr(spark_engine, "reader_of", PlainPaths)
    before = spark.sparkContext._jsc.hadoopConfiguration().get("fs.file.impl")
    yield spark
    assert spark.sparkContext._jsc.hadoopConfiguration().get("fs.file.impl") == before


def stale(file: Path) -> None:
    """Write Hadoop's checksum for other content next to a file: its header, the bytes per sum, and sums of 0."""
    sums = file.stat().st_size // 512 + 1
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + bytes(4 * sums))


def ids(location: Path, session: Any) -> list[int]:
    plan = harness.open_table(str(location)).snapshot().plan(columns=["id"])
    return sorted(spark_engine.to_arrow(plan, session)["id"].to_pylist())


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_checksums_of_hadoop_are_ignored(tmp_path, session, format):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    data = table.write_data([{"id": i} for i in range(5)], format=format)
    table.append(data)
    gone = table.write_equality_deletes(["id"], [{"id": 2}], format=format)
    table.commit(add=[gone])
    for handle in (data, gone):
        stale(table.file_of(handle.path))
    assert ids(tmp_path / "t", session) == [0, 1, 3, 4]


def test_the_users_own_reads_keep_their_checksums(tmp_path, spark):
    """Harness's reads do not use the file systems that a session keeps open."""
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
    """Return the directory for opening a table, and the directory for reading its rows.

    The JVM runs in another directory.
    """
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    return tmp_path / "here", tmp_path / "there"


@pytest.mark.parametrize("format", ["parquet", "avro"])
@pytest.mark.parametrize("way", ["location", "path map", "recorded path"])
def test_relative_paths_start_where_the_table_was_opened(folders, session, monkeypatch, format, way):
    """Relative paths of the table, of moved data, and of a file next to the table, as its writer recorded it."""
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


SCHEMA = StructType([StructField("a", LongType())])


@pytest.fixture(scope="module")
def gateway(spark: Any) -> Gateway:
    return Gateway.for_session(spark)


def written(folder: Path, count: int) -> list[DiskFile]:
    """Return files with two rows each: file i has 10 i and 10 i + 1."""
    files = []
    for i in range(count):
        path = folder / f"{i}.parquet"
        parquet.write_table(pa.table({"a": [10 * i, 10 * i + 1]}), path)
        files.append(DiskFile(str(path), path.stat().st_size))
    return files


def planned(gateway: Gateway, files: list[DiskFile], constants: pa.Table) -> DataFrame:
    return gateway.planned_frame(
        PlannedRead(file_format="parquet", read_schema=SCHEMA, files=files, constants=constants)
    )


@pytest.mark.parametrize(("share", "later"), [(2, 0), (0.5, 0), (1, 1)])
def test_a_file_that_is_another_than_was_planned(gateway, tmp_path, share, later):
    """The size or the time differs. With a size that is too small, Spark would skip row groups (trap; iceberg 7.2)."""
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": list(range(1000))}), path, row_group_size=10)
    now = path.stat()
    file = DiskFile(str(path), int(now.st_size * share), now.st_mtime_ns // 1_000_000 + later)
    frame = planned(gateway, [file], pa.table({"k": [1]}))
    with pytest.raises(Exception, match="FILE_CHANGED") as caught:
        frame.count()
    error = engine_error(caught.value, "t")
    assert isinstance(error, harness.CorruptFileError)
    assert str(error).startswith("Cannot read file: it was replaced after the read was planned")
    assert error.file == str(path)


def test_ten_thousand_files_are_not_listed(gateway, tmp_path, spark):
    """Spark's own index would run a job with a task per path. Even a plan whose files do not exist has a schema."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    files = [DiskFile(str(tmp_path / f"{i}.parquet"), 1000) for i in range(10_000)]
    files[1234] = written(tmp_path, 1)[0]
    frame = gateway.expose(planned(gateway, files, pa.table({"k": pa.array(range(10_000), pa.int64())})))
    assert frame.columns == ["p0", "k"]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert set(tracker.getJobIdsForGroup(None)) == before
    assert "PlannedFileIndex(" in plan
    assert "InMemoryFileIndex" not in plan
    assert sorted(row.p0 for row in frame.where("k = 1234").collect()) == [0, 1]  # the other files were not even opened
    assert len(set(tracker.getJobIdsForGroup(None)) - before) == 1


@pytest.mark.parametrize(
    ("kind", "reason", "expected"),
    [
        ("NO_HINT", "java.io.EOFException: cut", harness.CorruptFileError),
        ("CANNOT_READ_FILE_FOOTER", "java.lang.RuntimeException: no magic", harness.CorruptFileError),
        ("NO_HINT", "java.net.SocketTimeoutException: read", harness.EngineError),
        ("NO_HINT", "java.lang.ClassNotFoundException: BrotliCodec", harness.EngineError),
        ("NO_HINT", "java.io.FileNotFoundException: a (Permission denied)", harness.EngineError),
        ("PARQUET_COLUMN_DATA_TYPE_MISMATCH", "java.lang.RuntimeException: int", harness.EngineError),
        ("FILE_NOT_EXIST", "java.io.FileNotFoundException: a", harness.MissingFileError),
    ],
)
def test_the_error_about_a_file_follows_its_cause(kind, reason, expected):
    said = f"[FAILED_READ_FILE.{kind}] Encountered error while reading file s3a://b/x%25.parquet. Details. SQLSTATE: K"
    error = engine_error(RuntimeError(f"waited\n\tat a.b\nCaused by: c.D: {said}\nCaused by: {reason}\n"), "t")
    assert type(error) is expected
    assert (error.table, error.file) == ("t", "s3a://b/x%.parquet")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("o1.getResult\n\tat x\nCaused by: A: later\nCaused by: B:\tfirst\n", "B: first"),
        ("An error occurred while calling z:harness.spark.Footers.look.\n: java.lang.A\n\tat x\n", "java.lang.A"),
        ("a\n b JVM stacktrace: c", "a b"),
    ],
    ids=["causes", "neither cause nor message", "connect"],
)
def test_a_failure_shows_its_first_cause(text, message):
    assert engine_error(RuntimeError(text)).message == f"Spark failed: {message}"
