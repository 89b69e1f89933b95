"""Every scenario of fixtures/ on DuckDB: each read gives what is expected, and what a scenario declares occurs."""

from __future__ import annotations

import pytest

from harness.testing.scenarios import build, find
from harness.testing.scenarios.evidence import evidence_of
from harness.testing.scenarios.features import missing_features
from harness.testing.scenarios.verifying import Matched, describe, read_with, verify

SCENARIOS = find()
pytestmark = pytest.mark.usefixtures("one_duckdb")


@pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning")  # what is odd about a table is its point
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(scenario, tmp_path):
    built = build(scenario, tmp_path)
    read = read_with(built, "duckdb")
    verdicts = {e.number: verify(e, read) for e in built.expectations}
    wrong = [f"expectation {n}: {describe(v)}" for n, v in verdicts.items() if v != Matched()]
    assert not wrong, "\n".join(wrong)
    assert missing_features(evidence_of(built)) == (), "declared, but not in the table or its plans"


def test_titles_are_unique():
    titles = [scenario.title for scenario in SCENARIOS]
    assert sorted(titles) == sorted(set(titles))
