"""Checks of Arrow streams from untrusted programs, before pyarrow decodes them.

pyarrow checks the form of a stream, but not its size after decoding: buffers may be compressed, overlap, or be absent
for any number of rows, and a schema may contain one field or text a million times. Streams that harness writes have
none of this. Streams of other programs may compress buffers and share values between rows, within a limit. The layout
is defined by the files Message.fbs and Schema.fbs of Apache Arrow, encoded as FlatBuffers.
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
_DECIMAL, _TIMESTAMP, _UNION, _RUN_ENDS, _UTF8_VIEW = 7, 10, 14, 22, 24
"""Numbers of types. Rows of the types from run ends on share bytes: run ends, views of bytes and texts, views of lists.
"""
_FILE, _FILE_START, _FILE_END = b"ARROW1", 8, 10
"""The mark at the start and end of an IPC file, and the number of bytes before its stream and after its footer."""
_MOST_FIELDS, _MOST_LEVELS, _MOST_DIGITS = 1 << 16, 64, 76
MOST_ARRAYS = 1 << 20
"""The most arrays in all batches, including parts of nested columns. Each array takes a few hundred bytes."""


class StreamError(ValueError):
    """The error for a stream that is damaged or exceeds a limit."""


def read_stream(data: bytes, *, most_bytes: int, most_rows: int, foreign: bool = False) -> pa.Table:
    """Return the validated rows of an Arrow IPC stream that an untrusted program wrote.

    Args:
        data: The stream. If `foreign` is True, an IPC file is accepted too, and its stream is read.
        most_bytes: The most bytes that the values may take, if no two rows share a value.
        most_rows: The most rows of all batches, including the rows of nested columns.
        foreign: True if programs other than harness write the stream. It may then have compressed buffers, run ends,
            and views of texts and bytes.

    Raises:
        StreamError: The stream is damaged, exceeds a limit, or has types or names that are not supported.
    """
    try:
        stream = _stream_of(data) if foreign else memoryview(data)
        _StreamCheck(stream, most_bytes, most_rows, foreign).run()
        rows = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        rows.validate(full=True)
        shared = sum(_decoded_bytes(chunk) for column in rows.columns for chunk in column.chunks)
    except (pa.ArrowException, struct.error, OSError, ValueError, TypeError, RecursionError) as error:
        raise error if isinstance(error, StreamError) else StreamError(f"{error}") from error
    if shared > most_bytes:
        raise StreamError(f"its dictionaries expand to more than {most_bytes} bytes")
    return rows


def _stream_of(data: bytes) -> memoryview:
    """Return the stream within an IPC file. Other data is returned unchanged."""
    stream = memoryview(data)
    if not data.startswith(_FILE):
        return stream
    end = len(data) - _FILE_END
    if not data.endswith(_FILE) or end < _FILE_START:
        raise StreamError("the file is truncated")
    end -= _unpack("<i", stream, end)
    start = _FILE_START
    while data[start : start + 8] == bytes(8):  # writers in Rust align the stream to 64 bytes
        start += 8
    if not start <= end <= len(data) - _FILE_END:
        raise StreamError("the footer is longer than the file")
    return stream[start:end]


@dataclass(frozen=True, slots=True)
class _FlatTable:
    """A table in a FlatBuffers message: the message's data, and the table's offset in it."""

    data: memoryview
    at: int

    def number(self, field: int, form: str, default: int = 0) -> int:
        """Return a number. `form` is its format code, as for the module `struct`."""
        at = self._find_field(field)
        return default if at is None else _unpack(form, self.data, at)

    def table(self, field: int) -> _FlatTable | None:
        """Return a nested table, or None if it is absent."""
        at = self._follow_offset(field)
        return None if at is None else _FlatTable(self.data, at)

    def tables(self, field: int) -> Iterator[_FlatTable]:
        """Yield the tables of a vector."""
        count, at = self._find_vector(field, 4)
        for place in range(at, at + 4 * count, 4):
            yield _FlatTable(self.data, place + _unpack("<I", self.data, place))

    def length(self, field: int) -> int:
        """Return the length of a text or a vector of bytes."""
        return self._find_vector(field, 1)[0]

    def text(self, field: int) -> bytes:
        """Return the bytes of a text."""
        count, at = self._find_vector(field, 1)
        return bytes(self.data[at : at + count])

    def pairs(self, field: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return a vector of structs with two numbers each, as an array with two columns."""
        count, at = self._find_vector(field, 16)
        return np.frombuffer(self.data, "<i8", 2 * count, at).reshape(count, 2)

    def _find_vector(self, field: int, width: int) -> tuple[int, int]:
        at = self._follow_offset(field)
        if at is None:
            return 0, 0
        count = _unpack("<I", self.data, at)
        if at + 4 + count * width > len(self.data):
            raise StreamError("a vector ends after its message")
        return count, at + 4

    def _follow_offset(self, field: int) -> int | None:
        at = self._find_field(field)
        return None if at is None else at + _unpack("<I", self.data, at)

    def _find_field(self, field: int) -> int | None:
        entries = self.at - _unpack("<i", self.data, self.at)
        if 4 + 2 * field + 2 > _unpack("<H", self.data, entries):
            return None
        offset = _unpack("<H", self.data, entries + 4 + 2 * field)
        return None if offset == 0 else self.at + offset


@dataclass(slots=True)
class _StreamCheck:
    """A check of a stream, with the resources that its messages have needed so far.

    Attributes:
        decoded: The size of decompressed buffers.
    """

    stream: memoryview
    most_bytes: int
    most_rows: int
    foreign: bool
    arrays: int = 0
    rows: int = 0
    decoded: int = 0

    def run(self) -> None:
        """Raise an error if decoding the stream could take more memory than a few hundred times its size.

        Raises:
            StreamError: Buffers overlap or end after their message; a buffer is compressed, or rows of a type share
                bytes, although that is not allowed; a dictionary grows; there are too many rows, fields or batches; or
                the data is not a stream.
            struct.error, ValueError: The stream is truncated.
        """
        for kind, header, body in self._messages():
            if kind == _SCHEMA:
                _SchemaCheck(header, self.foreign).check()
                continue
            if kind == _DICTIONARY_BATCH:
                data = header.table(1)
                if data is None or header.number(2, "<B"):
                    raise StreamError("a dictionary grows, or is missing")
                header = data
            elif kind != _RECORD_BATCH:
                raise StreamError(f"a message is of kind {kind}")
            nodes = header.pairs(1)
            self.arrays += len(nodes) + 1
            rows = header.number(0, "<q")
            self.rows += rows + sum(nodes[:, 0].tolist())
            if self.arrays > MOST_ARRAYS or self.rows > self.most_rows or (len(nodes) and nodes.min() < 0) or rows < 0:
                raise StreamError(f"it has {self.arrays} arrays of {self.rows} rows")
            self._buffers(header, body)

    def _messages(self) -> Iterator[tuple[int, _FlatTable, memoryview]]:
        """Yield each message: its kind, its header, and the bytes that follow it."""
        stream, at = self.stream, 0
        while at < len(stream):
            mark, size = struct.unpack_from("<Ii", stream, at)
            at += 8
            if mark != _CONTINUATION or size < 0 or at + size > len(stream):
                raise StreamError("a message ends after the stream")
            if size == 0:
                return
            data = stream[at : at + size]
            message = _FlatTable(data, _unpack("<I", data, 0))
            body = message.number(3, "<q")
            header = message.table(2)
            at += size
            if header is None or not 0 <= body <= len(stream) - at or message.length(4):
                raise StreamError("a message refers to more bytes than it has")
            yield message.number(1, "<B"), header, stream[at : at + body]
            at += body

    def _buffers(self, batch: _FlatTable, body: memoryview) -> None:
        is_compressed = batch.table(3) is not None
        if is_compressed and not self.foreign:
            raise StreamError("it is compressed")
        buffers = batch.pairs(2)
        if len(buffers) and (buffers.min() < 0 or buffers.max() > len(body)):
            raise StreamError("a buffer ends after its message")
        used = buffers[buffers[:, 1] > 0]
        ends = used.sum(axis=1)
        if len(used) and (ends.max() > len(body) or (used[1:, 0] < ends[:-1]).any()):
            raise StreamError("its buffers overlap")
        if is_compressed:
            # pyarrow allocates the length at the start of a buffer; -1 marks a buffer that is not compressed.
            self.decoded += sum(max(0, _unpack("<q", body, start)) for start in used[:, 0].tolist())
            if self.decoded > self.most_bytes:
                raise StreamError(f"its buffers decompress to more than {self.most_bytes} bytes")


class _SchemaCheck:
    """A check of a schema. Its parts must be distinct objects in the message, as harness writes them."""

    def __init__(self, schema: _FlatTable, foreign: bool) -> None:
        self._schema = schema
        self._last_type = _UTF8_VIEW if foreign else _RUN_ENDS - 1
        self._seen: set[int] = set()
        self._texts = 0

    def check(self) -> None:
        """Raise an error for a repeated part, a name that is not UTF-8, or a type whose rows share bytes."""
        self._check_pairs(self._schema, 2)
        self._check_fields(self._schema, 1, 0)

    def _check_fields(self, above: _FlatTable, vector: int, level: int) -> None:
        for field in above.tables(vector):
            self._check_unique(field)
            self._check_name(field.text(0))
            kind, form = field.number(2, "<B"), field.table(3)
            shares = kind > self._last_type or (kind == _UNION and form is not None and form.number(0, "<h") != 0)
            if shares or level > _MOST_LEVELS:
                raise StreamError(f"a field is of type {kind}, on level {level}")
            scale = form.number(1, "<i") if kind == _DECIMAL and form is not None else 0
            if abs(scale) > _MOST_DIGITS:  # beyond the precision of any type; Python's decimals have no such scale
                raise StreamError(f"a decimal has the scale {scale}")
            if kind == _TIMESTAMP and form is not None:
                self._check_name(form.text(1))
            self._check_pairs(field, 6)
            self._check_fields(field, 5, level + 1)

    def _check_pairs(self, above: _FlatTable, vector: int) -> None:
        for pair in above.tables(vector):
            self._check_unique(pair)
            self._count_text(pair.length(0) + pair.length(1))

    def _check_name(self, text: bytes) -> None:
        self._count_text(len(text))
        try:
            text.decode()
        except UnicodeDecodeError:
            raise StreamError("a name of its schema is not UTF-8") from None

    def _check_unique(self, part: _FlatTable) -> None:
        if part.at in self._seen or len(self._seen) >= _MOST_FIELDS:
            raise StreamError("a schema repeats a part, or has too many parts")
        self._seen.add(part.at)

    def _count_text(self, length: int) -> None:
        self._texts += length
        if self._texts > len(self._schema.data):
            raise StreamError("a schema repeats a text")


def _shares_bytes(kind: pa.DataType) -> bool:
    """Return whether rows of a type may share bytes, because the type has a dictionary, run ends, or a view."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _shares_bytes(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind) or _is_view(kind):
        return True
    return any(_shares_bytes(kind.field(at).type) for at in range(kind.num_fields))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _decoded_bytes(array: pa.Array) -> int:
    """Return the size that shared values would have if each row had its own copy."""
    kind = array.type
    if not _shares_bytes(kind):
        return 0
    if isinstance(array, pa.ExtensionArray):
        return _decoded_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        return pc.sum(pc.take(_value_sizes(array.dictionary), array.indices)).as_py() or 0
    if pa.types.is_run_end_encoded(kind):
        ends = np.minimum(array.run_ends.to_numpy(), len(array)).astype(np.int64)
        return int((np.diff(ends, prepend=0) * _value_sizes(array.values).to_numpy()).sum())
    if _is_view(kind):
        return pc.sum(_value_sizes(array)).as_py() or 0
    if isinstance(array, pa.StructArray | pa.UnionArray):
        return sum(_decoded_bytes(array.field(at)) for at in range(kind.num_fields))
    if isinstance(array, pa.MapArray):
        return _decoded_bytes(array.keys) + _decoded_bytes(array.items)
    return _decoded_bytes(array.values)


def _value_sizes(values: pa.Array) -> pa.Array:
    """Return the size of each value in bytes."""
    kind, types = values.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return pc.fill_null(pc.binary_length(values), 0).cast(pa.int64())
    if _is_view(kind):  # a view has 16 bytes and begins with the length
        views = values.buffers()[1]
        lengths = np.frombuffer(b"" if views is None else views, "<i4")[::4][values.offset :][: len(values)]
        return pa.array(np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0), pa.int64())
    if types.is_null(kind):
        return pa.array(np.zeros(len(values), np.int64))
    if types.is_nested(kind) or _shares_bytes(kind):
        raise StreamError(f"a dictionary is of {kind}")
    return pa.array(np.full(len(values), -(-kind.bit_width // 8), np.int64))


def _unpack(form: str, data: memoryview, at: int) -> int:
    if at < 0:
        raise StreamError("an offset points before its message")
    (value,) = struct.unpack_from(form, data, at)
    return int(value)
