"""The live files of a scan as the columns of a `ScanPlan`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.delta.commits import Locator
from harness.delta.files_statistics import FilesStatistics
from harness.model.arrow_values import from_numpy, scalar_of
from harness.plan.scan_plan import FILES
from harness.plan.skipped_files import KEPT, SkippedFiles, Verdicts


def planned_files(
    files: pa.Table, locator: Locator, counts: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32]
) -> pa.Table:
    """`FILES` rows for a `FILES_STATE` table.

    Args:
        files: the files to read. locator: tells where they are.
        counts: their physical rows, -1 is unknown.
        partitions: the index of each file's partition tuple.
    """
    size = files.num_rows
    zeros = from_numpy(np.zeros(size, dtype=np.int32))
    columns = {
        "path": files.column("path"),
        "physical": locator.physical(files.column("key")),
        "format": pa.repeat(scalar_of("parquet", pa.string()), size),
        "record_count": from_numpy(counts, missing=counts < 0),
        "size": files.column("size"),
        "spec_id": zeros,
        "partition": from_numpy(partitions),
        "sequence_number": pa.nulls(size, pa.int64()),
        "first_row_id": files.column("base_row_id"),
        "delete_set": zeros,
        # Whatever its cardinality says: a count may be wrong, and the vector is read (against delta D9).
        "has_positions": pc.is_valid(files.column("dv_storage_type")),
    }
    return pa.table([columns[name] for name in FILES.names], schema=FILES)


def skipped_files(statistics: FilesStatistics, locator: Locator, verdicts: Verdicts) -> SkippedFiles:
    """Those files that the verdicts leave out."""
    places = np.flatnonzero(verdicts != KEPT)

    def load() -> pa.Table:
        known = statistics.record_counts(places)
        files = statistics.files.select(["path", "size", "key"]).take(from_numpy(places))
        columns = {"path": files.column("path"), "size": files.column("size")}
        columns["physical"] = locator.physical(files.column("key"))
        return pa.table({**columns, "record_count": from_numpy(known, missing=known < 0)})

    return SkippedFiles.of(verdicts[places], load)
