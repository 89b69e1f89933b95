"""Pruning (iceberg 3.4, 3.14-3.25): what may be skipped is skipped, and no row is ever lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Op,
    Or,
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
    UnknownTransform,
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


def _spec(*fields):
    return PartitionSpec(
        1,
        tuple(
            PartitionField(field_id=1000 + i, source_id=source, source_ids=(source,), name=f"p{i}", transform=transform)
            for i, (source, transform) in enumerate(fields)
        ),
    )


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
