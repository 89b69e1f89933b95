"""The scope of deletes: which delete applies to which data file (iceberg 4.1 to 4.8, 4.14, 4.21).

This module alone decides if a delete may hit a file. `deletes` indexes the deletes of a snapshot, and finds those of a
file by this module; there a file with a vector gets the vector alone.

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
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np

from harness.errors import CorruptDeleteError, InvalidTableError, UnsupportedError
from harness.metadata.deletes.matching import FILE_PATH_ID, partition_mismatch
from harness.metadata.filters.skipping import may_share
from harness.metadata.iceberg.columns.entries import DataFiles
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.iceberg.skipping import bounds_of
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Mask, Places
from harness.storage.records import dataclass

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
            message = f"Delete file has partition spec {delete.file.spec_id}, expected one of {sorted(self.specs)}"
            raise InvalidTableError(message, cause="MissingSpec", file=delete.file.path, rule="iceberg 2.22")
        return None if spec.is_unpartitioned else self.partition_of(delete.file)

    def target(self, file: DataFile, live: Container[str]) -> str | None:
        """The only data file that a position delete file can name; None: it may name several (iceberg 4.4, 4.14)."""
        if not self.trusted:
            return None
        if file.referenced_data_file is not None:
            return file.referenced_data_file
        bounds = path_bounds(file)
        # Equal bounds that no live file has are cut, or wrong, or of a file that is gone: only reading tells which.
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] and bounds[0] in live else None

    def check_target(self, delete: ManifestEntry, data: ManifestEntry, *, rule: str = "iceberg 4.4") -> None:
        """Refuses a delete for one data file that has another partition than that file."""
        if not self.lenient and self.partition_of(delete.file) != self.partition_of(data.file):
            own, other = delete.file, data.file
            raise partition_mismatch(
                (own.path, own.spec_id, own.partition), (other.path, other.spec_id, other.partition), rule
            )

    def check_vector(self, vector: ManifestEntry, data: ManifestEntry) -> None:
        """Refuses a vector that is older than its data file, or of another partition (iceberg 4.3)."""
        if vector.sequence_number < data.sequence_number:
            message = (
                f"Deletion vector of {data.file.path} has sequence number {vector.sequence_number}, expected at least"
                f" {data.sequence_number} as its data file. Rewrite the vector"
            )
            raise CorruptDeleteError(message, cause="CorruptDeletionVector", file=vector.file.path, rule="iceberg 4.3")
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
            message = (
                f"Data file {target} has two deletion vectors, in {other.file.path} at {other.file.content_offset} and"
                f" in {vector.file.path} at {vector.file.content_offset}, expected one. Rewrite its deletes"
            )
            raise CorruptDeleteError(message, cause="MultipleDVs", file=vector.file.path, rule="iceberg 4.21")
    return by_target


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


# The key columns of equality deletes, looked up in all schemas that the table ever had (iceberg 4.23).


def key_columns(ids: Iterable[int], schemas: Iterable[dt.Schema], *, file: str) -> tuple[dt.Field, ...]:
    """Return the keys of one delete file: per key its top-level column, pruned down to the key.

    Args:
        ids: field ids of the keys, which are returned in ascending order.
        schemas: every schema of the table, that of the read first, then the newest: a column since dropped or renamed
            still counts.
        file: the delete file, for messages.

    Raises:
        InvalidTableError: an id is in no schema, lies below a list or map, or is not a single value.
        UnsupportedError: a float key, which the format forbids: writers and engines disagree on -0.0 and 0.0.
    """
    known = tuple(schemas)
    return tuple(_find(field_id, known, file) for field_id in sorted(set(ids)))


def read_schema_first(schemas: Mapping[int, dt.Schema], read: dt.Schema) -> tuple[dt.Schema, ...]:
    """The table's schemas, that of the read first, then by descending id.

    Its meaning of a field id goes before newer ones: replacing a table gives ids of old columns to new ones of the same
    name, whatever their types, and old snapshots stay.
    """
    others = sorted((schema for schema in schemas.values() if schema.id != read.id), key=lambda s: -s.id)
    return (read, *others)


def _find(field_id: int, schemas: tuple[dt.Schema, ...], file: str) -> dt.Field:
    for schema in schemas:
        found = next((path for root in schema.fields if (path := _path(root, field_id))), ())
        if not found:
            continue
        *above, key = found
        beside = next((f for f in above if not isinstance(f.type, dt.StructType)), None)
        if beside is not None:
            raise _refused(field_id, f"lies below {beside.name!r}, a list or map", file)
        if dt.children(key.type):
            raise _refused(field_id, f"is {key.type}, not a single value", file)
        if isinstance(key.type, dt.FloatType):
            raise UnsupportedError(
                f"Cannot apply an equality delete: its key {key.name!r} is {key.type}, which the format forbids",
                cause="UnknownEqualityField",
                file=file,
                field=key.name,
                rule="iceberg 4.23",
            )
        for parent in reversed(above):
            key = replace(parent, type=dt.StructType((_kept(key, schema, schemas),)))
        return _kept(key, schema, schemas)
    message = f"Cannot apply an equality delete: no schema of the table has its key field id {field_id}"
    raise InvalidTableError(message, cause="UnknownEqualityField", file=file, field=str(field_id), rule="iceberg 4.23")


def _path(field: dt.Field, field_id: int) -> tuple[dt.Field, ...]:
    """The fields from `field` down to that id; none if it is not below."""
    if field.id == field_id:
        return (field,)
    return next(((field, *below) for child in dt.children(field.type) if (below := _path(child, field_id))), ())


def _kept(field: dt.Field, schema: dt.Schema, schemas: tuple[dt.Schema, ...]) -> dt.Field:
    """A column that was dropped is optional: files written since lack it, required or not."""
    return field if schema is schemas[0] else replace(field, required=False)


def _refused(field_id: int, why: str, file: str) -> InvalidTableError:
    message = f"Cannot apply an equality delete: its key field id {field_id} {why}"
    return InvalidTableError(message, cause="UnknownEqualityField", file=file, field=str(field_id), rule="iceberg 4.23")


# Bounds that are false without a contradiction keep a delete from its file (docs/reference/trust.md). They are used all
# the same under `prune="all"` and `"files"`, so that a query of few data files reads few delete files.
def may_hit(
    deletes: DataFiles, data: DataFiles, keys: Sequence[Sequence[dt.Field]], pairs: tuple[Places, Places]
) -> Mask:
    """Return, for each pair, whether a row of an equality delete may equal a row of a data file (iceberg 4.9).

    Args:
        deletes: Delete files, with the statistics of their keys.
        data: Data files, with the statistics of all keys.
        keys: For each delete file, top-level keys with their newest type. Fewer keys make the answer true more often.
            Keys inside structs must be left out: writers differ on whether a null struct counts as null of its fields.
        pairs: Indices into `deletes` and into `data`, of files that are in scope of each other.
    """
    kept = np.ones(len(pairs[0]), dtype=np.bool_)
    for column in {key.id: key for columns in keys for key in columns}.values():
        has_key = np.array([any(key.id == column.id for key in columns) for columns in keys], dtype=np.bool_)
        places = np.flatnonzero(kept & has_key[pairs[0]])
        files = zip((deletes, data), pairs, strict=True)
        facts = (bounds_of(each, column).take(numbers[places]) for each, numbers in files)
        kept[places] = may_share(column, *facts)
    return kept
