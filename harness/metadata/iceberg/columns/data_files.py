"""Live data files of a snapshot as columns, after inheritance. An object is made of a file only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError
from harness.metadata.iceberg.manifest_entries import Content, DataFile, ManifestEntry, Status, corrupt
from harness.metadata.model.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from harness.metadata.plan.scan_plan import KEPT, Verdicts
from harness.storage.records import dataclass

COLUMNS = pa.schema(
    [
        pa.field("manifest", pa.int32(), nullable=False),  # index into DataFiles.manifests
        pa.field("status", pa.int8(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),  # data sequence number
        pa.field("path", pa.string(), nullable=False),  # as recorded
        pa.field("format", pa.string(), nullable=False),  # lower-case
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("tuple", pa.int32(), nullable=False),  # index into DataFiles.tuples
        pa.field("record_count", pa.int64()),  # null: unknown (iceberg 2.21)
        pa.field("size", pa.int64()),  # bytes, informative only
        pa.field("first_row_id", pa.int64()),
    ]
)
"""Columns of `DataFiles.table`, before those of statistics."""

COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")


def statistic(name: str, field_id: int) -> str:
    """The column that holds a statistic, one of `COUNTS` or `BOUNDS`, of a field."""
    return f"{name}.{field_id}"


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Data files that are live, in the order of their manifests.

    table: `COLUMNS`, then for each of `fields` its statistics: int64 counts and encoded bounds, null where unknown.
    manifests: paths of manifests, as recorded.
    tuples: partition tuples, as internal values by partition field id; equal ones may be there twice.
    fields: ids of the fields whose statistics are there.
    """

    table: pa.Table
    manifests: Sequence[str]
    tuples: Sequence[Mapping[int, Any]]
    fields: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, places: npt.NDArray[np.int64]) -> DataFiles:
        """Some of the files, in this order."""
        table = self.table if len(places) == len(self) else self.table.take(from_numpy(places))
        return DataFiles(table, self.manifests, self.tuples, self.fields)

    def specs_of_tuples(self) -> list[int]:
        """The spec id of each of `tuples`; 0 for one that no file has."""
        specs = np.zeros(len(self.tuples), dtype=np.int64)
        specs[to_numpy(self.table.column("tuple"))] = to_numpy(self.table.column("spec_id"))
        found: list[int] = specs.tolist()
        return found

    def entry(self, place: int) -> ManifestEntry:
        """A file as an entry, without what planning never needs: its snapshot, offsets and sizes."""
        return next(iter(self.entries([place])))

    def entries(self, places: Sequence[int]) -> Iterable[ManifestEntry]:
        """Some of the files as entries, in this order; as `entry`."""
        for row in self.table.take(array_of(places, pa.int64())).to_pylist():
            yield ManifestEntry(
                Status(row["status"]),
                None,
                row["sequence_number"],
                None,
                self._file(row),
                self.manifests[row["manifest"]],
            )

    def _file(self, row: Mapping[str, Any]) -> DataFile:
        found: dict[str, Any] = {
            name: {i: row[statistic(name, i)] for i in self.fields if row[statistic(name, i)] is not None}
            for name in (*COUNTS, *BOUNDS)
        }
        return DataFile(
            content=Content.DATA,
            path=row["path"],
            format=row["format"],
            spec_id=row["spec_id"],
            partition=self.tuples[row["tuple"]],
            record_count=row["record_count"],
            size=row["size"],
            first_row_id=row["first_row_id"],
            **found,
        )


def schema_of(fields: Sequence[int]) -> pa.Schema:
    """The schema of `DataFiles.table` with the statistics of some fields."""
    counts = [pa.field(statistic(name, i), pa.int64()) for i in fields for name in COUNTS]
    bounds = [pa.field(statistic(name, i), pa.binary()) for i in fields for name in BOUNDS]
    return pa.schema([*COLUMNS, *counts, *bounds])


def with_tuples(table: pa.Table, numbers: pa.Array) -> pa.Table:
    """`DataFiles.table` with other numbers of partition tuples."""
    place = table.schema.get_field_index("tuple")
    return table.set_column(place, table.schema.field(place), numbers)


def from_entries(entries: Iterable[ManifestEntry], fields: tuple[int, ...], *, manifest: int) -> DataFiles:
    """Live entries of one manifest as columns.

    manifest: what to write into the column of that name.
    """
    tuples: list[Mapping[int, Any]] = []
    numbers: dict[int, int] = {}
    rows = []
    for entry in entries:
        file = entry.file
        # Files of one partition share one mapping.
        if id(file.partition) not in numbers:
            numbers[id(file.partition)] = len(tuples)
            tuples.append(file.partition)
        rows.append(_row(entry, numbers[id(file.partition)], fields, manifest))
    try:
        schema = schema_of(fields)
        table = pa.Table.from_arrays([array_of([row[f.name] for row in rows], f.type) for f in schema], schema=schema)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError) as error:  # half a character, an id of 70 bits
        raise CorruptFileError(f"Invalid manifest: {error}", cause="CorruptManifest", rule="iceberg 2.7") from error
    return DataFiles(table, (), tuples, fields)


def _row(entry: ManifestEntry, number: int, fields: tuple[int, ...], manifest: int) -> dict[str, Any]:
    file = entry.file
    if _fitting(entry.sequence_number) is None:
        raise corrupt(
            entry.manifest, "sequence_number", f"{file.path} has {entry.sequence_number}, beyond a long", "2.9"
        )
    row = {
        "manifest": manifest,
        "status": int(entry.status),
        "sequence_number": entry.sequence_number,
        "path": file.path,
        "format": file.format,
        "spec_id": file.spec_id,
        "tuple": number,
        "record_count": _fitting(file.record_count),
        "size": _fitting(file.size),
        "first_row_id": _fitting(file.first_row_id),
    }
    for name in (*COUNTS, *BOUNDS):
        found = getattr(file, name) or {}
        row |= {statistic(name, i): found.get(i) if name in BOUNDS else _fitting(found.get(i)) for i in fields}
    return row


def _fitting(number: int | None) -> int | None:
    """A number that fits a long. Avro can write longer numbers, which are not believed."""
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


# Data files that a filter skips go at once, batch by batch: few facts of them stay.


Skip: TypeAlias = Callable[[DataFiles], Verdicts]
"""Verdicts on files. Unknown statistics keep a file. They never skip one."""

_SHOWN = ("manifest", "tuple", "record_count", "size")


@dataclass(frozen=True, slots=True)
class SkippedDataFiles:
    """Live data files that are not read.

    table: the columns manifest, tuple, record_count and size, as in `DataFiles`, and the verdict.
    paths: as recorded. They are most of a file's facts, and seldom asked for.
    """

    table: pa.Table
    paths: Callable[[], pa.ChunkedArray]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @staticmethod
    def of(table: pa.Table, verdicts: Verdicts, paths: Callable[[], pa.ChunkedArray]) -> SkippedDataFiles:
        """The files of a `DataFiles` table that are not kept. paths: theirs, which the table may lack."""
        dropped = np.flatnonzero(verdicts != KEPT)
        shown = table.select(_SHOWN)
        shown = shown if len(dropped) == len(verdicts) else shown.take(from_numpy(dropped))
        return SkippedDataFiles(shown.append_column("verdict", from_numpy(verdicts[dropped])), paths)


@dataclass(frozen=True, slots=True)
class FilteredFiles:
    """Live data files, told apart by a filter. files: to read."""

    files: DataFiles
    skipped: SkippedDataFiles

    @staticmethod
    def of(files: DataFiles, verdicts: Verdicts | None) -> FilteredFiles:
        """verdicts: on each of `files`; None keeps all."""
        verdicts = np.full(len(files), KEPT, dtype=np.int8) if verdicts is None else verdicts
        left = files.table.column("path").filter(from_numpy(verdicts != KEPT))
        return FilteredFiles(
            files.take(np.flatnonzero(verdicts == KEPT)),
            SkippedDataFiles.of(files.table, verdicts, lambda: left),
        )

    def shifted(self, by: int) -> FilteredFiles:
        """The same files, with higher numbers of tuples."""
        files, skipped = self.files, self.skipped
        return FilteredFiles(
            DataFiles(_shifted(files.table, by), files.manifests, files.tuples, files.fields),
            replace(skipped, table=_shifted(skipped.table, by)),
        )


def joined(parts: Sequence[FilteredFiles]) -> FilteredFiles:
    """The files of all parts in the order of their manifests, with all partition tuples in one list."""
    tuples: list[Mapping[int, Any]] = []
    shifted: list[FilteredFiles] = []
    for part in parts:
        shifted.append(part.shifted(len(tuples)))
        tuples += part.files.tuples
    files = pa.concat_tables([part.files.table for part in shifted])
    skipped = pa.concat_tables([part.skipped.table for part in shifted])
    order, order_left = _order(files), _order(skipped)

    @cache
    def paths() -> pa.ChunkedArray:
        found = pa.chunked_array([chunk for p in parts for chunk in p.skipped.paths().chunks], pa.string())
        return found if order_left is None else found.take(order_left)

    return FilteredFiles(
        DataFiles(files if order is None else files.take(order), (), tuples, parts[0].files.fields),
        SkippedDataFiles(skipped if order_left is None else skipped.take(order_left), paths),
    )


def _order(table: pa.Table) -> pa.Array | None:
    """The places of files in the order of manifests; None: they are in that order."""
    numbers = to_numpy(table.column("manifest"))
    return None if (numbers[1:] >= numbers[:-1]).all() else from_numpy(np.argsort(numbers, kind="stable"))


def _shifted(table: pa.Table, by: int) -> pa.Table:
    return with_tuples(table, pc.add(table.column("tuple"), scalar_of(by, pa.int32())))
