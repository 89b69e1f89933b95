"""Every entry of the table of functions, on DuckDB and Spark, with edge values."""

import contextlib
import math
import re
import struct
from typing import Any

import everyday
import pyarrow as pa
import pytest
from drawn.functions import NEAR, SUPPORTED, FunctionKind
from drawn.strategies.expressions import EDGES, ORDER, calls, table, with_columns
from test_sql_engines import both

import harness
from harness.engines.duckdb.relations import syntax_trees
from harness.engines.spark.transpile import queries as transpile
from harness.engines.spark.transpile.agreement import misreading
from harness.errors import UnsupportedError
from harness.queries.allowances import allowances
from harness.queries.rewrite import has_older_parser
from harness.writing.iceberg.builder import IcebergTable

ULPS = 2
SCALAR_KINDS = [
    kind
    for kind in FunctionKind
    if kind not in (FunctionKind.AGGREGATES, FunctionKind.WINDOWS)
    and any(function.kind is kind for function, _ in calls())
]


@pytest.fixture(scope="module")
def edges(tmp_path_factory) -> dict[str, harness.Table]:
    directory = tmp_path_factory.mktemp("functions") / "e"
    columns, rows = table()
    written = IcebergTable.create(directory, columns, format_version=2)
    written.append(written.write_data(rows))
    return {"e": harness.open_table(str(directory))}


@pytest.mark.parametrize("kind", SCALAR_KINDS, ids=lambda kind: kind.name.lower())
def test_both_engines_give_the_same_for_every_call(edges, spark, kind):
    drawn = [(function, with_columns(draw)) for function, draw in calls() if function.kind is kind]
    ulps = [ULPS if function.names[0] in NEAR else 0 for function, _ in drawn]
    assert_same([sql for _, sql in drawn], f"SELECT {{}} FROM e ORDER BY {ORDER}", edges, spark, ulps)


@pytest.mark.parametrize("kind", [FunctionKind.AGGREGATES, FunctionKind.WINDOWS], ids=lambda kind: kind.name.lower())
def test_both_engines_give_the_same_over_rows(edges, spark, kind):
    rows, key = ("GROUP BY ROLLUP (b1)", "b1") if kind is FunctionKind.AGGREGATES else ("", ORDER)
    shown = [key, *(with_columns(draw) for function, draw in calls() if function.kind is kind)]
    query = f"SELECT {{}} FROM e {rows} ORDER BY c0, c1"
    allowed = allowances(query.format(with_names(shown)), {"e": edges["e"].snapshot().schema})
    assert_same(shown, query, edges, spark, [allowed[i].ulps if i in allowed else 0 for i in range(len(shown))])


def with_names(expressions: list[str]) -> str:
    return ", ".join(f"{sql} AS c{place}" for place, sql in enumerate(expressions))


def assert_same(expressions: list[str], query: str, tables: Any, spark: Any, ulps: list[int]) -> None:
    """Fail if the engines return different values or types for an expression. `query` has `{}` for all expressions."""
    results = both(query.format(with_names(expressions)), tables, spark)
    different = [
        f"{sql}: {pair}"
        for sql, allowed, a, b in zip(expressions, ulps, *(result.columns for result in results), strict=True)
        if a.type != b.type or (pair := first_difference(a, b, allowed)) is not None
    ]
    assert not different, "\n".join(different)


def first_difference(a: pa.ChunkedArray, b: pa.ChunkedArray, ulps: int) -> tuple[Any, Any] | None:
    """Return the first two values that differ by more than `ulps` units in the last place, or None."""
    is_map = pa.types.is_map(a.type)
    for left, right in zip(a.to_pylist(), b.to_pylist(), strict=True):
        if is_map:
            left, right = (None if v is None else sorted(v) for v in (left, right))
        if repr(left) != repr(right) and not (ulps and near(left, right, ulps)):
            return left, right
    return None


def near(first_value: Any, second_value: Any, ulps: int) -> bool:
    if (
        not isinstance(first_value, float)
        or not isinstance(second_value, float)
        or math.isnan(first_value)
        or math.isnan(second_value)
    ):
        return False
    first, last = (struct.unpack("<q", struct.pack("<d", value))[0] for value in (first_value, second_value))
    return (first < 0) == (last < 0) and abs(first - last) <= ulps


def test_every_supported_function_has_a_call_that_is_drawn():
    without = [function.names[0] for function in SUPPORTED if not function.alternative and not function.draws]
    assert not without
    kinds = {kind for _, draw in calls() for kind in re.findall(r"{([a-z]+)}", draw)}
    assert kinds <= set(EDGES)


def test_every_call_is_lowered_as_what_duckdb_reads(edges):
    columns = {field.name: field.type for field in edges["e"].snapshot().schema.fields}
    queries = [f"SELECT {with_columns(draw)} AS c FROM e" for _, draw in calls()]
    if has_older_parser():  # a refusal is not a misreading
        queries = [query for query in queries if is_lowered(query, columns)]
        assert len(queries) > 400
    read = [transpile.query(query, {"e": columns}).written_back for query in queries]
    trees = syntax_trees(*queries, *read)
    both_trees = zip(queries, trees, trees[len(queries) :], strict=False)
    assert [query for query, tree, other in both_trees if misreading(tree, other) is not None] == []


def is_lowered(query: str, columns: dict[str, Any]) -> bool:
    with contextlib.suppress(UnsupportedError):
        transpile.query(query, {"e": columns})
        return True
    return False


@pytest.fixture(scope="module")
def orders(tmp_path_factory) -> dict[str, harness.Table]:
    directory = tmp_path_factory.mktemp("everyday") / "o"
    written = IcebergTable.create(directory, everyday.COLUMNS, format_version=2)
    written.append(written.write_data(everyday.ROWS))
    return {"o": harness.open_table(str(directory))}


@pytest.mark.parametrize(("listed", "ulps"), [(everyday.EQUAL, 0), (everyday.ALLOWED, ULPS)], ids=["equal", "allowed"])
def test_everyday_expressions_give_the_same(orders, spark, listed, ulps):
    by_condition: dict[str, list[str]] = {}
    for sql, where in everyday.listed(listed):
        by_condition.setdefault(where, []).append(sql)
    for where, expressions in by_condition.items():
        query = f"SELECT {{}} FROM o WHERE {where} ORDER BY id"
        assert_same(expressions, query, orders, spark, [ulps] * len(expressions))


@pytest.mark.parametrize(("sql", "where"), everyday.listed(everyday.REFUSED), ids=lambda text: text)
def test_everyday_expressions_that_are_refused(orders, spark, sql, where):
    with pytest.raises(UnsupportedError) as error:
        harness.sql(f"SELECT {sql} AS c FROM o WHERE {where}", orders, engine="spark", spark=spark)
    assert "\n" not in str(error.value)
