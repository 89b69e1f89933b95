"""Footers of Parquet files taken apart into tokens of Thrift's compact protocol, changed, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import drawn_values

_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 11, 12


@dataclass(slots=True)
class Token:
    """A part of a footer.

    field: (distance to the field's number, type), (None, type, number) in the long form, or (0,): no more fields.
    list: (count, type). integer: zigzag. varint: not zigzag. binary: after its length. raw: as it is.
    """

    kind: Literal["field", "list", "integer", "varint", "binary", "raw"]
    value: Any


def footer(data: bytes, rng: Random) -> bytes:
    """One to three parts of the footer say something else; its length is right, mostly."""
    body, tokens = _taken_apart(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(tokens, rng)
    changed = encoded(tokens)
    length = len(changed) if rng.random() < 0.95 else drawn_values.integer(rng, len(changed))
    return body + changed + (length % 2**32).to_bytes(4, "little") + data[-4:]


def body(data: bytes, rng: Random) -> bytes:
    """The pages, whose headers and values are before the footer, are damaged in place."""
    start, _ = _taken_apart(data)
    changed = drawn_values.blob(rng, start[4:])
    return data[:4] + changed[: len(start) - 4].ljust(len(start) - 4, b"\0") + data[len(start) :]


def page(data: bytes, rng: Random) -> bytes:
    """One or two parts of the header of a page say something else; what is behind it moves within the pages."""
    body, _ = _taken_apart(data)
    at, size, tokens = rng.choice(list(_pages(body)))
    for _ in range(rng.choice((1, 1, 2))):
        _change(tokens, rng)
    changed = body[:at] + encoded(tokens) + body[at + size :]
    return changed[: len(body)].ljust(len(body), b"\0") + data[len(body) :]


def _pages(body: bytes) -> Iterator[tuple[int, int, list[Token]]]:
    """Where headers of pages begin, how long they are, and what they hold. Behind the pages, other structs may be."""
    at = _FIRST
    while at < len(body):
        try:
            tokens, size = tokenised(body[at:])
        except ValueError:
            return
        numbers = [token.value for token in tokens if token.kind == "integer"]
        if len(numbers) < _OF_A_PAGE:
            return
        yield at, size, tokens
        at += size + max(0, numbers[_COMPRESSED])


_FIRST, _OF_A_PAGE, _COMPRESSED = 4, 4, 2


def tokenised(data: bytes) -> tuple[list[Token], int]:
    """The tokens of a struct, and where it ends.

    Raises:
        ValueError: there is none.
    """
    reader = _Reader(data)
    try:
        reader.struct()
    except IndexError as error:
        raise ValueError("the footer is cut") from error
    return reader.tokens, reader.at


def encoded(tokens: list[Token]) -> bytes:
    """The bytes of tokens."""
    return b"".join(map(_written, tokens))


def _taken_apart(data: bytes) -> tuple[bytes, list[Token]]:
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != b"PAR1" or length + 12 > len(data):
        raise ValueError("no Parquet file")
    tokens, _ = tokenised(data[-8 - length : -8])
    return data[: -8 - length], tokens


def _change(tokens: list[Token], rng: Random) -> None:
    place = rng.randrange(len(tokens))
    token = tokens[place]
    match rng.randrange(12):
        case 0:
            del tokens[place]
            return
        case 1:
            tokens.insert(rng.randrange(len(tokens) + 1), token)
            return
        case 2 | 3:
            tokens[place] = Token(token.kind, rng.choice([t.value for t in tokens if t.kind == token.kind]))
            return
    tokens[place] = Token(token.kind, _other(token, rng))


def _other(token: Token, rng: Random) -> Any:
    match token.kind, token.value:
        case "field", (None, type_, number):
            return (None, type_, drawn_values.integer(rng, number))
        case "field", (step, type_):
            return rng.choice(((step, rng.randrange(16)), (rng.randrange(16), type_), (None, type_, rng.randrange(50))))
        case "field", _:
            return (rng.randrange(16), rng.randrange(16))
        case "list", (count, type_):
            odd = abs(drawn_values.integer(rng, count))
            return rng.choice(((odd, type_), (count, rng.randrange(16)), (count + 1, type_)))
        case (("integer" | "varint"), value):
            return drawn_values.integer(rng, value)
        case "binary", value:
            return drawn_values.text_bytes(rng, value)
        case _, value:
            return drawn_values.blob(rng, value)


def _written(token: Token) -> bytes:
    match token.kind, token.value:
        case "field", (None, type_, number):
            return bytes((type_,)) + _varint(_zigzag(number))
        case "field", (0,):
            return b"\0"
        case "field", (step, type_):
            return bytes((step << 4 | type_,))
        case "list", (count, type_):
            return bytes((count << 4 | type_,)) if count < 15 else bytes((0xF0 | type_,)) + _varint(count)
        case "integer", value:
            return _varint(_zigzag(value))
        case "varint", value:
            return _varint(abs(value))
        case "binary", value:
            return _varint(len(value)) + value
        case _, value:
            return bytes(value)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self.tokens: list[Token] = []

    def struct(self) -> None:
        while True:
            head = self._byte()
            if head == 0:
                self._add("field", (0,))
                return
            step, type_ = head >> 4, head & 15
            self._add("field", (step, type_) if step else (None, type_, self._signed()))
            if type_ not in (_TRUE, _FALSE):
                self._value(type_)

    def _value(self, type_: int) -> None:
        if type_ in (_TRUE, _FALSE, _BYTE):
            self._take("raw", 1)
        elif _BYTE < type_ <= _I64:
            self._add("integer", self._signed())
        elif type_ == _DOUBLE:
            self._take("raw", 8)
        elif type_ == _BINARY:
            self._take("binary", self._unsigned())
        elif type_ in (_LIST, _SET):
            self._list()
        elif type_ == _MAP:
            self._map()
        elif type_ == _STRUCT:
            self.struct()
        else:
            raise ValueError(f"no type {type_}")

    def _list(self) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        self._add("list", (count, head & 15))
        for _ in range(count):
            self._value(head & 15)

    def _map(self) -> None:
        count = self._unsigned()
        self._add("varint", count)
        if count == 0:
            return
        types = self._byte()
        self._add("raw", bytes((types,)))
        for _ in range(count):
            self._value(types >> 4)
            self._value(types & 15)

    def _add(self, kind: Any, value: Any) -> None:
        self.tokens.append(Token(kind, value))

    def _take(self, kind: Any, size: int) -> None:
        self._add(kind, self._data[self.at : self.at + size])
        self.at += size

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(rest: int) -> bytes:
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))
