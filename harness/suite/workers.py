"""Engines in separate processes: started once, used for many reads, killed at the time limit, and restarted.

`harness.suite.protocol` defines the messages, and `worker` is the program of the process for readers in Python. If a
worker crashes, hangs or breaks the protocol, the `cause` of the EngineError is in `BROKEN`. Errors that the engine
itself reports never have these causes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import itertools
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.engines.registry import engine_names
from harness.errors import EngineError, RequestError, UnsupportedError, visible
from harness.suite.foreign_files import path_below
from harness.suite.json_rows import read_rows
from harness.suite.protocol import PROTOCOL, message_fault, predicate
from harness.suite.reader import TableAt
from harness.suite.scenarios.model import ResolvedChanges
from harness.untrusted.bounds import DOCUMENT_BYTES
from harness.untrusted.children import Child

_TAIL_BYTES = 20_000
_TAIL_LINES = 3
_CAUSE = re.compile(
    r"^(panic: |fatal error: |Fatal Python error: |terminate called |Exception in thread )|panicked at |: Assertion "
    r"|^# +(SIG|EXCEPTION_|Internal Error|There is insufficient memory)|OutOfMemoryError"
)
"""The first line of a crash report in Go, Python, C++, Java, Rust and C. A long stack trace may follow."""
_SHELL_SIGNALS = 128
"""A shell that runs a program exits with this number plus the number of the signal that ended the program."""
_GRACE_S, _POLL_S = 5.0, 0.5
_SHOWN = 100
"""The number of characters of a path or a name that messages show."""
_MAX_NAME_LENGTH = 1000


class _NoAnswer(enum.Enum):
    """The reason for a missing answer."""

    TIME_LIMIT = "time limit"
    ENDED = "ended"
    TOO_LONG = "too long"


class WorkerProcess:
    """The child process, and the part of its output that was not processed yet.

    Raises:
        OSError: The command cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._child = Child.start(command, environment)
        self._output, self._errors = bytearray(), bytearray()

    def answer(self, line: str, limit_s: float) -> str | _NoAnswer:
        """Send a line and return the next line of the output."""
        until = time.monotonic() + limit_s
        self._child.send(line.encode() + b"\n")
        while (end := self._output.find(b"\n")) < 0:
            remaining_s = until - time.monotonic()
            if len(self._output) > DOCUMENT_BYTES:
                return _NoAnswer.TOO_LONG
            if remaining_s <= 0:
                return _NoAnswer.TIME_LIMIT
            # A process that the child started may keep the output open after the child has ended.
            is_silent = not self._receive(min(remaining_s, _POLL_S)) and self._child.process.poll() is not None
            if is_silent or not self._child.is_open("output"):
                return _NoAnswer.ENDED
        answer = self._output[:end]
        del self._output[: end + 1]
        return answer.decode("utf-8", "replace") if end <= DOCUMENT_BYTES else _NoAnswer.TOO_LONG

    def exit_text(self) -> str:
        """Describe why a child no longer answers: the signal or exit code, and the crash or the last lines."""
        self._finish()
        try:
            code = self._child.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            how = "closed its output"
        else:
            how = f"crashed with {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
            if code > _SHELL_SIGNALS:
                how += f" ({_signal(code - _SHELL_SIGNALS)})"
        words = self.crash_text() or " | ".join(self._error_lines()[-_TAIL_LINES:])
        return f"{how}: {words}" if words else how

    def crash_text(self) -> str:
        """Return the start of the last crash report in standard error as one line, or an empty text.

        The child receives no more requests afterwards.
        """
        self._finish()
        lines = self._error_lines()
        causes = [place for place, line in enumerate(lines) if _CAUSE.search(line)]
        return " | ".join(lines[causes[-1] :][:_TAIL_LINES]) if causes else ""

    def _error_lines(self) -> list[str]:
        text = self._errors.decode("utf-8", "replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def kill(self) -> None:
        """End the child and all processes that it started."""
        self._child.end()

    def _finish(self) -> None:
        """Close the child's input and read its remaining output."""
        self._child.send_end()
        until = time.monotonic() + _GRACE_S
        while self._child.is_open() and time.monotonic() < until and self._receive(_POLL_S):
            pass

    def _receive(self, limit_s: float) -> bool:
        """Read the next bytes of the child's output. Return False if there are none within the limit."""
        chunk = self._child.receive(limit_s)
        if chunk is None:
            return False
        stream, data = chunk
        if stream == "output":
            self._output += data[: 2 * DOCUMENT_BYTES - len(self._output)]
        else:
            self._errors = (self._errors + data)[-_TAIL_BYTES:]
        return True


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


CRASHED, TIMED_OUT, BROKEN_PROTOCOL = "Crashed", "TimeLimit", "BrokenWorker"
BROKEN = frozenset({CRASHED, TIMED_OUT, BROKEN_PROTOCOL})
"""Causes of errors that are not an answer of the engine."""
NOT_INSTALLED = "NotInstalled"
"""The cause of a RequestError if no interpreter has the engine."""
START_LIMIT_S = 60.0
"""The time limit in seconds for importing a worker's engine, unless the time limit of a read is longer."""


def _check_name(name: str) -> str:
    """Return the name of a reader.

    Raises:
        RequestError: The name belongs to an engine, or cannot be displayed.
    """
    if name.casefold() in engine_names():
        raise RequestError(
            f"Cannot use a reader that is called {name}: this is the name of an engine that runs harness's plans; "
            "give the reader another name in its answer to hello, or with NAME=exec:COMMAND"
        )
    if not name.isprintable() or len(name) > _MAX_NAME_LENGTH:
        raise RequestError(
            f"Cannot use a reader that is called {name[:_SHOWN]!r}: expected up to {_MAX_NAME_LENGTH} "
            "printable characters"
        )
    return name


class Worker:
    """An engine in another process that speaks `harness.suite.protocol`. It is a `Reader`.

    Args:
        name: The engine's name, unless its answer to `hello` contains a name.
        command: The program and its arguments.
        time_limit_s: The time limit of one read in seconds.
        environment: Environment variables in addition to this process's environment.
        process_per_table: Whether each table gets a new process, so that nothing cached for one table affects another.

    Raises:
        RequestError: The program does not start or reports that the engine is missing (cause `NOT_INSTALLED`), or its
            name belongs to an engine that executes plans or is not printable.
        EngineError: The program crashes, breaks the protocol, or is not ready within the time limit.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        time_limit_s: float,
        environment: Mapping[str, str] | None = None,
        process_per_table: bool = False,
    ) -> None:
        self.name = name
        self._command = command
        self._limit = time_limit_s
        self._process_per_table = process_per_table
        self._table: tuple[str, str | None] | None = None
        # Keeps the script's directory off Python's path, because a file in it may have the name of a package.
        self._environment = {**os.environ, "PYTHONSAFEPATH": "1", **(environment or {})}
        self._directory = tempfile.TemporaryDirectory(prefix="harness-worker-", ignore_cleanup_errors=True)
        self._numbers = itertools.count(1)
        self._process: WorkerProcess | None = None
        try:
            self._hello = self._start()
            self.name = _check_name(str(self._hello.get("name") or name))
        except BaseException:
            self.close()
            raise

    def version(self) -> str:
        """Return the version that the engine reports."""
        return visible(str(self._hello["version"]))

    def capabilities(self) -> frozenset[str] | None:
        """Return the features that the engine claims. None means all."""
        claimed = self._hello.get("features")
        return None if claimed is None else frozenset(claimed)

    @property
    def takes_filters(self) -> bool:
        """Whether reads and counts may have a filter."""
        return bool(self._hello.get("filters", True))

    def offers(self, operation: str) -> bool:
        """Return whether the engine supports an operation of the protocol: `read`, `count` or `changes`."""
        return operation in self._hello.get("ops", ["read"])

    def options(self) -> frozenset[str]:
        """Return the options of a read that the engine supports."""
        return frozenset(self._hello.get("options", ()))

    def read(
        self,
        table: TableAt,
        *,
        columns: tuple[str, ...] | None,
        where: str | None,
        schema: pa.Schema | None = None,
        options: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """Return the rows of a table.

        Args:
            table: The table.
            columns: Column names in output order. None means all.
            where: A filter in DuckDB's dialect. None means every row.
            schema: The types of the columns, for rows in JSON.
            options: Options with the names of the protocol.

        Raises:
            UnsupportedError: The engine declines the read, or does not support an option.
            EngineError: The engine refuses the table, and `cause` is the class of its error; or the cause is in
                `BROKEN`.
        """
        arguments = {"table": dataclasses.asdict(table), "columns": columns, **self._filter(where)}
        if options:
            if unknown := sorted(options.keys() - self.options()):
                raise UnsupportedError(f"{self.name} does not support the option {unknown[0]}")
            arguments["options"] = dict(options)
        return self._rows({"op": "read", **arguments}, schema)

    def count(self, table: TableAt, *, where: str | None) -> int:
        """Return the number of rows, as the engine counts them. Raises the same errors as `read`."""
        answer = self._send({"op": "count", "table": dataclasses.asdict(table), **self._filter(where)})
        return int(answer["count"])

    def changes(
        self,
        table: TableAt,
        changes: ResolvedChanges,
        *,
        columns: tuple[str, ...] | None,
        where: str | None,
        schema: pa.Schema | None = None,
    ) -> pa.Table:
        """Return the changes of a table in a range. Raises the same errors as `read`."""
        arguments = {"table": dataclasses.asdict(table), **changes.to_json(), "columns": columns}
        return self._rows({"op": "changes", **arguments, **self._filter(where)}, schema)

    def close(self) -> None:
        """End the process and remove its files."""
        self._kill()
        self._directory.cleanup()

    def _filter(self, where: str | None) -> dict[str, object]:
        if where is not None and not self.takes_filters:
            raise UnsupportedError(f"{self.name} does not support filters")
        return {"where": where, "predicate": predicate(where)}

    def _start(self) -> Mapping[str, Any]:
        try:
            self._process = WorkerProcess(self._command, self._environment)
        except OSError as error:
            raise RequestError(
                f"Cannot use the engine {self.name}: {self._command[0]} does not start: {error.strerror}",
                cause=NOT_INSTALLED,
            ) from error
        answer = self._exchange({"op": "hello", "protocol": PROTOCOL}, max(START_LIMIT_S, self._limit))
        if "missing" in answer:
            missing = ": ".join(filter(None, [str(answer["missing"]), self._process.crash_text()]))
            self._kill()
            raise RequestError(
                f"Cannot use the engine {self.name} in {self._command[0]}: {missing}", cause=NOT_INSTALLED
            )
        return answer

    def _send(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and return the answer, unless the engine declines or refuses."""
        if not self.offers(operation := request["op"]):
            raise UnsupportedError(f"{self.name} does not support {operation}")
        table = request["table"]["location"], request["table"]["metadata_path"]
        if self._process_per_table and self._table not in (None, table):
            self._kill()
            self._table = None
        if self._process is None:
            try:
                self._start()
            except RequestError as error:  # the worker did start before
                raise EngineError(f"The worker could not be restarted: {error.message}", cause=CRASHED) from error
        match answer := self._exchange({"id": next(self._numbers), **request}, self._limit):
            case {"unsupported": str(message)}:
                raise UnsupportedError(message)
            case _:
                self._table = table
        match answer:
            case {"error": str(kind), "message": str(message)} if answer.get("panic"):
                raise EngineError(f"The engine panicked: {kind}: {message}", cause=CRASHED)
            case {"error": str(kind), "message": str(message)}:
                raise EngineError(message.partition("Stack Trace")[0].rstrip(), cause=kind)
            case _:
                return answer

    def _exchange(self, request: Mapping[str, object], limit_s: float) -> dict[str, object]:
        assert self._process is not None
        line = self._process.answer(json.dumps(request), limit_s)
        match line:
            case _NoAnswer.TIME_LIMIT:
                self._kill()
                raise EngineError(f"time limit: no answer within {limit_s:g} s", cause=TIMED_OUT)
            case _NoAnswer.ENDED:
                exit_text = self._process.exit_text()
                self._kill()
                raise EngineError(f"{self.name} {exit_text}", cause=CRASHED)
            case _NoAnswer.TOO_LONG:
                self._kill()
                raise EngineError(
                    f"{self.name} breaks the protocol: an answer has more than {DOCUMENT_BYTES:,} bytes",
                    cause=BROKEN_PROTOCOL,
                )
            case str():
                pass
        try:
            answer = json.loads(line)
            wrong = message_fault(answer, f"{request['op']} answer")
        except (ValueError, RecursionError):
            answer, wrong = None, f"the answer is {line.rstrip()[:200]!r}, not JSON"
        if wrong is None and isinstance(answer, dict) and answer.get("id", request.get("id")) == request.get("id"):
            return answer
        self._kill()
        wrong = wrong or f"the answer has the id {answer['id']}, expected {request['id']}"
        raise EngineError(f"{self.name} breaks the protocol: {wrong}", cause=BROKEN_PROTOCOL)

    def _rows(self, request: Mapping[str, object], schema: pa.Schema | None) -> pa.Table:
        folder = Path(self._directory.name)
        answer = str(self._send({**request, "output": str(folder / "rows")})["rows"])
        # Only files in harness's own folder are read and removed: an answer could name a file of the table.
        name = answer.removeprefix(f"{folder}{os.sep}")
        try:
            if name == answer:
                raise RequestError(f"Cannot read the rows: expected a path below {folder}, got {answer[:_SHOWN]!r}")
            if folder.is_symlink():  # the reader made this link; harness must not remove its target
                raise RequestError("Cannot read the rows: links are not followed", file=str(folder))
            path = path_below(folder, name, "the rows")
            try:
                return read_rows(folder, name, schema, is_json=self._hello.get("rows") == "jsonl")
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
        except RequestError as error:
            raise EngineError(f"{self.name} wrote no rows: {error.message}", cause=BROKEN_PROTOCOL) from error

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
