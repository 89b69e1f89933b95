"""The model's rows of reads in every shape, and the account of a run; worked out by hand."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from drawn.account import Account
from drawn.models.model import model_of
from drawn.predicates import Compare, In, IsNull, Join, Not
from drawn.reads import Bound, First, Groups, Order, Pairs, Read, answer, parameters, text
from drawn.strategies.histories import DrawnHistory

from harness.errors import UnsupportedError
from harness.metadata.model.schema import DateType, DecimalType, IntegerType, StringType
from harness.testing.scenarios.model import Selector

OPERATIONS = (
    {
        "append": {
            "files": [{"data": "a", "rows": [[1, "x", 3], [2, "y", 5], [3, None, -7]], "row-group-size": 2}],
            "as": "s1",
        }
    },
    {"commit": {"add": [{"position-deletes": [["a", 1]], "label": "d"}], "as": "s2"}},
    {"append": {"files": [{"data": "b", "rows": [[None, "x", None], [1, "z", 3]]}], "as": "s3"}},
)
FIRST = Selector("snapshot", "s1")
ABOVE_ONE = Compare("id", IntegerType(64), ">", 1)


@pytest.fixture(scope="module")
def drawn():
    table = {"schema": {"id": "long", "name": "string", "n": "int"}}
    model = model_of("iceberg", table)
    for operation in OPERATIONS:
        model.apply(operation)
    return DrawnHistory(format="iceberg", table=table, operations=OPERATIONS, model=model)


CASES = {
    "rows": (
        Read(columns=("name",), where=Not(ABOVE_ONE)),
        ["name"],
        [("x",), ("z",)],
        'SELECT "name" FROM t WHERE NOT ("id" > 1)',
    ),
    "parameters": (
        Bound(Read(at=FIRST, columns=("id",), where=Join("OR", ABOVE_ONE, In("name", StringType(), ("x", "it's"))))),
        ["id"],
        [(1,), (2,), (3,)],
        'SELECT "id" FROM t AT s1 WHERE ("id" > ?) OR ("name" IN (?, ?))',
    ),
    "order and limit": (
        First(
            Read(columns=("id", "name")),
            (Order(column="n", descending=True), Order(column="id"), Order(column="name", nulls_first=True)),
            3,
        ),
        ["id", "name"],
        [(1, "x"), (1, "z"), (3, None)],
        'SELECT "id", "name" FROM t ORDER BY "n" DESC NULLS LAST, "id" ASC NULLS LAST, "name" ASC NULLS FIRST LIMIT 3',
    ),
    "nulls first": (
        First(Read(columns=("id",), at=FIRST), (Order(column="name", nulls_first=True), Order(column="id")), 2),
        ["id"],
        [(3,), (1,)],
        'SELECT "id" FROM t AT s1 ORDER BY "name" ASC NULLS FIRST, "id" ASC NULLS LAST LIMIT 2',
    ),
    "count(*)": (
        Groups(Read(where=ABOVE_ONE), measures=(("count", None),)),
        ["m0"],
        [(1,)],
        'SELECT count(*) AS "m0" FROM t WHERE "id" > 1',
    ),
    "of no rows": (
        Groups(Read(where=IsNull("n"), at=FIRST), measures=(("count", "n"), ("sum", "n"), ("max", "name"))),
        ["m0", "m1", "m2"],
        [(0, None, None)],
        'SELECT count("n") AS "m0", sum("n") AS "m1", max("name") AS "m2" FROM t AT s1 WHERE "n" IS NULL',
    ),
    "groups": (
        Groups(Read(columns=("id",)), measures=(("sum", "n"), ("min", "name"), ("count", "n"))),
        ["id", "m0", "m1", "m2"],
        [(1, Decimal(6), "x", 2), (3, Decimal(-7), None, 1), (None, None, "x", 0)],
        'SELECT "id", sum("n") AS "m0", min("name") AS "m1", count("n") AS "m2" FROM t GROUP BY "id"',
    ),
    "self-join": (
        Pairs(
            Read(columns=("id", "n")), Read(at=FIRST, columns=("name",), where=ABOVE_ONE), on=("id", "id"), outer=True
        ),
        ["a id", "a n", "b name"],
        [(1, 3, None), (3, -7, None), (None, None, None), (1, 3, None)],
        'SELECT a."id" AS "a id", a."n" AS "a n", b."name" AS "b name" FROM (SELECT * FROM t) AS a LEFT JOIN '
        '(SELECT * FROM t AT s1 WHERE "id" > 1) AS b ON a."id" = b."id"',
    ),
    "inner": (
        Pairs(Read(columns=("id",)), Read(at=FIRST, columns=("name", "n")), on=("id", "id"), outer=False),
        ["a id", "b name", "b n"],
        [(1, "x", 3), (3, None, -7), (1, "x", 3)],
        'SELECT a."id" AS "a id", b."name" AS "b name", b."n" AS "b n" FROM (SELECT * FROM t) AS a JOIN '
        '(SELECT * FROM t AT s1) AS b ON a."id" = b."id"',
    ),
}


@pytest.mark.parametrize(("shape", "names", "rows", "query"), CASES.values(), ids=CASES)
def test_a_shape(drawn, shape, names, rows, query) -> None:
    columns, found = answer(drawn.model, shape)
    assert [f.name for f in columns] == names
    assert [tuple(row.get(f.id) for f in columns) for row in found] == rows
    assert text(shape, lambda at: "t" if at.value is None else f"t AT {at.value}") == query


def test_parameters_are_values_of_python() -> None:
    where = Join("AND", In("d", DateType(), (0, 19_000)), Compare("p", DecimalType(9, 2), "<", Decimal("1.50")))
    found = parameters(Bound(Read(where=where)))
    assert found == [dt.date(1970, 1, 1), dt.date(2022, 1, 8), Decimal("1.50")]


def test_sums_are_decimals_of_their_own_scale(drawn) -> None:
    columns, _ = answer(drawn.model, Groups(Read(), measures=(("sum", "n"), ("max", "n"), ("count", "n"))))
    assert [f.type for f in columns] == [DecimalType(38, 0), IntegerType(32), IntegerType(64)]


def test_an_account(drawn) -> None:
    account = Account()
    shape = Read(columns=("name",), where=ABOVE_ONE)
    with account.read("iceberg-2", shape, "duckdb"):
        pass
    with account.read("iceberg-2", shape, "spark"):
        raise UnsupportedError("Cannot filter on 'id' there")
    account.add_table("iceberg-2", drawn, shape)
    account.add_table("iceberg-2", drawn, Read(at=FIRST))
    again = Account.of_json(account.to_json())
    again.add(Account.of_json(account.to_json()))
    assert again.share("deletes hide rows") == 0.5
    assert [line.rsplit(maxsplit=2) for line in again.shown().splitlines()] == [
        ["iceberg-2", "all"],
        ["tables", "4", "4"],
        ["snapshots", "12", "12"],
        ["deletes hide rows", "2", "2"],
        ["position deletes", "2", "2"],
        ["several row groups in a file", "4", "4"],
        ["duckdb: reads", "2", "2"],
        ["duckdb: rows", "2", "2"],
        ["filtered", "2", "2"],
        ["by a column not shown", "2", "2"],
        ["refused", "2", "2"],
        ["refused: Cannot filter on … there", "2", "2"],
    ]
