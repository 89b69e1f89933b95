"""A process that reads mutants until it is told to stop, or dies of one; `fuzz_workers` starts it and listens.

Every line of its input is a task, every line of its output a word about one: `begin` before a mutant is read, so that
whatever happens then is known to be its doing, `judging` before the oracle is asked, `verdict` after it, `done` after a
task. What reads is a child of a process that has loaded everything and done nothing: one that dies, or has read a lot,
is replaced at once. The parent says `child` when there is a new one, and `died` when a mutant was its end.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import shutil
import signal
import sys
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from fuzz_benches import Bench, Benches
from fuzz_judging import Verdict
from fuzz_limits import Watch, allow_seconds, limit_process
from fuzz_mutants import Mutant, applied
from fuzz_protocol import packed, read_of, told, unpacked
from fuzz_subjects import Changes, Read

from harness.engines.registry import find_engine

_MOST_TASKS = 200
"""After which a child is replaced, so that what adds up over many mutants is nobody's fault."""

_RENEW = 3


class Worker:
    """Answers tasks. place: a directory that no other process writes in."""

    def __init__(self, place: Path, out: IO[str]) -> None:
        self._place = place
        self._out = out
        self._benches: Benches | None = None

    def begin(self) -> None:
        """Be watched from now on, until the process ends."""
        self._benches = Benches(self._place, Watch(), lambda: self.say("judging"))

    def answer(self, task: list[Any]) -> None:
        """Do a task, and say so."""
        match task:
            case ["group", *arguments]:
                self.group(*arguments)
            case ["mutant", *arguments]:
                self.mutant(*arguments)
            case ["image", subject, read, changes]:
                self.image(subject, read_of(read), unpacked(changes))
        self.say("done")

    def group(self, target: str, seed: int, start: int, end: int, only: str | None) -> None:
        """Judge the mutants from one number to before another, all of one group."""
        for number in range(start, end):
            mutant, bench = self._drawn(target, seed, number, only)
            self.say("begin", number, told(mutant))
            allow_seconds()
            self._verdict(bench.judge(applied(mutant, bench.image(target)), mutant.read))

    def mutant(self, target: str, seed: int, number: int, only: str | None) -> None:
        """Tell of a mutant: its words, what it changes with all its mutations and with all but one, and the table."""
        mutant, bench = self._drawn(target, seed, number, only)
        image = bench.image(target)
        fewer = [tuple(m for m in mutant.mutations if m is not left) for left in mutant.mutations]
        sets = [mutant.mutations, *filter(None, fewer)]
        pieces = [packed(applied(replace(mutant, mutations=some), image)) for some in sets]
        self.say("mutant", told(mutant), pieces, packed(image))

    def image(self, subject: str, read: Read, changes: Changes) -> None:
        """Judge a table with any changes."""
        assert self._benches is not None
        allow_seconds()
        bench = self._benches.on(subject)
        bench.original(read)
        self.say("begin", 0, None)
        allow_seconds()
        self._verdict(bench.judge(changes, read))

    def _drawn(self, target: str, seed: int, number: int, only: str | None) -> tuple[Mutant, Bench]:
        assert self._benches is not None
        allow_seconds()  # to make the subject: what the mutant before it left may be too little
        return self._benches.drawn(target, seed, number, only)

    def _verdict(self, verdict: Verdict) -> None:
        self.say("verdict", verdict.kind.name, verdict.detail, verdict.signature)

    def say(self, *words: Any) -> None:
        """Tell the parent."""
        self._out.write(json.dumps(words) + "\n")
        self._out.flush()


def live(worker: Worker, plant: str | None) -> int:
    """Answer tasks from standard input until it ends, or there were many; the exit code."""
    worker.begin()
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)  # says where the time went, before it ends the process
    if plant is not None:
        module, _, function = plant.partition(":")
        getattr(importlib.import_module(module), function)()
    limit_process()
    for _ in range(_MOST_TASKS):
        line = sys.stdin.readline()
        if not line:
            return 0
        worker.answer(json.loads(line))
    return _RENEW


def serve(place: Path, plant: str | None) -> None:
    """Have children live one after the other, until one comes to the end of the input, or nobody listens any more.

    plant: `module:function`, called first to break something, by which the fuzzer itself is tested.
    """
    out = os.fdopen(os.dup(1), "w")
    said = place / "said"
    said.touch()
    warnings.simplefilter("ignore")  # what is odd about a table is its point
    for engine in ("duckdb", "oracle"):
        find_engine(engine)
    worker = Worker(place, out)
    try:
        while (code := _life(worker, plant, said)) != 0:
            if code != _RENEW:
                killer = signal.Signals(-code).name if code < 0 else f"exit {code}"
                worker.say("died", killer, said.read_text("utf-8", "replace")[-4000:])
            os.truncate(said, 0)
    except BrokenPipeError:
        pass
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _life(worker: Worker, plant: str | None, said: Path) -> int:
    """The exit code of a child, or -1 times the signal that ended it. said: gets what the child prints."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 2)
            os.dup2(2, 1)  # whatever a library prints is not an answer
            code = live(worker, plant)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    worker.say("child", child)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
