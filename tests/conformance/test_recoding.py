"""Columns of other engines as the expected ones hold their values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.conformance.recoding import recoded

ENTRY = pa.struct([("key", pa.string_view()), ("value", pa.string_view())])


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
    ],
)
def test_values_stay_and_types_become_the_expected_ones(got: pa.Array, wanted: pa.DataType, values: list) -> None:
    table, notes = recoded(pa.table({"c": got.slice(0)}), pa.schema([("c", wanted)]))
    assert table.column("c").to_pylist() == values
    assert table.schema.field("c").type == wanted
    assert len(notes) == 1
