"""Sides that are not lake tables: files, tables and queries of other databases, and queries over tables."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import harness
from harness.diff import source_reading
from harness.diff.compare import compare
from harness.diff.opening import Query
from harness.diff.query_batch import QueryRun
from harness.diff.result import BatchOutcome, QueryFile
from harness.diff.sources import RowSource, SourceKind
from harness.errors import EngineError, MissingFileError, RequestError, TableNotFoundError
from harness.writing.iceberg.builder import IcebergTable

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "total": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(10, 2)),
        "day": pa.array([date(2024, 1, 1), date(2024, 1, 2)]),
        "at": pa.array(
            [datetime(2024, 1, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC")
        ),
        "note": pa.array(["007", None]),
        "share": pa.array([0.1, None], pa.float32()),
    }
)
CSV = (
    "id,total,day,at,note,share\n1,1.5,2024-01-01,2024-01-01 01:00:00,007,0.1\n"
    "2,2,2024-01-02,2024-01-01T04:00:00+02,,\n"
)
JSON = (
    '{"id":1,"total":1.5,"day":"2024-01-01","at":"2024-01-01 01:00:00","note":"007","share":0.1}\n'
    '{"id":2,"total":2.00,"day":"2024-01-02","at":"2024-01-01T02:00:00Z","note":null,"share":null}\n'
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_source(name: str) -> str:
    """Write a source with ROWS in the current directory."""
    match name.rpartition(".")[2]:
        case "csv":
            Path(name).write_text(CSV)
        case "tsv":
            Path(name).write_text(CSV.replace(",", "\t"))
        case "ndjson":
            Path(name).write_text(JSON)
        case "parquet":
            pa.parquet.write_table(ROWS, name)
        case "feather":
            pa.feather.write_feather(ROWS, name)
        case "arrows":
            with pa.ipc.new_stream(name, ROWS.schema) as stream:
                stream.write_table(ROWS)
        case _:
            with duckdb.connect("old.duckdb") as connection:
                connection.register("rows", ROWS)
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute(
                    "CREATE SCHEMA s; CREATE TABLE s.orders AS SELECT id::INT AS id, total::DECIMAL(12, 3) AS total, "
                    'day, "at"::TIMESTAMP AS "at", note, share::DOUBLE AS share FROM rows'
                )
    return name


NAMES = ["o.csv", "o.tsv", "o.ndjson", "o.parquet", "o.feather", "o.arrows", "duckdb:old.duckdb#s.orders"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "direct_rows"), [*((name, 50_000) for name in NAMES), ("o.csv", 0)])
def test_a_source_is_compared_by_value(name: str, direct_rows: int) -> None:
    write_source(name)
    found = compare(ROWS, name, keys=["id"], direct_rows=direct_rows, tolerance={"share": "1e-7 relative"})
    assert found.equal, found.to_text()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("1.5,1.5,2024-01-01,2024-01-01 01:00:00,007,0.1", "id"),
        ("1,1.5,2024-01-01 12:00:00,2024-01-01 01:00:00,007,0.1", "day"),
        ("1,1.5,2024-01-01,2024-01-01 01:00:00.1234567,007,0.1", "at"),
        ("1,1e3,2024-01-01,2024-01-01 01:00:00,007,0.1", "total"),
    ],
)
def test_text_is_never_rounded_into_a_type(line: str, column: str) -> None:
    Path("o.csv").write_text(f"id,total,day,at,note,share\n{line}\n")
    found = compare("o.csv", ROWS)
    assert isinstance(found.left.error, EngineError)
    assert f"column {column} has a text that is not of type " in str(found.left.error)


@pytest.mark.usefixtures("here")
def test_digits_beyond_the_other_sides_scale_are_a_difference() -> None:
    Path("o.csv").write_text("id,total\n1,1.504\n2,2\n")
    found = compare(ROWS, "o.csv", keys=["id"], columns=["id", "total"])
    assert (found.changed, found.by_column[0].largest) == (1, "0.004000000000")
    exactly = {"total": "0.004"}  # exact, not as doubles
    assert compare(ROWS, "o.csv", keys=["id"], columns=["id", "total"], tolerance=exactly).equal


@pytest.mark.usefixtures("here")
def test_queries_stand_for_tables() -> None:
    write_source("duckdb:old.duckdb#s.orders")
    found = compare("duckdb:old.duckdb#SELECT id + 0 AS id FROM s.orders", "duckdb:#FROM range(1, 3) t(id)")
    assert found.equal
    source = RowSource.parse(write_source("o.csv"))
    assert source is not None
    assert compare(source.with_query("SELECT max(note) AS n FROM t"), pa.table({"n": ["007"]})).equal


@pytest.mark.usefixtures("here")
def test_text_results_of_a_query_are_converted_to_the_types_of_the_other_side() -> None:
    Path("o.csv").write_text("number,total,day,note\n1, 1.50 ,-,007\n2,-,2024-01-02,x\n")
    source = RowSource.parse("o.csv")
    assert source is not None
    query = "SELECT number AS id, nullif(total, '-') AS total, nullif(day, '-') AS day, upper(note) AS note FROM t"
    types = pa.schema([("id", pa.int32()), ("total", pa.decimal128(9, 2)), ("day", pa.date32()), ("note", pa.string())])
    rows = [(1, Decimal("1.5"), None, "007"), (2, None, date(2024, 1, 2), "X")]
    right = pa.Table.from_pylist([dict(zip(types.names, row, strict=True)) for row in rows], types)
    assert compare(source.with_query(query), right, keys=["id"]).equal
    failed = compare(source.with_query("SELECT note AS id FROM t"), right, columns=["id"]).left.error
    assert "column id has a text that is not of type INTEGER: x" in str(failed)
    with pytest.raises(RequestError, match="2 columns named 'a'"):
        compare(source.with_query("SELECT note AS a, note AS a FROM t"), pa.table({"a": ["x"]}))


PARSED = {
    "o.csv.gz": RowSource(SourceKind.CSV, "o.csv.gz"),
    "a/*.PARQUET": RowSource(SourceKind.PARQUET, "a/*.PARQUET"),
    "sqlite:a.db#t": RowSource(SourceKind.SQLITE, "a.db", table="t"),
    "duckdb:a.db#select 1": RowSource(SourceKind.DUCKDB, "a.db", query="select 1"),
    "metadata/v3.metadata.json": None,
    "warehouse/orders": None,
    "prod.sales.orders": None,
    "s3://bucket/t": None,
}


@pytest.mark.parametrize(("text", "source"), PARSED.items(), ids=PARSED)
def test_texts_that_name_a_source(text: str, source: RowSource | None) -> None:
    assert RowSource.parse(text) == source


def test_a_password_is_not_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        if text.startswith("ATTACH"):
            raise duckdb.IOException('Unable to connect to Postgres at "host=a password=secret": refused')

    monkeypatch.setattr(source_reading, "track", lambda connection: SimpleNamespace(execute=refuse, close=int))
    with pytest.raises(RequestError, match=r'Unable to connect to Postgres at "\.\.\.": refused'):
        compare("postgres:host=a password=secret#public.orders", ROWS)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("none.csv", MissingFileError, "Cannot find the CSV file none.csv"),
        ("duckdb:none.duckdb#t", MissingFileError, "Cannot find the DuckDB database none.duckdb"),
        ("duckdb:old.duckdb#none", RequestError, "Cannot read old.duckdb#none: "),
        ("duckdb:old.duckdb", RequestError, "expected duckdb:DATABASE#TABLE"),
        ("duckdb:#SELECT nothing", RequestError, "Cannot read query"),
        ("sqlite:old.duckdb#t", RequestError, "SQLite database old.duckdb"),
        ("warehouse", TableNotFoundError, "warehouse"),
    ],
)
def test_an_invalid_source_is_an_error_of_one_line(text: str, error: type[Exception], sentence: str) -> None:
    write_source("duckdb:old.duckdb#s.orders")
    with pytest.raises(error, match=sentence) as raised:
        compare(text, ROWS)
    assert "\n" not in str(raised.value)


LAKE_ROWS = [
    {"g": "a", "x": Decimal("1.00"), "y": 0.5},
    {"g": "a", "x": Decimal("2.00"), "y": 0.25},
    {"g": "b", "x": Decimal("5.00"), "y": 1.0},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> harness.Table:
    t = IcebergTable.create(
        tmp_path_factory.mktemp("queries") / "t", {"g": "string", "x": "decimal(9,2)", "y": "double"}
    )
    t.append(t.write_data(LAKE_ROWS))
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
        (AVERAGES, 1.5, True),
        (AVERAGES, moved(1.5, 16), True),
        (AVERAGES, moved(1.5, 17), False),
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


@pytest.mark.parametrize("form", [str, Path, harness.open_table, lambda place: harness.open_table(place).snapshot()])
def test_a_side_and_the_table_of_a_query_are_what_open_table_takes_and_gives(table, form) -> None:
    given = form(table.location)
    query = harness.Query("SELECT g, avg(x) AS v FROM t GROUP BY g", {"t": given})
    assert harness.compare(given, table).equal
    assert harness.compare(query, groups(moved(1.5, 16), 5.0), keys=["g"]).allowed == 1
    with harness.connect({"t": given}) as connection:
        assert connection.sql("SELECT count(*) FROM t").fetchall() == [(table.count(),)]


def test_a_query_over_a_frame_has_differences() -> None:
    queries = [harness.Query(f"SELECT avg(x) + {n} AS v FROM f", {"f": pa.table({"x": [0.5]})}) for n in (0, 1)]
    assert harness.compare(queries[0], queries[0]).equal
    assert harness.compare(*queries).differing == 1


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
    again = harness.compare(place, at=(first, first))
    assert again.equal
    assert again.left.engine == again.right.engine
    assert harness.compare(place, pa.table({"id": [1, 2]}), at=(second, None), engines="oracle").equal


@pytest.mark.parametrize(
    ("sides", "how", "sentence"),
    [
        ((pa.table({"a": [1]}),), {}, "the left side alone"),
        ((pa.table({"a": [1]}), None), {}, "right side, of type NoneType"),
        ((pa.table({"a": [1]}), pa.table({"a": [1]})), {"at": 1}, "an object of type Table has no snapshots"),
        (("rows.csv", "t"), {"at": "main"}, "rows.csv has no snapshots"),
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
    entry = run.run_query(QueryFile(name="q", text="SELECT sum(x) FROM t"))
    assert entry.outcome is outcome
    assert entry.document is not None
    assert [each["rule"] for each in entry.document["schema"]] == [None if dialect == "duckdb" else "decimal precision"]
