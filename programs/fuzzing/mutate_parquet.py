"""Mutators of footers and pages of Parquet files, which are parsed into tokens of Thrift's compact protocol."""

from collections.abc import Iterator
from random import Random

import drawn_values
from mutate_tokens import ThriftReader, Token, change, encoded

_FIRST, _OF_A_PAGE, _COMPRESSED = 4, 4, 2


def footer(data: bytes, rng: Random) -> bytes:
    """Change one to three parts of the footer. Its length is mostly correct."""
    body, tokens = split_file(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        change(tokens, rng)
    changed = encoded(tokens)
    length = len(changed) if rng.random() < 0.95 else drawn_values.integer(rng, len(changed))
    return body + changed + (length % 2**32).to_bytes(4, "little") + data[-4:]


def body(data: bytes, rng: Random) -> bytes:
    """Damage the pages, whose headers and values are before the footer, in place."""
    start, _ = split_file(data)
    changed = drawn_values.blob(rng, start[4:])
    return data[:4] + changed[: len(start) - 4].ljust(len(start) - 4, b"\0") + data[len(start) :]


def page(data: bytes, rng: Random) -> bytes:
    """Change one or two parts of a page header. The following bytes move within the pages."""
    body, _ = split_file(data)
    at, end, tokens = rng.choice(list(_pages(body)))
    for _ in range(rng.choice((1, 1, 2))):
        change(tokens, rng)
    changed = body[:at] + encoded(tokens) + body[end:]
    return changed[: len(body)].ljust(len(body), b"\0") + data[len(body) :]


def _pages(body: bytes) -> Iterator[tuple[int, int, list[Token]]]:
    """Yield the start, end, and content of page headers. Other structs may follow the pages."""
    at = _FIRST
    while at < len(body):
        try:
            tokens, end = tokenised(body, at)
        except ValueError:
            return
        numbers = [token.value for token in tokens if token.kind == "signed"]
        if len(numbers) < _OF_A_PAGE:
            return
        yield at, end, tokens
        at = end + max(0, numbers[_COMPRESSED])


def split_file(data: bytes) -> tuple[bytes, list[Token]]:
    """Return the bytes before the footer, and the footer's tokens."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != b"PAR1" or length + 12 > len(data):
        raise ValueError("no Parquet file")
    return data[: -8 - length], tokenised(data[-8 - length : -8])[0]


def tokenised(data: bytes, at: int = 0) -> tuple[list[Token], int]:
    """Return the tokens of a struct, and its end.

    Raises:
        ValueError: There is no struct.
    """
    reader = ThriftReader(data, at)
    try:
        _struct(reader)
    except IndexError as error:
        raise ValueError("the footer is cut") from error
    return reader.tokens, reader.at


def _struct(reader: ThriftReader) -> None:
    while head := reader.take("raw", 1)[0]:
        if not head >> 4:
            reader.signed()  # the field's number
        if head & 15 > 2:  # booleans are stored in the type
            _value(reader, head & 15)


def _value(reader: ThriftReader, type_: int) -> None:
    match type_:
        case 1 | 2 | 3:
            reader.take("raw", 1)
        case 4 | 5 | 6:
            reader.signed()
        case 7:
            reader.take("raw", 8)
        case 8:
            reader.binary()
        case 9 | 10:  # lists, sets
            head = reader.take("raw", 1)[0]
            for _ in range(head >> 4 if head >> 4 < 15 else reader.unsigned()):
                _value(reader, head & 15)
        case 11:
            count = reader.unsigned()
            types = reader.take("raw", 1)[0] if count else 0
            for _ in range(count):
                _value(reader, types >> 4)
                _value(reader, types & 15)
        case 12:
            _struct(reader)
        case _:
            raise ValueError(f"no type {type_}")
