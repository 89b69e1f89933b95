"""`harness diff --plans`: from arguments to report and exit code."""

import json

import pytest

import harness
from harness.cli import main
from harness.testing.lake_catalog import LakeCatalog
from harness.testing.plan_faults import PlanFault
from harness.writing.iceberg.builder import IcebergTable

SCHEMA = {"id": "long", "region": "string"}


@pytest.fixture
def table(tmp_path):
    table = IcebergTable.create(tmp_path / "orders", SCHEMA)
    table.append(*(table.write_data([{"id": id_, "region": "eu"}, {"id": id_ + 1, "region": "us"}]) for id_ in (1, 3)))
    return table


@pytest.fixture
def served(table, monkeypatch):
    """Return a function that runs the command on a table that a server with faults serves."""
    open_table = harness.open_table

    def run(*words, faults=(), name="sales.orders"):
        with LakeCatalog(faults=faults) as server:
            server.add("sales.orders", table)

            def open_in_catalog(location, **options):
                return open_table(location, **{**options, "catalog": server.catalog()})

            monkeypatch.setitem(vars(harness), "open_table", open_in_catalog)
            return main(["diff", name, "--plans", "server,client", *words])

    return run


@pytest.mark.parametrize(
    ("faults", "words", "code"),
    [
        ([], [], 0),
        ([], ["--where", "id > 2", "--columns", "id"], 0),
        ([PlanFault.MISSING_FILE], [], 1),
        ([PlanFault.MISSING_FILE], ["--where", "id < 3"], 1),
        ([PlanFault.DROPPED_RESIDUALS], [], 0),
        ([PlanFault.DROPPED_RESIDUALS], ["--where", "id <> 3"], 1),
        ([], ["--at", "main"], 0),
    ],
)
def test_exit_codes(served, capfd, faults, words, code):
    assert served(*words, faults=faults) == code
    assert capfd.readouterr().out.startswith("different: 1 file differs" if code else "equal: no difference")


def test_a_name_may_begin_with_the_catalog(served, capfd):
    assert served("--catalog", "lake", name="lake.sales.orders") == 0
    assert "lake.sales.orders" in capfd.readouterr().out


@pytest.mark.parametrize("form", ["text", "json", "junit", "html"])
def test_reports(served, tmp_path, form, capfd):
    path = tmp_path / f"report.{form}"
    assert served("--format", form, "--output", f"{path}", faults=[PlanFault.FILE_TWICE]) == 1
    assert "the server" in path.read_text()
    assert "1 repeated file" in capfd.readouterr().err


def test_the_report_names_its_command_and_shows_some_files(served, capfd):
    assert served("--format", "json", "-n", "0", faults=[PlanFault.MISSING_FILE]) == 1
    document = json.loads(capfd.readouterr().out)
    assert "--plans=server,client" in document["made"]["command"]
    assert (document["counts"], document["differences"], document["truncated"]) == ({"missing_file": 1}, [], True)


@pytest.mark.parametrize(
    "words",
    [
        ["--keys", "id"],
        ["--exclude", "id"],
        ["--sql", "SELECT 1"],
        ["--engines", "duckdb"],
        ["--tolerance", "floats=1"],
        ["--schema-only"],
        ["--at", "1", "--at", "2"],
        ["--planning", "server"],
        ["--untrusted"],
        ["--plans", "server"],
        ["--plans", "server,spark"],
        ["other"],
    ],
    ids=" ".join,
)
def test_options_that_have_no_meaning_for_plans(served, capfd, words):
    assert served(*words) == 2
    assert "--plans" in capfd.readouterr().err


def test_a_path_has_no_server(table, capfd):
    assert main(["diff", str(table.store.directory), "--plans", "server,client"]) == 2
    assert "--planning server" in capfd.readouterr().err
