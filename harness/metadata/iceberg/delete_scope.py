"""The scope of deletes: which delete applies to which data file (iceberg 4.1 to 4.8, 4.14, 4.21). All of it is here.

| delete                | partition (4.1)                               | sequence number (2.10)    | path            |
|-----------------------|-----------------------------------------------|---------------------------|-----------------|
| equality delete       | the same; any, if its spec is unpartitioned   | greater than the file's   | any             |
| position delete file  | the same                                      | at least the file's       | those it names  |
| deletion vector       | the same                                      | at least the file's       | the one it says |

Sequence numbers are *data* sequence numbers. A position delete hits files of its own commit, an equality delete only
older ones (4.7). A file with a vector has no other position deletes (4.5).

A position delete file of another partition does not apply (4.4). If it names a live data file all the same, its writer
meant to delete those rows, and readers disagree: that is an error (trap T9), unless the caller chose to be lenient. It
shows where the metadata names exactly one file; when the file is read, because it is a *suspect* of every file that has
another spec and lies within its path bounds; and when it is read for another file. A file that names a data file of its
own spec and another tuple is caught at these moments only: to read the delete files of all partitions would undo
partition skipping.

Spec: Iceberg, "Scan Planning" and "Delete Formats".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from harness.errors import CorruptDeleteError, InvalidTableError
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry
from harness.metadata.iceberg.specs import PartitionSpec
from harness.storage.records import dataclass

FILE_PATH_ID = 2147483546
"""Reserved field id of the data file's path in a position delete file (iceberg 4.11)."""

PartitionOf: TypeAlias = Callable[[DataFile], Hashable]
"""The partition of a file, with its spec: equal tuples of two specs are two partitions (iceberg 2.18, 4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScope:
    """The rules for the deletes of one snapshot.

    partition_of: the partition of a data or delete file. specs: the table's, by id.
    lenient: position delete files and vectors hit files of any partition by path (`lenient_delete_partition`).
    trusted: the metadata of a position delete file, its bounds and the data file that it is for, keeps it from files of
        its partition; else only its rows do.
    """

    partition_of: PartitionOf = field(repr=False)
    specs: Mapping[int, PartitionSpec] = field(repr=False)
    lenient: bool = False
    trusted: bool = True

    def of_equality_delete(self, delete: ManifestEntry) -> Hashable | None:
        """The partition that an equality delete hits; None: all, as its spec is unpartitioned (iceberg 4.2, 4.6)."""
        spec = self.specs.get(delete.file.spec_id)
        if spec is None:
            raise InvalidTableError(
                f"Delete file has partition spec {delete.file.spec_id}, expected one of {sorted(self.specs)}",
                cause="MissingSpec",
                file=delete.file.path,
                rule="iceberg 2.22",
            )
        return None if spec.is_unpartitioned else self.partition_of(delete.file)

    def target(self, file: DataFile, live: Container[str]) -> str | None:
        """The only data file that a position delete file can name; None: it may name several (iceberg 4.4, 4.14)."""
        if not self.trusted:
            return None
        if file.referenced_data_file is not None:
            return file.referenced_data_file
        bounds = self.path_bounds(file)
        # Equal bounds that no live file has are cut, or wrong, or of a file that is gone: only reading tells which.
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] and bounds[0] in live else None

    def path_bounds(self, file: DataFile) -> tuple[str, str] | None:
        """Lowest and highest path in a position delete file; None: unknown."""
        return path_bounds(file) if self.trusted else None

    def check_target(self, delete: ManifestEntry, data: ManifestEntry, *, rule: str = "iceberg 4.4") -> None:
        """Refuses a delete for one data file that has another partition than that file."""
        if not self.lenient and self.partition_of(delete.file) != self.partition_of(data.file):
            raise _partition_mismatch(delete, data, rule)

    def check_vector(self, vector: ManifestEntry, data: ManifestEntry) -> None:
        """Refuses a vector that is older than its data file, or of another partition (iceberg 4.3)."""
        if vector.sequence_number < data.sequence_number:
            raise CorruptDeleteError(
                f"Deletion vector of {data.file.path} has sequence number {vector.sequence_number}, expected at least"
                f" {data.sequence_number} as its data file. Rewrite the vector",
                cause="CorruptDeletionVector",
                file=vector.file.path,
                rule="iceberg 4.3",
            )
        self.check_target(vector, data, rule="iceberg 4.3")


def first_position_delete(numbers: Sequence[int], number: int) -> int:
    """The place of the first position delete that hits a data file of a sequence number: its own, or a later one.

    numbers: the deletes' sequence numbers, ascending.
    """
    return bisect_left(numbers, number)


def first_equality_delete(numbers: Sequence[int], number: int) -> int:
    """The place of the first equality delete that hits a data file of a sequence number: strictly later ones do."""
    return bisect_right(numbers, number)


def vectors_by_target(vectors: Iterable[ManifestEntry]) -> dict[str, ManifestEntry]:
    """Deletion vectors by the path of their data file, which has one at most (iceberg 4.21)."""
    by_target: dict[str, ManifestEntry] = {}
    for vector in vectors:
        target = vector.file.referenced_data_file
        assert target is not None  # checked with the entry (iceberg 4.17)
        other = by_target.setdefault(target, vector)
        if other is not vector:
            raise CorruptDeleteError(
                f"Data file {target} has two deletion vectors, in {other.file.path} at {other.file.content_offset} and"
                f" in {vector.file.path} at {vector.file.content_offset}, expected one. Rewrite its deletes",
                cause="MultipleDVs",
                file=vector.file.path,
                rule="iceberg 4.21",
            )
    return by_target


def check_stray_rows(delete: ManifestEntry, data: ManifestEntry, *, has_vector: bool) -> None:
    """Refuses rows of a position delete file for a data file that the delete file does not apply to.

    Rows that a rule leaves without effect are ignored: of a file with a vector (4.5), or of a later one (4.4).
    """
    if has_vector or delete.sequence_number < data.sequence_number:
        return
    target = delete.file.referenced_data_file
    if target is not None and target != data.file.path:
        raise CorruptDeleteError(
            f"Position delete file is for data file {target} and has rows for {data.file.path}. Rewrite it",
            file=delete.file.path,
            rule="iceberg 4.4",
        )
    raise _partition_mismatch(delete, data, "iceberg 4.4")


def single_targets(deletes: Iterable[ManifestEntry]) -> frozenset[str]:
    """The paths that are the only one in the path bounds of a position delete file."""
    bounds = (path_bounds(entry.file) for entry in deletes if entry.file.content is Content.POSITION_DELETES)
    return frozenset(pair[0] for pair in bounds if pair is not None and pair[0] == pair[1])


def path_bounds(file: DataFile) -> tuple[str, str] | None:
    """Lowest and highest path in a position delete file; None if unknown, undecodable or inverted (iceberg 4.14)."""
    lower = (file.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (file.upper_bounds or {}).get(FILE_PATH_ID)
    if lower is None or upper is None or lower > upper:
        return None
    try:
        return lower.decode(), upper.decode()
    except UnicodeDecodeError:
        return None


def _partition_mismatch(delete: ManifestEntry, data: ManifestEntry, rule: str) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Delete of spec {delete.file.spec_id} and partition {dict(delete.file.partition)} names data file"
        f" {data.file.path} of spec {data.file.spec_id} and partition {dict(data.file.partition)}. Rewrite the delete,"
        " or apply it by path with lenient_delete_partition=True",
        cause="DeletePartitionMismatch",
        file=delete.file.path,
        rule=rule,
        options=("lenient_delete_partition",),
    )
