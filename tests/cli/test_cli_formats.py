"""`--format` and `--output`: the suffix says the format, and contradictions are errors."""

from __future__ import annotations

import json

import pyarrow.ipc
import pyarrow.parquet
import pytest

from harness.cli import main
from harness.testing.writing.delta.builder import DeltaTable


@pytest.fixture
def table(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    return "t"


@pytest.mark.parametrize(
    ("command", "output", "read"),
    [
        (["sql", "SELECT 1 AS n"], "o.csv", lambda file: file.read_text() == "n\n1\n"),
        (["sql", "SELECT 1 AS n"], "o.JSON", lambda file: json.loads(file.read_text())["rows"] == [[1]]),
        (["sql", "SELECT 1 AS n"], "o.ndjson", lambda file: json.loads(file.read_text()) == {"n": 1}),
        (["sql", "SELECT 1 AS n"], "o.parquet", lambda file: pyarrow.parquet.read_table(file).num_rows == 1),
        (["sql", "SELECT 1 AS n"], "o.arrow", lambda file: pyarrow.ipc.open_stream(file).read_all().num_rows == 1),
        (
            ["sql", "SELECT 1 AS n"],
            "o",
            lambda file: file.read_text().startswith("      n\ninteger\n-------\n      1\n"),
        ),
        (
            ["sql", "SELECT 1 AS n"],
            "o.txt",
            lambda file: file.read_text().startswith("      n\ninteger\n-------\n      1\n"),
        ),
        (["sql", "SELECT 1 AS n", "--format", "csv"], "o.gone", lambda file: file.read_text() == "n\n1\n"),
        (["metadata", "t", "versions"], "o.parquet", lambda file: pyarrow.parquet.read_table(file).num_rows == 2),
        (["plan", "t"], "o.json", lambda file: json.loads(file.read_text())["kind"] == "plan"),
        (["plan", "t"], "o.txt", lambda file: "1 read" in file.read_text()),
        (["info", "t"], "o.json", lambda file: json.loads(file.read_text())["kind"] == "info"),
        (["info", "t", "--untrusted"], "o.json", lambda file: json.loads(file.read_text())["kind"] == "info"),
        (["list", "."], "o.json", lambda file: json.loads(file.read_text())["kind"] == "list"),
        (["rule", "delta", "L1"], "o.txt", lambda file: file.read_text().startswith("delta L1: ")),
        *((["info", "t"], output, lambda file: "<svg" in file.read_text()) for output in ("o.html", "o.htm")),
        (["plan", "t"], "o.html", lambda file: "<svg" in file.read_text()),
        (["history", "t"], "o.html", lambda file: "<svg" in file.read_text()),
        (["pull", "t", "s", "--dry-run"], "o.json", lambda file: json.loads(file.read_text())["kind"] == "pull"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value if isinstance(value, str) else "",
)
def test_the_suffix_says_the_format(table, tmp_path, capfd, command, output, read):
    assert main([*command, "--output", output]) == 0
    assert capfd.readouterr().out == ""
    assert read(tmp_path / output)


@pytest.mark.parametrize(
    "command", [["schema", "t"], ["count", "t"], ["list", "."], ["doctor"], ["rule", "delta", "L1"]]
)
@pytest.mark.parametrize("output", ["o.parquet", "o.html"])
def test_no_description_is_written_as_text_into_another_kind_of_file(table, tmp_path, capfd, command, output):
    assert main([*command, "--output", output]) == 2
    assert "there are text, json" in capfd.readouterr().err
    assert not (tmp_path / output).exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sql", "SELECT 1", "--output", "r.html"], "--output r.html: the suffix says html; there are text, csv, json"),
        (["sql", "SELECT 1", "--output", "o.csv", "--format", "json"], "the suffix says csv, --format says json"),
        (
            ["sql", "SELECT 1", "--output", "o.parquet", "--format", "text"],
            "the suffix says parquet, --format says text",
        ),
        (["sql", "SELECT 1", "--output", "o.xlsx"], "the suffix says no format; give --format, or .txt, .csv, .json"),
        (
            ["scenarios", "run", "--output", "o.parquet"],
            "the suffix says parquet; there are text, json, junit, github, html",
        ),
        (["scenarios", "run", "--output", "o.json", "--output", "o.json"], "--output names a file twice"),
        (["scenarios", "run", "--format", "text", "--format", "json"], "standard output takes one report"),
        (["metadata", "t", "files", "--output", "o.csv", "--format", "arrow"], "--format says arrow"),
        (
            ["history", "t", "--format", "jsn"],
            "Invalid value for '--format': 'jsn' is not one of 'text', 'json', 'html'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_contradictions_are_errors(table, tmp_path, capfd, arguments, sentence):
    assert main(arguments) == 2
    assert sentence in capfd.readouterr().err
    assert list(tmp_path.glob("o.*")) == []
