"""Workers from the parent's side: started, given tasks, and replaced when a mutant ends them."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_assessment import Assessment, OutcomeKind
from fuzz_limits import MOST_SECONDS
from fuzz_mutants import Mutant
from fuzz_subjects import Changes, Image, SubjectRead
from fuzz_worker import live

_WALL_SECONDS = 4 * MOST_SECONDS
"""The seconds until a worker must send a message. Waiting on a busy machine is not counted as processor time."""
_MOST_TASKS = 200
"""The number of tasks after which a process is replaced, so that effects of many mutants do not add up."""
_SHARED_MEMORY = Path("/dev/shm")
_SERVER = multiprocessing.get_context("forkserver")
"""Worker processes are forked from a server process that has imported everything and done nothing else."""
_SERVER.set_forkserver_preload(["fuzz_worker"])


@dataclass(frozen=True, slots=True)
class Result:
    """A mutant and its assessment."""

    mutant: Mutant
    assessment: Assessment


class FuzzWorker:
    """A sequence of processes that read in a directory in memory. `plant` is as for `fuzz_worker.live`."""

    def __init__(self, plant: str | None = None) -> None:
        parent = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._place = Path(tempfile.mkdtemp(prefix="harness-fuzz-", dir=parent))
        self._said = self._place / "said"
        self._plant = plant
        self._process: Any = None
        self._tasks = 0

    def __enter__(self) -> FuzzWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self._place, ignore_errors=True)

    def group(self, target: str, seed: int, start: int, end: int, only: str | None) -> Iterator[Result]:
        """Yield the assessments of some mutants of one group, even if processes die."""
        while start < end:
            for result in self._receive_result("group", target, seed, start, end, only):
                yield result
                start += 1

    def assess(self, subject: str, read: SubjectRead, changes: Changes) -> Assessment:
        """Return the assessment of a table with given changes."""
        (result,) = self._receive_result("image", subject, read, changes)
        return result.assessment

    def mutant(self, target: str, seed: int, number: int, only: str | None) -> tuple[Mutant, list[Changes], Image]:
        """Return a mutant, its changes with all mutations and with all but one, and the table."""
        ((_, *answer),) = (words for words in self._answers("mutant", target, seed, number, only) if len(words) > 1)
        return tuple(answer)  # type: ignore[return-value]

    def _receive_result(self, *task: Any) -> Iterator[Result]:
        """Yield results until the task is done, or the process is dead.

        The last result is then about the cause of its death.
        """
        mutant: Any = None
        for words in self._answers(*task):
            match words:
                case ("begin", mutant):
                    pass
                case ("verdict", assessment):
                    yield Result(mutant, assessment)

    def _answers(self, *task: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the messages about a task until it is done. A process that sends no message for too long is killed."""
        if self._process is None or not self._process.is_alive() or self._tasks % _MOST_TASKS == 0:
            self._begin()
        self._tasks += 1
        self._pipe.send(task)
        last = "start"
        while last != "done":
            if not self._pipe.poll(_WALL_SECONDS):
                os.kill(self._process.pid, signal.SIGXCPU)
            try:
                words = self._pipe.recv()
            except (EOFError, ConnectionResetError):
                yield "verdict", self._death(last)
                return
            last = words[0]
            yield words

    def _begin(self) -> None:
        self._end()
        self._pipe, theirs = _SERVER.Pipe()
        self._process = _SERVER.Process(target=live, args=(theirs, self._place, self._said, self._plant), daemon=True)
        with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # for the server, when it starts
            self._process.start()
        theirs.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()  # even if it hangs
            self._process.join()
            self._process = None
            self._pipe.close()

    def _death(self, last: str) -> Assessment:
        self._process.join()
        # The innermost frames come first, and longer checkout paths make a stack longer.
        code, output = self._process.exitcode, self._said.read_text("utf-8", "replace")[-64_000:]
        self._end()
        killer = signal.Signals(-code).name if code < 0 else f"exit {code}"
        if last not in ("begin", "judging"):
            raise RuntimeError(f"a worker died before a mutant began: {killer} {output}")
        if last == "judging":
            return Assessment(OutcomeKind.UNCONFIRMED)
        frames = [line.strip() for line in output.splitlines() if "/harness/" in line]
        place = frames[0].rpartition("/harness/")[2] if frames else "nowhere in harness"
        kind = (
            OutcomeKind.TIME
            if killer == "SIGXCPU"
            else OutcomeKind.MEMORY
            if "bad_alloc" in output
            else OutcomeKind.CRASH
        )
        words = " ".join(line.strip() for line in output.splitlines()[:3])
        return Assessment(kind, f"{killer} at {place}: {words}"[:400], f"{killer} {place}")
