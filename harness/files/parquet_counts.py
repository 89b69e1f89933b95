"""Counts and places in a Parquet footer, held against each other and against the file.

DuckDB takes a footer's word: 1.5 skips the rows of a column chunk that counts no values, 2.0.0 gives up its whole
instance at a negative size, and 2.0.1 at a row group of too many rows. None of that needs a page to be seen. The spec:
Apache Parquet, `FileMetaData` in Thrift's compact protocol. Readers pass over a field of another type than theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from harness.files.parquet_tail import FRAME, skip_value, varint
from harness.records import dataclass

Fields: TypeAlias = dict[int, int]
"""Of a struct, by `_key`: integers, and where else a value begins."""
_Inner: TypeAlias = Mapping[int, Callable[[int], int]]
"""By `_key`: what reads a value that begins there, and tells where the next byte is."""

_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 4, 5, 6, 8, 9, 12
_REPEATED = 2
_REPETITIONS = (None, 0, 1, _REPEATED)
_MOST = 2**63 - 1
_FIRST_PAGE = 4  # behind the magic


def _key(number: int, kind: int) -> int:
    return number << 4 | kind


_SCHEMA, _FILE_ROWS, _GROUPS = _key(2, _LIST), _key(3, _I64), _key(4, _LIST)
_ELEMENT_TYPE, _REPETITION, _NAME, _CHILDREN = _key(1, _I32), _key(3, _I32), _key(4, _BINARY), _key(5, _I32)
_COLUMNS, _GROUP_ROWS = _key(1, _LIST), _key(3, _I64)
_METADATA, _ENCRYPTED = _key(3, _STRUCT), _key(9, _BINARY)
_TYPE, _VALUES, _UNCOMPRESSED, _COMPRESSED = _key(1, _I32), _key(5, _I64), _key(6, _I64), _key(7, _I64)
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE = _key(9, _I64), _key(10, _I64), _key(11, _I64)
_NEEDED = {
    _TYPE: "type",
    _VALUES: "num_values",
    _UNCOMPRESSED: "total_uncompressed_size",
    _COMPRESSED: "total_compressed_size",
    _DATA_PAGE: "data_page_offset",
}
_NOT_NEGATIVE = {
    _VALUES: "num_values",
    _UNCOMPRESSED: "total_uncompressed_size",
    _COMPRESSED: "total_compressed_size",
    _DATA_PAGE: "data_page_offset",
    _INDEX_PAGE: "index_page_offset",
    _DICTIONARY_PAGE: "dictionary_page_offset",
}


class Contradiction(ValueError):
    """A footer contradicts itself; the text is a clause about it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that has chunks.

    name: its names from the top down, with a point between two.
    type: the number of its physical type.
    repeated: whether it, or what it is in, may have many values in a row.
    path: the names as a chunk has them.
    """

    name: str
    type: int
    repeated: bool
    path: bytes


def check_counts(footer: bytes, size: int | None) -> None:
    """Refuses a footer whose counts and places are not true of each other, or of the file.

    A chunk of a column in which nothing repeats has as many values as its row group rows, nulls included; where
    something does, each row has a value or more, an empty list too. The row groups together have as many rows as the
    file. The bytes of a chunk are where the file has bytes.

    Args:
        footer: without its length and the magic.
        size: of the file; None: places are not looked at.

    Raises:
        Contradiction: as said; or what would tell is missing, or there twice.
    """
    try:
        _Check(footer, size).run()
    except IndexError:
        raise Contradiction("it is cut") from None


@lru_cache(maxsize=256)
def leaves_of(schema: bytes) -> tuple[Leaf, ...]:
    """The columns of a schema, the list of its elements, that have chunks, in order.

    Raises:
        Contradiction: the elements do not make a tree.
        IndexError: they are cut.
    """
    count, at = _list_head(schema, 0)
    found: list[Leaf] = []
    around: list[_Group] = []
    for number in range(count):
        element, at = struct(schema, at, {})
        children, repetition = element.get(_CHILDREN, 0), element.get(_REPETITION)
        while around and around[-1].rest == 0:
            around.pop()
        if children < 0 or repetition not in _REPETITIONS or bool(around) != bool(number):
            raise Contradiction(_NO_TREE)
        repeats = False
        names: tuple[bytes, ...] = ()
        if around:
            around[-1].rest -= 1
            repeats = around[-1].repeats or repetition == _REPEATED
            names = (*around[-1].names, _bytes(schema, element.get(_NAME)))
        if children > 0:
            around.append(_Group(children, repeats, names))
        elif _ELEMENT_TYPE in element:
            name = b".".join(names).decode(errors="replace")
            found.append(Leaf(name, element[_ELEMENT_TYPE], repeats, _path(names)))
    if any(group.rest for group in around):
        raise Contradiction(_NO_TREE)
    return tuple(found)


@lru_cache(maxsize=256)
def leaves_before(schema: bytes) -> tuple[Leaf, ...]:
    """The columns of what a footer begins with, version and schema (`Tail.schema`). Raises as `leaves_of`."""
    _, at = _number(schema, 1)
    return leaves_of(schema[at + 1 :])


class _Group:
    """An element that others are in. rest: how many are to come. repeats: whether it, or what it is in, does."""

    __slots__ = ("names", "repeats", "rest")

    def __init__(self, rest: int, repeats: bool, names: tuple[bytes, ...]) -> None:
        self.rest, self.repeats, self.names = rest, repeats, names


def _path(names: tuple[bytes, ...]) -> bytes:
    """The list of short names in Thrift; none, if there are many or long ones."""
    if len(names) > 14 or any(len(name) > 0x7F for name in names):
        return b""
    return bytes((len(names) << 4 | _BINARY,)) + b"".join(bytes((len(name),)) + name for name in names)


_NO_TREE = "the elements of its schema do not make a tree"


class _Check:
    """A footer, while it is read. places_end: where pages end at the latest; None: places are not looked at."""

    def __init__(self, footer: bytes, size: int | None) -> None:
        self._data = footer
        self._places_end = None if size is None else size - len(footer) - FRAME
        self._leaves: tuple[Leaf, ...] | None = None
        self._later: int | None = None
        self._rows: int | None = None
        self._chunks: list[Fields | None] = []
        self._metadata: Fields | None = None
        self._of_group: _Inner = {_COLUMNS: self._read_chunks}
        self._of_chunk: _Inner = {_METADATA: self._read_metadata}

    def run(self) -> None:
        """Read all of it. Raises as `check_counts`."""
        found, _ = struct(self._data, 0, {_SCHEMA: self._read_schema, _GROUPS: self._read_groups})
        if self._later is not None:
            self._read_groups(self._later)
        if self._leaves is None or self._rows is None:
            raise Contradiction("it has no schema, or no list of row groups")
        rows = found.get(_FILE_ROWS)
        if rows != self._rows or rows > _MOST:
            raise Contradiction(f"it counts {rows} rows, its row groups {self._rows}")

    def _read_schema(self, at: int) -> int:
        end = skip_value(self._data, at, _LIST, 0)
        self._leaves = leaves_of(self._data[at:end])
        return end

    def _read_groups(self, at: int) -> int:
        if self._leaves is None:  # they stand before the schema
            self._later = at
            return skip_value(self._data, at, _LIST, 0)
        count, at = _list_head(self._data, at)
        self._rows = 0
        for number in range(count):
            self._chunks = []
            group, at = struct(self._data, at, self._of_group)
            rows = group.get(_GROUP_ROWS)
            if rows is None or not 0 <= rows <= _MOST:
                raise Contradiction(f"row group {number} counts {rows} rows")
            self._rows += rows
            if len(self._chunks) != len(self._leaves):
                raise Contradiction(f"row group {number} has {len(self._chunks)} columns, expected {len(self._leaves)}")
            for leaf, chunk in zip(self._leaves, self._chunks, strict=True):
                if chunk is not None:
                    self._check_chunk(leaf, chunk, number, rows)
        return at

    def _read_chunks(self, at: int) -> int:
        count, at = _list_head(self._data, at)
        for _ in range(count):
            self._metadata = None
            chunk, at = struct(self._data, at, self._of_chunk)
            if self._metadata is None and _ENCRYPTED not in chunk:
                raise Contradiction("a column chunk has no metadata")
            self._chunks.append(self._metadata)
        return at

    def _read_metadata(self, at: int) -> int:
        self._metadata, at = struct(self._data, at, {})
        return at

    def _check_chunk(self, leaf: Leaf, chunk: Fields, number: int, rows: int) -> None:
        fault = _fault(leaf, chunk, rows, self._places_end)
        if fault is not None:
            raise Contradiction(f"column {leaf.name!r} of row group {number} {fault}")


def _fault(leaf: Leaf, chunk: Fields, rows: int, places_end: int | None) -> str | None:
    """The fault of a chunk; None: it has none."""
    try:
        values, data_page, size = chunk[_VALUES], chunk[_DATA_PAGE], chunk[_COMPRESSED]
        type_, uncompressed = chunk[_TYPE], chunk[_UNCOMPRESSED]
    except KeyError:
        return f"has no {next(name for key, name in _NEEDED.items() if key not in chunk)}"
    dictionary = chunk.get(_DICTIONARY_PAGE, 0)
    if min(values, data_page, size, uncompressed, dictionary, chunk.get(_INDEX_PAGE, 0)) < 0:
        name, value = next((name, chunk[key]) for key, name in _NOT_NEGATIVE.items() if chunk.get(key, 0) < 0)
        return f"has a {name} of {value}"
    if type_ != leaf.type:
        return f"is of physical type {type_}, its schema says {leaf.type}"
    if (values < rows if leaf.repeated else values != rows) or values > _MOST:
        least = "at least " if leaf.repeated else ""
        return f"has {values} values (num_values), expected {least}{rows}, one a row"
    if places_end is None or values == 0:
        return None
    start = min(data_page, dictionary) if dictionary >= _FIRST_PAGE else data_page
    if start < _FIRST_PAGE or max(data_page, start + size) > places_end:
        return f"is at bytes {start} to {start + size}, expected between {_FIRST_PAGE} and {places_end}"
    return None


def struct(data: bytes, at: int, inner: _Inner) -> tuple[Fields, int]:
    """The fields of a struct that begins at `at`, and where the next byte is.

    inner: what reads values that are no integers; others are passed over.

    Raises:
        Contradiction: a field is there twice, so that readers differ in which one they take; or it is no struct.
        IndexError: it is cut.
    """
    found: Fields = {}
    number = 0
    while True:
        header = data[at]
        at += 1
        if header == 0:
            return found, at
        kind = header & 0x0F
        if header > 0x0F:
            number += header >> 4
        else:
            raw, at = _number(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        key = number << 4 | kind
        if key in found:
            raise Contradiction(f"it has field {number} of a struct twice")
        if _I16 <= kind <= _I64:
            raw = data[at]
            at += 1
            if raw > 0x7F:
                raw, at = _number(data, at - 1)
            found[key] = (raw >> 1) ^ -(raw & 1)
        else:
            found[key] = at
            read = inner.get(key)
            at = _skipped(data, at, kind) if read is None else read(at)


def _number(data: bytes, at: int) -> tuple[int, int]:
    try:
        return varint(data, at)
    except ValueError:
        raise Contradiction("a number in it has no end") from None


def _skipped(data: bytes, at: int, kind: int) -> int:
    try:
        return skip_value(data, at, kind, 0)
    except ValueError:
        raise Contradiction("it holds what is no value, or nests too deeply") from None


def _list_head(data: bytes, at: int) -> tuple[int, int]:
    """How many structs a list has, and where the first begins."""
    header = data[at]
    count, at = header >> 4, at + 1
    if count == 0x0F:
        count, at = _number(data, at)
    if count and header & 0x0F != _STRUCT:
        raise Contradiction("a list of structs in it is one of something else")
    if count > len(data):
        raise Contradiction(f"a list in it claims {count} elements")
    return count, at


def _bytes(data: bytes, at: int | None) -> bytes:
    if at is None:
        return b""
    length, at = _number(data, at)
    return data[at : at + length]
