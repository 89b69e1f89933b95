"""`harness diff`: from arguments to report and exit code."""

import importlib.util
import json
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from xml.etree import ElementTree

import click
import pytest

import harness
import harness.snapshot  # import the engines before a test replaces them
from harness.cli import main
from harness.cli.app import imported
from harness.diff.result import ComparisonResult, RowDifference, RowKind, SideInfo
from harness.diff.sources import RowSource, SourceKind
from harness.diff.tolerances import Tolerance
from harness.errors import CorruptFileError, EngineError, RequestError, UnsupportedError
from harness.writing.iceberg.builder import IcebergTable

SIDE = SideInfo(name="t", engine="duckdb 2.0.0", rows=1)
EQUAL = ComparisonResult(left=SIDE, right=SIDE, columns=("a",))
GONE = RowDifference(kind=RowKind.ONLY_LEFT, left=("1",), right=None)
DIFFERENT = replace(EQUAL, rows=(GONE,), only_left=1)
BROKEN = SideInfo(name="t", engine="spark 4.3.0", error=EngineError("executor lost"))
OUTCOME = ComparisonResult(left=SIDE, right=BROKEN)
DECLINED = ComparisonResult(left=SIDE, right=replace(BROKEN, error=UnsupportedError("no equality deletes")))
FAILED = ComparisonResult(left=SideInfo(name="t", engine="duckdb 2.0.0", error=CorruptFileError("torn")), right=BROKEN)


class Calls:
    """The calls of the replaced API. `compare` returns `result`."""

    def __init__(self) -> None:
        self.result, self.compared, self.sessions = EQUAL, [], 0

    def open_table(self, location, **arguments):
        return SimpleNamespace(location=location, snapshot=lambda *_, **__: location)

    def compare(self, left_side, right_side, **arguments):
        self.compared.append((left_side, right_side, arguments))
        return self.result

    def find_engine(self, name):
        return SimpleNamespace(start=self.start if name == "spark" else None)

    def start(self):
        self.sessions += 1


@pytest.fixture
def calls(monkeypatch) -> Calls:
    calls_ = Calls()
    for name in ("open_table", "compare"):
        monkeypatch.setitem(vars(harness), name, getattr(calls_, name))
    monkeypatch.setattr("harness.engines.registry.find_engine", calls_.find_engine)
    return calls_


@pytest.mark.parametrize(
    ("arguments", "engines"),
    [
        (["u"], ("duckdb", "duckdb")),
        (["--at", "4", "--at", "5"], ("duckdb", "duckdb")),
        (["--at", "4", "--at", "4"], ("duckdb", "duckdb")),
        (["--at", "4"], ("duckdb", "spark")),
        (["u", "--engines", "duckdb,spark"], ("duckdb", "spark")),
    ],
    ids=" ".join,
)
def test_two_sides_are_compared_on_duckdb_and_one_table_on_both_engines(calls, arguments, engines):
    assert main(["diff", "t", *arguments]) == 0
    assert calls.compared[0][2]["engines"] == engines
    assert calls.sessions == engines.count("spark")


def test_options_reach_the_comparison(calls):
    how = ["--tolerance", "a=0.01 because of b=c", "--tolerance", "floats=1e-9", "--exclude", 'b,"c,d"', "--keys", "k"]
    how += ["--columns", "k,a", "--where", "a > 1", "--max-rows", "7", "--schema-only"]
    assert main(["diff", "t", "rows.csv", *how]) == 0
    ((_, right, given),) = calls.compared
    assert right == RowSource(SourceKind.CSV, "rows.csv")
    assert given == {
        "engines": ("duckdb", "duckdb"),
        "keys": ("k",),
        "columns": ("k", "a"),
        "where": "a > 1",
        "max_rows": 7,
        "tolerance": {"a": Tolerance(Decimal("0.01"), reason="of b=c"), "floats": Tolerance(Decimal("1e-9"))},
        "exclude": ("b", "c,d"),
        "schema_only": True,
    }
    assert calls.sessions == 0


OPTIONS = """
--keys --at --columns --where --exclude --sql --sql-file --table --dialect --engines --plans --tolerance --schema-only
--max-rows --output --format --catalog --storage-option --allow-root --planning --verbose --untrusted --set --help
"""


def test_the_command_has_24_options_in_the_common_spelling():
    """Other allowed differences are written in SQL, and readers are tested by the commands for scenarios."""
    command = imported("diff")
    options = [each for each in command.get_params(click.Context(command)) if each.param_type_name == "option"]
    assert [next(name for name in each.opts if name.startswith("--")) for each in options] == OPTIONS.split()
    assert {short for each in options for short in each.opts if not short.startswith("--")} >= {"-n", "-o", "-v"}
    lists = {name: str(each.metavar) for each in options for name in each.opts if each.metavar}
    assert {lists[name] for name in ("--keys", "--columns", "--exclude", "--engines")} == {"A,B"}


@pytest.mark.parametrize("report", ["text", "json", "junit", "html"])
@pytest.mark.parametrize(
    ("result", "code", "error"),
    [
        pytest.param(EQUAL, 0, "", id="equal"),
        pytest.param(DIFFERENT, 1, "", id="different"),
        pytest.param(OUTCOME, 1, "", id="outcome"),
        pytest.param(FAILED, 2, "error: both sides failed: torn", id="failed"),
        pytest.param(DECLINED, 2, "error: the right side refused to read: no equality deletes", id="declined"),
    ],
)
def test_exit_codes(calls, capfd, result, code, error, report):
    calls.result = result
    assert main(["diff", "t", "--format", report]) == code
    out, err = capfd.readouterr()
    assert out.endswith("\n")
    assert err.count("\n") == bool(error)
    assert err.startswith(error)


def test_reports_of_one_comparison_go_to_their_files(calls, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls.result = DIFFERENT
    files = ["--output", "r.xml", "--output", "r.htm", "--output", "r.json"]
    assert main(["diff", "t", *files, "--format", "text"]) == 1
    assert len(calls.compared) == 1
    assert capfd.readouterr().out.startswith("different: 1 row only on the left\n")
    assert ElementTree.parse("r.xml").find("testsuite").get("failures") == "1"
    assert (tmp_path / "r.htm").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["only_left"] == 1
    assert main(["diff", "t", "--output", "S.JSON", "--output", "s"]) == 1
    assert json.loads((tmp_path / "S.JSON").read_text("utf-8"))["only_left"] == 1
    assert (tmp_path / "s").read_text("utf-8").startswith("different: ")
    assert capfd.readouterr().out == ""


def test_reports_say_when_and_how_they_were_made_without_secrets(calls, capfd, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767323045")
    given = ["s3://user:word@host/t?X-Sig=abc", "postgres:host=h password='a b' dbname=d#t", "--keys", "id"]
    assert main(["diff", *given, "--format", "json", "--storage-option", "secret_access_key=abc"]) == 0
    assert json.loads(capfd.readouterr().out)["made"] == {
        "at": "2026-01-02T03:04:05Z",
        "version": harness.__version__,
        "command": "harness diff --keys=id --format=json '--storage-option=secret_access_key=***' -- s3://host/t "
        "'postgres:host=h password=*** dbname=d#t'",
    }


def test_one_table_says_how_to_get_spark(orders, capfd, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else there(name))
    assert main(["diff", str(orders.location)]) == 2
    assert "pip install 'lakeharness[spark]'" in capfd.readouterr().err
    assert main(["diff", str(orders.location), str(orders.location), "--keys", "id"]) == 0


@pytest.mark.parametrize("missing", ["engine", "java"])
def test_an_engine_that_is_not_there_is_no_difference(calls, capfd, monkeypatch, missing):
    def refuse(*_):
        raise RequestError(f"no {missing}")

    if missing == "engine":
        monkeypatch.setattr("harness.engines.registry.find_engine", refuse)
    else:
        monkeypatch.setattr(calls, "start", refuse)
    assert main(["diff", "t"]) == 2
    assert capfd.readouterr() == ("", f"error: no {missing} [Request]\n")


@pytest.fixture
def orders(tmp_path) -> IcebergTable:
    """Snapshots with rows 1, 2, and 3, then without row 2, then with row 3 changed."""
    built = IcebergTable.create(tmp_path / "orders", {"id": "long not null", "region": "string"})
    first = built.write_data([{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}, {"id": 3, "region": "us"}])
    built.append(first)
    built.commit(add=[built.write_position_deletes([(first, 1)])])
    built.commit(add=[built.write_position_deletes([(first, 2)]), built.write_data([{"id": 3, "region": "apac"}])])
    return built


def test_a_file_is_compared_with_a_table(orders, tmp_path, capfd):
    (tmp_path / "orders.csv").write_text("id,region\n1,EU \n3,apac\n")
    given = ["diff", str(tmp_path / "orders.csv"), str(orders.location)]
    assert main([*given, "--keys", "id"]) == 1
    assert "~  1   'EU ' → 'eu'" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT id, lower(trim(area)) AS region FROM t", 1),
        ("SELECT id, nullif(lower(trim(area)), '-') AS region FROM t", 0),
    ],
    ids=["text", "nulls"],
)
def test_queries_make_equal_what_may_differ(orders, tmp_path, query, code):
    """SQL can express allowed differences of names, case, spaces, texts for null, and types."""
    (tmp_path / "orders.csv").write_text("id,area\n1,EU \n3,apac\n5,-\n")
    orders.append(orders.write_data([{"id": 5, "region": None}]))
    sides = [str(tmp_path / "orders.csv"), str(orders.location)]
    assert main(["diff", *sides, "--keys", "id", "--sql", query, "--sql", "FROM t"]) == code
    assert main(["diff", f"duckdb:#{query.replace('FROM t', f'FROM {sides[0]!r}')}", sides[1], "--keys", "id"]) == code


@pytest.mark.smoke
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("more", [["--keys", "id"], ["--sql", "SELECT region, count(*) AS n FROM t GROUP BY ALL"]])
def test_both_engines_agree(orders, capfd, more):
    assert main(["diff", str(orders.location), *more]) == 0
    out = capfd.readouterr().out
    assert out.startswith("equal: no difference in 2 rows\n")
    assert "duckdb " in out
    assert "spark " in out
