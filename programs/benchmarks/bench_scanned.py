"""Tables that are scanned: the same rows without deletes and with deletes of each kind, in Iceberg and in Delta.

Data files differ in rows, row group sizes, and compression. One column is nested.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from bench_made import BenchTable, Scale, link_delta, link_tables

from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import (
    IcebergFile,
    IcebergFileOptions,
    base_data_file,
    equality_columns,
    position_columns,
    write_file,
)

Shape: TypeAlias = Literal["scattered", "clustered"]
Positions: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

SCHEMA = {
    "id": "long",
    "k": "long",
    "v": "double",
    "s": "string",
    "d": "date",
    "flag": "boolean",
    "amt": "decimal(18,2)",
    "place": "struct<lat: double, zone: string>",
}
DELTA_SCHEMA = {**SCHEMA, "place": "struct<lat:double,zone:string>"}
RANGE = range(1_000, 2_000)
"""The ids that a selective query selects. In large tables, all of them are in the first data file."""
SHARE = 0.01
"""The share of deleted rows, unless the share is varied."""

_WEIGHTS = (1, 3, 2, 2, 1, 4, 1, 2, 3, 1)
_GROUPS = (122_880, 20_000, 500_000, 1_000_000)
_COMPRESSIONS = ("zstd", "snappy")
_CLUSTER = 1_000
_FIRST_DAY = 18_262  # 2020-01-01


@dataclass(frozen=True, slots=True)
class _ScannedFile:
    """A data file as the Iceberg builder's handle, and the id of its first row. Ids are consecutive."""

    handle: IcebergFile
    first: int

    @property
    def rows(self) -> int:
        return self.handle.record_count

    def sums(self, dead: Positions | None, among: range | None) -> tuple[int, int, int]:
        """Return count(*), sum(k), and sum(id) of the ids in `among`, without the rows at the positions `dead`."""
        ids = np.arange(self.first, self.first + self.rows)
        if dead is not None:
            ids = np.delete(ids, dead)
        if among is not None:
            ids = ids[(ids >= among.start) & (ids < among.stop)]
        return len(ids), int(_k(ids).sum()), int(ids.sum())


def scanned(folder: Path, scale: Scale) -> Mapping[str, BenchTable]:
    """Return `iceberg none`, `position`, `equality`, `vectors`, vectors by shape and share; and `delta none`,
    `vectors`.
    The answer is count(*), sum(k), and sum(id), for the two tables whose name ends with `range` only of the ids in
    `RANGE`.
    """
    base = IcebergTable.create(folder / "iceberg-none", SCHEMA)
    files = _data_files(base, scale)
    base.append(*(file.handle for file in files))
    plain = [str(file.handle.file) for file in files]
    dead = _deleted(files, SHARE, "scattered")
    tables = {"iceberg none": _iceberg(base, files, plain, [None] * len(files))}
    for kind in ("position", "equality", "vectors"):
        tables[f"iceberg {kind}"] = _with_deletes(folder / f"iceberg-{kind}", kind, files, plain, dead)
    for shape in ("scattered", "clustered"):
        for share in scale.shares:
            deleted = _deleted(files, share, shape)
            place = folder / f"iceberg-{shape}-{share}"
            tables[f"{shape} {share}"] = _with_deletes(place, "vectors", files, plain, deleted)
    for kind, gone in (("none", [None] * len(files)), ("vectors", dead)):
        tables[f"iceberg {kind}, range"] = replace(tables[f"iceberg {kind}"], answer=_answer(files, gone, RANGE))
    tables["delta none"] = _delta(folder / "delta-none", files, plain, None)
    tables["delta vectors"] = _delta(folder / "delta-vectors", files, plain, dead)
    return tables


def _k(ids: Positions) -> Positions:
    return (ids * 7919) % 1000


def _data_files(table: IcebergTable, scale: Scale) -> list[_ScannedFile]:
    weights = [_WEIGHTS[i % len(_WEIGHTS)] for i in range(scale.data_files)]
    starts = [scale.rows * sum(weights[:i]) // sum(weights) for i in range(len(weights) + 1)]
    return [
        _ScannedFile(
            table.write_data(
                _rows(first, last),
                row_group_size=_GROUPS[i % len(_GROUPS)],
                compression=_COMPRESSIONS[i % len(_COMPRESSIONS)],
                statistics=[1],
            ),
            first,
        )
        for i, (first, last) in enumerate(itertools.pairwise(starts))
    ]


def _rows(first: int, last: int) -> pa.Table:
    ids = np.arange(first, last)
    values = np.random.default_rng(first).random(len(ids))
    names = pa.DictionaryArray.from_arrays(pa.array(ids % 5000, pa.int32()), [f"name-{i}" for i in range(5000)])
    zones = pa.DictionaryArray.from_arrays(pa.array(ids % 40, pa.int32()), [f"zone-{i}" for i in range(40)])
    amounts = pa.array(ids * 31 % 10**9).cast(pa.decimal128(21, 2)).cast(pa.decimal128(18, 2))
    lat = pa.array(values * 180 - 90)
    return pa.table(
        {
            "id": ids,
            "k": _k(ids),
            "v": values,
            "s": names.cast(pa.string()),
            "d": pa.array((_FIRST_DAY + ids % 1000).astype(np.int32)).cast(pa.date32()),
            "flag": pa.array(ids % 3 == 0),
            "amt": amounts,
            "place": pa.StructArray.from_arrays([lat, zones.cast(pa.string())], ["lat", "zone"]),
        }
    )


def _deleted(files: Sequence[_ScannedFile], share: float, shape: Shape) -> list[Positions]:
    """Return the positions of deleted rows by file, ascending."""
    random = np.random.default_rng(42)
    positions = []
    for file in files:
        count = max(1, round(file.rows * share))
        length = 1 if shape == "scattered" else min(_CLUSTER, count)
        starts = np.sort(random.choice(file.rows // length, max(1, count // length), replace=False)) * length
        positions.append((starts[:, None] + np.arange(length)).ravel())
    return positions


def _iceberg(
    table: IcebergTable, files: Sequence[_ScannedFile], plain: list[str], dead: Sequence[Positions | None]
) -> BenchTable:
    return BenchTable(
        location=table.location, metadata=str(table.metadata_path), files=plain, answer=_answer(files, dead)
    )


def _answer(files: Sequence[_ScannedFile], dead: Sequence[Positions | None], among: range | None = None) -> list[int]:
    sums = [file.sums(gone, among) for file, gone in zip(files, dead, strict=True)]
    return [sum(part) for part in zip(*sums, strict=True)]


def _with_deletes(
    place: Path, kind: str, files: Sequence[_ScannedFile], plain: list[str], dead: Sequence[Positions]
) -> BenchTable:
    table = IcebergTable.create(place, SCHEMA, format_version=3 if kind == "vectors" else 2)
    handles = [link_tables(table, file.handle) for file in files]
    table.append(*handles)
    match kind:
        case "vectors":
            positions = {handle: gone.tolist() for handle, gone in zip(handles, dead, strict=True)}
            deletes = table.write_deletion_vectors(positions)
        case "position":
            deletes = tuple(position_deletes(table, handle, gone) for handle, gone in zip(handles, dead, strict=True))
        case _:
            keys = [gone + file.first for file, gone in zip(files, dead, strict=True)]
            deletes = tuple(equality_deletes(table, i, part) for i, part in enumerate(keys))
    table.commit(add=deletes)
    return _iceberg(table, files, plain, dead)


def position_deletes(table: IcebergTable, handle: IcebergFile, positions: Positions) -> IcebergFile:
    rows = pa.table({"file_path": pa.repeat(handle.path, len(positions)), "pos": positions})
    recorded = f"{table.location}/data/{handle.file.stem}-deletes.parquet"
    facts = write_file(table.file_of(recorded), position_columns(None), rows, IcebergFileOptions())
    return IcebergFile(table.file_of(recorded), 0, {**base_data_file(1, recorded, {}), **facts})


def equality_deletes(table: IcebergTable, number: int, keys: Positions) -> IcebergFile:
    ids, fields = equality_columns(table.schema, ["id"], ())
    recorded = f"{table.location}/data/{number:05d}-keys.parquet"
    facts = write_file(table.file_of(recorded), fields, pa.table({"id": keys}), IcebergFileOptions())
    entry = {**base_data_file(2, recorded, {}), **facts, "equality_ids": list(ids)}
    return IcebergFile(table.file_of(recorded), 0, entry)


def _delta(
    place: Path, files: Sequence[_ScannedFile], plain: list[str], dead: Sequence[Positions] | None
) -> BenchTable:
    table = DeltaTable.create(place, DELTA_SCHEMA)
    handles = [link_delta(table, file.handle, file.first) for file in files]
    table.append(*handles)
    if dead is not None:
        table.delete_rows({handle: gone.tolist() for handle, gone in zip(handles, dead, strict=True)})
    answer = _answer(files, dead if dead is not None else [None] * len(files))
    return BenchTable(location=str(place), files=plain, answer=answer)
