"""Spark's Arrow results in exact types; no Spark is needed to see it."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.engines.spark.engine import conform

BAD_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, 2)), pa.py_buffer(b"\xff\xfe")]
)
UNFIT: list[tuple[pa.Array, Any]] = [
    (pa.array([b"abcd"]), pa.binary(3)),
    (pa.array(["f79c3e09"]), pa.uuid()),
    (pa.array(["z" * 32]), pa.uuid()),
    (pa.array([2**40]), pa.int32()),
    (BAD_TEXT, pa.string()),
    (pa.ListArray.from_arrays([0, 1], BAD_TEXT), pa.list_(pa.string())),
]


@pytest.mark.parametrize(("array", "type_"), UNFIT, ids=[str(t) for _, t in UNFIT])
def test_what_does_not_fit_is_an_error(array: pa.Array, type_: Any) -> None:
    with pytest.raises(harness.EngineError, match="Cannot give column c out") as caught:
        conform(pa.table({"x": array}), pa.schema([pa.field("c", type_)]))
    assert caught.value.field == "c"
