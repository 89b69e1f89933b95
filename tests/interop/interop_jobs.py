"""Jobs in a session with a real jar and registered harness tables. The jar's own tables and names do not change."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.testing.jobs.job import SparkJob
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def registered(spark: Any, place: Path) -> SparkJob:
    """Register `prod.db.orders` and `prod.db.items`. Each has two rows, and the first is deleted."""
    ice = IcebergTable.create(place / "orders", {"id": "long"})
    file = ice.write_data([{"id": 1}, {"id": 2}])
    ice.append(file)
    ice.append(ice.write_position_deletes([(file, 0)]))
    delta = DeltaTable.create(place / "items", {"id": "long"})
    handle = delta.write_data([{"id": 3}, {"id": 4}])
    delta.append(handle)
    delta.delete(handle, [0])
    return SparkJob.on(spark, tables={"prod.db.orders": ice, "prod.db.items": str(delta.directory)})


def check_reads_and_writes(job: SparkJob, place: Path, jar_table: str) -> None:
    """Check reads and writes of a job. `jar_table` is a table of the jar with one row, 7."""
    spark = job.spark

    def ids(query: str) -> list[int]:
        return sorted(row.id for row in spark.sql(query).collect())

    assert ids(f"SELECT id FROM {jar_table}") == [7]
    assert ids("SELECT id FROM prod.db.orders") == [2]
    assert ids("SELECT id FROM prod.db.items") == [4]
    assert ids("SELECT id FROM prod.db.items VERSION AS OF 1") == [3, 4]
    assert spark.table("prod.db.orders.snapshots").count() == 2
    assert [row.id for row in spark.read.format("iceberg").load(str(place / "orders")).collect()] == [2]
    assert [row.id for row in spark.read.format("delta").load(str(place / "items")).collect()] == [4]
    assert ids(f"SELECT own.id FROM prod.db.orders o JOIN {jar_table} own ON own.id > o.id") == [7]
    spark.table("prod.db.orders").writeTo("prod.db.out").append()
    assert job.written("prod.db.out").to_pylist() == [{"id": 2}]
    spark.sql(f"INSERT INTO {jar_table} SELECT id FROM prod.db.items")
    assert ids(f"SELECT id FROM {jar_table}") == [4, 7]
    spark.sql(f"MERGE INTO {jar_table} t USING prod.db.items s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert ids(f"SELECT id FROM {jar_table}") == [7]


_JOB = """
import json, sys
import harness
spark = harness.spark_session(reference=sys.argv[1])
spark.sql(f"CREATE TABLE orders (id bigint, total int) USING {sys.argv[1]}")
spark.sql("INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30)")
spark.sql("MERGE INTO orders t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET total = 99")
spark.sql("UPDATE orders SET total = 11 WHERE id = 1")
spark.sql("DELETE FROM orders WHERE id = 3")
(place,) = [row[1] for row in spark.sql("DESCRIBE EXTENDED orders").collect() if row[0] == "Location"]
rows = harness.open_table(place).snapshot().to_arrow().to_pylist()
assert sorted(rows, key=str) == sorted((row.asDict() for row in spark.table("orders").collect()), key=str)
print(json.dumps(sorted([row["id"], row["total"]] for row in rows)))
"""


def rows_of_a_job_in_a_session_of(reference: str, place: Path) -> list[list[int]]:
    """Return the rows after a job that merges, updates, and deletes, read by the jar and by harness."""
    command = [sys.executable, "-c", _JOB, reference]
    run = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert list(place.iterdir()) == []  # the working directory stays empty
    rows: list[list[int]] = json.loads(run.stdout.splitlines()[-1])
    return rows
