"""Data files that a filter leaves out go at once, batch by batch: only what tells of them stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.iceberg.columns.data_files import DataFiles, with_tuples
from harness.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.plan.skipped_files import KEPT, Verdicts
from harness.records import dataclass

Sift: TypeAlias = Callable[[DataFiles], Verdicts]
"""Verdicts on files. With less known of a file it may be kept, but never left out, where it would not be with more."""

_SHOWN = ("manifest", "tuple", "record_count", "size")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Live data files that are not read.

    table: the columns manifest, tuple, record_count and size, as in `DataFiles`, and the verdict.
    paths: as recorded; they are most of what there is to know of a file, and nobody may ask.
    """

    table: pa.Table
    paths: Callable[[], pa.ChunkedArray]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @staticmethod
    def of(table: pa.Table, verdicts: Verdicts, paths: Callable[[], pa.ChunkedArray]) -> LeftOut:
        """Those of a table of `DataFiles`, perhaps without paths, that are not kept. paths: of those."""
        dropped = np.flatnonzero(verdicts != KEPT)
        shown = table.select(_SHOWN)
        shown = shown if len(dropped) == len(verdicts) else shown.take(from_numpy(dropped))
        return LeftOut(shown.append_column("verdict", from_numpy(verdicts[dropped])), paths)


@dataclass(frozen=True, slots=True)
class Sifted:
    """Live data files, apart by a filter. files: those to read."""

    files: DataFiles
    left_out: LeftOut

    @staticmethod
    def of(files: DataFiles, verdicts: Verdicts | None) -> Sifted:
        """verdicts: on each of `files`; None keeps all."""
        verdicts = np.full(len(files), KEPT, dtype=np.int8) if verdicts is None else verdicts
        left = files.table.column("path").filter(from_numpy(verdicts != KEPT))
        return Sifted(
            files.take(np.flatnonzero(verdicts == KEPT)),
            LeftOut.of(files.table, verdicts, lambda: left),
        )

    def shifted(self, by: int) -> Sifted:
        """The same with numbers of tuples that are higher by so much."""
        files, left_out = self.files, self.left_out
        return Sifted(
            DataFiles(_shifted(files.table, by), files.manifests, files.tuples, files.fields),
            replace(left_out, table=_shifted(left_out.table, by)),
        )


def joined(parts: Sequence[Sifted]) -> Sifted:
    """The files of all parts in the order of their manifests, with all partition tuples in one list."""
    tuples: list[Mapping[int, Any]] = []
    shifted: list[Sifted] = []
    for part in parts:
        shifted.append(part.shifted(len(tuples)))
        tuples += part.files.tuples
    files = pa.concat_tables([part.files.table for part in shifted])
    left_out = pa.concat_tables([part.left_out.table for part in shifted])
    order, order_left = _order(files), _order(left_out)

    @cache
    def paths() -> pa.ChunkedArray:
        found = pa.chunked_array([chunk for p in parts for chunk in p.left_out.paths().chunks], pa.string())
        return found if order_left is None else found.take(order_left)

    return Sifted(
        DataFiles(files if order is None else files.take(order), (), tuples, parts[0].files.fields),
        LeftOut(left_out if order_left is None else left_out.take(order_left), paths),
    )


def _order(table: pa.Table) -> pa.Array | None:
    """The places of files in the order of manifests; None: they are in that order."""
    numbers = to_numpy(table.column("manifest"))
    return None if (numbers[1:] >= numbers[:-1]).all() else from_numpy(np.argsort(numbers, kind="stable"))


def _shifted(table: pa.Table, by: int) -> pa.Table:
    return with_tuples(table, pc.add(table.column("tuple"), scalar_of(by, pa.int32())))
