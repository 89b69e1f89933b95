"""The engine of another package reads all scenarios correctly. `nox -s tests-external -- datafusion` installs it."""

from collections import Counter

import pytest

from harness.engines.registry import registered_engines
from harness.suite.reader import HarnessReader
from harness.suite.results import Outcome
from harness.suite.runner import EngineUnderTest, run
from harness.suite.scenarios.loading import find

pytestmark = [
    pytest.mark.external,
    pytest.mark.filterwarnings("ignore::harness.HarnessWarning"),
    pytest.mark.skipif(
        "datafusion" not in registered_engines(), reason="the engine is not installed: nox -s tests-external"
    ),
]


def test_no_scenario_is_read_wrongly() -> None:
    suite_run = run(find(), [EngineUnderTest(reader=HarnessReader("datafusion"), argument="datafusion")])
    counts = Counter(case.outcome for case in suite_run.cases)
    wrong = [case.id for case in suite_run.cases if case.outcome in (Outcome.FAIL, Outcome.ERROR)]
    print({outcome.value: count for outcome, count in counts.items()})
    assert wrong == []
    assert counts[Outcome.PASS] > 400
