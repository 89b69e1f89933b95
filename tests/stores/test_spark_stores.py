"""Spark reads tables in S3 through s3a, with the options that they were opened with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from buckets import s3_store, upload

import harness
from harness.cli import main
from harness.writing.delta.builder import DeltaTable

pytest.importorskip("pyspark")
pytestmark = pytest.mark.stores


@pytest.fixture
def location(tmp_path: Path, options: dict[str, Any]) -> str:
    table = DeltaTable.create(tmp_path / "on-spark", {"id": "long"})
    table.append(table.write_data([{"id": i} for i in range(40)]))
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
    spark = harness.spark_session(packages="s3", master="local[2]")
    table = harness.open_table(location, storage_options=options)
    assert harness.sql("SELECT sum(id) FROM t", engine="spark", t=table).collect() == [(780,)]
    assert harness.compare(table, table, engines=("spark", "duckdb")).equal
    assert not [name for name, _ in spark.sparkContext.getConf().getAll() if "s3a" in name]
