"""Comparisons of 20 million rows, as ratios to the slower engine's own scan of all columns, and what memory they take.

The tables are those of `test_reads.py`. An engine's own scan is its plain read of the same data files, every column
decoded: Spark writes to its sink `noop`, DuckDB sums and takes greatest values. Nothing here asserts a time: the
answers are asserted, the numbers are printed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from measuring import medians, peaks
from test_reads import ALL_COLUMNS, plain, tables  # noqa: F401

import harness

ROWS = 20_000_000

pytestmark = pytest.mark.bench


def duckdb_scan(tables: Path) -> Callable[[], Any]:  # noqa: F811
    connection = duckdb.connect()
    query = ALL_COLUMNS.format(plain(tables))
    return lambda: connection.sql(query).fetchall()


def spark_scan(tables: Path, spark: Any) -> Callable[[], Any]:  # noqa: F811
    frame = spark.read.parquet(str(tables / "data"))
    return lambda: frame.write.format("noop").mode("overwrite").save()


@pytest.mark.parametrize(
    ("table", "options"),
    [
        pytest.param("ice_clean", {}, id="no-deletes"),
        pytest.param("ice_dv", {}, id="deletion-vectors"),
        pytest.param("ice_clean", {"keys": ["id"]}, id="keys"),
    ],
)
def test_comparisons_print_their_ratios(
    tables: Path,  # noqa: F811
    spark: Any,
    table: str,
    options: dict[str, Any],
) -> None:
    snapshot = harness.open_table(str(tables / table)).snapshot()
    found = []

    def compared() -> None:
        found.append(harness.compare(snapshot, snapshot, engines=("duckdb", "spark"), spark=spark, **options))

    contenders = {"DuckDB": duckdb_scan(tables), "Spark": spark_scan(tables, spark), "comparison": compared}
    with peaks(spark) as peak:
        times = medians(contenders, rounds=2)
    assert all(comparison.equal for comparison in found)
    slower = max(times["DuckDB"], times["Spark"])
    print(f"\n{table} {options or ''}: DuckDB's scan {times['DuckDB']:.2f} s, Spark's {times['Spark']:.2f} s")
    print(f"  comparison {times['comparison']:.2f} s: {times['comparison'] / slower:.2f} of the slower scan")
    print("  peak of resident memory: " + ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in peak.items()))
