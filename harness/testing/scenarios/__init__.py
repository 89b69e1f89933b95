"""Scenarios: small files that say how a table came to be and what reading it must give.

    for scenario in find("iceberg/deletes/*"):
        built = build(scenario, tmp_path)

The files are in `fixtures/`, whose README describes them. `verify` compares what a reader gives with what is expected;
`features` proves that the table shows what the scenario says; `write_expected` writes the answers for other engines.
"""

from harness.testing.scenarios.building import build
from harness.testing.scenarios.loading import dump, find, load, parse
from harness.testing.scenarios.model import Built, Expectation, ResolvedExpectation, Scenario
from harness.testing.scenarios.verifying import verify

__all__ = [
    "Built",
    "Expectation",
    "ResolvedExpectation",
    "Scenario",
    "build",
    "dump",
    "find",
    "load",
    "parse",
    "verify",
]
