"""A plan together with the storage of its files and the statistics that it was made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import OutsideTableWarning, warn
from harness.metadata.filters.skipping import ColumnBounds
from harness.metadata.model.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from harness.metadata.model.schema import Field
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.gate import Containment, Roots
from harness.storage.paths import PhysicalPath, redact
from harness.storage.stores import Storage

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from harness.metadata.deletes.loading import PositionLoader
    from harness.metadata.filters.predicate import Filter


class PlanStatistics(Protocol):
    """Recorded statistics of the files of a plan, for engines that can use them."""

    def matches_all_rows(self) -> npt.NDArray[np.bool_]:
        """Return, for each file, whether all of its rows seem to match the filter of the plan.

        The result may be wrong, and it ignores nulls. Engines may use it to choose a faster way to read, but must still
        apply the filter.
        """

    def bounds(self, columns: Sequence[Field]) -> Mapping[int, ColumnBounds]:
        """Return the known bounds of columns in each file, by field id.

        Args:
            columns: Columns of the plan's schema.
        """


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlannedScan(ScanPlan):
    """A plan that can be run. It compares and pickles like the plan alone.

    Attributes:
        storage: The storage of the plan's files.
        statistics: The recorded statistics of the files; None if they are unknown or the plan was made elsewhere.
    """

    storage: Storage
    statistics: PlanStatistics | None = None
    _loaders: list[PositionLoader] = dataclasses.field(default_factory=list)

    @property
    def plan(self) -> ScanPlan:
        """The plan without storage and statistics."""
        return ScanPlan(**_members(self))

    def load_positions(self, ordinals: Iterable[int]) -> Mapping[int, BitMap64]:
        """Return the deleted row positions, from 0, by ordinal of the data file.

        Files without deleted positions are absent.

        Each delete file is read only once, even if a plan of fewer files loads it again. Raises the errors of
        `PositionLoader.load`.

        Args:
            ordinals: Ordinals of the data files.
        """
        return self._loader().load(list(ordinals)) if self.position_deletes else {}

    def load_dated(self, ordinals: Iterable[int]) -> Mapping[int, tuple[BitMap64, ...]]:
        """Return the row positions that each delete of a data file deletes, by ordinal of the data file.

        The plan must have lifetimes. The deletes are in the order of `DatedPositions.deletes`. Files without position
        deletes are absent. Raises the errors of `PositionLoader.load_dated`.

        Args:
            ordinals: Ordinals of the data files.
        """
        return self._loader().load_dated(list(ordinals)) if self.position_deletes else {}

    def _loader(self) -> PositionLoader:
        for loader in self._loaders:
            if loader.storage is self.storage and loader.has_same_deletes(self):
                return loader
        from harness.metadata.deletes import loading  # not needed by plans without deletes

        self._loaders.append(loading.PositionLoader(self.plan, self.storage))
        return self._loaders[-1]


def with_storage(plan: ScanPlan, storage: Storage) -> PlannedScan:
    """Return a plan that was made elsewhere as one that can be run with a storage."""
    return PlannedScan(**_members(plan), storage=storage)


def _members(plan: ScanPlan) -> dict[str, Any]:
    return {each.name: getattr(plan, each.name) for each in dataclasses.fields(ScanPlan)}


# Files are checked against the allowed roots (`harness.storage.gate`) once per distinct directory.


_SLICE_OF_PATHS = 1 << 16
"""Paths are split in slices of this size, because lists of parts take twice the memory of the texts."""
_MAY_CLIMB = r"(\.|%(25)*2[eE]){2}"
"""Two dots, percent-encoded or not. `harness.storage.paths.climbs` then decides about such paths."""


Planner: TypeAlias = Callable[[tuple[str, ...] | None, "str | Filter | None"], PlannedScan]
"""A function that plans a read of columns, or of all columns, with the rows that satisfy a condition."""


def within_roots(plan: PlannedScan) -> PlannedScan:
    """Check that every file of a plan may be read, and return the plan.

    Files outside the table that are allowed are named in one warning. Symbolic links are checked when files are opened,
    see `harness.storage.gate`.

    Raises:
        OutsideTableError: A data or delete file may not be read. The error names it.
    """
    roots = plan.storage.roots
    if roots is None:
        return plan
    vectors = plan.position_deletes.vectors.select(["path", "physical"])
    stored = vectors.filter(pc.is_valid(vectors.column("physical")))
    deletes = [(d.path, d.physical) for d in plan.equality_deletes]
    deletes += [(d.path, d.physical) for d in plan.position_deletes.files]
    deletes += list(dict.fromkeys((v.path, v.physical) for v in plan.position_deletes.vectors_of_sets()))
    for path, physical in (*_paths_to_check(plan.files, roots), *deletes, *_paths_to_check(stored, roots)):
        roots.check(physical, path)
    sentence = roots.outside_notice()
    if sentence is None:
        return plan
    warn(f"Table {redact(plan.table)}: {sentence}", OutsideTableWarning)
    return replace(plan, warnings=(*plan.warnings, sentence))


def _paths_to_check(files: pa.Table, roots: Roots) -> Iterator[tuple[str, PhysicalPath]]:
    """Yield the recorded and physical paths to check.

    These are one path in each directory outside the roots, and all paths with two dots.
    """
    physical = files.column("physical")
    slices = (physical.slice(start, _SLICE_OF_PATHS) for start in range(0, len(physical), _SLICE_OF_PATHS))
    distinct = dict.fromkeys(folder for part in slices for folder in pc.unique(_folders(part)).to_pylist())
    paths = files.select(["path", "physical"])
    tables = [paths.filter(pc.match_substring_regex(paths.column(name), _MAY_CLIMB)) for name in paths.column_names]
    outside_folders = [f for f in distinct if f.endswith(":/") or roots.containment(f) is not Containment.INSIDE]
    if outside_folders:
        folders = _folders(physical)
        is_outside = pc.is_in(folders, array_of(outside_folders, pa.string()))
        places = to_numpy(folders.filter(is_outside).combine_chunks().dictionary_encode().indices)
        _, first = np.unique(places, return_index=True)
        tables.insert(0, paths.filter(is_outside).take(from_numpy(first)))
    for rows in tables:
        yield from zip(rows.column("path").to_pylist(), rows.column("physical").to_pylist(), strict=True)


def _folders(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.list_element(pc.split_pattern(paths, "/", max_splits=1, reverse=True), scalar_of(0, pa.int32()))
