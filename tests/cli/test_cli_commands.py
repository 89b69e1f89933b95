"""The commands with a replaced reading API: from arguments to text and exit code."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

import harness
from harness.cli import main
from harness.cli.writers import QueryRows
from harness.errors import MissingFileError
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


class StandIn:
    """A table, its snapshot, and its plan, which record the calls they receive."""

    def __init__(self, calls: list) -> None:
        self.calls = calls

    def snapshot(self, at=None) -> StandIn:
        self.calls.append(("snapshot", at))
        return self

    def plan(self, columns=None, where=None) -> StandIn:
        self.calls.append(("plan", columns, where))
        return self

    def explain(self, *, width: int | None, in_ascii: bool) -> str:
        return "1 file read, 1 skipped"

    def describe(self) -> dict:
        return {
            "format_version": 2,
            "current_snapshot_id": 2**60,
            "last_updated_ms": 1_700_000_000_123,
            "schemas": [{"schema_id": 0, "fields": [{"id": 1, "name": "a"}, {"id": 2, "name": None}]}],
            "schema": [
                {"id": 1, "name": "a", "type": "int", "doc": None},
                {"id": 2, "name": "long name", "type": "string", "doc": None},
            ],
            "properties": {"owner_name": "me\x1b"},
            "snapshots": [{"id": 7, "summary": {"operation": "append", "parts": {}}}, {"id": 8, "summary": {}}],
            "refs": [],
            "warnings": ["the version hint lags"],
        }


@pytest.fixture
def calls(monkeypatch) -> list:
    """The calls of the replaced reading API, in order."""
    made: list = []

    def open_table(location, **options):
        made.append(("open", location, options))
        return StandIn(made)

    def sql(query, tables, *, params, dialect, connection):
        made.append(("sql", query, dialect, sorted(tables)))
        return connection.from_arrow(pa.table({"n": [1, None], "d": pa.array([Decimal("1.50"), None])}))

    monkeypatch.setitem(vars(harness), "open_table", open_table)
    monkeypatch.setattr("harness.queries.sql.sql", sql)
    return made


OWN_TEXT = Path(__file__).read_bytes()
DEFAULT_OPEN = {
    "catalog": None,
    "storage_options": None,
    "allowed_roots": (),
    "planning": "auto",
    "untrusted": False,
}


SWITCHES = ["allow_version_guess", "lenient_delete_partition", "allow_duplicate_files", "allow_checkpoint_only"]
SWITCHES += ["enforce_retention", "published_only"]


def test_info_as_text(calls, capfd):
    assert main(["info", "t", "--full"]) == 0
    out, err = capfd.readouterr()
    assert out == (
        "format_version: 2\n"
        "current_snapshot_id: 1152921504606846976\n"
        "last_updated: 2023-11-14T22:13:20.123Z\n"
        "schemas:\n"
        "  schema_id\n"
        "          0\n"
        "      id  name\n"
        "       1  a\n"
        "       2  -\n"
        "schema:\n"
        "  id  name       type\n"
        "   1  a          int\n"
        "   2  long name  string\n"
        "properties:\n"
        "  owner_name: me\\x1b\n"
        "snapshots:\n"
        "  id  summary\n"
        "   7  operation=append, parts=-\n"
        "   8  -\n"
        "refs: -\n"
        "warnings:\n"
        "  the version hint lags\n"
    )
    assert err == ""
    assert calls == [("open", "t", DEFAULT_OPEN)]


def test_plan_as_text(calls, capfd):
    assert main(["plan", "t", "--where", "a > 1", "--columns", 'a, "b,""c"']) == 0
    assert capfd.readouterr() == ("1 file read, 1 skipped\n", "")
    assert calls == [("open", "t", DEFAULT_OPEN), ("snapshot", None), ("plan", ["a", 'b,"c'], "a > 1")]


@pytest.mark.filterwarnings("default::harness.HarnessWarning")
def test_an_error_and_a_warning_about_files_outside(tmp_path, capfd):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}], path=str(tmp_path / "other" / "f.parquet"), addressing="file:///"))
    location = str(tmp_path / "t")
    assert (
        main(["sql", "SELECT id FROM t", "--table", f"t={location}", "--format", "csv", "--set", "outside=refuse"]) == 2
    )
    out, err = capfd.readouterr()
    assert out == ""
    assert (
        "error: Cannot read a file beyond the table's roots: --set outside=refuse is set. The roots are "
        f"{location}; add a root with --allow-root, or map the path to the file's location "
        "with --set path_map.OLD=NEW [OutsideTable;"
    ) in err
    assert main(["sql", "SELECT id FROM t", "--table", f"t={location}", "--format", "csv"]) == 0
    out, err = capfd.readouterr()
    assert out == "id\n1\n"
    assert err.count("warning:") == 1
    assert f"Files outside of the table are read, in {tmp_path}/other;" in err
    allowed = ["--allow-root", str(tmp_path / "other")]
    assert main(["sql", "SELECT id FROM t", "--table", f"t={location}", "--format", "csv", *allowed]) == 0
    assert capfd.readouterr() == ("id\n1\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--set path_map.s3://b.c=/x=y --set path_map./old=/new", {"path_map": {"s3://b.c": "/x=y", "/old": "/new"}}),
        ("--storage-option key=v --storage-option anon=false", {"storage_options": {"key": "v", "anon": False}}),
        ("--allow-root /a --allow-root s3://b/c", {"allowed_roots": ["/a", "s3://b/c"]}),
        ("--set outside=refuse --set prune=off", {"outside": "refuse", "prune": "off"}),
        *((f"--set {name}=true", {name: True}) for name in SWITCHES),
        ("--set max_version=3 --set ratified=a --set ratified=b", {"max_version": 3, "ratified": ["a", "b"]}),
        (f"--set max_version=1 --set ratified=1={__file__}", {"max_version": 1, "ratified": [(1, OWN_TEXT)]}),
        ("--set format_hint=delta", {"format_hint": "delta"}),
    ],
)
def test_each_option_of_reading_reaches_the_table(calls, arguments, expected):
    assert main(["plan", "t", *arguments.split()]) == 0
    assert calls[0] == ("open", "t", DEFAULT_OPEN | expected)


def test_the_moment_reaches_the_table(calls):
    assert main(["plan", "t", "--at", "timestamp=-1"]) == 0
    assert calls[1] == ("snapshot", "timestamp=-1")


def test_sql(calls, capfd):
    assert main(["sql", "SELECT 1", "--table", "t=x", "--at", "b", "--dialect", "spark", "--format", "csv"]) == 0
    assert calls[1:] == [("snapshot", "b"), ("sql", "SELECT 1", "spark", ["t"])]
    calls.clear()
    capfd.readouterr()
    assert main(["sql", "SELECT 1", "--table", "t=dir=x", "--table", "u=v", "--format", "csv"]) == 0
    assert capfd.readouterr() == ("n,d\n1,1.50\n,\n", "")
    assert calls == [
        ("open", "dir=x", DEFAULT_OPEN),
        ("open", "v", DEFAULT_OPEN),
        ("sql", "SELECT 1", "duckdb", ["t", "u"]),
    ]


def test_a_table_may_be_called_as_an_option_of_sql(tmp_path, capfd):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    names = [name for name in inspect.signature(harness.sql).parameters if name != "tables"]
    assert {"engine", "connection"} < {*names}
    query = " UNION ALL ".join(f'FROM "{name}"' for name in names)
    assert main(["sql", query, "--format", "csv", *(f"--table={name}={tmp_path / 't'}" for name in names)]) == 0
    assert capfd.readouterr() == ("id\n" + "1\n" * len(names), "")


def test_a_failed_query_leaves_the_output_file_alone(calls, capfd, tmp_path, monkeypatch):
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    monkeypatch.undo()
    assert main(["sql", "SELECT 1 AS a, 2 AS a", "--format", "jsonl", "--output", str(path)]) == 2
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]


def test_binary_is_not_written_to_a_terminal(calls, capfd, monkeypatch):
    monkeypatch.setattr("harness.cli.results.is_terminal_output", lambda: True)
    assert main(["sql", "SELECT 1", "--format", "arrow"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "--format arrow is binary: use --output, or redirect standard output" in err


INTERNAL = "error: internal error, please report it: ZeroDivisionError: oops\n"
ODD = MissingFileError(f"Cannot read [red]file[/red]:\n {'y' * 300}", table="t", file="m\n0.avro")


@pytest.mark.parametrize(
    ("raised", "code", "start", "end"),
    [
        (ODD, 2, f"error: Cannot read [red]file[/red]: {'y' * 300} [Miss", "ingFile; table t, file m\\n0.avro]\n"),
        (ZeroDivisionError("oops"), 2, "Traceback", INTERNAL),
        (KeyboardInterrupt(), 130, "", "interrupted\n"),
    ],
)
def test_error_that_ends_a_command_is_printed(capfd, monkeypatch, raised, code, start, end):
    def open_table(location, **options):
        raise raised

    monkeypatch.setitem(vars(harness), "open_table", open_table)
    assert main(["info", "t"]) == code
    out, err = capfd.readouterr()
    assert (out, err.startswith(start), err.endswith(end)) == ("", True, True)
    assert err.count("\n") == 1 or start == "Traceback"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan"], "Missing argument 'TABLE'"),
        (["plan", "t", "--set", "path_map.x"], "--set path_map.x: expected path_map.x=VALUE"),
        (["plan", "t", "--set", "path_map.=x"], "--set path_map.: expected path_map.OLD=NEW"),
        (["plan", "t", "--set", "path_map=a=b"], "did you mean path_map.OLD?"),
        (["plan", "t", "--set", "path_map.a=b", "--set", "path_map.a=c"], "--set path_map.a is given twice"),
        (["plan", "t", "--set", "outside=ignore"], "--set outside=ignore: expected warn or refuse"),
        (["plan", "t", "--set", "prune=0"], "--set prune=0: expected off, partition, files or all"),
        (["plan", "t", "--columns", "a,,b"], "--columns 'a,,b' contains an empty name"),
        (["plan", "t", "--columns", '"a'], "--columns: the quote in '\"a' is not closed"),
        (["plan", "t", "--columns", '"a"b'], "--columns: 'b' follows a quoted name"),
        (["sql", "SELECT 1", "--table", "=t"], "--table '=t': expected NAME=TABLE or TABLE"),
        (["sql", "SELECT 1", "--set", "limits.rows=many"], "many"),
        (["sql", "SELECT 1", "--set", "max_version"], "--set max_version: expected max_version=VALUE"),
        (["sql", "SELECT 1", "--set", "max_version=3", "--set", "max_version=3"], "--set max_version is given twice"),
        (["sql", "SELECT 1", "--set", "max_version=-3"], "expected a version, a whole number of at least 0"),
        (["sql", "SELECT 1", "--set", "allow_version_guess=1"], "expected true or false"),
        (["sql", "SELECT 1", "--set", "format_hint=hudi"], "expected iceberg or delta"),
        (["sql", "SELECT 1", "--set", "allow-version-guess=true"], "did you mean allow_version_guess?"),
        (["sql", "SELECT 1", "--set", "document_bytes=5"], "did you mean limits.document_bytes?"),
        (["sql", "SELECT 1", "--set", "allowed_roots=/"], "give --allow-root"),
        (["sql", "SELECT 1", "--set", "speed=5"], "there are path_map.OLD, outside, prune, allow_version_guess"),
        (["pull", "t", "d", "--untrusted"], "Cannot pull with --untrusted"),
        (["scenarios", "run", "--set", "max_version=3"], "scenarios only accept bounds and waived"),
        (["sql", "SELECT 1", "--at", "timestamp=noon"], "Invalid timestamp: got 'noon'"),
        (["info", "t", "--format", "xml"], "xml"),
        (["sql", "SELECT 1", "--engine", "sprak"], "Unknown engine 'sprak'"),
        (["sql", "SELECT 1", "--engine", "spark", "--untrusted"], "use duckdb with --engine"),
        (["sql", "SELECT 1", "--engine", "spark", "--catalog", "prod"], "--catalog requires --engine duckdb"),
        (["plan", "t", "--storage-option", "secret:hunter2"], "--storage-option number 1 is not of the form"),
        (["plan", "t", "--storage-option", "=hunter2"], "--storage-option number 1 is not of the form"),
        (["sql", "SELECT 1", "--max-rows", "x"], "max-rows"),
        (["metadata", "t", "History"], "use harness history TABLE"),
        (["diff"], "Missing argument 'TABLE'"),
        (["diff", "t", "--engines", "a,b,c"], "--engines 'a,b,c': expected one name, or two separated by a comma"),
        (["diff", "t", "--engines", ""], "--engines ''"),
        (["diff", "t", "--at", "1", "--at", "2", "--at", "3"], "--at is given 3 times"),
        (["diff", "t", "--at", "snapshot=x"], "Invalid --at snapshot=x: a snapshot is a 64-bit number"),
        (["diff", "t", "--keys", "a,,b"], "--keys 'a,,b' contains an empty name"),
        (["diff", "t", "--sql", "SELECT 1", "--where", "a"], "--sql cannot be combined with --columns and --where"),
        (
            ["diff", "t", "--output", "o.parquet"],
            "the suffix means parquet, but this command only writes text, json, junit, html",
        ),
        (["diff", "t", "--tolerance", "a"], "--tolerance 'a': expected COLUMN=AMOUNT"),
        (["diff", "t", "--tolerance", "a=much"], "--tolerance 'a=much': Invalid tolerance 'much'"),
        (["diff", "t", *["--sql", "SELECT 1"] * 3], "--sql is given 3 times"),
        (["diff", "t", "--tolerance", "a=1", "--tolerance", "a=2"], "--tolerance is given twice for 'a'"),
        (["diff", "t", "--table", "a=b"], "--table, --dialect, and more than two arguments require --sql-file"),
        (["diff", "rows.csv"], "'rows.csv' has no other side"),
        (["diff", "rows.csv", "t", "--at", "1", "--at", "2"], "--at only applies to tables: rows.csv has no snapshots"),
        (["rule"], "Missing argument"),
        (["nothing"], "nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_2(calls, capfd, arguments, sentence):
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert (out, sentence in err, "error: " in err) == ("", True, True)
    assert not any(text in err for text in ("hunter2", "Error:", "\\t"))


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["sql", "-h"]])
def test_help_and_version_exit_with_0(capfd, arguments):
    assert main(arguments) == 0
    assert capfd.readouterr().out


def test_a_caller_may_have_read_from_the_standard_input(monkeypatch, capfd):
    stream = io.TextIOWrapper(io.BytesIO(b"a line\nanother\n"))
    stream.readline()
    monkeypatch.setattr("sys.stdin", stream)
    assert main(["--version"]) == 0
    assert capfd.readouterr().err == ""


def test_a_reader_that_goes_away_ends_the_command_quietly():
    # There are more rows than fit in a pipe, so the writer notices that the reader is gone.
    program = (
        "import sys; from harness.cli import main;"
        "sys.exit(main(['sql', 'SELECT range AS n FROM range(300_000)', '--format', 'csv']))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"n\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.harness_spark
def test_sql_on_spark_writes_the_same_values(tmp_path, capfd, spark):
    table = IcebergTable.create(
        tmp_path / "t", {"id": "long", "u": "uuid", "ts": "timestamptz", "tm": "time", "m": "map<string, int>"}
    )
    row = {"id": 2**60, "u": UUID(int=10), "ts": 1_000_000, "tm": 1, "m": {"k": 1}}
    table.append(table.write_data([row, {"id": None}]))
    query = "SELECT id, u, ts, tm, m FROM t ORDER BY id"
    arguments = ["sql", query, "--table", f"t={table.location}", "--format", "jsonl"]
    said = []
    for engine in ("duckdb", "spark"):
        assert main([*arguments, "--engine", engine]) == 0
        said.append(capfd.readouterr().out)
    assert said[0] == said[1]
    assert json.loads(said[1].splitlines()[0])["id"] == str(2**60)


def test_columns_of_one_name_stay_so():
    assert QueryRows.from_arrow(pa.table([[1], [2]], names=["a", "A"])).relation.columns == ["a", "A"]


@pytest.fixture(scope="module")
def eu(tmp_path_factory) -> IcebergTable:
    t = IcebergTable.create(tmp_path_factory.mktemp("eu") / "t", {"id": "long", "region": "string"})
    t.append(t.write_data([{"id": 1, "region": "eu"}]))
    return t


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sql", "SELECT 1 AS x", "--engine", "oracle"], "Cannot run a query on oracle"),
        (["sql", "SELECT region + 1 FROM 'TABLE'"], " and 50 more [Engine]"),
        (["head", "TABLE", "--where", "region + 1 = 3"], " and 50 more [Engine; table "),
        (
            ["head", "TABLE", "--where", "region = de"],
            "the table has id, region; write a text in single quotes, 'de' [",
        ),
        (["head", "TABLE", "--columns", "other"], 'Unknown column "other": the table has id, region ['),
    ],
)
def test_an_error_says_what_to_write_and_is_short(eu, capfd, words, message):
    assert main([word.replace("TABLE", str(eu.location)) for word in words]) == 2
    err = capfd.readouterr().err
    assert message in err
    assert len(err) < 500


def test_a_file_that_may_not_be_read_is_not_called_missing(eu, capfd, monkeypatch):
    (file,) = Path(eu.location).glob("data/*.parquet")
    opened, may = os.open, os.access

    def denied(path, *arguments, **options):
        if str(path) == str(file):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(os, "access", lambda path, *a, **o: str(path) != str(file) and may(path, *a, **o))
    assert main(["sql", f"FROM '{eu.location}'"]) == 2
    assert "Cannot read a data file: permission denied; let this user read it [" in capfd.readouterr().err


def run_with_locale(words: list[str], encoding: str, stdin: bytes = b"") -> tuple[str, str]:
    settings = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-m", "harness", *words],
        check=False,
        input=stdin,
        env={**os.environ, **settings},
        capture_output=True,
    )
    return done.stdout.decode(), done.stderr.decode()


def test_a_locale_without_the_characters_of_a_path(tmp_path):
    _, err = run_with_locale(["demo", str(tmp_path / "d")], "ascii")
    assert err == "error: Cannot use '\\xe3' in a path, whose encoding is ascii: set PYTHONUTF8=1\n"


def test_bytes_that_are_no_text_end_no_shell(tmp_path):
    out, err = run_with_locale(
        ["shell", str(tmp_path), "--format", "csv"], "utf-8:strict", b"SELECT 1 a;\n\xff;\nSELECT 2 a;\n"
    )
    assert out == "a\n1\na\n2\n"
    assert (
        err
        == "error: Cannot parse the query: character 1 is half of a character, '\\udcff'; write it in UTF-8 [Request]\n"
    )
