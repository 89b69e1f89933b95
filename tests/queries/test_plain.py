"""Queries that are understood without sqlglot become what they become with it; all others are left to it."""

import duckdb
import pytest

from harness.metadata.model.schema import Field, IntegerType, Schema, StringType
from harness.queries.plain import KEYWORDS, rewrite_plain
from harness.queries.rewrite import rewrite

_TYPES = {"id": IntegerType(64), "k": IntegerType(64), "s": StringType(), "Mixed": StringType(), "time": StringType()}
_FIELDS = [Field(id=i, name=name, type=type_, required=False) for i, (name, type_) in enumerate(_TYPES.items(), 1)]
_SCHEMA = Schema(fields=tuple(_FIELDS))
_TABLES = {"t": _SCHEMA, "Other": _SCHEMA}


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from t",
        "  select count ( * ) , sum( k )\n from t ; ",
        "select *, k from t limit 10",
        "select k from Other",
        "select t.k, id from t",
        "select x.k + 1, -id * (2 - k) % 3 from t as x",
        "select sum(k)::bigint n, -id::VARCHAR, (k :: double)::int % 2 from t",
        "select count(*) n, max(x.k) k from t x order by n",
        "select -k / 2 + (id % 3) * 1.5 n, s::varchar from t limit 4",
        "select k from t order by k limit 4",
        "select k from t group by k limit 4",
        "select s, count(distinct k) as n from t group by s order by n desc, s limit 3",
        "select mixed as k, upper(MIXED) from t order by 1",
        "select 'a b', 1.5, round(k, 2) from t",
        "select _file, _pos from t",
    ],
)
def test_plain_queries_become_what_sqlglot_makes_of_them(query: str) -> None:
    plain = rewrite_plain(query, _TABLES, prefix="p")
    assert plain is not None
    assert plain == rewrite(query, _TABLES, prefix="p")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "select",
        "select k from t where k = 1",
        "select k from t, Other",
        "select k from t join Other using (k)",
        "select k from t t2 (a, b, c, d, e)",
        "select k x.y from t",
        "select k::decimal(9, 2) from t",
        "select t2.k from t",
        "select t.k from t t2",
        "select k from T",
        'select "k" from t',
        "select k -- from t",
        "select t from t",
        "select unknown from t",
        "select time from t",
        "select k as order from t",
        "select sum(*) from t",
        "select columns(k) from t",
        "select sum(k) over () from t",
        "select sum(k) filter (k > 1) from t",
        "select distinct k from t",
        "select k from t order by all",
        "select k from t order by k nulls first",
        "select k from t limit 10%",
        "select 1e3 from t",
        "select 'it''s' from t",
        "select k from t; select k from t",
        "select k, from t",
        "select k from t union select k from t",
        "select " + "(" * 100_000 + "k",
    ],
)
def test_others_are_left_to_sqlglot(query: str) -> None:
    assert rewrite_plain(query, _TABLES, prefix="p") is None


def test_every_keyword_of_duckdb_is_known() -> None:
    listed = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    assert {name for (name,) in duckdb.sql(listed).fetchall()} <= KEYWORDS
