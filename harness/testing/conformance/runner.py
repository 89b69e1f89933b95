"""Runs scenarios on engines: each table is built once and read by every engine, and the reads are judged."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import pyarrow as pa

import harness
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError
from harness.storage.threads import cached_property, phase
from harness.testing.conformance.judging import DECLINED, Strictness, described, judge, said, told
from harness.testing.conformance.own import ORACLE, ArrowStream, At, AtKind, OwnReader, ReaderUnderTest, TableAt
from harness.testing.conformance.results import (
    AS_LISTED,
    Case,
    Check,
    EngineInfo,
    Expected,
    Outcome,
    Run,
    ScenarioInfo,
    first_match,
    of_checks,
)
from harness.testing.conformance.workers import Worker
from harness.testing.scenarios.building import build
from harness.testing.scenarios.evidence import evidence_of
from harness.testing.scenarios.features import MEANINGS, missing_features
from harness.testing.scenarios.loading import fixtures_directory
from harness.testing.scenarios.model import (
    Built,
    Expectation,
    ExpectedError,
    ResolvedExpectation,
    Scenario,
    TableCase,
)

_PACKAGES = ("pyarrow", "duckdb", "pyspark", "tzdata")
_FAULTS = (HarnessError, ValueError, TypeError, KeyError, pa.ArrowException)
"""Errors of scenarios that cannot be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderTest:
    """An engine to run, and how to ask for it again."""

    reader: ReaderUnderTest | OwnReader
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
) -> Run:
    """Every scenario on every engine.

    Args:
        lists: skips and expected failures; None: there are none.
        keep: where tables are built, each in a directory of its scenario's name, and stay; None: they do not stay.
        missing: engines that cannot run, by name, and why, for the reports.

    Raises:
        RequestError: two engines have one name, or a table that was kept is in the way.
    """
    started = time.monotonic()
    known = Lists() if lists is None else lists
    tested: list[_Tested] = []
    for given in engines:
        reader = given.reader
        info = EngineInfo(name=reader.name, version=reader.version(), asked=given.asked, arguments=given.arguments)
        if any(each.info.name == info.name for each in tested):
            raise RequestError(f"Cannot run: two engines are called {info.name!r}; results are told apart by that name")
        tested.append(_Tested(info, reader, reader.capabilities()))
    infos = {scenario.name: _info(scenario) for scenario in scenarios}
    cases: list[Case] = []
    with _directory(keep) as directory, phase("running", len(scenarios), "scenarios") as advance:
        for scenario in scenarios:
            place = directory / scenario.name
            if place.exists():
                raise RequestError(
                    "Cannot keep a table where something is: remove it, or name another directory", file=str(place)
                )
            with phase(scenario.name):
                found_here = list(_cases(scenario, infos[scenario.name], known, place, tested))
            infos |= {each.scenario.name: each.scenario for each in found_here}  # the last one knows the table
            cases += found_here
            if keep is None:
                shutil.rmtree(place, ignore_errors=True)
                shutil.rmtree(place.with_name(f"{place.name} intact"), ignore_errors=True)
            advance(1)
    found = tuple(cases)
    return Run(
        engines=tuple(each.info for each in tested),
        scenarios=tuple(infos.values()),
        cases=found,
        missing=dict(missing or {}),
        unused=tuple(
            line
            for line in (*known.skips, *known.xfails)
            if not any(line.matches(case.engine.name, case.scenario.name) for case in found)
        ),
        environment=environment(),
        meanings={name: MEANINGS[name] for scenario in scenarios for name in scenario.features},
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
    reader: ReaderUnderTest | OwnReader
    claims: frozenset[str] | None


def _cases(
    scenario: Scenario, info: ScenarioInfo, lists: Lists, place: Path, engines: Sequence[_Tested]
) -> Iterator[Case]:
    """A scenario on every engine; its table is made in `place` for the first engine that does not skip it."""
    built: Built | Check | None = None
    twins = _Twins(scenario, place.with_name(f"{place.name} intact"))
    for each in engines:
        if (line := first_match(lists.skips, each.info.name, scenario.name)) is not None:
            yield Case(scenario=info, engine=each.info, outcome=Outcome.SKIP, expected=line)
            continue
        if built is None:
            built = _built(scenario, place)
            if isinstance(built, Built):
                info = replace(info, expected=tuple(map(told, built.expectations)))
        checks = (built,) if isinstance(built, Check) else tuple(_checks(each, built, twins))
        outcome, line = of_checks(checks), first_match(lists.xfails, each.info.name, scenario.name)
        shown = outcome if line is None else AS_LISTED.get(outcome, outcome)
        yield Case(scenario=info, engine=each.info, outcome=shown, checks=checks, expected=line)


def _built(scenario: Scenario, place: Path) -> Built | Check:
    """The table; or the fault of the scenario itself, which is no engine's."""
    try:
        built = build(scenario, place)
        absent = missing_features(evidence_of(built))
    except _FAULTS as error:
        return Check(number=0, read="", outcome=Outcome.ERROR, message=f"the scenario cannot be built: {said(error)}")
    if absent:
        message = f"vacuous: the scenario declares {', '.join(absent)}, which does not occur in its table or reads"
        return Check(number=0, read="", outcome=Outcome.ERROR, message=message)
    return built


def _checks(engine: _Tested, built: TableCase, twins: _Twins) -> Iterator[Check]:
    reader = engine.reader
    own = Strictness.ORACLE if reader.name == ORACLE else Strictness.OWN
    measure = own if isinstance(reader, OwnReader) else Strictness.FOREIGN
    unclaimed = set() if engine.claims is None else {*built.scenario.features} - engine.claims
    for each in built.expectations:
        unfiltered = each.where is not None and isinstance(reader, Worker) and not reader.takes_filters
        if unclaimed or unfiltered:
            claimed = f"the engine does not claim {', '.join(sorted(unclaimed))}"
            yield Check(
                number=each.number,
                read=described(each),
                outcome=Outcome.UNSUPPORTED,
                message=claimed if unclaimed else "the engine takes no filters",
                policy=each.policy is not None,
                unfiltered=unfiltered,
            )
            continue
        started = time.monotonic()
        result = _answer(reader, built, each)
        check = judge(each, result, measure, engine.info.name, time.monotonic() - started)
        if not isinstance(reader, OwnReader):
            check = twins.judged(check, each, reader)
        yield _counted(check, reader, built, each) if isinstance(reader, Worker) else check


_BREAKS = re.compile("edit(-.*)?|break")
"""Operations of a history that write what no writer writes."""


@dataclass(frozen=True)
class _Twins:
    """The intact twin of a broken table: the same history without its edits and damage.

    A refusal of the broken table says nothing of a reader that refuses the intact one too.
    """

    scenario: Scenario
    place: Path

    def judged(self, check: Check, expectation: ResolvedExpectation, reader: ReaderUnderTest) -> Check:
        """The check of a right refusal, if the reader reads the twin rightly; else UNSUPPORTED."""
        error = expectation.expected
        if check.outcome is not Outcome.PASS or not isinstance(error, ExpectedError) or error.kind in DECLINED:
            return check
        if self.built is None:
            return check
        twin = self.built.expectations[0]
        beside = judge(twin, _answer(reader, self.built, twin), Strictness.FOREIGN, reader.name)
        if beside.outcome is Outcome.PASS:
            return check
        message = f"the intact table is not read rightly either: {beside.message}"
        return replace(check, outcome=Outcome.UNSUPPORTED, message=message)

    @cached_property
    def built(self) -> Built | None:
        """The twin, which is to give harness's rows; None: nothing was damaged, or harness does not read the rest."""
        history = tuple(each for each in self.scenario.history if not any(map(_BREAKS.fullmatch, each)))
        if history == self.scenario.history:
            return None
        try:
            whole = replace(self.scenario, history=history, expectations=(Expectation(),))
            twin = build(whole, self.place)
            rows = OwnReader("duckdb").answer(twin.address, twin.expectations[0])
        except _FAULTS:
            return None
        return replace(twin, expectations=(replace(twin.expectations[0], expected=rows),))


def _counted(check: Check, reader: Worker, built: TableCase, expectation: ResolvedExpectation) -> Check:
    """The check of a read that is right, or that the engine has no operation for, with the engine's own count judged.

    An engine may count by the metadata alone, and forget deletes that it applies to rows.
    """
    expected, has_rows = expectation.expected, reader.offers("read")
    if not reader.offers("count") or expectation.opening or expectation.at.changes is not None:
        return check
    if has_rows and (check.outcome is not Outcome.PASS or not isinstance(expected, pa.Table)):
        return check
    try:
        count = reader.count(table_at(built, expectation), where=expectation.where)
    except (EngineError, UnsupportedError) as error:
        if not has_rows:
            return judge(expectation, error, Strictness.FOREIGN, reader.name)
        is_declined = isinstance(error, UnsupportedError)
        return check if is_declined else replace(check, outcome=Outcome.ERROR, message=f"count(*): {said(error)}")
    if not isinstance(expected, pa.Table):
        return judge(expectation, pa.table({"": pa.nulls(count)}), Strictness.FOREIGN, reader.name)
    if count == expected.num_rows:
        return replace(check, outcome=Outcome.PASS, message=check.message if has_rows else f"counted {count:,}")
    message = f"count(*) is {count:,}, and the rows are {expected.num_rows:,}"
    return replace(check, outcome=Outcome.FAIL, message=message, wrong_rows=True)


def _answer(
    reader: ReaderUnderTest | OwnReader, built: TableCase, expectation: ResolvedExpectation
) -> pa.Table | Exception:
    """The rows of a read; or whatever the engine raises, which is its answer."""
    try:
        rows = _rows(reader, built, expectation)
        return rows if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_stream(rows).read_all()
    except Exception as error:
        return error


def _rows(reader: ReaderUnderTest | OwnReader, built: TableCase, expectation: ResolvedExpectation) -> ArrowStream:
    if isinstance(reader, OwnReader):
        own: ArrowStream = reader.answer(built.address, expectation)
        return own
    if unknown := expectation.asked().keys() - {"columns", "where"} | expectation.opening.keys():
        raise UnsupportedError(f"reads by {', '.join(sorted(unknown))} are asked of harness's own engines only")
    table, columns, where = table_at(built, expectation), expectation.columns, expectation.where
    wanted = expectation.expected.schema if isinstance(expectation.expected, pa.Table) else None
    if expectation.at.changes is not None:
        if not isinstance(reader, Worker) or where is not None:
            raise UnsupportedError("filtered reads of change data are asked of harness's own engines only")
        changes: ArrowStream = reader.changes(table, *expectation.at.changes, columns=columns, wanted=wanted)
        return changes
    if isinstance(reader, Worker):
        rows: ArrowStream = reader.read(table, columns=columns, where=where, wanted=wanted)
        return rows
    return reader.read(table, columns=columns, where=where)


def table_at(built: TableCase, expectation: ResolvedExpectation) -> TableAt:
    """The table of an expectation, with its metadata file if there is one."""
    path = None if built.metadata_path is None else str(built.metadata_path)
    kinds: tuple[AtKind, ...] = get_args(AtKind)
    given = ((kind, getattr(expectation.at, kind)) for kind in kinds)
    at = next((At(kind, value) for kind, value in given if value is not None), None)
    return TableAt(format=built.scenario.format, location=str(built.location), metadata_path=path, at=at)


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
        policies=sum(each.policy is not None for each in scenario.expectations),
        asked=None if supplied else path,
        story="" if scenario.path is None else scenario.path.read_text("utf-8"),
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
