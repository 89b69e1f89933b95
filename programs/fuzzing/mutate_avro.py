"""Mutators of Avro files, which are parsed into tokens by their schema, changed in one place, and written again.

A changed value is compressed and framed correctly, so that it passes the outer checks of a reader. Blocks, sync marks,
codec names, and the header are changed separately. This module shares no code with the readers under test.
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import drawn_values
import mutate_json
import pyarrow as pa
from mutate_tokens import ThriftReader, Token, change, encoded, zigzag

MAGIC = b"Obj\x01"


def unsnappy(block: bytes) -> bytes:
    """Return the content of a raw snappy block, which begins with its length as a varint."""
    end = next(place for place, byte in enumerate(block) if byte < 0x80) + 1
    length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(block[:end]))
    return pa.Codec("snappy").decompress(block, length, asbytes=True)


CODECS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "null": (bytes, bytes),
    "deflate": (lambda data: zlib.compress(data, wbits=-15), lambda data: zlib.decompress(data, wbits=-15)),
    "snappy": (
        lambda data: pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
        lambda data: unsnappy(data[:-4]),
    ),
    "zstandard": (
        lambda data: pa.Codec("zstd").compress(data, asbytes=True),
        lambda data: pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(),
    ),
    "bzip2": (bz2.compress, bz2.decompress),
    "xz": (lzma.compress, lzma.decompress),
}
"""Functions that compress and decompress blocks."""


@dataclass(slots=True)
class Block:
    """Records as they are stored. `size` is the recorded size of `data`, or None for the true size."""

    count: int
    data: bytes
    sync: bytes
    size: int | None = None


@dataclass(slots=True)
class AvroContainer:
    """An Avro file. `header` contains keys and values in order."""

    header: list[tuple[bytes, bytes]]
    sync: bytes
    blocks: list[Block] = field(default_factory=list)

    @property
    def codec(self) -> str:
        """The name of the codec."""
        return dict(self.header).get(b"avro.codec", b"").decode() or "null"

    def tokens(self, block: Block) -> list[Token]:
        """Return the tokens of a block, according to the schema in the header."""
        reader, names = ThriftReader(CODECS[self.codec][1](block.data)), dict[str, Any]()
        schema = json.loads(dict(self.header)[b"avro.schema"])
        for _ in range(block.count):
            _read(reader, schema, names)
        return reader.tokens


def values(data: bytes, rng: Random) -> bytes:
    """Change one to three tokens of one block."""
    container = parse(data)
    block = rng.choice([block for block in container.blocks if block.count])
    tokens = container.tokens(block)
    for _ in range(rng.choice((1, 1, 2, 3))):
        change(tokens, rng)
    block.data = CODECS[container.codec][0](encoded(tokens))
    return written(container)


def frame(data: bytes, rng: Random) -> bytes:
    """Change counts, sizes, and sync marks of blocks, or remove, repeat, move, or damage blocks."""
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
    """Change, remove, or repeat the schema, the codec, or another entry of the header."""
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
            codecs = [name.encode() for name in (*CODECS, "lzo", "")]
            container.header = [(k, rng.choice(codecs) if k == b"avro.codec" else v) for k, v in container.header]
        case _ if value[:1] in (b"{", b"["):
            container.header[place] = (key, mutate_json.document(value, rng))
        case _:
            container.header[place] = (key, drawn_values.text_bytes(rng, value))
    return written(container)


def recoded(data: bytes, rng: Random) -> bytes:
    """Write the same records with another codec, which must not change the rows."""
    container = parse(data)
    name = rng.choice(list(CODECS))
    for block in container.blocks:
        block.data = CODECS[name][0](CODECS[container.codec][1](block.data))
    container.header = list({**dict(container.header), b"avro.codec": name.encode()}.items())
    return written(container)


def parse(data: bytes) -> AvroContainer:
    """Return the parts of a file.

    Raises:
        ValueError: The file is not an Avro file, or has no block.
    """
    if data[:4] != MAGIC:
        raise ValueError("no Avro file")
    reader, entries = ThriftReader(data, 4), []
    while count := reader.signed():
        if count < 0:
            reader.signed()
        entries += [(reader.text(), reader.text()) for _ in range(abs(count))]
    container = AvroContainer(entries, reader.take("raw", 16))
    while reader.at < len(data):
        count = reader.signed()
        container.blocks.append(Block(count, reader.text(), reader.take("raw", 16)))
    if not container.blocks:
        raise ValueError("no block")
    return container


def written(container: AvroContainer) -> bytes:
    """Return the bytes of a file."""
    out = [MAGIC, zigzag(len(container.header))]
    out += [encoded([Token("text", key), Token("text", value)]) for key, value in container.header]
    out += [b"\0", container.sync]
    out += [encoded([Token("signed", b.count), Token("text", b.data, b.size)]) + b.sync for b in container.blocks]
    return b"".join(out)


def _read(reader: ThriftReader, schema: Any, names: dict[str, Any]) -> None:
    """Read a value of a schema. `names` are schemas by name."""
    match schema:
        case list():
            _read(reader, schema[reader.signed()], names)
        case {"type": "record", "fields": fields, "name": name}:
            names[name] = schema
            for part in fields:
                _read(reader, part["type"], names)
        case {"type": "array" | "map"}:
            while count := reader.signed():
                if count < 0:
                    reader.signed()
                for _ in range(abs(count)):
                    if schema["type"] == "map":
                        reader.text()
                    _read(reader, schema.get("items", schema.get("values")), names)
        case {"type": "fixed", "size": size, "name": name}:
            names[name] = schema
            reader.take("raw", size)
        case {"type": "enum", "name": name}:
            names[name] = schema
            reader.signed()
        case {"type": inner}:
            _read(reader, inner, names)
        case "null":
            pass
        case "boolean" | "float" | "double":
            reader.take("raw", {"boolean": 1, "float": 4, "double": 8}[schema])
        case "int" | "long":
            reader.signed()
        case "bytes" | "string":
            reader.text()
        case _:
            _read(reader, names[schema], names)
