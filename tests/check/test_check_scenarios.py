"""Every scenario says which rules of `harness check` its table breaks; the others find nothing there."""

from __future__ import annotations

import pytest

import harness
from harness.errors import TableNotFoundError, UnsupportedError
from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import find
from harness.tools.check.rules import RULES
from harness.tools.check.running import check

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


def test_findings_of_scenarios_are_rules():
    from harness.tools.check import data, delta_log, files, iceberg_deletes, iceberg_manifests, iceberg_metadata

    assert all((data, delta_log, files, iceberg_deletes, iceberg_manifests, iceberg_metadata))
    assert {id_ for scenario in SCENARIOS for id_ in scenario.findings} <= RULES.keys()
