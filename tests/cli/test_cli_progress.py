"""The progress line on a terminal: the current step, its progress, and the elapsed time."""

import contextlib
import io
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.control import Control

from harness.cli import main, terminal
from harness.engines.duckdb import instance
from harness.errors import warn
from harness.storage import threads
from harness.storage.threads import Phase
from harness.writing.delta.builder import DeltaTable

ROWS = 60_000
"""More rows than a comparison fetches, so that sides are hashed."""


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield
    threads.WATCHED.clear()


class Terminal(io.StringIO):
    """A terminal that records its output at each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """The states of the progress line, in order."""
        drawn = re.findall(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]\S* ([^\x1b\r\n]*)", re.sub(r"\x1b\[[\d;]*m", "", self.getvalue()))
        return [line for line, _ in itertools.groupby(drawn)]

    def screen(self) -> list[str]:
        """The lines on the terminal at the end."""
        lines, row = [""], 0
        for sign in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.getvalue()):
            if sign == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif sign == "\x1b[1A":
                row -= 1
            elif sign == "\x1b[2K":
                lines[row] = ""
            elif sign[0] not in "\x1b\r":
                lines[row] += sign
        return lines


@pytest.fixture
def fake_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal that draws the line whenever a phase begins or ends. Its clock does not advance."""
    terminal_ = Terminal()
    for name, value in {"TERM": "xterm", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(threads, "clock", lambda: terminal_.now)
    monkeypatch.setattr(threads, "percent", lambda: None)  # queries take their own time
    monkeypatch.setattr(threads, "_phases", Drawn())
    return terminal_


class Drawn(list[Phase]):
    """The running phases."""

    def __init__(self, began: Callable[[Phase], object] = lambda _: None) -> None:
        super().__init__()
        self.began = began

    def append(self, phase: Phase) -> None:
        super().append(phase)
        self.began(phase)
        redraw()

    def remove(self, phase: Phase) -> None:
        redraw()
        super().remove(phase)


def redraw() -> None:
    if terminal._command.live is not None:
        terminal._command.live.print(Control())


def run(fake_terminal: Terminal, monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", fake_terminal)
        return main([str(word) for word in words])


def is_in_order(expected: list[str], lines: list[str]) -> bool:
    rest = iter(lines)
    return all(line in rest for line in expected)


def table_of(directory: Path, ids: list[range]) -> Path:
    """Create a table with one file of rows for each range."""
    table = DeltaTable.create(directory, {"id": "long", "n": "long"})
    for each in ids:
        table.append(table.write_data(pa.table({"id": list(each), "n": [i % 7 for i in each]})))
    return directory


@pytest.mark.filterwarnings("always::harness.errors.HarnessWarning")
def test_a_comparison_tells_its_phases_and_keeps_warnings_above(tmp_path, fake_terminal, monkeypatch, capsys):
    left = table_of(tmp_path / "left", [range(40_000), range(40_000, ROWS)])
    right = table_of(tmp_path / "right", [range(ROWS - 1)])

    def began(phase: Phase) -> None:
        if phase.name.startswith("hashing the left"):
            warn("the left side is odd")
        if phase.name == "making the text report":
            fake_terminal.now = 12.34

    monkeypatch.setattr(threads, "_phases", Drawn(began))
    assert run(fake_terminal, monkeypatch, "diff", left, right, "--keys", "id") == 1
    wanted = [
        "reading metadata",
        "reading metadata: reading commits, 3 of 3 commits, 100 %",  # the first word creates the table
        "starting engines",
        "comparing: opening the left side",
        "comparing: opening the left side: reading footers, 2 of 2 files, 100 %",
        "comparing: opening the right side",
        "comparing: hashing the left side, 60,000 rows",
        "comparing: hashing the right side, 59,999 rows",
        "comparing: looking for repeated keys on the left side",
        "comparing: differing buckets: fetching hashes of the right side, 59,999 rows",
        "comparing: fetching rows of the left side to show, 60,000 rows",
        "comparing: finding the files of differing rows",
        "making the text report (12 s)",
    ]
    assert is_in_order(wanted, fake_terminal.lines()), fake_terminal.lines()
    assert [line for line in fake_terminal.screen() if line] == [
        "warning: the left side is odd",
        "compared 60,000 with 59,999 rows in 12.3 s",
    ]
    assert fake_terminal.getvalue().count("\x1b[?25l") == fake_terminal.getvalue().count(
        "\x1b[?25h"
    )  # the cursor is visible again
    assert "1 row only on the left" in capsys.readouterr().out


def test_scenarios_are_counted(fake_terminal, monkeypatch):
    names = ["delta/deletion-vectors/inline", "iceberg/deletes/branch-deletes"]
    assert run(fake_terminal, monkeypatch, "scenarios", "run", *names, "--engines", "oracle") == 0
    second = "scenarios: running, 1 of 2 scenarios, 50 %: iceberg/deletes/branch-deletes"
    assert is_in_order([second, "scenarios: running, 2 of 2 scenarios, 100 %"], fake_terminal.lines()), (
        fake_terminal.lines()
    )


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, None])
def test_nothing_moves_for_a_pipe_and_where_nothing_may(variables, tmp_path, fake_terminal, monkeypatch):
    for name, value in (variables or {}).items():
        monkeypatch.setenv(name, value)
    piped = io.StringIO()
    table = table_of(tmp_path / "t", [range(3)])
    fake_terminal.now = -5.0
    clock = itertools.chain([0.0], itertools.repeat(5.0))
    monkeypatch.setattr(threads, "clock", lambda: next(clock))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", fake_terminal if variables else piped)
        assert main(["count", str(table)]) == 0
    assert not threads.WATCHED.is_set()
    assert fake_terminal.getvalue() == ("counted 3 rows in 5.0 s\n" if variables else "")
    assert piped.getvalue() == ""


TABLES = ("comparing", 10, "tables")
FILES = ("reading footers", 2_000, "files")
HASHING = ("hashing the left side", 20_000_000, "rows")
COPYING = ("fetching files", 361 << 20, "bytes")
NESTED, COMPARING, LEFT = [TABLES, HASHING], "comparing, 1 of 10 tables, 10 %", "(10 s, 1 min 30 s left)"


@pytest.mark.parametrize(
    ("phases", "done", "measured", "width", "words"),
    [
        ([FILES], [], None, 80, "reading footers, 2,000 files (10 s)"),
        ([FILES], [500], None, 80, "reading footers, 500 of 2,000 files, 25 % (10 s, 30 s left)"),
        ([COPYING], [], None, 80, "fetching files, 361.0 MiB (10 s)"),
        ([COPYING], [120 << 20], None, 80, "fetching files, 120.0 of 361.0 MiB, 33 % (10 s, 20 s left)"),
        ([HASHING], [], 40.0, 80, "hashing the left side, 20,000,000 rows, 40 % (10 s, 15 s left)"),
        ([HASHING], [], 0.0, 80, "hashing the left side, 20,000,000 rows (10 s)"),  # DuckDB does not know it
        ([("writing", 1, "files")], [1], None, 80, "writing (10 s)"),
        ([("putting aside", None, "rows")], [1_200], None, 80, "putting aside, 1,200 rows (10 s)"),
        ([TABLES], [1], None, 80, f"{COMPARING} {LEFT}"),
        (NESTED, [1], 40.0, 120, f"{COMPARING}: hashing the left side, 20,000,000 rows, 40 % {LEFT}"),
        # On a narrow terminal, the numbers of the inner phase are dropped first, then the whole phase.
        (NESTED, [1], 40.0, 100, f"{COMPARING}: hashing the left side, 40 % {LEFT}"),
        (NESTED, [1], 40.0, 80, f"{COMPARING} {LEFT}"),
        ([HASHING], [], 40.0, 30, "hashing the left side, 40 %…"),
    ],
)
def test_a_line_says_as_much_as_fits(fake_terminal, monkeypatch, phases, done, measured, width, words):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stderr", fake_terminal)
    monkeypatch.setattr(threads, "percent", lambda: measured)
    terminal.begin()
    with contextlib.ExitStack() as running:
        advances = [running.enter_context(terminal.progress(*phases[0]))]
        advances += [running.enter_context(threads.phase(*each)) for each in phases[1:]]
        for advance, number in zip(advances, done, strict=False):
            advance(number)
        fake_terminal.now = 10.0
        redraw()
        assert fake_terminal.lines()[-1] == words


def test_an_interrupted_command_leaves_no_line(fake_terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", fake_terminal)
    written: list[tuple[int, bytes]] = []
    monkeypatch.setattr(os, "write", lambda number, data: written.append((number, data)))
    terminal.restore()
    with contextlib.suppress(KeyboardInterrupt), terminal.progress("reading"):
        terminal.restore()
        raise KeyboardInterrupt
    terminal.restore()
    assert written == [(2, b"\r\x1b[2K\x1b[?25h")]  # while there was a progress line
    assert not any(fake_terminal.screen())
    assert fake_terminal.getvalue().rindex("\x1b[?25h") > fake_terminal.getvalue().rindex("\x1b[?25l")
    assert threads.phases() == ()


@pytest.mark.parametrize("watched", [True, False])
def test_a_query_says_how_far_it_is_and_prints_nothing(watched, tmp_path, monkeypatch, capfd):
    (threads.WATCHED.set if watched else threads.WATCHED.clear)()
    pq.write_table(pa.table({"i": range(400_000)}), tmp_path / "t.parquet", row_group_size=20_000)
    monkeypatch.setattr(instance, "_instances", {})
    own = instance.cursor(lossless=True)
    assert threads.percent() is None
    rows = own.sql(f"FROM read_parquet('{tmp_path}/t.parquet') SELECT i, repeat(i::VARCHAR, 50)").to_arrow_reader(2048)
    next(rows)
    found = threads.percent()
    assert (found is not None and 0 <= found <= 100) if watched else found is None
    rows.close()
    with pytest.raises(duckdb.Error, match="configuration"):
        own.execute("SET threads = 1")
    assert capfd.readouterr() == ("", "")
