"""Predicates: SQL's three-valued logic, and what may be concluded from column statistics."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from harness.metadata.filters.predicate import (
    And,
    ColumnStats,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    evaluate,
    may_match,
    negate,
)
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StringType,
    Type,
    UuidType,
    VariantType,
)

NAN = math.nan


def field(type_: Type, id_: int = 1) -> Field:
    return Field(id=id_, name=f"c{id_}", type=type_)


INT, DOUBLE, STRING, BYTES, UUID = (
    field(t) for t in (IntegerType(64), FloatType(64), StringType(), BinaryType(), UuidType())
)
DECIMAL = field(DecimalType(38, 10))
UNKNOWN = Comparison(INT, Op.EQ, 1)  # of a null


@pytest.mark.parametrize(
    ("predicate", "value", "expected"),
    [
        pytest.param(Comparison(INT, Op.NE, 1), None, None, id="null-is-unknown"),
        pytest.param(Comparison(INT, Op.NE, 1), 2, True, id="ne"),
        pytest.param(In(INT, (1, 2)), 2, True, id="in"),
        pytest.param(In(INT, (1, 2), negated=True), 2, False, id="not-in"),
        pytest.param(In(INT, (1, 2), negated=True), None, None, id="not-in-null"),
        pytest.param(IsNull(INT), None, True, id="is-null"),
        pytest.param(IsNull(INT, negated=True), None, False, id="is-not-null"),
        pytest.param(IsNan(DOUBLE), NAN, True, id="isnan"),
        pytest.param(IsNan(DOUBLE, negated=True), None, None, id="not-isnan-null"),
        pytest.param(Comparison(DOUBLE, Op.GT, math.inf), NAN, True, id="nan-is-above-infinity"),
        pytest.param(Comparison(DOUBLE, Op.EQ, NAN), NAN, True, id="nan-equals-nan"),
        pytest.param(Comparison(DOUBLE, Op.LT, NAN), math.inf, True, id="infinity-is-below-nan"),
        pytest.param(Comparison(DOUBLE, Op.GE, NAN), 1.0, False, id="number-is-below-nan"),
        pytest.param(In(DOUBLE, (NAN,)), NAN, True, id="nan-in-list"),
        pytest.param(Comparison(DOUBLE, Op.EQ, 0.0), -0.0, True, id="zeros-are-equal"),
        pytest.param(Comparison(STRING, Op.LT, "\U0001f600"), "\uffff", True, id="code-points-not-utf16"),
        pytest.param(Comparison(BYTES, Op.GT, b"\x7f"), b"\x80", True, id="bytes-are-unsigned"),
        pytest.param(
            Comparison(DECIMAL, Op.LT, Decimal("9" * 28 + ".0000000001")), Decimal("9" * 28), True, id="decimal"
        ),
        pytest.param(StartsWith(STRING, "ab"), "abc", True, id="starts"),
        pytest.param(StartsWith(STRING, "ab", negated=True), "a", True, id="not-starts"),
        pytest.param(And((UNKNOWN, Constant(False))), None, False, id="unknown-and-false"),
        pytest.param(And((UNKNOWN, Constant(True))), None, None, id="unknown-and-true"),
        pytest.param(Or((UNKNOWN, Constant(True))), None, True, id="unknown-or-true"),
        pytest.param(Or((UNKNOWN, Constant(False))), None, None, id="unknown-or-false"),
        pytest.param(Undecided(), 1, True, id="undecided-may-be-true"),
    ],
)
def test_evaluation_is_sqls(predicate: Predicate, value: Any, expected: bool | None) -> None:
    assert evaluate(predicate, lambda _: value) is expected


LEAVES: list[Predicate] = [
    *(Comparison(DOUBLE, op, value) for op in Op for value in (1.0, NAN)),
    In(DOUBLE, (1.0, NAN)),
    IsNull(DOUBLE),
    IsNan(DOUBLE),
    Constant(True),
    Constant(None),
    And((IsNull(DOUBLE), Constant(None))),
    Or((Comparison(DOUBLE, Op.LT, 1.0), IsNan(DOUBLE))),
]


@pytest.mark.parametrize("predicate", LEAVES, ids=repr)
@pytest.mark.parametrize("value", [None, NAN, 0.0, 1.0, 2.0])
def test_negation_swaps_true_and_false_only(predicate: Predicate, value: float | None) -> None:
    expected = {True: False, False: True, None: None}[evaluate(predicate, lambda _: value)]
    assert evaluate(negate(predicate), lambda _: value) is expected


# Pruning. `stats` are lower, upper, null count, NaN count, value count.

KEEP, SKIP = True, False


def eq(f: Field, value: Any) -> Predicate:
    return Comparison(f, Op.EQ, value)


@pytest.mark.parametrize(
    ("predicate", "stats", "expected"),
    [
        pytest.param(eq(INT, 4), (5, 9), SKIP, id="below"),
        pytest.param(eq(INT, 5), (5, 9), KEEP, id="at-lower"),
        pytest.param(eq(INT, 10), (5, 9), SKIP, id="above"),
        pytest.param(eq(INT, 10), (5, None), KEEP, id="no-upper"),
        pytest.param(eq(INT, 10), (9, 5), KEEP, id="inverted-3.25"),
        pytest.param(eq(INT, 10), ("5", "9"), KEEP, id="wrong-class-3.23"),
        pytest.param(eq(INT, 10), (None, None, 3, None, 3), SKIP, id="all-null-3.19"),
        pytest.param(eq(INT, 10), (None, None, 0, None, 0), KEEP, id="counts-of-nothing-T12"),
        pytest.param(eq(INT, 10), (None, None, 4, None, 3), KEEP, id="more-nulls-than-values"),
        pytest.param(eq(INT, None), (5, 9), SKIP, id="null-literal"),
        pytest.param(Comparison(INT, Op.LT, 5), (5, 9), SKIP, id="lt"),
        pytest.param(Comparison(INT, Op.LE, 5), (5, 9), KEEP, id="le"),
        pytest.param(Comparison(INT, Op.LE, 4), (5, 9), SKIP, id="le-below"),
        pytest.param(Comparison(INT, Op.GT, 9), (5, 9), SKIP, id="gt"),
        pytest.param(Comparison(INT, Op.GE, 9), (5, 9), KEEP, id="ge"),
        pytest.param(Comparison(INT, Op.GE, 10), (5, 9), SKIP, id="ge-above"),
        pytest.param(Comparison(INT, Op.NE, 5), (5, 5), SKIP, id="ne-only-value"),
        pytest.param(Comparison(INT, Op.NE, 5), (5, 5, 1, None, 2), SKIP, id="ne-nulls-do-not-match"),
        pytest.param(Comparison(INT, Op.NE, 5), (5, 6), KEEP, id="ne-range"),
        pytest.param(In(INT, (1, 2)), (5, 9), SKIP, id="in"),
        pytest.param(In(INT, (1, 7)), (5, 9), KEEP, id="in-hit"),
        pytest.param(In(INT, tuple(range(-200, 0))), (5, 9), SKIP, id="in-200"),
        pytest.param(In(INT, tuple(range(-201, 0))), (5, 9), KEEP, id="in-201-3.25"),
        pytest.param(In(INT, (5, 6), negated=True), (5, 5), SKIP, id="not-in"),
        pytest.param(In(INT, (6, 7), negated=True), (5, 5), KEEP, id="not-in-other"),
        pytest.param(IsNull(INT), (5, 9, 0), SKIP, id="no-nulls"),
        pytest.param(IsNull(INT), (5, 9, None), KEEP, id="null-count-unknown-T12"),
        pytest.param(IsNull(INT, negated=True), (None, None, 3, None, 3), SKIP, id="only-nulls"),
        pytest.param(IsNull(INT, negated=True), (None, None, 3, None, None), KEEP, id="value-count-unknown"),
        pytest.param(Comparison(field(BooleanType()), Op.EQ, True), (False, False), SKIP, id="boolean"),
        pytest.param(eq(DECIMAL, Decimal("1.1")), (Decimal("1.2"), Decimal("9" * 30)), SKIP, id="decimal"),
        pytest.param(eq(field(VariantType()), "a"), ("b", "c"), KEEP, id="no-order-3.24"),
    ],
)
def test_pruning(predicate: Predicate, stats: tuple[Any, ...], expected: bool) -> None:
    assert may_match(predicate, lambda _: ColumnStats(*stats)) is expected


@pytest.mark.parametrize(
    ("op", "value", "unknown", "no_nans", "some_nans"),
    [
        # Bounds [3, 3] leave NaN out; NaN is above 3 (iceberg 3.21, T15; delta F8).
        (Op.GT, 3.0, KEEP, SKIP, KEEP),
        (Op.GE, 4.0, KEEP, SKIP, KEEP),
        (Op.NE, 3.0, KEEP, SKIP, KEEP),
        (Op.EQ, NAN, KEEP, SKIP, KEEP),
        (Op.GE, NAN, KEEP, SKIP, KEEP),
        (Op.EQ, 4.0, SKIP, SKIP, SKIP),
        (Op.LT, 3.0, SKIP, SKIP, SKIP),
        (Op.LE, 2.0, SKIP, SKIP, SKIP),
        (Op.GT, NAN, SKIP, SKIP, SKIP),
        (Op.LT, NAN, KEEP, KEEP, KEEP),
        (Op.LE, NAN, KEEP, KEEP, KEEP),
        (Op.NE, NAN, KEEP, KEEP, KEEP),
    ],
)
def test_pruning_of_floats_minds_nan(op: Op, value: float, unknown: bool, no_nans: bool, some_nans: bool) -> None:
    for nan_count, expected in ((None, unknown), (0, no_nans), (1, some_nans)):
        stats = ColumnStats(3.0, 3.0, 0, nan_count, 3)
        assert may_match(Comparison(DOUBLE, op, value), lambda _, stats=stats: stats) is expected


@pytest.mark.parametrize(
    ("predicate", "stats", "expected"),
    [
        pytest.param(IsNan(DOUBLE), (1.0, 2.0, 0, 0, 2), SKIP, id="no-nan"),
        pytest.param(IsNan(DOUBLE), (1.0, 2.0, 0, None, 2), KEEP, id="nan-unknown"),
        pytest.param(IsNan(DOUBLE, negated=True), (None, None, 1, 2, 3), SKIP, id="only-nan-and-null"),
        pytest.param(IsNan(DOUBLE, negated=True), (None, None, 1, 1, 3), KEEP, id="some-numbers"),
        pytest.param(Comparison(DOUBLE, Op.LT, 5.0), (None, None, 1, 2, 3), SKIP, id="lt-only-nan"),
        pytest.param(Comparison(DOUBLE, Op.GT, 5.0), (None, None, 1, 2, 3), KEEP, id="gt-only-nan"),
        pytest.param(eq(DOUBLE, 5.0), (1.0, NAN, 0, 0, 3), KEEP, id="nan-bound-is-unknown"),
        pytest.param(eq(DOUBLE, 0.0), (-0.0, -0.0, 0, 0, 3), KEEP, id="negative-zero"),
        pytest.param(In(DOUBLE, (3.0,), negated=True), (3.0, 3.0, 0, None, 2), KEEP, id="not-in-nan-unknown"),
        pytest.param(In(DOUBLE, (3.0,), negated=True), (3.0, 3.0, 0, 0, 2), SKIP, id="not-in-no-nan"),
    ],
)
def test_pruning_of_floats(predicate: Predicate, stats: tuple[Any, ...], expected: bool) -> None:
    assert may_match(predicate, lambda _: ColumnStats(*stats)) is expected


@pytest.mark.parametrize(
    ("predicate", "lower", "upper", "expected"),
    [
        pytest.param(StartsWith(STRING, "ab"), "ac", "b", SKIP, id="all-above"),
        pytest.param(StartsWith(STRING, "ab"), "a", "aa", SKIP, id="all-below"),
        pytest.param(StartsWith(STRING, "ab"), "abx", "abz", KEEP, id="inside"),
        pytest.param(StartsWith(STRING, "abc"), "ab", "ad", KEEP, id="lower-is-shorter"),
        pytest.param(StartsWith(STRING, "abc"), "a", "ab", SKIP, id="upper-is-shorter"),
        pytest.param(StartsWith(STRING, "ab"), None, None, KEEP, id="no-bounds"),
        pytest.param(StartsWith(STRING, "ab", negated=True), "abx", "abz", SKIP, id="not-all-start"),
        pytest.param(StartsWith(STRING, "abc", negated=True), "ab", "abd", KEEP, id="not-prefix-is-longer-T16"),
        pytest.param(StartsWith(STRING, "ab", negated=True), "abx", None, KEEP, id="not-no-upper"),
        pytest.param(StartsWith(STRING, "\uffff"), "\U0001f600", "\U0001f601", SKIP, id="astral-T16"),
        pytest.param(Comparison(STRING, Op.NE, "a" * 15), "a" * 15, "a" * 15, SKIP, id="ne-short"),
        pytest.param(Comparison(STRING, Op.NE, "a" * 16), "a" * 16, "a" * 16, KEEP, id="ne-may-be-cut-3.20"),
    ],
)
def test_pruning_of_strings(predicate: Predicate, lower: str | None, upper: str | None, expected: bool) -> None:
    assert may_match(predicate, lambda _: ColumnStats(lower, upper, 0, None, 5)) is expected


@pytest.mark.parametrize(
    ("op", "low", "high", "expected"),
    [
        (Op.EQ, 1, 2, KEEP),  # outside of the bounds, but their order is not certain (iceberg 3.3)
        (Op.EQ, 1, 1, SKIP),
        (Op.EQ, 9, 9, KEEP),
        (Op.NE, 9, 9, SKIP),
        (Op.LT, 10, 20, KEEP),
        (Op.GT, 1, 2, KEEP),
    ],
)
def test_pruning_of_uuids_is_by_equality_only(op: Op, low: int, high: int, expected: bool) -> None:
    stats = ColumnStats(low.to_bytes(16, "big"), high.to_bytes(16, "big"), 0, None, 5)
    assert may_match(Comparison(UUID, op, (9).to_bytes(16, "big")), lambda _: stats) is expected
