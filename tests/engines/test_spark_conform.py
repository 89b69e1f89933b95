"""Spark's Arrow results in exact types; no Spark is needed to see it."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import harness
from harness.engines.spark.engine import conform

U = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
UUIDS = pa.array([str(U), None, str(UUID(int=0))])
NUMBERS = pa.array([-1, None, 2**62])


def uuids(values: list[bytes | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))


SINGLE: list[tuple[pa.Array, pa.Array]] = [
    (UUIDS, uuids([U.bytes, None, bytes(16)])),
    (UUIDS.slice(1), uuids([None, bytes(16)])),
    (pa.array([], pa.string()), uuids([])),
    (pa.array([None, None], pa.string()), uuids([None, None])),
    (UUIDS.cast(pa.large_string()), uuids([U.bytes, None, bytes(16)])),
    (pa.array([U.bytes, None, bytes(16)], pa.binary()), uuids([U.bytes, None, bytes(16)])),  # DuckDB's blobs
    (pa.array([1, None]), pa.array([1, None], pa.time64("us"))),
    *[(NUMBERS, NUMBERS.cast(pa.timestamp("ns", zone))) for zone in (None, "UTC")],
    (NUMBERS.cast(pa.timestamp("us", "Asia/Tokyo")), NUMBERS.cast(pa.timestamp("us", "UTC"))),
    (NUMBERS.cast(pa.timestamp("us")), NUMBERS.cast(pa.timestamp("us"))),
    (pa.array([b"abc", None]), pa.array([b"abc", None], pa.binary(3))),
    (pa.array(["ü", None], pa.large_string()), pa.array(["ü", None])),
]


def nested(array: pa.Array) -> dict[str, pa.Array]:
    """The array inside of a struct, a list and a map, with nulls around it."""
    n = len(array)
    ends, none = pa.array([*range(n + 1), n], pa.int32()), pa.array([False] * n + [True])
    keys = pa.array([f"k{i}" for i in range(n)], pa.string())
    return {
        "struct": pa.StructArray.from_arrays([array], fields=[pa.field("x", array.type)]),
        "list": pa.ListArray.from_arrays(ends, array, mask=none),
        "map": pa.MapArray.from_arrays(ends, keys, array, mask=none),
    }


@pytest.mark.parametrize(
    ("given", "wanted"), SINGLE, ids=[f"{g.type} to {w.type} {i}" for i, (g, w) in enumerate(SINGLE)]
)
def test_carriers_become_exact(given: pa.Array, wanted: pa.Array) -> None:
    cases = {"top": (given, wanted)} | {k: (v, nested(wanted)[k]) for k, v in nested(given).items()}
    for label, (before, after) in cases.items():
        # Spark's own names mean nothing, and may repeat.
        rows = pa.table([before, before], names=["n", "n"])
        found = conform(rows, pa.schema([pa.field("a", after.type), pa.field("b", after.type, nullable=False)]))
        found.validate(full=True)
        assert found.column_names == ["a", "b"]
        assert [c.combine_chunks() for c in found.columns] == [after, after], label


def test_required_fields_hold_nulls() -> None:  # iceberg 5.13
    exact = pa.struct([pa.field("t", pa.time64("us"), nullable=False)])
    rows = pa.table({"s": pa.array([{"t": None}, None, {"t": 1}], pa.struct([("t", pa.int64())]))})
    found = conform(rows, pa.schema([pa.field("s", exact, nullable=False)]))
    structs = found["s"].combine_chunks()
    assert structs.is_null().to_pylist() == [False, True, False]
    assert structs.flatten()[0].cast(pa.int64()).to_pylist() == [None, None, 1]


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
