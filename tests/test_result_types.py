"""Every type of DuckDB in every output of a query: each row of the table in `result_types.md`.

A page of the reference includes this table.
"""

import functools
import importlib.util
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import harness
from harness.cli.formats import RowFormat
from harness.cli.query import run
from harness.cli.writers import QueryRows, write_rows
from harness.engines.duckdb.instance import connect
from harness.errors import RequestError, UnsupportedError
from harness.writing.iceberg.builder import IcebergTable

VERSION = int(duckdb.__version__.partition(".")[0])
TABLE = Path(__file__).with_name("result_types.md")
REFUSED = "refused"
ON_SPARK = {
    "UUID": "u",
    "TIME": "tm",
    "TIMESTAMP_NS": "tn",
    "[1, NULL]": "l",
    "{'a': 1, 'b': 'x'}": "s",
    "MAP {'k': 1}": "m",
}
"""Columns of the table that hold the value on Spark, by its type or by the value's text."""


@dataclass(frozen=True, slots=True)
class TypeCase:
    """A row of the table: a value of a type, and its form in each output. `on_spark` is the column with the value on
    Spark.
    """

    type: str
    sql: str
    python: str
    cell: str
    json: str
    parquet: str
    arrow: str
    pandas: str
    polars: str
    spark: str
    file: str = ""
    on_spark: str = ""


def cases() -> Iterator[TypeCase]:
    """Yield the rows for this version of DuckDB."""
    for line in TABLE.read_text("utf-8").strip().splitlines()[2:]:
        type_, sql, *outputs = line.strip("| ").split(" | ")
        name, _, only = type_.partition(" (DuckDB ")
        if only in ("", f"{VERSION})"):
            texts = [re.findall("`([^`]*)`", cell) or [cell] for cell in (sql, *outputs)]
            file = texts[5][-1]
            sql = texts[0][0]
            on_spark = ON_SPARK.get(sql) or ON_SPARK.get(name) or sql
            yield TypeCase(name, *(text for text, *_ in texts), file=file, on_spark=on_spark)


HERE = [*cases()]
COLUMNS = {
    "id": "long",
    "u": "uuid",
    "tm": "time",
    "tn": "timestamp_ns",
    "tz": "timestamptz_ns",
    "f": "fixed[2]",
    "un": "unknown",
    "l": "list<int>",
    "lf": "list<fixed[2]>",
    "s": "struct<a: int, b: string>",
    "m": "map<string, int>",
}
ROW = {"id": 2**62, "tn": 1, "tz": 1, "f": b"ab", "l": [1, None], "lf": [b"cd"], "m": {"k": 1}}
LONGEST = "9" * 38
LONG = "1" + "0" * 38

NAMES = [f"{case.type}: {case.sql}".replace(" ", "_") for case in HERE]

each = pytest.mark.parametrize("case", HERE, ids=NAMES)


def query(case: TypeCase) -> str:
    return f"SELECT {case.sql} AS v"


@functools.cache
def rows_of(text: str) -> QueryRows:
    """Return the result that `harness sql` writes."""
    return run(text, {})


def written(text: str, row_format: str) -> bytes:
    """Return the output of `harness sql`."""
    stream = io.BytesIO()
    write_rows(rows_of(text), RowFormat(row_format), stream)
    return stream.getvalue()


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for all types, with the settings of the connection that `harness.sql` makes by default."""
    with connect(lossless=False) as connection:
        yield connection


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> harness.Table:
    t = IcebergTable.create(tmp_path_factory.mktemp("types") / "t", COLUMNS, format_version=3)
    t.append(t.write_data([ROW, {"id": 1}, {"id": None}]))
    return harness.open_table(t.location)


def test_all_types_of_duckdb_are_there():
    rows = duckdb.connect().sql("SELECT DISTINCT logical_type FROM duckdb_types()").fetchall()
    assert {name for (name,) in rows} - {case.type for case in HERE} == set()


@each
def test_values_in_python(case, connection):
    ((value,),) = harness.sql(query(case), connection=connection).fetchall()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.replace(tzinfo=UTC)  # the class of UTC depends on the version of DuckDB
    assert repr(value) == case.python


@each
def test_values_as_text(case):
    text = written(query(case), "text").decode()
    assert text.splitlines()[3].lstrip() == case.cell


@each
def test_values_as_csv(case):
    cell = "" if case.json == "null" else case.cell
    quoted = '"' + cell.replace('"', '""') + '"' if set(cell) & set('",') else cell
    assert written(query(case), "csv").decode() == f"v\n{quoted}\n"


@each
def test_values_as_json(case):
    (row,) = json.loads(written(query(case), "json"))["rows"]
    assert row == [json.loads(case.json)]
    assert json.loads(written(query(case), "jsonl")) == {"v": json.loads(case.json)}


@each
def test_types_in_arrow(case, connection):
    rows = pa.table(harness.sql(query(case), connection=connection))
    rows.validate(full=True)
    assert str(rows.schema.field("v").type) == case.arrow


@each
def test_types_in_arrow_files(case):
    rows = pa.ipc.open_file(written(query(case), "arrow")).read_all()
    rows.validate(full=True)
    assert str(rows.schema.field("v").type) == case.file


@each
def test_types_in_parquet(case, connection, tmp_path):
    if case.parquet == REFUSED:
        with pytest.raises(
            RequestError, match=r"cannot contain column 'v', of type .*; cast it .* CAST\(\.\.\. AS VARCHAR"
        ):
            written(query(case), "parquet")
        return
    (tmp_path / "v.parquet").write_bytes(written(query(case), "parquet"))
    found = connection.sql(f"FROM read_parquet('{tmp_path / 'v.parquet'}')")
    # DuckDB reads nanoseconds from Parquet files as nanoseconds from 1.5.6 on.
    is_cut = case.parquet == "TIME_NS" and duckdb.__version__ in ("1.5.4", "1.5.5")
    assert list(map(str, found.types)) == ["TIME" if is_cut else case.parquet]
    ((value,),) = found.fetchall()
    ((expected,),) = harness.sql(query(case), connection=connection).fetchall()
    assert plain(value) == plain(expected)


def plain(value: Any) -> Any:
    """Convert a nested value to lists: in Parquet, arrays are lists, and tuples are structs."""
    match value:
        case dict():
            return [plain(item) for item in value.values()]
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


@each
def test_types_in_pandas(case, connection):
    pytest.importorskip("pandas")
    found = str(harness.sql(query(case), connection=connection).df().dtypes["v"])
    assert found.replace("str", "object") == case.pandas  # text has its own type since pandas 3


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="Polars is not installed")
@each
def test_types_in_polars(case, connection):
    relation = harness.sql(query(case), connection=connection)
    if case.polars == REFUSED:
        with pytest.raises(Exception, match=r"could not import from|cannot create series from"):
            relation.pl()
    else:
        assert str(relation.pl().schema["v"]) == case.polars


@pytest.mark.parametrize("case", [case for case in HERE if case.spark != REFUSED], ids=lambda case: case.type)
def test_types_on_spark(case, table, spark):
    frame = harness.sql(f"SELECT {case.on_spark} AS v FROM t", {"t": table}, engine="spark", spark=spark)
    assert frame.schema["v"].dataType.simpleString() == case.spark


@pytest.mark.parametrize("case", [case for case in HERE if case.spark == REFUSED], ids=lambda case: case.type)
def test_types_that_are_refused_on_spark(case, table, spark):
    with pytest.raises(UnsupportedError):
        harness.sql(f"SELECT {case.sql} AS v FROM t", {"t": table}, engine="spark", spark=spark)


def test_sums_agree_with_those_of_engines_that_know_no_hugeint():
    sums = harness.sql("SELECT sum(i) AS s, [sum(i)] AS l FROM range(5) AS t(i)")
    ((s, listed),) = sums.fetchall()
    assert (type(s), type(listed[0])) == (int, int)
    whole = pa.decimal128(38, 0)
    other = pa.table({"s": pa.array([10], whole), "l": pa.array([[10]], pa.list_(whole))})
    assert harness.compare(sums, other).equal
    assert not harness.compare(sums, other.set_column(0, "s", pa.array([11], whole))).equal
    many = "SELECT i AS k, sum(i) AS s FROM range(3000) AS t(i) GROUP BY i"
    as_decimals = harness.sql(f"SELECT k, s::DECIMAL(38,0) AS s FROM ({many})")
    assert harness.compare(harness.sql(many), as_decimals, keys=["k"], direct_rows=10).equal


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(f"{LONG}::HUGEINT", id="hugeint"),
        pytest.param(f"-{LONG}::HUGEINT", id="negative"),
        pytest.param(f"3{LONG[1:]}::UHUGEINT", id="uhugeint"),
        pytest.param(f"[1, {LONG}::HUGEINT]", id="list"),
        pytest.param(f"[{LONG}]::HUGEINT[1]", id="array"),
        pytest.param(f"{{'a': {LONG}::HUGEINT}}", id="struct"),
        pytest.param(f"{{'a': {LONG}::HUGEINT, 'b': [1]::INTEGER[1]}}", id="struct-with-array"),
        pytest.param(f"MAP {{'k': {LONG}::HUGEINT}}", id="map"),
        pytest.param(f"MAP {{{LONG}::HUGEINT: 1}}", id="key"),
        pytest.param(f"union_value(n := {LONG}::HUGEINT)", id="union"),
        pytest.param(f"[row(1, {LONG}::HUGEINT)]", id="tuple"),
    ],
)
def test_an_integer_of_39_digits_is_an_error_that_names_the_column_and_the_cast(value):
    relation = harness.sql(f"""SELECT 1::HUGEINT AS "other", {value} AS "it's" """)
    expected = r"Cannot return column \"it's\": .*more than 38 digits.*CAST\(\.\.\. AS VARCHAR\)"
    for fetch in (relation.fetchall, lambda: pa.table(relation)):
        with pytest.raises(duckdb.Error, match=expected):
            fetch()


def test_the_longest_integers_that_fit_are_given_out():
    relation = harness.sql(f"SELECT {LONGEST}::HUGEINT AS a, -{LONGEST}::HUGEINT AS b, {LONGEST}::UHUGEINT AS c")
    assert [str(value) for value in relation.fetchall()[0]] == [LONGEST, f"-{LONGEST}", LONGEST]


def test_no_error_before_rows_are_requested():
    relation = harness.sql(f"SELECT i, CASE WHEN i = 7 THEN {LONG}::HUGEINT END AS v FROM range(10) AS t(i)")
    assert relation.filter("i < 5").fetchall() == [(i, None) for i in range(5)]
    with pytest.raises(duckdb.Error, match="column 'v'"):
        relation.fetchall()


def test_rows_keep_the_order_of_the_query():
    text = "SELECT i::HUGEINT AS v, hash(i) AS h FROM range(300000) AS t(i) ORDER BY h LIMIT 200000"
    found = [h for _, h in harness.sql(text).fetchall()]
    assert found == sorted(found)
    assert len(found) == 200_000


@pytest.mark.parametrize("text", ["DESCRIBE SELECT 1", "EXPLAIN SELECT sum(1)", "SUMMARIZE SELECT 1"])
def test_statements_that_are_no_select(text):
    assert harness.sql(text).columns


def test_a_relation_with_nothing_to_cast_is_the_query_itself():
    assert "#1" not in harness.sql("SELECT 1 AS v, 'a' AS w").sql_query()


def test_the_state_of_an_aggregate_is_refused():
    with connect() as connection:
        connection.sql("CREATE VIEW states AS SELECT sum(1) EXPORT_STATE AS v")
        with pytest.raises(UnsupportedError) as caught:
            harness.sql("SELECT * FROM states", connection=connection)
    assert str(caught.value) == (
        "Cannot return column 'v': it holds the state of an aggregate; convert it in the query, with finalize(...) "
        "[Unsupported; field v]"
    )


def test_variants_in_other_types():
    """DuckDB 1 would turn NULL inside them into a JSON null."""
    text = "SELECT [{'a': 1}::VARIANT, NULL] AS v"
    if VERSION == 1:
        with pytest.raises(UnsupportedError, match=r"column 'v': .* to VARCHAR"):
            harness.sql(text)
    else:
        assert harness.sql(text).fetchall() == [(['{"a":1}', None],)]


def test_harness_own_connection_gets_the_types_of_the_page():
    rows = pa.table(harness.sql("SELECT true AS b, [false] AS l, gen_random_uuid() AS u, '1'::JSON AS j"))
    assert [str(type_) for type_ in rows.schema.types] == ["bool", "list<l: bool>", "string", "string"]


def test_relations_of_tables_have_booleans(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"b": "boolean", "l": "list<boolean>"})
    t.append(t.write_data([{"b": True, "l": [False]}]))
    rows = pa.table(harness.open_table(t.location).snapshot().to_duckdb())
    assert [rows.schema.field(0).type, rows.schema.field(1).type.value_type] == [pa.bool_(), pa.bool_()]
    assert rows.to_pylist() == [{"b": True, "l": [False]}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT m IS NULL AS n, sum(id) AS s FROM t GROUP BY ALL",
        "SELECT NULL AS n FROM t",
        "SELECT un FROM t",
        "SELECT tz, tn, f, lf FROM t",
        "SELECT * FROM t",
    ],
)
def test_both_engines_results_compare_equal(table, spark, text):
    sides = [harness.sql(text, {"t": table}), harness.sql(text, {"t": table}, engine="spark", spark=spark)]
    comparison = harness.compare(*sides)
    assert comparison.equal, comparison
