"""A child process that answers lines with lines, within a time limit."""

from __future__ import annotations

import contextlib
import enum
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_TAIL_BYTES = 4000
_TAIL_LINES = 3
_GRACE_S = 5.0


class Silence(enum.Enum):
    """Why there is no answer."""

    TIME_LIMIT = "time limit"
    ENDED = "ended"


class WorkerProcess:
    """The child and what it writes.

    Args:
        command, environment: of the child.
        errors: the file that its standard error goes to.

    Raises:
        OSError: the command cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], errors: Path) -> None:
        with errors.open("wb") as stream:
            # A session of its own, so that what the engine starts can be ended with it.
            self._child = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        self._errors = errors
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def answer(self, line: str, limit_s: float) -> str | Silence:
        """The next line that it writes after it was given `line`."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
            answer = self._lines.get(timeout=limit_s)
        except queue.Empty:
            return Silence.TIME_LIMIT
        except BrokenPipeError:
            return Silence.ENDED
        return Silence.ENDED if answer is None else answer

    def ending(self) -> str:
        """How a child ended that answers no more: its signal or exit code, and what it last said."""
        try:
            code = self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return "the worker closed its output"
        how = f"crashed with {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        said = self._last_words()
        return f"{how}: {said}" if said else how

    def kill(self) -> None:
        """End the child, and what it started."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._child.pid, signal.SIGKILL)
            else:
                self._child.kill()
        self._child.wait()
        self._reader.join(_GRACE_S)
        for stream in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def _collect(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(ValueError):  # closed by `kill`
            for line in self._child.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _last_words(self) -> str:
        text = self._errors.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
        return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-_TAIL_LINES:])


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
