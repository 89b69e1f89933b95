"""Damage regardless of structure: flipped bits, cuts, repeats, zeros, and bytes from elsewhere in the file."""

from random import Random

import drawn_values

_TAIL = 256
"""Footers of Parquet, ORC, and Puffin are at the end, and are most of a small file."""


def flip(data: bytes, rng: Random) -> bytes:
    """Flip one to three bits, half of the time near the end or the start."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        start, end = _window(data, rng)
        data = data[:start] + drawn_values.flipped(rng, data[start:end]) + data[end:]
    return data


def cut(data: bytes, rng: Random) -> bytes:
    """Remove the start, the end, or a part in the middle."""
    start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    match rng.randrange(5):
        case 0:
            return data[start:]
        case 1:
            return b""
        case 2:
            return data[: -rng.choice((1, 1, 2, 4, 8))]
        case 3:
            return data[:start] + data[end:]
        case _:
            return data[:start]


def repeat(data: bytes, rng: Random) -> bytes:
    """Repeat a part, or the whole file."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((1, 4, 16, 256, len(data))))
    return data[:end] + data[start:end] * rng.choice((1, 1, 1, 9)) + data[end:]


def overwrite(data: bytes, rng: Random) -> bytes:
    """Replace a part with zeros, ones, noise, or another part of the file. The size stays."""
    start, end = _window(data, rng)
    start = rng.randrange(start, end) if end > start else start
    length = min(len(data) - start, rng.choice((1, 2, 4, 8, 16, 64)))
    other = rng.randrange(len(data) - length + 1)
    part = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length), data[other : other + length]))
    return data[:start] + part + data[start + length :]


def insert(data: bytes, rng: Random) -> bytes:
    """Insert bytes, often at the end."""
    place = rng.choice((0, len(data), rng.randrange(len(data) + 1)))
    part = rng.choice((b"\0", b"\n", b" ", b"PAR1", rng.randbytes(rng.choice((1, 4, 64)))))
    return data[:place] + part + data[place:]


DAMAGE = (flip, flip, cut, repeat, overwrite, insert)


def damaged(data: bytes, rng: Random) -> bytes:
    """Apply any of these mutators."""
    return rng.choice(DAMAGE)(data, rng)


def _window(data: bytes, rng: Random) -> tuple[int, int]:
    match rng.randrange(4):
        case 0:
            return max(0, len(data) - _TAIL), len(data)
        case 1:
            return 0, min(len(data), _TAIL)
        case _:
            return 0, len(data)
