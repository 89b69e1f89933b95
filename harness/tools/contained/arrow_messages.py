"""A check of a worker's Arrow stream before pyarrow decodes it, so that it takes no more memory than its bytes.

pyarrow checks the form of a stream, not its size once decoded: buffers may be compressed, overlap, or be none for any
number of rows, and a schema may have one field or text a million times. None of that is in streams of harness. The
layout is that of the files Message.fbs and Schema.fbs of Apache Arrow, read by the rules of FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.storage.records import dataclass

_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
_TIMESTAMP, _UNION, _FIRST_VIEW = 10, 14, 22
"""Numbers of types. Rows of types from the first view on, run ends too, share bytes."""
_MOST_FIELDS, _MOST_LEVELS = 1 << 16, 64
MOST_ARRAYS = 1 << 20
"""The limit of arrays in all batches, parts of nested columns counted too: each takes some hundred bytes."""


class StreamError(ValueError):
    """A stream is none that harness writes."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a FlatBuffers message: data, and where in it the table begins."""

    data: bytes
    at: int

    def number(self, field: int, form: str, default: int = 0) -> int:
        """A number; form: of `struct`."""
        at = self._field(field)
        return default if at is None else _unpacked(form, self.data, at)

    def table(self, field: int) -> _Table | None:
        """A table, None if there is none."""
        at = self._pointed(field)
        return None if at is None else _Table(self.data, at)

    def tables(self, field: int) -> Iterator[_Table]:
        """A vector of tables."""
        count, at = self._vector(field, 4)
        for place in range(at, at + 4 * count, 4):
            yield _Table(self.data, place + _unpacked("<I", self.data, place))

    def length(self, field: int) -> int:
        """The length of a text or a vector of bytes."""
        return self._vector(field, 1)[0]

    def pairs(self, field: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """A vector of structs of two numbers each."""
        count, at = self._vector(field, 16)
        return np.frombuffer(self.data, "<i8", 2 * count, at).reshape(count, 2)

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        at = self._pointed(field)
        if at is None:
            return 0, 0
        count = _unpacked("<I", self.data, at)
        if at + 4 + count * width > len(self.data):
            raise StreamError("a vector ends after its message")
        return count, at + 4

    def _pointed(self, field: int) -> int | None:
        at = self._field(field)
        return None if at is None else at + _unpacked("<I", self.data, at)

    def _field(self, field: int) -> int | None:
        entries = self.at - _unpacked("<i", self.data, self.at)
        if 4 + 2 * field + 2 > _unpacked("<H", self.data, entries):
            return None
        offset = _unpacked("<H", self.data, entries + 4 + 2 * field)
        return None if offset == 0 else self.at + offset


def check_stream(stream: bytes, most_rows: int) -> None:
    """Refuses a stream that takes more memory, once it is decoded, than some hundred times its bytes.

    most_rows: in all batches, parts of nested columns counted too.

    Raises StreamError: it is compressed, its buffers overlap or end after their message, it has a type whose rows share
    bytes, a dictionary that grows, too many rows, fields or batches, or is no stream at all.
    """
    try:
        arrays = rows = 0
        for kind, header, body in _messages(stream):
            if kind == _SCHEMA:
                _Schema(header).check()
                continue
            if kind == _DICTIONARY_BATCH:
                data = header.table(1)
                if data is None or header.number(2, "<B"):
                    raise StreamError("a dictionary grows, or is none")
                header = data
            elif kind != _RECORD_BATCH:
                raise StreamError(f"a message is of kind {kind}")
            nodes = header.pairs(1)
            arrays += len(nodes) + 1
            rows += header.number(0, "<q") + sum(nodes[:, 0].tolist())
            if arrays > MOST_ARRAYS or rows > most_rows or (len(nodes) and nodes.min() < 0) or rows < 0:
                raise StreamError(f"it has {arrays} arrays of {rows} rows")
            _check_buffers(header, body)
    except (struct.error, ValueError) as error:
        raise error if isinstance(error, StreamError) else StreamError(f"it is cut: {error}") from error


def _messages(stream: bytes) -> Iterator[tuple[int, _Table, int]]:
    """Each message: its kind, its header, and the number of bytes that follow it."""
    at = 0
    while at < len(stream):
        mark, size = struct.unpack_from("<Ii", stream, at)
        at += 8
        if mark != _CONTINUATION or size < 0 or at + size > len(stream):
            raise StreamError("a message ends after the stream")
        if size == 0:
            return
        data = stream[at : at + size]
        message = _Table(data, _unpacked("<I", data, 0))
        body = message.number(3, "<q")
        header = message.table(2)
        at += size
        if header is None or not 0 <= body <= len(stream) - at or message.length(4):
            raise StreamError("a message says more than its bytes have")
        yield message.number(1, "<B"), header, body
        at += body


def _check_buffers(batch: _Table, body: int) -> None:
    if batch.table(3) is not None:
        raise StreamError("it is compressed")
    buffers = batch.pairs(2)
    if len(buffers) and (buffers.min() < 0 or buffers.max() > body):
        raise StreamError("a buffer ends after its message")
    used = buffers[buffers[:, 1] > 0]
    ends = used.sum(axis=1)
    if len(used) and (ends.max() > body or (used[1:, 0] < ends[:-1]).any()):
        raise StreamError("its buffers overlap")


class _Schema:
    """A schema whose parts are each there once, as its writer makes them."""

    def __init__(self, schema: _Table) -> None:
        self._schema = schema
        self._seen: set[int] = set()
        self._texts = 0

    def check(self) -> None:
        """Refuses a schema that has one part many times, or types whose rows share bytes."""
        self._pairs(self._schema, 2)
        self._fields(self._schema, 1, 0)

    def _fields(self, above: _Table, vector: int, level: int) -> None:
        for field in above.tables(vector):
            self._once(field)
            self._text(field.length(0))
            kind, form = field.number(2, "<B"), field.table(3)
            shares = kind >= _FIRST_VIEW or (kind == _UNION and form is not None and form.number(0, "<h") != 0)
            if shares or level > _MOST_LEVELS:
                raise StreamError(f"a field is of type {kind}, on level {level}")
            if kind == _TIMESTAMP and form is not None:
                self._text(form.length(1))
            self._pairs(field, 6)
            self._fields(field, 5, level + 1)

    def _pairs(self, above: _Table, vector: int) -> None:
        for pair in above.tables(vector):
            self._once(pair)
            self._text(pair.length(0) + pair.length(1))

    def _once(self, part: _Table) -> None:
        if part.at in self._seen or len(self._seen) >= _MOST_FIELDS:
            raise StreamError("a schema has one part twice, or too many")
        self._seen.add(part.at)

    def _text(self, length: int) -> None:
        self._texts += length
        if self._texts > len(self._schema.data):
            raise StreamError("a schema has one text twice")


def decoded_bytes(table: pa.Table) -> int:
    """The bytes of dictionaries' values, if each row has its own."""
    if not any(_has_dictionary(field.type) for field in table.schema):
        return 0
    return sum(_decoded(chunk) for column in table.columns for chunk in column.chunks)


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))


def _decoded(array: pa.Array) -> int:
    kind = array.type
    if not _has_dictionary(kind):
        return 0
    if isinstance(array, pa.ExtensionArray):
        return _decoded(array.storage)
    if pa.types.is_dictionary(kind):
        if not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)):
            raise StreamError(f"a dictionary is of {kind.value_type}")
        lengths = pc.binary_length(array.dictionary)
        return pc.sum(pc.take(lengths.cast(pa.int64()), array.indices)).as_py() or 0
    if isinstance(array, pa.StructArray | pa.UnionArray):
        return sum(_decoded(array.field(at)) for at in range(kind.num_fields))
    if isinstance(array, pa.MapArray):
        return _decoded(array.keys) + _decoded(array.items)
    return _decoded(array.values)


def _unpacked(form: str, data: bytes, at: int) -> int:
    if at < 0:
        raise StreamError("an offset leads before its message")
    (value,) = struct.unpack_from(form, data, at)
    return int(value)
