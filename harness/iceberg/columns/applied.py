"""Which deletes apply to the planned data files: the delete index, asked for those files only that it can concern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.forks import cached_property
from harness.iceberg.columns.data_files import DataFiles
from harness.iceberg.deletes import DeleteIndex, FileDeletes
from harness.iceberg.partitions import Partitions
from harness.iceberg.relocation import authorities
from harness.model.arrow_values import array_of, distinct, to_numpy
from harness.records import dataclass


@dataclass(frozen=True)
class PlannedFiles:
    """The data files of a plan with their position deletes, by recorded path.

    files: in the order of the plan. with_positions: by ordinal, those that may have deleted positions.
    """

    files: DataFiles
    with_positions: Mapping[int, FileDeletes]

    def __contains__(self, path: object) -> bool:
        return path in self._ordinals

    def __getitem__(self, path: str) -> FileDeletes:
        ordinal = self._ordinals[path]
        found = self.with_positions.get(ordinal)
        return FileDeletes(data=self.files.entry(ordinal)) if found is None else found

    @cached_property
    def authorities(self) -> frozenset[str]:
        """Schemes and authorities that their paths begin with."""
        return authorities(self.files.table.column("path"))

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        # Of a path that is there twice, the later one.
        return {path: ordinal for ordinal, path in enumerate(self.files.table.column("path").to_pylist())}


def with_positions(files: DataFiles, index: DeleteIndex, partitions: Partitions) -> dict[int, FileDeletes]:
    """By ordinal, the files that may have deleted positions, with the sources of these.

    Raises:
        CorruptDeleteError: as `DeleteIndex.for_data_file`.
    """
    table = files.table
    concerned = np.zeros(len(files), dtype=np.bool_)
    named = index.named_paths
    if named:
        concerned |= to_numpy(pc.is_in(table.column("path"), value_set=array_of(sorted(named), pa.string())))
    scoped = index.scoped_partitions
    specs, tuples = to_numpy(table.column("spec_id")), to_numpy(table.column("tuple"))
    if scoped:
        in_scope = [(spec, partitions.key_of(spec, values)) in scoped for spec, values in _tuples(files)]
        concerned |= np.array(in_scope, dtype=np.bool_)[tuples]
    for spec in distinct(specs).tolist():
        if index.reaches(spec):
            concerned |= specs == spec
    places = np.flatnonzero(concerned).tolist()
    found = zip(places, map(index.for_data_file, files.entries(places)), strict=True)
    return {ordinal: deletes for ordinal, deletes in found if deletes.has_positions}


def equality_deletes(
    files: DataFiles, index: DeleteIndex, partitions: Partitions
) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]]]:
    """Per file the number of its set of equality deletes, in the order in which sets come; and the sets, as indexes
    into `DeleteIndex.equality_deletes`."""
    if not index.equality_deletes:
        return np.zeros(len(files), dtype=np.int64), [()] if len(files) else []
    keys = [(spec, partitions.key_of(spec, values)) for spec, values in _tuples(files)]
    pairs = np.stack(
        [to_numpy(files.table.column(name)).astype(np.int64) for name in ("tuple", "sequence_number")], axis=1
    )
    distinct, first, codes = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    sets: dict[tuple[int, ...], int] = {}
    numbers = np.zeros(len(distinct), dtype=np.int64)
    for place in np.argsort(first).tolist():
        tuple_, sequence_number = distinct[place].tolist()
        numbers[place] = sets.setdefault(index.equality_of(keys[tuple_], sequence_number), len(sets))
    return numbers[codes.reshape(-1)], list(sets)


def _tuples(files: DataFiles) -> Iterator[tuple[int, Mapping[int, Any]]]:
    """Every partition tuple with its spec."""
    yield from zip(files.specs_of_tuples(), files.tuples, strict=True)
