"""The live files of a scan as the columns of a `ScanPlan`: those to read, and those left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.skipping import BY_PARTITION, BY_STATISTICS, Verdicts
from harness.plan.scan_plan import FILES, SkippedFile

Reason = Literal["partition", "statistics"]

_REASONS: dict[int, Reason] = {BY_PARTITION: "partition", BY_STATISTICS: "statistics"}


def planned_files(files: pa.Table, counts: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32]) -> pa.Table:
    """`FILES` rows for a `FILES_STATE` table.

    Args:
        files: the files to read.
        counts: their physical rows, -1 is unknown.
        partitions: the index of each file's partition tuple.
    """
    size = files.num_rows
    zeros = pa.array(np.zeros(size, dtype=np.int32))
    columns = {
        "path": files.column("path"),
        "physical": files.column("physical"),
        "format": pa.repeat("parquet", size),
        "record_count": pa.array(counts, mask=counts < 0),
        "size": files.column("size"),
        "spec_id": zeros,
        "partition": pa.array(partitions),
        "sequence_number": pa.nulls(size, pa.int64()),
        "first_row_id": files.column("base_row_id"),
        "delete_set": zeros,
        # Whatever its cardinality says: a count may be wrong, and the vector is read (against delta D9).
        "has_positions": pc.is_valid(files.column("dv_storage_type")),
    }
    return pa.table([columns[name] for name in FILES.names], schema=FILES)


@dataclass(frozen=True, slots=True)
class SkippedFiles(Sequence[SkippedFile]):
    """Files left out, made into objects only when looked at: there may be hundreds of thousands.

    files: `FILES_STATE` rows, with their counts (-1 is unknown).
    places: which of them are left out.
    verdicts: on each file in `places`.
    """

    files: pa.Table
    counts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    verdicts: Verdicts

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[SkippedFile]:
        rows = self.files.select(["path", "size", "physical"]).take(self.places)
        counts = self.counts[self.places].tolist()
        columns = zip(*(column.to_pylist() for column in rows.columns), counts, self.verdicts.tolist(), strict=True)
        for path, size, physical, count, verdict in columns:
            yield SkippedFile(
                path=path,
                reason=_REASONS[verdict],
                record_count=count if count >= 0 else None,
                size=size,
                physical=physical,
            )

    @overload
    def __getitem__(self, index: int) -> SkippedFile: ...

    @overload
    def __getitem__(self, index: slice) -> SkippedFiles: ...

    def __getitem__(self, index: int | slice) -> SkippedFile | SkippedFiles:
        if isinstance(index, slice):
            return SkippedFiles(self.files, self.counts, self.places[index], self.verdicts[index])
        place = range(len(self.places))[index]
        return next(iter(self[place : place + 1]))
