"""Mutate tables, and read and check them: the rows must stay right, or a HarnessError must be raised.

    python programs/fuzzing/fuzz.py --mutants 200000 --seed 7 --target avro --jobs 2

The program prints the counts of each target, and exits with 1 if there is a finding. Findings are reduced and written
to build/fuzz. Targets are kinds of files, and four kinds of answers about a table: listings of its store, a catalog's
answers, the plans of a catalog's server, and a worker's messages. A mutant is derived from its target, the seed, its
number, and its subject, so it stays the same as long as its scenario does; a new scenario takes over some of the
numbers. A finding's directory contains everything needed to reproduce it.
"""

import argparse
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import fuzz_answers
import fuzz_findings
import fuzz_spark
import moving_tables
from fuzz_assessment import OutcomeKind
from fuzz_findings import FuzzFinding
from fuzz_mutants import GROUP, ROTATION, TARGETS, parsed
from fuzz_shrinking import shrink
from fuzz_subjects import ROOT, Changes
from fuzz_workers import FuzzWorker, Result

_MOST_SHRUNK = 40


class FuzzRun:
    """A run of the fuzzer: counts by target and assessment, and findings by identity.

    Args:
        options: The command line options.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._groups = self._all_groups()
        self._is_over = False
        self.counts: dict[str, Counter[OutcomeKind]] = defaultdict(Counter)
        self.found: dict[str, list[Result]] = {}
        self.agreed: list[Result] = []

    def run(self) -> None:
        """Read mutants on all jobs until there are enough."""
        with ThreadPoolExecutor(self._options.jobs) as pool:
            jobs = [pool.submit(self._work) for _ in range(self._options.jobs)]
            try:
                wait(jobs)
            finally:
                self._is_over = True
        for job in jobs:
            job.result()

    def summary(self) -> str:
        """Return the number of mutants, the time, and the findings as text."""
        total, seconds = sum(counts.total() for counts in self.counts.values()), time.monotonic() - self._began
        rate = f"{total / seconds * 3600:,.0f} an hour, {len(self.found)} findings"
        return f"{total} mutants in {seconds:.0f} s, {rate}"

    def table(self) -> str:
        """Return the counts, one line for each target, followed by the findings."""
        rows = {**dict(sorted(self.counts.items())), "all": sum(self.counts.values(), Counter[OutcomeKind]())}
        kinds = [kind for kind in OutcomeKind if rows["all"][kind]]
        cells = [["target", "mutants", *(kind.value for kind in kinds)]]
        cells += [[name, str(c.total()), *(str(c[kind]) for kind in kinds)] for name, c in rows.items()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.rjust, texts, widths)) for texts in cells]
        return "\n".join([*lines, *(f"{len(results):6} {signature}" for signature, results in self.found.items())])

    def _work(self) -> None:
        options = self._options
        try:
            with FuzzWorker(options.plant) as worker:
                while (group := self._next_group()) is not None:
                    target, start = group
                    for result in worker.group(target, options.seed, start, start + GROUP, options.subject):
                        self._count(target, result)
        finally:
            self._is_over = True

    def _next_group(self) -> tuple[str, int] | None:
        with self._lock:
            minutes = self._options.minutes
            is_late = minutes is not None and time.monotonic() - self._began > 60 * minutes
            return None if is_late or self._is_over else next(self._groups, None)

    def _all_groups(self) -> Iterator[tuple[str, int]]:
        """Yield the targets in turn, each with the next of its groups."""
        targets = self._options.target or ROTATION
        counts = {target: itertools.count(step=GROUP) for target in targets}
        turns = itertools.cycle(targets)
        for target in itertools.islice(turns, -(-self._options.mutants // GROUP)):
            yield target, next(counts[target])

    def _count(self, target: str, result: Result) -> None:
        with self._lock:
            kind = result.assessment.kind
            self.counts[target][kind] += 1
            if kind.is_finding:
                results = self.found.setdefault(distinct(result), [])
                results.append(result)
                if len(results) == 1:
                    print(line(result), flush=True)
            is_asked = target not in fuzz_answers.KINDS and kind is OutcomeKind.OTHER
            if is_asked and self.counts[target][OutcomeKind.OTHER] <= self._options.spark:
                self.agreed.append(result)
            if sum(counts.total() for counts in self.counts.values()) % 5000 == 0:
                print(f"so far {self.summary()}", flush=True)


def distinct(result: Result) -> str:
    """Return the identity of a finding: its signature and, for wrong rows, the mutation and the table."""
    signature = result.assessment.signature
    if result.assessment.kind not in (OutcomeKind.WRONG, OutcomeKind.DISPUTED):
        return signature
    done = sorted({mutation.mutator for mutation in result.mutant.mutations})
    return f"{signature} {result.mutant.subject} {' '.join(done)}"


def line(result: Result) -> str:
    """Return a finding as two lines."""
    mutant, assessment = result.mutant, result.assessment
    return f"{assessment.kind.value}: {mutant.name}, {mutant.subject}, {mutant.words()}\n    {assessment.detail[:700]}"


def shrink_finding(result: Result, worker: FuzzWorker, only: str | None, tries: int = 300) -> FuzzFinding:
    """Reduce a finding with at most `tries` reads."""
    mutant, pieces, image = worker.mutant(*parsed(result.mutant.name), only)
    original_assessment = result.assessment

    def shows(changes: Changes) -> bool:
        assessment = worker.assess(mutant.subject, mutant.read, changes)
        return (assessment.kind, assessment.signature) == (original_assessment.kind, original_assessment.signature)

    return FuzzFinding(mutant, original_assessment, image, shrink(image, pieces, shows, tries) or pieces[0])


def save_findings(results: Sequence[Result], options: argparse.Namespace) -> None:
    """Reduce findings, write a directory for each, and print the commands that reproduce them."""
    with FuzzWorker(options.plant) as worker:
        for result in results:
            place = fuzz_findings.write(shrink_finding(result, worker, options.subject), options.output)
            print(f"{result.assessment.kind.value}: python programs/fuzzing/fuzz.py --again {place}", flush=True)


def replay(place: Path, plant: str | None) -> int:
    """Read a finding again and return the exit code."""
    with FuzzWorker(plant) as worker:
        assessment = worker.assess(*fuzz_findings.load_again(place))
    print(f"{assessment.kind.value}: {assessment.detail}")
    return int(assessment.kind.is_finding)


def run_one(name: str, options: argparse.Namespace) -> int:
    """Draw and read one mutant, print the result, and return the exit code. A finding is written to a directory."""
    target, seed, number = parsed(name)
    with FuzzWorker(options.plant) as worker:
        (result,) = worker.group(target, seed, number, number + 1, options.subject)
    print(line(result))
    if result.assessment.kind.is_finding:
        save_findings([result], options)
    return int(result.assessment.kind.is_finding)


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return the exit code: 1 if there is a finding."""
    options = _options(arguments)
    if options.again is not None:
        return replay(options.again, options.plant)
    if options.mutant is not None:
        return run_one(options.mutant, options)
    targets = "".join(f" --target {target}" for target in options.target or ())
    print(
        f"again: python programs/fuzzing/fuzz.py --seed {options.seed}{targets}, with --mutants or --minutes",
        flush=True,
    )
    run = FuzzRun(options)
    run.run()
    summary = run.summary()
    save_findings([first for first, *_ in run.found.values()][:_MOST_SHRUNK], options)
    for kind in moving_tables.KINDS if options.moving else ():
        with tempfile.TemporaryDirectory() as place:
            print(kind, moving_tables.read_while_it_moves(kind, Path(place), options.moving), flush=True)
    names = [result.mutant.name for result in run.agreed]
    is_agreed = not names or fuzz_spark.is_agreed(names, options.subject)
    print(f"{run.table()}\n{summary}")
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
    parser.add_argument("--spark", type=int, default=0, help="of so many per target of files with other rows, ask it")
    parser.add_argument("--moving", type=int, default=0, help="besides, read tables that change, so many times (0)")
    parser.add_argument("--plant", help="module:function that breaks something first, to test the fuzzer")
    options = parser.parse_args(arguments)
    if options.mutants is None:
        options.mutants = 100_000 if options.minutes is None else sys.maxsize
    return options


if __name__ == "__main__":
    sys.exit(main())
