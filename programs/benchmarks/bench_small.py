"""Small files: tables with a few rows, as tests make them, and tables with many files, in Iceberg and Delta."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench_made import BenchTable, Scale, link_delta

from harness.writing.delta.builder import DeltaTable
from harness.writing.delta.files import DeltaFile
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import IcebergFile

_SCHEMA = {"id": "long", "region": "string", "price": "double"}
_NESTED = {"id": "long", "place": "struct<lat: double, zone: string>", "tags": "list<string>"}
_DELTA_NESTED = {**_NESTED, "place": "struct<lat:double,zone:string>", "tags": "array<string>"}
_WIDE = {"id": "long", **{f"c{i}": "double" for i in range(30)}}
_ROWS = 100
"""The rows of each file of the table with many files. File i has the ids from i * 100 on; k is the id modulo 97."""


def small(folder: Path, scale: Scale) -> Mapping[str, BenchTable]:
    """Return `iceberg I` and `delta I`. The answer is the number of rows."""
    tables = {}
    for number in range(scale.small_tables):
        for format, kinds in _KINDS.items():
            place = folder / f"{format}-{number}"
            tables[f"{format} {number}"] = _build(format, place, *kinds[number % len(kinds)])
    return tables


def many(folder: Path, scale: Scale) -> Mapping[str, BenchTable]:
    """Return `iceberg` and `delta` with the same files and nested columns. The answer is count(*) and sum(k)."""
    iceberg = IcebergTable.create(folder / "iceberg", {"k": "long", **_NESTED})
    delta = DeltaTable.create(folder / "delta", {"k": "long", **_DELTA_NESTED})
    numbers = range(scale.many_files)
    files = [iceberg.write_data(_many_rows(number * _ROWS), statistics=[2]) for number in numbers]
    iceberg.append(*files)
    delta.append(*(link_delta(delta, file, number * _ROWS) for number, file in zip(numbers, files, strict=True)))
    answer = [len(files) * _ROWS, sum(i % 97 for i in range(len(files) * _ROWS))]
    plain = [str(file.file) for file in files]
    iceberg_table = BenchTable(
        location=iceberg.location, metadata=str(iceberg.metadata_path), files=plain, answer=answer
    )
    return {"iceberg": iceberg_table, "delta": BenchTable(location=str(folder / "delta"), files=plain, answer=answer)}


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


Filled = tuple[Sequence[IcebergFile | DeltaFile], int]
"""The live data files of a table, and its number of rows."""


def _commits(table: IcebergTable | DeltaTable) -> Filled:
    files = [table.write_data(_rows(i * 5, i * 5 + 5)) for i in range(3)]
    for file in files:
        table.append(file)
    return files, 15


def _partitions(table: IcebergTable | DeltaTable) -> Filled:
    table.append(*(files := table.write_partitioned(_rows(0, 20))))
    return files, 20


def _nested(table: IcebergTable | DeltaTable) -> Filled:
    table.append(file := table.write_data(_nested_rows(20)))
    return [file], 20


def _deletes(table: IcebergTable) -> Filled:
    table.append(file := table.write_data(_rows(0, 20)))
    table.append(table.write_position_deletes([(file, 3), (file, 17)]))
    return [file], 18


def _vector(table: DeltaTable) -> Filled:
    table.append(file := table.write_data(_rows(0, 20)))
    table.delete(file, [3, 17])
    return [file], 18


def _evolved_table(table: IcebergTable) -> Filled:
    table.append(first := table.write_data(_wide_rows(0, 10)))
    table.rename_column("c3", "third")
    table.add_column("note", "string")
    table.append(second := table.write_data([{"id": 10, "note": "new"}]))
    return [first, second], 11


def _checkpoint(table: DeltaTable) -> Filled:
    for i in range(10):
        table.append(table.write_data(_wide_rows(i, i + 1)))
    table.overwrite(table.write_data(_wide_rows(0, 8)))
    table.checkpoint()
    table.append(table.write_data(_wide_rows(8, 9)))
    return table.live_files, 9


_KINDS: Mapping[str, tuple[Any, ...]] = {
    "iceberg": (
        (_commits, _SCHEMA, {}),
        (_partitions, _SCHEMA, {"partition_spec": [("region", "identity")]}),
        (_deletes, _SCHEMA, {}),
        (_nested, _NESTED, {}),
        (_evolved_table, _WIDE, {}),
    ),
    "delta": (
        (_commits, _SCHEMA, {}),
        (_partitions, _SCHEMA, {"partition_columns": ["region"]}),
        (_vector, _SCHEMA, {}),
        (_nested, _DELTA_NESTED, {}),
        (_checkpoint, _WIDE, {}),
    ),
}
"""For each format: the function that fills a table, its columns, and further options."""


def _build(format: str, place: Path, fill: Any, schema: Mapping[str, str], more: Mapping[str, Any]) -> BenchTable:
    table = (IcebergTable if format == "iceberg" else DeltaTable).create(place, schema, **more)
    files, rows = fill(table)
    metadata = str(table.metadata_path) if format == "iceberg" else None
    return BenchTable(location=str(place), metadata=metadata, files=[str(file.file) for file in files], answer=[rows])
