"""Holds a plan's files against the roots of its table (`harness.storage.roots`), by their distinct directories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import warn
from harness.metadata.model.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.paths import shown
from harness.storage.roots import Roots, Verdict

_SLICE_ROWS = 1 << 16
"""Paths are taken apart so many at a time: as lists they take twice the memory of the texts."""
_MAY_CLIMB = r"(\.|%(25)*2[eE]){2}"
"""Two dots, encoded or not: what `harness.storage.paths.climbs` is then asked about."""


def within_roots(plan: ScanPlan) -> ScanPlan:
    """The plan, once every file in it may be read; files outside of the table are named in one warning.

    Links between the files themselves show when these are opened, see `harness.storage.gate`.

    Raises:
        OutsideTableError: a data or delete file may not be read; names it.
    """
    roots = plan.storage.roots
    if roots is None:
        return plan
    for path, physical in (*_doubtful(plan.files, roots), *_delete_files(plan)):
        roots.check(physical, path)
    sentence = roots.told()
    if sentence is None:
        return plan
    warn(f"Table {shown(plan.table)}: {sentence}")
    return replace(plan, warnings=(*plan.warnings, sentence))


def _doubtful(files: pa.Table, roots: Roots) -> Iterator[tuple[str, str]]:
    """Data files outside of the roots, recorded and physical: one of each directory, and all that may climb."""
    physical = files.column("physical")
    slices = (physical.slice(start, _SLICE_ROWS) for start in range(0, len(physical), _SLICE_ROWS))
    distinct = dict.fromkeys(folder for part in slices for folder in pc.unique(_folders(part)).to_pylist())
    outside = [f for f in distinct if f.endswith(":/") or roots.verdict(f) is not Verdict.INSIDE]
    if not outside:
        return
    folders = _folders(physical)
    is_outside = pc.is_in(folders, array_of(outside, pa.string()))
    found = files.select(["path", "physical"]).filter(is_outside)
    places = to_numpy(folders.filter(is_outside).combine_chunks().dictionary_encode().indices)
    _, first = np.unique(places, return_index=True)
    path = found.column("path")
    dotted = found.filter(pc.or_(pc.match_substring(path, ".."), pc.match_substring(path, "%")))
    for rows in (
        found.take(from_numpy(first)),
        dotted.filter(pc.match_substring_regex(dotted.column("path"), _MAY_CLIMB)),
    ):
        yield from zip(rows.column("path").to_pylist(), rows.column("physical").to_pylist(), strict=True)


def _folders(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.list_element(pc.split_pattern(paths, "/", max_splits=1, reverse=True), scalar_of(0, pa.int32()))


def _delete_files(plan: ScanPlan) -> Iterator[tuple[str, str]]:
    """Recorded and physical paths."""
    yield from ((delete.path, delete.physical) for delete in plan.equality_deletes)
    yield from ((d.path, d.physical) for d in plan.position_deletes if d.physical is not None)
