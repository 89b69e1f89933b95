"""Queries as sides: last bits that depend on the engine pass within the text's allowance, and nothing else does."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.differ.opening import Query
from harness.differ.query_batch import QueryRun
from harness.differ.result import BatchOutcome, QueryFile
from harness.testing.writing.iceberg.builder import IcebergTable

ROWS = [
    {"g": "a", "x": Decimal("1.00"), "y": 0.5},
    {"g": "a", "x": Decimal("2.00"), "y": 0.25},
    {"g": "b", "x": Decimal("5.00"), "y": 1.0},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> harness.Table:
    t = IcebergTable.create(
        tmp_path_factory.mktemp("queries") / "t", {"g": "string", "x": "decimal(9,2)", "y": "double"}
    )
    t.append(t.write_data(ROWS))
    return harness.open_table(t.location)


def moved(value: float, ulps: int) -> float:
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def groups(first: float, second: float) -> pa.Table:
    return pa.table({"g": ["a", "b"], "v": [first, second]})


AVERAGES = "SELECT g, avg(x) AS v FROM t GROUP BY g"


@pytest.mark.parametrize("keys", [(), ("g",)], ids=["counted", "keyed"])
@pytest.mark.parametrize(
    ("query", "first", "equal"),
    [
        *((AVERAGES, 1.5, True), (AVERAGES, moved(1.5, 16), True), (AVERAGES, moved(1.5, 17), False)),
        ("SELECT g, max(y) AS v FROM t GROUP BY g", moved(0.5, 1), False),
        ("SELECT g, round(avg(x), 1) AS v FROM t GROUP BY g", moved(1.5, 1), False),
    ],
    ids=["the-same", "16-ulps", "17-ulps", "a-value", "rounded"],
)
@pytest.mark.parametrize("first_is_query", [True, False])
def test_allowances(table, query: str, first: float, equal: bool, keys: tuple[str, ...], first_is_query: bool) -> None:
    other = groups(first, 1.0 if "max" in query else 5.0)
    sides = (
        (harness.Query(query, {"t": table}), other) if first_is_query else (other, harness.Query(query, {"t": table}))
    )
    found = harness.compare(*sides, keys=keys)
    assert found.equal is equal
    assert (found.left.rows, found.right.rows) == (2, 2)
    names = (found.left.name, found.right.name)
    assert names[0 if first_is_query else 1] == "query on t"
    if equal and first != 1.5:
        assert found.allowed == 1
        assert "tolerance of v: 16 ulps, because an average" in found.to_text()


def test_a_location_and_an_engine_of_its_own(table) -> None:
    query = harness.Query("SELECT count(*) AS n FROM t", {"t": table.location})
    assert harness.compare((query, "duckdb"), query).equal


@pytest.mark.harness_spark
def test_both_engines(tmp_path: Path, spark) -> None:
    t = IcebergTable.create(tmp_path / "t", {"x": "decimal(9,2)"})
    t.append(t.write_data([{"x": Decimal("0.05")}] * 3))
    query = harness.Query("SELECT avg(x) AS v FROM t", {"t": t.location})
    assert harness.compare(query, query, engines=("duckdb", "spark"), spark=spark).equal


def test_sides_are_opened_by_location_and_moment(table, tmp_path: Path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    t.append(t.write_data([{"id": 2}]))
    first, second = (each["id"] for each in harness.open_table(t.location).snapshots())
    place = str(t.location)
    found = harness.compare(place, at=(first, second))
    assert (found.only_right, found.left.snapshot, found.right.snapshot) == (1, first, second)
    assert {found.left.engine, found.right.engine} == {f"duckdb {duckdb.__version__}"}
    assert harness.compare(tmp_path / "t", (place, "oracle"), at=f"snapshot={first}").equal
    assert harness.compare(place, at="main", engines="oracle, duckdb").equal
    assert harness.compare(place, pa.table({"id": [1, 2]}), at=(second, None), engines="oracle").equal


@pytest.mark.parametrize(
    ("sides", "how", "sentence"),
    [
        ((pa.table({"a": [1]}),), {}, "with nothing"),
        ((pa.table({"a": [1]}), None), {}, "right side, of type NoneType"),
        ((pa.table({"a": [1]}), pa.table({"a": [1]})), {"at": 1}, "for tables, and an object of type Table"),
        (("rows.csv", "t"), {"at": "main"}, "for tables, and rows.csv"),
        (("t", "t"), {"at": (1, 2, 3)}, "Invalid at"),
        (("t", "t"), {"engines": ("duckdb",)}, "Invalid engines"),
        (("nowhere.at.all", "t"), {"at": "snapshot=x"}, "nowhere"),
    ],
)
def test_a_side_that_is_none_is_refused(sides, how, sentence: str) -> None:
    with pytest.raises(harness.HarnessError, match=sentence):
        harness.compare(*sides, **how)


@pytest.mark.parametrize(("dialect", "outcome"), [("spark", BatchOutcome.EQUAL), ("duckdb", BatchOutcome.DIFFERENT)])
def test_types_of_sums_are_each_engines_own(monkeypatch, dialect: str, outcome: BatchOutcome) -> None:
    results = {"spark": pa.decimal128(19, 2), "duckdb": pa.decimal128(38, 2)}

    def result(self: Query, engine: str, spark: object) -> pa.Table:
        name = f"sum on {engine}" if dialect == "spark" else "s"
        return pa.table({name: pa.array([Decimal("1.50")], results[engine])})

    monkeypatch.setattr(Query, "run", result)
    run = QueryRun(engines=("spark", "duckdb"), tables=({}, {}), dialect=dialect)
    entry = run.entry(QueryFile(name="q", text="SELECT sum(x) FROM t"))
    assert entry.outcome is outcome
    assert entry.document is not None
    assert [each["rule"] for each in entry.document["schema"]] == [None if dialect == "duckdb" else "decimal precision"]
