"""Plans name the known faults of writers that a filter meets: in text and JSON, of both formats."""

from __future__ import annotations

import json

import pytest

import harness
from harness.cli import main
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

SCHEMA = {"id": "long", "price": "double", "cost": "decimal(17,2)"}


@pytest.mark.parametrize(
    ("where", "prune", "sources"),
    [
        pytest.param("price > 2", "all", ["https://github.com/delta-io/delta/pull/7101"], id="float"),
        pytest.param("cost = 2", "all", ["https://github.com/delta-io/delta-rs/issues/4757"], id="decimal"),
        pytest.param("id = 2", "all", [], id="no-fault-is-known"),
        pytest.param("price > 2", "partition", [], id="no-statistics-are-used"),
        pytest.param(None, "all", [], id="no-filter"),
    ],
)
def test_delta_plans_name_the_faults_that_they_meet(tmp_path, where, prune, sources):
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.append(table.write_data([{"id": 1, "price": 1.0, "cost": 1}]))
    plan = harness.open_table(str(tmp_path / "t"), prune=prune).snapshot().plan(where=where)
    assert [sentence.rpartition("(")[2].rstrip(")") for sentence in plan.guarded()] == sources
    assert [
        line.rpartition("(")[2].rstrip(")") for line in plan.explain().splitlines() if line.startswith("guarded")
    ] == sources


def test_the_command_says_so_in_json(tmp_path, capsys):
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.append(table.write_data([{"id": 1, "price": 1.0, "cost": 1}]))
    assert main(["plan", str(tmp_path / "t"), "--where", "price > 2", "--format", "json"]) == 0
    (sentence,) = json.loads(capsys.readouterr().out)["guarded"]
    assert sentence == "price: the maximum leaves NaN out (https://github.com/delta-io/delta/pull/7101)"


def test_iceberg_plans_name_those_of_partition_summaries(tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    table.append(table.write_data([{"id": 1, "p": "a"}], partition={"p": "a"}))
    opened = harness.open_table(str(table.location)).snapshot()
    (sentence,) = opened.plan(where="p = 'b'").guarded()
    assert sentence.endswith("rounded up (https://github.com/duckdb/duckdb-iceberg/issues/1047)")
    assert opened.plan(where="id = 1").guarded() == ()
