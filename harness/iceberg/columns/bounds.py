"""Encoded bounds of one column in many files, decoded at once as `harness.iceberg.values.decode_bound` does each."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.iceberg.values import PER_DAY
from harness.model.arrow_values import scalar_of, to_numpy
from harness.model.schema import DateType, FloatType, IntegerType, StringType, TimestampType, TimeType, Type
from harness.records import dataclass

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bounds that are numbers: int64 or float64. known: where there is one."""

    values: npt.NDArray[Any]
    known: Mask


Decoded: TypeAlias = Numbers | pa.Array
"""Numbers, or texts, null where there is none."""


def decode_bounds(encoded: pa.ChunkedArray, type_: Type) -> Decoded | None:
    """The bounds of a column of `type_`; None: it has a type that is decoded one by one. Source: iceberg 3.21-3.24."""
    array = encoded.combine_chunks()
    match type_:
        case IntegerType(bits=bits):
            return _whole(array, (4, bits // 8))
        case DateType():
            return _whole(array, (4,))
        case TimeType():
            return _whole(array, (8,))
        case TimestampType(unit=unit):
            return _whole(array, (8, 4), PER_DAY[unit])
        case FloatType(bits=bits):
            return _floats(array, bits)
        case StringType():
            return _texts(array)
        case _:
            return None


def _whole(array: pa.Array, widths: tuple[int, ...], days: int = 1) -> Numbers | None:
    """days: what a bound of four bytes counts, where the type's own bounds have eight (iceberg 3.23)."""
    values = np.zeros(len(array), dtype=np.int64)
    known = np.zeros(len(array), dtype=np.bool_)
    for width in dict.fromkeys(widths):
        places, found = _of_width(array, width, "<i8" if width == 8 else "<i4")
        # Beyond 64 bits only Python's numbers count right.
        if width == 4 and days != 1 and len(found) and int(np.abs(found.astype(np.int64)).max()) * days >= 1 << 63:
            return None
        values[places] = found.astype(np.int64) * (days if width == 4 else 1)
        known[places] = True
    return Numbers(values, known)


def _floats(array: pa.Array, bits: int) -> Numbers:
    values = np.zeros(len(array), dtype=np.float64)
    known = np.zeros(len(array), dtype=np.bool_)
    for width in dict.fromkeys((4, bits // 8)):
        places, found = _of_width(array, width, "<f8" if width == 8 else "<f4")
        values[places] = found
        known[places] = ~np.isnan(found)
    return Numbers(values, known)


def _of_width(array: pa.Array, width: int, layout: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Where the bounds of a length are, and their bytes as numbers."""
    of_width = pc.equal(pc.binary_length(array), scalar_of(width, pa.int32()))
    fits = pc.fill_null(of_width, scalar_of(False, pa.bool_()))
    places: npt.NDArray[np.int64] = np.flatnonzero(to_numpy(fits))
    chosen = array.filter(fits)
    if not len(chosen):
        return places, np.zeros(0, dtype=layout)
    offsets = np.frombuffer(chosen.buffers()[1], dtype=np.int32)[chosen.offset :]
    start = int(offsets[0])
    return places, np.frombuffer(chosen.buffers()[2], dtype=layout, count=len(chosen), offset=start)


def _texts(array: pa.Array) -> pa.Array | None:
    """None: some are cut inside a character, and are looked at one by one (iceberg 3.22)."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return None
