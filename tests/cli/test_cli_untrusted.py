"""`--untrusted`: the request to the worker, and the handling of its results. One test starts a real worker."""

import io
import re
import sys

import pytest

from harness.cli import main
from harness.untrusted.bounds import Bounds
from harness.untrusted.launching import WorkerResult
from harness.writing.delta.builder import DeltaTable


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    built = DeltaTable.create(tmp_path_factory.mktemp("untrusted") / "t", {"id": "long"})
    built.append(built.write_data([{"id": 1}]))
    return str(built.directory)


@pytest.fixture
def worker(monkeypatch):
    """Workers that return a chosen result and record their requests."""

    class Worker:
        answer = WorkerResult(0, b"rows\n", "")

        def __init__(self):
            self.started = []

        def __call__(self, work, request, **how):
            self.started.append((work, request, how))
            return self.answer

    found = Worker()
    monkeypatch.setattr("harness.untrusted.launching.run", found)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hold a worker to all limits")
def test_a_query_in_a_worker(table, capfd):
    """The worker opens the table as this process would. It may not read other files, and only says why."""
    query = "SELECT id FROM t UNION ALL SELECT 1 FROM read_csv('/etc/passwd')"
    assert main(["sql", query, "--table", f"t={table}", "--untrusted"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith('error: DuckDB cannot run the query: Permission Error: Cannot access file "/etc/passwd"')
    assert len(err.splitlines()) == 1


TAIL = "--planning=auto --untrusted --"


@pytest.mark.parametrize(
    ("command", "words", "directories"),
    [
        ("info {t} --untrusted", f"info --format=text {TAIL} {{t}}", ["{t}"]),
        (
            "plan {t} --untrusted --where=id>1 --columns id --set path_map./x={t}/y",
            "plan --where=id>1 --columns=id --format=text --planning=auto --untrusted --set=path_map./x={t}/y -- {t}",
            ["{t}", "{t}/y"],
        ),
        (
            "diff --untrusted {t} {t}/o --engines duckdb --at 1 --at 2 --max-rows 0",
            f"diff --at=1 --at=2 --dialect=duckdb --engines=duckdb --max-rows=0 --format=text {TAIL} {{t}} {{t}}/o",
            ["{t}", "{t}/o"],
        ),
        (
            "sql --untrusted --table a={t} --allow-root {t}/r -- --x",
            "sql --table=a={t} --format=text --max-rows=40 --dialect=duckdb --engine=duckdb "
            f"--allow-root={{t}}/r {TAIL} --x",
            ["{t}", "{t}/r"],
        ),
        (
            "scenarios reread --untrusted {t} --shapes counts --at 1 --format json",
            f"scenarios reread --engine=duckdb --at=1 --shapes=counts --max-rows=20 --format=json {TAIL} {{t}}",
            ["{t}"],
        ),
        (
            "scenarios run --untrusted {t}/s.yaml --skips {t}/skips --strict",
            "scenarios run --engines=duckdb,oracle --skips={t}/skips --format=text --time-limit=60.0 --strict "
            "--untrusted -- {t}/s.yaml",
            ["{t}/skips", "{t}/s.yaml"],
        ),
    ],
)
def test_the_command_is_spelled_out(table, worker, capfd, command, words, directories):
    assert main(command.format(t=table).split()) == 0
    ((work, request, how),) = worker.started
    assert work == "harness.cli.untrusted:serve"
    assert request == words.format(t=table).split()
    assert how["directories"] == tuple(path.format(t=table) for path in directories)
    assert capfd.readouterr().out == "rows\n"


def test_a_query_from_standard_input_and_an_output_file(worker, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1 -- one\n"))
    worker.answer = WorkerResult(0, b"\xff\x00PAR1", "warning: w\x1b\n")
    output = tmp_path / "rows.parquet"
    assert main(["sql", "-", "--untrusted", "--format", "parquet", "--output", str(output)]) == 0
    ((_, request, _),) = worker.started
    assert request[-2:] == ["--", "SELECT 1 -- one\n"]
    assert not any(word.startswith("--output") for word in request)
    assert output.read_bytes() == b"\xff\x00PAR1"
    assert capfd.readouterr() == ("", "warning: w\\x1b\n")


def test_text_is_valid_and_shown_on_a_terminal(worker, monkeypatch, capfd):
    worker.answer = WorkerResult(0, b"a\x1b[31m\xff\n", "")
    monkeypatch.setattr("harness.cli.results.ByteStream.isatty", lambda self: True)
    assert main(["sql", "SELECT 1", "--untrusted", "--format", "csv"]) == 0
    assert capfd.readouterr().out == "a\\x1b[31m\\xff\n"


def test_bounds(worker):
    given = "--untrusted --set bounds.memory_bytes=1_000 --set bounds.wall_seconds=5 "
    given += "--set waived=network --set waived=processes"
    assert main(["sql", "SELECT 1", *given.split()]) == 0
    ((_, _, how),) = worker.started
    assert how["bounds"] == Bounds(memory_bytes=1000, wall_seconds=5)
    assert how["waived"] == {"network", "processes"}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("info s3://b/t --untrusted", "error: Cannot read an untrusted table that is not on a local disk"),
        ("info {t} --untrusted --storage-option key=secret", "error: Cannot combine --storage-option and --untrusted"),
        ("diff {t} --untrusted", "error: Cannot run spark with --untrusted: .* use duckdb or oracle with --engines"),
        ("scenarios run --engines spark --untrusted", "Cannot run spark with --untrusted: .* with --engines"),
        (
            "diff {t} --engines duckdb,acme --untrusted",
            "error: Cannot run acme with --untrusted: acme may start its own",
        ),
        ("scenarios reread {t} --engine acme --untrusted", "Cannot run acme with --untrusted: .* oracle with --engine"),
        ("scenarios reread {t} --untrusted -o a.json -o b.json", "Cannot write more than one"),
        ("diff --sql-file {t}/q.sql --untrusted", "no side may be a query, file, or database"),
        ("diff {t} rows.csv --untrusted", "no side may be a query, file, or database"),
        (
            "diff {t} --engines duckdb --output a.txt --output b.txt --untrusted",
            "more than one report with --untrusted",
        ),
        ("scenarios run --keep d --untrusted", "with --untrusted and --keep, --python, or --write-xfails"),
        ("scenarios run -o x.json -o x.html --untrusted", "error: Cannot write more than one"),
        ("info {t} --set bounds.memory_bytes=5", "--set bounds.NAME=VALUE and --set waived=NAME require --untrusted"),
        ("info {t} --untrusted --set bounds.speed=5", "speed: there is no such name; there are bounds.memory_bytes"),
        ("info {t} --untrusted --set waived=speed", "error: Cannot waive 'speed'"),
    ],
)
def test_a_refused_command_starts_no_worker(table, worker, capfd, command, message):
    assert main(command.format(t=table).split()) == 2
    assert worker.started == []
    assert re.search(message, capfd.readouterr().err)


def test_options_are_named_as_the_command_has_them(worker, monkeypatch, capfd):
    from harness.untrusted.launching import _limit_error

    def beyond(*_, bounds, **__):
        raise _limit_error("output_bytes", bounds, "returned too many bytes")

    monkeypatch.setattr("harness.untrusted.launching.run", beyond)
    assert main(["sql", "SELECT 1", "--untrusted", "--set", "bounds.output_bytes=7"]) == 2
    assert "7 are allowed; if you expect that, raise the option --set bounds.output_bytes [" in capfd.readouterr().err
