"""The bugs that `nox -s readers -- backtest` looks for, and their recorded results."""

import backtest as recall
import pytest

from harness.suite.readers import READERS
from harness.suite.scenarios.loading import find

BUGS = recall.bugs()


def test_bug_ids_are_unique() -> None:
    assert len({bug.id for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_bug_names_existing_scenarios(bug: recall.Bug) -> None:
    assert bug.reader in READERS
    assert bug.report.startswith("https://")
    assert bool(bug.fixed) != bool(bug.by_hand), "a fixed release, or the wrong rows that the report describes"
    assert bug.scenarios or bug.shapes
    for name in (*bug.scenarios, *(shape.partition(" of ")[2] for shape in bug.shapes)):
        assert find(name)


def test_results_belong_to_these_bugs_and_are_on_the_page() -> None:
    results = recall.recorded()
    assert set(results) == {bug.id for bug in BUGS}
    assert all(result.found == bool(result.by) for result in results.values())
    text = recall.PAGE.read_text("utf-8")
    assert recall.page(text, results) == text
