"""Every scenario says which rules of `harness check` its table breaks; the others find nothing there."""

from pathlib import Path

import pytest

import harness
from harness.errors import TableNotFoundError, UnsupportedError
from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import find
from harness.tools.check.rules import Severity
from harness.tools.check.running import check, every_rule

NOTE = Severity.NOTE
SCENARIOS = find()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_has_the_findings_that_it_lists(scenario, tmp_path):
    location = str(build(scenario, tmp_path / "table").location)

    def opened():
        return harness.open_table(location, allow_version_guess=scenario.format == "iceberg")

    try:
        report = check(opened, location=location, level="data", all_snapshots=True)
    except (UnsupportedError, TableNotFoundError):
        found = ()  # nothing is checked, and the command says so
    else:
        found = tuple(sorted(report.counts))
    assert found == scenario.findings


REFERENCE = sorted(Path(__file__).parents[2].glob("fixtures/reference/*/*/table"))
"""Tables that Apache Iceberg and Delta Lake themselves wrote."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")
@pytest.mark.parametrize("place", REFERENCE, ids=lambda place: "/".join(place.parts[-3:-1]))
def test_tables_of_the_reference_implementations_have_no_findings(place):
    report = harness.open_table(str(place)).check(level="data", all_snapshots=True)
    assert [(each.rule.id, str(each.found.place)) for each in report.findings if each.rule.severity is not NOTE] == []
    assert report.unchecked == ()


def test_every_rule_has_a_scenario():
    """Orphans and pages of files are none of a scenario: tests of their own have them."""
    found = {id_ for scenario in SCENARIOS for id_ in scenario.findings}
    known = {rule.id for rule in every_rule()}
    assert found <= known
    assert known - found <= {"DEL-408", "DEL-511", "ICE-408", "ICE-511"}
