"""Deletion vectors of a Delta table (delta section 7)."""

from __future__ import annotations

import io
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError, CorruptFileError, HarnessError
from harness.storage.paths import PathMap, join
from harness.storage.stores import Storage
from harness.testing.oracle.engine.bitmaps import BitmapError, delta_bitmap, delta_vector
from harness.testing.oracle.planner.delta_log import canonical

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass(frozen=True, slots=True)
class VectorTarget:
    """A data file with a deletion vector; `rows` is None where the log does not say how many rows it has."""

    path: str
    physical: str
    rows: int | None
    vector: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VectorLoader:
    """The `load_positions` of a plan: data files with deletion vectors by ordinal."""

    targets: Mapping[int, VectorTarget]
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

    def _positions(self, target: VectorTarget) -> BitMap64:
        try:
            positions = self._decoded(target.vector)
            if len(positions) != target.vector["cardinality"]:
                raise _broken(f"{len(positions)} positions, declared are {target.vector['cardinality']}", "delta D9")
            if positions:
                rows = self._rows(target) if target.rows is None else target.rows
                if positions.max() >= rows:
                    raise _broken(f"position {positions.max()} of {rows} rows", "delta D9")
        except HarnessError as error:
            raise error.within(table=self.table, file=target.path) from error.__cause__
        return positions

    def _decoded(self, vector: Mapping[str, Any]) -> BitMap64:
        size, text = vector["sizeInBytes"], vector["pathOrInlineDv"]
        try:
            if vector["storageType"] == "i":
                if not text and not size:  # Delta on Spark spells a vector of no rows so
                    return BitMap64()
                data = _z85(text)
                if not 0 <= len(data) - size < 4:
                    raise _broken(f"{len(data)} bytes inline, declared are {size}", "delta D4")
                return delta_bitmap(data[:size])
            path = self.paths.physical(str(vector_path(vector, self.root)))
            data, offset = self.storage.read(path), vector.get("offset") or 1  # delta D6
            if data[:1] != b"\x01":
                raise _broken("its file has another format version than 1", "delta D5")
            frame = data[offset : offset + size + 8]
            if len(frame) != size + 8 or size < 0:
                raise _broken(f"{len(frame)} bytes at its offset, expected {size + 8}", "delta D14")
            return delta_vector(frame)
        except BitmapError as error:
            raise _broken(str(error), "delta D8") from error

    def _rows(self, target: VectorTarget) -> int:
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
            name = f"deletion_vector_{uuid.UUID(bytes=_z85(text[-20:]))}.bin"
            return join(root, text[:-20], name) if text[:-20] else join(root, name)
        case "p" if text.startswith("/") or ":" in text.split("/", 1)[0]:
            return canonical(text, root)
        case other:
            raise _broken(f"storage type {other!r}, path {text!r}", "delta D1")


def _z85(text: str) -> bytes:
    """Bytes of a Z85 text, five characters for four bytes: https://rfc.zeromq.org/spec/32."""
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


def _broken(reason: str, rule: str) -> CorruptDeleteError:
    return CorruptDeleteError(f"Cannot read deletion vector: {reason}", cause="DeletionVectorError", rule=rule)
