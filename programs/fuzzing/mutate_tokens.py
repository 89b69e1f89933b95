"""Tokens of a serialized value, which mutators of Avro and Thrift change."""

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import drawn_values


@dataclass(slots=True)
class Token:
    """A part of a serialized value.

    Attributes:
        kind: `signed`: a number in zigzag form; `text` and `binary`: bytes after their signed or unsigned length;
            `raw`: other bytes.
        said: The length to write in place of the true one.
    """

    kind: Literal["signed", "unsigned", "text", "binary", "raw"]
    value: Any
    said: int | None = None


def change(tokens: list[Token], rng: Random) -> None:
    """Change, remove, or repeat a token."""
    place = rng.randrange(len(tokens))
    token = tokens[place]
    match rng.randrange(10):
        case 0:
            del tokens[place : place + rng.choice((1, 1, 3))]
        case 1:
            tokens.insert(rng.randrange(len(tokens) + 1), token)
        case 2 | 3:
            tokens[place] = Token(token.kind, rng.choice([each.value for each in tokens if each.kind == token.kind]))
        case _:
            tokens[place] = _other(token, rng)


def _other(token: Token, rng: Random) -> Token:
    match token.kind:
        case "signed" | "unsigned":
            return Token(token.kind, drawn_values.integer(rng, token.value))
        case "raw":
            return Token("raw", drawn_values.blob(rng, token.value))
        case _ if rng.random() < 0.15:
            return Token(token.kind, token.value, drawn_values.integer(rng, len(token.value)))
        case _:
            return Token(token.kind, drawn_values.text_bytes(rng, token.value))


def encoded(tokens: list[Token]) -> bytes:
    """Return the bytes of tokens."""
    return b"".join(map(_written, tokens))


def _written(token: Token) -> bytes:
    match token.kind:
        case "signed":
            return zigzag(token.value)
        case "unsigned":
            return _varint(abs(token.value))
        case "raw":
            return bytes(token.value)
        case kind:
            length = len(token.value) if token.said is None else token.said
            return (zigzag(length) if kind == "text" else _varint(abs(length))) + token.value


def zigzag(value: int) -> bytes:
    """Return a number of any size in the zigzag form of Avro and Thrift."""
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(rest: int) -> bytes:
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


class ThriftReader:
    """A reader of bytes from the front, which raises IndexError at the end. `tokens` are the tokens read so far."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.tokens: list[Token] = []

    def take(self, kind: Any, size: int) -> bytes:
        """Read `size` bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise IndexError("bytes are cut")
        value = self.data[self.at : self.at + size]
        self.at += size
        self.tokens.append(Token(kind, value))
        return value

    def unsigned(self) -> int:
        """Read a number that is not in zigzag form."""
        value = self._number()
        self.tokens.append(Token("unsigned", value))
        return value

    def signed(self) -> int:
        """Read a number in zigzag form."""
        value = self._number()
        value = (value >> 1) ^ -(value & 1)
        self.tokens.append(Token("signed", value))
        return value

    def text(self) -> bytes:
        """Read bytes after their signed length."""
        size = self.signed()
        self.tokens.pop()
        return self.take("text", size)

    def binary(self) -> bytes:
        """Read bytes after their unsigned length."""
        return self.take("binary", self._number())

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte, self.at = self.data[self.at], self.at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
