"""Tables by another writer: random histories written by deltalake to S3."""

import os
import random
from typing import Any

import pyarrow as pa
import pytest
from buckets import BUCKET

import harness

pytestmark = pytest.mark.external
_HISTORIES = 100
_MOST_STEPS = 6


def _rows(numbers: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "id": numbers.randrange(40),
            "region": numbers.choice(["eu", "us", None]),
            "v": numbers.choice([None, 1.5, -2.0]),
        }
        for _ in range(numbers.randrange(1, 12))
    ]


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(
        rows, schema=pa.schema([("id", pa.int64()), ("region", pa.string()), ("v", pa.float64())])
    )


def _draw(deltalake: Any, location: str, numbers: random.Random, options: dict[str, str]) -> list[list[dict[str, Any]]]:
    """Write a history, and return the rows of each version according to the operations."""
    rows = _rows(numbers)
    partitions = numbers.choice([None, ["region"]])
    deltalake.write_deltalake(location, _arrow(rows), partition_by=partitions, storage_options=options)
    versions = [rows]
    for _ in range(numbers.randrange(_MOST_STEPS)):
        table = deltalake.DeltaTable(location, storage_options=options)
        bound = numbers.randrange(40)
        match numbers.choice(["append", "overwrite", "delete", "update", "compact", "checkpoint"]):
            case "append":
                more = _rows(numbers)
                deltalake.write_deltalake(table, _arrow(more), mode="append")
                rows = rows + more
            case "overwrite":
                rows = _rows(numbers)
                deltalake.write_deltalake(table, _arrow(rows), mode="overwrite")
            case "delete":
                table.delete(f"id < {bound}")
                rows = [row for row in rows if row["id"] >= bound]
            case "update":
                table.update(updates={"v": "9.5"}, predicate=f"id >= {bound}")
                rows = [{**row, "v": 9.5} if row["id"] >= bound else row for row in rows]
            case "compact":
                table.optimize.compact()
            case "checkpoint":
                table.create_checkpoint()
        written = deltalake.DeltaTable(location, storage_options=options).version()
        versions += [rows] * (written + 1 - len(versions))
        versions[written] = rows
    return versions


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("part", range(10))
def test_histories_by_deltalake_on_s3(s3: str, options: dict[str, Any], part: int) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    written = {
        "aws_endpoint_url": s3,
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    spark = os.environ.get("HARNESS_S3A")
    if spark:
        harness.spark_session(packages="s3", master="local[2]")
    for number in range(part, _HISTORIES, 10):
        location = f"s3://{BUCKET}/drawn/{number}"
        versions = _draw(deltalake, location, random.Random(number), written)
        table = harness.open_table(location, storage_options=options)
        for version, rows in enumerate(versions):
            read = table.snapshot(version).to_arrow().to_pylist()
            assert _sorted(read) == _sorted(rows), (number, version)
        engines = ("spark", "duckdb") if spark else ("oracle", "duckdb")
        assert harness.compare(table, table, engines=engines).equal, number
