"""Runs scenarios on engines: each table is built once and read by every engine, and the reads are judged."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import harness
from harness.errors import HarnessError, RequestError, UnsupportedError
from harness.testing.conformance.judging import EngineAnswer, Strictness, described, judge, said
from harness.testing.conformance.own import ORACLE, ArrowStream, At, OwnReader, ReaderUnderTest, TableAt
from harness.testing.conformance.results import (
    Case,
    Check,
    EngineInfo,
    Expected,
    Outcome,
    Run,
    ScenarioInfo,
    as_expected,
    first_match,
    of_checks,
)
from harness.testing.scenarios.building import build
from harness.testing.scenarios.evidence import evidence_of
from harness.testing.scenarios.features import FEATURES, missing_features
from harness.testing.scenarios.loading import fixtures_directory
from harness.testing.scenarios.model import Built, ResolvedExpectation, Scenario

_PACKAGES = ("pyarrow", "duckdb", "pyspark", "tzdata")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderTest:
    """An engine to run, and how to ask for it again."""

    reader: ReaderUnderTest
    asked: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """Lists of skips and expected failures; see `harness.testing.conformance.results.read_list`."""

    skips: tuple[Expected, ...] = ()
    xfails: tuple[Expected, ...] = ()


def run(
    scenarios: Sequence[Scenario],
    engines: Sequence[UnderTest],
    *,
    lists: Lists | None = None,
    keep: Path | None = None,
    missing: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Run:
    """Every scenario on every engine.

    Args:
        lists: skips and expected failures; None: there are none.
        keep: where tables are built, each in a directory of its scenario's name, and stay; None: they do not stay.
        missing: engines that cannot run, by name, and why, for the reports.
        progress: is told which scenario is next, as `3/160 iceberg/deletes/own-commit`.

    Raises:
        RequestError: two engines have one name, or a table that was kept is in the way.
    """
    started = time.monotonic()
    known = Lists() if lists is None else lists
    tested = [_Tested.of(engine) for engine in engines]
    _check_names([each.info.name for each in tested])
    infos = {scenario.name: _info(scenario) for scenario in scenarios}
    cases: list[Case] = []
    with _directory(keep) as directory:
        for number, scenario in enumerate(scenarios, 1):
            progress(f"{number}/{len(scenarios)} {scenario.name}")
            place = _free(directory / scenario.name)
            cases += _Scene(scenario, infos[scenario.name], known, place).cases(tested)
            if keep is None:
                shutil.rmtree(place, ignore_errors=True)
    found = tuple(cases)
    return Run(
        engines=tuple(each.info for each in tested),
        scenarios=tuple(infos.values()),
        cases=found,
        missing=dict(missing or {}),
        unused=_unused(known, found),
        environment=environment(),
        meanings={name: FEATURES[name].meaning for scenario in scenarios for name in scenario.features},
        seconds=time.monotonic() - started,
    )


def environment() -> dict[str, str]:
    """Versions that results may depend on, beside the engines'."""
    found = {
        "harness": harness.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "time zone": "/".join(dict.fromkeys(time.tzname)),
    }
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class _Tested:
    """An engine with what is asked of it once."""

    info: EngineInfo
    reader: ReaderUnderTest
    claims: frozenset[str] | None

    @classmethod
    def of(cls, engine: UnderTest) -> _Tested:
        reader = engine.reader
        info = EngineInfo(name=reader.name, version=reader.version(), asked=engine.asked, arguments=engine.arguments)
        return cls(info, reader, reader.capabilities())

    @property
    def measure(self) -> Strictness:
        if not isinstance(self.reader, OwnReader):
            return Strictness.FOREIGN
        return Strictness.ORACLE if self.reader.name == ORACLE else Strictness.OWN

    def unclaimed(self, scenario: Scenario) -> list[str]:
        return [] if self.claims is None else sorted(set(scenario.features) - self.claims)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A scenario to be run in `place`."""

    scenario: Scenario
    info: ScenarioInfo
    lists: Lists
    place: Path

    def cases(self, engines: Sequence[_Tested]) -> list[Case]:
        skipped = {each.info.name: self._line(self.lists.skips, each) for each in engines}
        built: Built | Check | None = None
        found = []
        for each in engines:
            if (line := skipped[each.info.name]) is not None:
                found.append(Case(scenario=self.info, engine=each.info, outcome=Outcome.SKIP, expected=line))
                continue
            built = self._build() if built is None else built
            found.append(self._case(each, (built,) if isinstance(built, Check) else self._checks(each, built)))
        return found

    def _line(self, lines: tuple[Expected, ...], engine: _Tested) -> Expected | None:
        return first_match(lines, engine.info.name, self.scenario.name)

    def _case(self, engine: _Tested, checks: tuple[Check, ...]) -> Case:
        line = self._line(self.lists.xfails, engine)
        outcome = of_checks(checks)
        return Case(
            scenario=self.info,
            engine=engine.info,
            outcome=outcome if line is None else as_expected(outcome),
            checks=checks,
            expected=line,
        )

    def _build(self) -> Built | Check:
        """The table; or the fault of the scenario itself, which is no engine's."""
        try:
            built = build(self.scenario, self.place)
            absent = missing_features(evidence_of(built))
        except (HarnessError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
            return Check(
                number=0, read="", outcome=Outcome.ERROR, message=f"the scenario cannot be built: {said(error)}"
            )
        if absent:
            message = f"vacuous: the scenario declares {', '.join(absent)}, which does not occur in its table or reads"
            return Check(number=0, read="", outcome=Outcome.ERROR, message=message)
        return built

    def _checks(self, engine: _Tested, built: Built) -> tuple[Check, ...]:
        if unclaimed := engine.unclaimed(self.scenario):
            message = f"the engine does not claim {', '.join(unclaimed)}"
            return tuple(
                Check(number=each.number, read=described(each), outcome=Outcome.UNSUPPORTED, message=message)
                for each in built.expectations
            )
        return tuple(
            judge(each, _answer(engine.reader, built, each), engine.measure, engine.info.name)
            for each in built.expectations
        )


def _answer(reader: ReaderUnderTest, built: Built, expectation: ResolvedExpectation) -> EngineAnswer:
    started = time.monotonic()
    result: pa.Table | Exception
    try:
        rows = _rows(reader, built, expectation)
        result = rows if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_stream(rows).read_all()
    except Exception as error:  # whatever an engine raises is its answer
        result = error
    return EngineAnswer(result, time.monotonic() - started)


def _rows(reader: ReaderUnderTest, built: Built, expectation: ResolvedExpectation) -> ArrowStream:
    versions = expectation.at.changes
    if isinstance(reader, OwnReader):
        # Where the directory tells the current metadata file, harness has to find it.
        path = None if built.address == str(built.location) else built.address
        if versions is not None:
            changes: ArrowStream = reader.read_changes(
                built.address, versions, expectation.columns, expectation.opening
            )
            return changes
        table = table_at(built, expectation, path)
        own: ArrowStream = reader.read(
            table, columns=expectation.columns, where=expectation.where, opening=expectation.opening
        )
        return own
    if expectation.opening:
        raise UnsupportedError("reads by a catalog's answer are asked of harness's own engines only")
    if versions is not None:
        raise UnsupportedError("reads of change data are asked of harness's own engines only")
    path = None if built.metadata_path is None else str(built.metadata_path)
    table = table_at(built, expectation, path)
    return reader.read(table, columns=expectation.columns, where=expectation.where)


def table_at(built: Built, expectation: ResolvedExpectation, metadata_path: str | None) -> TableAt:
    """The table of an expectation, with a metadata file or found by its place."""
    place = str(built.location)
    return TableAt(format=built.scenario.format, location=place, metadata_path=metadata_path, at=_at(expectation))


def _at(expectation: ResolvedExpectation) -> At | None:
    at = expectation.at
    if at.snapshot_id is not None:
        return At("snapshot_id", at.snapshot_id)
    if at.version is not None:
        return At("version", at.version)
    if at.timestamp_ms is not None:
        return At("timestamp_ms", at.timestamp_ms)
    return None if at.ref is None else At("ref", at.ref)


def _info(scenario: Scenario) -> ScenarioInfo:
    supplied = scenario.path == fixtures_directory() / f"{scenario.name}.yaml"
    path = None if scenario.path is None else str(scenario.path)
    return ScenarioInfo(
        name=scenario.name,
        title=scenario.title,
        format=scenario.format,
        clauses=scenario.clauses,
        features=scenario.features,
        file=f"fixtures/{scenario.name}.yaml" if supplied else path,
        reads=len(scenario.expectations),
        asked=None if supplied else path,
    )


def _free(place: Path) -> Path:
    if place.exists():
        raise RequestError(
            "Cannot keep a table where something is: remove it, or name another directory", file=str(place)
        )
    return place


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"Cannot run: two engines are called {name!r}; results are told apart by that name")


def _unused(lists: Lists, cases: Sequence[Case]) -> tuple[Expected, ...]:
    lines = (*lists.skips, *lists.xfails)
    return tuple(
        line for line in lines if not any(line.matches(case.engine.name, case.scenario.name) for case in cases)
    )


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="harness-run-") as directory:
            yield Path(directory)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"Cannot keep tables: {error.strerror}", file=str(keep)) from error
    yield keep.resolve()
