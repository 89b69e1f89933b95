"""Avro files taken apart into tokens by their schema, changed in one place and put together again, right or wrong.

A value that is changed here is well compressed and framed, so that it gets past the outer checks of a reader. Blocks,
sync marks, codec names and the header are changed on their own. Nothing here is shared with the readers under test.
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
    """The content of a raw block, which begins with its length in seven bits a byte."""
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
"""Packers and unpackers of blocks."""


@dataclass(slots=True)
class Block:
    """Records as they stand in the file. size: what is said of `data`, None: the truth."""

    count: int
    data: bytes
    sync: bytes
    size: int | None = None


@dataclass(slots=True)
class AvroContainer:
    """An Avro file. header: keys and values in order."""

    header: list[tuple[bytes, bytes]]
    sync: bytes
    blocks: list[Block] = field(default_factory=list)

    @property
    def codec(self) -> str:
        """The name of the codec."""
        return dict(self.header).get(b"avro.codec", b"").decode() or "null"

    def tokens(self, block: Block) -> list[Token]:
        """The tokens of a block, by the schema of the header."""
        reader, names = ThriftReader(CODECS[self.codec][1](block.data)), dict[str, Any]()
        schema = json.loads(dict(self.header)[b"avro.schema"])
        for _ in range(block.count):
            _read(reader, schema, names)
        return reader.tokens


def values(data: bytes, rng: Random) -> bytes:
    """One to three tokens of one block say something else."""
    container = parse(data)
    block = rng.choice([block for block in container.blocks if block.count])
    tokens = container.tokens(block)
    for _ in range(rng.choice((1, 1, 2, 3))):
        change(tokens, rng)
    block.data = CODECS[container.codec][0](encoded(tokens))
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
            known = [name.encode() for name in (*CODECS, "lzo", "")]
            container.header = [(k, rng.choice(known) if k == b"avro.codec" else v) for k, v in container.header]
        case _ if value[:1] in (b"{", b"["):
            container.header[place] = (key, mutate_json.document(value, rng))
        case _:
            container.header[place] = (key, drawn_values.text_bytes(rng, value))
    return written(container)


def recoded(data: bytes, rng: Random) -> bytes:
    """The same records under another codec: another file that says the same."""
    container = parse(data)
    name = rng.choice(list(CODECS))
    for block in container.blocks:
        block.data = CODECS[name][0](CODECS[container.codec][1](block.data))
    container.header = list({**dict(container.header), b"avro.codec": name.encode()}.items())
    return written(container)


def parse(data: bytes) -> AvroContainer:
    """The parts of a file.

    Raises:
        ValueError: it is no Avro file, or has no block.
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
    """The bytes of a file."""
    out = [MAGIC, zigzag(len(container.header))]
    out += [encoded([Token("text", key), Token("text", value)]) for key, value in container.header]
    out += [b"\0", container.sync]
    out += [encoded([Token("signed", b.count), Token("text", b.data, b.size)]) + b.sync for b in container.blocks]
    return b"".join(out)


def _read(reader: ThriftReader, schema: Any, names: dict[str, Any]) -> None:
    """Takes a value of a schema. names: schemas by name."""
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
