"""A table of many small files, in Iceberg and in Delta, with nested columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench_made import Made, linked_delta
from bench_scales import Scale

from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

_ROWS = 100
"""Of each file: file i has the ids from i * 100 on, and k is the id modulo 97."""
_SCHEMA = {"id": "long", "k": "long", "place": "struct<lat: double, zone: string>", "tags": "list<string>"}
_DELTA_SCHEMA = {**_SCHEMA, "place": "struct<lat:double,zone:string>", "tags": "array<string>"}


def many(folder: Path, scale: Scale) -> Mapping[str, Made]:
    """`iceberg` and `delta`: the same files; the answer: count(*), sum(k)."""
    iceberg = IcebergTable.create(folder / "iceberg", _SCHEMA)
    delta = DeltaTable.create(folder / "delta", _DELTA_SCHEMA)
    numbers = range(scale.many_files)
    files = [iceberg.write_data(_rows(number * _ROWS), statistics=[1]) for number in numbers]
    iceberg.append(*files)
    delta.append(*(linked_delta(delta, file, number * _ROWS) for number, file in zip(numbers, files, strict=True)))
    plain = [str(file.file) for file in files]
    answer = [len(files) * _ROWS, sum(i % 97 for i in range(len(files) * _ROWS))]
    metadata = str(iceberg.metadata_path)
    return {
        "iceberg": Made(location=iceberg.location, metadata=metadata, files=plain, answer=answer),
        "delta": Made(location=str(folder / "delta"), files=plain, answer=answer),
    }


def _rows(first: int) -> pa.Table:
    ids = np.arange(first, first + _ROWS)
    zones = pa.StructArray.from_arrays([pa.array(ids / 8), pa.array([f"z{i % 3}" for i in ids])], ["lat", "zone"])
    tags = pa.array([["a", "b"][: i % 3] for i in ids], pa.list_(pa.string()))
    return pa.table({"id": ids, "k": ids % 97, "place": zones, "tags": tags})
