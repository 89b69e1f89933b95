"""Destinations of results: formats by suffix, complete replacement of files, and errors in one line."""

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.ipc
import pyarrow.parquet
import pytest

from harness.cli import main, results
from harness.errors import RequestError
from harness.writing.delta.builder import DeltaTable

QUERY = ["sql", "SELECT 42 AS x", "--format", "jsonl"]
FULL = Path("/dev/full")

needs_full = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
no_windows = pytest.mark.skipif(sys.platform == "win32", reason="files have other kinds and permissions there")


@pytest.fixture
def table(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    return "t"


def refused(capfd, arguments) -> str:
    """Return the single line of the error that the command prints."""
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@no_windows
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_is_replaced_under_its_permissions(tmp_path, mode):
    file = tmp_path / "f"
    file.write_text("old")
    file.chmod(mode)
    number = file.stat().st_ino
    assert main([*QUERY, "--output", str(file)]) == 0
    assert file.read_text() == '{"x": 42}\n'
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.stat().st_ino != number


@no_windows
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("link", "it is a link"),
        ("dangling", "it is a link"),
        ("directory", "it is a directory"),
        ("pipe", "it is a device"),
        ("/dev/null", "it is a device"),
        ("/dev/stdout", "it is a "),
        ("none/f", "No such file or directory"),
        ("x" * 300, "File name too long"),
    ],
)
@pytest.mark.parametrize("command", ["sql", "diff", "run"])
def test_only_regular_files_are_replaced(tmp_path, capfd, monkeypatch, table, command, kind, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    arguments = {
        "sql": [*QUERY, "--output", kind],
        "diff": ["diff", table, "--engines", "oracle", "--output", kind],
        "run": ["scenarios", "run", "delta/paths/odd-root", "--engines", "oracle", "--output", kind],
    }
    assert reason in refused(capfd, arguments[command])
    assert (tmp_path / "target").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == before


@no_windows
@pytest.mark.parametrize(
    ("command", "link"),
    [
        *(("build", name) for name in ("suite.json", "README.md", "schema.json", "delta", "delta/paths/odd-root")),
        *(("run", name) for name in ("delta", "delta/paths", "delta/paths/odd-root")),
    ],
)
def test_nothing_below_a_directory_is_written_through_a_link(tmp_path, capfd, command, link):
    aside, place = tmp_path / "aside", tmp_path / "out" / link
    aside.mkdir()
    place.parent.mkdir(parents=True)
    place.symlink_to(aside if "." not in link else aside / "nothing")
    scenario = "delta/paths/odd-root"
    arguments = {
        "build": ["scenarios", "build", scenario, str(tmp_path / "out")],
        "run": ["scenarios", "run", scenario, "--engines", "oracle", "--keep", str(tmp_path / "out")],
    }
    refused(capfd, arguments[command])
    assert list(aside.iterdir()) == []


class FullFile(io.FileIO):
    def write(self, data, /):
        raise OSError(28, "No space left on device")


@no_windows
@pytest.mark.parametrize("form", ["text", "csv", "json", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("rows", [1, 20_000], ids=["few", "many"])
def test_a_full_disk_is_one_line(tmp_path, capfd, monkeypatch, form, rows):
    opened, full = os.fdopen, tmp_path / "f"

    def open_full(at, mode, **more):
        return io.BufferedWriter(FullFile(at, "w")) if mode == "wb" else opened(at, mode, **more)

    monkeypatch.setattr(os, "fdopen", open_full)
    query = f"SELECT range AS x, md5(range::VARCHAR) AS y FROM range({rows})"
    assert "No space left on device" in refused(capfd, ["sql", query, "--format", form, "--output", str(full)])
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_a_full_stdout_is_one_line(form):
    query = "SELECT range AS x, md5(range::VARCHAR) AS y FROM range(20000)"
    with FULL.open("wb") as full:
        done = command(["sql", query, "--format", form], stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"error: Cannot write to standard output: No space left on device [Request]\n"


@pytest.mark.slow
@no_windows
@pytest.mark.parametrize(("closed", "code"), [("1", 2), ("2", 0), ("0 1 2", 2)])
def test_closed_streams(closed, code):
    ends = " ".join(f"{number}>&-" for number in closed.split())
    line = f'exec "$0" -m harness sql "SELECT 42 AS x" --format csv {ends}'
    done = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, timeout=120, check=False)
    assert done.returncode == code
    assert done.stdout == (b"" if "1" in closed else b"x\n42\n")
    lines = {"1": b"error: Cannot write to standard output: it is closed [Request]\n"}
    assert done.stderr == lines.get(closed, b"")


@needs_full
def test_a_directory_that_cannot_be_made_is_one_line(capfd):
    for arguments in (
        ["scenarios", "build", "delta/paths/odd-root", "/dev/null/x"],
        ["demo", "/dev/null/x"],
    ):
        assert "/dev/null/x" in refused(capfd, arguments)


@pytest.mark.parametrize(
    "command",
    [["demo"], ["scenarios", "build", "delta/paths/odd-root"]],
    ids=lambda command: command[0],
)
def test_a_name_that_is_too_long_is_one_line(tmp_path, capfd, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert "File name too long" in refused(capfd, [*command, "x" * 300])


def test_errors_while_rows_are_read_leave_stdout_open(capfd):
    with pytest.raises(RequestError, match="no such column"), results.result_stream():
        raise RequestError("no such column")
    print("still here")
    assert capfd.readouterr().out == "still here\n"


ONE, TEXT = ["sql", "SELECT 1 AS n"], "      n\ninteger\n-------\n      1\n"


def command(arguments, **streams):
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments], **given, env=buffered, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("command", "output", "read"),
    [
        (ONE, "o.csv", lambda file: file.read_text() == "n\n1\n"),
        (ONE, "o.JSON", lambda file: json.loads(file.read_text())["rows"] == [[1]]),
        (ONE, "o.ndjson", lambda file: json.loads(file.read_text()) == {"n": 1}),
        (ONE, "o.parquet", lambda file: pyarrow.parquet.read_table(file).num_rows == 1),
        (ONE, "o.arrow", lambda file: pyarrow.ipc.open_file(file).read_all().num_rows == 1),
        (ONE, "o.arrows", lambda file: pyarrow.ipc.open_stream(file).read_all().num_rows == 1),
        *((ONE, name, lambda file: file.read_text() == TEXT) for name in ("o", "o.txt")),
        ([*ONE, "--format", "csv"], "o.gone", lambda file: file.read_text() == "n\n1\n"),
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
        (["pull", "t", "s"], "o.json", lambda file: json.loads(file.read_text())["kind"] == "pull"),
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
    assert "this command only writes text, json" in capfd.readouterr().err
    assert not (tmp_path / output).exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            [*ONE, "--output", "r.html"],
            "--output r.html: the suffix means html, but this command only writes text, csv, json",
        ),
        ([*ONE, "--output", "o.csv", "--format", "json"], "the suffix means csv, but --format is json"),
        (
            [*ONE, "--output", "o.xlsx"],
            "the suffix does not determine a format; use --format, or one of .txt, .csv, .json",
        ),
        (
            ["scenarios", "run", "--output", "o.parquet"],
            "means parquet, but this command only writes text, json, junit, github, html",
        ),
        (["check", "t", "--output", "o.json", "--output", "o.json"], "--output names a file twice"),
        (["metadata", "t", "files", "--output", "o.csv", "--format", "arrow"], "--format is arrow"),
        (["history", "t", "--format", "jsn"], "'--format': 'jsn' is not one of 'text', 'json', 'html'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_contradictions_are_errors(table, tmp_path, capfd, arguments, sentence):
    assert main(arguments) == 2
    assert sentence in capfd.readouterr().err
    assert list(tmp_path.glob("o.*")) == []
