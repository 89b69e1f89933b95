"""`harness diff`: arguments in; report and exit code out."""

from __future__ import annotations

import importlib.util
import json
from decimal import Decimal
from xml.etree import ElementTree

import pytest

import harness
import harness.snapshot  # binds the engines before a test replaces them
from harness.cli import main
from harness.differ.relaxations import ALL_TYPE_RULES, Relaxations, Tolerance, TypeRule
from harness.differ.result import ComparisonResult, RowDifference, RowKind, SideInfo
from harness.differ.sources import RowSource, SourceKind
from harness.errors import CorruptFileError, EngineError, RequestError
from harness.testing.writing.iceberg.builder import IcebergTable

SIDE = SideInfo(name="t", engine="duckdb 2.0.0", rows=1)
EQUAL = ComparisonResult(left=SIDE, right=SIDE, columns=("a",))
DIFFERENT = ComparisonResult(
    left=SIDE,
    right=SIDE,
    columns=("a",),
    rows=(RowDifference(kind=RowKind.ONLY_LEFT, left=("1",), right=None),),
    only_left=1,
)
BROKEN = SideInfo(name="t", engine="spark 4.3.0", error=EngineError("executor lost"))
OUTCOME = ComparisonResult(left=SIDE, right=BROKEN)
FAILED = ComparisonResult(left=SideInfo(name="t", engine="duckdb 2.0.0", error=CorruptFileError("torn")), right=BROKEN)


class StandInTable:
    def __init__(self, location: str) -> None:
        self.location = location

    def snapshot(self, snapshot_id=None, timestamp=None, ref=None) -> tuple:
        return (self.location, snapshot_id, timestamp, ref)


class Calls:
    """What was asked of the API, which is replaced; `compare` gives `found`."""

    def __init__(self) -> None:
        self.found = EQUAL
        self.opened: list = []
        self.compared: list = []
        self.sessions = 0

    def open_table(self, location, **given):
        usual = {"prune": "all", "outside": "warn"}
        chosen = {key: value for key, value in given.items() if value and usual.get(key) != value}
        self.opened.append((location, chosen))
        return StandInTable(location)

    def compare(self, left, right, **given):
        self.compared.append((left, right, given))
        return self.found

    def find_engine(self, name):
        return self if name == "spark" else None

    def start(self):
        self.sessions += 1


@pytest.fixture
def calls(monkeypatch) -> Calls:
    made = Calls()
    for name in ("open_table", "compare"):
        monkeypatch.setitem(vars(harness), name, getattr(made, name))
    monkeypatch.setattr("harness.engines.registry.find_engine", made.find_engine)
    return made


@pytest.mark.parametrize(
    ("arguments", "engines"),
    [
        (["u"], ("duckdb", "duckdb")),
        (["--at", "4", "--at", "5"], ("duckdb", "duckdb")),
        (["--at", "4"], ("duckdb", "spark")),
        (["u", "--engines", "duckdb,spark"], ("duckdb", "spark")),
    ],
    ids=" ".join,
)
def test_two_sides_are_compared_on_duckdb_and_one_table_on_both_engines(calls, arguments, engines):
    assert main(["diff", "t", *arguments]) == 0
    assert calls.compared[0][2]["engines"] == engines
    assert calls.sessions == engines.count("spark")


def test_relaxations_reach_the_comparison(calls):
    relaxing = ["--tolerance", "a=0.01 because of b=c", "--exclude", "b", "--rename", "x=y", "--ignore-case", "--trim"]
    more = ["--null-as", "", "--group-by", "d,e", "--sample-keys", "9", "--strict", "zones", "--keys", "k"]
    more += ["--tolerance", "floats=1e-9", "--ignore-name-case", "--cast", "c=DECIMAL(9, 2)", "--schema-only"]
    assert main(["diff", "t", "rows.csv", *relaxing, *more]) == 0
    (_, right, given) = calls.compared[0]
    assert right == RowSource(SourceKind.CSV, "rows.csv")
    assert given["relaxations"] == Relaxations(
        tolerance={"a": Tolerance(Decimal("0.01"), reason="of b=c"), "floats": Tolerance(Decimal("1e-9"))},
        ignore_name_case=True,
        cast={"c": "DECIMAL(9, 2)"},
        exclude=("b",),
        rename={"x": "y"},
        ignore_case=True,
        trim=True,
        null_as="",
        types=ALL_TYPE_RULES - {TypeRule.ZONES},
    )
    assert (given["group_by"], given["sample_keys"], given["engines"]) == (["d", "e"], 9, ("duckdb", "duckdb"))
    assert given["schema_only"]
    assert calls.sessions == 0


@pytest.mark.parametrize("report", ["text", "json", "junit", "html"])
@pytest.mark.parametrize(
    ("found", "code", "errors"),
    [(EQUAL, 0, 0), (DIFFERENT, 1, 0), (OUTCOME, 1, 0), (FAILED, 2, 1)],
    ids=["equal", "different", "outcome", "failed"],
)
def test_exit_codes(calls, capfd, found, code, errors, report):
    calls.found = found
    assert main(["diff", "t", "--format", report]) == code
    out, err = capfd.readouterr()
    assert out.endswith("\n")
    assert err.count("\n") == errors
    assert err.startswith("error: both sides failed: torn" if errors else "")


def test_reports_of_one_comparison_go_to_their_files(calls, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls.found = DIFFERENT
    files = ["--output", "r.xml", "--output", "r.htm", "--output", "r"]
    assert main(["diff", "t", *files, *[f"--format={each}" for each in ("junit", "html", "json", "text")]]) == 1
    assert len(calls.compared) == 1
    assert capfd.readouterr().out.startswith("different: 1 row only on the left\n")
    assert ElementTree.parse("r.xml").find("testsuite").get("failures") == "1"
    assert (tmp_path / "r.htm").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "r").read_text("utf-8"))["only_left"] == 1
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing argument 'TABLE'"),
        (["t", "--engines", "a,b,c"], "--engines 'a,b,c': expected one name, or two with a comma between them"),
        (["t", "--engines", ""], "--engines ''"),
        (["t", "--at", "1", "--at", "2", "--at", "3"], "--at is given 3 times"),
        (["t", "--at", "snapshot=x"], "Invalid --at snapshot=x: a snapshot is a number"),
        (["t", "--keys", "a,,b"], "--keys 'a,,b' holds an empty name"),
        (["t", "--sql", "SELECT 1", "--where", "a"], "--sql excludes --columns and --where"),
        (["t", "--max-rows", "-1"], "max-rows"),
        (["t", "--format", "xml"], "xml"),
        (["t", "--format", "text", "--output", "r.html"], "--output r.html: the suffix says html, --format says text"),
        (
            ["t", "--output", "o.parquet"],
            "--output o.parquet: the suffix says parquet; there are text, json, junit, html",
        ),
        (["t", "--format", "json", "--format", "html"], "standard output takes one report"),
        (["t", "--output", "r.json", "--output", "r.json"], "names a file twice"),
        (["t", "--output-file", "r.json"], "No such option: --output-file"),
        (["t", "--tolerance", "a"], "--tolerance 'a': expected two parts with = between them"),
        (["t", "--tolerance", "a=much"], "--tolerance 'a=much': Invalid tolerance 'much'"),
        (["t", "--rename", "a="], "--rename 'a='"),
        (["t", "--sample-keys", "0"], "sample-keys"),
        (["t", "--strict", "rules"], "rules"),
        (["t", *["--sql", "SELECT 1"] * 3], "--sql is given 3 times"),
        (["rows.csv"], "'rows.csv' is compared with nothing"),
        (["rows.csv", "t", "--at", "1", "--at", "2"], "--at is for tables: rows.csv has no snapshots"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_2(calls, capfd, arguments, sentence):
    assert main(["diff", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert sentence in err
    assert calls.compared == []


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


def test_the_help_fits_a_screen_and_names_rare_options(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["diff", "-h"]) == 0
    short = capfd.readouterr().out
    assert len(short.splitlines()) <= 50
    assert max(map(len, short.splitlines())) <= 80
    assert "Rare options: --help-all shows 14 options (--shapes, --rename," in short
    assert "Leave these columns out" in short
    assert "LEFT=RIGHT" not in short
    assert main(["diff", "--help-all"]) == 0
    rare, _, opening = capfd.readouterr().out.partition("\nRare options:\n")[2].partition("\nOpening tables:\n")
    assert "  --rename LEFT=RIGHT " in rare
    assert "  --allow-root DIR " in opening


@pytest.fixture
def orders(tmp_path) -> IcebergTable:
    """Snapshots: rows 1, 2, 3; then without 2; then with 3 changed."""
    built = IcebergTable.create(tmp_path / "orders", {"id": "long not null", "region": "string"})
    first = built.write_data([{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}, {"id": 3, "region": "us"}])
    built.append(first)
    built.commit(add=[built.write_position_deletes([(first, 1)])])
    built.commit(add=[built.write_position_deletes([(first, 2)]), built.write_data([{"id": 3, "region": "apac"}])])
    return built


def snapshots(orders: IcebergTable) -> list[str]:
    return [str(s["snapshot-id"]) for s in json.loads(orders.metadata_path.read_text())["snapshots"]]


def between(orders: IcebergTable, left: int, right: int) -> list[str]:
    ids = snapshots(orders)
    return ["diff", str(orders.location), "--at", ids[left], "--at", ids[right]]


def report(capfd) -> dict:
    return json.loads(capfd.readouterr().out)


def test_two_snapshots_differ_by_a_deleted_row(orders, capfd):
    assert main([*between(orders, 0, 1), "--format", "json"]) == 1
    found = report(capfd)
    assert (found["only_left"], found["only_right"], found["left"]["rows"], found["right"]["rows"]) == (1, 0, 3, 2)
    (row,) = found["rows"]
    (origin,) = row["left_origins"]
    assert row["left"] == ["2", "'eu'"]
    assert origin["position"] == 1
    assert len(origin["hidden_by"]) == 1


def test_a_file_is_compared_with_a_table(orders, tmp_path, capfd):
    (tmp_path / "orders.csv").write_text("id,REGION\n1,EU \n3,apac\n")
    given = ["diff", str(tmp_path / "orders.csv"), str(orders.location), "--rename", "REGION=region"]
    assert main([*given, "--keys", "id"]) == 1
    assert "~  1   'EU ' → 'eu'" in capfd.readouterr().out
    assert main([*given, "--trim", "--ignore-case"]) == 0
    assert "text is compared without regard to case" in capfd.readouterr().out
    queries = ["--sql", "SELECT count(*)::INT AS n FROM t", "--sql", "SELECT count(*) AS n FROM t"]
    assert main([*given[:3], *queries]) == 0
    assert main([*given[:3], *queries, "--strict", "types"]) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--keys", "nothing"], "the left side has only id, region"),
        (["--keys", "region", "--at", "FIRST"], "rows with region = 'eu'"),
        (["--columns", "nothing"], "nothing"),
        (["--where", "id >"], "Cannot parse the filter"),
        (["--engines", "postgres"], "Unknown engine 'postgres'"),
        (["--at", "nowhere"], "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_is_one_line(orders, capfd, arguments, sentence):
    given = [snapshots(orders)[0] if argument == "FIRST" else argument for argument in arguments]
    assert main(["diff", str(orders.location), "--engines", "duckdb", *given]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sentence in err


@pytest.mark.smoke
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("more", [["--keys", "id"], ["--sql", "SELECT region, count(*) AS n FROM t GROUP BY ALL"]])
def test_both_engines_agree(orders, capfd, more):
    assert main(["diff", str(orders.location), *more]) == 0
    out = capfd.readouterr().out
    assert out.startswith("equal: no difference in 2 rows\n")
    assert "duckdb " in out
    assert "spark " in out
