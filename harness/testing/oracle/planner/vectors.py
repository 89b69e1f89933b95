"""Roaring bitmaps, decoded straight from the format's description: https://github.com/RoaringBitmap/RoaringFormatSpec."""

from __future__ import annotations

import io
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, HarnessError
from harness.storage.paths import PathMap, join
from harness.storage.stores import Storage
from harness.testing.oracle.engine.bounded import MOST_POSITIONS
from harness.testing.oracle.planner.delta_log import canonical

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_LARGEST_ARRAY = 4096
_BITSET = 8192  # bytes
_CHUNK = 1 << 16


class BitmapError(ValueError):
    """The bytes are no bitmap; the text says why."""


class _Bytes:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        part = self.data[self.at : self.at + length]
        if length < 0 or len(part) != length:
            raise BitmapError(f"it ends after {len(self.data)} bytes")
        self.at += length
        return part

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def end(self) -> None:
        if self.at != len(self.data):
            raise BitmapError(f"{len(self.data) - self.at} bytes follow it")


def decode_portable(data: bytes, *, order: Literal["ascending", "any"]) -> BitMap64:
    """A 64-bit bitmap: a count, then per bitmap its upper 32 bits and the bitmap (iceberg 4.18, delta D7).

    order: whether the upper halves must ascend (delta D7), or only differ (iceberg 4.20).

    Raises:
        BitmapError: it is damaged.
    """
    source, found, seen = _Bytes(data), BitMap64(), [-1]
    for _ in range(source.number("<Q")):
        key = source.number("<I")
        if key >= (1 << 31) - (1 if order == "any" else 0):
            raise BitmapError(f"key {key} is too large")
        if key in seen or (order == "ascending" and key < seen[-1]):
            raise BitmapError(f"key {key} comes twice or out of order")
        seen.append(key)
        found |= _bitmap(source, key << 32)
    source.end()
    return found


def decode_native(data: bytes, *, order: Literal["little", "big"]) -> BitMap64:
    """A 64-bit bitmap of Delta's older form: a count, then per bitmap its length and the bitmap (delta D7).

    order: of the bytes of the count and the lengths; the bitmaps themselves are always little-endian.

    Raises:
        BitmapError: it is damaged.
    """
    source, found = _Bytes(data), BitMap64()
    number = "<i" if order == "little" else ">i"
    for key in range(source.number(number)):
        inner = _Bytes(source.take(source.number(number)))
        found |= _bitmap(inner, key << 32)
        inner.end()
    source.end()
    return found


def _bitmap(source: _Bytes, base: int) -> BitMap64:
    cookie = source.number("<I")
    has_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if not has_runs and cookie != _COOKIE:
        raise BitmapError(f"a bitmap begins with {cookie}")
    count = (cookie >> 16) + 1 if has_runs else source.number("<I")
    if count > _CHUNK:
        raise BitmapError(f"a bitmap has {count} containers")
    runs = source.take((count + 7) // 8) if has_runs else bytes((count + 7) // 8)
    heads = [(source.number("<H"), source.number("<H") + 1) for _ in range(count)]
    if sum(cardinality for _, cardinality in heads) > MOST_POSITIONS:
        raise BitmapError(f"it holds more positions than the oracle reads, which is {MOST_POSITIONS}")
    if not has_runs or count >= 4:
        source.take(4 * count)  # offsets, which only seeking needs
    found, last = BitMap64(), -1
    for place, (key, cardinality) in enumerate(heads):
        if key <= last:
            raise BitmapError("its containers are out of order")
        last = key
        is_run = runs[place // 8] >> place % 8 & 1
        container = _runs(source, base + key * _CHUNK) if is_run else _values(source, cardinality, base + key * _CHUNK)
        if len(container) != cardinality:
            raise BitmapError(f"a container holds {len(container)} values, it says {cardinality}")
        found |= container
    return found


def _runs(source: _Bytes, base: int) -> BitMap64:
    found = BitMap64()
    for _ in range(source.number("<H")):
        start, more = source.number("<H"), source.number("<H")
        if start + more >= _CHUNK:
            raise BitmapError("a run leaves its container")
        found.add_range(base + start, base + start + more + 1)
    return found


def _values(source: _Bytes, cardinality: int, base: int) -> BitMap64:
    if cardinality <= _LARGEST_ARRAY:
        values = np.frombuffer(source.take(2 * cardinality), dtype="<u2")
    else:
        bits = np.unpackbits(np.frombuffer(source.take(_BITSET), dtype=np.uint8), bitorder="little")
        values = np.flatnonzero(bits)
    return BitMap64((values.astype(np.uint64) + np.uint64(base)).tolist())


_PORTABLE, _NATIVE = 1681511377, 1681511376
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass(frozen=True, slots=True)
class Target:
    """A data file with a deletion vector; `rows` is None where the log does not say how many rows it has."""

    path: str
    physical: str
    rows: int | None
    vector: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The `load_positions` of a plan: data files with deletion vectors by ordinal."""

    targets: Mapping[int, Target]
    root: str
    storage: Storage
    paths: PathMap
    table: str

    def load(self, ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
        """Deleted positions by ordinal; files without any are absent.

        Raises:
            CorruptDeleteError, MissingFileError: a vector is damaged, contradicts its file, or is not there.
        """
        found = {ordinal: self._positions(self.targets[ordinal]) for ordinal in ordinals if ordinal in self.targets}
        return {ordinal: positions for ordinal, positions in found.items() if positions}

    def _positions(self, target: Target) -> BitMap64:
        try:
            positions = BitMap64() if _is_bare(target.vector) else _decoded(self._blob(target.vector))
            if len(positions) != target.vector["cardinality"]:
                raise _broken(f"{len(positions)} positions, declared are {target.vector['cardinality']}", "delta D9")
            if positions:
                rows = self._rows(target) if target.rows is None else target.rows
                if positions.max() >= rows:
                    raise _broken(f"position {positions.max()} of {rows} rows", "delta D9")
        except HarnessError as error:
            raise error.within(table=self.table, file=target.path) from error.__cause__
        return positions

    def _blob(self, vector: Mapping[str, Any]) -> bytes:
        size, text = vector["sizeInBytes"], vector["pathOrInlineDv"]
        if vector["storageType"] == "i":
            data = z85(text)
            if not 0 <= len(data) - size < 4:
                raise _broken(f"{len(data)} bytes inline, declared are {size}", "delta D4")
            return data[:size]
        path = self.paths.physical(str(vector_path(vector, self.root)))
        data, offset = self.storage.read(path), vector.get("offset") or 1  # delta D6
        if data[:1] != b"\x01":
            raise _broken("its file has another format version than 1", "delta D5")
        frame = data[offset : offset + size + 8]
        if len(frame) != size + 8 or size < 0:
            raise _broken(f"{len(frame)} bytes at its offset, expected {size + 8}", "delta D14")
        blob = frame[4:-4]
        if frame[:4] != struct.pack(">i", size) or frame[-4:] != struct.pack(">I", zlib.crc32(blob)):
            raise _broken("its length or checksum is wrong", "delta D5")
        return blob

    def _rows(self, target: Target) -> int:
        """delta D15."""
        try:
            return int(pq.read_metadata(io.BytesIO(self.storage.read(target.physical))).num_rows)
        except (pa.ArrowException, OSError) as error:
            raise CorruptFileError(f"Cannot read a Parquet footer: {error}", file=target.path) from error


def vector_path(vector: Mapping[str, Any], root: str) -> str | None:
    """The file that holds a vector; None: it is inline (delta D1 to D4).

    Raises:
        CorruptDeleteError: its storage type is not known, or its path is none.
    """
    text = vector["pathOrInlineDv"]
    match vector["storageType"]:
        case "i":
            return None
        case "u" if len(text) >= 20:
            name = f"deletion_vector_{uuid.UUID(bytes=z85(text[-20:]))}.bin"
            return join(root, text[:-20], name) if text[:-20] else join(root, name)
        case "p" if text.startswith("/") or ":" in text.split("/", 1)[0]:
            return canonical(text, root)
        case other:
            raise _broken(f"storage type {other!r}, path {text!r}", "delta D1")


def _is_bare(vector: Mapping[str, Any]) -> bool:
    """Whether it has no bitmap at all, as Delta on Spark spells a vector of no rows."""
    return (vector["storageType"], vector["pathOrInlineDv"], vector["sizeInBytes"]) == ("i", "", 0)


def z85(text: str) -> bytes:
    """Bytes of a Z85 text, five characters for four bytes: https://rfc.zeromq.org/spec/32.

    Raises:
        CorruptDeleteError: it is none.
    """
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise _broken("its text is no Z85", "delta D4")
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        if number >> 32:
            raise _broken("its text is no Z85", "delta D4")
        data += number.to_bytes(4, "big")
    return data


def _decoded(blob: bytes) -> BitMap64:
    """A bitmap behind its magic number (delta D7)."""
    try:
        match blob[:4]:
            case magic if magic == struct.pack("<i", _PORTABLE):
                return decode_portable(blob[4:], order="ascending")
            case magic if magic == struct.pack("<i", _NATIVE):
                return decode_native(blob[4:], order="little")
            case magic if magic == struct.pack(">i", _NATIVE):  # as the sample of the protocol text has it
                return decode_native(blob[4:], order="big")
            case magic:
                raise _broken(f"magic {magic.hex()}", "delta D7")
    except BitmapError as error:
        raise _broken(str(error), "delta D8") from error


def _broken(reason: str, rule: str) -> CorruptDeleteError:
    return CorruptDeleteError(f"Cannot read deletion vector: {reason}", cause="DeletionVectorError", rule=rule)
