"""A filter against the statistics of many files: the answer of `may_match` for each, lies of writers included."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metadata.filters import predicate as pred
from harness.metadata.iceberg.columns.entries import BOUNDS as BOUND_NAMES
from harness.metadata.iceberg.columns.entries import COUNTS as COUNT_NAMES
from harness.metadata.iceberg.columns.entries import from_entries
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.skipping import decode_bounds, may_hold, stats_of
from harness.metadata.iceberg.values import decode_bound
from harness.metadata.model import schema as dt

INT = dt.Field(id=1, name="i", type=dt.IntegerType(64))
TEXT = dt.Field(id=2, name="s", type=dt.StringType())
PRICE = dt.Field(id=3, name="f", type=dt.FloatType(64))
DAY = dt.Field(id=4, name="d", type=dt.DateType())
AT = dt.Field(id=5, name="t", type=dt.TimestampType("us"))
EXACT = dt.Field(id=6, name="n", type=dt.DecimalType(9, 2))
KEY = dt.Field(id=7, name="u", type=dt.UuidType())
FIELDS = (INT, TEXT, PRICE, DAY, AT, EXACT, KEY)

LITERALS = {
    1: st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    2: st.sampled_from(["", "a", "ab", "b", "a" * 16, "a" * 17, "\U0001f600", "\uffff"]),
    3: st.sampled_from([math.nan, -math.inf, -1.0, -0.0, 0.0, 1.5, math.inf]),
    4: st.integers(-3, 3),
    5: st.sampled_from([-1, 0, 86_400_000_000, 5]),
    6: st.sampled_from([Decimal("-1.00"), Decimal("0.00"), Decimal("1.25")]),
    7: st.sampled_from([bytes(16), b"\xff" * 16]),
}
COUNTS = st.sampled_from([None, None, 0, 1, 3, 5, -1, 2**62])


def encoded(field, value):
    match field.type:
        case dt.IntegerType() | dt.TimestampType():
            return struct.pack("<q", value)
        case dt.DateType():
            return struct.pack("<i", value)
        case dt.FloatType():
            return struct.pack("<d", value)
        case dt.DecimalType():
            return int(value.scaleb(2)).to_bytes(4, "big", signed=True)
        case dt.StringType():
            return value.encode()
        case _:
            return value


def bound(field):
    odd = st.sampled_from([b"", b"\x01", b"\xff\xff\xff\x7f", bytes(8), b"\xf0\x9f"])
    return st.one_of(st.none(), LITERALS[field.id].map(lambda value: encoded(field, value)), odd)


@st.composite
def entries(draw):
    stats = {}
    for name in (*COUNT_NAMES, *BOUND_NAMES):
        values = {field.id: draw(COUNTS if name in COUNT_NAMES else bound(field)) for field in FIELDS}
        stats[name] = {id_: value for id_, value in values.items() if value is not None}
    file = DataFile(
        content=Content.DATA,
        path="f",
        format="parquet",
        spec_id=0,
        partition={},
        record_count=draw(st.sampled_from([None, 0, 3, 5])),
        size=1,
        **stats,
    )
    return ManifestEntry(Status.ADDED, None, 1, None, file, "m.avro")


def leaf(field):
    values = LITERALS[field.id]
    return st.one_of(
        st.builds(pred.Comparison, st.just(field), st.sampled_from(pred.Op), values | st.none()),
        st.builds(pred.In, st.just(field), st.lists(values, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(pred.IsNull, st.just(field), st.booleans()),
        st.builds(pred.IsNan, st.just(PRICE), st.booleans()),
        st.builds(pred.StartsWith, st.just(TEXT), LITERALS[2], st.booleans()),
    )


PREDICATES = st.recursive(
    st.one_of(st.sampled_from(FIELDS).flatmap(leaf), st.just(pred.Undecided()), st.booleans().map(pred.Constant)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([pred.And(tuple(parts)), pred.Or(tuple(parts))])
    ),
    max_leaves=4,
)


def of_one(files, place, predicate, nested):
    """What the rules for one file say; None is nothing known, which is so where no statistic names the column."""
    known = files.table.slice(place, 1).to_pylist()[0]

    def stats(field):
        named = [value for name, value in known.items() if name.endswith(f".{field.id}")]
        found = stats_of(files, place, field, is_nested=field.id in nested)
        return None if all(value is None for value in named) else found

    is_unknown = known["record_count"] is None and bool(pred.fields_of(predicate))
    return is_unknown or pred.may_match(predicate, stats)


@given(st.lists(entries(), min_size=1, max_size=5), PREDICATES, st.booleans())
def test_many_files_are_decided_as_each_of_them(drawn, predicate, within_structs):
    files = from_entries(drawn, tuple(f.id for f in FIELDS), manifest=0)
    nested = frozenset(f.id for f in FIELDS) if within_structs else frozenset()
    places = np.arange(len(drawn))
    found = may_hold(files, nested, pred.Or((predicate, pred.And((predicate, pred.Undecided())))), places)
    assert found.tolist() == [of_one(files, place, predicate, nested) for place in places.tolist()]


BYTES = (None, b"", b"\x01", struct.pack("<i", -7), struct.pack("<q", 2**40), struct.pack("<d", math.nan), b"ab")


def of_all(type_, given):
    return decode_bounds(pa.chunked_array([pa.array(given, pa.binary())]), type_)


@pytest.mark.parametrize(
    "type_",
    [
        pytest.param(type_, id=str(type_))
        for type_ in (
            *(dt.IntegerType(bits) for bits in (32, 64)),
            *(dt.FloatType(bits) for bits in (32, 64)),
            *(dt.TimestampType(unit) for unit in ("us", "ns")),
            dt.DateType(),
            dt.TimeType("us"),
        )
    ],
)
def test_bounds_are_decoded_as_each_of_them(type_):
    found = of_all(type_, BYTES)
    values = zip(found.values.tolist(), found.known.tolist(), strict=True)
    expected = [None if value is None else decode_bound(type_, value) for value in BYTES]
    assert repr([value if known else None for value, known in values]) == repr(expected)


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        pytest.param(dt.BinaryType(), b"a", id="a-type-without-arrays"),
        pytest.param(dt.StringType(), b"\xf0\x9f", id="a-text-cut-inside-a-character"),
        pytest.param(dt.TimestampType("us"), b"\xff\xff\xff\x7f", id="days-beyond-64-bits-of-microseconds"),
    ],
)
def test_what_arrays_cannot_hold_is_decoded_one_by_one(type_, given):
    assert of_all(type_, [given]) is None
