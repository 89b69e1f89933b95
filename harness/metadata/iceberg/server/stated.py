"""Plans that apply a server's list of files literally, for plans that harness otherwise refuses to read.

A reader that trusts a server applies the deletes that the server lists for a data file, regardless of their scope and
their target. A comparison of this reader's rows with the right rows shows the effect of an invalid plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from harness.errors import UnsupportedError
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.metadata.iceberg.planned_deletes import key_columns
from harness.metadata.iceberg.scan import physical_paths
from harness.metadata.iceberg.server.listing import ListedDelete, ListedFile
from harness.metadata.iceberg.values import Partitions
from harness.metadata.model.arrow_values import array_of
from harness.metadata.plan.deletes import (
    EqualityDelete,
    PositionDeleteFile,
    PositionDeletes,
    PositionFiles,
    StoredVector,
    vectors_table,
)
from harness.metadata.plan.scan_plan import FILES, no_skipped_files
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.paths import PathMap
from harness.storage.records import dataclass

_POSITIONS, _DATA, _KEYS = 0, 1, 2
"""Sequence numbers that make every delete apply to exactly the files that list it.

Equality deletes are newer than all data files. Position delete files are older, so their rows for other files are
ignored.
"""


def stated_plan(
    files: Iterable[ListedFile], like: PlannedScan, partitions: Partitions, path_map: PathMap
) -> PlannedScan:
    """Return a plan that reads files with exactly the deletes that are listed for them.

    Args:
        files: The files.
        like: A plan of the same read, with its columns, filter, and storage.
        partitions: The partition tuples of the table. The tuples of the files are added.
        path_map: The map from recorded to physical paths.

    Raises:
        UnsupportedError: A file has several deletion vectors.
        InvalidTableError: A key of an equality delete is in no schema of the table.
        OutsideTableError: A file may not be read.
    """
    deletes = _StatedDeletes(partitions, path_map)
    rows = [_row(file.file, deletes, file.deletes) for file in files]
    columns = {name: [row.get(name) for row in rows] for name in FILES.names}
    # A negative number -1 - n means vector n. The vectors are numbered before the sets of position delete files.
    columns["positions"] = [
        place if place is None else -1 - place if place < 0 else place + len(deletes.vectors)
        for place in columns["positions"]
    ]
    arrays = {name: array_of(values, FILES.field(name).type) for name, values in columns.items() if name != "physical"}
    arrays["physical"] = physical_paths(path_map, pa.chunked_array([arrays["path"]]))
    return within_roots(
        replace(
            like,
            files=pa.table([arrays[name] for name in FILES.names], schema=FILES),
            partitions=partitions.all(),
            equality_deletes=tuple(map(deletes.equality_delete, deletes.equality)),
            delete_sets=tuple(deletes.equality_sets) or ((),),
            position_deletes=PositionDeletes(
                files=tuple(deletes.position_file(*each) for each in deletes.files),
                vectors=vectors_table([deletes.vector(delete) for delete in deletes.vectors]),
                sets=tuple(deletes.file_sets),
            ),
            skipped=no_skipped_files(),
            statistics=None,
        )
    )


def _row(file: DataFile, deletes: _StatedDeletes, listed: Iterable[ListedDelete]) -> dict[str, Any]:
    """Return a data file as a row of `FILES`, except that `positions` may be -1 - n for vector n."""
    partition = deletes.partitions.index_of(file.spec_id, file.partition)
    return {
        "path": file.path,
        "format": file.format,
        "record_count": file.record_count,
        "size": file.size,
        "spec_id": file.spec_id,
        "partition": partition,
        "sequence_number": _DATA,
        "first_row_id": file.first_row_id,
        "delete_set": deletes.equality_set(listed),
        "positions": deletes.positions(listed, partition, file.path),
    }


@dataclass(slots=True)
class _StatedDeletes:
    """The deletes of a stated plan, numbered in the order of their first use by a data file.

    Attributes:
        partitions: The partition tuples of the table.
        path_map: The map from recorded to physical paths.
        equality: The number of each equality delete.
        equality_sets: The number of each set of equality deletes.
        vectors: The number of each deletion vector.
        files: The number of each position delete file, by the delete and the partition of the data file.
        file_sets: The number of each set of position delete files.
    """

    partitions: Partitions
    path_map: PathMap
    equality: dict[ListedDelete, int] = field(default_factory=dict)
    equality_sets: dict[tuple[int, ...], int] = field(default_factory=dict)
    vectors: dict[ListedDelete, int] = field(default_factory=dict)
    files: dict[tuple[ListedDelete, int], int] = field(default_factory=dict)
    file_sets: dict[PositionFiles, int] = field(default_factory=dict)

    def equality_set(self, listed: Iterable[ListedDelete]) -> int:
        """Return the number of the set of equality deletes among the deletes of a data file."""
        equality = [delete for delete in listed if delete.content is Content.EQUALITY_DELETES]
        numbers = sorted(self.equality.setdefault(delete, len(self.equality)) for delete in equality)
        return self.equality_sets.setdefault(tuple(numbers), len(self.equality_sets))

    def positions(self, listed: Iterable[ListedDelete], partition: int, path: str) -> int | None:
        """Return the number of a data file's set of position delete files, or -1 - n if it has vector n.

        A data file with a vector has no other position deletes (iceberg 4.5).
        """
        vectors = [delete for delete in listed if delete.is_vector]
        if len(vectors) > 1:
            message = f"Cannot read the plan as it is stated: {path} has {len(vectors)} deletion vectors"
            raise UnsupportedError(message, cause="MultipleDVs", file=path, rule="iceberg 4.21")
        if vectors:
            return -1 - self.vectors.setdefault(vectors[0], len(self.vectors))
        files = [(delete, partition) for delete in listed if delete.content is Content.POSITION_DELETES]
        if not files:
            return None
        numbers = tuple(self.files.setdefault(each, len(self.files)) for each in files)
        return self.file_sets.setdefault(PositionFiles(numbers), len(self.file_sets))

    def equality_delete(self, delete: ListedDelete) -> EqualityDelete:
        """Return an equality delete as part of a plan. It applies to every file that lists it."""
        return EqualityDelete(
            path=delete.path,
            physical=self.path_map.physical(delete.path),
            format=delete.format,
            keys=key_columns(delete.equality_ids, self.partitions.schemas, file=delete.path),
            sequence_number=_KEYS,
            partition=None,
        )

    def position_file(self, delete: ListedDelete, partition: int) -> PositionDeleteFile:
        """Return a position delete file as part of a plan."""
        return PositionDeleteFile(
            path=delete.path,
            physical=self.path_map.physical(delete.path),
            format=delete.format,
            sequence_number=_POSITIONS,
            partition=partition,
        )

    def vector(self, delete: ListedDelete) -> StoredVector:
        """Return a deletion vector as part of a plan."""
        assert delete.offset is not None
        return StoredVector(
            path=delete.path,
            physical=self.path_map.physical(delete.path),
            format="puffin",
            offset=delete.offset,
            length=delete.length or 0,
            record_count=delete.record_count,
        )
