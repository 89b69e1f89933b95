"""Ctrl-C: the command prints one word, exits with 130 at any point, and leaves no file.

Each test runs the command as a process, waits for a sign that it has reached a certain point, and sends the signal. The
time limits only detect hanging tests; they do not check that the command is fast.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from harness.cli.interruption import listening, was_interrupted
from harness.cli.terminal import logs_as_lines
from harness.errors import EngineError
from harness.writing.delta.builder import DeltaTable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT is sent to a process there"),
    pytest.mark.usefixtures("interruptible"),
]
HANGS_S = 120
ENDLESS = "SELECT a.range * b.range AS x FROM range(10000000) a, range(10000000) b"
ENDLESS_QUERIES = {
    "one-row": f"SELECT sum(x) FROM ({ENDLESS})",
    "sort": "SELECT md5(range::VARCHAR) AS m FROM range(1000000000) ORDER BY m",
}


class Command:
    """A command that runs in an empty directory, which it also uses for temporary files."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self.directory = directory
        (directory / "tmp").mkdir(parents=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness", *arguments],
            bufsize=0,  # `communicate` would miss data that reading a line left in a buffer
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={**os.environ, "TMPDIR": str(directory / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        )

    def wait_for(self, sign: Callable[[], bool]) -> None:
        """Wait for a sign that the command has reached a certain point. Fail if it ends before."""
        for _ in range(int(HANGS_S / 0.05)):
            if sign():
                return
            try:
                self.process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        self.process.kill()
        raise AssertionError(self.process.communicate()[1].decode())

    def interrupt(self) -> str:
        """Send the signal and return the text that the command prints on stderr."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=HANGS_S)
        assert out == b""
        assert self.process.returncode == 130
        return err.decode()

    def leaves(self) -> list[str]:
        """Files that the command left."""
        return [str(path) for path in self.directory.rglob("*") if path != self.directory / "tmp"]


BUSY_S = 0.5
"""CPU seconds after opening the output file, after which the command certainly runs the query."""


def start_of(query: str, directory: Path) -> Command:
    """Return the command after it has been busy with the query for a while."""
    command = Command(directory, "sql", query, "--output", "out.csv")
    stat = Path("/proc", str(command.process.pid), "stat")
    ticks = os.sysconf("SC_CLK_TCK")

    def used_s() -> float:
        user, system = stat.read_text("utf-8").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / ticks

    command.wait_for(lambda: any(directory.glob(".harness-*")))
    before_s = used_s()
    command.wait_for(lambda: used_s() - before_s > BUSY_S)
    return command


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what a process has used is read from /proc")
@pytest.mark.parametrize("query", ENDLESS_QUERIES.values(), ids=list(ENDLESS_QUERIES))
def test_a_running_query_of_duckdb(tmp_path, query):
    command = start_of(query, tmp_path / "here")
    assert command.interrupt() == "interrupted\n"
    assert command.leaves() == []


SIGNALLING = """
import atexit, os, signal, sys
if os.environ["EVENT"] == "end":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
left = int(os.environ["AT"])
def heard(event, arguments):
    global left
    if os.environ["EVENT"] in (event, f"{event} {arguments[0]}" if arguments else ""):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(heard)
"""
"""A program that sends the signal to its own process at an import or another event."""


def signalled(directory: Path, event: str, at: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "site").mkdir(exist_ok=True)
    (directory / "site/sitecustomize.py").write_text(SIGNALLING)
    path = os.pathsep.join([str(directory / "site"), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        env={**os.environ, "PYTHONPATH": path, "EVENT": event, "AT": str(at)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["info", "scenarios build"])
@pytest.mark.parametrize(
    ("event", "at"),
    [
        ("import harness.cli", 1),
        *[(f"import {name}", 1) for name in ("typing", "harness.cli.app", "harness.cli.interruption", "click")],
        *[("import", at) for at in (80, 150, 250, 330)],
    ],
)
def test_the_start_of_a_command(tmp_path, command, event, at):
    DeltaTable.create(tmp_path / "t", {"id": "long"})
    arguments = [str(tmp_path / "t")] if command == "info" else ["delta/*", str(tmp_path / "out")]
    done = signalled(tmp_path, event, at, *command.split(), *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_command_that_is_over_ends_with_its_code(tmp_path):
    DeltaTable.create(tmp_path / "t", {"id": "long"})
    done = signalled(tmp_path, "end", 1, "info", str(tmp_path / "t"))
    assert (done.returncode, done.stderr) == (0, "")


def test_rows_that_are_being_written(tmp_path):
    command = Command(tmp_path / "here", "sql", "FROM range(100000000000)", "--format", "csv", "--output", "out")
    command.wait_for(lambda: any(path.stat().st_size for path in command.directory.glob(".harness-*")))
    assert command.interrupt() == "interrupted\n"
    assert command.leaves() == []


EXECUTED = "exec('raise KeyboardInterrupt')"
DROPPED = """
    class Dropping:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)
            for _ in range(10): pass
    Dropping()
    while True: time.sleep(0.01)"""

SLOW = f"""
    from harness.cli import interruption
    interruption.interrupt_all = lambda: time.sleep(0.05)
{DROPPED.removeprefix(chr(10))}"""


@pytest.mark.parametrize(
    "text",
    [EXECUTED, DROPPED, SLOW],
    ids=["in-executed-text", "where-exceptions-are-dropped", "where-queries-end-late"],
)
def test_a_signal_where_python_treats_it_apart(tmp_path, text):
    """Python remembers a signal in executed text and would end by it, and prints and drops exceptions in `__del__`."""
    script = tmp_path / "script.py"
    main = "sys.argv[1:] = ['info', 'x']\nfrom harness import cli\ncli._run = run\nsys.exit(cli.main())"
    script.write_text(f"import signal, sys, time\ndef run(*_):\n    {text.strip()}\n{main}\n")
    command = [sys.executable, "-m", script.stem]  # Python only checks this after executing the text of a module
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=HANGS_S)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.harness_spark
def test_a_running_query_of_spark(tmp_path):
    """The sign is Spark's event log: a job has started."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": number} for number in range(2_000)]))
    log = tmp_path / "events"
    log.mkdir()
    settings = f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {log.as_uri()}\n"
    (tmp_path / "spark-defaults.conf").write_text(settings)
    query = "SELECT count(*) AS n FROM t a, t b, t c, t d WHERE a.id + b.id + c.id * d.id = 17"
    arguments = ("diff", str(table.directory), "--engines", "spark", "--sql", query)
    command = Command(tmp_path / "here", *arguments, SPARK_CONF_DIR=str(tmp_path))
    command.wait_for(
        lambda: any("TaskStart" in path.read_text(errors="replace") for path in log.glob("**/*") if path.is_file())
    )
    told = command.interrupt().splitlines()
    # the JVM's process
    assert [line for line in told if not line.startswith("WARNING: Using incubator")] == ["interrupted"]
    assert [path for path in command.leaves() if "harness" in path] == []


def test_a_query_of_duckdb_in_this_process_is_ended_without_an_error(capfd, monkeypatch):
    """The signal comes just before the query starts, and only DuckDB's own exception is raised."""

    def sql(query, tables, *, params, dialect, connection):
        heard = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: None)  # while the main thread is in C code, no exception is raised
        signal.raise_signal(signal.SIGINT)
        try:
            connection.execute(query)
        finally:
            signal.signal(signal.SIGINT, heard)

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr("harness.queries.sql.sql", sql)
        assert main(["sql", ENDLESS_QUERIES["one-row"]]) == 130
    assert capfd.readouterr() == ("", "interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before
    assert main(["sql", "SELECT 1 AS x", "--format", "csv"]) == 0


def test_an_interruption_that_another_error_replaced_still_ends_the_command(tmp_path, capfd, monkeypatch):
    """PySpark's clean-up does this: a comparison then shows the error as the outcome of a side."""

    def compare(*_, **__):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise EngineError("Spark failed: the job was cancelled")

    monkeypatch.setattr("harness.queries.sql.sql", compare)
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    report = tmp_path / "report"
    arguments = ["diff", str(table.directory), "--engines", "duckdb", "--sql", "FROM t"]
    assert main([*arguments, "--output", str(report)]) == 130
    assert main(arguments) == 130
    assert capfd.readouterr() == ("", "interrupted\n" * 2)
    assert not report.exists()


def test_only_the_first_signal_breaks_off():
    cleaned = []

    def broken_off():
        with listening():
            cleaned.append(was_interrupted())
            try:
                signal.raise_signal(signal.SIGINT)
                cleaned.append("not broken off")
            finally:
                signal.raise_signal(signal.SIGINT)
                cleaned.append(was_interrupted())

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert cleaned == [False, True]


def test_no_signal_is_taken_from_a_caller_who_handles_it():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with listening():
            signal.raise_signal(signal.SIGINT)
            assert not was_interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


@pytest.mark.parametrize("hides", [False, True], ids=["by-no-error", "behind-an-error"])
def test_a_signal_that_a_block_hides_is_raised_after_it(hides):
    def hidden():
        with listening():
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            if hides:
                raise EngineError("Spark failed: the job was cancelled")

    with pytest.raises(KeyboardInterrupt):
        hidden()


def test_log_messages_of_libraries_are_lines_until_the_interruption(capfd, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    library = logging.getLogger("some.library")

    def interrupted():
        with listening(), logs_as_lines():
            library.warning("no\x1b")
            library.info("not told")
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                library.warning("the job was cancelled")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capfd.readouterr().err == "some.library: no\\x1b\n"
