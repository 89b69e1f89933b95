"""Inputs of queries other than tables by name: tables by location, parameter values, and data frames."""

import datetime
import importlib.util
import inspect
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.cli import main
from harness.errors import EngineError, RequestError, TableNotFoundError, UnsupportedError
from harness.queries.parameters import by_name, numbered
from harness.queries.rewrite import rewrite
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`lake/i` has rows 0, 1, and 2, one commit each. `lake/d` has 1 and 5."""
    lake = tmp_path_factory.mktemp("inputs") / "lake"
    iceberg = IcebergTable.create(lake / "i", {"id": "long"})
    for i in range(3):
        iceberg.append(iceberg.write_data([{"id": i}]))
    delta = DeltaTable.create(lake / "d", {"id": "long"})
    delta.append(delta.write_data([{"id": 1}, {"id": 5}]))
    return lake


def by_location(lake: Path) -> dict[str, list[tuple[Any, ...]]]:
    first = harness.open_table(str(lake / "i")).snapshots()[0]["id"]
    return {
        f"SELECT sum(id)::INT FROM '{lake}/i'": [(3,)],
        f"SELECT count(*) FROM '{lake}/i' AS a JOIN \"{lake}/d\" AS b USING (id)": [(1,)],
        f"SELECT max(d.id) FROM '{lake}/d/' WHERE d.id < 5": [(1,)],
        f"SELECT id FROM '{lake}/i' AT (VERSION => {first})": [(0,)],
        f"SELECT count(*) FROM given JOIN '{lake}/d' AS d ON d.id = given.id": [(1,)],
    }


def test_a_table_by_its_location(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for query, rows in by_location(lake).items():
        assert harness.sql(query, {"given": str(lake / "i")}).fetchall() == rows, query
    metadata = harness.sql(f"SELECT count(*) FROM '{lake}/i'.snapshots")
    assert metadata.fetchall() == [(3,)]
    monkeypatch.chdir(lake.parent)
    assert harness.sql("SELECT count(*) FROM 'lake/d'").fetchall() == [(2,)]
    # A given table has priority over a table at that location.
    given = harness.open_table("lake/i")
    assert harness.queries.sql.sql("SELECT count(*) FROM 'lake/d'", {"lake/d": given}).fetchall() == [(3,)]


_ODD_NAMES = ("v1.0", "a.b.c", "d.parquet", "odd\\name", "C:\\lake\\d")
"""Spellings of directories. Backslashes only separate names on Windows."""


@pytest.mark.parametrize(
    "path",
    [
        "./d",
        "./d/",
        "d/",
        ".//d",
        "././d",
        "../lake/d",
        "./i/../d",
        "~/lake/d",
        "./i/.././../lake/d",
        "file:d",
        "file:./d",
        "FILE:d",
        "file:{lake}/d",
        "file://{lake}/d",
        "{lake}/./d",
        "./v1.0",
        "./a.b.c",
        "./d.parquet",
        "odd\\name",
        "C:\\lake\\d",
        "./i/../v1.0/.",
        "i/../d/../d",
    ],
)
def test_a_directory_however_its_path_is_spelled(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    for name in _ODD_NAMES:
        if not (lake / name).exists():
            shutil.copytree(lake / "d", lake / name)
    monkeypatch.chdir(lake)
    monkeypatch.setenv("HOME", str(lake.parent))
    place = path.format(lake=lake)
    query = f"SELECT count(*) AS n FROM '{place}'"
    assert harness.sql(query).fetchall() == [(2,)]
    assert harness.connect({}).sql(query).fetchall() == [(2,)]
    assert harness.open_table(place).count() == 2
    assert main(["sql", query, "--format", "csv"]) == 0
    assert main(["sql", query, "--format", "csv", "--table", f"other={place}"]) == 0
    assert capfd.readouterr().out == "n\n2\n" * 2


@pytest.mark.parametrize(("inside", "path"), [("d", "."), ("d", "./"), ("d/_delta_log", ".."), ("i", "../d")])
def test_a_directory_by_dots_from_inside(lake: Path, monkeypatch: pytest.MonkeyPatch, inside: str, path: str) -> None:
    monkeypatch.chdir(lake / inside)
    query = f"SELECT count(*) FROM '{path}'"
    assert harness.sql(query).fetchall() == harness.connect({}).sql(query).fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("'./e'", "There is no table at './e': it is not the directory"),
        ("'file:e'", "There is no table at 'file:e'"),
        ("'..'", "There is no table at '\\.\\.': .* there are tables in it"),
        ("d", "There is no table d; there is a table at \\./d; use its path, in SQL in quotes"),
        ("'d'", "There is no table d; there is a table at \\./d; use its path, in SQL in quotes"),
    ],
)
def test_a_directory_that_is_not_meant_or_not_there(
    lake: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    (lake / "empty").mkdir(exist_ok=True)
    monkeypatch.chdir(lake / "empty" if name == "'..'" else lake)
    for sql in (harness.sql, harness.connect({}).sql):
        with pytest.raises(TableNotFoundError, match=hint):
            sql(f"SELECT count(*) FROM {name}")


def test_a_table_by_its_location_on_spark(lake: Path, spark: Any) -> None:
    for query, rows in by_location(lake).items():
        assert harness.sql(query, {"given": str(lake / "i")}, engine="spark", spark=spark).collect() == rows, query
    own = harness.sql(f"SELECT count(*) FROM `{lake}/d`", engine="spark", dialect="spark", spark=spark)
    assert own.collect() == [(2,)]


DAY = datetime.date(2024, 1, 31)
BOUND: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "SELECT id FROM t WHERE id >= ? AND s <> ? ORDER BY id": ([1, "b'; DROP"], [(1,), (2,)]),
    "SELECT $2 || s, $1 + id FROM t WHERE id = $1": ([2, "x"], [("xc", 4)]),
    "SELECT $day AS day, $d, $x IS NULL, $f FROM t WHERE id = $k": (
        {"day": DAY, "d": Decimal("1.50"), "x": None, "f": 0.1, "k": 0},
        [(DAY, Decimal("1.50"), True, 0.1)],
    ),
    "SELECT count(*) FROM t WHERE day BETWEEN $from AND $to": ({"from": DAY, "to": DAY}, [(1,)]),
    "SELECT ?, s = '?' FROM t WHERE id IN (?, 7)": ([True, 1], [(True, False)]),
    "SELECT ? AS b, epoch(? AT TIME ZONE 'UTC') FROM t LIMIT 1": (
        [b"\x00\xff", datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.UTC)],
        [(b"\x00\xff", 3600.0)],
    ),
}


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows 0, 1, and 2 with a text and a day, one file each."""
    t = IcebergTable.create(tmp_path_factory.mktemp("bound") / "t", {"id": "int", "s": "string", "day": "date"})
    for i, s in enumerate("abc"):
        t.append(t.write_data([{"id": i, "s": s, "day": DAY.toordinal() - 719163 + i}]))
    return t.location


@pytest.mark.parametrize("query", BOUND)
def test_values_are_bound(bound: str, query: str) -> None:
    params, rows = BOUND[query]
    assert harness.sql(query, {"t": bound}, params=params).fetchall() == rows


def test_values_are_bound_on_spark(bound: str, spark: Any) -> None:
    for query, (params, rows) in BOUND.items():
        assert harness.sql(query, {"t": bound}, params=params, engine="spark", spark=spark).collect() == rows, query
    own = harness.sql("SELECT id FROM t WHERE s = :s", {"t": bound}, params={"s": "b"}, engine="spark", dialect="spark")
    assert own.collect() == [(1,)]
    own = harness.sql("SELECT id FROM t WHERE s = ?", {"t": bound}, params=["b"], engine="spark", dialect="spark")
    assert own.collect() == [(1,)]
    with pytest.raises(UnsupportedError, match="Cannot run a value of type list on Spark"):
        harness.sql("SELECT ?", params=[[1]], engine="spark", spark=spark)


def test_values_skip_files(bound: str) -> None:
    for query, values in (
        ("SELECT s FROM t WHERE id = ?", [2]),
        ("SELECT s FROM t WHERE day >= $1 AND id > -1", [DAY + datetime.timedelta(days=2)]),
        ("SELECT s FROM t WHERE s = $s", {"s": "c"}),
    ):
        schema = harness.open_table(bound).snapshot().schema
        (read,) = rewrite(numbered(query, "duckdb"), {"t": schema}, values=by_name(values)).references
        plan = harness.open_table(bound).snapshot().plan(where=read.where)
        assert plan.files.num_rows == 1, query


@pytest.mark.parametrize(
    ("query", "params", "message"),
    [
        ("SELECT ?, ?", [1], r"Cannot bind the query's values: .*parameters: 2; give one for each"),
        ("SELECT $a", {"a": 1, "b": 2}, r"Cannot bind the query's values: .*b; give"),
        ("SELECT ?", None, r"Cannot bind the query's values"),
        ("SELECT ?", "text", r"Invalid option params: expected a list or a mapping, got text"),
        ("SELECT ?", 5, r"Invalid option params: expected a list or a mapping, got int"),
    ],
)
def test_values_that_do_not_fit_are_refused(query: str, params: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        harness.sql(query, params=params)


def test_values_of_the_command(bound: str, capfd: pytest.CaptureFixture[str]) -> None:
    def printed(query: str, *values: str) -> str:
        arguments = [word for value in values for word in ("--param", value)]
        main(["sql", query, "--table", f"t={bound}", "--format", "csv", *arguments])
        captured = capfd.readouterr()
        return captured.out + captured.err

    assert printed("SELECT s FROM t WHERE id = ? AND s > ?", "1", "a") == "s\nb\n"
    assert printed("SELECT $x || s AS v FROM t WHERE id = $k", "x=a=b", "k=0") == "v\na=ba\n"
    assert printed("SELECT $1 AS v", "x=1") == "v\nx=1\n"
    assert printed("SELECT typeof($1) AS v", '"12"') == "v\nVARCHAR\n"
    assert "--param 7: use NAME=VALUE for every value or for none" in printed("SELECT $x", "x=1", "7")
    assert printed(f"SELECT max(id) AS v FROM '{bound}' WHERE s <= $s", "s=b") == "v\n1\n"


@pytest.mark.parametrize("name", inspect.signature(harness.sql).parameters)
def test_a_table_may_have_the_name_of_an_option(bound: str, name: str) -> None:
    assert harness.sql(f'SELECT count(*) FROM "{name}"', {name: bound}).fetchall() == [(3,)]


def frames() -> dict[str, Any]:
    columns = {"id": [0, 2, 7], "n": ["x", None, "z"]}
    found: dict[str, Any] = {"arrow": pa.table(columns), "batches": pa.table(columns).to_reader()}
    for module in ("pandas", "polars"):
        if importlib.util.find_spec(module) is not None:
            found[module] = importlib.import_module(module).DataFrame(columns)
    return found


@pytest.mark.parametrize("kind", frames())
def test_a_frame_beside_a_lake_table(bound: str, kind: str) -> None:
    query = "SELECT s, f.n FROM t JOIN f USING (id) WHERE f.id < 5 ORDER BY s"
    joined = harness.sql(query, {"t": bound, "f": frames()[kind]})
    assert joined.fetchall() == [("a", "x"), ("c", None)]
    alone = harness.sql("SELECT count(*), count(n) FROM f", {"f": frames()[kind]})
    assert alone.fetchall() == [(3, 2)]
    both = {"sales.orders": bound, "params": frames()[kind]}
    found = harness.sql('SELECT max(x.id) FROM "sales.orders" AS x, params WHERE x.id = params.id', both)
    assert found.fetchall() == [(2,)]


def test_a_frame_of_pandas_has_no_index_and_a_wrong_frame_is_refused(bound: str) -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"id": [1, 2]}, index=["a", "b"])
    assert harness.sql("FROM f WHERE id > 1", {"f": rows}).fetchall() == [(2,)]
    mixed = pandas.DataFrame({"id": [1, "x"]})
    with pytest.raises(RequestError, match=r"Cannot read the frame 'f' as Arrow: .*id"):
        harness.sql("FROM f", {"f": mixed})
    with pytest.raises(RequestError, match="Invalid table 'f': expected a table, a snapshot, a location or a frame"):
        harness.sql("FROM f", {"f": [1, 2]})
    with pytest.raises(EngineError, match="Did you mean id"):
        harness.sql("SELECT idd FROM f", {"f": rows})
    with pytest.raises(UnsupportedError, match="Cannot read the frame 'f' on Spark: DuckDB reads frames"):
        harness.sql("FROM t JOIN f USING (id)", {"t": bound, "f": rows}, engine="spark")
