"""Data files that a filter leaves out go at once, manifest by manifest: only what tells of them stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.iceberg.columns.data_files import DataFiles, with_tuples
from harness.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.plan.skipped_files import KEPT, Verdicts

Sift: TypeAlias = Callable[[DataFiles], Verdicts]
"""Verdicts on files. With less known of a file it may be kept, but never left out, where it would not be with more."""

_SHOWN = ("manifest", "tuple", "path", "record_count", "size")


@dataclass(frozen=True, slots=True)
class Sifted:
    """Live data files, apart by a filter.

    files: those to read.
    left_out: of the others the columns manifest, tuple, path, record_count and size, as in `files`, and their verdict.
    """

    files: DataFiles
    left_out: pa.Table

    @staticmethod
    def of(files: DataFiles, verdicts: Verdicts | None) -> Sifted:
        """verdicts: on each of `files`; None keeps all."""
        table = files.table
        if verdicts is None:
            return Sifted(files, left_out(table.slice(0, 0), np.zeros(0, dtype=np.int8)))
        dropped = np.flatnonzero(verdicts != KEPT)
        return Sifted(
            files.take(np.flatnonzero(verdicts == KEPT)), left_out(table.take(from_numpy(dropped)), verdicts[dropped])
        )

    def shifted(self, by: int) -> Sifted:
        """The same with numbers of tuples that are higher by so much."""
        return Sifted(
            DataFiles(_shifted(self.files.table, by), self.files.manifests, self.files.tuples, self.files.fields),
            _shifted(self.left_out, by),
        )


def left_out(table: pa.Table, verdicts: Verdicts) -> pa.Table:
    """What stays of files that are left out."""
    return table.select(_SHOWN).append_column("verdict", from_numpy(verdicts))


def of_manifest(sifted: Sifted, number: int) -> Sifted:
    """The files of one manifest, with its own partition tuples. The files are in ascending order of manifests."""
    kept, dropped = (_rows_of(table, number) for table in (sifted.files.table, sifted.left_out))
    codes = np.concatenate([to_numpy(kept.column("tuple")), to_numpy(dropped.column("tuple"))])
    used, renumbered = np.unique(codes, return_inverse=True)
    numbers = renumbered.astype(np.int32)
    tuples: Sequence[Mapping[int, Any]] = [sifted.files.tuples[i] for i in used.tolist()]
    files = DataFiles(with_tuples(kept, from_numpy(numbers[: len(kept)])), (), tuples, sifted.files.fields)
    return Sifted(files, with_tuples(dropped, from_numpy(numbers[len(kept) :])))


def _rows_of(table: pa.Table, number: int) -> pa.Table:
    start, end = np.searchsorted(to_numpy(table.column("manifest")), [number, number + 1]).tolist()
    return table.slice(start, end - start)


def _shifted(table: pa.Table, by: int) -> pa.Table:
    return with_tuples(table, pc.add(table.column("tuple"), scalar_of(by, pa.int32())))
