"""Avro files taken apart into tokens by their schema, changed in one place and put together again, right or wrong.

A value that is changed here is well compressed and framed, so that it gets past the outer checks of a reader. Blocks,
sync marks, codec names and the header are changed on their own. Nothing here is shared with the readers under test.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import cramjam
import drawn_values
import mutate_json

MAGIC = b"Obj\x01"


@dataclass(slots=True)
class Token:
    """A part of a record: a number in zigzag form, bytes after their length, or bytes as they are.

    said: the length to write in place of the true one.
    """

    kind: Literal["long", "bytes", "raw"]
    value: Any
    said: int | None = None


@dataclass(slots=True)
class Block:
    """Records as they stand in the file. size: what is said of `data`, None: the truth."""

    count: int
    data: bytes
    sync: bytes
    size: int | None = None


@dataclass(slots=True)
class Container:
    """An Avro file. header: keys and values in order."""

    header: list[tuple[bytes, bytes]]
    sync: bytes
    blocks: list[Block] = field(default_factory=list)

    def value(self, key: bytes) -> bytes:
        """What the header has under a key."""
        return next((value for name, value in self.header if name == key), b"")


def values(data: bytes, rng: Random) -> bytes:
    """One to three tokens of one block say something else."""
    container = parse(data)
    block = rng.choice([block for block in container.blocks if block.count])
    codec = container.value(b"avro.codec").decode() or "null"
    schema = json.loads(container.value(b"avro.schema"))
    tokens = tokenised(schema, unpacked(codec, block.data), block.count)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(tokens, rng)
    block.data = packed(codec, encoded(tokens))
    return written(container)


def frame(data: bytes, rng: Random) -> bytes:
    """Counts, sizes and sync marks of blocks lie, or blocks are gone, doubled, moved, damaged."""
    container = parse(data)
    place = rng.randrange(len(container.blocks))
    block = container.blocks[place]
    match rng.randrange(9):
        case 0 | 1:
            block.count = drawn_values.integer(rng, block.count)
        case 2:
            block.size = drawn_values.integer(rng, len(block.data))
        case 3:
            block.sync = drawn_values.flipped(rng, block.sync)
        case 4:
            container.blocks.insert(rng.randrange(len(container.blocks) + 1), block)
        case 5:
            del container.blocks[place]
        case 6:
            container.blocks.insert(place, Block(rng.choice((0, 1, 10**6)), b"", container.sync))
        case _:
            block.data = drawn_values.blob(rng, block.data)
    return written(container)


def header(data: bytes, rng: Random) -> bytes:
    """The schema, the codec or another entry of the header is changed, gone, or there twice."""
    container = parse(data)
    place = rng.randrange(len(container.header))
    key, value = container.header[place]
    match rng.randrange(6):
        case 0:
            del container.header[place]
        case 1:
            container.header.insert(rng.randrange(place + 1), (key, drawn_values.text_bytes(rng, value)))
        case 2:
            container.header[place] = (drawn_values.text_bytes(rng, key), value)
        case 3:
            known = (b"null", b"deflate", b"snappy", b"zstandard", b"bzip2", b"xz", b"lzo", b"")
            container.header = [(k, rng.choice(known) if k == b"avro.codec" else v) for k, v in container.header]
        case _ if value[:1] in (b"{", b"["):
            container.header[place] = (key, mutate_json.document(value, rng))
        case _:
            container.header[place] = (key, drawn_values.text_bytes(rng, value))
    return written(container)


def recoded(data: bytes, rng: Random) -> bytes:
    """The same records under another codec, or in a block each: another file that says the same."""
    container = parse(data)
    codec = container.value(b"avro.codec").decode() or "null"
    name = rng.choice(("null", "deflate", "snappy", "zstandard", "bzip2", "xz"))
    for block in container.blocks:
        block.data = packed(name, unpacked(codec, block.data))
    entry = (b"avro.codec", name.encode())
    container.header = [entry if key == entry[0] else (key, value) for key, value in container.header]
    if entry not in container.header:
        container.header.append(entry)
    return written(container)


def parse(data: bytes) -> Container:
    """The parts of a file.

    Raises:
        ValueError: it is no Avro file, or has no block.
    """
    if data[:4] != MAGIC:
        raise ValueError("no Avro file")
    at, entries = 4, []
    while True:
        count, at = _long(data, at)
        if count == 0:
            break
        if count < 0:
            count, (_, at) = -count, _long(data, at)
        for _ in range(count):
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            entries.append((key, value))
    container = Container(entries, data[at : at + 16])
    at += 16
    while at < len(data):
        count, at = _long(data, at)
        size, at = _long(data, at)
        if size < 0:
            raise ValueError("a block of less than nothing")
        container.blocks.append(Block(count, data[at : at + size], data[at + size : at + size + 16]))
        at += size + 16
    if not container.blocks:
        raise ValueError("no block")
    return container


def written(container: Container) -> bytes:
    """The bytes of a file."""
    out = [MAGIC, zigzag(len(container.header))]
    out += [encoded([Token("bytes", key), Token("bytes", value)]) for key, value in container.header]
    out += [b"\0", container.sync]
    for block in container.blocks:
        size = len(block.data) if block.size is None else block.size
        out += [zigzag(block.count), zigzag(size), block.data, block.sync]
    return b"".join(out)


def tokenised(schema: Any, data: bytes, count: int) -> list[Token]:
    """The tokens of `count` values of a schema.

    Raises:
        ValueError: the bytes are none of it.
    """
    reader = _Reader(data)
    for _ in range(count):
        reader.read(schema)
    return reader.tokens


def encoded(tokens: list[Token]) -> bytes:
    """The bytes of tokens."""
    out = []
    for token in tokens:
        match token.kind:
            case "long":
                out.append(zigzag(token.value))
            case "bytes":
                out.append(zigzag(len(token.value) if token.said is None else token.said) + token.value)
            case "raw":
                out.append(token.value)
    return b"".join(out)


def zigzag(value: int) -> bytes:
    """A number of any size as Avro writes one."""
    rest, out = value << 1 if value >= 0 else (-value << 1) - 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def packed(codec: str, data: bytes) -> bytes:
    """A block under a codec; as it is, if the name is none."""
    match codec:
        case "deflate":
            packer = zlib.compressobj(wbits=-15)
            return packer.compress(data) + packer.flush()
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
        case "zstandard":
            return bytes(cramjam.zstd.compress(data))
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case _:
            return data


def unpacked(codec: str, data: bytes) -> bytes:
    """A block as it was before its codec."""
    readers: dict[str, Callable[[bytes], bytes]] = {
        "deflate": lambda d: zlib.decompress(d, wbits=-15),
        "snappy": lambda d: bytes(cramjam.snappy.decompress_raw(d[:-4])),
        "zstandard": lambda d: bytes(cramjam.zstd.decompress(d)),
        "bzip2": bz2.decompress,
        "xz": lzma.decompress,
    }
    return readers.get(codec, bytes)(data)


def _change(tokens: list[Token], rng: Random) -> None:
    place = rng.randrange(len(tokens))
    token = tokens[place]
    alike = [other.value for other in tokens if other.kind == token.kind]
    match rng.randrange(10):
        case 0:
            del tokens[place : place + rng.choice((1, 1, 3))]
        case 1:
            tokens.insert(rng.randrange(len(tokens) + 1), token)
        case 2 | 3:
            tokens[place] = Token(token.kind, rng.choice(alike))
        case 4 if token.kind == "bytes":
            tokens[place] = Token("bytes", token.value, drawn_values.integer(rng, len(token.value)))
        case _ if token.kind == "long":
            tokens[place] = Token("long", drawn_values.integer(rng, token.value))
        case _ if token.kind == "bytes":
            tokens[place] = Token("bytes", drawn_values.text_bytes(rng, token.value))
        case _:
            tokens[place] = Token("raw", drawn_values.blob(rng, token.value))


class _Reader:
    """Takes values of a schema apart, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._names: dict[str, Any] = {}
        self.tokens: list[Token] = []

    def read(self, schema: Any) -> None:
        match schema:
            case list():
                self.read(schema[self._number()])
            case {"type": "record", "fields": fields}:
                self._names[schema["name"]] = schema
                for part in fields:
                    self.read(part["type"])
            case {"type": "array", "items": items}:
                self._items(lambda: self.read(items))
            case {"type": "map", "values": item}:
                self._items(lambda: (self.read("string"), self.read(item)))
            case {"type": "fixed", "size": size}:
                self._names[schema["name"]] = schema
                self._raw(size)
            case {"type": "enum"}:
                self._names[schema["name"]] = schema
                self._number()
            case {"type": inner}:
                self.read(inner)
            case "null":
                pass
            case "boolean" | "float" | "double":
                self._raw({"boolean": 1, "float": 4, "double": 8}[schema])
            case "int" | "long":
                self._number()
            case "bytes" | "string":
                value, self._at = _bytes(self._data, self._at)
                self.tokens.append(Token("bytes", value))
            case _:
                self.read(self._names[schema])

    def _items(self, one: Callable[[], object]) -> None:
        while (count := self._number()) != 0:
            if count < 0:
                self._number()
            for _ in range(abs(count)):
                one()

    def _number(self) -> int:
        value, self._at = _long(self._data, self._at)
        self.tokens.append(Token("long", value))
        return value

    def _raw(self, size: int) -> None:
        self.tokens.append(Token("raw", self._data[self._at : self._at + size]))
        self._at += size


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("a number is cut")
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("bytes are cut")
    return data[at : at + size], at + size
