"""Python values and NumPy arrays as Arrow arrays, and back, without pandas.

pyarrow imports pandas, where that is installed, for the first value that `pa.array`, `pa.scalar` or `to_numpy`
converts: 0.2 s in every process, for nothing. What each read of a table converts is therefore made of buffers here.
Types that are not named go to `pa.array`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_KINDS: dict[pa.DataType, tuple[type, type[np.generic]]] = {
    pa.bool_(): (bool, np.bool_),
    pa.int8(): (int, np.int8),
    pa.int32(): (int, np.int32),
    pa.int64(): (int, np.int64),
}
_TEXTS = pa.map_(pa.string(), pa.string())
_MOST_BYTES = 2**31 - 1  # of the texts of an array, whose offsets are 32 bits


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """The array of that type: strings, bytes, Booleans, integers or maps of strings (lists of pairs); None is null.

    Raises:
        OverflowError, UnicodeError, TypeError, ValueError, pa.ArrowException: a value is none of the type.
    """
    if type_ == pa.string():
        return _strings(values)
    if type_ == pa.binary():
        return _binaries(values)
    if type_ in _KINDS:
        python, kind = _KINDS[type_]
        missing = _missing(values, python)
        return from_numpy(np.fromiter((value or 0 for value in values), kind, len(values)), missing=missing)
    return _maps(values) if type_ == _TEXTS else pa.array(values, type_)


def _strings(values: Sequence[str | None]) -> pa.Array:
    missing = _missing(values, str)
    present = [value or "" for value in values]
    text = "".join(present)
    data = text.encode()
    sizes = map(len, present) if len(text) == len(data) else (len(value.encode()) for value in present)
    offsets = _offsets(sizes, len(values))
    if len(data) > _MOST_BYTES:
        return pa.array(values, pa.string())
    return pa.Array.from_buffers(
        pa.string(), len(values), [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _binaries(values: Sequence[bytes | None]) -> pa.Array:
    missing = _missing(values, bytes)
    data = b"".join(value or b"" for value in values)
    if len(data) > _MOST_BYTES:
        return pa.array(values, pa.binary())
    offsets = _offsets((len(value or b"") for value in values), len(values))
    return pa.Array.from_buffers(
        pa.binary(), len(values), [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _maps(values: Sequence[Sequence[tuple[str, str | None]] | None]) -> pa.Array:
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    present = [value or () for value in values]
    keys, texts = (array_of([pair[i] for pair in chain.from_iterable(present)], pa.string()) for i in (0, 1))
    if keys.null_count:  # pyarrow would end the process
        raise ValueError("a key of a map is null")
    entries = pa.StructArray.from_arrays([keys, texts], fields=[_TEXTS.key_field, _TEXTS.item_field])
    offsets = _offsets(map(len, present), len(present))
    return pa.Array.from_buffers(_TEXTS, len(values), [_validity(missing), pa.py_buffer(offsets)], children=[entries])


def _missing(values: Sequence[Any], python: type) -> npt.NDArray[np.bool_]:
    kinds = set(map(type, values))
    if not kinds <= {python, NoneType}:
        raise TypeError(f"expected {python.__name__}, got {', '.join(sorted(kind.__name__ for kind in kinds))}")
    if NoneType not in kinds:
        return np.zeros(len(values), np.bool_)
    return np.fromiter((value is None for value in values), np.bool_, len(values))


def _offsets(sizes: Iterable[int], count: int) -> npt.NDArray[np.int32]:
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=offsets[1:], dtype=np.int32)
    return offsets


def scalar_of(value: Any, type_: pa.DataType) -> pa.Scalar:
    """The scalar of that type; types and errors as for `array_of`."""
    return array_of([value], type_)[0]


def from_numpy(values: npt.NDArray[Any], *, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Integers or Booleans as an array; `missing`: where it is null."""
    validity = None if missing is None else _validity(missing)
    if values.dtype == np.bool_:
        data, type_ = np.packbits(values, bitorder="little"), pa.bool_()
    else:
        data, type_ = np.ascontiguousarray(values), pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(data)])


def to_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Integers or Booleans without nulls as a NumPy array, which may be read-only."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if array.null_count:
        raise ValueError(f"{array.null_count} of the values are null")
    if not len(array):
        return np.zeros(0, np.bool_ if array.type == pa.bool_() else array.type.to_pandas_dtype())
    data, start = array.buffers()[1], array.offset
    if array.type == pa.bool_():
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=start + len(array), bitorder="little")
        return bits[start:].astype(np.bool_)
    kind = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(data, kind, count=len(array), offset=start * kind.itemsize)


def listed(values: Sequence[Any] | pa.Array) -> Sequence[Any]:
    """Values as Python's own, of an Arrow array or given so."""
    return values.to_pylist() if isinstance(values, pa.Array) else values


def text_bytes(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of strings, or of binary values, behind each other, and where each begins; one offset more than values.

    What stands in null ones, mostly nothing, is there too.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1].astype(np.int64)
    data = texts.buffers()[2]
    own = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return own, offsets - offsets[0]


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct numbers, ascending. Asked for nothing else, `np.unique` imports numpy's masked arrays."""
    found: npt.NDArray[Any] = np.unique(values, return_counts=True)[0]
    return found


def without_rows(schema: pa.Schema) -> pa.Table:
    """The table of that schema that has no rows."""
    return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _validity(missing: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
