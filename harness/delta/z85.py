"""Z85, the text form of bytes in deletion vector descriptors: five characters stand for four bytes.

Spec: ZeroMQ RFC 32; Delta, "Deletion Vectors".
"""

from __future__ import annotations

import struct

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LIMIT = 1 << 32


def decode(text: str) -> bytes:
    """The bytes that `text` stands for.

    Raises:
        ValueError: the length is no multiple of five, a character is not of the alphabet, or a group is too large.
    """
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
