"""What stands on a terminal while a command waits: what it does, and how much of stores came for it."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.cli import terminal
from harness.engines.duckdb import instance
from harness.storage import threads
from harness.storage.clients import Traffic
from harness.storage.stores import Storage
from harness.testing.writing.delta.builder import DeltaTable
from harness.tools.slices import place


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    """That of a process which has read something before."""
    made = Traffic(clock=lambda: 0.0)
    made.add(1_000_000)
    monkeypatch.setattr(terminal, "TRAFFIC", made)
    return made


@pytest.fixture(autouse=True)
def unwatched() -> Iterator[None]:
    yield
    threads.WATCHED.clear()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    made = Terminal()
    for name, value in {"TERM": "xterm", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("steps", [[], ["s", "t"]])
@pytest.mark.parametrize(
    ("sizes", "repeated", "words"),
    [
        ([], 0, "reading t"),  # what came before says nothing
        ([500_000], 0, "reading t (1.4 MiB of stores in 2 requests)"),
        ([], 1, "reading t (976.6 KiB of stores in 1 request, 1 asked again)"),
        ([200_000, 0], 2, "reading t (1.1 MiB of stores in 3 requests, 2 asked again)"),
    ],
)
def test_a_spinner_says_the_bytes(
    traffic: Traffic,
    monkeypatch: pytest.MonkeyPatch,
    shown: io.StringIO,
    steps: list[str],
    sizes: list[int],
    repeated: int,
    words: str,
) -> None:
    monkeypatch.setattr(sys, "stderr", shown)  # here: pytest sets its own before each test's body
    with terminal.progress("reading" if steps else "reading t") as step:
        for each in steps:
            step(each)
        for size in sizes:
            traffic.add(size)
        for _ in range(repeated):
            traffic.repeat()
    assert last_line(shown) == words


def last_line(shown: io.StringIO) -> str:
    """A spinner is drawn once more when it ends, whatever the clock did."""
    return re.sub(r"\x1b\[[?\d]*[A-Za-z]|\r", "", shown.getvalue()).splitlines()[-1][2:]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([0.0], "copying (0 %, 1.4 MiB of stores in 2 requests)"),
        ([0.376], "copying (38 %, 1.4 MiB of stores in 2 requests)"),
        ([1.0, 0.5], "copying (50 %, 1.4 MiB of stores in 2 requests)"),  # the least advanced
        ([-0.01, 1.5], "copying (1.4 MiB of stores in 2 requests)"),  # neither says anything
    ],
)
def test_a_spinner_says_the_percentage(
    traffic: Traffic, monkeypatch: pytest.MonkeyPatch, shown: io.StringIO, parts: list[float], words: str
) -> None:
    monkeypatch.setattr(sys, "stderr", shown)
    with contextlib.ExitStack() as measured:
        for part in parts:
            measured.enter_context(threads.measured(lambda part=part: part))
        with terminal.progress("copying"):
            traffic.add(500_000)
            assert threads.WATCHED.is_set()
    assert last_line(shown) == words


def test_nothing_is_measured_for_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with terminal.progress("reading"):
        assert not threads.WATCHED.is_set()


@pytest.mark.parametrize("watched", [True, False])
def test_a_query_says_how_far_it_is_and_prints_nothing(
    watched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
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


def test_a_copy_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(*(table.write_data([{"id": i} for i in range(20)]) for _ in range(3)))
    seen: list[float | None] = []
    read = Storage.read

    def reading(self: Storage, path: str, **part: Any) -> bytes:
        if path.endswith(".parquet"):
            seen.append(threads.percent())
        return read(self, path, **part)

    monkeypatch.setattr(place, "_AT_ONCE", 1)
    monkeypatch.setattr(Storage, "read", reading)
    harness.pull(str(table.directory), tmp_path / "slice")
    assert [round(share) for share in seen if share is not None] == [0, 33, 67]
    assert threads.percent() is None
