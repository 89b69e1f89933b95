"""Entries as bytes: a digest, the key, and columns as an Arrow IPC file. Nothing in them is ever run.

What was cut, flipped, or written under another name has another digest or key. Columns are validated before they are
used, so that offsets which lead out of an entry are an error here and not a crash later.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import field

import pyarrow as pa

from harness.cache.keys import Key
from harness.records import dataclass

_MAGIC = b"HRNSENT1"
_DIGEST_BYTES = 16
_HEAD = struct.Struct(f"<{len(_MAGIC)}s{_DIGEST_BYTES}sI")  # magic, digest of what follows it, bytes of the key


class StrangeEntryError(Exception):
    """The bytes are no entry of that key, or hold other columns than they should."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry whose digest was right. size: of all of it, in bytes."""

    size: int
    _body: pa.Buffer = field(repr=False)

    @property
    def about(self) -> Mapping[bytes, bytes]:
        """What stands beside the columns."""
        return self._opened(None).schema.metadata or {}

    def columns(self, schema: pa.Schema) -> pa.Table:
        """The columns of these names and types; others are not looked at.

        Raises:
            StrangeEntryError: it has no such columns, or they are damaged.
        """
        try:
            found = self._opened(None).schema
            places = [found.get_field_index(name) for name in schema.names]
            if any(place < 0 or found.types[place] != type_ for place, type_ in zip(places, schema.types, strict=True)):
                raise StrangeEntryError("other columns")
            table = self._opened(places).read_all().select(schema.names)
            table.validate(full=True)
            return table.cast(schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StrangeEntryError(f"{error}") from error

    def _opened(self, places: list[int] | None) -> pa.ipc.RecordBatchFileReader:
        return pa.ipc.open_file(self._body, options=pa.ipc.IpcReadOptions(included_fields=places))


def encode(key: Key, table: pa.Table, about: Mapping[bytes, bytes]) -> bytes:
    """The bytes of an entry. about: stands beside the columns."""
    codec = "zstd" if pa.Codec.is_available("zstd") else None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)
    with pa.ipc.new_file(sink, table.schema.with_metadata(dict(about)), options=options) as writer:
        writer.write_table(table.combine_chunks())
    body = sink.getvalue()
    return b"".join((_HEAD.pack(_MAGIC, _digest(key.text, body), len(key.text)), key.text, body))


def decode(data: bytes, key: Key) -> Entry:
    """The entry in `data`.

    Raises:
        StrangeEntryError: it is damaged, or none of that key.
    """
    if len(data) < _HEAD.size:
        raise StrangeEntryError("too short")
    magic, digest, length = _HEAD.unpack_from(data)
    start = _HEAD.size + length
    body = pa.py_buffer(data)[start:] if start <= len(data) else pa.py_buffer(b"")
    text = data[_HEAD.size : start]
    if magic != _MAGIC or text != key.text or digest != _digest(text, body):
        raise StrangeEntryError("other bytes")
    return Entry(len(data), body)


def _digest(text: bytes, body: pa.Buffer) -> bytes:
    digest = hashlib.blake2b(text, digest_size=_DIGEST_BYTES)
    digest.update(body)
    return digest.digest()
