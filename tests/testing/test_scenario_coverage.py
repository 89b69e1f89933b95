"""Every numbered rule about reading has a scenario, or a reason here why no table can show it."""

import re

import pytest

from harness.rules import rules
from harness.suite.scenarios.loading import find

RULES = {rule.name for rule in rules()}
# Rules that need no scenario: an unadopted format version, the engines' use of a plan, and the newest features.
FREE = re.compile(r"iceberg (9|11)\.|delta E|frontier ")

EXCEPTIONS = {
    "iceberg 1.2": "what catalogs answer; needs a catalog",
    "iceberg 1.5": "an option of the caller, who opens a directory and lets harness guess; see test_discovery",
    "iceberg 1.10": "about one table loaded twice, with another table put in its place between",
    "iceberg 3.18": "about what a planner may leave out of a filter; harness leaves out nothing",
    "delta L44": "a log that others write to while it is listed",
    "delta T15": "how engines are asked for columns by id; the results are those of T10 to T12",
    "delta F14": "what Spark's file index shows besides rows",
    "delta F15": "LIMIT, which is not part of a plan",
    "delta D12": "needs a file of two thousand million rows",
}


@pytest.fixture(scope="module")
def cited() -> dict[str, set[str]]:
    """Return the clauses with the scenarios that cite them."""
    found: dict[str, set[str]] = {}
    for scenario in find():
        for clause in scenario.clauses:
            found.setdefault(clause, set()).add(scenario.name)
    return found


def test_every_rule_is_shown_or_excepted(cited):
    wanted = {name for name in RULES if FREE.match(name) is None}
    assert sorted(wanted - cited.keys() - EXCEPTIONS.keys()) == []


def test_exceptions_are_rules_that_nothing_shows(cited):
    assert sorted(EXCEPTIONS.keys() - RULES) == []
    assert sorted(EXCEPTIONS.keys() & cited.keys()) == []


def test_cited_numbers_are_rules(cited):
    numbered = {clause for clause in cited if re.fullmatch(r"(iceberg|delta|frontier) (trap )?\S*\d\S*", clause)}
    assert sorted(numbered - RULES) == []
