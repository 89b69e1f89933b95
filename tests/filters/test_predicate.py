"""Predicates: SQL's three-valued logic, and what may be concluded from column statistics."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from harness.metadata.filters.predicate import (
    ColumnStats,
    Comparison,
    In,
    IsNan,
    IsNull,
    Op,
    Predicate,
    StartsWith,
    may_match,
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
