"""Small files: tables of some rows, as tests make them, and a table of many such files; in Iceberg and in Delta."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench_made import Made, Scale, linked_delta

from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable
from harness.testing.writing.iceberg.files import DataFileHandle

_SCHEMA = {"id": "long", "region": "string", "price": "double"}
_NESTED = {"id": "long", "place": "struct<lat: double, zone: string>", "tags": "list<string>"}
_DELTA_NESTED = {**_NESTED, "place": "struct<lat:double,zone:string>", "tags": "array<string>"}
_WIDE = {"id": "long", **{f"c{i}": "double" for i in range(30)}}
_ROWS = 100
"""Of each file of the table of many files: file i has the ids from i * 100 on, and k is the id modulo 97."""


def small(folder: Path, scale: Scale) -> Mapping[str, Made]:
    """`iceberg I` and `delta I`; the answer: rows."""
    found = {}
    for number in range(scale.small_tables):
        for format, makers in (("iceberg", _ICEBERG), ("delta", _DELTA)):
            found[f"{format} {number}"] = makers[number % len(makers)](folder / f"{format}-{number}")
    return found


def many(folder: Path, scale: Scale) -> Mapping[str, Made]:
    """`iceberg` and `delta`: the same files, with nested columns; the answer: count(*), sum(k)."""
    iceberg = IcebergTable.create(folder / "iceberg", {"k": "long", **_NESTED})
    delta = DeltaTable.create(folder / "delta", {"k": "long", **_DELTA_NESTED})
    numbers = range(scale.many_files)
    files = [iceberg.write_data(_many_rows(number * _ROWS), statistics=[2]) for number in numbers]
    iceberg.append(*files)
    delta.append(*(linked_delta(delta, file, number * _ROWS) for number, file in zip(numbers, files, strict=True)))
    answer = [len(files) * _ROWS, sum(i % 97 for i in range(len(files) * _ROWS))]
    plain = [str(file.file) for file in files]
    made = Made(location=iceberg.location, metadata=str(iceberg.metadata_path), files=plain, answer=answer)
    return {"iceberg": made, "delta": Made(location=str(folder / "delta"), files=plain, answer=answer)}


def _many_rows(first: int) -> pa.Table:
    ids = np.arange(first, first + _ROWS)
    zones = pa.StructArray.from_arrays([pa.array(ids / 8), pa.array([f"z{i % 3}" for i in ids])], ["lat", "zone"])
    tags = pa.array([["a", "b"][: i % 3] for i in ids], pa.list_(pa.string()))
    return pa.table({"k": ids % 97, "id": ids, "place": zones, "tags": tags})


def _rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": i, "region": ("eu", "us")[i % 2], "price": i / 4} for i in range(first, last)]


def _nested_rows(rows: int) -> list[dict[str, Any]]:
    zones = [{"lat": i / 8, "zone": f"zone-{i % 3}"} for i in range(rows)]
    return [{"id": i, "place": zone, "tags": ["a", "b"][: i % 3]} for i, zone in enumerate(zones)]


def _wide_rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": i, **{f"c{j}": i / (j + 1) for j in range(30)}} for i in range(first, last)]


def _iceberg_commits(place: Path) -> Made:
    table = IcebergTable.create(place, _SCHEMA)
    files = [table.write_data(_rows(i * 5, i * 5 + 5)) for i in range(3)]
    for file in files:
        table.append(file)
    return _iceberg(table, files, 15)


def _iceberg_partitions(place: Path) -> Made:
    table = IcebergTable.create(place, _SCHEMA, partition_spec=[("region", "identity")])
    table.append(*(files := table.write_partitioned(_rows(0, 20))))
    return _iceberg(table, list(files), 20)


def _iceberg_deletes(place: Path) -> Made:
    table = IcebergTable.create(place, _SCHEMA)
    table.append(file := table.write_data(_rows(0, 20)))
    table.append(table.write_position_deletes([(file, 3), (file, 17)]))
    return _iceberg(table, [file], 18)


def _iceberg_nested(place: Path) -> Made:
    table = IcebergTable.create(place, _NESTED)
    table.append(file := table.write_data(_nested_rows(20)))
    return _iceberg(table, [file], 20)


def _iceberg_evolved(place: Path) -> Made:
    table = IcebergTable.create(place, _WIDE)
    table.append(first := table.write_data(_wide_rows(0, 10)))
    table.rename_column("c3", "third")
    table.add_column("note", "string")
    table.append(second := table.write_data([{"id": 10, "note": "new"}]))
    return _iceberg(table, [first, second], 11)


def _iceberg(table: IcebergTable, files: list[DataFileHandle], rows: int) -> Made:
    read = [str(file.file) for file in files]
    return Made(location=table.location, metadata=str(table.metadata_path), files=read, answer=[rows])


def _delta_commits(place: Path) -> Made:
    table = DeltaTable.create(place, _SCHEMA)
    for i in range(3):
        table.append(table.write_data(_rows(i * 5, i * 5 + 5)))
    return _delta(table, 15)


def _delta_partitions(place: Path) -> Made:
    table = DeltaTable.create(place, _SCHEMA, partition_columns=["region"])
    table.append(*table.write_partitioned(_rows(0, 20)))
    return _delta(table, 20)


def _delta_vector(place: Path) -> Made:
    table = DeltaTable.create(place, _SCHEMA)
    table.append(file := table.write_data(_rows(0, 20)))
    table.delete(file, [3, 17])
    return _delta(table, 18)


def _delta_nested(place: Path) -> Made:
    table = DeltaTable.create(place, _DELTA_NESTED)
    table.append(table.write_data(_nested_rows(20)))
    return _delta(table, 20)


def _delta_checkpoint(place: Path) -> Made:
    table = DeltaTable.create(place, _WIDE)
    for i in range(10):
        table.append(table.write_data(_wide_rows(i, i + 1)))
    table.overwrite(table.write_data(_wide_rows(0, 8)))
    table.checkpoint()
    table.append(table.write_data(_wide_rows(8, 9)))
    return _delta(table, 9)


def _delta(table: DeltaTable, rows: int) -> Made:
    read = [str(file.file) for file in table.live_files]
    return Made(location=str(table.directory), files=read, answer=[rows])


_Make = Callable[[Path], Made]
_ICEBERG: tuple[_Make, ...] = (
    *(_iceberg_commits, _iceberg_partitions, _iceberg_deletes, _iceberg_nested, _iceberg_evolved),
)
_DELTA: tuple[_Make, ...] = (_delta_commits, _delta_partitions, _delta_vector, _delta_nested, _delta_checkpoint)
