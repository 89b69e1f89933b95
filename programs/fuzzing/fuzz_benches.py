"""Test benches: subjects that are prepared for mutation, and the assessment of their mutants."""

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import fuzz_answers
import fuzz_subjects
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_answers import Answers
from fuzz_assessment import Assessment, OutcomeKind, assess_read, assess_untrusted
from fuzz_limits import MOST_BYTES, MemoryMeter
from fuzz_log_views import other_views
from fuzz_mutants import Mutant, draw, draw_read, fitting, order
from fuzz_reading import Leak, Outcome, Refusal, by_duckdb, by_oracle, checked, description
from fuzz_subjects import Changes, Image, Subject, SubjectRead


class WatchedAccess(Protocol):
    """An observer of opened files and sockets, like `fuzz_limits.SocketWatch`."""

    opened: set[str] | None
    sockets: int


class Bench:
    """A subject on disk, and the outcomes of reads before anything is changed.

    Args:
        subject: The subject.
        watch: Observes the files that a read opens.
        before_oracle: A function that is called before the oracle reads.
    """

    def __init__(self, subject: Subject, watch: WatchedAccess, before_oracle: Callable[[], object]) -> None:
        self.subject = subject
        self._watch = watch
        self._before_oracle = before_oracle
        self._originals: dict[str, tuple[Outcome, list[str]]] = {}
        self._answers: dict[str, Answers] = {}
        self._answered: dict[tuple[str, str], Outcome] = {}

    def image(self, target: str) -> Image:
        """Return the files that mutants of a target change: the table's files, or answers about it."""
        return self._answers_of(target).image if target in fuzz_answers.KINDS else self.subject.image

    def files(self, target: str, read: SubjectRead) -> list[str]:
        """Return the files of `image` that affect a read."""
        _, files = self.original(read)
        return self._answers_of(target).files(read) if target in fuzz_answers.KINDS else files

    def original(self, read: SubjectRead) -> tuple[Outcome, list[str]]:
        """Return the outcome of a read, and the files that affect it: the opened files, and all files outside the
        metadata.
        """
        key = str(read)
        if key not in self._originals:
            opened = self._watch.opened = set()
            try:
                outcome = by_duckdb(self.subject.address, read)
            finally:
                self._watch.opened = None
            prefix = f"{self.subject.directory}/"
            opened_names = {path.removeprefix(prefix) for path in opened}
            of_metadata = ("metadata/", "_delta_log/")
            files = [name for name in self.subject.image if name in opened_names or not name.startswith(of_metadata)]
            self._originals[key] = (outcome, files)
        return self._originals[key]

    def assess(self, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess the table with these changes. The table is restored afterwards."""
        target = fuzz_answers.target_of(changes)
        if target is not None:
            return self._assess_answers(target, changes, read)
        original, _ = self.original(read)
        with self.subject.changed(changes):
            assessment = self._assess(original, changes, read)
            if not assessment.kind.is_finding:
                assessment = self._untrusted(read) or assessment
        return _or_neighbor(assessment, original, lambda: by_duckdb(self.subject.address, read))

    def _untrusted(self, read: SubjectRead) -> Assessment | None:
        """Assess the table as untrusted: filters skip by recorded statistics, deletes do not."""
        if read.where is None:
            return None
        reads = [by_duckdb(self.subject.address, read, prune, untrusted=True) for prune in ("files", "off")]
        return assess_untrusted(*reads)

    def _answers_of(self, target: str) -> Answers:
        if target not in self._answers:
            self._answers[target] = fuzz_answers.KINDS[target](self.subject)
        return self._answers[target]

    def _assess_answers(self, target: str, changes: Changes, read: SubjectRead) -> Assessment:
        """Assess answers with these changes. The outcome without changes must be the same afterwards."""
        answers, key = self._answers_of(target), (target, str(read))
        if key not in self._answered:
            self._answered[key] = answers.read({}, read)
        before = self._answered[key]
        outcome, excess = self._run_watched(lambda: answers.read(changes, read))
        assessment = excess or answers.assessment(outcome, before, changes, read)
        return _or_neighbor(assessment, before, lambda: answers.read({}, read))

    def _run_watched(self, run_read: Callable[[], Outcome]) -> tuple[Outcome, Assessment | None]:
        """Return an outcome, and an assessment if the read opened a socket or used too much memory."""
        sockets = self._watch.sockets
        with MemoryMeter() as memory:
            outcome = run_read()
        if self._watch.sockets > sockets:
            return outcome, Assessment(OutcomeKind.SOCKET, str(outcome), "socket")
        if memory.bytes > MOST_BYTES:
            kind = outcome.text.partition(":")[0] if isinstance(outcome, Refusal) else type(outcome).__name__
            return outcome, Assessment(
                OutcomeKind.MEMORY, f"{memory.bytes >> 20} MiB, then {outcome}", f"memory {kind}"
            )
        return outcome, None

    def _assess(self, original: Outcome, changes: Changes, read: SubjectRead) -> Assessment:
        def run_read() -> Outcome:
            address = self.subject.address
            outcomes = by_duckdb(address, read), description(address), checked(address)
            return next((each for each in outcomes if isinstance(each, Leak)), outcomes[0])

        outcome, excess = self._run_watched(run_read)
        return excess or assess_read(
            outcome, original, lambda: self._oracle(changes, read), lambda: self._careful(changes, read)
        )

    def _careful(self, changes: Changes, read: SubjectRead) -> Iterator[Outcome]:
        """Yield DuckDB's outcome without the table's statistics, and then also without those in data files."""
        yield by_duckdb(self.subject.address, read, "off")
        plain = {
            name: plain_parquet(data) for name, data in changes.items() if data is not None and _is_data(name, data)
        }
        if plain:
            with self.subject.changed(plain, changes):
                yield by_duckdb(self.subject.address, read, "off")

    def _oracle(self, changes: Changes, read: SubjectRead) -> Iterator[Outcome]:
        """Yield the oracle's outcome, and its outcomes if it must use other parts of a Delta log.

        By default it replays from the first remaining commit, and ignores files that repeat commits.
        """
        self._before_oracle()
        yield by_oracle(self.subject.address, read)
        now = {name: data for name, data in {**self.subject.image, **changes}.items() if data is not None}
        for view in other_views(now, read.at.get("version")):
            with self.subject.changed(view, now):
                yield by_oracle(self.subject.address, read)


def _or_neighbor(assessment: Assessment, before: Outcome, run_read: Callable[[], Outcome]) -> Assessment:
    """Return the assessment, or a finding if the restored table no longer has the original outcome."""
    if not assessment.kind.is_finding and (after := run_read()) != before:
        return Assessment(OutcomeKind.NEIGHBOR, f"before: {before}; after the mutant: {after}", "neighbour")
    return assessment


def plain_parquet(data: bytes) -> bytes:
    """Rewrite a Parquet file as Arrow reads it, without statistics.

    DuckDB trusts the statistics of column chunks, for example that all values are null. Timestamps in INT96 stay INT96,
    because they would have another meaning as other types.
    """
    out = io.BytesIO()
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        old = any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema)))
        pq.write_table(file.read(), out, write_statistics=False, use_deprecated_int96_timestamps=old)
    except (pa.ArrowException, OSError, ValueError):
        return data
    return out.getvalue()


def _is_data(name: str, data: bytes) -> bool:
    return data[:4] == b"PAR1" and not name.startswith("_delta_log/")


class Benches:
    """A single bench at a time.

    Args:
        place: A directory that no other process writes to.
        watch: As for `Bench`.
        before_oracle: As for `Bench`.
    """

    def __init__(self, place: Path, watch: WatchedAccess, before_oracle: Callable[[], object]) -> None:
        self._place = place
        self._watch = watch
        self._before_oracle = before_oracle
        self._names = fuzz_subjects.names()
        self._bench: Bench | None = None
        self._fits: dict[tuple[str, str], bool] = {}

    def drawn(self, target: str, seed: int, number: int, only: str | None) -> tuple[Mutant, Bench]:
        """Return the mutant with a number, and the bench with its subject.

        `only` is the only subject to use; None for all.
        """
        bench = self._fitting(target, seed, number, only)
        read = draw_read(target, seed, number, bench.subject)
        files = bench.files(target, read)
        subject = replace(bench.subject, image=bench.image(target))
        if not fitting(target, subject, files):
            files = list(subject.image)
        return draw(target, seed, number, subject, files, read), bench

    def on(self, name: str) -> Bench:
        """Return the bench with the subject of a name."""
        if self._bench is None or self._bench.subject.name != name:
            self._bench = Bench(fuzz_subjects.make(name, self._place / "subject"), self._watch, self._before_oracle)
        return self._bench

    def _fitting(self, target: str, seed: int, number: int, only: str | None) -> Bench:
        names = self._names if only is None else [only]
        for name in order(target, seed, number, names):
            if self._fits.get((target, name), True):
                bench = self.on(name)
                image = bench.image(target)
                fits = self._fits[target, name] = bool(
                    fitting(target, replace(bench.subject, image=image), list(image))
                )
                if fits:
                    return bench
        raise SystemExit(f"no subject has a file for {target}")
