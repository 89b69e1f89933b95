"""Runs made by hand, for the tests of reports."""

import pyarrow as pa

from harness.errors import EngineError, UnsupportedError
from harness.suite.results import (
    AS_LISTED,
    Case,
    Check,
    EngineInfo,
    ListEntry,
    Outcome,
    ReadInfo,
    Run,
    ScenarioInfo,
    worst_outcome,
)
from harness.suite.scenarios.model import ResolvedExpectation, ResolvedSelector
from harness.suite.scores import Strictness, score_read

GOOD = EngineInfo(name="good", version="1.0", argument="good")
BAD = EngineInfo(name="bad", version="2.0 <b>", argument="my engines:Bad", options=("--python", "bad=/p y"))
DELETES = ScenarioInfo(
    name="iceberg/deletes/own-commit",
    title="Deletes spare their own commit, 100 %",
    format="iceberg",
    clauses=("iceberg 4.7",),
    features=("equality-delete", "sequence-boundary"),
    file="fixtures/iceberg/deletes/own-commit.yaml",
    reads=2,
)
BROKEN = ScenarioInfo(
    name="delta/log/broken",
    title="A <script>alert(1)</script> | title",
    format="delta",
    clauses=(),
    features=("broken",),
    file=None,
    reads=1,
    story="title: <b>broken</b>\nformat: delta\n",
    expected=(
        ReadInfo(number=1, read="all columns", demand="open", why="nobody knows", error="CorruptFileError"),
        ReadInfo(number=2, read="column a < b", demand="must", columns=("<i>",), rows=(("1 & 2",),), count=21),
    ),
)
ROWS = pa.table({"id": [1, 2], "note": ["<img src=x>", "b"]})
LISTED = ListEntry("bad::delta/*", "reported as bug 7", "xfails.txt", 3)


def check(result, number=1, expected=ROWS, **fields):
    at = ResolvedSelector(version=number)
    wanted = ResolvedExpectation(number=number, at=at, columns=None, where=None, expected=expected, **fields)
    return score_read(wanted, result, Strictness.FOREIGN, "bad", 0.25)


def case(engine, scenario, *checks, listed=None):
    outcome = worst_outcome(checks)
    return Case(
        scenario=scenario,
        engine=engine,
        outcome=outcome if listed is None else AS_LISTED.get(outcome, outcome),
        checks=checks,
        expected=listed,
    )


FAILING = (
    case(GOOD, DELETES, check(ROWS), check(ROWS, 2)),
    case(BAD, DELETES, check(ROWS.slice(1)), check(ROWS, 2)),
    case(GOOD, BROKEN, check(UnsupportedError("no\x1b[31m such"))),
    case(BAD, BROKEN, check(EngineError("it\nfell", cause="OSError"))),
)


def run(*cases, **fields):
    scenarios = tuple({case.scenario.name: case.scenario for case in cases}.values())
    engines = tuple({case.engine.name: case.engine for case in cases}.values())
    environment = {"harness": "0.1", "python": "3.11"}
    return Run(engines=engines, scenarios=scenarios, cases=cases, environment=environment, **fields)


SAMPLE = run(
    *FAILING,
    missing={"absent": "not installed"},
    unused_lines=(ListEntry("bad::nothing", "old", "skips.txt", 1),),
    meanings={"broken": "a file is damaged & gone"},
)
EXPECTED_FAILURE = run(case(BAD, BROKEN, check(EngineError("x", cause="OSError")), listed=LISTED))
ERRONEOUS = run(case(BAD, BROKEN, check(EngineError("x", cause="OSError"))))
UNEXPECTED_PASS = run(case(BAD, BROKEN, check(ROWS), listed=LISTED))
SKIPPED = run(Case(scenario=BROKEN, engine=BAD, outcome=Outcome.SKIP, expected=LISTED))
OPEN = run(case(GOOD, BROKEN, check(ROWS, open="nobody knows")))
FINE = run(case(GOOD, DELETES, check(ROWS), check(ROWS, 2)))
MANY = run(
    *(
        case(
            GOOD,
            ScenarioInfo(
                name=f"delta/{n}", title="t", format="delta", clauses=(), features=("broken",), file=None, reads=1
            ),
            Check(number=1, read="all columns", outcome=Outcome.FAIL, message="wrong"),
        )
        for n in range(23)
    )
)
