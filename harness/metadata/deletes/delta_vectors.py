"""Deletion vectors of Delta, as bitmaps.

A vector is inline in the log or lies in a `.bin` file with others. Every length, checksum and count is held against
what the log says, because a vector that is read wrong gives deleted rows back, or takes live ones away. So a vector
that says that it deletes no row is read too, although delta D9 would let it be: the bitmap may know better.

Spec: Delta, "Deletion Vectors" and "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable, Mapping
from typing import TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, HarnessError
from harness.metadata.files import roaring
from harness.metadata.files.parquet import row_count
from harness.metadata.plan.deletes import InlineVector, StoredVector, Vector
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import PhysicalPath
from harness.storage.stores import Storage

K = TypeVar("K", bound=Hashable)

# Z85, the text form of bytes in deletion vector descriptors: five characters stand for four bytes.
#
# Spec: ZeroMQ RFC 32; Delta, "Deletion Vectors".


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LIMIT = 1 << 32


def decode_z85(text: str) -> bytes:
    """The bytes that `text` stands for. Raises ValueError, with what is wrong."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters, expected a multiple of 5")
    unknown = next((c for c in text if c not in _VALUES), None)
    if unknown is not None:
        raise ValueError(f"the character {unknown!r}, which Z85 does not have")
    words = [_word(text[start : start + 5]) for start in range(0, len(text), 5)]
    return struct.pack(f">{len(words)}I", *words)


def _word(group: str) -> int:
    value = 0
    for character in group:
        value = value * 85 + _VALUES[character]
    if value >= _LIMIT:
        raise ValueError(f"the group {group!r}, which is above 32 bits")
    return value


_PORTABLE, _NATIVE = 1681511377, 1681511376
_FORMAT_VERSION = 1
FIRST_OFFSET = 1
"""The place of a vector whose descriptor records none: the version byte stands before it (delta D6)."""
_FRAME = 8  # bytes of length and checksum around a vector
_PARQUET_TAIL = 8  # bytes of footer length and magic


def decode_inline(vector: InlineVector, *, limits: Limits = DEFAULT) -> BitMap64:
    """The positions of an inline vector (delta D4). Raises CorruptDeleteError."""
    if not vector.text and vector.length == 0:
        return _check_count(BitMap64(), vector)  # how Delta on Spark spells a vector of no rows
    try:
        data = decode_z85(vector.text)
    except ValueError as error:
        raise bad_vector(f"its inline text has {error}", "delta D4") from None
    if not 0 <= len(data) - vector.length < 4:
        raise bad_vector(f"its inline text gives {len(data)} bytes, {vector.length} are declared", "delta D4")
    return _check_count(_decode(data[: vector.length], limits), vector)


def decode_stored(frame: bytes, vector: StoredVector, *, limits: Limits = DEFAULT) -> BitMap64:
    """The positions of a stored vector, from its length, bitmap and checksum (delta D5). Raises CorruptDeleteError."""
    if len(frame) < vector.length + _FRAME:
        raise bad_vector(f"{len(frame)} bytes are left at its offset, expected {vector.length + _FRAME}", "delta D14")
    (length,) = struct.unpack_from(">i", frame)
    if length != vector.length:
        raise bad_vector(f"the file says {length} bytes, its descriptor {vector.length}", "delta D5")
    data = frame[4 : 4 + length]
    (checksum,) = struct.unpack_from(">I", frame, 4 + length)
    if zlib.crc32(data) != checksum:
        raise bad_vector(f"its checksum is {zlib.crc32(data):#010x}, the file says {checksum:#010x}", "delta D5")
    return _check_count(_decode(data, limits), vector)


def footer_rows(path: str, physical: PhysicalPath, storage: Storage) -> int:
    """The rows of a Parquet file by its footer; path: as recorded. Raises CorruptFileError, MissingFileError."""
    import pyarrow.parquet as pq  # only a change feed asks for rows of footers

    try:
        size = storage.size(physical)
        tail = storage.read(physical, offset=max(0, size - _PARQUET_TAIL), length=_PARQUET_TAIL)
        length = int.from_bytes(tail[:4], "little")
        start = max(0, size - _PARQUET_TAIL - length)
        footer = storage.read(physical, offset=start, length=size - start)
        return row_count(pq.read_metadata(pa.BufferReader(b"PAR1" + footer)), file=path)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise CorruptFileError(f"Cannot read the footer of a Parquet file: {error}", file=path) from error


def bad_vector(reason: str, rule: str) -> CorruptDeleteError:
    """Return the error for a damaged deletion vector."""
    return CorruptDeleteError(
        f"Cannot read deletion vector: {reason}. Restore the table", cause="DeletionVectorError", rule=rule
    )


def _decode(data: bytes, limits: Limits) -> BitMap64:
    """A bitmap behind its magic number (delta D7, D8)."""
    if len(data) < 4:
        raise bad_vector(f"it has {len(data)} bytes, no bitmap is that short", "delta D7")
    (magic,) = struct.unpack_from("<i", data)
    try:
        if magic == _PORTABLE:
            return roaring.decode_portable(memoryview(data)[4:], key_order="ascending", rule="delta D7", limits=limits)
        if magic == _NATIVE:
            return roaring.decode_native(memoryview(data)[4:], rule="delta D7", limits=limits)
        if struct.unpack_from(">i", data) == (_NATIVE,):
            return roaring.decode_native(_little_endian(data), rule="delta D7", limits=limits)
    except CorruptDeleteError as error:
        error.cause = "DeletionVectorError"
        raise
    raise bad_vector(f"its magic number is {magic}, expected {_PORTABLE} or {_NATIVE}", "delta D7")


def _little_endian(data: bytes) -> bytes:
    """A native bitmap whose count and lengths are big-endian, as in the sample of the protocol text (delta D4)."""
    parts, at = [data[4:8][::-1]], 8
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        stop = at + 4 + max(0, length)
        parts += (data[at : at + 4][::-1], data[at + 4 : stop])
        at = stop
    return b"".join((*parts, data[at:]))


def _check_count(positions: BitMap64, vector: Vector) -> BitMap64:
    if len(positions) != vector.record_count:
        raise bad_vector(f"it holds {len(positions)} positions, its descriptor says {vector.record_count}", "delta D9")
    return positions


def read_vectors(
    storage: Storage, physical: PhysicalPath, vectors: Mapping[K, StoredVector], targets: Mapping[K, str]
) -> dict[K, BitMap64]:
    """Return the positions of some vectors of one file, which is read in one go.

    Args:
        storage: Where the file is.
        physical: The file's path.
        vectors: The vectors, under any keys.
        targets: Recorded paths of their data files, for messages.

    Raises:
        MissingFileError: The file does not exist (D14).
        CorruptDeleteError: A vector is damaged, or contradicts its descriptor (D1 to D9).
    """
    for key, vector in vectors.items():
        if vector.length < 0 or vector.offset < 0:
            place = f"{vector.length} bytes at {vector.offset}"
            raise bad_vector(f"it is said to be {place}, expected none below 0", "delta D5").within(file=targets[key])
    start = min(vector.offset for vector in vectors.values())
    end = max(vector.offset + vector.length + _FRAME for vector in vectors.values())
    try:
        head = storage.read(physical, length=1)
        if head != bytes([_FORMAT_VERSION]):
            found = head[0] if head else "no byte"
            raise bad_vector(f"its file has format version {found}, expected {_FORMAT_VERSION}", "delta D5")
        data = storage.read(physical, offset=start, length=end - start)
    except HarnessError as error:
        error.rule = error.rule or "delta D14"
        raise error.within(file=physical) from error.__cause__
    positions = {}
    for key, vector in vectors.items():
        at = vector.offset - start
        try:
            frame = data[at : at + vector.length + _FRAME]
            positions[key] = decode_stored(frame, vector, limits=storage.limits)
        except HarnessError as error:
            raise error.within(file=f"{physical} at {vector.offset}, of {targets[key]}") from error.__cause__
    return positions


def check_rows(
    positions: BitMap64, path: str, physical: PhysicalPath, record_count: int | None, storage: Storage
) -> None:
    """Refuse positions behind the end of a data file; the footer is read if no count is recorded (delta D9, D15).

    Args:
        positions: The deleted rows.
        path, physical, record_count: As in `harness.metadata.plan.scan_plan.FILES`.
        storage: Where the data file is.

    Raises:
        CorruptDeleteError: A position is not in the file.
        MissingFileError, CorruptFileError: The footer cannot be read.
    """
    if not positions:
        return
    rows = footer_rows(path, physical, storage) if record_count is None else record_count
    if positions.max() >= rows:
        raise bad_vector(f"it deletes row {positions.max()} of a data file of {rows} rows", "delta D9")
