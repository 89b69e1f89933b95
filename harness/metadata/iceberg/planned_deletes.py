"""Deletes of the data files in a plan: position deletes, and sets of equality deletes with their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.filters.skipping import may_share
from harness.metadata.iceberg.columns.entries import DataFiles, from_entries
from harness.metadata.iceberg.delete_scope import DeleteIndex, vector_of
from harness.metadata.iceberg.manifests import ManifestEntry
from harness.metadata.iceberg.skipping import bounds_of
from harness.metadata.iceberg.values import Partitions
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Indices, Mask, array_of, distinct_values, from_numpy, to_numpy
from harness.metadata.model.schema import Field
from harness.metadata.plan.deletes import (
    EqualityDelete,
    PositionDeleteFile,
    PositionDeletes,
    PositionFiles,
    key_fields,
    vectors_table,
)
from harness.storage.paths import PathMap
from harness.storage.records import dataclass
from harness.storage.threads import phase

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

_BOUND_CHECKS = 200_000
"""Comparing the key bounds of every delete with every data file takes quadratic time. Beyond this many comparisons, the
join of the engine decides."""


def position_deletes(
    files: DataFiles, index: DeleteIndex, partitions: Partitions, path_map: PathMap
) -> tuple[PositionDeletes, pa.Array]:
    """Return the position deletes of data files, and the column `FILES.positions`.

    Raises:
        CorruptDeleteError: A delete contradicts the partition or sequence number of its data file (4.3, 4.4).
    """
    if not index.has_positions:
        return PositionDeletes(), pa.nulls(len(files), pa.int32())
    vectors, numbers = _vectors(files, index, partitions)
    places = np.flatnonzero(may_have_delete_files(files, index, partitions) & (numbers < 0)).tolist()
    delete_files: dict[int, tuple[int, ManifestEntry]] = {}
    sets: dict[PositionFiles, int] = {}

    def numbered(entries: Iterable[ManifestEntry]) -> tuple[int, ...]:
        return tuple(delete_files.setdefault(id(e), (len(delete_files), e))[0] for e in entries)

    for place, deletes in zip(places, map(index.for_data_file, files.entries(places)), strict=True):
        if deletes.applied or deletes.suspects:
            source = PositionFiles(numbered(deletes.applied), numbered(deletes.suspects))
            numbers[place] = len(vectors) + sets.setdefault(source, len(sets))
    planned_deletes = PositionDeletes(
        files=tuple(planned_delete_file(entry, partitions, path_map) for _, entry in delete_files.values()),
        vectors=vectors_table([vector_of(entry.file, path_map.physical(entry.file.path)) for entry in vectors]),
        sets=tuple(sets),
    )
    return planned_deletes, from_numpy(numbers, missing=numbers < 0)


def may_have_delete_files(files: DataFiles, index: DeleteIndex, partitions: Partitions) -> Mask:
    """Return which data files may have position delete files, as applied or as suspects."""
    table = files.table
    may_have_deletes = np.zeros(len(files), dtype=np.bool_)
    target_paths = array_of(sorted(index.targeted_paths), pa.string())
    if len(target_paths):
        may_have_deletes |= to_numpy(pc.is_in(table.column("path"), value_set=target_paths))
    partition_keys = index.scoped_partitions
    specs, tuples = to_numpy(table.column("spec_id")), to_numpy(table.column("tuple"))
    if partition_keys:
        in_scope = [partitions.key_of(spec, values) in partition_keys for spec, values in _tuples(files)]
        may_have_deletes |= np.array(in_scope, dtype=np.bool_)[tuples]
    for spec in distinct_values(specs).tolist():
        if index.has_foreign_deletes(spec):
            may_have_deletes |= specs == spec
    return may_have_deletes


def _vectors(
    files: DataFiles, index: DeleteIndex, partitions: Partitions
) -> tuple[list[ManifestEntry], npt.NDArray[np.int32]]:
    """Return the deletion vectors of data files, and for each file the index of its vector, -1 if it has none."""
    numbers = np.full(len(files), -1, dtype=np.int32)
    if not index.vectors:
        return [], numbers
    paths, entries = list(index.vectors), list(index.vectors.values())
    vector_indexes = pc.index_in(files.table.column("path"), value_set=array_of(paths, pa.string()))
    places = np.flatnonzero(to_numpy(vector_indexes.is_valid()))
    hits = to_numpy(vector_indexes.drop_null())
    distinct_hits, numbers[places] = np.unique(hits, return_inverse=True)
    keys = [partitions.key_of(spec, values) for spec, values in _tuples(files)]
    vector_sequence_numbers = np.array([entry.sequence_number for entry in entries], dtype=np.int64)[hits]
    is_older = vector_sequence_numbers < to_numpy(files.table.column("sequence_number"))[places]
    tuples = to_numpy(files.table.column("tuple"))[places].tolist()
    scopes = [index.scope.partition_of(entries[vector].file) for vector in hits.tolist()]
    is_foreign = [keys[tuple_] != scope for tuple_, scope in zip(tuples, scopes, strict=True)]
    is_doubtful = is_older | np.array(is_foreign, dtype=np.bool_)
    for vector, data in zip(hits[is_doubtful].tolist(), files.entries(places[is_doubtful].tolist()), strict=True):
        index.scope.check_vector(entries[vector], data)
    return [entries[vector] for vector in distinct_hits.tolist()], numbers


def planned_delete_file(entry: ManifestEntry, partitions: Partitions, path_map: PathMap) -> PositionDeleteFile:
    """Return the position delete file of an entry as part of a plan."""
    return PositionDeleteFile(
        path=entry.file.path,
        physical=path_map.physical(entry.file.path),
        format=entry.file.format,
        sequence_number=entry.sequence_number,
        partition=partitions.index_of(entry.file.spec_id, entry.file.partition),
        target=entry.file.referenced_data_file,
        record_count=entry.file.record_count,
    )


def equality_deletes(
    files: DataFiles, index: DeleteIndex, partitions: Partitions
) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]]]:
    """Group data files by the equality deletes that apply to them.

    Returns:
        The index of each file's set of deletes, and the sets in order of first use. A set is a tuple of indexes into
            `DeleteIndex.equality_deletes`.
    """
    if not index.equality_deletes:
        return np.zeros(len(files), dtype=np.int64), [()] if len(files) else []
    keys = [partitions.key_of(spec, values) for spec, values in _tuples(files)]
    pairs = np.stack(
        [to_numpy(files.table.column(name)).astype(np.int64) for name in ("tuple", "sequence_number")], axis=1
    )
    distinct, first, codes = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    sets: dict[tuple[int, ...], int] = {}
    numbers = np.zeros(len(distinct), dtype=np.int64)
    for place in np.argsort(first).tolist():
        tuple_, sequence_number = distinct[place].tolist()
        numbers[place] = sets.setdefault(index.equality.deletes_for(keys[tuple_], sequence_number), len(sets))
    return numbers[codes.reshape(-1)], list(sets)


def _tuples(files: DataFiles) -> Iterator[tuple[int, Mapping[int, Any]]]:
    """Yield the spec id and the values of every partition tuple."""
    yield from zip(files.specs_of_tuples(), files.tuples, strict=True)


@dataclass(slots=True)
class DeleteSets:
    """The distinct sets of equality deletes of files, and the deletes in them, numbered in order of first use.

    Attributes:
        deletes: All equality deletes of the snapshot.
        keys: The key columns of each delete.
        source: The table.
        partitions: The partition tuples of the plan.
    """

    deletes: Sequence[ManifestEntry]
    keys: Sequence[tuple[Field, ...]]
    source: IcebergTable
    partitions: Partitions
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _used: dict[int, int] = field(default_factory=dict)

    def number(self, files: DataFiles, codes: npt.NDArray[np.int64], sets: Sequence[tuple[int, ...]]) -> pa.Array:
        """Return the number of each file's set of equality deletes.

        Args:
            files: The data files.
            codes: For each file, the index in `sets` of the deletes that apply to it, as from `equality_deletes`.
            sets: The sets of deletes.
        """
        if not any(sets):
            self._numbers.setdefault((), 0)
            return from_numpy(np.zeros(len(files), dtype=np.int32))
        return self.number_hits(self.narrowed(files, [sets[code] for code in codes.tolist()]))

    def narrowed(self, files: DataFiles, hits: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return the deletes of each file without those whose key bounds match none of its rows (iceberg 4.9).

        Args:
            files: The data files.
            hits: The deletes that apply to each file by their scope.
        """
        narrowed_hits = list(hits)
        with phase("finding the deletes of files"):
            for place, narrowed in self._narrow(files, hits):
                narrowed_hits[place] = narrowed
        return narrowed_hits

    def number_hits(self, hits: Sequence[tuple[int, ...]]) -> pa.Array:
        """Return the number of each file's set of deletes, and remember the deletes as used."""
        # by identity, because files with the same deletes share one tuple, which may be long
        numbers: dict[int, int] = {}
        for deletes in hits:
            if id(deletes) not in numbers:
                numbers[id(deletes)] = self._numbers.setdefault(
                    tuple(sorted(self._used.setdefault(place, len(self._used)) for place in deletes)),
                    len(self._numbers),
                )
        return array_of([numbers[id(deletes)] for deletes in hits], pa.int32())

    def all_sets(self) -> tuple[tuple[int, ...], ...]:
        """Return every set, by number."""
        return tuple(self._numbers)

    def used_places(self) -> tuple[int, ...]:
        """Return the index in `deletes` of every delete that occurs in a set, in the order of their numbers."""
        return tuple(self._used)

    def used_deletes(self) -> tuple[EqualityDelete, ...]:
        """Return every delete that occurs in a set, in the order in which the sets number the deletes."""
        return tuple(self._delete(place) for place in self._used)

    def _narrow(self, files: DataFiles, hits: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the index of each file with the deletes whose key bounds may match one of its rows (iceberg 4.9).

        Only the first files are compared, up to a total of `_BOUND_CHECKS` comparisons.
        """
        if not self.source.options.prune.by_statistics:
            return
        checks = np.cumsum([len(deletes) for deletes in hits])
        places = [i for i in np.flatnonzero(checks <= _BOUND_CHECKS).tolist() if hits[i]]
        if not places:
            return
        used_deletes_ = list(set().union(*(hits[i] for i in places)))
        number = {delete: place for place, delete in enumerate(used_deletes_)}
        keys = [
            [key for key in self.keys[i] if len(key_fields(key)) == 1] for i in used_deletes_
        ]  # top-level keys only
        ids = tuple({column.id: None for columns in keys for column in columns})
        pairs = (
            np.array([number[delete] for i in places for delete in hits[i]], dtype=np.int64),
            np.repeat(np.array(places, dtype=np.int64), [len(hits[i]) for i in places]),
        )
        hit = iter(
            may_hit(
                from_entries((self.deletes[i] for i in used_deletes_), ids, manifest=0), files, keys, pairs
            ).tolist()
        )
        for place in places:
            yield place, tuple(delete for delete in hits[place] if next(hit))

    def _delete(self, place: int) -> EqualityDelete:
        entry = self.deletes[place]
        spec, tuple_ = self.source.metadata.specs[entry.file.spec_id], entry.file.partition
        return EqualityDelete(
            path=entry.file.path,
            physical=self.source.path_map.physical(entry.file.path),
            format=entry.file.format,
            keys=self.keys[place],
            sequence_number=entry.sequence_number,
            partition=None if spec.is_unpartitioned else self.partitions.index_of(spec.id, tuple_),
            record_count=entry.file.record_count,
        )


# Key columns are looked up in all schemas that the table ever had (iceberg 4.23).


def key_columns(ids: Iterable[int], schemas: Iterable[dt.Schema], *, file: str) -> tuple[dt.Field, ...]:
    """Return the key columns of one equality delete file.

    Each key is a top-level column. If the key is inside structs, the structs contain only the fields on the path to it.

    Args:
        ids: Field ids of the keys. The keys are returned in ascending order of id.
        schemas: Every schema of the table: the schema of the read first, then the others from newest to oldest. A
            column counts even if it has been dropped or renamed since.
        file: The delete file, for messages.

    Raises:
        InvalidTableError: An id is in no schema, is inside a list or map, or is not a single value.
        UnsupportedError: A key is a float. The format forbids float keys, because writers and engines disagree on -0.0
            and 0.0.
    """
    all_schemas = tuple(schemas)
    return tuple(_key_column(field_id, all_schemas, file) for field_id in sorted(set(ids)))


def _key_column(field_id: int, schemas: tuple[dt.Schema, ...], file: str) -> dt.Field:
    for schema in schemas:
        path = next((field_path for root in schema.fields if (field_path := _path(root, field_id))), ())
        if not path:
            continue
        *above, key = path
        collection = next((f for f in above if not isinstance(f.type, dt.StructType)), None)
        if collection is not None:
            raise _key_error(field_id, f"is inside {collection.name!r}, a list or map", file)
        if dt.children(key.type):
            raise _key_error(field_id, f"is {key.type}, not a single value", file)
        if isinstance(key.type, dt.FloatType):
            raise UnsupportedError(
                f"Cannot apply an equality delete: its key {key.name!r} is {key.type}, which the format forbids",
                cause="UnknownEqualityField",
                file=file,
                field=key.name,
                rule="iceberg 4.23",
            )
        for parent in reversed(above):
            key = replace(parent, type=dt.StructType((_optional_if_dropped(key, schema, schemas),)))
        return _optional_if_dropped(key, schema, schemas)
    message = f"Cannot apply an equality delete: no schema of the table has its key field id {field_id}"
    raise InvalidTableError(message, cause="UnknownEqualityField", file=file, field=str(field_id), rule="iceberg 4.23")


def _path(field: dt.Field, field_id: int) -> tuple[dt.Field, ...]:
    """Return the fields from `field` down to the field with the id, or an empty tuple if no field has it."""
    if field.id == field_id:
        return (field,)
    return next(((field, *below) for child in dt.children(field.type) if (below := _path(child, field_id))), ())


def _optional_if_dropped(field: dt.Field, schema: dt.Schema, schemas: tuple[dt.Schema, ...]) -> dt.Field:
    """Return the field, made optional if it comes from another schema than the schema of the read.

    Files written after a column was dropped lack the column, even if it was required.
    """
    return field if schema is schemas[0] else replace(field, required=False)


def _key_error(field_id: int, why: str, file: str) -> InvalidTableError:
    message = f"Cannot apply an equality delete: its key field id {field_id} {why}"
    return InvalidTableError(message, cause="UnknownEqualityField", file=file, field=str(field_id), rule="iceberg 4.23")


# Bounds that are wrong without contradicting each other can keep a delete from a file that it should apply to
# (docs/reference/trust.md). They are used under `prune="all"` and `"files"` all the same, so that a query of few data
# files reads few delete files.
def may_hit(
    deletes: DataFiles, data: DataFiles, keys: Sequence[Sequence[dt.Field]], pairs: tuple[Indices, Indices]
) -> Mask:
    """Return, for each pair, whether a row of an equality delete may equal a row of a data file (iceberg 4.9).

    Args:
        deletes: Delete files, with the statistics of their keys.
        data: Data files, with the statistics of all keys.
        keys: For each delete file, the top-level keys to compare, with their newest type. Leaving a key out never
            excludes a pair wrongly. Keys inside structs must be left out, because writers differ on whether a null
            struct counts as a null of its fields.
        pairs: Indexes into `deletes` and into `data`, of deletes and files that the scope allows.
    """
    may_match = np.ones(len(pairs[0]), dtype=np.bool_)
    for column in {key.id: key for columns in keys for key in columns}.values():
        has_key = np.array([any(key.id == column.id for key in columns) for columns in keys], dtype=np.bool_)
        places = np.flatnonzero(may_match & has_key[pairs[0]])
        files = zip((deletes, data), pairs, strict=True)
        facts = (bounds_of(each, column).take(numbers[places]) for each, numbers in files)
        may_match[places] = may_share(column, *facts)
    return may_match
