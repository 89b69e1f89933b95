"""MurmurHash3, x86 variant, 32 bits, seed 0: the hash of Iceberg's bucket transform (iceberg 3.11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Word = TypeVar("_Word", int, npt.NDArray[Any])
_MASK = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """Return the hash of bytes as a signed integer."""
    whole = len(data) & ~3
    words = (int.from_bytes(data[start : start + 4], "little") for start in range(0, whole, 4))
    state = _hash(0, words, int.from_bytes(data[whole:], "little"), len(data))
    return state - (state >> 31 << 32)


def murmur3_of(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return the hash of each row of bytes, without a sign."""
    count, length = rows.shape
    padded = np.zeros((count, length // 4 * 4 + 4), np.uint8)
    padded[:, :length] = rows
    words = padded.view("<u4")
    return _hash(np.zeros(count, np.uint32), words[:, :-1].T, words[:, -1], length)


def _hash(state: _Word, words: Iterable[_Word], tail: _Word, length: int) -> _Word:
    """Return the hash, from a state of zeros, of whole words and of a last word that is padded with zeros."""
    for word in words:
        state = _rotate(state ^ _scramble(word), 13) * 5 + 0xE6546B64 & _MASK
    state = state ^ _scramble(tail) ^ length
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state = state ^ state >> 16
    return state


def _scramble(word: _Word) -> _Word:
    return _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotate(word: _Word, bits: int) -> _Word:
    return (word << bits | word >> 32 - bits) & _MASK
