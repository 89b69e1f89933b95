"""Tables with a schema in their names: what becomes of the names before columns, and DuckDB's rows before and after."""

from collections.abc import Iterator

import duckdb
import pytest

from harness.errors import RequestError
from harness.metadata.filters.parse import parse_filter
from harness.metadata.model.schema import Field, IntegerType, Schema, StructType
from harness.queries.plain import Rewritten
from harness.queries.rewrite import parse_statement, rewrite_statement

_INT = IntegerType(32)
_S = StructType((Field(id=9, name="v", type=_INT),))
SCHEMA = Schema(fields=(Field(id=1, name="id", type=_INT), Field(id=2, name="s", type=_S)))
NAMES = {("a", "t"): "a.t", ("b", "t"): "b.t", ("memory", "a", "t"): "a.t", ("a", "u"): "a.u"}


def rewritten(query: str) -> Rewritten:
    statement = parse_statement(query)
    return rewrite_statement(statement, NAMES, dict.fromkeys(NAMES.values(), SCHEMA), prefix="_v")


def test_conditions_on_qualified_columns_reach_planning() -> None:
    query = "SELECT 1 FROM a.t JOIN b.t ON a.t.id = b.t.id WHERE a.t.id > 1 AND b.t.s.v = 2 AND memory.a.t.id < 9"
    first, second = (reference.where for reference in rewritten(query).references)
    assert first.predicate == parse_filter("id > 1 AND id < 9", SCHEMA).predicate
    assert second.predicate == parse_filter("id > 1 AND s.v = 2 AND id < 9", SCHEMA).predicate


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.id FROM a.t, b.t",
        "SELECT t FROM a.t JOIN b.t USING (id)",
        "SELECT a.t.id FROM a.t, (SELECT 1 AS id) AS t WHERE t.id = 1",
        "SELECT (SELECT max(b.t.id) FROM b.t WHERE b.t.id < a.t.id) FROM a.t",
    ],
)
def test_a_column_that_may_be_of_two_tables_is_refused(query: str) -> None:
    with pytest.raises(RequestError, match="may be of two tables named t"):
        rewritten(query)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA a; CREATE SCHEMA b")
        for table, first in (("a.t", 0), ("b.t", 2), ("a.u", 1)):
            connection.execute(
                f"CREATE TABLE {table} AS SELECT range::INT AS id, {{v: range}} AS s FROM range({first}, 4)"
            )
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.t.id, b.t.s.v FROM a.t JOIN b.t ON a.t.id = b.t.id WHERE a.t.id < 3",
        "SELECT a.t.id FROM a.t WHERE EXISTS (FROM a.u WHERE a.u.id = a.t.id AND a.t.s.v <> 2)",
        "SELECT a.t.id FROM a.t UNION ALL SELECT b.t.id FROM b.t",
        "SELECT x.id, a.t.id FROM a.t AS x, a.t WHERE x.id = a.t.id + 1",
        "SELECT (SELECT max(a.t.id) FROM a.t WHERE a.t.id < 2), a.t.id FROM a.t",
        "WITH t AS (SELECT a.t.id + 10 AS id FROM a.t) SELECT t.id FROM t",
        "SELECT a.t.id, n.m FROM a.t, LATERAL (SELECT a.t.id * 2 AS m) n",
        "SELECT a.t.s.v, count(*) FROM a.t GROUP BY a.t.s.v HAVING min(a.t.id) > 1 ORDER BY a.t.s.v DESC",
        "SELECT memory.a.t.id FROM a.t ORDER BY memory.a.t.id",
    ],
)
def test_the_rows_are_those_that_duckdb_gives_without_rewriting(database, query) -> None:
    found = rewritten(query)
    for reference in found.references:
        where = "" if reference.where is None else f" WHERE {reference.where.sql}"
        database.execute(f'CREATE OR REPLACE TEMP VIEW "{reference.view}" AS FROM {reference.table}{where}')
    expected = database.sql(query)
    assert sorted(database.sql(found.sql).fetchall()) == sorted(expected.fetchall())
