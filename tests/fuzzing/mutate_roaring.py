"""Roaring bitmaps and the frames that both formats put them in: counts, keys, containers and runs are changed.

Lengths and checksums of the frame are made right again, mostly, so that the bitmap itself is what a reader stumbles on.
"""

from __future__ import annotations

import base64
import re
import zlib
from random import Random

import drawn_values

PORTABLE_MAGIC = 1681511377
_NO_RUNS, _RUNS = 12346, 12347


def deletion_vectors(data: bytes, rng: Random) -> bytes:
    """A file of Delta deletion vectors: a byte of version, then size, bytes and checksum of each."""
    frames, at = [], 1
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        frames.append(data[at + 4 : at + 4 + size])
        at += size + 8
    if not frames:
        raise ValueError("no deletion vector")
    place = rng.randrange(len(frames))
    frames[place] = tagged(frames[place], rng)
    out = [bytes((rng.randrange(4),)) if rng.random() < 0.03 else data[:1]]
    for frame in frames:
        sum_ = zlib.crc32(frame).to_bytes(4, "big")
        size = len(frame) if rng.random() < 0.95 else abs(drawn_values.integer(rng, len(frame)))
        out += [(size % 2**32).to_bytes(4, "big"), frame, sum_ if rng.random() < 0.95 else rng.randbytes(4)]
    return b"".join(out)


def blob(data: bytes, rng: Random) -> bytes:
    """A `deletion-vector-v1` blob of Puffin: length, magic, bitmaps, checksum."""
    if data[4:8] != b"\xd1\xd3\x39\x64":
        raise ValueError("no deletion vector")
    inner = data[4:8] + changed(data[8:-4], rng)
    size = len(inner) if rng.random() < 0.95 else abs(drawn_values.integer(rng, len(inner)))
    sum_ = zlib.crc32(inner) if rng.random() < 0.95 else rng.randrange(2**32)
    return (size % 2**32).to_bytes(4, "big") + inner + sum_.to_bytes(4, "big")


def tagged(frame: bytes, rng: Random) -> bytes:
    """A bitmap after four bytes that say its form, as in Delta."""
    if rng.random() < 0.05:
        return drawn_values.blob(rng, frame[:4]) + frame[4:]
    return frame[:4] + changed(frame[4:], rng)


def changed(data: bytes, rng: Random) -> bytes:
    """The 64-bit bitmaps after the magic: count, then key and 32-bit bitmap of each; one place is changed."""
    numbers = list(_fields(data))
    if not numbers or rng.random() < 0.2:
        return drawn_values.blob(rng, data)
    at, width = rng.choice(numbers)
    value = int.from_bytes(data[at : at + width], "little")
    match rng.randrange(5):
        case 0:
            there, _ = rng.choice(numbers)
            part = data[there : there + width].ljust(width, b"\0")
            return data[:at] + part + data[at + width :]
        case 1:
            return data[:at] + data[at : at + width] + data[at:]
        case _:
            number = drawn_values.integer(rng, value) % 256**width
            return data[:at] + number.to_bytes(width, "little") + data[at + width :]


def _fields(data: bytes) -> list[tuple[int, int]]:
    """Where the numbers of a bitmap are, with their widths; as many as make sense."""
    found = [(0, 8)]
    count, at = int.from_bytes(data[:8], "little"), 8
    for _ in range(min(count, 64)):
        found.append((at, 4))
        inner, at = _containers(data, at + 4)
        found += inner
    return [(place, width) for place, width in found if place + width <= len(data)]


def _containers(data: bytes, at: int) -> tuple[list[tuple[int, int]], int]:
    cookie = int.from_bytes(data[at : at + 4], "little")
    if cookie & 0xFFFF == _RUNS:
        count, flags = (cookie >> 16) + 1, data[at + 4 : at + 4 + ((cookie >> 16) + 8) // 8]
        found, at = [(at, 2), (at + 2, 2), (at + 4, 1)], at + 4 + len(flags)
    elif cookie == _NO_RUNS:
        count, flags = int.from_bytes(data[at + 4 : at + 8], "little"), b""
        found, at = [(at, 4), (at + 4, 4)], at + 8
    else:
        return [(at, 4)], len(data)
    heads = range(at, min(at + 4 * count, len(data)), 4)
    found += [(head + shift, 2) for head in heads for shift in (0, 2)]
    sizes = [int.from_bytes(data[head + 2 : head + 4], "little") + 1 for head in heads]
    at += 4 * count
    if not flags or count >= 4:
        found += [(at + 4 * i, 4) for i in range(len(sizes))]
        at += 4 * count
    for number, size in enumerate(sizes):
        if number // 8 < len(flags) and flags[number // 8] >> number % 8 & 1:
            runs = int.from_bytes(data[at : at + 2], "little")
            found += [(at + 2 * i, 2) for i in range(1 + 2 * runs)]
            at += 2 + 4 * runs
        else:
            found += [(at + 2 * i, 2) for i in range(min(size, 64))]
            at += 8192 if size > 4096 else 2 * size
    return found, at


def inline(data: bytes, rng: Random) -> bytes:
    """A Delta commit with a deletion vector in it, whose bitmap is changed."""
    found = list(_INLINE.finditer(data))
    chosen = rng.choice(found)
    frame = tagged(base64.b85decode(_from_z85(chosen[1])), rng)
    text = _to_z85(base64.b85encode(frame.ljust(-(-len(frame) // 4) * 4, b"\0")))
    return data[: chosen.start(1)] + text + data[chosen.end(1) :]


_INLINE = re.compile(rb'"storageType":"i","pathOrInlineDv":"([^"\\]*)"')
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _from_z85(text: bytes) -> bytes:
    return text.translate(bytes.maketrans(_Z85, _B85))


def _to_z85(text: bytes) -> bytes:
    return text.translate(bytes.maketrans(_B85, _Z85))
