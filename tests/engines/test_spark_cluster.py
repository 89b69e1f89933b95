"""Executors in processes of their own get all they need from the driver: the Java classes, and what they read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

pytestmark = pytest.mark.cluster

# The test's own JVM may have another master, so this runs in a process of its own. Deleted positions and hashes of rows
# are Java methods that executors call; equality deletes shuffle; Avro and ORC are read by the executors' Python.
SCRIPT = """
import sys
from pathlib import Path

import harness
from harness.differ.compare import compare
from harness.engines.duckdb import engine as duckdb_engine
from harness.engines.spark import engine as spark_engine
from harness.writing.iceberg.builder import IcebergTable

settings = {"spark.driver.memory": "1g", "spark.executor.memory": "512m"}
spark = harness.spark_session(master="local-cluster[2,1,1024]", config=settings)
assert spark.sparkContext.master.startswith("local-cluster")
table = IcebergTable.create(Path(sys.argv[1]) / "t", {"id": "long", "k": "string"})
formats = ["parquet", "parquet", "avro", "orc"]
rows = [[{"id": 100 * i + j, "k": f"k{j % 5}"} for j in range(100)] for i in range(len(formats))]
files = [table.write_data(part, format=f) for part, f in zip(rows, formats, strict=True)]
table.append(*files)
deletes = table.write_position_deletes([(file, 3) for file in files])
table.commit(add=[deletes, table.write_equality_deletes(["k"], [{"k": "k2"}])])
snapshot = harness.open_table(str(table.store.directory)).snapshot()
plan = snapshot.plan(columns=["id", "k", "_pos"])
reads = (spark_engine.to_arrow(plan, spark), duckdb_engine.to_arrow(plan))
found = [sorted(map(repr, read.to_pylist())) for read in reads]
assert found[0] == found[1]
compared = compare(snapshot, snapshot.to_spark(spark), few=0)  # by hashes
assert (compared.only_left, compared.only_right, compared.changed) == (0, 0, 0)
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
spark.stop()
print("agreed on", len(found[0]), "rows by", executors, "executors")
"""


def test_executors_of_their_own_processes_read_alike(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=600, check=False
    )
    # 400 rows less 20 of k2 in each file, and less the one at position 3, which is a k3.
    assert ran.stdout.endswith("agreed on 316 rows by 2 executors\n"), ran.stderr[-3000:]
