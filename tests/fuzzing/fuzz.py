"""Mutates tables and reads them: rows must stay right, or a HarnessError must come.

    python tests/fuzzing/fuzz.py --mutants 200000 --seed 7 --target avro --jobs 2

Ends with the counts of each target, and with 1 if there is a finding. What was found is left in build/fuzz, made small.
Targets are kinds of files, and three of answers about a table: listings of its store, a catalog's, a worker's messages.
A mutant is drawn from its target, the seed, its number and its subject, and so the same as long as its scenario is; a
new scenario takes its share of the numbers. A finding's directory holds what it takes, whatever else changes.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import fuzz_answers
import fuzz_findings
import fuzz_spark
import moving_tables
from fuzz_findings import Finding
from fuzz_judging import Kind
from fuzz_mutants import GROUP, ROTATION, TARGETS, parsed
from fuzz_protocol import read_of, unpacked
from fuzz_report import Tally, line
from fuzz_shrinking import Shrinker
from fuzz_subjects import ROOT, Changes, Image
from fuzz_workers import Judged, Worker

_MOST_SHRUNK = 40


class Run:
    """One run of the fuzzer. options: of the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._groups = self._all_groups()
        self._error: BaseException | None = None
        self.tally = Tally()
        self.found: list[Judged] = []
        self.agreed: list[Judged] = []

    def run(self) -> None:
        """Read mutants on all jobs until there were enough."""
        jobs = [threading.Thread(target=self._work, daemon=True) for _ in range(self._options.jobs)]
        for job in jobs:
            job.start()
        try:
            for job in jobs:
                job.join()
        except KeyboardInterrupt as error:
            self._error = error
            for job in jobs:
                job.join()
        if self._error is not None:
            raise self._error

    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def _work(self) -> None:
        try:
            with Worker(self._options.plant) as worker:
                while (group := self._next_group()) is not None:
                    target, start = group
                    for judged in worker.group(target, self._options.seed, start, start + GROUP, self._options.subject):
                        self._count(target, judged)
        except BaseException as error:
            self._error = error

    def _next_group(self) -> tuple[str, int] | None:
        with self._lock:
            over = self._options.minutes is not None and self.seconds() > 60 * self._options.minutes
            return None if over or self._error is not None else next(self._groups, None)

    def _all_groups(self) -> Iterator[tuple[str, int]]:
        """Targets in turn, each with the next of its groups."""
        targets = self._options.target or ROTATION
        counts = {target: itertools.count(step=GROUP) for target in targets}
        given = 0
        for target in itertools.cycle(targets):
            if given >= self._options.mutants:
                return
            yield target, next(counts[target])
            given += GROUP

    def _count(self, target: str, judged: Judged) -> None:
        with self._lock:
            if self.tally.add(target, judged):
                self.found.append(judged)
                print(line(judged), flush=True)
            is_asked = target not in fuzz_answers.KINDS and judged.verdict.kind is Kind.OTHER
            if is_asked and self.tally.counts[target][Kind.OTHER] <= self._options.spark:
                self.agreed.append(judged)
            total = self.tally.total()
            if total % 5000 == 0:
                rate = total / self.seconds() * 3600
                print(f"{total} mutants, {rate:,.0f} an hour, {len(self.found)} findings", flush=True)


def shrunk(judged: Judged, worker: Worker, only: str | None, tries: int = 300) -> Finding:
    """A finding made small, in at most so many tries."""
    target, seed, number = parsed(judged.told["name"])
    _, told, packed, image = worker.mutant(target, seed, number, only)
    pieces = [unpacked(changes) for changes in packed]
    whole: Image = {name: data for name, data in unpacked(image).items() if data is not None}
    subject, read, wanted = told["subject"], read_of(told["read"]), judged.verdict

    def shows(changes: Changes) -> bool:
        verdict = worker.judge(subject, read, changes)
        return (verdict.kind, verdict.signature) == (wanted.kind, wanted.signature)

    changes = Shrinker(whole, shows, tries).shrink(pieces)
    return Finding(
        name=told["name"],
        subject=subject,
        read=read,
        mutations=tuple(told["mutations"]),
        verdict=wanted,
        image=whole,
        changes=changes or pieces[0],
    )


def leave(found: Sequence[Judged], options: argparse.Namespace) -> None:
    """Make findings small, leave a directory of each, and print the commands that show them."""
    with Worker(options.plant) as worker:
        for judged in found:
            place = fuzz_findings.write(shrunk(judged, worker, options.subject), options.output)
            print(f"{judged.verdict.kind.value}: python tests/fuzzing/fuzz.py --again {place}", flush=True)


def again(place: Path, plant: str | None) -> int:
    """Read a finding once more; the exit code."""
    with Worker(plant) as worker:
        verdict = worker.judge(*fuzz_findings.load_again(place))
    print(f"{verdict.kind.value}: {verdict.detail}")
    return int(verdict.kind.is_finding)


def one(name: str, options: argparse.Namespace) -> int:
    """Draw and read one mutant, and say what came of it; a finding leaves its directory. The exit code."""
    target, seed, number = parsed(name)
    with Worker(options.plant) as worker:
        (judged,) = worker.group(target, seed, number, number + 1, options.subject)
    print(line(judged))
    if not judged.verdict.kind.is_finding:
        return 0
    leave([judged], options)
    return 1


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 if there is a finding."""
    options = _options(arguments)
    if options.again is not None:
        return again(options.again, options.plant)
    if options.mutant is not None:
        return one(options.mutant, options)
    chosen = "".join(f" --target {target}" for target in options.target or ())
    print(f"again: python tests/fuzzing/fuzz.py --seed {options.seed}{chosen}, with --mutants or --minutes", flush=True)
    run = Run(options)
    run.run()
    seconds = run.seconds()
    if run.found:
        leave(run.found[:_MOST_SHRUNK], options)
    for kind in moving_tables.KINDS if options.moving else ():
        with tempfile.TemporaryDirectory() as place:
            print(kind, moving_tables.read_while_it_moves(kind, Path(place), options.moving, options.seed), flush=True)
    is_agreed = not run.agreed or fuzz_spark.is_agreed([judged.told["name"] for judged in run.agreed], options.subject)
    print(run.tally.table())
    for signature, count in run.tally.findings.most_common():
        print(f"{count:6} {signature}")
    total = run.tally.total()
    print(f"{total} mutants in {seconds:.0f} s, {total / seconds * 3600:,.0f} an hour, {len(run.found)} findings")
    return int(bool(run.found) or not is_agreed)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, help="about so many (100000, or as many as fit into --minutes)")
    parser.add_argument("--minutes", type=float, help="no group of mutants begins after them")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="what mutants are drawn from (any)")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only these; may be given again")
    parser.add_argument("--subject", help="only the table of this scenario, or of this case of the corpus")
    parser.add_argument("--jobs", type=int, default=2, help="processes that read (2)")
    parser.add_argument("--mutant", help="only the mutant of this name")
    parser.add_argument("--again", type=Path, help="only the finding in this directory")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "fuzz", help="where findings are left")
    parser.add_argument(
        "--spark", type=int, default=0, help="of so many per target of files with other rows, ask Spark (0)"
    )
    parser.add_argument("--moving", type=int, default=0, help="besides, read tables that change, so many times (0)")
    parser.add_argument("--plant", help="module:function that breaks something first, to test the fuzzer")
    options = parser.parse_args(arguments)
    if options.mutants is None:
        options.mutants = 100_000 if options.minutes is None else sys.maxsize
    return options


if __name__ == "__main__":
    sys.exit(main())
