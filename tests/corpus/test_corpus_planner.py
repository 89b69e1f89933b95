"""Every table of the corpus by the planner that leaves no file out: the rows of the own planner, or an error too."""

from __future__ import annotations

import pytest
from canonical import canonical_table
from test_delta_corpus import delta_cases
from test_iceberg_corpus import Case, iceberg_cases

import harness
from harness.engines.registry import find_engine
from harness.testing.oracle.planner.plan import plan_unpruned

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("case", [*iceberg_cases(), *delta_cases()])
def test_planners_agree(case: Case):
    assert outcome(case, "unpruned") == outcome(case, "own")


def outcome(case: Case, planner: str) -> str:
    location = str(case.location)
    try:
        plan = plan_unpruned(location) if planner == "unpruned" else harness.open_table(location).snapshot().plan()
        return canonical_table(find_engine("duckdb").to_arrow(plan)).text()
    except harness.HarnessError:
        assert case.expected["outcome"] != "rows" or "column_mapping.my_table" in case.id
        return "error"
