"""Measure how costs grow with columns, versions, and findings: processor seconds at n and at 4n, and their ratio.

    python programs/benchmarks/bench_growth.py

Linear costs have a ratio of at most 4, and less if there is a fixed part; quadratic costs have 16. Each measurement
runs in a separate process.
"""

import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness
from harness.cli import main as run
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def wide(builder: type[DeltaTable] | type[IcebergTable], place: Path, columns: int) -> str:
    """Return the location of a table with one row and a number of integer columns."""
    table = builder.create(place, {f"c{i}": "long" for i in range(columns)})
    table.append(table.write_data([{f"c{i}": i for i in range(columns)}]))
    return str(place)


def long(place: Path, versions: int, *, missing: bool = False) -> str:
    """Return the location of a table with a number of commits of one file each.

    If `missing` is true, the files do not exist.
    """
    table = DeltaTable.create(place, {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    log = place / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{1:020}.json").read_text("utf-8").splitlines()]
    for version in range(2, versions):
        for line in lines:
            if "add" in line:
                line["add"]["path"] = f"f{version}.parquet"
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
        if not missing:
            (place / f"f{version}.parquet").touch()
    return str(place)


def checked_values(place: Path, number: int) -> Callable[[], object]:
    """Check the values of a number of columns."""
    location = wide(DeltaTable, place, number)
    return lambda: harness.open_table(location).check(level="data")


def metadata_files(place: Path, number: int) -> Callable[[], object]:
    """Print the table `files` of an Iceberg table with a number of columns."""
    location = wide(IcebergTable, place, number)
    return lambda: run(["metadata", location, "files", "--format", "json", "--output", str(place / "out.json")])


def compared(place: Path, number: int) -> Callable[[], object]:
    """Compare a table with a number of columns with itself."""
    location = wide(DeltaTable, place, number)
    return lambda: harness.compare(location, location)


def all_columns(place: Path, number: int) -> Callable[[], object]:
    """Read a number of columns."""
    location = wide(DeltaTable, place, number)
    return lambda: harness.sql("SELECT * FROM t", {"t": location}).fetchall()


def checked_versions(place: Path, number: int) -> Callable[[], object]:
    """Check a number of versions."""
    location = long(place, number)
    return lambda: harness.open_table(location).check(level="metadata", all_snapshots=True)


def reported_findings(place: Path, number: int) -> Callable[[], object]:
    """Report a number of findings as HTML."""
    location = long(place, number, missing=True)
    return lambda: run(["check", location, "--format", "html", "--output", str(place / "out.html")])


CASES = {
    "columns: check --level data": (checked_values, 500),
    "columns: metadata files as JSON": (metadata_files, 100),
    "columns: diff": (compared, 1_000),
    "columns: select *": (all_columns, 1_000),
    "versions: check --all-snapshots": (checked_versions, 250),
    "findings: check --format html": (reported_findings, 250),
}


def measured(case: str, number: int) -> tuple[float, int]:
    """Return the processor seconds of a case, and the peak memory of its process in MiB."""
    make, _ = CASES[case]
    with tempfile.TemporaryDirectory() as place:
        work = make(Path(place) / "table", number)
        began = time.process_time()
        work()
        seconds = time.process_time() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Print a line for each case."""
    print(f"{'case':34}{'n':>8}{'s':>8}{'MiB':>7}{'4n':>8}{'s':>8}{'MiB':>7}{'ratio':>7}")
    for case, (_, number) in CASES.items():
        figures = []
        for size in (number, 4 * number):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                figures.append(pool.apply(measured, (case, size)))
        (first, small), (second, large) = figures
        line = f"{number:8,}{first:8.2f}{small:7}{4 * number:8,}{second:8.2f}{large:7}{second / first:7.1f}"
        print(f"{case:34}{line}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    main()
