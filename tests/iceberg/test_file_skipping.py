"""Pruning (iceberg 3.4, 3.14-3.25): what may be skipped is skipped, and no row is ever lost."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    StartsWith,
    Undecided,
    evaluate,
    fields_of,
)
from harness.metadata.iceberg import skipping
from harness.metadata.iceberg.columns.entries import from_entries
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.model import PartitionField, PartitionSpec
from harness.metadata.iceberg.skipping import decidable, nested_columns, partition_filter
from harness.metadata.iceberg.transforms import (
    Bucket,
    Day,
    Identity,
    Truncate,
    UnknownTransform,
    Void,
    apply,
    parse_transform,
)
from harness.metadata.model.schema import (
    Field,
    FloatType,
    IntegerType,
    ListType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    UuidType,
)

ID = Field(id=1, name="id", type=IntegerType(64))
NAME = Field(id=2, name="name", type=StringType())
PRICE = Field(id=3, name="price", type=FloatType(64))
AT = Field(id=4, name="at", type=TimestampType("us"))
ITEM = Field(id=6, name="element", type=IntegerType(64))
ITEMS = Field(id=5, name="items", type=ListType(ITEM))
INNER = Field(id=8, name="inner", type=IntegerType(64))
OUTER = Field(id=7, name="outer", type=StructType((INNER,)))
KEY = Field(id=9, name="key", type=UuidType())
SCHEMA = Schema(fields=(ID, NAME, PRICE, AT, ITEMS, OUTER, KEY))
ELSEWHERE = Field(id=2147483540, name="_row_id", type=IntegerType(64))


def _spec(*fields):
    return PartitionSpec(
        1,
        tuple(
            PartitionField(field_id=1000 + i, source_id=source, source_ids=(source,), name=f"p{i}", transform=transform)
            for i, (source, transform) in enumerate(fields)
        ),
    )


def eq(field, value):
    return Comparison(field, Op.EQ, value)


@pytest.mark.parametrize(
    ("fields", "predicate", "values", "kept"),
    [
        ([(1, Identity())], eq(ID, 1), {1000: 1}, True),
        ([(1, Identity())], eq(ID, 1), {1000: 2}, False),
        ([(1, Identity())], eq(ID, 1), {1000: None}, False),
        ([(1, Identity())], Comparison(ID, Op.NE, 1), {1000: None}, False),
        ([(1, Identity())], IsNull(ID), {1000: None}, True),
        ([(1, Identity())], IsNull(ID), {1000: 1}, False),
        ([(1, Identity())], And((eq(ID, 1), Undecided())), {1000: 2}, False),
        ([(1, Identity())], Or((eq(ID, 1), Undecided())), {1000: 2}, True),
        ([(1, Identity())], Or((eq(ID, 1), eq(NAME, "x"))), {1000: 2}, True),
        ([(1, Identity())], Constant(False), {1000: 2}, False),
        ([(1, Identity())], Constant(None), {1000: 2}, False),
        ([(1, Void())], eq(ID, 1), {1000: None}, True),
        ([(1, UnknownTransform("zorder"))], eq(ID, 1), {1000: "?"}, True),
        ([(99, Identity())], eq(ID, 1), {1000: 5}, True),  # the source was dropped: trap T23
        ([(99, Identity())], eq(Field(id=99, name="gone", type=IntegerType(32)), 1), {1000: 5}, True),
        ([(6, Identity())], eq(ITEM, 1), {1000: 5}, True),  # below a list
        ([(8, Identity())], eq(INNER, 1), {1000: 5}, False),  # in a struct
        # Two fields on one source: both must allow it (iceberg 3.14).
        ([(1, Bucket(16)), (1, Truncate(10))], eq(ID, 34), {1000: 2017239379 % 16, 1001: 30}, True),
        ([(1, Bucket(16)), (1, Truncate(10))], eq(ID, 34), {1000: 2017239379 % 16, 1001: 40}, False),
        ([(1, Bucket(16)), (1, Truncate(10))], eq(ID, 34), {1000: 1, 1001: 30}, False),
        ([(3, Identity())], IsNan(PRICE), {1000: float("nan")}, True),
        ([(3, Identity())], IsNan(PRICE), {1000: 1.0}, False),
        ([(3, Identity())], Comparison(PRICE, Op.GT, 5.0), {1000: float("nan")}, True),  # engines: NaN is largest
        ([(3, Identity())], eq(PRICE, 0.0), {1000: -0.0}, True),
        ([(2, Truncate(2))], StartsWith(NAME, "abc", True), {1000: "ab"}, True),  # trap T16
        ([(4, Day())], Comparison(AT, Op.LT, 0), {1000: -1}, True),
        ([(4, Day())], Comparison(AT, Op.LT, 0), {1000: 0}, True),  # an old writer's -1
        ([(4, Day())], Comparison(AT, Op.LT, 0), {1000: 1}, False),
    ],
)
def test_partition_filter(fields, predicate, values, kept):
    assert partition_filter(predicate, _spec(*fields), SCHEMA)(values) is kept


def _file(**statistics):
    return DataFile(
        content=Content.DATA,
        path="f",
        format="parquet",
        spec_id=0,
        partition={},
        record_count=statistics.pop("record_count", 3),
        size=1,
        **statistics,
    )


def _long(value):
    return value.to_bytes(8, "little", signed=True)


def _stats(field, *, lower=None, upper=None, nulls=0, nans=None, values=3):
    def one(value):
        return {} if value is None else {field.id: value}

    return _file(
        lower_bounds=one(lower),
        upper_bounds=one(upper),
        null_value_counts=one(nulls),
        nan_value_counts=one(nans),
        value_counts=one(values),
    )


def _double(value):
    return struct.pack("<d", value)


@pytest.mark.parametrize(
    ("predicate", "file", "kept"),
    [
        (eq(ID, 5), _stats(ID, lower=_long(1), upper=_long(9)), True),
        (eq(ID, 10), _stats(ID, lower=_long(1), upper=_long(9)), False),
        (eq(ID, 10), _stats(ID, lower=(1).to_bytes(4, "little"), upper=(9).to_bytes(4, "little")), False),  # promoted
        (eq(ID, 10), _stats(ID, lower=_long(9), upper=_long(1)), True),  # inverted: trap T14
        (eq(ID, 10), _stats(ID, lower=b"123", upper=b"123"), True),  # wrong length
        (eq(ID, 10), _stats(ID, upper=_long(9)), False),
        (eq(ID, 10), _stats(NAME, lower=b"a", upper=b"b"), True),  # absent from all maps
        (eq(ID, 10), _file(), True),
        (IsNull(ID), _stats(ID, nulls=0), False),
        (IsNull(ID), _stats(ID, nulls=None), True),  # a missing count is not zero: trap T12
        (IsNull(ID, negated=True), _stats(ID, nulls=3), False),
        (IsNull(ID, negated=True), _stats(ID, nulls=None), True),
        (eq(ID, 5), dataclasses.replace(_stats(ID, lower=_long(1), upper=_long(2)), record_count=None), True),  # 2.21
        (Comparison(PRICE, Op.GT, 3.0), _stats(PRICE, lower=_double(3), upper=_double(3)), True),  # trap T15
        (Comparison(PRICE, Op.GT, 3.0), _stats(PRICE, lower=_double(3), upper=_double(3), nans=1), True),
        (Comparison(PRICE, Op.GT, 3.0), _stats(PRICE, lower=_double(3), upper=_double(3), nans=0), False),
        (Comparison(PRICE, Op.NE, 3.0), _stats(PRICE, lower=_double(3), upper=_double(3), nans=1), True),
        (IsNan(PRICE), _stats(PRICE, nans=None), True),
        (IsNan(PRICE), _stats(PRICE, nans=0), False),
        (eq(ITEM, 5), _stats(ITEM, lower=_long(1), upper=_long(2)), True),  # iceberg 3.4
        (eq(INNER, 5), _stats(INNER, lower=_long(1), upper=_long(2)), False),
        (IsNull(INNER), _stats(INNER, nulls=0), False),
        (IsNull(INNER), _stats(INNER, nulls=0, values=2), True),  # a null struct was not counted
        (eq(ELSEWHERE, 5), _stats(ELSEWHERE, lower=_long(1), upper=_long(2)), True),  # inherited, not stored
        (eq(NAME, "z"), _stats(NAME, lower=b"a", upper=b"b\xf0\x9f"), True),  # cut inside a character
        (Comparison(KEY, Op.LT, b"\x00" * 16), _stats(KEY, lower=b"\x01" * 16, upper=b"\x02" * 16), True),  # 3.3
        (Or((eq(ID, 10), Undecided())), _stats(ID, lower=_long(1), upper=_long(9)), True),
        (And((eq(ID, 10), Undecided())), _stats(ID, lower=_long(1), upper=_long(9)), False),
        (In(ID, tuple(range(10, 20))), _stats(ID, lower=_long(1), upper=_long(9)), False),
        (Constant(False), _file(), False),
    ],
)
def test_statistics(predicate, file, kept):
    assert may_hold(predicate, file) is kept


TRANSFORMS = st.sampled_from(["identity", "bucket[4]", "truncate[3]", "void", "other"]).map(parse_transform)
VALUES = st.one_of(st.none(), st.integers(-9, 9))


def may_hold(predicate, file):
    entry = ManifestEntry(Status.ADDED, None, 1, None, file, "m.avro")
    files = from_entries([entry], tuple(sorted(fields_of(predicate))), manifest=0)
    return bool(skipping.may_hold(files, nested_columns(SCHEMA), decidable(predicate, SCHEMA), np.arange(1))[0])


def _leaf(field, values):
    return st.one_of(
        st.builds(Comparison, st.just(field), st.sampled_from(Op), values),
        st.builds(In, st.just(field), st.lists(values, max_size=3).map(tuple), st.booleans()),
        st.builds(IsNull, st.just(field), st.booleans()),
    )


LEAVES = st.one_of(_leaf(ID, st.integers(-9, 9)), _leaf(NAME, st.sampled_from(["", "a", "ab", "abc", "abcd", "😀a"])))
PREDICATES = st.recursive(
    st.one_of(LEAVES, st.just(Undecided()), st.booleans().map(Constant)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([And(tuple(parts)), Or(tuple(parts))])
    ),
    max_leaves=6,
)
ROWS = st.fixed_dictionaries(
    {ID.id: VALUES, NAME.id: st.one_of(st.none(), st.sampled_from(["", "a", "ab", "abc", "abd", "😀ab", "b"]))}
)


@given(PREDICATES, ROWS, st.lists(st.tuples(st.sampled_from([ID, NAME]), TRANSFORMS), max_size=3))
def test_partition_filter_never_loses_a_row(predicate, row, fields):
    spec = _spec(*((field.id, transform) for field, transform in fields))
    values = {
        f.field_id: None if isinstance(f.transform, UnknownTransform) else apply(f.transform, field.type)(row[field.id])
        for f, (field, _) in zip(spec.fields, fields, strict=True)
    }
    if evaluate(predicate, lambda field: row[field.id]) is True:
        assert partition_filter(predicate, spec, SCHEMA)(values)


@given(PREDICATES, st.lists(ROWS, min_size=1, max_size=4))
def test_statistics_never_lose_a_row(predicate, rows):
    ids = [row[ID.id] for row in rows if row[ID.id] is not None]
    names = [row[NAME.id].encode() for row in rows if row[NAME.id] is not None]
    file = _file(
        record_count=len(rows),
        value_counts={ID.id: len(rows), NAME.id: len(rows)},
        null_value_counts={ID.id: len(rows) - len(ids), NAME.id: len(rows) - len(names)},
        lower_bounds=({ID.id: _long(min(ids))} if ids else {}) | ({NAME.id: min(names)} if names else {}),
        upper_bounds=({ID.id: _long(max(ids))} if ids else {}) | ({NAME.id: max(names)} if names else {}),
    )
    if any(evaluate(predicate, lambda field, row=row: row[field.id]) is True for row in rows):
        assert may_hold(predicate, file)
