"""Objects that reads create on a user's connection: a plan creates them once, and only `detach` removes them."""

import duckdb
import pytest

import harness
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, harness.Table]:
    """Return two tables whose deletes and partition values are tables next to the query.

    Rows 1, 3, and 4 are live in each.
    """
    place = tmp_path_factory.mktemp("tables")
    iceberg = IcebergTable.create(place / "i", {"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    files = [iceberg.write_data([{"id": n, "p": p}]) for n, p in ((1, "a"), (2, "b"))]
    files.append(iceberg.write_data([{"id": 3, "p": "c"}, {"id": 4, "p": "c"}, {"id": 5, "p": "c"}]))
    iceberg.append(*files)
    iceberg.commit(
        add=[iceberg.write_position_deletes([(file, position)]) for file, position in ((files[1], 0), (files[2], 2))]
    )
    delta = DeltaTable.create(place / "d", {"id": "long", "p": "string"}, partition_columns=["p"])
    for rows in ([{"id": 1, "p": "a"}], [{"id": 3, "p": "c"}, {"id": 4, "p": "c"}]):
        delta.append(delta.write_data(rows))
    return {"iceberg": harness.open_table(str(iceberg.location)), "delta": harness.open_table(str(delta.directory))}


@pytest.fixture
def con():
    with duckdb.connect() as connection:
        yield connection


def left_on(con) -> list[str]:
    return [name for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()]


READS = {
    "relation": lambda con, t: t.snapshot().to_duckdb(con),
    "where": lambda con, t: t.snapshot().to_duckdb(con, where="id >= 0"),
    "named": lambda con, t: t.snapshot().to_duckdb(con, name="named"),
    "sql": lambda con, t: harness.sql("SELECT a.* FROM t a WHERE a.id IN (SELECT id FROM t)", {"t": t}, connection=con),
    "bare": lambda con, t: harness.sql("TABLE t", {"t": t}, connection=con),
    "summary": lambda con, t: harness.sql("FROM (SUMMARIZE t) SELECT max", {"t": t}, connection=con),
}


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_the_same_plan_leaves_nothing_new(con, tables, kind, read):
    expected = sorted(read(con, tables[kind]).fetchall())
    before = left_on(con)
    for _ in range(5):
        assert sorted(read(con, tables[kind]).fetchall()) == expected
    assert left_on(con) == before


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_query_makes_no_view_where_a_subquery_can_stand(con, tables, kind):
    for number in range(5):
        harness.sql(f"SELECT count(*) FROM t WHERE id > {number}", {"t": tables[kind]}, connection=con).fetchall()
    assert [name for name in left_on(con) if "_v" in name] == []
    harness.sql("TABLE t", {"t": tables[kind]}, connection=con).fetchall()
    assert len([name for name in left_on(con) if "_v" in name]) == 1


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_relations_derived_by_the_user_outlive_their_parents_and_later_reads(con, tables, kind):
    derived = tables[kind].snapshot().to_duckdb(con).filter("id > 1").project("id")
    asked = harness.sql("SELECT id FROM t", {"t": tables[kind]}, connection=con).filter("id > 1")
    for other in tables.values():
        other.snapshot().to_duckdb(con).fetchall()
        harness.sql("SELECT count(*) FROM t", {"t": other}, connection=con).fetchall()
    for _ in range(2):
        assert sorted(derived.fetchall()) == [(3,), (4,)]
        assert sorted(asked.fetchall()) == [(3,), (4,)]


def test_release_takes_everything_and_reads_go_on(con, tables):
    con.execute("CREATE TABLE mine AS SELECT 1 AS x")
    con.execute("CREATE VIEW own AS SELECT x FROM mine")
    for table in tables.values():
        table.snapshot().to_duckdb(con).fetchall()
        harness.sql("TABLE t", {"t": table}, connection=con).fetchall()
    harness.detach(con)
    assert left_on(con) == ["own"]
    harness.detach(con)
    for table in tables.values():
        assert sorted(table.snapshot().to_duckdb(con).project("id").fetchall()) == [(1,), (3,), (4,)]


def test_release_keeps_objects_that_named_views_need(con, tables):
    tables["iceberg"].snapshot().to_duckdb(con, name="named")
    con.execute("CREATE TEMP VIEW upon AS SELECT id FROM named WHERE id > 1")
    tables["iceberg"].snapshot().to_duckdb(con, where="id = 1").fetchall()
    harness.detach(con)
    assert sorted(con.execute("FROM upon").fetchall()) == [(3,), (4,)]
    con.execute("DROP VIEW upon")
    con.execute("DROP VIEW named")
    harness.detach(con)
    assert left_on(con) == []


def test_registrations_that_a_user_dropped_or_rolled_back_are_made_again(con, tables):
    table = tables["iceberg"]
    con.begin()
    table.snapshot().to_duckdb(con).fetchall()
    con.rollback()
    assert sorted(table.snapshot().to_duckdb(con).project("id").fetchall()) == [(1,), (3,), (4,)]
    for name in left_on(con):
        con.unregister(name)
    assert sorted(table.snapshot().to_duckdb(con).project("id").fetchall()) == [(1,), (3,), (4,)]
