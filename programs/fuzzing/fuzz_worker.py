"""The process that assesses mutants. `fuzz_workers` starts it, sends tasks, and receives messages.

The process sends `begin` before a mutant is read, so that a crash can be attributed to it, `judging` before the oracle
reads, `verdict` afterwards, and `done` after a task.
"""

import faulthandler
import importlib
import os
import signal
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz_benches import Bench, Benches
from fuzz_limits import SocketWatch, allow_seconds, limit_process
from fuzz_mutants import Mutant, applied
from fuzz_subjects import Changes, SubjectRead

from harness.engines.registry import find_engine

for _engine in ("duckdb", "oracle"):
    find_engine(_engine)


def live(pipe: Connection, place: Path, output_path: Path, plant: str | None) -> None:
    """Process tasks as long as there are any.

    Args:
        pipe: The connection for tasks and messages.
        place: A directory that no other process writes to.
        output_path: The file for the output of the process.
        plant: `module:function`, a function that is called first to break harness, to test the fuzzer itself.
    """
    output = os.open(output_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1), os.dup2(output, 2)
    warnings.simplefilter("ignore")  # the tables are irregular on purpose
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)  # prints where the time was spent before it ends the process
    if plant is not None:
        module, _, function = plant.partition(":")
        getattr(importlib.import_module(module), function)()
    limit_process()
    tasks = _Tasks(pipe, place)
    while True:
        try:
            name, *arguments = pipe.recv()
        except EOFError:
            return
        getattr(tasks, name)(*arguments)
        pipe.send(("done",))


class _Tasks:
    """The tasks of a worker. `place` is a directory that no other process writes to."""

    def __init__(self, pipe: Connection, place: Path) -> None:
        self._pipe = pipe
        self._benches = Benches(place, SocketWatch(), lambda: pipe.send(("judging",)))

    def group(self, target: str, seed: int, start: int, end: int, only: str | None) -> None:
        """Assess the mutants in a range of numbers, all in one group."""
        for number in range(start, end):
            mutant, bench = self._drawn(target, seed, number, only)
            self._assess(mutant, bench, applied(mutant, bench.image(target)), mutant.read)

    def mutant(self, target: str, seed: int, number: int, only: str | None) -> None:
        """Send a mutant, its changes with all mutations and with all but one, and the table."""
        mutant, bench = self._drawn(target, seed, number, only)
        image = bench.image(target)
        fewer = [tuple(m for m in mutant.mutations if m is not left) for left in mutant.mutations]
        sets = [mutant.mutations, *filter(None, fewer)]
        pieces = [applied(replace(mutant, mutations=some), image) for some in sets]
        self._pipe.send(("mutant", mutant, pieces, image))

    def image(self, subject: str, read: SubjectRead, changes: Changes) -> None:
        """Assess a table with given changes."""
        allow_seconds()
        bench = self._benches.on(subject)
        bench.original(read)
        self._assess(None, bench, changes, read)

    def _drawn(self, target: str, seed: int, number: int, only: str | None) -> tuple[Mutant, Bench]:
        allow_seconds()  # for making the subject: the rest of the previous mutant's time may be too short
        return self._benches.drawn(target, seed, number, only)

    def _assess(self, mutant: Mutant | None, bench: Bench, changes: Changes, read: SubjectRead) -> None:
        self._pipe.send(("begin", mutant))
        allow_seconds()
        self._pipe.send(("verdict", bench.assess(changes, read)))
