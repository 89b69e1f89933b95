import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.writing.delta.builder import DeltaTable


@pytest.fixture(autouse=True)
def lake(tmp_path, monkeypatch) -> Path:
    for folder, rows in (("lake/top", 1), ("lake/sales/orders", 2), ("lake/sales/eu/returns", 1)):
        (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
        table = DeltaTable.create(tmp_path / folder, {"id": "long"})
        for number in range(rows):
            table.append(table.write_data([{"id": number}]))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["lake"], "lake/sales/\nlake/top\n"),
        (["./lake/"], "./lake/sales/\n./lake/top\n"),
        (["."], "./lake/\n"),
        (["file:lake/sales"], "file:lake/sales/eu/\nfile:lake/sales/orders\n"),
        (["--catalog", "lake"], "lake/sales/\nlake/top\n"),
        (["--catalog", "lake", "sales"], "lake/sales/eu/\nlake/sales/orders\n"),
        (["--catalog", "lake", "sales.eu"], "lake/sales/eu/returns\n"),
        (["lake", "--recursive"], "lake/top\nlake/sales/orders\nlake/sales/eu/returns\n"),
        (["prod"], "prod.sales.\nprod.top\n"),
        (["prod.sales."], "prod.sales.eu.\nprod.sales.orders\n"),
        (["--catalog", "prod", "prod.sales."], "prod.sales.eu.\nprod.sales.orders\n"),
        (["--catalog", "prod", "--recursive"], "prod.top\nprod.sales.orders\nprod.sales.eu.returns\n"),
    ],
)
def test_list_prints_a_table_or_namespace_on_each_line(capfd, configured, arguments, printed):
    assert main(["list", *arguments]) == 0
    assert capfd.readouterr().out == printed


@pytest.fixture
def configured(lake) -> None:
    (lake.parent / "pyproject.toml").write_text('[tool.harness.catalogs.prod]\ntype = "warehouse"\nlocation = "lake"\n')


@pytest.mark.parametrize("source", [["lake"], ["--recursive", "."], ["prod"], ["--catalog", "prod", "sales"]])
def test_names_printed_by_list_work_in_every_command(capfd, configured, lake, source):
    odd = DeltaTable.create(lake / "sales" / "v1.0 (old)", {"id": "long"})
    odd.append(odd.write_data([{"id": 1}]))
    left, count = [source], 0
    while left:
        source = left.pop()
        assert main(["list", *source, "--format", "json"]) == 0
        content = json.loads(capfd.readouterr().out)
        left += [[*source[:-1], name] for name in content["namespaces"]]
        for table in content["tables"]:
            count += 1
            from_table = f"'{table}'" if "/" in table else table
            for words in (
                *([command, table] for command in ("info", "head", "count", "schema", "history", "plan", "check")),
                ["metadata", table, "files"],
                ["diff", table, table],
                *([["count", table, *source[:2]]] if source[0] == "--catalog" else []),
                ["pull", table, f"slices/{count}"],
                ["sql", "SELECT count(*) FROM t", "--table", f"t={table}"],
                ["sql", f"SELECT count(*) FROM {from_table}"],
                ["shell", "-c", f"SELECT count(*) FROM {from_table}"],
            ):
                assert main(words) == 0, words
            capfd.readouterr()
    assert count >= 3


def test_on_a_terminal_the_shells_own_characters_are_quoted(capfd, monkeypatch, lake):
    DeltaTable.create(lake / "the old (days)", {"id": "long"})
    assert main(["list", "lake"]) == 0
    assert capfd.readouterr().out == "lake/sales/\nlake/the old (days)\nlake/top\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["list", "lake"]) == 0
    assert capfd.readouterr().out == "lake/sales/\n'lake/the old (days)'\nlake/top\n"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["info", "lake.top"], "there is a table at ./lake/top"),
        (["sql", "FROM lake.sales.orders"], "there is a table at ./lake/sales/orders"),
        (["sql", "FROM x", "--table", "x=lake.top"], "there is a table at ./lake/top"),
    ],
)
def test_a_dotted_name_of_a_local_table_gets_a_hint_about_its_path(capfd, command, hint):
    assert main(command) == 2
    assert hint in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--catalog", "lake", "sale"], "catalog lake has no namespace sale; the nearest are sales"),
        (["--catalog", "lake", "sales.us"], "catalog lake has no namespace sales.us; the nearest are sales.eu"),
        (["--catalog", "lake", "sales.orders"], "Cannot list lake.sales.orders: it is a table"),
        (["./none"], "there is no such directory"),
        (["none"], "Cannot find catalog 'none': there is no such directory"),
        (["lake/top"], "Cannot list a table: use harness info to describe it"),
    ],
)
def test_names_that_cannot_be_listed_are_an_error(capfd, arguments, message):
    assert main(["list", *arguments]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("command", [["info"], ["plan"], ["diff", "--engines", "duckdb,oracle"]])
def test_commands_accept_names(capfd, command):
    assert main([*command, "sales.orders", "--catalog", "lake"]) == 0
    assert main([*command, "sales.orderz", "--catalog", "lake"]) == 2
    assert "the nearest are sales.orders" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("query", "more", "printed"),
    [
        ("SELECT count(*) AS n FROM sales.orders", [], "n\n2\n"),
        ("SELECT count(*) AS n FROM lake.sales.orders JOIN top USING (id)", [], "n\n1\n"),
        ("SELECT count(*) AS n FROM sales.orders", ["--at", "1"], "n\n1\n"),
        ("SELECT count(*) AS n FROM Lake.Sales.Orders AS o", ["--at", "1"], "n\n1\n"),
        ("WITH top AS (SELECT 7 AS id) SELECT id FROM top", ["--at", "1"], "id\n7\n"),
        ("SELECT count(*) AS n FROM o", ["--table", "o=sales.orders"], "n\n2\n"),
    ],
)
def test_a_query_names_tables_of_the_catalog(capfd, query, more, printed):
    assert main(["sql", query, "--catalog", "lake", "--format", "csv", *more]) == 0
    assert capfd.readouterr().out == printed


@pytest.mark.parametrize(
    ("query", "more", "message"),
    [
        ("SELECT * FROM sales.orderz", [], "There is no table sales.orderz; the nearest are sales.orders"),
        ("SELECT * FROM sales.orders", ["--at", "9"], "version 9"),
        ("CREATE TABLE x AS FROM top", [], "A query may only read"),
        ("SELECT nothing FROM top", [], "nothing"),
        ("SELECT 1", ["--dialect", "spark"], "--table NAME=TABLE"),
    ],
)
def test_a_query_with_invalid_names_is_an_error_of_one_line(capfd, query, more, message):
    assert main(["sql", query, "--catalog", "lake", *more]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "sales.orders", "--catalog", "lake"], "Cannot combine --catalog and --untrusted"),
        (["plan", "prod.sales.orders"], "Cannot read an untrusted table by name"),
        (["sql", "SELECT 1", "--table", "t=prod.sales.orders"], "Cannot read an untrusted table by name"),
    ],
)
def test_an_untrusted_table_has_no_name(capfd, arguments, message):
    assert main([*arguments, "--untrusted"]) == 2
    assert message in capfd.readouterr().err
