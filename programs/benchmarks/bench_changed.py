"""Tables whose changes and rows are followed: ranges of commits with each kind of change, and long histories.

All tables have the same rows in 100 data files, whose statistics cover `id`. `k` is as distinct as `id`, but each file
has values of the whole table, so that only a read of the file shows whether it has a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from bench_made import BenchTable, Scale, link_delta, link_tables
from bench_scanned import Positions, equality_deletes, position_deletes

from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import IcebergFile

Numbers = TypeVar("Numbers", int, Positions)
FILES = 100
ID_TRACED = 7
"""The id of a row in the first file, which the long histories delete."""

_SCHEMA = {"id": "long", "k": "long", "v": "double", "s": "string", "d": "date"}
_SHARE = 100
"""One of this many rows is deleted, and in rewritten files another one updated."""
_COMMITS = 10
"""The commits in which all files are changed once."""
_MERGED_EVERY = 40
_SPREAD = 7919
_FIRST_DAY = 18_262  # 2020-01-01


@dataclass(frozen=True, slots=True)
class _Part:
    """A data file with consecutive ids."""

    handle: IcebergFile
    first: int
    rows: int


def changed(folder: Path, scale: Scale) -> Mapping[str, BenchTable]:
    """Return `appends`, `position`, `vectors`, `equality`, `rewritten`, and `commits`, whose changes are read; and
    `iceberg long` and `delta long`, in which a row is traced.

    The answer of a range is the number of inserts, the number of deletes, and the sum of all their ids. The answer of a
    long history is the number of rows with `ID_TRACED`.
    """
    base = IcebergTable.create(folder / "iceberg-appends", _SCHEMA)
    rows = scale.changed_rows // FILES
    parts = [_Part(_written(base, i * rows, rows, scale.changed_rows), i * rows, rows) for i in range(FILES)]
    for part in parts:
        base.append(part.handle)
    first, *others = parts
    added = sum(int(_ids(part).sum()) for part in others)
    appends = _range(base, 0, [first], parts, [rows * len(others), 0, added])
    return {
        "appends": appends,
        **{kind: _deleted(folder / f"iceberg-{kind}", kind, parts) for kind in ("position", "vectors", "equality")},
        "rewritten": _rewritten(folder / "iceberg-rewritten", parts, scale.changed_rows),
        "commits": _commits(folder / "iceberg-commits", rows // 10, scale.commits),
        "iceberg long": _long_iceberg(folder / "iceberg-long", parts, scale.commits),
        "delta long": _long_delta(folder / "delta-long", parts, scale.commits),
    }


def spread(ids: Numbers, rows: int) -> Numbers:
    """Return the values of `k` for ids in a table with a number of rows."""
    return ids * _SPREAD % rows


def _written(table: IcebergTable, first: int, rows: int, total: int) -> IcebergFile:
    return table.write_data(_rows(np.arange(first, first + rows), total), statistics=[1])


def _rows(ids: Positions, total: int) -> pa.Table:
    names = pa.DictionaryArray.from_arrays(pa.array(ids % 5000, pa.int32()), [f"name-{i}" for i in range(5000)])
    return pa.table(
        {
            "id": ids,
            "k": spread(ids, total),
            "v": np.random.default_rng(int(ids[0])).random(len(ids)),
            "s": names.cast(pa.string()),
            "d": pa.array((_FIRST_DAY + ids % 1000).astype(np.int32)).cast(pa.date32()),
        }
    )


def _ids(part: _Part) -> Positions:
    return np.arange(part.first, part.first + part.rows)


def _range(
    table: IcebergTable, start: int, before: Sequence[_Part], after: Sequence[_Part], answer: list[int]
) -> BenchTable:
    """Return the table with a range that begins after its snapshot number `start`."""
    return BenchTable(
        location=table.location,
        metadata=str(table.metadata_path),
        files=[str(part.handle.file) for part in after],
        earlier_files=[str(part.handle.file) for part in before],
        start=table.snapshots[start]["snapshot-id"],
        answer=answer,
    )


def _linked(table: IcebergTable, parts: Sequence[_Part]) -> list[_Part]:
    linked = [_Part(link_tables(table, part.handle), part.first, part.rows) for part in parts]
    table.append(*(part.handle for part in linked))
    return linked


def _groups(parts: Sequence[_Part]) -> Iterator[Sequence[_Part]]:
    size = len(parts) // _COMMITS
    return (parts[start : start + size] for start in range(0, len(parts), size))


def _dead(part: _Part) -> Positions:
    return np.arange(0, part.rows, _SHARE)


def _deleted(place: Path, kind: str, parts: Sequence[_Part]) -> BenchTable:
    """Return a table from whose files several commits delete rows by delete files."""
    table = IcebergTable.create(place, _SCHEMA, format_version=3 if kind == "vectors" else 2)
    parts = _linked(table, parts)
    for number, group in enumerate(_groups(parts)):
        match kind:
            case "vectors":
                deletes = table.write_deletion_vectors({part.handle: _dead(part).tolist() for part in group})
            case "position":
                deletes = tuple(position_deletes(table, part.handle, _dead(part)) for part in group)
            case _:
                deletes = (equality_deletes(table, number, np.concatenate([_ids(p)[_dead(p)] for p in group])),)
        table.commit(add=deletes)
    gone = [_ids(part)[_dead(part)] for part in parts]
    return _range(table, 0, parts, parts, [0, sum(map(len, gone)), sum(int(ids.sum()) for ids in gone)])


def _rewritten(place: Path, parts: Sequence[_Part], total: int) -> BenchTable:
    """Return a table whose files several commits write again, without deleted rows and with updated rows."""
    table = IcebergTable.create(place, _SCHEMA)
    old, new, answer = _linked(table, parts), [], np.zeros(3, dtype=np.int64)
    for group in _groups(old):
        written = []
        for part in group:
            ids, dead = _ids(part), _dead(part)
            updated, rows = dead + 1, _rows(ids, total)
            values = rows["v"].to_numpy().copy()
            values[updated] += 1
            rows = rows.set_column(2, "v", pa.array(values)).take(np.delete(np.arange(part.rows), dead))
            # Another name than the old file's, which is a link to a file of all tables.
            handle = table.write_data(rows, path=f"data/again-{part.handle.file.name}", statistics=[1])
            written.append(_Part(handle, part.first, rows.num_rows))
            answer += [len(updated), len(dead) + len(updated), int(ids[dead].sum() + 2 * ids[updated].sum())]
        table.commit(add=[part.handle for part in written], remove=[part.handle for part in group])
        new += written
    return _range(table, 0, old, new, answer.tolist())


def _commits(place: Path, rows: int, commits: int) -> BenchTable:
    """Return a table of many commits. Each adds a file of long texts and deletes rows of the file before."""
    table = IcebergTable.create(place, {"id": "long", "text": "string"}, format_version=3)
    parts, answer = list[_Part](), np.zeros(3, dtype=np.int64)
    for number in range(commits):
        ids = np.arange(number * rows, (number + 1) * rows)
        texts = np.random.default_rng(number).integers(97, 123, (rows, 100), dtype=np.uint8).view("S100").ravel()
        data = pa.table({"id": ids, "text": pa.array(texts.astype(str))})
        part = _Part(table.write_data(data, statistics=[1]), int(ids[0]), rows)
        dead = np.arange(0, rows, _SHARE)
        vectors = table.write_deletion_vectors({parts[-1].handle: dead.tolist()}) if parts else ()
        table.commit(add=(part.handle, *vectors), manifests="merge" if number % _MERGED_EVERY == 0 else "keep")
        parts.append(part)
        if number:
            answer += [rows, len(dead), int(ids.sum() + (ids - rows)[dead].sum())]
    _keep_newest(table)
    return _range(table, 0, parts[:1], parts, answer.tolist())


def _long_iceberg(place: Path, parts: Sequence[_Part], commits: int) -> BenchTable:
    """Return a table with a commit for each file, and further commits that replace the deletion vector of a file."""
    table = IcebergTable.create(place, _SCHEMA, format_version=3)
    linked = [_Part(link_tables(table, part.handle), part.first, part.rows) for part in parts]
    vectors: dict[int, IcebergFile] = {}
    for number in range(commits):
        manifests = "merge" if number % _MERGED_EVERY == 0 else "keep"
        if number < FILES:
            table.commit(add=[linked[number].handle], manifests=manifests)
            continue
        index = number % FILES
        positions = {linked[index].handle: _positions(number)}
        (vector,) = table.write_deletion_vectors(positions)
        table.commit(add=[vector], remove=[vectors[index]] if index in vectors else [], manifests=manifests)
        vectors[index] = vector
    _keep_newest(table)
    return _range(table, 0, [], linked, [1])


def _keep_newest(table: IcebergTable) -> None:
    """Remove the older metadata files, which are large in a table with many snapshots."""
    for file in table.metadata_path.parent.glob("*.metadata.json"):
        if file != table.metadata_path:
            file.unlink()


def _long_delta(place: Path, parts: Sequence[_Part], commits: int) -> BenchTable:
    """Return the same history as `_long_iceberg` in Delta."""
    table = DeltaTable.create(place, _SCHEMA)
    linked = [link_delta(table, part.handle, part.first) for part in parts]
    for number in range(commits):
        if number < FILES:
            table.append(linked[number])
        else:
            table.delete(linked[number % FILES], _positions(number))
        if number % _MERGED_EVERY == 0:
            table.checkpoint()
    return BenchTable(location=str(place), files=[str(file.file) for file in linked], answer=[1])


def _positions(number: int) -> list[int]:
    """Return the positions that have been deleted from a file up to a commit of a long history."""
    return list(range(ID_TRACED, ID_TRACED + number // FILES))
