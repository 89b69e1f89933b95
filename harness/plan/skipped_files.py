"""The live files that a plan leaves out, made into objects only when looked at: there may be hundreds of thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.filters.predicate import Filter
from harness.model.arrow_values import from_numpy
from harness.plan.scan_plan import SkippedFile
from harness.records import dataclass

KEPT: Final = 0
BY_PARTITION: Final = 1
BY_STATISTICS: Final = 2
"""Verdicts on a file."""

Verdicts: TypeAlias = npt.NDArray[np.int8]

_SLICE_ROWS = 1 << 14
"""Files are made into objects so many at a time."""

_REASONS: dict[int, Literal["partition", "statistics"]] = {BY_PARTITION: "partition", BY_STATISTICS: "statistics"}


@dataclass(frozen=True, slots=True)
class SkippedFiles(Sequence[SkippedFile]):
    """Files left out.

    verdicts: on each. load: their path, record_count (null: unknown), size and physical path, as columns; asked once.
    """

    verdicts: Verdicts
    load: Callable[[], pa.Table]

    @staticmethod
    def of(verdicts: Verdicts, load: Callable[[], pa.Table]) -> SkippedFiles:
        """The same, with what `load` gives kept once somebody has looked."""
        return SkippedFiles(verdicts, cache(load))

    def reasons(self) -> dict[str, int]:
        """How many files were left out for which reason; without a look at any."""
        counts = {reason: int((self.verdicts == verdict).sum()) for verdict, reason in _REASONS.items()}
        return {reason: count for reason, count in counts.items() if count}

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[SkippedFile]:
        table = self.load().select(["path", "record_count", "size", "physical"])
        for start in range(0, len(self), _SLICE_ROWS):
            columns = [column.to_pylist() for column in table.slice(start, _SLICE_ROWS).columns]
            verdicts = self.verdicts[start : start + _SLICE_ROWS].tolist()
            for verdict, path, record_count, size, physical in zip(verdicts, *columns, strict=True):
                yield SkippedFile(
                    path=path, reason=_REASONS[verdict], record_count=record_count, size=size, physical=physical
                )

    @overload
    def __getitem__(self, index: int) -> SkippedFile: ...

    @overload
    def __getitem__(self, index: slice) -> SkippedFiles: ...

    def __getitem__(self, index: int | slice) -> SkippedFile | SkippedFiles:
        places = range(len(self))[index]
        if isinstance(places, range):
            own = np.array(places, dtype=np.int64)
            return SkippedFiles.of(self.verdicts[own], lambda: self.load().take(from_numpy(own)))
        return next(iter(self[places : places + 1]))


def trusted_of_files(skipped: SkippedFiles, condition: Filter | None) -> tuple[str, ...]:
    """What the table says of files, and was believed so that they were skipped: a phrase each."""
    reasons = skipped.reasons()
    found = [f"partition tuples of {reasons['partition']:,} files"] if "partition" in reasons else []
    if "statistics" in reasons and condition is not None:
        columns = ", ".join(f.name for f in condition.columns)
        found.append(f"bounds and counts of {columns} in {reasons['statistics']:,} files")
    return tuple(found)
