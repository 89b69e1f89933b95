"""Deletion vectors of Delta, decoded to bitmaps.

A vector is inline in the log, or in a `.bin` file with other vectors. Every length, checksum, and count is compared
with the log, because a vector that is decoded wrongly would bring deleted rows back or remove live ones. For the same
reason, a vector with a recorded cardinality of 0 is read too, although delta D9 allows readers to skip it: the bitmap
may contain rows.

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

# In Z85, the text form of bytes in deletion vector descriptors, five characters stand for four bytes (ZeroMQ RFC 32;
# Delta, "Deletion Vectors").


_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LIMIT = 1 << 32


def decode_z85(text: str) -> bytes:
    """Decode a text in Z85 to bytes. Raises ValueError with the reason."""
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
"""The offset of a vector whose descriptor records none: it comes after the version byte (delta D6)."""
_FRAME = 8  # the length and checksum fields around a vector
_PARQUET_TAIL = 8  # the footer length and the magic number


def decode_inline(vector: InlineVector, *, limits: Limits = DEFAULT) -> BitMap64:
    """Decode the positions of an inline vector (delta D4). Raises CorruptDeleteError."""
    if not vector.text and vector.length == 0:
        return _check_count(BitMap64(), vector)  # Delta on Spark writes a vector without rows like this
    try:
        data = decode_z85(vector.text)
    except ValueError as error:
        raise bad_vector(f"its inline text has {error}", "delta D4") from None
    if not 0 <= len(data) - vector.length < 4:
        raise bad_vector(f"its inline text decodes to {len(data)} bytes, {vector.length} are declared", "delta D4")
    return _check_count(_decode(data[: vector.length], limits), vector)


def decode_stored(frame: bytes, vector: StoredVector, *, limits: Limits = DEFAULT) -> BitMap64:
    """Decode the positions of a stored vector (delta D5). Raises CorruptDeleteError.

    Args:
        frame: The length, bitmap, and checksum of the vector.
        vector: Its descriptor.
        limits: Bounds on the decoded positions.
    """
    if len(frame) < vector.length + _FRAME:
        raise bad_vector(f"{len(frame)} bytes are left at its offset, expected {vector.length + _FRAME}", "delta D14")
    (length,) = struct.unpack_from(">i", frame)
    if length != vector.length:
        raise bad_vector(f"the file records {length} bytes, its descriptor {vector.length}", "delta D5")
    data = frame[4 : 4 + length]
    (checksum,) = struct.unpack_from(">I", frame, 4 + length)
    if zlib.crc32(data) != checksum:
        raise bad_vector(f"its checksum is {zlib.crc32(data):#010x}, the file records {checksum:#010x}", "delta D5")
    return _check_count(_decode(data, limits), vector)


def footer_rows(path: str, physical: PhysicalPath, storage: Storage) -> int:
    """Return the number of rows in a Parquet file from its footer.

    Args:
        path: Recorded path, for messages.
        physical: Physical path.
        storage: The storage of the file.

    Raises:
        CorruptFileError: The footer cannot be read.
        MissingFileError: The file does not exist.
    """
    import pyarrow.parquet as pq  # only change feeds need row counts from footers

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
    """Decode a bitmap that comes after its magic number (delta D7, D8)."""
    if len(data) < 4:
        raise bad_vector(f"it has {len(data)} bytes, too few for a bitmap", "delta D7")
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
    """Convert a native bitmap with big-endian count and lengths, as in the sample in the protocol text (delta D4)."""
    parts, at = [data[4:8][::-1]], 8
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        stop = at + 4 + max(0, length)
        parts += (data[at : at + 4][::-1], data[at + 4 : stop])
        at = stop
    return b"".join((*parts, data[at:]))


def _check_count(positions: BitMap64, vector: Vector) -> BitMap64:
    if len(positions) != vector.record_count:
        raise bad_vector(
            f"it holds {len(positions)} positions, its descriptor records {vector.record_count}", "delta D9"
        )
    return positions


def read_vectors(
    storage: Storage, physical: PhysicalPath, vectors: Mapping[K, StoredVector], targets: Mapping[K, str]
) -> dict[K, BitMap64]:
    """Return the positions of several vectors in one file, which is read in a single request.

    Args:
        storage: The storage of the file.
        physical: The file's physical path.
        vectors: The vectors by key. The result has the same keys.
        targets: Recorded paths of the vectors' data files, for messages.

    Raises:
        MissingFileError: The file does not exist (D14).
        CorruptDeleteError: A vector is damaged or contradicts its descriptor (D1 to D9).
    """
    for key, vector in vectors.items():
        if vector.length < 0 or vector.offset < 0:
            place = f"{vector.length} bytes at {vector.offset}"
            raise bad_vector(f"its descriptor records {place}, expected 0 or more", "delta D5").within(
                file=targets[key]
            )
    start = min(vector.offset for vector in vectors.values())
    end = max(vector.offset + vector.length + _FRAME for vector in vectors.values())
    try:
        head = storage.read(physical, length=1)
        if head != bytes([_FORMAT_VERSION]):
            version = head[0] if head else "no byte"
            raise bad_vector(f"its file has format version {version}, expected {_FORMAT_VERSION}", "delta D5")
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
    """Raise an error if a position is beyond the end of its data file (delta D9, D15).

    The footer of the data file is read if the row count is not recorded.

    Args:
        positions: The deleted rows.
        path: As in `harness.metadata.plan.scan_plan.FILES`.
        physical: As in `FILES`.
        record_count: As in `FILES`.
        storage: The storage of the data file.

    Raises:
        CorruptDeleteError: A position is beyond the end of the file.
        MissingFileError: The data file does not exist.
        CorruptFileError: The footer cannot be read.
    """
    if not positions:
        return
    rows = footer_rows(path, physical, storage) if record_count is None else record_count
    if positions.max() >= rows:
        raise bad_vector(f"it deletes row {positions.max()} of a data file of {rows} rows", "delta D9")
