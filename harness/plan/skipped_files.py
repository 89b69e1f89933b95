"""The live files that a plan leaves out, made into objects only when looked at: there may be hundreds of thousands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.plan.scan_plan import SkippedFile

KEPT: Final = 0
BY_PARTITION: Final = 1
BY_STATISTICS: Final = 2
"""Verdicts on a file."""

Verdicts: TypeAlias = npt.NDArray[np.int8]

_REASONS: dict[int, Literal["partition", "statistics"]] = {BY_PARTITION: "partition", BY_STATISTICS: "statistics"}
_COLUMNS = ("path", "record_count", "size", "physical")


@dataclass(frozen=True, slots=True)
class SkippedFiles(Sequence[SkippedFile]):
    """Files left out.

    files: columns path, record_count (null: unknown), size and physical of all live files.
    places: which of them are left out.
    verdicts: on each file in `places`.
    """

    files: pa.Table
    places: npt.NDArray[np.int64]
    verdicts: Verdicts

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[SkippedFile]:
        rows = self.files.select(list(_COLUMNS)).take(pa.array(self.places))
        columns = zip(*(column.to_pylist() for column in rows.columns), self.verdicts.tolist(), strict=True)
        for path, record_count, size, physical, verdict in columns:
            yield SkippedFile(
                path=path, reason=_REASONS[verdict], record_count=record_count, size=size, physical=physical
            )

    @overload
    def __getitem__(self, index: int) -> SkippedFile: ...

    @overload
    def __getitem__(self, index: slice) -> SkippedFiles: ...

    def __getitem__(self, index: int | slice) -> SkippedFile | SkippedFiles:
        if isinstance(index, slice):
            return SkippedFiles(self.files, self.places[index], self.verdicts[index])
        place = range(len(self.places))[index]
        return next(iter(self[place : place + 1]))
