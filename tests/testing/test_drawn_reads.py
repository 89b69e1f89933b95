"""The model's rows of reads in every shape, and the account of a run; worked out by hand."""

from __future__ import annotations

import pytest
from drawn.account import Account
from drawn.models.model import model_of
from drawn.predicates import Compare
from drawn.reads import Read
from drawn.strategies.histories import DrawnHistory

from harness.errors import UnsupportedError
from harness.metadata.model.schema import IntegerType
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
