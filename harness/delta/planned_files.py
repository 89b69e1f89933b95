"""The live files of a scan as the columns of a `ScanPlan`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.plan.scan_plan import FILES
from harness.plan.skipped_files import KEPT, SkippedFiles, Verdicts


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


def skipped_files(files: pa.Table, counts: npt.NDArray[np.int64], verdicts: Verdicts) -> SkippedFiles:
    """Those `FILES_STATE` rows that the verdicts leave out; counts as above."""
    places = np.flatnonzero(verdicts != KEPT)

    def load() -> pa.Table:
        known, of_files = counts[places], files.select(["path", "size", "physical"]).take(pa.array(places))
        columns = {"record_count": pa.array(known, mask=known < 0), "verdict": pa.array(verdicts[places])}
        return pa.table({**{name: of_files.column(name) for name in of_files.column_names}, **columns})

    return SkippedFiles(len(places), load)
