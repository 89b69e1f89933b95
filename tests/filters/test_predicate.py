"""Predicates: SQL's three-valued logic, and what may be concluded from column statistics."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.metadata.filters import predicate as pred
from harness.metadata.model import schema as dt

NAN = math.nan


def field(type_: dt.Type, id_: int = 1) -> dt.Field:
    return dt.Field(id=id_, name=f"c{id_}", type=type_)


INT, DOUBLE, STRING, BYTES, UUID = (
    field(t) for t in (dt.IntegerType(64), dt.FloatType(64), dt.StringType(), dt.BinaryType(), dt.UuidType())
)


# Pruning. `stats` are lower, upper, null count, NaN count, value count.

KEEP, SKIP = True, False


def eq(f: dt.Field, value: Any) -> pred.Predicate:
    return pred.Comparison(f, pred.Op.EQ, value)


@pytest.mark.parametrize(
    ("op", "value", "unknown", "no_nans", "some_nans"),
    [
        # Bounds [3, 3] leave NaN out; NaN is above 3 (iceberg 3.21, T15; delta F8).
        (pred.Op.GT, 3.0, KEEP, SKIP, KEEP),
        (pred.Op.GE, 4.0, KEEP, SKIP, KEEP),
        (pred.Op.NE, 3.0, KEEP, SKIP, KEEP),
        (pred.Op.EQ, NAN, KEEP, SKIP, KEEP),
        (pred.Op.GE, NAN, KEEP, SKIP, KEEP),
        (pred.Op.EQ, 4.0, SKIP, SKIP, SKIP),
        (pred.Op.LT, 3.0, SKIP, SKIP, SKIP),
        (pred.Op.LE, 2.0, SKIP, SKIP, SKIP),
        (pred.Op.GT, NAN, SKIP, SKIP, SKIP),
        (pred.Op.LT, NAN, KEEP, KEEP, KEEP),
        (pred.Op.LE, NAN, KEEP, KEEP, KEEP),
        (pred.Op.NE, NAN, KEEP, KEEP, KEEP),
    ],
)
def test_pruning_of_floats_minds_nan(op: pred.Op, value: float, unknown: bool, no_nans: bool, some_nans: bool) -> None:
    for nan_count, expected in ((None, unknown), (0, no_nans), (1, some_nans)):
        stats = pred.ColumnStats(3.0, 3.0, 0, nan_count, 3)
        assert pred.may_match(pred.Comparison(DOUBLE, op, value), lambda _, stats=stats: stats) is expected


@pytest.mark.parametrize(
    ("predicate", "stats", "expected"),
    [
        pytest.param(pred.IsNan(DOUBLE), (1.0, 2.0, 0, 0, 2), SKIP, id="no-nan"),
        pytest.param(pred.IsNan(DOUBLE), (1.0, 2.0, 0, None, 2), KEEP, id="nan-unknown"),
        pytest.param(pred.IsNan(DOUBLE, negated=True), (None, None, 1, 2, 3), SKIP, id="only-nan-and-null"),
        pytest.param(pred.IsNan(DOUBLE, negated=True), (None, None, 1, 1, 3), KEEP, id="some-numbers"),
        pytest.param(pred.Comparison(DOUBLE, pred.Op.LT, 5.0), (None, None, 1, 2, 3), SKIP, id="lt-only-nan"),
        pytest.param(pred.Comparison(DOUBLE, pred.Op.GT, 5.0), (None, None, 1, 2, 3), KEEP, id="gt-only-nan"),
        pytest.param(eq(DOUBLE, 5.0), (1.0, NAN, 0, 0, 3), KEEP, id="nan-bound-is-unknown"),
        pytest.param(eq(DOUBLE, 0.0), (-0.0, -0.0, 0, 0, 3), KEEP, id="negative-zero"),
        pytest.param(pred.In(DOUBLE, (3.0,), negated=True), (3.0, 3.0, 0, None, 2), KEEP, id="not-in-nan-unknown"),
        pytest.param(pred.In(DOUBLE, (3.0,), negated=True), (3.0, 3.0, 0, 0, 2), SKIP, id="not-in-no-nan"),
    ],
)
def test_pruning_of_floats(predicate: pred.Predicate, stats: tuple[Any, ...], expected: bool) -> None:
    assert pred.may_match(predicate, lambda _: pred.ColumnStats(*stats)) is expected


@pytest.mark.parametrize(
    ("predicate", "lower", "upper", "expected"),
    [
        pytest.param(pred.StartsWith(STRING, "ab"), "ac", "b", SKIP, id="all-above"),
        pytest.param(pred.StartsWith(STRING, "ab"), "a", "aa", SKIP, id="all-below"),
        pytest.param(pred.StartsWith(STRING, "ab"), "abx", "abz", KEEP, id="inside"),
        pytest.param(pred.StartsWith(STRING, "abc"), "ab", "ad", KEEP, id="lower-is-shorter"),
        pytest.param(pred.StartsWith(STRING, "abc"), "a", "ab", SKIP, id="upper-is-shorter"),
        pytest.param(pred.StartsWith(STRING, "ab"), None, None, KEEP, id="no-bounds"),
        pytest.param(pred.StartsWith(STRING, "ab", negated=True), "abx", "abz", SKIP, id="not-all-start"),
        pytest.param(pred.StartsWith(STRING, "abc", negated=True), "ab", "abd", KEEP, id="not-prefix-is-longer-T16"),
        pytest.param(pred.StartsWith(STRING, "ab", negated=True), "abx", None, KEEP, id="not-no-upper"),
        pytest.param(pred.StartsWith(STRING, "\uffff"), "\U0001f600", "\U0001f601", SKIP, id="astral-T16"),
        pytest.param(pred.Comparison(STRING, pred.Op.NE, "a" * 15), "a" * 15, "a" * 15, SKIP, id="ne-short"),
        pytest.param(pred.Comparison(STRING, pred.Op.NE, "a" * 16), "a" * 16, "a" * 16, KEEP, id="ne-may-be-cut-3.20"),
    ],
)
def test_pruning_of_strings(predicate: pred.Predicate, lower: str | None, upper: str | None, expected: bool) -> None:
    assert pred.may_match(predicate, lambda _: pred.ColumnStats(lower, upper, 0, None, 5)) is expected


@pytest.mark.parametrize(
    ("op", "low", "high", "expected"),
    [
        (pred.Op.EQ, 1, 2, KEEP),  # outside of the bounds, but their order is not certain (iceberg 3.3)
        (pred.Op.EQ, 1, 1, SKIP),
        (pred.Op.EQ, 9, 9, KEEP),
        (pred.Op.NE, 9, 9, SKIP),
        (pred.Op.LT, 10, 20, KEEP),
        (pred.Op.GT, 1, 2, KEEP),
    ],
)
def test_pruning_of_uuids_is_by_equality_only(op: pred.Op, low: int, high: int, expected: bool) -> None:
    stats = pred.ColumnStats(low.to_bytes(16, "big"), high.to_bytes(16, "big"), 0, None, 5)
    assert pred.may_match(pred.Comparison(UUID, op, (9).to_bytes(16, "big")), lambda _: stats) is expected
