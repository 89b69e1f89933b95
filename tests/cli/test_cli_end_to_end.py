"""The commands on a table on disk: three rows in two files, one row deleted by position, one by equality."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from harness.cli import main
from harness.testing.iceberg import IcebergTable


@pytest.fixture
def table(tmp_path) -> IcebergTable:
    built = IcebergTable.create(
        tmp_path / "orders", {"id": "long not null", "region": "string"}, partition_spec=[("region", "identity")]
    )
    eu = built.write_data([{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    us = built.write_data([{"id": 3, "region": "us"}, {"id": 4, "region": "us"}])
    built.append(eu)
    built.append(us)
    built.commit(add=[built.write_position_deletes([(eu, 0)])])
    built.commit(add=[built.write_equality_deletes(["id"], [{"id": 4}], partition={"region": "us"})])
    return built


def rows(capfd) -> list:
    return json.loads(capfd.readouterr().out)["rows"]


def test_sql_applies_deletes(table, capfd):
    query = "SELECT id, region FROM orders ORDER BY id"
    assert main(["sql", query, "--table", f"orders={table.directory}", "--format", "json"]) == 0
    assert rows(capfd) == [[2, "eu"], [3, "us"]]


def test_sql_of_an_earlier_snapshot(table, capfd):
    first = table.document.doc["snapshots"][0]["snapshot-id"]
    arguments = ["--table", f"o={table.directory}", "--snapshot", str(first), "--format", "json"]
    assert main(["sql", "SELECT id FROM o ORDER BY id", *arguments]) == 0
    assert rows(capfd) == [[1], [2]]


def test_sql_as_an_arrow_stream(table, capfdbinary):
    assert main(["sql", "SELECT id FROM o ORDER BY id", "--table", f"o={table.directory}", "--format", "arrow"]) == 0
    out = capfdbinary.readouterr().out
    assert pa.ipc.open_stream(out).read_all().to_pydict() == {"id": [2, 3]}


def test_sql_with_no_table(capfd):
    assert main(["sql", "SELECT 40 + 2 AS x", "--format", "jsonl"]) == 0
    assert capfd.readouterr().out == '{"x": 42}\n'


@pytest.mark.parametrize("query", ["SELECT nothing FROM o", "SELEC 1", "SELECT 1/x FROM nowhere"])
def test_a_wrong_query_is_one_line(table, capfd, query):
    assert main(["sql", query, "--table", f"o={table.directory}"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_an_error_at_run_time_writes_no_rows(table, capfd):
    query = "SELECT CASE WHEN id = 3 THEN error('no') ELSE id END FROM o ORDER BY id"
    assert main(["sql", query, "--table", f"o={table.directory}", "--format", "csv"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_plan_skips_files(table, capfd):
    assert main(["plan", str(table.directory), "--where", "region = 'eu'", "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["version"], document["kind"]) == (1, "plan")
    assert len(document["files"]) == 1
    assert [skip["reason"] for skip in document["skipped"]] == ["partition"]
    assert len(document["position_deletes"]) == 1
    assert document["equality_deletes"] == []


def test_plan_as_text(table, capfd):
    assert main(["plan", str(table.directory), "--where", "region = 'eu'"]) == 0
    out = capfd.readouterr().out
    assert "1 read, 1 skipped (1 by partition)" in out
    assert "position delete file" in out


def test_info(table, capfd):
    assert main(["info", str(table.directory)]) == 0
    out = capfd.readouterr().out
    assert "region" in out
    assert str(table.document.doc["snapshots"][0]["snapshot-id"]) in out
    assert main(["info", str(table.directory), "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["kind"] == "info"


def test_a_table_that_is_not_there(tmp_path, capfd):
    assert main(["info", str(tmp_path / "nothing")]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert str(tmp_path / "nothing") in err
    assert err.count("\n") == 1


def test_demo(capfd, tmp_path):
    directory = tmp_path / "tables"
    assert main(["demo", "--directory", str(directory)]) == 0
    out, err = capfd.readouterr()
    assert "$ harness plan" in out
    assert "$ harness sql" in out
    assert any(directory.iterdir())
    assert err == f"The tables are in {directory}\n"
    assert main(["demo", "--directory", str(directory)]) == 2
    assert capfd.readouterr().err.startswith("error: Cannot make the demo tables: the directory exists")
