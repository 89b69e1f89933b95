"""Executors in processes of their own get all they need from the driver: the Java classes, and what they read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.writing.iceberg.builder import IcebergTable

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
# A bitmap of 33 kB, which is sent as a broadcast, and a filter that comes after the plan: of 3 rows, 2 are deleted.
many = table.write_data([{"id": 1000 + i, "k": "many"} for i in range(200_000)])
table.append(many)
table.commit(add=[table.write_position_deletes([(many, i) for i in range(200_000) if i % 3])])
later = harness.open_table(str(table.store.directory)).snapshot().to_spark(spark).where("id >= 1000")
assert later.count() == 66_667
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


BARE = ("numpy", "pandas", "pyarrow", "dateutil", "pytz", "six", "tzdata")
"""Packages of an executor's Python: PySpark's own needs, and no harness."""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `python3` of an environment without harness."""
    environment, driver = tmp_path_factory.mktemp("bare"), Path(sysconfig.get_path("purelib"))
    venv.create(environment, symlinks=True)
    packages = environment / driver.relative_to(sys.prefix)
    for name in BARE:
        for found in (*driver.glob(name), *driver.glob(f"{name}.py"), *driver.glob(f"{name}.libs")):
            (packages / found.name).symlink_to(found)
    return environment / "bin/python3"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory, bare_python: Path) -> Iterator[str]:
    """The address of a cluster of one worker, in processes that know nothing of this Python."""
    import pyspark

    folder, home = tmp_path_factory.mktemp("standalone"), Path(pyspark.__file__).parent
    environment = {
        "PATH": f"{bare_python.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
    }
    started: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []

    def start(kind: str, *arguments: str, until: str) -> str:
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        started.append(process)
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if (match := re.search(until, line)) is not None:
                readers.append(threading.Thread(target=process.communicate))  # else it waits for a reader
                readers[-1].start()
                return match[1]
        raise AssertionError("".join(said)[-3000:])

    try:
        url = start("master.Master", "--port", "0", until=r"Starting Spark master at (spark://\S+)")
        work = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"))
        start("worker.Worker", *work, url, until="Successfully registered with (master)")
        yield url
    finally:
        for process in started:
            process.terminate()
        for reader in readers:
            reader.join()


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table of each file format, of ids 0 to 3 of which 2 is deleted by its place; but in `orc` none is."""
    made = {}
    for name, file_format in {"parquet": "parquet", "orc": "orc", "orc-deletes": "orc", "avro": "avro"}.items():
        table = IcebergTable.create(tmp_path_factory.mktemp("tables") / name, {"id": "long"})
        file = table.write_data([{"id": i} for i in range(4)], format=file_format)
        table.append(file)
        if name != "orc":
            table.commit(add=[table.write_position_deletes([(file, 2)])])
        made[name] = str(table.store.directory)
    return made


ROWS = [[0], [1], [2], [3]]
KEPT = [[0], [1], [3]]
EXPECTED = {"parquet": KEPT, "orc": ROWS, "orc-deletes": KEPT, "avro": KEPT}


def read_on_cluster(url: str, tables: dict[str, str], python: str | None) -> dict[str, dict]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    if python is not None:
        environment["PYSPARK_PYTHON"] = python
    script = Path(__file__).with_name("reading_on_cluster.py")
    command = [sys.executable, str(script), url, *tables.values()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return dict(zip(tables, map(json.loads, ran.stdout.splitlines()), strict=True))


def test_executors_get_harness_where_their_python_has_none(standalone: str, formats: dict[str, str]) -> None:
    found = read_on_cluster(standalone, formats, None)
    assert {name: read["rows"] for name, read in found.items()} == EXPECTED


def test_a_server_of_connect_gets_harness_where_its_python_has_none(bare_python: Path, formats: dict[str, str]) -> None:
    found = read_on_cluster("connect", formats, str(bare_python))
    assert {name: read["rows"] for name, read in found.items()} == EXPECTED


def test_executors_without_python_read_what_spark_reads_itself(standalone: str, formats: dict[str, str]) -> None:
    found = read_on_cluster(standalone, formats, "/nowhere/python")
    assert found["parquet"] == {"rows": KEPT}
    assert found["orc"] == {"rows": ROWS}
    for name in ("orc-deletes", "avro"):
        assert found[name]["error"] == "EngineError"
        assert "they have no Python '/nowhere/python'; name one that is there" in found[name]["message"]
