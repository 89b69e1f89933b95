"""`harness shell` on a terminal: Ctrl-C ends the query but not the shell, Tab completes, and input is kept."""

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from harness.writing.delta.builder import DeltaTable

pty = pytest.importorskip("pty", reason="there are no such terminals on this system")
pytestmark = pytest.mark.external
HANGS_S = 10


class PtyTerminal:
    """A shell on its own pseudo-terminal."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            command = [sys.executable, "-m", "harness", "shell", *arguments]
            os.execve(sys.executable, command, {**os.environ, "TERM": "dumb"} | environment)

    def until(self, sign: str) -> str:
        """Return the output up to a text that shows that the shell is ready."""
        shown = b""
        while sign.encode() not in shown:
            ready, _, _ = select.select([self.file], [], [], HANGS_S)
            if not ready:
                break
            try:
                shown += os.read(self.file, 1)
            except OSError:  # the shell ended
                break
        if sign.encode() not in shown:
            os.kill(self.pid, signal.SIGKILL)
        assert sign in shown.decode("utf-8", "replace"), shown
        return shown.decode()

    def interrupt(self) -> None:
        """Send Ctrl-C, often just before Python begins to wait for a key."""
        self.type("\x03")
        self.until("interrupted")

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_session(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "lake" / "orders", {"region": "string"})
    table.append(table.write_data([{"region": "eu"}]))
    shell = PtyTerminal(str(tmp_path / "lake"), XDG_STATE_HOME=str(tmp_path / "state"))
    shell.until("harness> ")
    shell.type("SELECT never run")
    shell.until("run")
    shell.interrupt()
    shell.until("harness> ")
    shell.type("SELECT upper(region) AS found\n FROM ord\t WHERE reg\t <> '';\n")
    shell.until("-----")
    shell.until("EU")
    shell.until("harness> ")
    shell.type("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b;\n")
    shell.until("b;")
    shell.until("\n")
    shell.interrupt()
    shell.until("harness> ")
    shell.type("SELECT 6 * 7 AS answer;\n")
    shell.until("42")
    shell.until("harness> ")
    shell.type("\x04")
    assert shell.code() == 0
    assert "6 * 7" in (tmp_path / "state/harness/history").read_text("utf-8")
