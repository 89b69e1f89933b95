from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.writing.delta.builder import DeltaTable


@pytest.fixture(autouse=True)
def lake(tmp_path, monkeypatch) -> Path:
    for folder in ("lake/top", "lake/sales/orders", "lake/sales/eu/returns"):
        (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
        table = DeltaTable.create(tmp_path / folder, {"id": "long"})
        table.append(table.write_data([{"id": 1}]))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["lake"], "lake.sales.\nlake.top\n"),
        (["--catalog", "lake"], "lake.sales.\nlake.top\n"),
        (["--catalog", "lake", "sales"], "lake.sales.eu.\nlake.sales.orders\n"),
        (["--catalog", "lake", "sales.eu"], "lake.sales.eu.returns\n"),
        (["lake", "--recursive"], "lake.top\nlake.sales.orders\nlake.sales.eu.returns\n"),
    ],
)
def test_list_prints_a_name_on_each_line(capfd, arguments, printed):
    assert main(["list", *arguments]) == 0
    assert capfd.readouterr().out == printed


def test_list_as_json(capfd):
    assert main(["list", "--catalog", "lake", "sales", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "format": 1,
        "kind": "list",
        "catalog": "lake",
        "namespace": ["sales"],
        "namespaces": ["lake.sales.eu"],
        "tables": ["lake.sales.orders"],
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--catalog", "lake", "sale"], "catalog lake has no namespace sale; the nearest are sales"),
        (["--catalog", "lake", "sales.us"], "catalog lake has no namespace sales.us; the nearest are sales.eu"),
        (["--catalog", "lake", "sales.orders"], "Cannot list lake.sales.orders: it is a table"),
        (["./none"], "there is no such directory"),
    ],
)
def test_what_is_not_there_is_an_error(capfd, arguments, said):
    assert main(["list", *arguments]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("command", [["info"], ["plan"], ["diff", "--engines", "duckdb,oracle"]])
def test_commands_take_names(capfd, command):
    assert main([*command, "sales.orders", "--catalog", "lake"]) == 0
    assert main([*command, "sales.orderz", "--catalog", "lake"]) == 2
    assert "the nearest are sales.orders" in capfd.readouterr().err


def test_a_query_takes_names(capfd):
    assert main(["sql", "SELECT count(*) AS n FROM o", "--table", "o=sales.orders", "--catalog", "lake"]) == 0
    assert capfd.readouterr().out.split() == ["n", "-", "1"]
