"""Mutators of roaring bitmaps and their frames in both formats: counts, keys, containers, and runs.

Lengths and checksums of the frame are mostly corrected, so that readers decode the bitmap itself.
"""

import base64
import re
import zlib
from random import Random

import drawn_values


def deletion_vectors(data: bytes, rng: Random) -> bytes:
    """Change a file of Delta deletion vectors: a version byte, then size, bytes, and checksum of each vector."""
    frames, at = [], 1
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        frames.append(data[at + 4 : at + 4 + size])
        at += size + 8
    if not frames:
        raise ValueError("no deletion vector")
    place = rng.randrange(len(frames))
    frames[place] = tagged(frames[place], rng)
    version = bytes((rng.randrange(4),)) if rng.random() < 0.03 else data[:1]
    return version + b"".join(_framed(frame, rng) for frame in frames)


def blob(data: bytes, rng: Random) -> bytes:
    """Change a `deletion-vector-v1` blob of Puffin: length, magic, bitmaps, checksum."""
    if data[4:8] != b"\xd1\xd3\x39\x64":
        raise ValueError("no deletion vector")
    return _framed(tagged(data[4:-4], rng), rng)


def _framed(inner: bytes, rng: Random) -> bytes:
    size = len(inner) if rng.random() < 0.95 else abs(drawn_values.integer(rng, len(inner)))
    sum_ = zlib.crc32(inner) if rng.random() < 0.95 else rng.randrange(2**32)
    return (size % 2**32).to_bytes(4, "big") + inner + sum_.to_bytes(4, "big")


def tagged(frame: bytes, rng: Random) -> bytes:
    """Change a bitmap after the four bytes of its format."""
    match rng.randrange(20):
        case 0:
            return drawn_values.blob(rng, frame[:4]) + frame[4:]
        case 1 | 2 | 3:
            return frame[:4] + drawn_values.blob(rng, frame[4:])
        case _:  # most numbers of a bitmap are at its start
            end = rng.choice((4 + 32, 4 + 64, len(frame)))
            return frame[:4] + drawn_values.numbered(rng, frame[4:end]) + frame[end:]


def inline(data: bytes, rng: Random) -> bytes:
    """Change the bitmap of a deletion vector inside a Delta commit."""
    match = rng.choice(list(_INLINE.finditer(data)))
    frame = tagged(base64.b85decode(match[1].translate(bytes.maketrans(_Z85, _B85))), rng)
    text = base64.b85encode(frame.ljust(-(-len(frame) // 4) * 4, b"\0")).translate(bytes.maketrans(_B85, _Z85))
    return data[: match.start(1)] + text + data[match.end(1) :]


_INLINE = re.compile(rb'"storageType":"i","pathOrInlineDv":"([^"\\]*)"')
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
