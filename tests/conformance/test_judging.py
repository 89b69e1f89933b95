"""What a read comes to, of harness's own engines and of others."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from harness.errors import CorruptDeleteError, EngineError, InvalidTableError, UnsupportedError
from harness.testing.conformance.judging import Strictness, described, judge, judge_count
from harness.testing.conformance.results import Outcome
from harness.testing.conformance.workers import CRASHED, TIMED_OUT
from harness.testing.scenarios.model import ExpectedError, ResolvedExpectation, ResolvedSelector

ROWS = pa.table({"id": [1, 2], "name": ["a", None]})
WRONG = pa.table({"id": [1, 1], "name": ["a", None]})
CORRUPT = ExpectedError("CorruptDeleteError", match="position 7")
OWN, FOREIGN = Strictness.OWN, Strictness.FOREIGN


def expectation(expected, **given):
    return ResolvedExpectation(number=1, at=ResolvedSelector(), expected=expected, **given)


def judged(expected, result, measure=OWN, **given):
    return judge(expectation(expected, **given), result, measure, "engine", 0.5)


@pytest.mark.parametrize(
    ("expected", "result", "own", "foreign"),
    [
        pytest.param(ROWS, ROWS, "PASS", "PASS", id="rows"),
        pytest.param(ROWS, ROWS.take([1, 0]), "PASS", "PASS", id="order"),
        pytest.param(ROWS, WRONG, "FAIL", "FAIL", id="wrong-value"),
        pytest.param(ROWS, ROWS.slice(1), "FAIL", "FAIL", id="lacking-row"),
        pytest.param(ROWS, pa.concat_tables([ROWS, ROWS]), "FAIL", "FAIL", id="rows-twice"),
        pytest.param(ROWS, ROWS.drop_columns("name"), "FAIL", "FAIL", id="lacking-column"),
        pytest.param(ROWS, ROWS.set_column(0, "id", pa.array([1, 2], pa.int32())), "FAIL", "PASS", id="narrow-type"),
        pytest.param(ROWS, ROWS.set_column(0, "id", pa.array(["1", "2"])), "FAIL", "FAIL", id="text-for-number"),
        pytest.param(ROWS, pa.table([[1], [2]], names=["id", "id"]), "FAIL", "FAIL", id="a-name-twice"),
        pytest.param(ROWS, UnsupportedError("not read"), "UNSUPPORTED", "UNSUPPORTED", id="declined"),
        pytest.param(ROWS, NotImplementedError("not read"), "UNSUPPORTED", "UNSUPPORTED", id="not-implemented"),
        pytest.param(ROWS, InvalidTableError("broken"), "ERROR", "ERROR", id="refused"),
        pytest.param(ROWS, EngineError("gone", cause=CRASHED), "ERROR", "ERROR", id="crashed"),
        pytest.param(
            ROWS, EngineError("Unsupported table features: [x]", cause="E"), "ERROR", "UNSUPPORTED", id="in-words"
        ),
        pytest.param(
            ROWS, EngineError("no such instruction: not supported", cause=CRASHED), "ERROR", "ERROR", id="last-words"
        ),
        pytest.param(
            ROWS,
            EngineError("It does not yet support equality deletes", cause="E"),
            "ERROR",
            "UNSUPPORTED",
            id="not-yet",
        ),
        pytest.param(
            ROWS, EngineError("the file is corrupt", cause="E"), "ERROR", "ERROR", id="other-words-of-an-error"
        ),
        pytest.param(CORRUPT, ROWS, "FAIL", "FAIL", id="rows-of-a-broken-table"),
        pytest.param(CORRUPT, CorruptDeleteError("bad position 7"), "PASS", "PASS", id="right-error"),
        pytest.param(CORRUPT, CorruptDeleteError("other"), "FAIL", "PASS", id="other-words"),
        pytest.param(CORRUPT, InvalidTableError("position 7"), "FAIL", "PASS", id="other-class"),
        pytest.param(CORRUPT, ValueError("position 7"), "ERROR", "PASS", id="no-harness-error"),
        pytest.param(CORRUPT, EngineError("x", cause="ValueError"), "FAIL", "PASS", id="a-workers-error"),
        pytest.param(CORRUPT, EngineError("x", cause=CRASHED), "FAIL", "ERROR", id="a-crash-is-no-refusal"),
        pytest.param(CORRUPT, EngineError("x", cause=TIMED_OUT), "FAIL", "ERROR", id="a-hang-is-no-refusal"),
        pytest.param(CORRUPT, UnsupportedError("x"), "FAIL", "UNSUPPORTED", id="declining-proves-nothing"),
        pytest.param(ExpectedError("InvalidTableError"), CorruptDeleteError("x"), "PASS", "PASS", id="base-class"),
        pytest.param(ExpectedError("UnsupportedError"), UnsupportedError("x"), "PASS", "PASS", id="to-be-declined"),
        pytest.param(
            ExpectedError("InvalidTableError", cause="MultipleDVs"),
            InvalidTableError("x", cause="Other"),
            "FAIL",
            "PASS",
            id="other-cause",
        ),
    ],
)
def test_a_read_comes_to(expected, result, own, foreign):
    assert judged(expected, result, OWN).outcome.value == own
    assert judged(expected, result, FOREIGN).outcome.value == foreign


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        pytest.param(CorruptDeleteError("in words of its own"), "PASS", id="class"),
        pytest.param(InvalidTableError("position 7"), "FAIL", id="other-class"),
        pytest.param(ROWS, "FAIL", id="rows"),
        pytest.param(KeyError("x"), "ERROR", id="no-harness-error"),
    ],
)
def test_the_oracle_is_asked_for_the_class_of_an_error(result, outcome):
    assert judged(CORRUPT, result, Strictness.ORACLE).outcome.value == outcome


@pytest.mark.parametrize(
    ("expected", "result", "own", "foreign"),
    [
        pytest.param(ROWS, ROWS, "OPEN", "OPEN", id="as-decided"),
        pytest.param(ROWS, WRONG, "FAIL", "OPEN", id="not-as-decided"),
        pytest.param(None, ROWS, "OPEN", "OPEN", id="nothing-decided"),
        pytest.param(None, InvalidTableError("x"), "ERROR", "OPEN", id="refused"),
        pytest.param(ROWS, EngineError("x", cause=CRASHED), "ERROR", "ERROR", id="a-crash-is-no-answer"),
    ],
)
def test_an_open_question_fails_only_who_decided_it(expected, result, own, foreign):
    assert judged(expected, result, OWN, open="two sections disagree").outcome.value == own
    assert judged(expected, result, FOREIGN, open="two sections disagree").outcome.value == foreign


@pytest.mark.parametrize(
    ("expected", "result", "own", "foreign"),
    [
        pytest.param(ROWS, ROWS, "PASS", "PASS", id="the-same"),
        pytest.param(ROWS, WRONG, "FAIL", "POLICY", id="other-rows"),
        pytest.param(ROWS, InvalidTableError("a lie"), "ERROR", "POLICY", id="refused"),
        pytest.param(CORRUPT, ROWS, "FAIL", "POLICY", id="rows-of-what-harness-refuses"),
        pytest.param(ROWS, UnsupportedError("x"), "UNSUPPORTED", "UNSUPPORTED", id="declined"),
        pytest.param(ROWS, EngineError("x", cause=CRASHED), "ERROR", "ERROR", id="a-crash-is-no-answer"),
    ],
)
def test_a_policy_binds_harness_alone(expected, result, own, foreign):
    assert judged(expected, result, OWN, policy="readers may trust counts").outcome.value == own
    assert judged(expected, result, FOREIGN, policy="readers may trust counts").outcome.value == foreign


@pytest.mark.parametrize(("policy", "outcome"), [(None, "FAIL"), ("readers may trust counts", "POLICY")])
def test_a_count_that_a_policy_demands_binds_harness_alone(policy, outcome):
    wanted = expectation(ROWS, policy=policy)
    check = judge_count(judge(wanted, ROWS, FOREIGN, "engine"), wanted, 7, "engine")
    assert (check.outcome.value, check.wrong_rows) == (outcome, True)


@pytest.mark.parametrize(
    ("columns", "where", "error", "outcome"),
    [
        pytest.param(("id", "_pos"), None, ValueError("no _pos"), "UNSUPPORTED", id="column"),
        pytest.param(("id",), "_row_id = 3", ValueError("no _row_id"), "UNSUPPORTED", id="filter"),
        pytest.param(("id",), "id = 3", ValueError("no"), "ERROR", id="none"),
        pytest.param(("id", "_pos"), None, EngineError("x", cause=CRASHED), "ERROR", id="crash"),
    ],
)
def test_no_other_engine_must_have_metadata_columns(columns, where, error, outcome):
    wanted = ResolvedExpectation(number=1, at=ResolvedSelector(), columns=columns, where=where, expected=ROWS)
    assert judge(wanted, error, FOREIGN, "engine").outcome.value == outcome
    assert judge(wanted, error, OWN, "engine").outcome is Outcome.ERROR


def test_an_open_question_says_what_the_engine_does():
    check = judged(ROWS, ROWS, FOREIGN, open="two sections disagree")
    assert check.message == "open: two sections disagree; the engine: as harness decided"


def test_a_failure_says_how_many_rows_differ_and_keeps_them():
    check = judged(ROWS, WRONG)
    assert check.message == "1 row expected and not read, 1 row read and not expected"
    assert check.comparison is not None
    assert (check.comparison.only_left, check.comparison.only_right) == (1, 1)
    assert check.seconds == 0.5


def test_a_refusal_is_noted():
    assert judged(CORRUPT, EngineError("bad file", cause="OSError"), FOREIGN).notes == ("refused: OSError: bad file",)


def test_a_read_in_words():
    wanted = ResolvedExpectation(
        number=2, at=ResolvedSelector(version=3), columns=("id", "x"), where="id > 1", expected=None
    )
    assert described(wanted) == "columns id, x at version 3 where id > 1"


U = uuid.UUID("00000000-0000-0000-0000-0000000000ff")
UUIDS = pa.array([U.bytes, None], pa.uuid())


@pytest.mark.parametrize(
    ("type_", "values", "carried"),
    [
        pytest.param(pa.string(), ["a", None], pa.string_view(), id="string-view"),
        pytest.param(pa.string(), ["a", None], pa.large_string(), id="large-string"),
        pytest.param(pa.timestamp("us", "UTC"), [1, None], pa.timestamp("ns", "UTC"), id="nanoseconds"),
        pytest.param(pa.timestamp("us", "UTC"), [1, None], pa.timestamp("us", "Europe/Paris"), id="other-zone"),
        pytest.param(pa.decimal128(9, 2), [1, None], pa.decimal256(40, 2), id="wide-decimal"),
        pytest.param(pa.list_(pa.int32()), [[1], None, []], pa.large_list(pa.int32()), id="large-list"),
    ],
)
def test_other_carriers_of_the_same_values_pass(type_, values, carried):
    expected, got = pa.array(values, type_), pa.array(values, type_).cast(carried)
    if pa.types.is_timestamp(type_):
        got = expected.cast(carried)
    assert judged(pa.table({"x": expected}), pa.table({"x": got}), FOREIGN).outcome is Outcome.PASS


def test_a_type_that_holds_the_same_values_is_noted():
    got = ROWS.set_column(0, "id", pa.array([1, 2], pa.int32()))
    assert judged(ROWS, got, FOREIGN).notes == ("id is int32, not int64",)


CARRIED = [
    pytest.param(UUIDS, pa.array([str(U).upper(), None]), id="uuid-as-text"),
    pytest.param(
        pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
        pa.array(
            [[{"key": "b", "value": None}, {"key": "a", "value": 1}], None, []],
            pa.large_list(pa.struct([("key", pa.string()), ("value", pa.int64())])),
        ),
        id="map-as-list",
    ),
    pytest.param(
        pa.StructArray.from_arrays([UUIDS], names=["u"], mask=pa.array([False, True])),
        pa.array([{"u": str(U)}, None], pa.struct([("u", pa.string())])),
        id="uuid-in-a-struct",
    ),
    pytest.param(
        pa.ListArray.from_arrays(pa.array([0, None, 2], pa.int32()), UUIDS),
        pa.array([[str(U), None], None], pa.list_(pa.string())),
        id="uuid-in-a-list",
    ),
]


@pytest.mark.parametrize(("expected", "got"), CARRIED)
def test_other_engines_ways_to_hold_no_value_pass(expected, got):
    empty = pa.table({"x": pa.chunked_array([], got.type)})
    assert judged(pa.table({"x": expected.slice(0, 0)}), empty, FOREIGN).outcome is Outcome.PASS


@pytest.mark.parametrize(("expected", "got"), CARRIED)
def test_other_engines_ways_to_hold_a_value_pass_in_slices_too(expected, got):
    for start in (0, 1):
        wanted, read = pa.table({"x": expected}).slice(start), pa.table({"x": got}).slice(start)
        assert judged(wanted, read, FOREIGN).outcome is Outcome.PASS
        assert judged(wanted, read.slice(1), FOREIGN).outcome is Outcome.FAIL
