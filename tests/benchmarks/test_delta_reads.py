"""Reads of the Delta benchmark tables by DuckDB, as ratios to its plain read of the same data files, in one run.

As `test_reads`, with the same tables and queries: nothing here asserts a time, the answers are asserted and the ratios
are printed. Targets for the full scan: 1.1 without deletes, 1.3 with 1 % deleted by deletion vectors.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from measuring import medians
from test_reads import ALL_COLUMNS, RANGE, SUMS, connection, plain, tables, view

__all__ = ["connection", "tables"]  # fixtures

TABLES = {"no deletes": "delta_clean", "deletion vectors": "delta_dv"}

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(
    ("label", "query", "selection"),
    [
        pytest.param("full scan, two columns", SUMS, {"columns": ["id", "k"]}, id="full-scan"),
        pytest.param("full scan, all columns", ALL_COLUMNS, {}, id="all-columns"),
        pytest.param("1,000 rows by a range", SUMS, {"columns": ["id", "k"], "where": RANGE}, id="range"),
    ],
)
def test_delta_reads_print_their_ratios(
    tables: Path, connection: duckdb.DuckDBPyConnection, label: str, query: str, selection: dict
) -> None:
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
def test_delta_answers_are_right(tables: Path, connection: duckdb.DuckDBPyConnection, table: str) -> None:
    expected = tuple(json.loads((tables / "truth.json").read_text())[table])
    ((*answer,),) = connection.sql(SUMS.format(view(tables, connection, table))).fetchall()
    assert tuple(map(int, answer)) == expected
