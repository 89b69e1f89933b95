"""Drawn queries over drawn tables: DuckDB over plans, Spark, and DuckDB over plain rows agree."""

import os
import shutil
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from drawn.profiles import property_settings
from drawn.strategies.queries import TABLES, queries, rows
from hypothesis import event, given
from hypothesis import strategies as st

import harness
from harness.engines.duckdb.instance import cursor
from harness.writing.iceberg.builder import IcebergTable


def written(place: Path, name: str, drawn: list[dict[str, object]], size: int) -> harness.Table:
    """Write a table with `size` rows per file. The first row of each file occurs once more and is deleted there.

    The deleted copy keeps the bounds narrow.
    """
    table = IcebergTable.create(place / name, TABLES[name], format_version=2)
    files = [table.write_data([*drawn[i : i + size], drawn[i]]) for i in range(0, len(drawn), size)]
    if files:
        table.append(*files)
        places = [(file, len(drawn[i * size : (i + 1) * size])) for i, file in enumerate(files)]
        table.append(table.write_position_deletes(places))
    return harness.open_table(str(place / name))


def plain(drawn: dict[str, list[dict[str, object]]]) -> duckdb.DuckDBPyConnection:
    """Return a connection with the rows in plain DuckDB tables."""
    connection = cursor()
    for name, columns in TABLES.items():
        types = ", ".join(f"{c} {_NAMES.get(t, t)}" for c, t in columns.items())
        connection.execute(f"CREATE OR REPLACE TEMPORARY TABLE {name} ({types})")
        values = [[_comparable(row[c], t) for c, t in columns.items()] for row in drawn[name]]
        if values:
            listed = ", ".join(f"({', '.join(row)})" for row in values)
            connection.execute(f"INSERT INTO {name} VALUES {listed}")
    return connection


_NAMES = {"string": "VARCHAR", "list<int>": "INTEGER[]"}


def _comparable(value: object, type_: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"[{', '.join(_comparable(v, 'int') for v in value)}]"
    return f"DATE '1970-01-01' + {value}" if type_ == "date" else f"'{value}'"


def check(drawn: dict[str, list[dict[str, object]]], query: str, size: int, engine: str, spark: object = None) -> None:
    """Raise an error if an engine's rows differ from those of DuckDB over the rows themselves."""
    with tempfile.TemporaryDirectory(prefix="harness-query-") as place:
        tables = {name: written(Path(place), name, drawn[name], size) for name in TABLES}
        expected = row_counts(plain(drawn).sql(query).fetchall())
        try:
            if engine == "spark":
                found = [tuple(row) for row in harness.sql(query, tables, engine="spark", spark=spark).collect()]
            else:
                found = harness.sql(query, tables).fetchall()
        except harness.UnsupportedError as error:
            if engine != "spark":
                raise
            event(f"refused: {str(error).partition(' on Spark')[0]}")
            return
        if row_counts(found) != expected:
            write_repro(Path(place), query)
        assert row_counts(found) == expected


def row_counts(rows: list[tuple[object, ...]]) -> Counter[str]:
    """Return the number of occurrences of each row."""
    return Counter(repr(tuple(map(_whole, row))) for row in rows)


def _whole(value: object) -> object:
    """Convert sums of integers, which harness returns as decimals without fraction digits."""
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def write_repro(place: Path, query: str) -> None:
    """Write the tables and the query to the directory in HARNESS_REPRO. The smallest failure is written last."""
    repro = os.environ.get("HARNESS_REPRO")
    if repro is not None:
        target = Path(repro, "query")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place, target)
        (target / "query.sql").write_text(query + "\n", "utf-8")
        shown = " ".join(f"--table {name}={name}" for name in TABLES)
        (target / "run.sh").write_text(f'harness sql --engine duckdb {shown} "$(cat query.sql)"\n', "utf-8")


DRAWN = st.fixed_dictionaries({name: rows(name) for name in TABLES})


@property_settings(10)
@given(DRAWN, queries(), st.integers(1, 4))
def test_on_duckdb(drawn, query, size) -> None:
    check(drawn, query, size, "duckdb")


@pytest.mark.harness_spark
def test_on_spark(spark) -> None:
    @property_settings(8)
    @given(DRAWN, queries(), st.integers(1, 4))
    def holds(drawn, query, size) -> None:
        check(drawn, query, size, "spark", spark)

    holds()
