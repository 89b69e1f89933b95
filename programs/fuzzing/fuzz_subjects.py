"""Tables to mutate: those of scenarios, and small ones of the corpus.

A subject is in its own directory, which only one process writes to. Its files are kept in memory, so that a mutant
writes only its changes, and the table is restored afterwards.
"""

import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import fixtures_directory, load
from harness.suite.scenarios.model import BuiltScenario, ResolvedChanges, Scenario

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("HARNESS_CORPUS") or ROOT.parent / "shared" / "corpus")
LOCATION = "file:///harness-fuzz/table"
"""The recorded location of Iceberg tables, so that the bytes are the same wherever they are built."""

Image = dict[str, bytes]
"""The files of a table by path relative to its directory."""

Changes = Mapping[str, bytes | None]
"""Changed files of an image. None means deleted."""

_MOST_ROWS, _MOST_BYTES, _MOST_FILES = 2000, 1_000_000, 120
_ticks = itertools.count(1)


@dataclass(frozen=True, slots=True)
class SubjectRead:
    """One read of a subject. `at` has arguments of `ResolvedSelector`; `changes` is the range of a read of changes."""

    at: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    where: str | None = None
    changes: ResolvedChanges | None = None

    def __str__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self.at.items()]
        parts += [f"{n}={v!r}" for n in ("columns", "where", "changes") if (v := getattr(self, n)) is not None]
        return ", ".join(parts) or "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A table on disk.

    Attributes:
        address: The address to open.
        times: Modification times of its files in nanoseconds.
    """

    name: str
    directory: Path
    address: str
    reads: tuple[SubjectRead, ...]
    image: Image
    times: Mapping[str, int]

    def put(self, changes: Changes) -> None:
        """Write changed files, each with a new modification time, because readers may cache files by it."""
        for name, data in changes.items():
            path = self.directory / name
            path.unlink(missing_ok=True)
            if data is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                time_ns = self.times.get(name, 1_700_000_000_000_000_000) + 1000 * (next(_ticks) % 900)
                os.utime(path, ns=(time_ns, time_ns))

    @contextmanager
    def changed(self, changes: Changes, before: Changes | None = None) -> Iterator[None]:
        """While the block runs, change files. Afterwards, restore `before`, or the original table if it is None."""
        self.put(changes)
        try:
            yield
        finally:
            self.put({name: (self.image if before is None else before).get(name) for name in changes})


def names() -> tuple[str, ...]:
    """Return all subjects in a fixed order: scenarios by path below `fixtures/`, then `corpus/...`."""
    root = fixtures_directory()
    scenarios = sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))
    return (*scenarios, *(f"corpus/{name}" for name in _cases()))


def make(name: str, directory: Path) -> Subject:
    """Return the subject of a name, in an empty directory."""
    shutil.rmtree(directory, ignore_errors=True)
    if name.startswith("corpus/"):
        return _copied(name, directory)
    return from_scenario(load(fixtures_directory() / f"{name}.yaml", name), directory)


def from_scenario(scenario: Scenario, directory: Path) -> Subject:
    """Return the table of a scenario, with the reads in it, and a read of all rows."""
    built = build(placed(scenario), directory)
    reads = [SubjectRead(), *(_read(built, number) for number in range(len(built.expectations)))]
    distinct = tuple(read for i, read in enumerate(reads) if read not in reads[:i])
    return _subject(scenario.name, built.location, built.address, distinct)


def placed(scenario: Scenario) -> Scenario:
    """Return the scenario with a recorded location that does not depend on the build directory."""
    if scenario.format == "delta" or "recorded-location" in scenario.table:
        return scenario
    return replace(scenario, table={**scenario.table, "recorded-location": LOCATION})


def _read(built: BuiltScenario, number: int) -> SubjectRead:
    expectation = built.expectations[number]
    at = expectation.at
    return SubjectRead(at.arguments(), expectation.columns, expectation.where, at.changes)


def _copied(name: str, directory: Path) -> Subject:
    case = _cases()[name.removeprefix("corpus/")]
    place = directory / "table"
    shutil.copytree(CORPUS / case["path"], place)
    metadata = case.get("metadata_file")
    return _subject(name, place, str(place / metadata) if metadata else str(place), (SubjectRead(),))


def _subject(name: str, place: Path, address: str, reads: tuple[SubjectRead, ...]) -> Subject:
    files = {path.relative_to(place).as_posix(): path for path in sorted(place.rglob("*")) if path.is_file()}
    return Subject(
        name=name,
        directory=place,
        address=address,
        reads=reads,
        image={key: path.read_bytes() for key, path in files.items()},
        times={key: path.stat().st_mtime_ns for key, path in files.items()},
    )


@cache
def _cases() -> dict[str, Any]:
    """Return the small cases of the corpus by id, or an empty dict if there is no corpus."""
    index = CORPUS / "cases.json"
    if not index.is_file():
        return {}
    cases = {case["id"]: case for case in json.loads(index.read_text("utf-8"))}
    return {name: case for name, case in sorted(cases.items()) if _is_small(case)}


def _is_small(case: dict[str, Any]) -> bool:
    sizes = [path.stat().st_size for path in (CORPUS / case["path"]).rglob("*") if path.is_file()]
    has_few_rows = case["expected"].get("rows", 0) <= _MOST_ROWS
    return has_few_rows and sum(sizes) <= _MOST_BYTES and len(sizes) <= _MOST_FILES
