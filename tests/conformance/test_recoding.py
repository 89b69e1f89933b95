"""Columns of other engines as the expected ones hold their values."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from harness.testing.conformance.judging import recoded

ENTRY = pa.struct([("key", pa.string_view()), ("value", pa.string_view())])

TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def struct_of(values: pa.DataType) -> pa.DataType:
    return pa.struct([("m", pa.map_(pa.string(), values))])


@pytest.mark.parametrize(
    ("got", "wanted", "values"),
    [
        pytest.param(
            pa.array([["a", None], None], pa.list_(pa.string_view())),
            pa.list_(pa.string()),
            [["a", None], None],
            id="views in lists",
        ),
        pytest.param(
            pa.array([[{"key": "a", "value": "b"}], None, []], pa.large_list(ENTRY)),
            pa.map_(pa.string(), pa.string()),
            [[("a", "b")], None, []],
            id="maps as lists of entries",
        ),
        pytest.param(
            pa.array([[["a"]], [None]], pa.list_(pa.list_(pa.binary_view()))),
            pa.list_(pa.list_(pa.binary())),
            [[[b"a"]], [None]],
            id="views in lists of lists",
        ),
        pytest.param(
            pa.array([{"m": [("a", None), ("b", TEXT.upper())]}, {"m": None}, None], struct_of(pa.string())),
            struct_of(pa.uuid()),
            [{"m": [("a", None), ("b", uuid.UUID(TEXT))]}, {"m": None}, None],
            id="texts of UUIDs in maps",
        ),
        pytest.param(
            pa.array([[("a", TEXT)], None], pa.map_(pa.string_view(), pa.string_view())),
            pa.map_(pa.string(), pa.uuid()),
            [[("a", uuid.UUID(TEXT))], None],
            id="views of UUIDs in maps",
        ),
        pytest.param(
            pa.array([{"m": None}], struct_of(pa.string())),
            struct_of(pa.uuid()),
            [{"m": None}],
            id="texts of UUIDs in maps of which there are none",
        ),
    ],
)
def test_values_stay_and_types_become_the_expected_ones(got: pa.Array, wanted: pa.DataType, values: list) -> None:
    table, notes = recoded(pa.table({"c": got.slice(0)}), pa.schema([("c", wanted)]))
    assert table.column("c").to_pylist() == values
    assert table.schema.field("c").type == wanted
    assert len(notes) == 1


def test_a_map_that_is_as_wanted_stays() -> None:
    type_ = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False))
    rows = pa.table({"c": pa.array([[("a", 1)]], type_)})
    table, notes = recoded(rows, pa.schema([("c", pa.map_(pa.string(), pa.int64()))]))
    assert table.equals(rows)
    assert notes == ()


def test_a_map_of_views_without_uuids_stays() -> None:
    rows = pa.table({"c": pa.array([[("a", "b")], None], pa.map_(pa.string_view(), pa.string_view()))})
    table, notes = recoded(rows, pa.schema([("c", pa.map_(pa.string(), pa.string()))]))
    assert table.equals(rows)
    assert notes == ()
