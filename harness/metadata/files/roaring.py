"""Deleted row positions: decoding of serialized roaring bitmaps, and conversion to bits for lookups by engines.

Both table formats store deletion vectors as a 64-bit roaring bitmap: 32-bit bitmaps, each with the high half of its
positions as key. The bytes are untrusted. `decode_portable` therefore reads all of them itself, and passes bytes to the
C library only after checking their counts, sizes, and order. Damage is never repaired.

Spec: Iceberg (Puffin) "deletion-vector-v1"; Delta "Deletion Vector Format"; RoaringFormatSpec "Standard 32-bit".
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError
from harness.metadata.model.arrow_values import distinct_values
from harness.storage.limits import DEFAULT, Limits

Positions: TypeAlias = npt.NDArray[np.uint64]

_COOKIE_NO_RUNS = 12346
_COOKIE_RUNS = 12347
_NO_OFFSETS_BELOW = 4  # containers; smaller bitmaps with runs have no offset header
_ARRAY_LIMIT = 4096  # values; containers with more are bitsets
_BITSET_BYTES = 8192
_MAX_CONTAINERS = 1 << 16
_KEY_LIMITS = {"any": (1 << 31) - 1, "ascending": 1 << 31}  # iceberg 4.18; delta D7: an int32 of 0 and above
_SMALLEST_BITMAP = 12  # bytes: key, cookie and container count

_Span: TypeAlias = tuple[int, int, int]  # key, start and end of the 32-bit bitmap


def decode_portable(
    data: bytes | memoryview,
    *,
    key_order: Literal["any", "ascending"] = "any",
    rule: str | None = None,
    limits: Limits = DEFAULT,
) -> BitMap64:
    """Decode a 64-bit roaring bitmap in the portable format, without the magic, length, or checksum around it.

    Empty inner bitmaps and gaps between keys are legal and cost nothing.

    Args:
        data: The bitmap count (u64), and for each bitmap its key (u32) and the 32-bit roaring bitmap; little-endian.
        key_order: `ascending` refuses unordered keys (Delta D7). `any` accepts them, because some writers iterate an
            unordered map (iceberg 4.20).
        rule: The rule that errors cite.
        limits: The limit on the number of positions.

    Raises:
        CorruptDeleteError: The bytes end early or late, a key is repeated or too large (2^31 - 1 in any order, 2^31 in
            ascending order), or a container contradicts its header or is not sorted. Rules: iceberg 4.18, 4.20; delta
            D7, D8.
        LimitError: The bitmap has more than `limits.positions` positions.
    """
    buffer = bytes(data)
    spans = _spans(buffer, rule, native=False)
    keys = [key for key, _, _ in spans]
    limit = _KEY_LIMITS[key_order]
    if max(keys, default=0) >= limit:
        raise _corrupt(f"key {max(keys)} is too large, expected below {limit}", rule)
    if len(set(keys)) != len(keys):
        raise _corrupt("two bitmaps have the same key", rule)
    if keys != sorted(keys):
        if key_order == "ascending":
            raise _corrupt("the keys of its bitmaps do not ascend", rule)
        buffer = _assemble(buffer, spans)  # the C library takes ascending keys only
    return _deserialize(buffer, rule, limits)


def decode_native(data: bytes | memoryview, *, rule: str | None = None, limits: Limits = DEFAULT) -> BitMap64:
    """Decode a bitmap in Delta's older layout.

    It has a bitmap count (i32), and for each bitmap its byte length (i32) and the bitmap. The key of a bitmap is its
    index.

    Raises:
        CorruptDeleteError: As for `decode_portable`, or a byte length is wrong. Rules: delta D7, D8.
        LimitError: As for `decode_portable`.
    """
    buffer = bytes(data)
    return _deserialize(_assemble(buffer, _spans(buffer, rule, native=True)), rule, limits)


def from_positions(positions: npt.NDArray[np.int64] | Positions) -> BitMap64:
    """Return a bitmap of non-negative row positions, in any order, with or without duplicates.

    Containers are serialized with NumPy: the C library's constructor takes 45 ns per value, this about 5 ns.
    """
    values = positions.astype(np.uint64)
    if values.size > 1 and not bool(np.all(values[1:] > values[:-1])):
        values = distinct_values(values)
    keys, starts = _runs_of_equal(values >> np.uint64(32))
    parts = [struct.pack("<Q", len(keys))]
    for index, key in enumerate(keys):
        parts += (struct.pack("<I", key), _encode(values[starts[index] : starts[index + 1]].astype(np.uint32)))
    return BitMap64.deserialize(b"".join(parts))


def to_positions(bitmap: BitMap64) -> Positions:
    """Return the row positions of a bitmap, ascending."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64)


def deleted_mask(positions: BitMap64, row_count: int) -> npt.NDArray[np.int8]:
    """Return a byte for each row of a file: 1 if the row is deleted, else 0.

    Positions from `row_count` on are ignored.
    """
    mask = np.zeros(row_count, dtype=np.int8)
    values = to_positions(positions)
    if values.size and int(values[-1]) >= row_count:
        values = values[: int(np.searchsorted(values, row_count))]
    mask[values] = 1
    return mask


def deleted_bits(positions: BitMap64, row_count: int) -> bytes:
    """Return a bit for each row, 1 if it is deleted, starting at the most significant bit of the first byte.

    The last byte is padded with zeros.
    """
    return np.packbits(deleted_mask(positions, row_count).view(np.bool_)).tobytes()


class _DamageError(Exception):
    """A fault in the bytes. `_spans` converts it to the public error."""


def _corrupt(reason: str, rule: str | None) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"Cannot decode deletion vector: {reason}. Restore the file", cause="CorruptDeletionVector", rule=rule
    )


def _spans(buffer: bytes, rule: str | None, *, native: bool) -> list[_Span]:
    """Return the positions of the 32-bit bitmaps, after checking every container.

    `native` is True for Delta's older layout.
    """
    try:
        return _checked_spans(buffer, native=native)
    except _DamageError as damage:
        raise _corrupt(str(damage), rule) from None
    except struct.error:
        raise _corrupt(f"the bitmap ends early, after {len(buffer)} bytes", rule) from None


def _checked_spans(buffer: bytes, *, native: bool) -> list[_Span]:
    (count,) = struct.unpack_from("<I" if native else "<Q", buffer, 0)
    at = 4 if native else 8
    if count > (len(buffer) - at) // _SMALLEST_BITMAP:
        raise _DamageError(f"it declares {count} bitmaps, more than its {len(buffer)} bytes can hold")
    spans: list[_Span] = []
    for place in range(count):
        (first,) = struct.unpack_from("<i" if native else "<I", buffer, at)
        end = _bitmap_end(buffer, at + 4)
        if native and first != end - at - 4:
            raise _DamageError(f"bitmap {place} has {end - at - 4} bytes, {first} declared")
        spans.append((place if native else first, at + 4, end))
        at = end
    if at != len(buffer):
        raise _DamageError(f"{len(buffer) - at} bytes follow the last bitmap")
    return spans


def _assemble(buffer: bytes, spans: list[_Span]) -> bytes:
    """Return the portable form of the same bitmaps in ascending order of keys."""
    parts = [struct.pack("<Q", len(spans))]
    for key, start, end in sorted(spans):
        parts += (struct.pack("<I", key), buffer[start:end])
    return b"".join(parts)


def _deserialize(buffer: bytes, rule: str | None, limits: Limits) -> BitMap64:
    try:
        bitmap = BitMap64.deserialize(buffer)
    except ValueError as error:
        raise _corrupt(str(error), rule) from error
    # A few bytes of runs can represent billions of positions. They have not been expanded into an array yet.
    limits.check("positions", len(bitmap), "deleted rows of one file")
    return bitmap


def _bitmap_end(buffer: bytes, start: int) -> int:
    """Return the end of the 32-bit bitmap at `start`, after checking its containers."""
    (cookie,) = struct.unpack_from("<I", buffer, start)
    run_flags = b""
    if cookie == _COOKIE_NO_RUNS:
        (count,) = struct.unpack_from("<I", buffer, start + 4)
        at = start + 8
    elif cookie & 0xFFFF == _COOKIE_RUNS:
        count = (cookie >> 16) + 1
        run_flags = buffer[start + 4 : start + 4 + (count + 7) // 8]
        at = start + 4 + (count + 7) // 8
    else:
        raise _DamageError(f"a bitmap starts with cookie {cookie & 0xFFFF}, expected 12346 or 12347")
    if count > _MAX_CONTAINERS:
        raise _DamageError(f"a bitmap declares {count} containers, expected at most {_MAX_CONTAINERS}")
    header = _array(buffer, at, 2 * count, "<u2").reshape(-1, 2)
    if not _ascends(header[:, 0]):
        raise _DamageError("the container keys of a bitmap do not ascend")
    at += 4 * count
    offsets: list[int] | None = None
    if not run_flags or count >= _NO_OFFSETS_BELOW:
        offsets = _array(buffer, at, count, "<u4").tolist()
        at += 4 * count
    starts: list[int] = []
    for index, stored in enumerate(header[:, 1].tolist()):  # cardinalities minus one
        starts.append(at - start)
        if run_flags and run_flags[index >> 3] >> (index & 7) & 1:
            at = _check_runs(buffer, at, stored + 1)
        elif stored < _ARRAY_LIMIT:
            if not _ascends(_array(buffer, at, stored + 1, "<u2")):
                raise _DamageError("the values of an array container do not ascend")
            at += 2 * (stored + 1)
        else:
            total = int(np.bitwise_count(_array(buffer, at, _BITSET_BYTES // 8, "<u8")).sum())
            if total != stored + 1:
                raise _DamageError(f"a bitset container holds {total} values, {stored + 1} declared")
            at += _BITSET_BYTES
    if offsets is not None and offsets != starts:
        raise _DamageError("the container offsets of a bitmap are wrong")
    return at


def _check_runs(buffer: bytes, at: int, cardinality: int) -> int:
    count = int(struct.unpack_from("<H", buffer, at)[0])
    runs = _array(buffer, at + 2, 2 * count, "<u2").reshape(-1, 2).astype(np.int64)
    ends = runs[:, 0] + runs[:, 1]
    if count == 0 or int(ends[-1]) > 0xFFFF or not bool(np.all(runs[1:, 0] > ends[:-1])):
        raise _DamageError("the runs of a container overlap, are out of order, or exceed it")
    total = int(runs[:, 1].sum()) + count
    if total != cardinality:
        raise _DamageError(f"a run container holds {total} values, {cardinality} declared")
    return at + 2 + 4 * count


def _array(buffer: bytes, at: int, count: int, dtype: str) -> npt.NDArray[np.unsignedinteger[Any]]:
    if at + count * np.dtype(dtype).itemsize > len(buffer):
        raise _DamageError(f"the bitmap ends early, after {len(buffer)} bytes")
    return np.frombuffer(buffer, dtype=dtype, count=count, offset=at) if count else np.empty(0, dtype=dtype)


def _ascends(values: npt.NDArray[np.unsignedinteger[Any]]) -> bool:
    return bool(np.all(values[1:] > values[:-1]))


def _runs_of_equal(values: npt.NDArray[np.unsignedinteger[Any]]) -> tuple[list[int], list[int]]:
    """Return the distinct values of an ascending array, and the start of each, followed by the array's length."""
    if not values.size:
        return [], [0]
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = [0, *changes.tolist()]
    return values[starts].tolist(), [*starts, values.size]


def _encode(values: npt.NDArray[np.uint32]) -> bytes:
    """Return ascending, distinct values as a 32-bit bitmap of array and bitset containers."""
    keys, starts = _runs_of_equal(values >> np.uint32(16))
    low = values.astype("<u2")
    bodies = []
    for start, end in itertools.pairwise(starts):
        body = low[start:end]
        if body.size > _ARRAY_LIMIT:
            bits = np.zeros(_BITSET_BYTES * 8, dtype=np.bool_)
            bits[body] = True
            body = np.packbits(bits, bitorder="little")
        bodies.append(body.tobytes())
    sizes = np.array([8 + 8 * len(keys), *(len(body) for body in bodies[:-1])], dtype=np.int64)
    cardinalities = np.diff(starts) - 1
    header = np.stack([np.array(keys), cardinalities], axis=1).astype("<u2")
    offsets = np.cumsum(sizes).astype("<u4")
    return b"".join((struct.pack("<II", _COOKIE_NO_RUNS, len(keys)), header.tobytes(), offsets.tobytes(), *bodies))
