from __future__ import annotations

import json
import sys

import pytest

from harness.cli import doctor, main
from harness.cli.doctor import Requirement, check, java_problem
from harness.errors import RequestError


def test_this_environment_can_read_with_duckdb(capfd):
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["format"], report["kind"]) == (1, "doctor")
    assert report["works"]["DuckDB reads"] is True
    assert {p["package"] for p in report["packages"]} >= {"duckdb", "pyarrow", "pyspark"}


def test_without_duckdb_it_says_how_to_get_it_and_exits_with_2(capfd, monkeypatch):
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

    monkeypatch.setattr("harness.tools.contained.launching.run", run)
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["works"]["Untrusted reads"] is False
    (gap,) = [gap for gap in report["missing"] if gap["needed_for"] == "Untrusted reads"]
    assert gap["what"] == "Cannot hold it: or accept by the option --set waived"


@pytest.mark.parametrize("missing", ["pyspark", "java"])
def test_without_spark_duckdb_reads_still_work(capfd, monkeypatch, missing):
    installed = doctor.installed_version
    monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == missing else installed(name))
    if missing == "java":
        monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    assert main(["doctor", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    limits_hold = sys.platform == "linux"
    assert report["works"] == {"DuckDB reads": True, "Spark reads": False, "Untrusted reads": limits_hold}
    assert any(missing in gap["what"].lower() for gap in report["missing"])


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


@pytest.mark.parametrize(
    ("version", "pyspark", "problem"),
    [
        ("17.0.15", "4.0.0", None),
        ("21", "4.1.4", None),
        ("25.0.3", "4.2.0", None),
        ("26-ea", "4.10.0", None),
        ("26-ea", None, None),
        (
            *("25.0.3", "4.1.4"),
            "Java: 25.0.3 is Java 25, on which pyspark 4.1.4 does not run; "
            "install pyspark 4.2 or newer, or set JAVA_HOME to Java 17 to 22",
        ),
        ("1.8.0_402", "4.3.0", "Java: version 1.8.0_402 is not supported, need 17 or newer"),
        (None, "4.3.0", "Java: not found, need 17 or newer"),
    ],
)
def test_java_versions(version, pyspark, problem):
    assert java_problem(version, pyspark) == problem
