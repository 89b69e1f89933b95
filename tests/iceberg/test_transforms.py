"""Partition transforms (iceberg 3.10-3.17): values follow the specification, and projections never lose a row."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicate_values import evaluate

from harness.errors import UnsupportedError
from harness.metadata.filters.predicate import Comparison, Constant, In, IsNan, IsNull, Op, Or, StartsWith
from harness.metadata.iceberg.skipping import project
from harness.metadata.iceberg.transforms import (
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    Truncate,
    UnknownTransform,
    Void,
    Year,
    apply,
    buckets_of,
    result_type,
)
from harness.metadata.model import schema as dt

INT, LONG, STRING, DATE = dt.IntegerType(32), dt.IntegerType(64), dt.StringType(), dt.DateType()
MICROS, NANOS = dt.TimestampType("us"), dt.TimestampType("ns", utc=True)
DAY_US = 86_400_000_000


@given(st.lists(st.binary(max_size=20)), st.integers(1, 100))
def test_buckets_of_many_values_equal_those_of_single_values(values, number):
    bucket = Bucket(number)
    single, many = apply(bucket, dt.BinaryType()), buckets_of(bucket, dt.BinaryType())
    assert many(pa.array(values, pa.binary())).to_pylist() == [single(value) for value in values]


@pytest.mark.parametrize(
    ("transform", "type_", "value", "expected"),
    [
        (Truncate(10), INT, -1, -10),
        (Truncate(10), INT, -(2**31), 2**31 - 2),  # Java overflows: -2147483650 as 32 bits
        (Truncate(50), dt.DecimalType(9, 2), Decimal("10.65"), Decimal("10.50")),
        (Truncate(10), dt.DecimalType(9, 2), Decimal("-0.05"), Decimal("-0.10")),
        (Truncate(1), dt.DecimalType(38, 0), Decimal(10**38 - 1), Decimal(10**38 - 1)),
        (Truncate(2), STRING, "😀😁😂", "😀😁"),
        (Truncate(3), dt.BinaryType(), b"\x01\x02\x03\x04", b"\x01\x02\x03"),
        (Year(), DATE, -1, -1),
        (Month(), DATE, -1, -1),
        (Day(), DATE, -1, -1),
        (Month(), DATE, (datetime.date(2000, 2, 29) - datetime.date(1970, 1, 1)).days, 361),
        (Year(), DATE, -719_528, -1970),  # year 0, which datetime does not support
        (Hour(), MICROS, -1, -1),
        (Day(), MICROS, -1, -1),
        (Month(), MICROS, -1, -1),
        (Year(), MICROS, -1, -1),
        (Void(), INT, 1, None),
    ],
    ids=str,
)
def test_apply(transform, type_, value, expected):
    assert apply(transform, type_)(value) == expected
    assert apply(transform, type_)(None) is None


@pytest.mark.parametrize(
    ("transform", "type_"),
    [(Bucket(4), dt.FloatType(64)), (Bucket(4), dt.BooleanType()), (Hour(), DATE), (UnknownTransform("x"), INT)],
    ids=str,
)
def test_apply_refuses_what_is_not_defined(transform, type_):
    with pytest.raises(UnsupportedError, match=r"Cannot apply transform .* to a column of type"):
        apply(transform, type_)


def _field(type_):
    return dt.Field(id=1, name="c", type=type_)


TARGET = dt.Field(id=1000, name="p", type=INT)


@pytest.mark.parametrize(
    ("transform", "type_", "part", "expected"),
    [
        (Month(), DATE, (Op.LT, 31), Comparison(TARGET, Op.LE, 0)),  # before 1 February: January (trap T13)
        (Month(), DATE, (Op.LE, 31), Comparison(TARGET, Op.LE, 1)),
        (Month(), DATE, (Op.GT, 30), Comparison(TARGET, Op.GE, 1)),
        (Month(), DATE, (Op.EQ, 31), Comparison(TARGET, Op.EQ, 1)),
        (Month(), DATE, (Op.NE, 31), Constant(True)),
        (Month(), DATE, (Op.EQ, -1), In(TARGET, (-1, 0))),
        (Day(), MICROS, (Op.LE, -1), Comparison(TARGET, Op.LE, 0)),
        (Day(), MICROS, (Op.GE, -1), Comparison(TARGET, Op.GE, -1)),
        (Day(), DATE, (Op.EQ, -1), Comparison(TARGET, Op.EQ, -1)),
        (Bucket(16), INT, (Op.EQ, 34), Comparison(TARGET, Op.EQ, 2017239379 % 16)),
        (Bucket(16), INT, (Op.LT, 34), Constant(True)),
        (Truncate(10), dt.DecimalType(9, 2), (Op.LT, Decimal("1.00")), Comparison(TARGET, Op.LE, Decimal("0.90"))),
        (Truncate(10), dt.DecimalType(9, 2), (Op.LT, Decimal("1.005")), Constant(True)),
        (Truncate(10), INT, (Op.GT, 8), Comparison(TARGET, Op.GE, 0)),
        (Truncate(10), INT, (Op.GT, 9), Comparison(TARGET, Op.GE, 10)),
        (Truncate(4), INT, (Op.LT, 9), Or((Comparison(TARGET, Op.LE, 8), In(TARGET, (-(2**31), -(2**63)))))),
        (Truncate(2), STRING, (Op.LT, "abc"), Comparison(TARGET, Op.LE, "ab")),
        (Truncate(2), STRING, (Op.GT, "abc"), Comparison(TARGET, Op.GE, "ab")),
        (Identity(), STRING, (Op.GT, "abc"), Comparison(TARGET, Op.GT, "abc")),
        (Void(), INT, (Op.EQ, 1), Constant(True)),
        (UnknownTransform("x"), INT, (Op.EQ, 1), Constant(True)),
        (Hour(), DATE, (Op.EQ, 1), Constant(True)),
        (Truncate(10), INT, (Op.EQ, "not a number"), Constant(True)),
    ],
    ids=str,
)
def test_project_comparison(transform, type_, part, expected):
    assert project(transform, _field(type_), Comparison(_field(type_), *part), TARGET) == expected


def _around(*points):
    return st.one_of(*(st.integers(p - 3, p + 3) for p in points))


LONGS = st.one_of(st.integers(-40, 40), _around(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
EDGES = (0, -DAY_US, DAY_US, 31 * DAY_US, -31 * DAY_US, -365 * DAY_US)
INSTANTS = st.one_of(_around(*EDGES), st.integers(-(2**62), 2**62))
TEXTS = st.text(alphabet="aäﬀ😀😁\U0010ffff", max_size=4)
UNSCALED = st.one_of(st.integers(-200, 200), st.integers(-(10**38) + 1, 10**38 - 1))
DECIMALS = UNSCALED.map(lambda n: dt.from_unscaled(n, 2))
WIDTHS = st.sampled_from([1, 2, 3, 7, 10, 1000])
TIMES = st.sampled_from([Year(), Month(), Day(), Hour()])

CASES = st.one_of(
    st.tuples(st.just(LONG), LONGS, st.one_of(WIDTHS.map(Truncate), WIDTHS.map(Bucket), st.just(Identity()))),
    st.tuples(st.just(INT), st.one_of(_around(-(2**31) + 3, 0)), WIDTHS.map(Truncate)),
    st.tuples(st.just(STRING), TEXTS, st.one_of(WIDTHS.map(Truncate), WIDTHS.map(Bucket), st.just(Identity()))),
    st.tuples(st.just(dt.BinaryType()), st.binary(max_size=4), st.one_of(WIDTHS.map(Truncate), WIDTHS.map(Bucket))),
    st.tuples(st.just(dt.DecimalType(38, 2)), DECIMALS, st.one_of(WIDTHS.map(Truncate), WIDTHS.map(Bucket))),
    st.tuples(st.just(MICROS), INSTANTS, st.one_of(TIMES, WIDTHS.map(Bucket))),
    st.tuples(st.just(NANOS), INSTANTS, st.one_of(TIMES, WIDTHS.map(Bucket))),
    st.tuples(st.just(DATE), st.integers(-1_000_000, 1_000_000), TIMES.filter(lambda t: t != Hour())),
    st.tuples(st.just(DATE), st.integers(-70, 70), TIMES.filter(lambda t: t != Hour())),
    st.tuples(st.just(dt.FloatType(64)), st.floats(), st.just(Identity())),
)
LITERALS = {
    LONG: LONGS,
    INT: _around(-(2**31) + 3, 0),
    STRING: TEXTS,
    dt.BinaryType(): st.binary(max_size=4),
    dt.DecimalType(38, 2): DECIMALS,
    MICROS: INSTANTS,
    NANOS: INSTANTS,
    DATE: st.one_of(st.integers(-70, 70), st.integers(-1_000_000, 1_000_000)),
    dt.FloatType(64): st.floats(),
}


@st.composite
def leaves(draw, field, value):
    """A predicate on `field`, with literals that are often equal or close to its value."""
    near = [value] if value is not None else []
    if isinstance(value, int):
        near += [value - 1, value + 1]
    literal = draw(st.one_of(st.sampled_from(near), LITERALS[field.type]) if near else LITERALS[field.type])
    negated = draw(st.booleans())
    choices = [
        st.sampled_from(Op).map(lambda op: Comparison(field, op, literal)),
        st.lists(LITERALS[field.type], max_size=3).map(lambda v: In(field, (*v, literal), negated)),
        st.just(IsNull(field, negated)),
    ]
    if field.type == STRING:
        choices.append(st.just(StartsWith(field, literal, negated)))
    if isinstance(field.type, dt.FloatType):
        choices.append(st.just(IsNan(field, negated)))
    return draw(st.one_of(choices))


@given(st.data())
def test_projection_never_loses_a_row(data):
    type_, value, transform = data.draw(CASES)
    value = data.draw(st.sampled_from([value, value, value, None]))
    field = _field(type_)
    part = data.draw(leaves(field, value))
    target = dt.Field(id=1000, name="p", type=result_type(transform, type_))
    partition = apply(transform, type_)(value)
    if evaluate(part, lambda _: value) is True:
        assert evaluate(project(transform, field, part, target), lambda _: partition) is True
