"""Spark reads tables in S3 through s3a, with the options that the tables were opened with."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from buckets import s3_store, upload

import harness
from harness.cli import main
from harness.writing.delta.builder import DeltaTable

pytest.importorskip("pyspark")
pytestmark = pytest.mark.external


FILES = 60
KEPT = sum(i for i in range(40 * FILES) if i % 40)
EXECUTORS = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}


@pytest.fixture
def location(tmp_path: Path, options: dict[str, Any]) -> str:
    table = DeltaTable.create(tmp_path / "on-spark", {"id": "long"}, features=["deletionVectors"])
    files = [table.write_data([{"id": 40 * f + i} for i in range(40)]) for f in range(FILES)]
    table.append(*files)
    table.delete_rows({file: [0] for file in files})
    upload(s3_store(options), tmp_path / "on-spark", "on-spark")
    return "s3://lake/on-spark"


def test_a_session_without_s3a(location: str, options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    if os.environ.get("HARNESS_S3A"):
        pytest.skip("the session has s3a")
    words = [f"--storage-option={key}={value}" for key, value in options.items()]
    assert main(["diff", location, "--engines", "duckdb,spark", *words]) == 2
    assert "packages='s3'" in capsys.readouterr().err


def test_rows_and_settings(location: str, options: dict[str, Any]) -> None:
    if not os.environ.get("HARNESS_S3A"):
        pytest.skip("HARNESS_S3A is not set: it fetches 700 MB of packages")
    spark = harness.spark_session(packages="s3", master="local-cluster[2,1,1024]", config=EXECUTORS)
    table = harness.open_table(location, storage_options=options)
    for _ in range(3):
        assert harness.sql("SELECT sum(id) FROM t", {"t": table}, engine="spark").collect() == [(KEPT,)]
    assert harness.compare(table, table, engines=("spark", "duckdb")).equal
    assert not [name for name, _ in spark.sparkContext.getConf().getAll() if "s3a" in name]
    # Pools of Hadoop, Amazon's client, and Spark fill up to 100 each. With a file system per file there were 5 per
    # file.
    threads = [len(list((process / "task").iterdir())) for process in executors(spark.sparkContext.applicationId)]
    assert len(threads) == 2
    assert max(threads) < 500


def executors(application: str) -> list[Path]:
    """Return the processes of an application's executors."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application.encode() in words:
                found.append(process)
    return found
