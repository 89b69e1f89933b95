"""Messages of the worker that reads an untrusted table.

For any messages, its parent must return rows or raise an error.

The bytes come from pipes, so the parent's code is the code that users run; only the process is replaced. A compromised
worker can send any rows. Therefore rows are fine if pyarrow decodes the same rows.
"""

import contextlib
import io
import json
import os
import threading
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
from fuzz_assessment import Assessment, OutcomeKind, without_rows
from fuzz_reading import Leak, Outcome, ReadRows, Refusal, counted, lines_of, outcome_of
from fuzz_subjects import LOCATION, Changes, Image, Subject, SubjectRead

import harness
from harness.errors import visible
from harness.untrusted import launching, reading
from harness.untrusted.children import Child
from harness.untrusted.launching import WorkerResult
from harness.untrusted.worker import DONE

ROWS, ERROR, END = "worker:rows", "worker:error", "worker:end"
_BEGUN = b"-\n"
_MOST_COUNTED = 5000


class Contained:
    """Messages of a worker about one table: its rows, an error, and its end."""

    def __init__(self, subject: Subject) -> None:
        self._address = subject.address
        rows, error = (_served(self._address, **at) for at in ({}, {"at": -7}))
        plain = error.output.replace(str(subject.directory).encode(), LOCATION.encode())
        self.image: Image = {ERROR: _BEGUN + plain, END: json.dumps({"code": DONE, "said": "a word\n"}).encode()}
        if rows.code == 0:
            self.image[ROWS] = _BEGUN + rows.output

    def files(self, _: SubjectRead) -> list[str]:
        """Return the names of all answers."""
        return list(self.image)

    def read(self, changes: Changes, read: SubjectRead) -> Outcome:
        """Return the outcome of `read_untrusted` with the worker's messages."""
        code, error_output, output = self._words(changes)
        bounds = harness.Bounds(output_bytes=max(1 << 16, 2 * len(output)), wall_seconds=20)
        puppet = mock.patch.object(launching, "_worker", return_value=_fake_process(code, error_output, output))
        with puppet, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = outcome_of(lambda: harness.read_untrusted(self._address, bounds=bounds), _counted)
        texts = [str(each.message) for each in caught] + ([outcome.text] if isinstance(outcome, Refusal) else [])
        odd = [text for text in texts if visible(text) != text]
        return Leak("Unprintable", "contained", repr(odd[0])[:300]) if odd else outcome

    def assessment(self, outcome: Outcome, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess an outcome. Other rows are fine if pyarrow decodes them too."""
        if not isinstance(outcome, ReadRows):
            return without_rows(outcome)
        if outcome == original and ERROR not in changes:
            return Assessment(OutcomeKind.SAME)
        _, _, output = self._words(changes)
        _, _, stream = output.partition(b"\n")
        plain = outcome_of(lambda: pa.ipc.open_stream(stream).read_all(), _counted)
        if outcome == plain:
            return Assessment(OutcomeKind.OTHER)
        return Assessment(
            OutcomeKind.WRONG, f"harness: {outcome}; before: {original}; pyarrow: {plain}", "wrong worker"
        )

    def _words(self, changes: Changes) -> tuple[int, bytes, bytes]:
        """Return the exit code, standard error, and standard output of the worker in a mutant."""
        now = {**self.image, **changes}
        end = _parsed(now[END])
        is_error = ROWS not in self.image or (ERROR in changes and ROWS not in changes)
        code = int(end.get("code", 1))
        output = now[ERROR if is_error else ROWS] or b""
        return code + 2 if is_error and code == DONE else code, end.get("said", "").encode("utf-8", "replace"), output


def _parsed(end: bytes | None) -> dict[str, Any]:
    """Return the end of a worker. By default it fails."""
    try:
        return dict(json.loads(end or b""))
    except ValueError:
        return {"code": 1}


def _served(address: str, **at: Any) -> WorkerResult:
    """Return the result of a read by a correct worker."""

    def serve(_: str, request: Any, **__: Any) -> WorkerResult:
        output = io.BytesIO()
        code = reading.serve(json.loads(json.dumps(request)), output)
        served.append(WorkerResult(code, output.getvalue(), ""))
        return served[0]

    served: list[WorkerResult] = []
    read = reading._read
    ordered = mock.patch.object(reading, "_read", lambda request: _ordered(read(request)))
    with ordered, mock.patch.object(reading, "run", serve), contextlib.suppress(harness.HarnessError):
        harness.read_untrusted(address, **at)
    return served[0]


def _ordered(rows: pa.Table) -> pa.Table:
    """Return the rows in a fixed order, so that their bytes are the same in each run."""
    lines = lines_of(rows)
    order = pa.array(sorted(range(len(lines)), key=lines.__getitem__), pa.int64())
    return rows.take(order).combine_chunks() if rows.num_columns else rows


def _counted(rows: pa.Table) -> ReadRows:
    """Return the rows, or only their number if there are very many, because a message of nulls may claim millions."""
    if rows.num_rows > _MOST_COUNTED:
        rows = pa.table({f"{field.name} {field.type}": [rows.num_rows] for field in rows.schema})
    return counted(rows)


class _FakeProcess(Child):
    """A child without a process that can be killed."""

    def kill(self) -> None:
        """Do nothing."""


@contextlib.contextmanager
def _fake_process(code: int, error_output: bytes, output: bytes) -> Iterator[Child]:
    """Return a process that has written all of its output and has ended with an exit code."""
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()

    def speak() -> None:
        for pipe, words in ((to_err, error_output), (to_out, output)):
            with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as stream:
                stream.write(words)

    thread = threading.Thread(target=speak)
    try:
        with open(out, "rb", buffering=0) as stdout, open(err, "rb", buffering=0) as stderr:
            thread.start()
            # The first line names a descriptor to take from the worker's process. Here that is this process, and the
            # descriptor would be one of these pipes.
            ended: dict[str, Any] = {"pid": os.getppid(), "poll": lambda: code, "wait": lambda _=None: code}
            process = SimpleNamespace(stdin=io.BytesIO(), stdout=stdout, stderr=stderr, returncode=code, **ended)
            child = _FakeProcess(process, "")  # type: ignore[arg-type]  # all of a process that is asked for
            try:
                yield child
            finally:
                child.end()
    finally:
        thread.join()
