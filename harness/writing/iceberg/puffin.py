"""Puffin files with deletion vectors (Puffin spec, blob type `deletion-vector-v1`)."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

MAGIC = b"PFA1"
_BITMAP_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob to be written: its bytes as stored, and what the footer says of it beside its place."""

    data: bytes
    footer: dict[str, Any]


def deletion_vector(data_file: str, positions: Iterable[int]) -> Blob:
    """The deletion vector of the data file with this recorded path: 0-based positions of dead rows."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    payload = _BITMAP_MAGIC + bitmap.serialize()
    data = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    footer = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": data_file, "cardinality": str(len(bitmap))},
    }
    return Blob(data, footer)


def write_puffin(path: Path, blobs: Iterable[Blob]) -> list[tuple[int, int]]:
    """Write the file; (offset, length) of every blob, in order."""
    body = bytearray(MAGIC)
    places = []
    described = []
    for blob in blobs:
        places.append((len(body), len(blob.data)))
        described.append({**blob.footer, "offset": len(body), "length": len(blob.data)})
        body += blob.data
    payload = json.dumps({"blobs": described, "properties": {"created-by": "harness"}}).encode()
    body += MAGIC + payload + struct.pack("<i", len(payload)) + bytes(4) + MAGIC
    path.write_bytes(body)
    return places
