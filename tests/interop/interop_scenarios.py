"""Scenarios whose tables harness builds and a reference implementation reads: both return the same rows, or both
refuse.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from drawn.agreement import scenario_of
from drawn.reads import ReadShape
from drawn.strategies import DrawnHistory

from harness.suite.results import Check, Outcome
from harness.suite.runner import table_at
from harness.suite.scenarios.building import build
from harness.suite.scenarios.model import BuiltScenario, ExpectedError, ResolvedExpectation, Scenario
from harness.suite.scores import Strictness, read_text, score_read


def differences(format: str) -> dict[str, str]:
    """Return the reads that `differences.txt` lists for a format's reference, with the reasons."""
    text = re.sub(r"\n +", " ", Path(__file__).with_name("differences.txt").read_text("utf-8"))
    entries = (line.partition(": ") for line in text.splitlines() if line.startswith(f"{format}/"))
    return {name: reason for name, _, reason in entries}


@dataclass(frozen=True, slots=True)
class ReferenceImplementation:
    """A reference implementation and its known differences.

    Attributes:
        reader: A `SparkReference` of `harness.suite.other_readers`.
        declines: The exception of the reader if it cannot express a read.
        not_asked: Metadata columns of harness that the reference lacks, or has in another form.
        differences: Known differences by `scenario` for all reads of a scenario, or by `scenario#n` for the nth read.
    """

    name: str
    reader: Any
    declines: type[Exception]
    differences: Mapping[str, str]
    not_asked: Set[str] = frozenset()

    def check(self, scenario: Scenario, place: Path, counted: Counter[str]) -> None:
        """Check that every read that the reference supports agrees, except for the listed reads, which must differ."""
        asked = self._check_reads(scenario, place, {Outcome.SKIP})
        differing = [check for check in asked if check.outcome is not Outcome.PASS]
        counted[f"{self.name} scenarios"] += bool(asked)
        counted[f"{self.name} scenarios with differences"] += bool(differing)
        counted[f"{self.name} scenarios not asked"] += not asked
        counted[f"{self.name} reads of scenarios"] += len(asked)
        counted[f"{self.name} reads of scenarios that differ"] += len(differing)

    def check_drawn(self, drawn: DrawnHistory, place: Path, counted: Counter[str]) -> None:
        """Check that every state of a drawn history that the reference can read agrees with the model."""
        scenario = scenario_of(drawn, [ReadShape(at=point) for point in drawn.model.points()])
        read = self._check_reads(scenario, place, {Outcome.SKIP, Outcome.UNSUPPORTED})
        counted[f"{self.name} tables drawn"] += bool(read)
        counted[f"{self.name} tables drawn, not read"] += not read
        counted[f"{self.name} reads of drawn tables"] += len(read)

    def _check_reads(self, scenario: Scenario, place: Path, passed_over: Set[Outcome]) -> list[Check]:
        """Return the outcomes of the reads, and fail for an unexpected outcome."""
        built = build(scenario, place)
        checks = [self._scored(built, each) for each in built.expectations]
        asked = [check for check in checks if check.outcome not in passed_over]
        wrong = [text for check in asked if (text := self._surprise(scenario.name, check)) is not None]
        assert not wrong, "\n".join(wrong)
        return asked

    def _surprise(self, scenario: str, check: Check) -> str | None:
        known = self.differences.get(f"{scenario}#{check.number}", self.differences.get(scenario))
        read = f"read {check.number}, {check.read}"
        if check.outcome is Outcome.PASS:
            return None if known is None else f"{read}: agrees; take it off the list, which says: {known}"
        return None if known is not None else f"{read}: {check.outcome.value}, {check.message}"

    def _scored(self, built: BuiltScenario, expectation: ResolvedExpectation) -> Check:
        """Compare a read with harness's result, also if the specification leaves the result open."""
        skipped = Check(number=expectation.number, read=read_text(expectation), outcome=Outcome.SKIP)
        words = {*(expectation.columns or ()), *re.findall(r"\w+", expectation.where or "")}
        if words & self.not_asked or expectation.opening:  # it gets a catalog's answer only through a client
            return skipped
        result: pa.Table | Exception
        try:
            result = self._rows(built, expectation)
        except self.declines:
            return skipped
        except Exception as error:  # any exception is an outcome
            result = error
        if isinstance(result, Exception) and isinstance(expectation.expected, ExpectedError):
            return dataclasses.replace(skipped, outcome=Outcome.PASS)
        return score_read(dataclasses.replace(expectation, open=None), result, Strictness.FOREIGN, self.name)

    def _rows(self, built: BuiltScenario, expectation: ResolvedExpectation) -> pa.Table:
        table, arguments = table_at(built, expectation), {"columns": expectation.columns, "where": expectation.where}
        if expectation.at.changes is not None:
            return self.reader.changes(table, expectation.at.changes, **arguments)
        return self.reader.read(table, **arguments)
