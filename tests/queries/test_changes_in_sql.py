"""The table function `changes` in queries, on both engines and on connections."""

from pathlib import Path
from typing import Any

import changed_tables
import duckdb
import pytest
from changed_tables import CHANGELOG, FEED, NET, S1, S3, UPDATES

import harness
from harness.queries.rewrite import parse_statement
from harness.queries.time_travel import pin

Tables = dict[str, Any]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """An Iceberg table by an opened table, and a Delta table by location."""
    place: Path = tmp_path_factory.mktemp("changes")
    return {
        "i": harness.open_table(changed_tables.iceberg(place / "i").location),
        "d": str(changed_tables.delta(place / "d").directory),
    }


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("SELECT * FROM changes('t', 1, 5)", 'SELECT * FROM "changes(\'t\', 1, 5)" AS "changes"'),
        ("FROM Changes ('t', ((1))) c WHERE x", "FROM \"Changes ('t', ((1)))\" c WHERE x"),
        ("FROM changes('t') AS c(a, b), u", "FROM \"changes('t')\" AS c(a, b), u"),
        ("FROM changes('t', '2024-01-01 (a)') JOIN t USING (id)", None),
        ("EXPLAIN SELECT 1 FROM \"changes\"('t')", 'EXPLAIN SELECT 1 FROM """changes""(\'t\')" AS "changes"'),
    ],
)
def test_calls_get_names_of_their_own(text: str, after: str | None) -> None:
    pinned = pin(parse_statement(text), lambda name: name == ("t",))
    assert pinned is not None
    after = after or "FROM \"changes('t', '2024-01-01 (a)')\" AS \"changes\" JOIN t USING (id)"
    assert pinned.query == after


@pytest.mark.parametrize(
    "text",
    [
        *("FROM changes('other', 1)", "FROM changes(t, 1)", "FROM changes()", "FROM changes", "FROM s.changes('t')"),
        *("SELECT changes('t')", "FROM change('t')", "SELECT 'changes(''t'')'", "FROM changes('')"),
        "WITH changes AS (SELECT 1) FROM changes",
    ],
)
def test_other_uses_of_the_name_stay(text: str) -> None:
    assert pin(parse_statement(text), lambda name: name == ("t",)) is None


I = "id, n, _change_type, _change_ordinal, _commit_snapshot_id"  # noqa: E741
D = "id, n, _change_type, _commit_version"
QUERIES = [
    (f"SELECT {I} FROM changes('i', {S1}) ORDER BY ALL", CHANGELOG),
    (f"FROM changes('I', 'first') SELECT {I} ORDER BY ALL", CHANGELOG),
    (f"SELECT {I} FROM changes('i', mode := 'net') AS c ORDER BY ALL", NET),
    (f"SELECT {I} FROM changes('i', {S1}, NULL, mode => 'updates', keys => ['id']) ORDER BY ALL", UPDATES),
    (f"SELECT {I} FROM changes('i', {S1}, to := {S3}) WHERE id = 1", CHANGELOG[:1]),
    (f"SELECT {I} FROM changes('i', TIMESTAMP '2023-11-14 22:13:21') ORDER BY ALL", CHANGELOG),
    (f"SELECT count(*) FROM changes('i', {S1}) WHERE _change_type = 'delete'", [(2,)]),
    (f"SELECT changes.n FROM changes('i', {S1}) WHERE changes._change_ordinal = 0", [(30,)]),
    (f"SELECT c.n, i.n FROM changes('i', {S1}) c JOIN i USING (id) WHERE c._change_type = 'delete'", [(20, 21)]),
    (
        f"SELECT a.id FROM changes('i', {S1}) a JOIN changes('i', mode := 'net') b ON a.n = b.n ORDER BY ALL",
        [(2,), (3,)],
    ),
    (f"WITH changes AS (SELECT id FROM changes('i', {S1})) SELECT max(id) FROM changes", [(3,)]),
    (f"SELECT {D} FROM changes('d', 1) ORDER BY id, _commit_version, n", FEED),
    (f"SELECT {D} FROM changes('d', 1, 3, from_inclusive := false) ORDER BY ALL", [FEED[1], FEED[5]]),
    (f"SELECT {D} FROM changes('d', 0) WHERE _change_type LIKE 'update%' ORDER BY n", FEED[3:5]),
    ("SELECT count(*) FROM changes('d', 9, allow_out_of_range := true)", [(0,)]),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_rows_on_duckdb(tables: Tables, query: str, expected: object) -> None:
    assert harness.sql(query, tables).fetchall() == expected


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_rows_on_a_connection(tables: Tables, query: str, expected: object) -> None:
    with harness.connect(tables) as connection:
        assert connection.execute(query).fetchall() == expected


@pytest.mark.harness_spark
@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_rows_on_spark(tables: Tables, query: str, expected: object) -> None:
    assert list(map(tuple, harness.sql(query, tables, engine="spark").collect())) == expected


@pytest.mark.harness_spark
def test_rows_in_the_dialect_of_spark(tables: Tables) -> None:
    query = f"SELECT {I} FROM changes('i', {S1}) WHERE id = 1"
    assert list(map(tuple, harness.sql(query, tables, engine="spark", dialect="spark").collect())) == CHANGELOG[:1]
    assert harness.sql(query, tables, dialect="spark").fetchall() == CHANGELOG[:1]


@pytest.mark.parametrize("query", ["DESCRIBE FROM changes('i', 'first')", "SUMMARIZE changes('i', 'first')"])
def test_a_call_can_be_described(tables: Tables, query: str) -> None:
    columns = [("id", "BIGINT"), ("n", "BIGINT"), ("_change_type", "VARCHAR")]
    assert [row[:2] for row in harness.sql(query, tables).fetchall()][:3] == columns
    with harness.connect(tables) as connection:
        assert [row[:2] for row in connection.execute(query).fetchall()][:3] == columns


def test_a_table_may_be_named_by_its_location(tables: Tables) -> None:
    query = f"SELECT count(*) FROM changes('{tables['d']}', 1)"
    assert harness.sql(query).fetchall() == [(6,)]
    with harness.connect({}) as connection:
        assert connection.execute(query).fetchall() == [(6,)]


def test_a_name_may_have_several_parts(tables: Tables) -> None:
    with harness.connect({"sales.d": tables["d"]}) as connection:
        assert connection.execute("SELECT count(*) FROM changes('sales.d', 1)").fetchall() == [(6,)]


def test_conditions_and_columns_reach_the_plan(tables: Tables) -> None:
    with harness.connect(tables) as connection:
        ((name, plan),) = connection.plans("SELECT id FROM changes('d', 0) WHERE _commit_version = 2")
    assert (name, plan.files.num_rows, len(plan.skipped)) == ("changes('d', 0)", 1, 3)
    assert [column.name for column in plan.columns] == ["id", "_commit_version"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("FROM changes('x', 1)", "There is no table x; the nearest are"),
        ("FROM changes('./x', 1)", "There is no table at './x'"),
        ("FROM changes(i, 1)", r"write the name of a table as text first: changes\('orders', 3, 5\)"),
        ("FROM changes('d', 3, 1)", "the range starts at version 3, after its end at version 1"),
        ("FROM changes('d')", "without from_"),
        (f"FROM changes('i', {S3}, {S1})", "is not an ancestor"),
        ("FROM changes('i', 1, 2, 3)", "come first; name further arguments"),
        ("FROM changes('i', id)", r"Cannot read changes\('i', id\): the argument from_ must be a whole number"),
        ("FROM changes('i', random())", "the argument from_ must be a whole number, a text"),
        ("FROM changes('i', keys := [id])", "the argument keys must be"),
        ("FROM changes('i', 1, mdoe := 'net')", "unknown argument mdoe; the arguments are from_, to"),
        ("FROM changes('i', 1, from_ := 2)", "the argument from_ is given twice"),
        ("FROM changes('i', 1, mode := 5)", "Invalid mode: got 5, expected text"),
        ("FROM changes('i', 1.5)", "the argument from_ must be a whole number"),
        ("FROM changes('snapshot', 1)", "Cannot read changes of snapshot: it has only one state"),
        ("FROM changes('i', 'first') AT (VERSION => 3)", "is bound to one snapshot, but the query names another"),
    ],
)
def test_errors_have_one_line(tables: Tables, query: str, message: str) -> None:
    bound = {**tables, "snapshot": tables["i"].snapshot()}
    with pytest.raises(harness.HarnessError, match=message) as caught:
        harness.sql(query, bound)
    assert "\n" not in str(caught.value)
    with harness.connect(bound) as connection, pytest.raises(harness.HarnessError, match=message):
        connection.sql(query)


def test_a_frame_has_no_changes(tables: Tables) -> None:
    with pytest.raises(harness.RequestError, match="Cannot read changes of f: it has only one state"):
        harness.sql("FROM changes('f', 1)", {"f": tables["i"].to_arrow()})


def test_a_function_of_the_connection_stays(tables: Tables) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO changes(a) AS TABLE SELECT a AS b")
        assert harness.sql("FROM changes('x')", tables, connection=connection).fetchall() == [("x",)]
        query = f"SELECT count(*) FROM changes('i', {S1}), changes(5)"
        assert harness.sql(query, tables, connection=connection).fetchall() == [(4,)]
    with harness.connect(tables) as own:
        own.execute("CREATE TEMP TABLE changes AS SELECT 7 AS x")
        assert own.execute("SELECT x FROM changes").fetchall() == [(7,)]


def test_a_view_of_changes_is_refused(tables: Tables) -> None:
    with harness.connect(tables) as connection, pytest.raises(harness.RequestError, match="Cannot create a view over"):
        connection.execute("CREATE VIEW v AS FROM changes('d', 1)")
