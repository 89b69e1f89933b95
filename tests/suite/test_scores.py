"""The outcome of a read, for harness's own engines and for other readers."""

import uuid

import pyarrow as pa
import pytest

from harness.errors import CorruptDeleteError, EngineError, InvalidTableError, UnsupportedError
from harness.suite.results import Outcome
from harness.suite.scenarios.model import ExpectedError, ResolvedExpectation, ResolvedSelector
from harness.suite.scores import Strictness, read_text, score_count, score_read
from harness.suite.workers import CRASHED, TIMED_OUT

ROWS = pa.table({"id": [1, 2], "name": ["a", None]})
WRONG = pa.table({"id": [1, 1], "name": ["a", None]})
CORRUPT = ExpectedError("CorruptDeleteError", match="position 7")
OWN, FOREIGN = Strictness.HARNESS, Strictness.FOREIGN


def expectation(expected, **fields):
    return ResolvedExpectation(number=1, at=ResolvedSelector(), expected=expected, **fields)


def score(expected, result, measure=OWN, **fields):
    return score_read(expectation(expected, **fields), result, measure, "engine", 0.5)


CRASH = EngineError("x", cause=CRASHED)
OPEN, POLICY = {"open": "two sections disagree"}, {"policy": "readers may trust counts"}
NARROW, TEXTS = (ROWS.set_column(0, "id", pa.array(*values)) for values in (([1, 2], pa.int32()), (["1", "2"],)))
COMES_TO = {
    "rows": (ROWS, ROWS, "PASS", "PASS"),
    "order": (ROWS, ROWS.take([1, 0]), "PASS", "PASS"),
    "wrong-value": (ROWS, WRONG, "FAIL", "FAIL"),
    "lacking-row": (ROWS, ROWS.slice(1), "FAIL", "FAIL"),
    "rows-twice": (ROWS, pa.concat_tables([ROWS, ROWS]), "FAIL", "FAIL"),
    "lacking-column": (ROWS, ROWS.drop_columns("name"), "FAIL", "FAIL"),
    "narrow-type": (ROWS, NARROW, "FAIL", "PASS"),
    "text-for-number": (ROWS, TEXTS, "FAIL", "FAIL"),
    "a-name-twice": (ROWS, pa.table([[1], [2]], names=["id", "id"]), "FAIL", "FAIL"),
    "declined": (ROWS, UnsupportedError("not read"), "UNSUPPORTED", "UNSUPPORTED"),
    "not-implemented": (ROWS, NotImplementedError("not read"), "UNSUPPORTED", "UNSUPPORTED"),
    "refused": (ROWS, InvalidTableError("broken"), "ERROR", "ERROR"),
    "crashed": (ROWS, CRASH, "ERROR", "ERROR"),
    "in-words": (ROWS, EngineError("Unsupported table features: [x]", cause="E"), "ERROR", "UNSUPPORTED"),
    "last-words": (ROWS, EngineError("no such instruction: not supported", cause=CRASHED), "ERROR", "ERROR"),
    "not-yet": (ROWS, EngineError("It does not yet support equality deletes", cause="E"), "ERROR", "UNSUPPORTED"),
    "other-words-of-an-error": (ROWS, EngineError("the file is corrupt", cause="E"), "ERROR", "ERROR"),
    "rows-of-a-broken-table": (CORRUPT, ROWS, "FAIL", "FAIL"),
    "right-error": (CORRUPT, CorruptDeleteError("bad position 7"), "PASS", "PASS"),
    "other-words": (CORRUPT, CorruptDeleteError("other"), "FAIL", "PASS"),
    "other-class": (CORRUPT, InvalidTableError("position 7"), "FAIL", "PASS"),
    "no-harness-error": (CORRUPT, ValueError("position 7"), "ERROR", "PASS"),
    "a-workers-error": (CORRUPT, EngineError("x", cause="ValueError"), "FAIL", "PASS"),
    "a-crash-is-no-refusal": (CORRUPT, CRASH, "FAIL", "ERROR"),
    "a-hang-is-no-refusal": (CORRUPT, EngineError("x", cause=TIMED_OUT), "FAIL", "ERROR"),
    "declining-proves-nothing": (CORRUPT, UnsupportedError("x"), "FAIL", "UNSUPPORTED"),
    "base-class": (ExpectedError("InvalidTableError"), CorruptDeleteError("x"), "PASS", "PASS"),
    "to-be-declined": (ExpectedError("UnsupportedError"), UnsupportedError("x"), "PASS", "PASS"),
    "other-cause": (ExpectedError("InvalidTableError", cause="A"), InvalidTableError("x", cause="B"), "FAIL", "PASS"),
    # Only harness's own engines can fail a read that the specification leaves open.
    "open, as-decided": (ROWS, ROWS, "OPEN", "OPEN", OPEN),
    "open, not-as-decided": (ROWS, WRONG, "FAIL", "OPEN", OPEN),
    "open, nothing-decided": (None, ROWS, "OPEN", "OPEN", OPEN),
    "open, refused": (None, InvalidTableError("x"), "ERROR", "OPEN", OPEN),
    "open, a-crash-is-no-answer": (ROWS, CRASH, "ERROR", "ERROR", OPEN),
    # Only harness's own engines must follow a policy.
    "policy, the-same": (ROWS, ROWS, "PASS", "PASS", POLICY),
    "policy, other-rows": (ROWS, WRONG, "FAIL", "POLICY", POLICY),
    "policy, refused": (ROWS, InvalidTableError("a lie"), "ERROR", "POLICY", POLICY),
    "policy, rows-of-what-harness-refuses": (CORRUPT, ROWS, "FAIL", "POLICY", POLICY),
    "policy, declined": (ROWS, UnsupportedError("x"), "UNSUPPORTED", "UNSUPPORTED", POLICY),
    "policy, a-crash-is-no-answer": (ROWS, CRASH, "ERROR", "ERROR", POLICY),
}
"""The expectation, the answer, and the outcome for harness's own engines and for other readers."""


@pytest.mark.parametrize("case", COMES_TO.values(), ids=COMES_TO)
def test_a_read_comes_to(case):
    expected, result, own, foreign, *given = case
    told = given[0] if given else {}
    assert [score(expected, result, measure, **told).outcome.value for measure in (OWN, FOREIGN)] == [own, foreign]


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (CorruptDeleteError("in words of its own"), "PASS"),
        (InvalidTableError("position 7"), "FAIL"),
        (ROWS, "FAIL"),
        (KeyError("x"), "ERROR"),
    ],
    ids=["class", "other-class", "rows", "no-harness-error"],
)
def test_only_the_class_of_an_error_counts_for_the_oracle(result, outcome):
    assert score(CORRUPT, result, Strictness.ORACLE).outcome.value == outcome


@pytest.mark.parametrize(("policy", "outcome"), [(None, "FAIL"), ("readers may trust counts", "POLICY")])
def test_a_count_that_a_policy_demands_binds_harness_alone(policy, outcome):
    wanted = expectation(ROWS, policy=policy)
    check = score_count(score_read(wanted, ROWS, FOREIGN, "engine"), wanted, 7, "engine")
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
    assert score_read(wanted, error, FOREIGN, "engine").outcome.value == outcome
    assert score_read(wanted, error, OWN, "engine").outcome is Outcome.ERROR


def test_a_check_contains_its_message():
    assert score(ROWS, ROWS, FOREIGN, **OPEN).message == ("open: two sections disagree; the engine: as harness decided")
    check = score(ROWS, WRONG)
    assert check.message == "1 row expected and not read, 1 row read and not expected"
    assert check.comparison is not None
    assert (check.comparison.only_left, check.comparison.only_right, check.seconds) == (1, 1, 0.5)
    assert score(CORRUPT, EngineError("bad file", cause="OSError"), FOREIGN).notes == ("refused: OSError: bad file",)
    assert score(ROWS, NARROW, FOREIGN).notes == ("id is int32, not int64",)
    wanted = ResolvedExpectation(
        number=2, at=ResolvedSelector(version=3), columns=("id", "x"), where="id > 1", expected=None
    )
    assert read_text(wanted) == "columns id, x at version 3 where id > 1"


U = uuid.UUID("00000000-0000-0000-0000-0000000000ff")
UUIDS = pa.array([U.bytes, None], pa.uuid())
VARIANT = pa.struct([pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)])


@pytest.mark.parametrize(
    ("type_", "values", "carried"),
    [
        *((pa.string(), ["a", None], carried) for carried in (pa.string_view(), pa.large_string())),
        (pa.timestamp("us", "UTC"), [1, None], pa.timestamp("ns", "UTC")),
        (pa.timestamp("us", "UTC"), [1, None], pa.timestamp("us", "Europe/Paris")),
        (pa.decimal128(9, 2), [1, None], pa.decimal256(40, 2)),
        (pa.list_(pa.int32()), [[1], None, []], pa.large_list(pa.int32())),
    ],
    ids=str,
)
def test_other_carriers_of_the_same_values_pass(type_, values, carried):
    expected = pa.array(values, type_)
    assert score(pa.table({"x": expected}), pa.table({"x": expected.cast(carried)}), FOREIGN).outcome is Outcome.PASS


TEXT, VIEW = pa.string(), pa.string_view()
ENTRY = pa.struct([("key", VIEW), ("value", VIEW)])
UUID_MAPS = pa.MapArray.from_arrays(pa.array([0, None, 2], pa.int32()), ["a", "b"], UUIDS)
TEXT_MAPS = [[("a", str(U).upper()), ("b", None)], None]

CARRIED = [
    pytest.param(UUIDS, pa.array([str(U).upper(), None]), id="uuid-as-text"),
    pytest.param(
        pa.array(["5", None]),
        pa.array([{"value": b"\x0c\x05", "metadata": b"\1\0\0"}, None], VARIANT),
        id="variant-as-bytes",
    ),
    pytest.param(
        pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
        pa.array(
            [[{"key": "b", "value": None}, {"key": "a", "value": 1}], None, []],
            pa.large_list(pa.struct([("key", pa.string()), ("value", pa.int64())])),
        ),
        id="map-as-list",
    ),
    pytest.param(
        pa.array([[("a", "b")], None, []], pa.map_(TEXT, TEXT)),
        pa.array([[{"key": "a", "value": "b"}], None, []], pa.large_list(ENTRY)),
        id="map-of-views-as-list",
    ),
    pytest.param(
        pa.array([[[b"a"]], [None]], pa.list_(pa.list_(pa.binary()))),
        pa.array([[["a"]], [None]], pa.list_(pa.list_(pa.binary_view()))),
        id="views-in-lists-of-lists",
    ),
    pytest.param(pa.array([b"a", None]), pa.array(["a", None]), id="bytes-as-text"),
    pytest.param(
        pa.StructArray.from_arrays([UUID_MAPS], names=["m"]),
        pa.array([{"m": TEXT_MAPS[0]}, {"m": None}], pa.struct([("m", pa.map_(TEXT, TEXT))])),
        id="uuid-in-a-map-in-a-struct",
    ),
    pytest.param(UUID_MAPS, pa.array(TEXT_MAPS, pa.map_(VIEW, VIEW)), id="uuid-in-a-map-of-views"),
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


MAP = pa.array([[("a", "b")], None], pa.map_(TEXT, TEXT))
REQUIRED = pa.map_(pa.field("k", TEXT, nullable=False), pa.field("v", TEXT, nullable=False))


@pytest.mark.parametrize("carried", [pa.map_(VIEW, VIEW), REQUIRED], ids=["views", "required"])
def test_a_map_without_uuids_stays(carried):
    got = pa.table({"x": pa.array(MAP.to_pylist(), carried), "u": [str(U), None]})
    check = score(pa.table({"x": MAP, "u": UUIDS}), got, FOREIGN)
    assert (check.outcome, [note.partition(" ")[0] for note in check.notes]) == (Outcome.PASS, ["u"])


@pytest.mark.parametrize(("expected", "got"), CARRIED)
def test_other_engines_ways_to_hold_a_value_pass_in_slices_too(expected, got):
    assert len(expected) > 1
    for start in range(len(expected) + 1):
        wanted, read = pa.table({"x": expected}).slice(start), pa.table({"x": got}).slice(start)
        assert score(wanted, read, FOREIGN).outcome is Outcome.PASS
        assert start == len(expected) or score(wanted, read.slice(1), FOREIGN).outcome is Outcome.FAIL
    empty = pa.table({"x": pa.chunked_array([], got.type)})
    assert score(pa.table({"x": expected.slice(0, 0)}), empty, FOREIGN).outcome is Outcome.PASS
