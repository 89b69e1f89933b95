"""JSON documents and compressed data with bounded memory.

JSON is measured before it is parsed, because a JSON value of 2 bytes takes up to 90 bytes of memory. Decompression
stops at a limit, because a compressed byte may expand to any number of bytes.
"""

from __future__ import annotations

import bz2
import enum
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from harness.errors import InvalidTableError
from harness.metadata.files.avro_values import decode_unsigned
from harness.storage.limits import Limits
from harness.storage.records import dataclass

E = TypeVar("E", bound=enum.Enum)
V = TypeVar("V")

# characters that make Python store the text with 4 bytes per character
_FOUR = re.compile(rb"[\xf0-\xf7]|\\u[dD][89abAB]")
_TOKENS = (b"{", b"[", b",", b":")


def check_document(data: bytes, *, file: str, limits: Limits) -> None:
    """Refuse a JSON document that needs too much memory to parse.

    Raises:
        LimitError: The document has more than `limits.document_bytes`, or more values than `limits.document_values`.
    """
    # Python stores all characters of a text as wide as the widest one.
    width = 1 if data.isascii() and b"\\u" not in data else 4 if _FOUR.search(data) else 2
    limits.check("document_bytes", len(data) * width, "bytes of text", file=file)
    limits.check("document_values", count_values(data), "values", file=file)


def count_values(data: bytes) -> int:
    """Return the approximate number of values in a JSON document, including object keys."""
    # Tokens inside of texts count too. The result need not be exact, and this is faster than any parser.
    return sum(map(data.count, _TOKENS))


HEAD = 4096
"""The number of bytes at the start of a file that determine its kind."""
_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"PARE", "an encrypted Parquet file"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC", "an ORC file"),
    (b"PFA1", "a Puffin file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file"),
)
_SEPARATED = (".csv", ".tsv")


def file_kind(head: bytes, name: str) -> str:
    """Return the kind of a file, for example `a Parquet file`, from its first `HEAD` bytes and its name."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[8:12] == b"DUCK":
        return "a DuckDB database"
    if not head:
        return "an empty file"
    try:
        head.decode("utf-8")
        is_text = True
    except UnicodeDecodeError as error:
        is_text = len(head) == HEAD and error.start > HEAD - 4  # a character may be cut at the end
    if not is_text or b"\0" in head:
        return "a binary file"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return "a JSON file"
    return "a CSV file" if name.lower().endswith(_SEPARATED) else "a text file"


# Decompression libraries trust a declared length: snappy allocates it first, and ends the process if the memory is not
# available. The others continue until the stream ends. The declared length is therefore checked before the library sees
# the data, and streams are decompressed in pieces.


_PIECE = 1 << 20  # bytes
_FIRST_PIECE = 1 << 9  # bytes read from each stream after the first; doubled with each piece
_ZEROS, _NOTHING = re.compile(rb"\0*"), re.compile(b"")
_SNAPPY_RATIO = 32  # an element of 3 bytes expands to at most 64
_XZ_MEMORY = 128 << 20  # bytes for the dictionary, which takes 64 MiB at level 9


class TooLongError(Exception):
    """The content is longer than allowed.

    Attributes:
        length: The minimum number of bytes that the content has.
    """

    def __init__(self, length: int) -> None:
        super().__init__(f"{length:,} bytes")
        self.length = length


def inflate(data: bytes, *, max_bytes: int) -> tuple[bytes, bytes]:
    """Decompress a raw deflate stream, and return its content and the bytes that follow the stream.

    Raises:
        TooLongError: The content has more than `max_bytes` bytes.
        ValueError, zlib.error: The stream is damaged or ends early.
    """
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    plain = stream.decompress(data, max_bytes + 1)
    if len(plain) > max_bytes:
        raise TooLongError(len(plain))
    if not stream.eof:
        plain += stream.flush()
    if not stream.eof:
        raise ValueError("it ends inside its stream")
    return plain, stream.unused_data


def decompress_streams(data: bytes, *, codec: str, max_bytes: int) -> bytes:
    """Decompress consecutive streams of gzip, bzip2, or xz up to the last byte.

    Zeros after a gzip stream are padding.

    Raises:
        TooLongError: The content has more than `max_bytes` bytes.
        EOFError, OSError, zlib.error, lzma.LZMAError: A stream is damaged or ends early.
    """
    if codec == "gzip":
        return _streams(lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), data, max_bytes, padding=_ZEROS)
    if codec == "bzip2":
        return _streams(bz2.BZ2Decompressor, data, max_bytes)
    return _streams(lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, max_bytes)


def _streams(start: Callable[[], Any], data: bytes, max_bytes: int, padding: re.Pattern[bytes] = _NOTHING) -> bytes:
    """Decompress all streams. `padding` matches the bytes that may separate them."""
    parts: list[bytes] = []
    remaining, at = max_bytes, 0
    # zlib copies the input after a stream. With many short streams, each would copy the whole rest, so pieces are
    # small.
    while True:
        stream, piece = start(), _FIRST_PIECE if parts else len(data)
        while not stream.eof:
            chunk = data[at : at + piece]
            if not chunk:
                raise EOFError("it ends inside a stream")
            plain = stream.decompress(chunk, remaining + 1)
            if len(plain) > remaining:
                raise TooLongError(max_bytes - remaining + len(plain))
            parts.append(plain)
            remaining -= len(plain)
            at, piece = at + len(chunk) - len(stream.unused_data), piece * 2
        after = padding.match(data, at)
        at = at if after is None else after.end()
        if at == len(data):
            return b"".join(parts)


def unzstd(data: bytes, *, max_bytes: int) -> bytes:
    """Decompress the frames of a zstandard stream.

    Raises:
        TooLongError: The content has more than `max_bytes` bytes.
        OSError: A frame is damaged or ends early.
    """
    if len(data) >= 5:  # the length that the first frame declares (RFC 8878, 3.1.1.1)
        is_single, code = data[4] >> 5 & 1, data[4] >> 6
        width, start = (is_single, 2, 4, 8)[code], 5 + (1 - is_single) + (0, 1, 2, 4)[data[4] & 3]
        if width and len(data) >= start + width:
            declared = int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)
            if declared > max_bytes:
                raise TooLongError(declared)
    content = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(_PIECE):
            content += piece
            if len(content) > max_bytes:
                raise TooLongError(len(content))
    return bytes(content)


def unsnappy(data: bytes, *, max_bytes: int) -> bytes:
    """Decompress a raw snappy block.

    Raises:
        TooLongError: The block declares more than `max_bytes` bytes.
        ValueError: The block is damaged, or declares more bytes than it can hold.
        OSError: pyarrow cannot decompress the block.
        NotImplementedError: The installed pyarrow was built without snappy.
    """
    try:
        declared, _ = decode_unsigned(data, 0)
    except IndexError:
        raise ValueError("it ends inside its length") from None
    if declared > max_bytes:
        raise TooLongError(declared)
    if declared > _SNAPPY_RATIO * len(data):
        raise ValueError(f"it declares {declared} bytes, more than its {len(data)} can hold")
    return bytes(pa.Codec("snappy").decompress(data, declared, asbytes=True))


@dataclass(frozen=True, slots=True)
class Json:
    """A value inside a JSON document that knows its path, so that errors name it.

    A JSON null counts as a missing key everywhere (iceberg 1.16). Floats, texts, and booleans are never accepted as
    integers. The path is converted to text only when an error is raised, because metadata may contain many thousands of
    snapshots.

    Attributes:
        value: The value as `json.loads` returns it.
        file: The path of the file.
        path: The keys and indexes from the root of the file to the value.
        rule: The rule that errors cite.
    """

    value: Any
    file: str | None = None
    path: tuple[str | int, ...] = ()
    rule: str | None = None

    def with_rule(self, rule: str) -> Json:
        """Return the same value with another rule for errors to cite."""
        return Json(self.value, self.file, self.path, rule)

    def error(self, message: str, *, key: str | None = None, cause: str | None = None) -> InvalidTableError:
        """Return an error about this value, or about the member `key` of this object."""
        path = self.path if key is None else (*self.path, key)
        return InvalidTableError(message, cause=cause, file=self.file, field=json_pointer(path), rule=self.rule)

    def object(self) -> dict[str, Any]:
        """Return the value, which must be an object."""
        if type(self.value) is not dict:
            raise self.error(f"Invalid value: got {short_repr(self.value)}, expected an object")
        return self.value

    def items(self) -> Iterator[Json]:
        """Yield the elements of the value, which must be a list."""
        if type(self.value) is not list:
            raise self.error(f"Invalid value: got {short_repr(self.value)}, expected a list")
        for index, value in enumerate(self.value):
            yield Json(value, self.file, (*self.path, index), self.rule)

    def has(self, key: str) -> bool:
        """Return whether the object has `key` with a value other than null."""
        return self.object().get(key) is not None

    def child(self, key: str) -> Json:
        """Return the required member `key`."""
        return Json(self._required(key, self.object().get(key)), self.file, (*self.path, key), self.rule)

    def _required(self, key: str, value: V | None) -> V:
        if value is None:
            raise self.error(f"Missing required field '{key}'", key=key)
        return value

    def optional(self, key: str) -> Json | None:
        """Return the member `key`, or None if it is missing or null."""
        value = self.object().get(key)
        return None if value is None else Json(value, self.file, (*self.path, key), self.rule)

    def elements(self, key: str) -> Iterator[Json]:
        """Return the elements of the list `key`, or none if it is missing or null."""
        child = self.optional(key)
        return iter(()) if child is None else child.items()

    def integer(self, key: str, *, bits: int = 64) -> int:
        """Return the required member `key`, a signed integer of `bits` bits."""
        return self._required(key, self.optional_integer(key, bits=bits))

    def optional_integer(self, key: str, *, bits: int = 64) -> int | None:
        """Return the member `key`, a signed integer of `bits` bits, or None if it is missing or null."""
        value = self.object().get(key)
        if value is None:
            return None
        # type() instead of isinstance(), because bool is a subclass of int
        if type(value) is not int or not -1 << bits - 1 <= value < 1 << bits - 1:
            raise self.error(f"Invalid value: got {short_repr(value)}, expected a {bits}-bit integer", key=key)
        return value

    def snapshot_id(self, key: str) -> int:
        """Return the required member `key`, a snapshot id.

        Ids are 64 bits that only identify a snapshot. Real tables contain unsigned ids that exceed a signed integer.
        """
        return self._required(key, self.optional_snapshot_id(key))

    def optional_snapshot_id(self, key: str) -> int | None:
        """Return the member `key`, a snapshot id, or None if it is missing or null."""
        value = self.object().get(key)
        if value is not None and (type(value) is not int or not -1 << 63 <= value < 1 << 64):
            raise self.error(f"Invalid value: got {short_repr(value)}, expected a snapshot id of 64 bits", key=key)
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """Return the list of 32-bit integers `key`, or an empty tuple if it is missing or null."""
        return self._list(key, lambda v: type(v) is int and -(1 << 31) <= v < 1 << 31, "32-bit integers")

    def text(self, key: str) -> str:
        """Return the required member `key`, a string."""
        return self._required(key, self.optional_text(key))

    def optional_text(self, key: str) -> str | None:
        """Return the member `key`, a string, or None if it is missing or null."""
        value = self.object().get(key)
        if value is not None and type(value) is not str:
            raise self.error(f"Invalid value: got {short_repr(value)}, expected a string", key=key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of strings `key`, or an empty tuple if it is missing or null."""
        return self._list(key, lambda v: type(v) is str, "strings")

    def _list(self, key: str, is_right: Callable[[Any], bool], expected: str) -> tuple[Any, ...]:
        values = self.object().get(key)
        if values is None:
            return ()
        if type(values) is not list or not all(map(is_right, values)):
            raise self.error(f"Invalid value: got {short_repr(values)}, expected a list of {expected}", key=key)
        return tuple(values)

    def boolean(self, key: str) -> bool:
        """Return the required member `key`, true or false."""
        value = self._required(key, self.object().get(key))
        if type(value) is not bool:
            raise self.error(f"Invalid value: got {short_repr(value)}, expected true or false", key=key)
        return value

    def choice(self, key: str, kind: type[E]) -> E:
        """Return the required member `key`, one of the values of `kind` in any letter case."""
        text = self.text(key).lower()
        for member in kind:
            if member.value == text:
                return member
        expected = " or ".join(str(member.value) for member in kind)
        raise self.error(f"Invalid value: got {short_repr(text)}, expected {expected}", key=key)


def json_pointer(path: tuple[str | int, ...]) -> str:
    """Return a path as a JSON pointer, or `/` for the root."""
    return "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)


def short_repr(value: Any) -> str:
    """Return a JSON value as text, short enough for an error message."""
    try:
        text = repr(value)
    except RecursionError:  # a document may be nested as deeply as it could just be parsed
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
