"""Read tables on a cluster. Each line of output is JSON: the rows, or the class and message of an error.

    python reading_on_cluster.py MASTER TABLE... [--kill=before FOLDER | --kill="in the scan" FOLDER]

With a fault, executors are killed for each table: before its frame is created, or in the task that has its first rows.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import harness

CONFIG = {"spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m", "spark.executor.memory": "512m"}
MANY = {"spark.task.maxFailures": "20", "spark.deploy.maxExecutorRetries": "-1"}


def main(master: str, tables: list[str], kill: str | None, folder: Path) -> None:
    """Read all tables."""
    if master == "connect":
        spark: Any = SparkSession.builder.remote("local[1]").getOrCreate()
    else:
        spark = harness.spark_session(master=master, config=CONFIG | MANY)
    for number, location in enumerate(tables):
        killed = kill == "before" and kill_executors(spark)
        try:
            frame = harness.open_table(location).snapshot().to_spark(spark)
            mark = folder / f"killed-{number}"
            rows = (frame.mapInArrow(killer(mark), frame.schema) if kill == "in the scan" else frame).collect()
            assert frame.count() == len(rows)
            killed = killed or mark.exists()
            print(json.dumps({"rows": sorted(map(list, rows)), "killed": killed}))
        except harness.HarnessError as error:
            print(json.dumps({"error": type(error).__name__, "message": error.message}))
    spark.stop()


def kill_executors(spark: Any) -> bool:
    """Kill all executors of this application. Return whether there were any."""
    spark.range(100).count()  # executors have arrived
    application = spark.sparkContext.applicationId
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and runs(entry, application)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return bool(pids)


def runs(process: Path, application: str) -> bool:
    """Return whether a process is an executor of an application."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application.encode() in words


def killer(mark: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pass batches on, and kill the executor of the first task that has rows."""

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows and not mark.exists():
                mark.touch()
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text("ascii").rpartition(")")[2].split()
                os.kill(int(daemon[1]), signal.SIGKILL)  # the JVM that started the daemon of the Python workers
            yield batch

    return passed


if __name__ == "__main__":
    options = [word for word in sys.argv if word.startswith("--kill=")]
    kill = options[0].removeprefix("--kill=") if options else None
    main(sys.argv[1], sys.argv[2 : -2 if options else None], kill, Path(sys.argv[-1]))
