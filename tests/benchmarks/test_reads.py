"""Reads of the benchmark tables by DuckDB, as ratios to DuckDB's plain read of the same data files, in one run.

The tables are 10 files of 2 million rows with 1 % deleted, written by `make_tables.py` of the folder that HARNESS_BENCH
names (default `../shared/bench`), with the right answers beside them. `scan` runs a prepared view; `end to end` opens
the table, plans, prepares and runs. Nothing here asserts a time: the answers are asserted, the ratios are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from measuring import medians

import harness
from harness.engines.duckdb import connect, register
from harness.engines.duckdb.lowering import Use

ROOT = Path(__file__).parents[2]
BENCH = Path(os.environ.get("HARNESS_BENCH", ROOT / "../shared/bench"))
TABLES = {"no deletes": "ice_clean", "position deletes": "ice_pos", "deletion vectors": "ice_dv", "equality": "ice_eq"}
RANGE = "id BETWEEN 9000500 AND 9001499"  # 1,000 rows of one file
SUMS = "SELECT count(*), sum(k), sum(id) FROM {}"
ALL_COLUMNS = "SELECT count(*), sum(k), sum(id), sum(v), max(s), max(d), sum(flag::INT), sum(amt) FROM {}"

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def tables() -> Path:
    if not (BENCH / "make_tables.py").is_file():
        pytest.skip(f"no benchmark tables: {BENCH} has no make_tables.py; set HARNESS_BENCH")
    folder = ROOT / ".bench"
    subprocess.run([sys.executable, str(BENCH / "make_tables.py"), str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return connect()


def plain(tables: Path) -> str:
    return f"read_parquet({sorted(map(str, (tables / 'data').glob('*.parquet')))})"


def view(tables: Path, connection: duckdb.DuckDBPyConnection, table: str, **selection: object) -> str:
    use = Use.VIEW if "where" in selection else Use.ONCE
    plan = harness.open_table(str(tables / table)).snapshot().plan(**selection)
    register(plan, connection, table, use=use)
    return table


@pytest.mark.parametrize(
    ("label", "query", "selection"),
    [
        pytest.param("full scan, two columns", SUMS, {"columns": ["id", "k"]}, id="full-scan"),
        pytest.param("full scan, all columns", ALL_COLUMNS, {}, id="all-columns"),
        pytest.param("1,000 rows by a range", SUMS, {"columns": ["id", "k"], "where": RANGE}, id="range"),
    ],
)
def test_reads_print_their_ratios(tables: Path, connection, label: str, query: str, selection: dict) -> None:
    where = f" WHERE {selection['where']}" if "where" in selection else ""
    contenders = {"plain": lambda: connection.sql(query.format(plain(tables)) + where).fetchall()}
    for name, table in TABLES.items():
        prepared = query.format(view(tables, connection, table, **selection))
        contenders[f"{name}, scan"] = lambda q=prepared: connection.sql(q).fetchall()

        def end_to_end(table: str = table) -> object:
            return connection.sql(query.format(view(tables, connection, table, **selection))).fetchall()

        contenders[f"{name}, end to end"] = end_to_end
    times = medians(contenders, rounds=5)
    print(f"\n{label}: plain read {times['plain'] * 1000:.1f} ms")
    for name, seconds in times.items():
        print(f"  {name:32} {seconds / times['plain']:6.2f}")


@pytest.mark.parametrize("table", TABLES.values())
def test_answers_are_right(tables: Path, connection, table: str) -> None:
    expected = tuple(json.loads((tables / "truth.json").read_text())[table])
    ((*answer,),) = connection.sql(SUMS.format(view(tables, connection, table))).fetchall()
    assert tuple(map(int, answer)) == expected
