"""`harness scenarios list` and `build`."""

from __future__ import annotations

import json

from harness.cli import DONE, FAILED, main

_ONE = "iceberg/deletes/null-keys"


def test_build_writes_a_suite(tmp_path, capsys):
    assert main(["scenarios", "build", "iceberg/deletes/null*", _ONE, str(tmp_path / "out")]) == DONE
    out = tmp_path / "out"
    index = json.loads((out / "suite.json").read_text())
    assert (index["format"], index["kind"]) == (1, "suite")
    (entry,) = [case for case in index["cases"] if case["name"] == _ONE]
    assert entry["case"] == f"{_ONE}/case.json"
    case = json.loads((out / entry["case"]).read_text())
    assert (case["format"], case["kind"], case["table_format"]) == (1, "case", "iceberg")
    assert (out / _ONE / case["metadata"]).is_file()
    assert (out / _ONE / case["reads"][0]["rows"]["arrow"]).is_file()
    assert str(out / entry["case"]) in capsys.readouterr().out.splitlines()


def test_build_refuses_what_is_there(tmp_path, capsys):
    (tmp_path / _ONE).mkdir(parents=True)
    assert main(["scenarios", "build", _ONE, str(tmp_path)]) == FAILED
    assert f"{_ONE} is there already" in capsys.readouterr().err
    (tmp_path / "suite.json").touch()
    assert main(["scenarios", "build", _ONE, str(tmp_path)]) == FAILED
    assert "A suite is there already" in capsys.readouterr().err


def test_build_wants_scenarios_or_all(tmp_path, capsys):
    assert main(["scenarios", "build", str(tmp_path)]) == FAILED
    assert main(["scenarios", "build", "--all", _ONE, str(tmp_path)]) == FAILED
    assert capsys.readouterr().err.count("--all") == 2


def test_scenarios_are_listed_by_name_and_feature(capfd):
    assert main(["scenarios", "list", "iceberg/deletes/*", "--feature", "deletion-vector"]) == DONE
    lines = capfd.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert all(line.startswith("iceberg/deletes/") and "  " in line for line in lines)
    assert main(["scenarios", "list", "--feature", "deletion-vector", "--format", "json"]) == DONE
    found = json.loads(capfd.readouterr().out)["scenarios"]
    assert {each["format"] for each in found} == {"iceberg", "delta"}
    assert all("deletion-vector" in each["features"] for each in found)
    assert {line.split()[0] for line in lines} < {each["name"] for each in found}
