"""Deletion vectors: bitmaps, their descriptors, the files that hold them, and Z85, in which the log spells bytes.

Spec: Delta, "Deletion Vector Format", "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pyroaring import BitMap, BitMap64

from harness.errors import RequestError
from harness.testing.writing.delta.values import encoded_path
from harness.testing.writing.places import set_time

Storage: TypeAlias = Literal["u", "i", "p"]
BitmapFormat: TypeAlias = Literal["portable", "native"]
PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(content: bytes) -> str:
    """Bytes in Z85, after zero bytes are put at the end up to a multiple of four."""
    content += bytes(-len(content) % 4)
    text = ""
    for (number,) in struct.iter_unpack(">I", content):
        digits = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = Z85[digit] + digits
        text += digits
    return text


def bitmap_bytes(positions: Iterable[int], form: BitmapFormat) -> bytes:
    """The serialized bitmap of 0-based positions, from its magic number on."""
    if form == "portable":
        return struct.pack("<i", PORTABLE_MAGIC) + BitMap64(positions).serialize()
    buckets: dict[int, BitMap] = {}
    for position in positions:
        buckets.setdefault(position >> 32, BitMap()).add(position & 0xFFFFFFFF)
    parts = [buckets.get(key, BitMap()).serialize() for key in range(max(buckets, default=-1) + 1)]
    body = b"".join(struct.pack("<i", len(part)) + part for part in parts)
    return struct.pack("<ii", NATIVE_MAGIC, len(parts)) + body


def vector_file_bytes(payloads: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """The content of a file of deletion vectors, and the offset of each."""
    content = b"\x01"
    offsets = []
    for payload in payloads:
        offsets.append(len(content))
        content += struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    return content, offsets


def write_vectors(
    root: Path,
    name: uuid.UUID,
    time_ms: int,
    positions: Iterable[Iterable[int]],
    *,
    storage: Storage = "u",
    prefix: str = "",
    form: BitmapFormat = "portable",
) -> list[dict[str, Any]]:
    """Write one file with a deletion vector for each set of positions, unless they are inline; their descriptors.

    root: the table's directory. name: names the file. time_ms: its modification time.
    prefix: the folder under the root that the file stands in.
    """
    sets = [sorted(set(s)) for s in positions]
    payloads = [bitmap_bytes(s, form) for s in sets]
    facts = [{"sizeInBytes": len(p), "cardinality": len(s)} for p, s in zip(payloads, sets, strict=True)]
    if storage == "i":
        return [{"storageType": "i", "pathOrInlineDv": z85(p), **fact} for p, fact in zip(payloads, facts, strict=True)]
    if "/" in prefix:
        raise RequestError(f"Cannot use the prefix {prefix!r} for a deletion vector: it is one folder name, without /")
    content, offsets = vector_file_bytes(payloads)
    path = root / prefix / f"deletion_vector_{name}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    set_time(path, time_ms)
    spelled = prefix + z85(name.bytes) if storage == "u" else f"file://{encoded_path(str(path.absolute()))}"
    return [
        {"storageType": storage, "pathOrInlineDv": spelled, "offset": offset, **fact}
        for offset, fact in zip(offsets, facts, strict=True)
    ]
