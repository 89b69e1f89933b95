"""Fast checks of Parquet footers: the schema as bytes, and counts and positions that must be consistent.

Footers of one writer start with the same bytes, which contain the version and the schema. A schema that was parsed
before is therefore recognized by its bytes, and the row count follows it directly.

DuckDB trusts footers: version 1.5 skips the rows of a column chunk that counts no values. A negative size in 2.0.0, or
a row group with too many rows in 2.0.1, makes its whole instance unusable before any page is read. Footers are
therefore checked in trusted reads as well, since a check in the engine would come too late.

Spec: Apache Parquet, `FileMetaData` in Thrift's compact protocol. Readers skip fields whose type differs from the
specification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from itertools import count
from typing import TypeAlias

from harness.storage.records import dataclass

TAIL_BYTES = 1 << 16
"""The number of bytes to read from the end of a file. Most footers are shorter."""

FRAME = 8
"""The bytes of the footer's length and the magic."""
_MAGIC = b"PAR1"
# headers of an i32, a list, and an i64, if each has the field number after the previous one
_VERSION, _LISTED, _COUNTED = 0x15, 0x19, 0x16
_MOST_DEEP = 16

BROTLI = 4
"""The number of the Brotli codec."""

_SPARK = b"org.apache.spark."
_VERSIONED = re.compile(rb"version\x18[\x01-\x7f]([0-9]{1,4})\.")
_GREGORIAN_SINCE = 3
_GEO_KEY = b"geo"


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of one file.

    Attributes:
        schema: The bytes of the version and the schema, equal in files with the same schema.
        rows: The row count.
        has_metadata: True if the rest of the footer must be searched for metadata: it may show that the writer used the
            old calendar, or contain the key `geo`.
    """

    schema: bytes
    rows: int
    has_metadata: bool


def tail_length(data: bytes) -> int:
    """Return the length of the footer from the last bytes of a file, or 0 if it is not a Parquet file."""
    if data[-4:] != _MAGIC or len(data) < FRAME:
        return 0
    return int.from_bytes(data[-FRAME:-4], "little") + FRAME


def may_claim_long_list(data: bytes) -> bool:
    """Return whether a footer may claim a list of a million elements or more.

    DuckDB allocates the memory for a claimed list at once.

    The bytes that match may also be part of a text or a statistic, so a parser with limits must decide. Long texts are
    harmless, because DuckDB allocates no memory for their claimed length before it has read them (1.5, 2.0).

    Args:
        data: The end of a file, with all of its footer.
    """
    # The pages before the footer contain many such bytes.
    footer = data[max(0, len(data) - tail_length(data)) : len(data) - FRAME]
    kinds = footer.translate(_KINDS)
    return any(number in kinds for number in _LONG) and _LONG_LIST.search(footer) is not None


_KINDS = b"s" * 0x40 + b"L" * 0x40 + b"+" * 0x80
"""The class of each byte in a varint.

`s` and `L` end a number with a small or large value. `+` means that another byte follows.
"""
_LONG = (b"++L", b"+++")
"""Byte classes in numbers from 2^20 on.

The regular expression takes 10 times as long, so it only runs if one of these occurs.
"""
_LONG_LIST = re.compile(rb"[\xf0-\xff](?:[\x80-\xff]{2}[\x40-\x7f]|[\x80-\xff]{3})")
"""The header of a list with a separate size, and a size from 2^20 on or with more bytes than that needs."""


def parse_tail(data: bytes, schemas: Iterable[bytes] = ()) -> Tail | None:
    """Return the end of a file, or None if the bytes lack a part of the footer or the footer is unusual.

    If the result is None, a Parquet reader must find out whether anything is wrong.

    Args:
        data: The end of the file, or all of it.
        schemas: The schemas of other tails, which need not be parsed again.
    """
    length = tail_length(data)
    if not 0 < length <= len(data):
        return None
    footer = data[-length:-FRAME]
    schema = next((schema for schema in schemas if footer.startswith(schema)), None)
    try:
        end = _end_of_schema(footer) if schema is None else len(schema)
        if footer[end] != _COUNTED:
            return None
        rows, _ = read_varint(footer, end + 1)
    except (IndexError, ValueError):
        return None
    if rows & 1:  # an odd zigzag number is negative
        return None
    return Tail(footer[:end], rows >> 1, _GEO_KEY in footer or _may_be_legacy(footer))


def _may_be_legacy(footer: bytes) -> bool:
    """Return whether the footer mentions Spark in a way that may mean its legacy mode or an old version."""
    for mention in footer.split(_SPARK)[1:]:
        version = _VERSIONED.match(mention)
        if mention.startswith((b"legacy", b"version")) if version is None else int(version[1]) < _GREGORIAN_SINCE:
            return True
    return False


def _end_of_schema(footer: bytes) -> int:
    if footer[0] != _VERSION:
        raise ValueError
    _, at = read_varint(footer, 1)
    if footer[at] != _LISTED:
        raise ValueError
    return _skip_list(footer, at + 1, 0)


class Contradiction(ValueError):
    """A contradiction inside a footer. The text is a clause about the footer."""


_NO_VALUE = "it has an invalid value, or nests too deeply"
_CLAIM = "a list in it claims more items than fit"


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Contradiction("a number in it does not end")


def skip_value(data: bytes, at: int, kind: int, depth: int) -> int:
    """Return the position after a value of a Thrift type.

    Args:
        data: The footer.
        at: The position of the value.
        kind: The number of the Thrift type.
        depth: The number of structs and lists around the value.
    """
    if depth > _MOST_DEEP:
        raise Contradiction(_NO_VALUE)
    match kind:
        case 1 | 2:  # the type of a Boolean field is its value
            return at
        case 3:
            return at + 1
        case 4 | 5 | 6:
            return read_varint(data, at)[1]
        case 7:
            return at + 8
        case 8:
            length, at = read_varint(data, at)
            return at + length
        case 9 | 10:
            return _skip_list(data, at, depth + 1)
        case 12:
            while True:
                header = data[at]
                at += 1
                if header == 0:
                    return at
                if header < 0x10:  # the absolute field number follows
                    _, at = read_varint(data, at)
                at = skip_value(data, at, header & 0x0F, depth + 1)
        case _:
            raise Contradiction(_NO_VALUE)


def _skip_list(data: bytes, at: int, depth: int) -> int:
    header = data[at]
    count, kind, at = header >> 4, header & 0x0F, at + 1
    if count == 0x0F:
        count, at = read_varint(data, at)
    if count > len(data) - at:
        raise Contradiction(_CLAIM)
    for _ in range(count):
        at = at + 1 if kind in (1, 2) else skip_value(data, at, kind, depth)  # a Boolean in a list takes a byte
        if at > len(data):
            raise Contradiction(_NO_VALUE)
    return at


Fields: TypeAlias = dict[int, int]
"""The fields of a struct by `_key`: integers, and the start positions of other values."""
_Inner: TypeAlias = Mapping[int, Callable[[int], int]]
"""Readers of values by `_key`: from the start of a value to the position after it."""

_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 4, 5, 6, 8, 9, 12
_REPEATED = 2
_REPETITIONS = (None, 0, 1, _REPEATED)
_MOST = 2**63 - 1
_FIRST_PAGE = 4  # after the magic
_BEGIN = bytes((_VERSION, 2, _LISTED))
"""The bytes before the schema in most footers."""


def _key(number: int, kind: int) -> int:
    return number << 4 | kind


_FOOTER_VERSION, _ELEMENTS, _FILE_ROWS, _GROUPS = _key(1, _I32), _key(2, _LIST), _key(3, _I64), _key(4, _LIST)
_ELEMENT_TYPE, _REPETITION, _NAME, _CHILDREN = _key(1, _I32), _key(3, _I32), _key(4, _BINARY), _key(5, _I32)
_COLUMNS, _GROUP_ROWS = _key(1, _LIST), _key(3, _I64)
_METADATA, _ENCRYPTED = _key(3, _STRUCT), _key(9, _BINARY)
_KEY_VALUES, _CODEC = _key(5, _LIST), _key(4, _I32)
_TYPE, _VALUES, _UNCOMPRESSED, _COMPRESSED = _key(1, _I32), _key(5, _I64), _key(6, _I64), _key(7, _I64)
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE = _key(9, _I64), _key(10, _I64), _key(11, _I64)
_NAMES = {
    _TYPE: "type",
    _VALUES: "num_values",
    _UNCOMPRESSED: "total_uncompressed_size",
    _COMPRESSED: "total_compressed_size",
    _DATA_PAGE: "data_page_offset",
    _INDEX_PAGE: "index_page_offset",
    _DICTIONARY_PAGE: "dictionary_page_offset",
}
_NEEDED = (_TYPE, _VALUES, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE)


@dataclass(frozen=True, slots=True)
class FooterColumn:
    """A column that has chunks.

    Attributes:
        name: Its names from the top level down, joined with dots.
        type: The number of its physical type.
        repeated: True if a row may have many values.
        type_bytes: The type as stored in a column chunk. Empty if it cannot be matched by a regular expression.
        path: The names as stored in a column chunk. Empty if they cannot be matched by a regular expression.
    """

    name: str
    type: int
    repeated: bool
    type_bytes: bytes
    path: bytes


@dataclass(frozen=True, slots=True)
class CheckedFooter:
    """A footer whose counts and positions are consistent.

    Attributes:
        schema: The schema as in `Tail`, in whatever order the footer stores its fields.
        rows: The row count.
        codecs: The numbers of the codecs in the first row group.
        metadata: The metadata values by key, for example `org.apache.spark.version`. Empty if they were not read.
    """

    schema: bytes
    rows: int
    codecs: frozenset[int]
    metadata: Mapping[bytes, bytes]


def check_counts(footer: bytes, size: int | None, schema: bytes = b"") -> CheckedFooter:
    """Refuse a footer whose counts and positions contradict each other or the file.

    A chunk of a column without repetition must have as many values as its row group has rows, including nulls. A chunk
    of a column with repetition must have at least one value for each row, even for empty lists. The row counts of the
    groups must add up to the file's. The bytes of a chunk must be within the file.

    Args:
        footer: The footer without its length and the magic.
        size: The size of the file. None: positions are not checked.
        schema: The bytes at the start of the footer, if they were parsed before (`Tail.schema`). Data after the row
            groups is then not read.

    Raises:
        Contradiction: A check fails, or a required field is missing or occurs twice.
    """
    try:
        return _FooterCheck(footer, size, schema).run()
    except IndexError:
        raise Contradiction("it is cut") from None


def parse_footer(end: bytes, size: int | None, tail: Tail | None) -> CheckedFooter | None:
    """Return the checked footer at the end of a file, or None if there is no footer.

    Args:
        end: The end of the file, with all of its footer.
        size: The size of the file, as for `check_counts`.
        tail: The result of `parse_tail` for the file.

    Raises:
        Contradiction: As for `check_counts`, or the footer is truncated.
    """
    length = tail_length(end)
    if not 0 < length <= len(end):
        return None
    is_short = tail is not None and not tail.has_metadata and not may_claim_long_list(end)
    return check_counts(end[-length:-FRAME], size, tail.schema if tail is not None and is_short else b"")


@lru_cache(maxsize=256)
def leaf_columns(schema: bytes) -> tuple[FooterColumn, ...]:
    """Return the columns of a schema that have chunks, in order.

    Args:
        schema: The list of schema elements.

    Raises:
        Contradiction: The elements are not a tree.
        IndexError: The elements are truncated.
    """
    count, at = read_list_header(schema, 0)
    columns: list[FooterColumn] = []
    around: list[_Group] = []
    for number in range(count):
        element, at = read_struct(schema, at, {})
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
            names = (*around[-1].names, _binary(schema, element.get(_NAME)))
        if children > 0:
            around.append(_Group(children, repeats, names))
        elif _ELEMENT_TYPE in element:
            full_name = b".".join(names).decode(errors="replace")
            # The Thrift encoding of a short list of short names.
            is_short = len(names) <= 14 and all(len(name) <= 0x7F for name in names)
            parts = [bytes((len(name),)) + name for name in names] if is_short else []
            path = b"".join((bytes((len(names) << 4 | _BINARY,)), *parts)) if is_short else b""
            type_ = element[_ELEMENT_TYPE]
            type_bytes = bytes((type_ << 1,)) if 0 <= type_ < 0x40 else b""
            columns.append(FooterColumn(full_name, type_, repeats, type_bytes, path))
    if any(group.rest for group in around):
        raise Contradiction(_NO_TREE)
    return tuple(columns)


@lru_cache(maxsize=256)
def prefix_leaf_columns(schema: bytes) -> tuple[FooterColumn, ...]:
    """Return the columns in the first bytes of a footer, which are its version and schema (`Tail.schema`).

    Errors are as for `leaf_columns`.
    """
    _, at = read_varint(schema, 1)
    return leaf_columns(schema[at + 1 :])


class _Group:
    """An element with children.

    `rest` is the number of children that have not been read yet. `repeats` is true if the element or one of its parents
    is repeated.
    """

    __slots__ = ("names", "repeats", "rest")

    def __init__(self, rest: int, repeats: bool, names: tuple[bytes, ...]) -> None:
        self.rest, self.repeats, self.names = rest, repeats, names


_NO_TREE = "the elements of its schema do not make a tree"


class _FooterCheck:
    """The state of checking a footer.

    `_places_end` is the latest possible end of pages, or None if positions are not checked.
    """

    def __init__(self, footer: bytes, size: int | None, schema: bytes) -> None:
        self._data = footer
        self._places_end = None if size is None else size - len(footer) - FRAME
        self._schema = schema
        self._leaves = prefix_leaf_columns(schema) if schema else None
        self._codecs: set[int] = set()
        self._key_values: dict[bytes, bytes] = {}
        self._later: int | None = None
        self._rows: int | None = None
        self._chunks: list[re.Match[bytes] | Fields | None] = []
        self._metadata: Fields | None = None
        self._of_group: _Inner = {_COLUMNS: self._read_chunks}
        self._of_chunk: _Inner = {_METADATA: self._read_metadata}

    def run(self) -> CheckedFooter:
        """Read the whole footer. Errors are as for `check_counts`."""
        earlier = {_FOOTER_VERSION: 0, _ELEMENTS: 0} if self._schema else {}
        inner = {_ELEMENTS: self._read_schema, _GROUPS: self._read_groups, _KEY_VALUES: self._read_key_values}
        start, last = len(self._schema), _GROUPS if self._schema else None
        fields, _ = read_struct(self._data, start, inner, earlier, last)
        if self._later is not None:
            self._read_groups(self._later)
        if self._leaves is None or self._rows is None:
            raise Contradiction("it has no schema, or no list of row groups")
        rows = fields.get(_FILE_ROWS)
        if rows != self._rows or rows > _MOST:
            raise Contradiction(f"it counts {rows} rows, its row groups {self._rows}")
        return CheckedFooter(self._schema, rows, frozenset(self._codecs), self._key_values)

    def _read_schema(self, at: int) -> int:
        end = skip_value(self._data, at, _LIST, 0)
        elements = self._data[at:end]
        self._leaves, self._schema = leaf_columns(elements), _BEGIN + elements
        return end

    def _read_groups(self, at: int) -> int:
        if self._leaves is None:  # the row groups precede the schema
            self._later = at
            return skip_value(self._data, at, _LIST, 0)
        count, at = read_list_header(self._data, at)
        self._rows = 0
        for number in range(count):
            self._chunks = []
            group, at = read_struct(self._data, at, self._of_group)
            rows = group.get(_GROUP_ROWS)
            if rows is None or not 0 <= rows <= _MOST:
                raise Contradiction(f"row group {number} counts {rows} rows")
            self._rows += rows
            if len(self._chunks) != len(self._leaves):
                raise Contradiction(f"row group {number} has {len(self._chunks)} columns, expected {len(self._leaves)}")
            if number == 0:
                self._codecs.update(_codec(chunk) for chunk in self._chunks if chunk is not None)
            values = _zigzag(rows)
            for leaf, chunk in zip(self._leaves, self._chunks, strict=True):
                if isinstance(chunk, re.Match):
                    if chunk[2] == values and self._places_end is None:
                        continue
                    chunk = _matched_fields(leaf, chunk)
                fault = None if chunk is None else _fault(leaf, chunk, rows, self._places_end)
                if fault is not None:
                    raise Contradiction(f"column {leaf.name!r} of row group {number} {fault}")
        return at

    def _read_chunks(self, at: int) -> int:
        chunks, at = read_list_header(self._data, at)
        leaves = self._leaves or ()
        for number in range(chunks):
            usual = _match_chunk(self._data, at, leaves[number]) if number < len(leaves) else None
            if usual is not None:
                self._chunks.append(usual)
                at = usual.end()
                continue
            self._metadata = None
            chunk, at = read_struct(self._data, at, self._of_chunk)
            if self._metadata is None and _ENCRYPTED not in chunk:
                raise Contradiction("a column chunk has no metadata")
            self._chunks.append(self._metadata)
        return at

    def _read_metadata(self, at: int) -> int:
        self._metadata, at = read_struct(self._data, at, {})
        return at

    def _read_key_values(self, at: int) -> int:
        pairs, at = read_list_header(self._data, at)
        for _ in range(pairs):
            pair, at = read_struct(self._data, at, {})
            key, value = (_binary(self._data, pair.get(place)) for place in (_key(1, _BINARY), _key(2, _BINARY)))
            self._key_values.setdefault(key, value)
        return at


def _binary(data: bytes, at: int | None) -> bytes:
    """Return the bytes at a position, or no bytes for None."""
    length, start = (0, 0) if at is None else read_varint(data, at)
    return data[start : start + length]


def _fault(leaf: FooterColumn, chunk: Fields, rows: int, places_end: int | None) -> str | None:
    """Return a description of the fault in a chunk, or None if it is valid."""
    try:
        values, data_page, size = chunk[_VALUES], chunk[_DATA_PAGE], chunk[_COMPRESSED]
        type_, uncompressed = chunk[_TYPE], chunk[_UNCOMPRESSED]
    except KeyError:
        return f"has no {next(_NAMES[key] for key in _NEEDED if key not in chunk)}"
    dictionary = chunk.get(_DICTIONARY_PAGE, 0)
    if min(values, data_page, size, uncompressed, dictionary, chunk.get(_INDEX_PAGE, 0)) < 0:
        key = next(key for key in _NAMES if key != _TYPE and chunk.get(key, 0) < 0)
        return f"has a {_NAMES[key]} of {chunk[key]}"
    if type_ != leaf.type:
        return f"has physical type {type_}, but its schema has {leaf.type}"
    if (values < rows if leaf.repeated else values != rows) or values > _MOST:
        least = "at least " if leaf.repeated else ""
        return f"has {values} values (num_values), expected {least}{rows}, one per row"
    if places_end is None or values == 0:
        return None
    start = min(data_page, dictionary) if dictionary >= _FIRST_PAGE else data_page
    if start < _FIRST_PAGE or max(data_page, start + size) > places_end:
        return f"is at bytes {start} to {start + size}, expected between {_FIRST_PAGE} and {places_end}"
    return None


def read_struct(
    data: bytes, at: int, inner: _Inner, earlier: Fields | None = None, last: int | None = None
) -> tuple[Fields, int]:
    """Return the fields of the struct at a position, and the position after it.

    Args:
        data: The footer.
        at: The position.
        inner: Readers for other values than integers. Values without a reader are skipped.
        earlier: The fields before `at`, if that is within the struct.
        last: The field after which reading stops. None: read the whole struct.

    Raises:
        Contradiction: A field occurs twice, so that readers may use either one, or the bytes are not a struct.
        IndexError: The struct is truncated.
    """
    fields: Fields = {} if earlier is None else earlier
    number = max(fields, default=0) >> 4
    while True:
        header = data[at]
        at += 1
        if header == 0:
            return fields, at
        kind = header & 0x0F
        if header > 0x0F:
            number += header >> 4
        else:
            raw, at = read_varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        key = number << 4 | kind
        if key in fields:
            raise Contradiction(f"it has field {number} of a struct twice")
        if _I16 <= kind <= _I64:
            raw = data[at]
            at += 1
            if raw > 0x7F:
                raw, at = read_varint(data, at - 1)
            fields[key] = (raw >> 1) ^ -(raw & 1)
        else:
            fields[key] = at
            read = inner.get(key)
            at = skip_value(data, at, kind, 0) if read is None else read(at)
            if key == last:
                return fields, at


def read_list_header(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of structs in a list, and the position of the first one."""
    header = data[at]
    count, at = header >> 4, at + 1
    if count == 0x0F:
        count, at = read_varint(data, at)
    if count and header & 0x0F != _STRUCT:
        raise Contradiction("a list in it should hold structs but does not")
    if count > len(data) - at:
        raise Contradiction(_CLAIM)
    return count, at


# Usual column chunks are matched by regular expressions, in a ninth of the time that `read_struct` takes.


_NUMBER = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"


def _class(numbers: range) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % number for number in numbers) + b"]"


_COUNT = b"(?:%b|%b[\\x80-\\xff]{0,4}+[\\x00-\\x7f])" % (_class(range(0, 0x80, 2)), _class(range(0x80, 0x100, 2)))
"""A number that is not negative and less than 2^41."""
_LONGEST = 64
"""The maximum usual length of bounds in statistics. For longer bounds, which are rare, a parser is faster."""
FEW_CHUNKS = 256
"""The number of chunks that can be read field by field in the time that compiling the expressions takes."""
_chunks = count()
"""A counter of the chunks that this process reads."""


def _match_chunk(data: bytes, at: int, leaf: FooterColumn) -> re.Match[bytes] | None:
    """Match the column chunk of a leaf at a position.

    The result is None if the chunk is unusual, or if it is among the first chunks that this process reads. The groups
    of the match are the numbers of `_MATCHED`, as Thrift stores them. The last group is None if it is missing.
    """
    if next(_chunks) < FEW_CHUNKS or not leaf.path:
        return None
    before = _before_path().match(data, at)
    if before is None or before[1] != leaf.type_bytes or not data.startswith(leaf.path, before.end()):
        return None
    return _after_path().match(data, before.end() + len(leaf.path))


_MATCHED = (_CODEC, _VALUES, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE)


def _matched_fields(leaf: FooterColumn, match: re.Match[bytes]) -> Fields:
    numbers = zip(_MATCHED, match.groups(), strict=True)
    return {_TYPE: leaf.type} | {key: read_varint(number, 0)[0] >> 1 for key, number in numbers if number is not None}


def _codec(chunk: re.Match[bytes] | Fields) -> int:
    return read_varint(chunk[1], 0)[0] >> 1 if isinstance(chunk, re.Match) else chunk.get(_CODEC, 0)


def _zigzag(number: int) -> bytes:
    """Return a non-negative number as Thrift stores it."""
    encoded, rest = bytearray(), number << 1
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _list_pattern(part: bytes, kind: int, most: int) -> bytes:
    """Return a pattern for a list of up to `most` values of a type."""
    return b"(?:%b)" % b"|".join(b"\\x%02x(?:%b){%d}" % (n << 4 | kind, part, n) for n in range(most + 1))


@cache
def _before_path() -> re.Pattern[bytes]:
    """Return a pattern for the part of a column chunk before the names of its column. Group 1 is the physical type."""
    encodings = _list_pattern(_NUMBER, 5, 6)
    return re.compile(rb"(?:\x26%b)?+\x1c\x15(%b)\x19%b\x19" % (_NUMBER, _NUMBER, encodings))


@cache
def _after_path() -> re.Pattern[bytes]:
    """Return a pattern for the part of a column chunk after the names of its column.

    It covers codec, counts and positions, statistics, encodings of pages, Bloom filter, sizes, and page index.
    """
    lengths = sorted(range(_LONGEST + 1), key=lambda n: (n not in (8, 4, 1, 2, 16), n))
    text = b"(?:%b)" % b"|".join(b"\\x%02x[\\x00-\\xff]{%d}" % (n, n) for n in lengths)
    statistics = rb"[\x1c\x2c\x3c](?:[\x18\x28\x38\x48\x58\x68]%b|[\x16\x26\x36\x46]%b|[\x11\x12\x21\x22])*+\x00"
    pages = _list_pattern(rb"\x15%b\x15%b\x15%b\x00" % ((_NUMBER,) * 3), 12, 4)
    sizes = rb"[\x1c\x2c\x3c](?:\x16%b|[\x19\x29\x39]%b)*+\x00" % (_NUMBER, _list_pattern(_NUMBER, 6, 4))
    parts = (
        rb"\x15(%b)\x16(%b)\x16(%b)\x16(%b)\x26(%b)" % (_NUMBER, _COUNT, _COUNT, _COUNT, _COUNT),
        rb"(?:\x26(%b))?+" % _COUNT,
        rb"(?:%b)?+" % (statistics % (text, _NUMBER)),
        rb"(?:\x19%b)?+" % pages,
        rb"(?:[\x16\x26]%b|\x15%b)*+" % (_NUMBER, _NUMBER),
        rb"(?:%b)?+\x00" % sizes,
        rb"(?:[\x15\x16\x25\x26]%b)*+\x00" % _NUMBER,
    )
    return re.compile(b"".join(parts))
