"""Reads of the benchmark tables by Spark, as ratios to Spark's plain read of the same data files, in one run.

The tables are those of `test_reads.py`. `scan` runs a frame that was made before; `end to end` opens the table, plans,
lowers and runs. Nothing here asserts a time: the answers are asserted, the numbers are printed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from measuring import medians
from test_reads import tables  # noqa: F401

import harness
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

TABLES = {
    "no deletes": "ice_clean",
    "position deletes": "ice_pos",
    "deletion vectors": "ice_dv",
    "equality deletes": "ice_eq",
    "Delta, no deletes": "delta_clean",
    "Delta, deletion vectors": "delta_dv",
}
SUMS = ("count(*)", "sum(k)", "sum(id)")
ALL_COLUMNS = (*SUMS, "sum(v)", "max(s)", "max(d)", "sum(int(flag))", "sum(amt)")
MANY = 10_000

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(
    ("label", "sums", "where"),
    [
        pytest.param("full scan, two columns", SUMS, None, id="full-scan"),
        pytest.param("full scan, all columns", ALL_COLUMNS, None, id="all-columns"),
        pytest.param("1,000 rows by a range", SUMS, "id BETWEEN 9000500 AND 9001499", id="range"),
    ],
)
def test_reads_print_their_ratios(
    tables: Path,  # noqa: F811
    spark: Any,
    label: str,
    sums: tuple[str, ...],
    where: str | None,
) -> None:
    def answer(frame: Any) -> Any:
        return (frame if where is None else frame.where(where)).selectExpr(*sums).collect()

    plain = spark.read.parquet(str(tables / "data"))
    contenders = {"plain": lambda: answer(plain)}
    for name, table in TABLES.items():
        prepared = harness.open_table(str(tables / table)).snapshot().to_spark(spark, where=where)
        contenders[f"{name}, scan"] = lambda frame=prepared: answer(frame)

        def end_to_end(table: str = table) -> Any:
            return answer(harness.open_table(str(tables / table)).snapshot().to_spark(spark, where=where))

        contenders[f"{name}, end to end"] = end_to_end
    times = medians(contenders, rounds=3)
    print(f"\n{label}: Spark's plain read {times['plain'] * 1000:.0f} ms")
    for name, seconds in times.items():
        print(f"  {name:38} {seconds / times['plain']:6.2f}")


@pytest.mark.parametrize("table", TABLES.values())
def test_answers_are_right(tables: Path, spark: Any, table: str) -> None:  # noqa: F811
    expected = tuple(json.loads((tables / "truth.json").read_text())[table])
    (answer,) = harness.open_table(str(tables / table)).snapshot().to_spark(spark).selectExpr(*SUMS).collect()
    assert tuple(map(int, answer)) == expected


def test_first_row_of_many_files(tmp_path: Path, spark: Any) -> None:
    """From the opened table to the first row; the plan's own time is printed apart."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "name": "string"})
    handle = table.write_data([{"id": 1, "name": "a"}])
    rows = pq.read_table(handle.file)
    folder = Path(handle.file).parent
    names = [f"part-{i:05d}.parquet" for i in range(MANY)]
    for name in names:
        pq.write_table(rows, folder / name)
    size = (folder / names[0]).stat().st_size
    add = {"partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    lines = [json.dumps({"add": {"path": name, **add}}) for name in names]
    log = tmp_path / "t" / "_delta_log"
    version = 1 + max(int(file.stem) for file in log.glob("*.json"))
    (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n")
    snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
    taken = {}
    for _ in range(3):
        started = time.perf_counter()
        plan = snapshot.plan()
        taken["plan"] = time.perf_counter() - started
        first = snapshot.to_spark(spark).limit(1).collect()
        taken["plan, lower, first row"] = time.perf_counter() - started - taken["plan"]
    assert plan.files.num_rows == MANY
    assert [tuple(row) for row in first] == [(1, "a")]
    print(f"\n{MANY:,} files: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in taken.items()))


def test_small_reads(tmp_path: Path, spark: Any) -> None:
    """Two files and a delete, on a warm session: what a property test does thousands of times."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "name": "string"})
    handle = table.write_data([{"id": i, "name": str(i)} for i in (1, 2, 3)])
    table.append(handle, table.write_data([{"id": i, "name": str(i)} for i in (4, 5)]))
    table.commit(add=[table.write_position_deletes([(handle, 1)]), table.write_equality_deletes(["id"], [{"id": 5}])])
    location = str(tmp_path / "t")
    times = []
    for _ in range(20):
        started = time.perf_counter()
        rows = harness.open_table(location).snapshot().to_arrow(engine="spark")
        times.append(time.perf_counter() - started)
    assert sorted(rows.column("id").to_pylist()) == [1, 3, 4]
    print(f"\nsmall read: first {times[0]:.2f} s, then median {sorted(times[5:])[7] * 1000:.0f} ms")
