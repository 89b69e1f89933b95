"""Executors in separate processes get all they need from the driver: the Java classes and the Python modules."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import harness
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

pytest.importorskip("pyspark")

pytestmark = pytest.mark.external


BARE = ("numpy", "pandas", "pyarrow", "dateutil", "pytz", "six", "tzdata")
"""Packages in an executor's Python: those that PySpark itself needs, without harness."""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `python3` of an environment without harness."""
    environment, driver = tmp_path_factory.mktemp("bare"), Path(sysconfig.get_path("purelib"))
    venv.create(environment, symlinks=True)
    packages = environment / driver.relative_to(sys.prefix)
    for name in BARE:
        for found in (*driver.glob(name), *driver.glob(f"{name}.py"), *driver.glob(f"{name}.libs")):
            (packages / found.name).symlink_to(found)
    return environment / "bin/python3"


@cache
def isolating_command() -> tuple[str, ...]:
    """Return the beginning of a command in a namespace that hides harness's folder. Empty if this is not possible."""
    hide = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
    package = str(Path(harness.__file__).parent)
    if shutil.which("unshare") is None:
        return ()
    tried = subprocess.run([*hide, package, "ls", package], capture_output=True, check=False)
    return (*hide, package) if tried.returncode == 0 and not tried.stdout else ()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory, bare_python: Path) -> Iterator[str]:
    """Yield the address of a cluster with two workers, which know neither this Python nor harness's folder."""
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
            [*isolating_command(), *command, "--webui-port", "0", *arguments],
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
                readers.append(threading.Thread(target=process.communicate))  # otherwise it waits for a reader
                readers[-1].start()
                return match[1]
        raise AssertionError("".join(said)[-3000:])

    try:
        url = start("master.Master", "--port", "0", until=r"Starting Spark master at (spark://\S+)")
        for worker in ("first", "second"):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / worker))
            start("worker.Worker", *work, url, until="Successfully registered with (master)")
        yield url
    finally:
        for process in started:
            process.terminate()
        for reader in readers:
            reader.join()


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return a table per file format, with ids 0 to 3. Id 2 is deleted by position, except in `orc`."""
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


def read_on_cluster(url: str, tables: dict[str, str], python: str | None, *fault: str) -> dict[str, dict]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    if python is not None:
        environment["PYSPARK_PYTHON"] = python
    script = Path(__file__).with_name("reading_on_cluster.py")
    command = [sys.executable, str(script), url, *tables.values(), *fault]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return dict(zip(tables, map(json.loads, ran.stdout.splitlines()), strict=True))


def test_executors_get_harness_where_their_python_has_none(standalone, formats):
    found = read_on_cluster(standalone, formats, None)
    assert {name: read["rows"] for name, read in found.items()} == EXPECTED


def test_a_server_of_connect_gets_harness_where_its_python_has_none(bare_python, formats):
    found = read_on_cluster("connect", formats, str(bare_python))
    assert {name: read["rows"] for name, read in found.items()} == EXPECTED


def test_executors_without_python_read_what_spark_reads_itself(standalone, formats):
    found = read_on_cluster(standalone, formats, "/nowhere/python")
    assert found["parquet"]["rows"] == KEPT
    assert found["orc"]["rows"] == ROWS
    for name in ("orc-deletes", "avro"):
        assert found[name]["error"] == "EngineError"
        assert "they have no Python '/nowhere/python'; name one that is there" in found[name]["message"]


FILES, IN_EACH = 6, 500
GONE = range(0, IN_EACH, 7)
"""Positions of deleted rows in each file, if the table has deletes: 72 of 500."""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return six tables with equal data: plain, with positions, keys, or vectors; and Delta, plain or with vectors."""
    folder = tmp_path_factory.mktemp("shapes")
    rows = [[{"id": IN_EACH * f + i} for i in range(IN_EACH)] for f in range(FILES)]
    made = {}
    for name in ("ice-clean", "ice-positions", "ice-keys", "ice-vectors"):
        table = IcebergTable.create(folder / name, {"id": "long"}, format_version=3 if name == "ice-vectors" else 2)
        files = [table.write_data(part) for part in rows]
        table.append(*files)
        if name == "ice-positions":
            table.commit(add=[table.write_position_deletes([(file, i) for file in files for i in GONE])])
        if name == "ice-keys":
            table.commit(add=[table.write_equality_deletes(["id"], [part[i] for part in rows for i in GONE])])
        if name == "ice-vectors":
            table.commit(add=table.write_deletion_vectors({file: list(GONE) for file in files}))
        made[name] = str(table.store.directory)
    for name in ("delta-clean", "delta-vectors"):
        delta = DeltaTable.create(folder / name, {"id": "long"}, features=["deletionVectors"])
        files = [delta.write_data(part) for part in rows]
        delta.append(*files)
        if name == "delta-vectors":
            delta.delete_rows({file: list(GONE) for file in files})
        made[name] = str(delta.directory)
    return made


def live_rows(name: str) -> list[list[int]]:
    ids = range(FILES * IN_EACH)
    return [[i] for i in ids if name.endswith("clean") or i % IN_EACH not in GONE]


@pytest.mark.parametrize("fault", [None, "before", "in the scan"], ids=str)
def test_executors_that_are_killed_lose_no_row(standalone, shapes, tmp_path, fault):
    """Kill with SIGKILL: before the job that reads footers, or while rows are read and joined."""
    found = read_on_cluster(standalone, shapes, None, *(() if fault is None else (f"--kill={fault}", str(tmp_path))))
    assert {name: read["rows"] for name, read in found.items()} == {name: live_rows(name) for name in shapes}
    assert all(read["killed"] for read in found.values()) is (fault is not None)
