"""What stands on a terminal while a command waits: what it does, and how much of stores came for it."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from harness.cli import terminal
from harness.storage.clients import Traffic


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    """That of a process which has read something before."""
    made = Traffic(clock=lambda: 0.0)
    made.add(1_000_000)
    monkeypatch.setattr(terminal, "TRAFFIC", made)
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    made = Terminal()
    for name, value in {"TERM": "xterm", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    return made


def stepping(text: str) -> AbstractContextManager[Any]:
    return terminal.steps(text)


@pytest.mark.parametrize("spinner", [terminal.progress, stepping])
@pytest.mark.parametrize(
    ("sizes", "repeated", "words"),
    [
        ([], 0, "reading t"),  # what came before says nothing
        ([500_000], 0, "reading t (1.5 MB of stores in 2 requests)"),
        ([], 1, "reading t (1.0 MB of stores in 1 request, 1 asked again)"),
        ([200_000, 0], 2, "reading t (1.2 MB of stores in 3 requests, 2 asked again)"),
    ],
)
def test_a_spinner_says_the_bytes(
    traffic: Traffic,
    monkeypatch: pytest.MonkeyPatch,
    shown: io.StringIO,
    spinner: Callable[[str], AbstractContextManager[Any]],
    sizes: list[int],
    repeated: int,
    words: str,
) -> None:
    monkeypatch.setattr(sys, "stderr", shown)  # here: pytest sets its own before each test's body
    with spinner("reading" if spinner is stepping else "reading t") as step:
        if step is not None:
            step("t")
        for size in sizes:
            traffic.add(size)
        for _ in range(repeated):
            traffic.repeat()
    # A spinner is drawn once more when it ends, whatever the clock did.
    assert re.sub(r"\x1b\[[?\d]*[A-Za-z]|\r", "", shown.getvalue()).splitlines()[-1][2:] == words
