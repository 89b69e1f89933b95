"""Runs scenarios on engines: each table is built once, every engine reads it, and the reads are scored."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import pyarrow as pa

import harness
from harness.errors import EngineError, HarnessWarning, RequestError, UnsupportedError
from harness.storage.outputs import create_path_below
from harness.storage.threads import cached_property, phase
from harness.suite.cases import Cases, MetadataRead
from harness.suite.reader import ORACLE, ArrowStream, At, AtKind, HarnessReader, Reader, TableAt
from harness.suite.results import (
    Case,
    Check,
    EngineInfo,
    ListEntry,
    Outcome,
    Run,
    ScenarioInfo,
    first_match,
    make_case,
    unused_lines,
)
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import collect_evidence
from harness.suite.scenarios.features import MEANINGS, missing_features
from harness.suite.scenarios.loading import fixtures_directory
from harness.suite.scenarios.model import BuiltScenario, ResolvedExpectation, Scenario, TableCase
from harness.suite.scenarios.verifying import FAULTS, build_intact_copy
from harness.suite.scores import (
    Strictness,
    confirm_refusal,
    error_text,
    needs_intact_copy,
    read_info,
    read_text,
    score_count,
    score_read,
)
from harness.suite.suite_files import SuiteCase, load_case
from harness.suite.workers import Worker

_PACKAGES = ("pyarrow", "duckdb", "pyspark", "tzdata")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUnderTest:
    """An engine to run, with its name and options on the command line."""

    reader: Reader | HarnessReader
    argument: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLists:
    """Lists of skips and expected failures; see `harness.suite.results.read_list`."""

    skips: tuple[ListEntry, ...] = ()
    xfails: tuple[ListEntry, ...] = ()


def run(
    scenarios: Sequence[Scenario] | Cases,
    engines: Sequence[EngineUnderTest],
    *,
    lists: OutcomeLists | None = None,
    keep: Path | None = None,
    missing: Mapping[str, str] | None = None,
) -> Run:
    """Run every scenario on every engine.

    Args:
        scenarios: Scenarios, whose tables are built, or cases with existing tables.
        engines: The engines.
        lists: Skips and expected failures. None means that there are none.
        keep: The directory for tables that are kept, each in a directory with its scenario's name. None
            removes the tables.
        missing: Engines that cannot run, by name, with the reason. They only appear in reports.

    Raises:
        RequestError: Two engines have the same name, or a table to be kept already exists.
    """
    started = time.monotonic()
    lists = OutcomeLists() if lists is None else lists
    run_engines: list[_RunEngine] = []
    for engine in engines:
        reader = engine.reader
        info = EngineInfo(name=reader.name, version=reader.version(), argument=engine.argument, options=engine.options)
        if any(each.info.name == info.name for each in run_engines):
            raise RequestError(f"Cannot run: two engines are called {info.name!r}; give one of them another name")
        run_engines.append(_RunEngine(info, reader, reader.capabilities()))
    listed: list[tuple[Scenario | TableCase, ScenarioInfo]]
    meanings: Mapping[str, str]
    if isinstance(scenarios, Cases):
        meanings, not_run = scenarios.features, dict(scenarios.not_run)
        listed = [(case, case_info(case, scenarios.directory)) for case in scenarios.cases]
    else:
        meanings, not_run = MEANINGS, {}
        listed = [(scenario, _scenario_info(scenario)) for scenario in scenarios]
    infos = {about.name: about for _, about in listed}
    cases: list[Case] = []
    with ExitStack() as resources:
        # The tables break rules on purpose.
        resources.enter_context(warnings.catch_warnings(action="ignore", category=HarnessWarning))
        directory = resources.enter_context(_build_directory(keep))
        advance = resources.enter_context(phase("running", len(listed), "scenarios"))
        for scenario, about in listed:
            place = create_path_below(directory, about.name)
            if os.path.lexists(place):
                raise RequestError(
                    "Cannot keep a table: the path already exists; remove it, or name another directory",
                    file=str(place),
                )
            with phase(about.name):
                scenario_cases = list(_run_scenario(scenario, about, lists, place, run_engines))
            # the last case describes the built table
            infos |= {each.scenario.name: each.scenario for each in scenario_cases}
            cases += scenario_cases
            if keep is None:
                shutil.rmtree(place, ignore_errors=True)
                shutil.rmtree(place.with_name(f"{place.name} intact"), ignore_errors=True)
            advance(1)
    all_cases = tuple(cases)
    return Run(
        engines=tuple(each.info for each in run_engines),
        scenarios=tuple(infos.values()),
        cases=all_cases,
        missing={**(missing or {}), **not_run},
        unused_lines=unused_lines((*lists.skips, *lists.xfails), all_cases),
        environment=environment(),
        meanings={name: meanings[name] for info in infos.values() for name in info.features},
        seconds=time.monotonic() - started,
    )


def environment() -> dict[str, str]:
    """Return the versions that results may depend on, without the versions of the engines."""
    versions = {
        "harness": harness.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "time zone": "/".join(dict.fromkeys(time.tzname)),
    }
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@dataclass(frozen=True, slots=True)
class _RunEngine:
    """An engine with the properties that a run queries once."""

    info: EngineInfo
    reader: Reader | HarnessReader
    claims: frozenset[str] | None


def _run_scenario(
    scenario: Scenario | TableCase,
    info: ScenarioInfo,
    lists: OutcomeLists,
    place: Path,
    engines: Sequence[_RunEngine],
) -> Iterator[Case]:
    """Yield a scenario's case for every engine.

    The table is built in `place` for the first engine that does not skip it.
    """
    built: TableCase | Check | None = scenario if isinstance(scenario, TableCase) else None
    intact_copies = _IntactCopies(scenario, place.with_name(f"{place.name} intact"))
    for each in engines:
        if (line := first_match(lists.skips, each.info.name, info.name)) is not None:
            yield Case(scenario=info, engine=each.info, outcome=Outcome.SKIP, expected=line)
            continue
        if built is None:
            assert isinstance(scenario, Scenario)
            built = _build(scenario, place)
        if not isinstance(built, Check):
            info = replace(info, expected=tuple(map(read_info, built.expectations)))
        checks = (built,) if isinstance(built, Check) else tuple(_check_reads(each, built, intact_copies))
        yield make_case(info, each.info, checks, lists.xfails)


def _build(scenario: Scenario, place: Path) -> BuiltScenario | Check:
    """Return the built table, or an ERROR if the scenario itself is faulty."""
    try:
        built = build(scenario, place)
        absent = missing_features(collect_evidence(built))
    except FAULTS as error:
        return Check(
            number=0, read="", outcome=Outcome.ERROR, message=f"the scenario cannot be built: {error_text(error)}"
        )
    if absent:
        message = f"vacuous: the scenario declares {', '.join(absent)}, which does not occur in its table or reads"
        return Check(number=0, read="", outcome=Outcome.ERROR, message=message)
    return built


def _check_reads(engine: _RunEngine, built: TableCase, intact_copies: _IntactCopies) -> Iterator[Check]:
    reader = engine.reader
    strictness = Strictness.ORACLE if reader.name == ORACLE else Strictness.HARNESS
    # Other suites do not define harness's types and errors.
    measure = (
        strictness if isinstance(reader, HarnessReader) and isinstance(built, BuiltScenario) else Strictness.FOREIGN
    )
    unclaimed = set() if engine.claims is None else {*built.scenario.features} - engine.claims
    for each in built.expectations:
        if unclaimed:
            yield Check(
                number=each.number,
                read=read_text(each),
                outcome=Outcome.UNSUPPORTED,
                message=f"the engine does not claim {', '.join(sorted(unclaimed))}",
                policy=each.policy is not None,
            )
            continue
        started = time.monotonic()
        result = _read_result(reader, built, each)
        check = score_read(each, result, measure, engine.info.name, time.monotonic() - started)
        if not isinstance(reader, HarnessReader):
            check = intact_copies.confirm(check, each, reader)
        yield _with_count(check, reader, built, each) if isinstance(reader, Worker) else check


@dataclass(frozen=True)
class _IntactCopies:
    """The intact copy of a broken table. It shows whether a reader refuses the broken table because of the damage."""

    scenario: Scenario | TableCase
    place: Path

    def confirm(self, check: Check, expectation: ResolvedExpectation, reader: Reader) -> Check:
        """Return the check, or UNSUPPORTED if a refusal is correct but the intact copy is not read correctly."""
        if check.outcome is not Outcome.PASS or not needs_intact_copy(expectation) or self.built is None:
            return check
        intact_read = self.built.expectations[0]
        result = _read_result(reader, self.built, intact_read)
        return confirm_refusal(check, score_read(intact_read, result, Strictness.FOREIGN, reader.name))

    @cached_property
    def built(self) -> TableCase | None:
        """Return the intact copy, or None if there is none."""
        match self.scenario:
            case SuiteCase(intact_copy=Path() as path):
                return load_case(path)
            case Scenario():
                return build_intact_copy(self.scenario, self.place)
            case _:
                return None


def _with_count(check: Check, reader: Worker, built: TableCase, expectation: ResolvedExpectation) -> Check:
    """Return the check with the engine's own count scored.

    Counts are only scored for correct reads and for engines that cannot read rows. An engine may count by the metadata
    alone and ignore deletes that it applies to rows.
    """
    expected, has_rows = expectation.expected, reader.offers("read")
    is_other = isinstance(expectation, MetadataRead) or expectation.opening or expectation.at.changes is not None
    # the read returns deleted rows too, but counts exclude them
    is_other = is_other or "_deleted" in (expectation.columns or ())
    if is_other or not reader.offers("count"):
        return check
    if has_rows and (check.outcome is not Outcome.PASS or not isinstance(expected, pa.Table)):
        return check
    try:
        count = reader.count(table_at(built, expectation), where=expectation.where)
    except (EngineError, UnsupportedError) as error:
        if not has_rows:
            return score_read(expectation, error, Strictness.FOREIGN, reader.name)
        is_declined = isinstance(error, UnsupportedError)
        return check if is_declined else replace(check, outcome=Outcome.ERROR, message=f"count(*): {error_text(error)}")
    return score_count(check if has_rows else None, expectation, count, reader.name)


def _read_result(
    reader: Reader | HarnessReader, built: TableCase, expectation: ResolvedExpectation
) -> pa.Table | Exception:
    """Return the rows of a read, or the exception that the engine raised, which counts as its answer."""
    try:
        rows = _rows(reader, built, expectation)
        return rows if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_stream(rows).read_all()
    except Exception as error:
        return error


def _rows(reader: Reader | HarnessReader, built: TableCase, expectation: ResolvedExpectation) -> ArrowStream:
    if isinstance(expectation, MetadataRead):
        if not isinstance(reader, HarnessReader) or reader.name == ORACLE:
            raise UnsupportedError("only harness's own engines can read the protocol and metadata of a version")
        facts: ArrowStream = expectation.rows(built.address)
        return facts
    if isinstance(reader, HarnessReader):
        own_rows: ArrowStream = reader.answer(built.address, expectation)
        return own_rows
    if unknown := expectation.plan_arguments().keys() - {"columns", "where"} | expectation.opening.keys():
        raise UnsupportedError(f"only harness's own engines support reads with {', '.join(sorted(unknown))}")
    table, columns, where = table_at(built, expectation), expectation.columns, expectation.where
    schema = expectation.expected.schema if isinstance(expectation.expected, pa.Table) else None
    if (changes := expectation.at.changes) is not None:
        if not isinstance(reader, Worker):
            raise UnsupportedError("the reader does not support changes")
        changed: ArrowStream = reader.changes(table, changes, columns=columns, where=where, schema=schema)
        return changed
    if isinstance(reader, Worker):
        rows: ArrowStream = reader.read(table, columns=columns, where=where, schema=schema)
        return rows
    return reader.read(table, columns=columns, where=where)


def table_at(built: TableCase, expectation: ResolvedExpectation) -> TableAt:
    """Return the table of an expectation, with its metadata file if there is one."""
    path = None if built.metadata_path is None else str(built.metadata_path)
    kinds: tuple[AtKind, ...] = get_args(AtKind)
    values = ((kind, getattr(expectation.at, kind)) for kind in kinds)
    at = next((At(kind, value) for kind, value in values if value is not None), None)
    return TableAt(format=built.scenario.format, location=str(built.location), metadata_path=path, at=at)


def _scenario_info(scenario: Scenario) -> ScenarioInfo:
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
        argument=None if supplied else path,
        story="" if scenario.path is None else scenario.path.read_text("utf-8"),
    )


def case_info(case: TableCase, directory: Path) -> ScenarioInfo:
    """Return the description of a case for reports."""
    scenario = case.scenario
    return ScenarioInfo(
        name=scenario.name,
        title=scenario.title,
        format=scenario.format,
        clauses=scenario.clauses,
        features=scenario.features,
        file=None,
        reads=len(case.expectations),
        policies=sum(each.policy is not None for each in case.expectations),
        cases=str(directory),
    )


@contextmanager
def _build_directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="harness-run-") as directory:
            yield Path(directory)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"Cannot keep tables: {error.strerror}", file=str(keep)) from error
    yield keep.resolve()
