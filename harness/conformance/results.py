"""A run of the suite as plain values: what every report is made from."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.conformance.outcomes import Check, Expected, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine that the suite was run on.

    name: what it calls itself. asked: by what name it was asked for. arguments: what else the command line needs for
        it, such as `--python`.
    """

    name: str
    version: str
    asked: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioInfo:
    """What reports say of a scenario; the fields are those of `harness.testing.scenarios.model.Scenario`.

    file: its file, as a path to show; None: it has none. reads: how many expectations it has.
    asked: what the command line calls it; None: its name.
    """

    name: str
    title: str
    format: str
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    file: str | None
    reads: int
    asked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One scenario on one engine.

    expected: the line of a list that applies, None: none does. checks: empty for a SKIP.
    """

    scenario: ScenarioInfo
    engine: EngineInfo
    outcome: Outcome
    checks: tuple[Check, ...] = ()
    expected: Expected | None = None

    @property
    def id(self) -> str:
        """`engine::scenario`, as lists of expected failures say it."""
        return f"{self.engine.name}::{self.scenario.name}"

    @property
    def seconds(self) -> float:
        """That its reads took."""
        return sum(check.seconds for check in self.checks)

    @property
    def command(self) -> str:
        """What shows it again, and leaves its table in `repro`."""
        engine = ["--engine", self.engine.asked, *self.engine.arguments]
        scenario = self.scenario.name if self.scenario.asked is None else self.scenario.asked
        return shlex.join(["harness", "run", *engine, "--scenario", scenario, "--keep", "repro"])


@dataclass(frozen=True, slots=True)
class Share:
    """How many of some reads were held against what they must give."""

    verified: int
    reads: int

    @property
    def percent(self) -> float:
        """Of 100; 0 if there are no reads."""
        return 100 * self.verified / self.reads if self.reads else 0.0

    def __str__(self) -> str:
        return f"{self.verified:,} of {self.reads:,} reads ({self.percent:.1f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All that a run found.

    missing: engines that could not run, by name, and why. unused: lines of lists that no scenario and engine of this
        run match. environment: versions, and whatever else results may depend on. meanings: of features, a line each.
    """

    engines: tuple[EngineInfo, ...]
    scenarios: tuple[ScenarioInfo, ...]
    cases: tuple[Case, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[Expected, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def counts(self, engine: EngineInfo | None = None) -> Counter[Outcome]:
        """How many scenarios came to what, on one engine or on all."""
        return Counter(case.outcome for case in self.cases if engine is None or case.engine is engine)

    def share(self, engine: EngineInfo) -> Share:
        """How many reads of all scenarios of this run the engine was judged by."""
        checks = [check for case in self.cases if case.engine is engine for check in case.checks]
        return Share(sum(check.verified for check in checks), sum(scenario.reads for scenario in self.scenarios))

    def features(self) -> tuple[str, ...]:
        """The features of the scenarios, each once, in alphabetical order."""
        return tuple(sorted({feature for scenario in self.scenarios for feature in scenario.features}))

    def of_feature(self, feature: str, engine: EngineInfo) -> tuple[Case, ...]:
        """The cases of one cell of the matrix."""
        return tuple(case for case in self.cases if case.engine is engine and feature in case.scenario.features)

    def passed(self) -> bool:
        """Whether nothing is FAIL."""
        return not self.counts()[Outcome.FAIL]

    def unread(self) -> tuple[Case, ...]:
        """Of each engine on which every scenario that was run is ERROR, the first: it has shown nothing."""
        ran = [case for case in self.cases if case.outcome is not Outcome.SKIP]
        of_each = ([case for case in ran if case.engine is engine] for engine in self.engines)
        return tuple(cases[0] for cases in of_each if cases and all(c.outcome is Outcome.ERROR for c in cases))

    def passed_strictly(self) -> bool:
        """Whether nothing is FAIL, ERROR or XPASS."""
        counts = self.counts()
        return not (counts[Outcome.FAIL] or counts[Outcome.ERROR] or counts[Outcome.XPASS])
