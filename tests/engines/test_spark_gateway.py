"""Planned files as relations of Spark: what is listed, what is skipped, and how failing reads are told."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

import harness
from harness.engines.spark.executor_python import engine_error
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead

SCHEMA = StructType([StructField("a", LongType())])


@pytest.fixture(scope="module")
def gateway(spark: Any) -> Gateway:
    return Gateway.of(spark)


def written(folder: Path, count: int) -> list[DiskFile]:
    """Files of two rows each: in file i, 10 i and 10 i + 1."""
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
def test_a_file_that_is_another_than_was_planned(gateway: Gateway, tmp_path: Path, share: float, later: int) -> None:
    """By its size or its time. With a size that is too small, Spark would drop row groups (trap; iceberg 7.2)."""
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


def test_ten_thousand_files_are_not_listed(gateway: Gateway, tmp_path: Path, spark: Any) -> None:
    """Spark's own index would run a job of a task per path; a plan whose files are not there even shows its schema."""
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
    assert sorted(row.p0 for row in frame.where("k = 1234").collect()) == [0, 1]  # the others were not even opened
    assert len(set(tracker.getJobIdsForGroup(None)) - before) == 1


# -- reads that fail on executors -------------------------------------------------------------------------------------


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
def test_what_ails_a_file_goes_by_the_cause(kind: str, reason: str, expected: type[harness.HarnessError]) -> None:
    said = f"[FAILED_READ_FILE.{kind}] Encountered error while reading file s3a://b/x%25.parquet. Details. SQLSTATE: K"
    error = engine_error(RuntimeError(f"waited\n\tat a.b\nCaused by: c.D: {said}\nCaused by: {reason}\n"), "t")
    assert type(error) is expected
    assert (error.table, error.file) == ("t", "s3a://b/x%.parquet")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("o1.getResult\n\tat x\nCaused by: A: later\nCaused by: B:\tfirst\n", "B: first"),
        ("An error occurred while calling z:harness.spark.Footers.look.\n: java.lang.A\n\tat x\n", "java.lang.A"),
        ("a\n b JVM stacktrace: c", "a b"),
    ],
    ids=["causes", "neither cause nor message", "connect"],
)
def test_a_failure_tells_its_first_cause(text: str, told: str) -> None:
    assert engine_error(RuntimeError(text)).message == f"Spark failed: {told}"
