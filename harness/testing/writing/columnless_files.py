"""Parquet and ORC files that have rows and no column: what is written where no column is stored.

pyarrow writes such a Parquet file with a footer that counts no rows, and crashes on such an ORC file. So their few
bytes are put together here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa


def rows_without_columns(count: int) -> pa.Table:
    """A table of `count` rows and no column."""
    return pa.table({"_": pa.nulls(count)}).drop_columns(["_"])


def group_sizes(rows: int, group: int | None) -> list[int]:
    """The rows of each row group; `group`: the most that one has, None: all."""
    size = rows if group is None else group
    return [min(size, rows - start) for start in range(0, rows, size)] if rows else []


def write_columnless_parquet(path: Path, groups: Sequence[int], footer: Mapping[str, str]) -> None:
    """A Parquet file whose schema is a root without children. groups: the rows of each; footer: its key-value pairs."""
    schema = _struct({4: _text("schema"), 5: _int(0)})
    row_groups = [_struct({1: _list([]), 2: _long(0), 3: _long(rows)}) for rows in groups]
    fields = {1: _int(2), 2: _list([schema]), 3: _long(sum(groups)), 4: _list(row_groups)}
    if footer:
        fields[5] = _list([_struct({1: _text(key), 2: _text(value)}) for key, value in footer.items()])
    content = _struct(fields)[1]
    path.write_bytes(b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1")


def write_columnless_orc(path: Path, rows: int) -> None:
    """An ORC file whose only type is the root struct, uncompressed, with all rows in one stripe."""
    stripe_footer = _message({2: [_message({1: [0]})]})  # the root is encoded directly, and has no stream
    stripe = _message({1: [3], 2: [0], 3: [0], 4: [len(stripe_footer)], 5: [rows]})
    root = _message({1: [12]})
    statistics = _message({1: [rows]})
    footer = _message({1: [3], 2: [len(stripe_footer)], 3: [stripe], 4: [root], 6: [rows], 7: [statistics], 8: [0]})
    version = bytes([0, 12])
    tail = _message({1: [len(footer)], 2: [0], 4: [version], 5: [0], 8000: [b"ORC"]})
    path.write_bytes(b"ORC" + stripe_footer + footer + tail + bytes([len(tail)]))


# Thrift's compact protocol: a value with the number of its type.
_Value = tuple[int, bytes]
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


def _struct(fields: Mapping[int, _Value]) -> _Value:
    content, last = b"", 0
    for number, (kind, value) in fields.items():
        content += bytes([(number - last) << 4 | kind]) + value
        last = number
    return _STRUCT, content + b"\0"


def _list(structs: Sequence[_Value]) -> _Value:
    short = len(structs) < 15
    head = bytes([len(structs) << 4 | _STRUCT]) if short else bytes([0xF0 | _STRUCT]) + _varint(len(structs))
    return _LIST, head + b"".join(content for _, content in structs)


def _int(number: int) -> _Value:
    return _I32, _varint(2 * number)


def _long(number: int) -> _Value:
    return _I64, _varint(2 * number)


def _text(text: str) -> _Value:
    return _BINARY, _varint(len(text.encode())) + text.encode()


def _message(fields: Mapping[int, Sequence[int] | Sequence[bytes]]) -> bytes:
    """A message of Protocol Buffers: numbers and byte strings by field number."""
    content = b""
    for number, values in fields.items():
        for value in values:
            if isinstance(value, int):
                content += _varint(number << 3) + _varint(value)
            else:
                content += _varint(number << 3 | 2) + _varint(len(value)) + value
    return content


def _varint(number: int) -> bytes:
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])
