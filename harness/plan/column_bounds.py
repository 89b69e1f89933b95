"""Bounds of a column in each file of a plan, for an engine that filters later than the plan was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.model.column_stats import ColumnStats, Known
from harness.model.schema import Type
from harness.records import dataclass

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Facts of a column of single values, one per file.

    lower, upper: internal values that all values but nulls and NaN lie within; None: unknown. A list, or an Arrow array
        of int64, float64 or string.
    has_nulls, has_nans, has_values: whether the file may hold a null, a NaN, something that is not null.
    """

    lower: Sequence[Any] | pa.Array
    upper: Sequence[Any] | pa.Array
    has_nulls: Mask
    has_nans: Mask
    has_values: Mask

    @staticmethod
    def joined(parts: Sequence[ColumnBounds], order: npt.NDArray[np.int64]) -> ColumnBounds:
        """Lists of several parts as one, of which `order` says where each file is."""
        lower = [value for part in parts for value in part.lower]
        upper = [value for part in parts for value in part.upper]
        return ColumnBounds(
            lower=[lower[i] for i in order.tolist()],
            upper=[upper[i] for i in order.tolist()],
            has_nulls=np.concatenate([part.has_nulls for part in parts])[order],
            has_nans=np.concatenate([part.has_nans for part in parts])[order],
            has_values=np.concatenate([part.has_values for part in parts])[order],
        )

    @staticmethod
    def of(type_: Type, stats: Sequence[ColumnStats]) -> ColumnBounds:
        """The certain part of the statistics of a column in each file."""
        known = [Known.of(type_, each) for each in stats]
        return ColumnBounds(
            lower=[each.lower for each in known],
            upper=[each.upper for each in known],
            has_nulls=np.array([each.has_nulls for each in known], dtype=np.bool_),
            has_nans=np.array([each.has_nans for each in known], dtype=np.bool_),
            has_values=np.array([each.has_values for each in known], dtype=np.bool_),
        )
