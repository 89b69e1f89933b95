"""The live files that a plan leaves out, made into objects only when looked at: there may be hundreds of thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class SkippedFiles(Sequence[SkippedFile]):
    """Files left out.

    size: how many. load: their path, record_count (null: unknown), size, physical path and verdict, as columns.
    """

    size: int
    load: Callable[[], pa.Table]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[SkippedFile]:
        columns = self.load().select(["path", "verdict", "record_count", "size", "physical"]).columns
        for path, verdict, record_count, size, physical in zip(*(c.to_pylist() for c in columns), strict=True):
            yield SkippedFile(
                path=path, reason=_REASONS[verdict], record_count=record_count, size=size, physical=physical
            )

    @overload
    def __getitem__(self, index: int) -> SkippedFile: ...

    @overload
    def __getitem__(self, index: slice) -> SkippedFiles: ...

    def __getitem__(self, index: int | slice) -> SkippedFile | SkippedFiles:
        places = range(self.size)[index]
        if isinstance(places, range):
            return SkippedFiles(len(places), lambda: self.load().take(pa.array(places, pa.int64())))
        return next(iter(self[places : places + 1]))
