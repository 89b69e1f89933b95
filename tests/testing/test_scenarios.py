"""Every scenario of fixtures/ on every engine: each read returns the expected rows or raises the expected error.

The oracle makes its own plan and skips no file. Expected failures of an engine are listed with their reason in
tests/suite/expected-failures.txt. If a listed test passes, it fails here.
"""

import operator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from scenario_text import dump

from harness.engines import union_arms
from harness.engines.registry import find_engine
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.results import first_match, read_list
from harness.suite.scenarios.building import build
from harness.suite.scenarios.evidence import collect_evidence
from harness.suite.scenarios.features import missing_features
from harness.suite.scenarios.loading import find, parse
from harness.suite.scenarios.model import ExpectedError
from harness.suite.scenarios.verifying import verify

SCENARIOS = find()
EXPECTED_FAILURES = read_list(Path(__file__).parents[1] / "suite/expected-failures.txt")

pytestmark = [
    pytest.mark.filterwarnings("ignore::harness.errors.HarnessWarning"),  # scenarios have irregular tables on purpose
]


@pytest.fixture(scope="module")
def scenario_table(request, tmp_path_factory):
    """Return the table of a scenario and the plans of its reads, after a check that the declared features occur."""
    evidence = collect_evidence(build(request.param, tmp_path_factory.mktemp("scenario")))
    assert missing_features(evidence) == (), "declared, but not in the table or its plans"
    return evidence


@pytest.mark.parametrize("scenario_table", SCENARIOS, ids=operator.attrgetter("name"), indirect=True)
@pytest.mark.parametrize(
    "engine",
    [
        "duckdb",
        pytest.param("oracle", marks=pytest.mark.oracle),
        pytest.param("spark", marks=pytest.mark.harness_spark),
    ],
)
def test_scenario(engine, scenario_table, request, monkeypatch):
    if line := first_match(EXPECTED_FAILURES, engine, scenario_table.built.scenario.name):
        request.applymarker(pytest.mark.xfail(reason=line.reason, raises=AssertionError))
    assert disagreements(engine, scenario_table) == []
    if engine != "oracle" and any(plan.equality_deletes for plan in scenario_table.plans):
        # Files are joined with deletes per set or all at once, whichever is cheaper. This uses the more expensive way.
        # In plans with lifetimes, deletes are always joined all at once.
        monkeypatch.setattr(
            union_arms,
            "joins_by_set",
            lambda plan, original=union_arms.joins_by_set: plan.lifetimes is None and not original(plan),
        )
        assert disagreements(engine, scenario_table) == []


def disagreements(engine, scenario_table):
    faults = {
        e.number: verify(engine_expectation(e, engine), partial(read, scenario_table, engine))
        for e in scenario_table.built.expectations
    }
    return [f"expectation {number}: {fault}" for number, fault in faults.items() if fault is not None]


def engine_expectation(expectation, engine):
    """Return the expectation for an engine. The oracle's errors have other messages."""
    expected = expectation.expected
    if engine != "oracle" or not isinstance(expected, ExpectedError):
        return expectation
    return replace(expectation, expected=ExpectedError(expected.kind))


def read(scenario_table, engine, expectation):
    """Return the rows. The oracle makes its own plan."""
    if engine != "oracle":
        return find_engine(engine).to_arrow(scenario_table.plan_of(expectation.number))
    shown = {"columns": expectation.columns, "where": expectation.where}
    return read_with_oracle(scenario_table.built.address, **asdict(expectation.at), **shown, **expectation.opening)


def test_dumped_scenarios_read_back_equal():
    for scenario in SCENARIOS:
        again = parse(dump(scenario), scenario.name, path=scenario.path)
        assert repr(again) == repr(scenario)  # as text, so that NaN equals itself
