"""Parquet files in the forms of older writers, which pyarrow cannot write.

pyarrow writes the pages, and this module rewrites the footer. This works because a two-level list has the same
repetition and definition levels as a three-level list with required elements, and annotations do not affect pages.

Spec: Apache Parquet, "Lists" and "Maps" in LogicalTypes.md, with their rules for backward compatibility.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import RequestError
from harness.writing.arrow import varint

TWO_LEVEL_LISTS, MAP_KEY_VALUE, BINARY_DECIMALS = "two-level-lists", "map-key-value", "binary-decimals"
FORMS = (TWO_LEVEL_LISTS, MAP_KEY_VALUE, BINARY_DECIMALS)


def check_forms(forms: Sequence[str]) -> None:
    """Raise RequestError if a form is unknown."""
    for form in forms:
        if form not in FORMS:
            raise RequestError(f"Unknown legacy form {form!r}: expected one of {', '.join(FORMS)}")


def legacy_table(table: pa.Table, forms: Sequence[str]) -> pa.Table:
    """Return the table to write before its footer is rewritten: elements are required, and decimals are bytes."""
    fields = [_legacy_field(f, forms) for f in table.schema]
    columns = [
        column
        if f.type == column.type
        else pa.array([_legacy_value(v, column.type, forms) for v in column.to_pylist()], f.type)
        for column, f in zip(table.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields, table.schema.metadata))


def rewrite_footer(path: Path, schema: pa.Schema, forms: Sequence[str]) -> None:
    """Rewrite the footer of a file with the schema elements of the legacy forms.

    Args:
        path: The file, to which the result of `legacy_table` with the same forms was written.
        schema: The schema of the table before `legacy_table`.
        forms: The forms.
    """
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    (kind, footer), _ = _decode(_STRUCT, data, len(data) - 8 - length)
    root, _ = _parse_node([element for _, element in footer[2][1][1]], 0)
    decimals = iter([type_ for f in schema for type_ in _leaves(f.type)])
    _convert(root, forms, decimals)
    footer[2] = _LIST, (_STRUCT, [(_STRUCT, node.element) for node in root.nodes()])
    paths = [[(_BINARY, name) for name in names] for child in root.children for names in child.leaf_paths(())]
    for _, group in footer[4][1][1]:
        for (_, chunk), names in zip(group[1][1][1], paths, strict=True):
            chunk[3][1][3] = _LIST, (_BINARY, names)
    content = _encode(kind, footer)
    path.write_bytes(data[: -8 - length] + content + len(content).to_bytes(4, "little") + data[-4:])


def _legacy_field(arrow_field: pa.Field, forms: Sequence[str]) -> pa.Field:
    type_ = arrow_field.type
    if pa.types.is_list(type_):
        element = _legacy_field(type_.value_field, forms)
        return arrow_field.with_type(pa.list_(element.with_nullable(False) if TWO_LEVEL_LISTS in forms else element))
    if pa.types.is_map(type_):
        return arrow_field.with_type(
            pa.map_(_legacy_field(type_.key_field, forms), _legacy_field(type_.item_field, forms))
        )
    if pa.types.is_struct(type_):
        return arrow_field.with_type(pa.struct([_legacy_field(f, forms) for f in type_]))
    is_bytes = BINARY_DECIMALS in forms and pa.types.is_decimal(type_)
    return arrow_field.with_type(pa.binary()) if is_bytes else arrow_field


def _legacy_value(value: Any, type_: pa.DataType, forms: Sequence[str]) -> object:
    """Convert a Python value to the legacy type. A decimal becomes the fewest big-endian bytes."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [_legacy_value(item, type_.value_type, forms) for item in value]
    if pa.types.is_map(type_):
        return [(_legacy_value(k, type_.key_type, forms), _legacy_value(v, type_.item_type, forms)) for k, v in value]
    if pa.types.is_struct(type_):
        return {f.name: _legacy_value(value[f.name], f.type, forms) for f in type_}
    if pa.types.is_decimal(type_) and BINARY_DECIMALS in forms:
        unscaled = int(value.scaleb(type_.scale, context=Context(prec=100)))
        return unscaled.to_bytes(max(1, (unscaled.bit_length() + 8) // 8), "big", signed=True)
    return value


def _leaves(type_: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(type_):
        yield type_
        return
    for i in range(type_.num_fields):
        yield from _leaves(type_.field(i).type)


_TYPE, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 3, 4, 5, 6, 7, 8, 10
_REQUIRED, _REPEATED = 0, 2
_MAP, _MAP_KEY_VALUE, _LIST_TYPE, _DECIMAL = 1, 2, 3, 5


@dataclass
class _SchemaNode:
    element: dict[int, Any]
    children: list[_SchemaNode] = field(default_factory=list)

    @property
    def name(self) -> bytes:
        return bytes(self.element[_NAME][1])

    def number(self, key: int) -> int | None:
        return self.element[key][1] if key in self.element else None

    def nodes(self) -> Iterator[_SchemaNode]:
        yield self
        for child in self.children:
            yield from child.nodes()

    def leaf_paths(self, above: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
        names = (*above, self.name)
        if not self.children:
            yield names
        for child in self.children:
            yield from child.leaf_paths(names)


def _parse_node(elements: Sequence[dict[int, Any]], at: int) -> tuple[_SchemaNode, int]:
    node, at = _SchemaNode(elements[at]), at + 1
    for _ in range(node.number(_CHILDREN) or 0):
        child, at = _parse_node(elements, at)
        node.children.append(child)
    return node, at


def _convert(node: _SchemaNode, forms: Sequence[str], leaves: Iterator[pa.DataType]) -> None:
    for child in node.children:
        _convert(child, forms, leaves)
    converted = node.number(_CONVERTED)
    if converted == _LIST_TYPE and TWO_LEVEL_LISTS in forms:
        (element,) = node.children[0].children
        if element.number(_REPETITION) != _REQUIRED:
            raise RequestError("Cannot write a two-level list with optional elements")
        element.element[_REPETITION] = _I32, _REPEATED
        element.element[_NAME] = _BINARY, b"array"
        node.children = [element]
    elif converted == _MAP and MAP_KEY_VALUE in forms:
        node.element[_CONVERTED] = _I32, _MAP_KEY_VALUE
        node.element.pop(_LOGICAL, None)
        node.children[0].element[_NAME] = _BINARY, b"map"
    if _TYPE not in node.element:
        return
    type_ = next(leaves)
    if pa.types.is_decimal(type_) and BINARY_DECIMALS in forms:
        node.element |= {_CONVERTED: (_I32, _DECIMAL), _SCALE: (_I32, type_.scale), _PRECISION: (_I32, type_.precision)}


# A value in Thrift's compact protocol is stored with its type. A struct is a mapping; a list is an element type and
# values.


_I32, _BINARY, _LIST, _STRUCT = 5, 8, 9, 12


def _decode(kind: int, data: bytes, at: int) -> tuple[tuple[int, Any], int]:
    value: Any
    match kind:
        case 1 | 2:
            value = None
        case 3:
            value, at = data[at], at + 1
        case 4 | 5 | 6:
            raw, at = _read_varint(data, at)
            value = (raw >> 1) ^ -(raw & 1)
        case 7:
            value, at = data[at : at + 8], at + 8
        case 8:
            length, at = _read_varint(data, at)
            value, at = data[at : at + length], at + length
        case 9:
            item_kind, count, at = data[at] & 15, data[at] >> 4, at + 1
            if count == 15:
                count, at = _read_varint(data, at)
            items = []
            for _ in range(count):
                item, at = _decode(3 if item_kind in (1, 2) else item_kind, data, at)
                items.append((item_kind, item[1]))
            value = item_kind, items
        case 12:
            value, number = {}, 0
            while head := data[at]:
                number, at = number + (head >> 4), at + 1
                value[number], at = _decode(head & 15, data, at)
            at += 1
        case _:
            raise AssertionError(f"unexpected Thrift type {kind} in a footer that pyarrow wrote")
    return (kind, value), at


def _encode(kind: int, value: Any) -> bytes:
    match kind:
        case 1 | 2:
            return b""
        case 3:
            return bytes([value])
        case 4 | 5 | 6:
            return varint(value << 1 if value >= 0 else (-value << 1) - 1)
        case 7:
            return bytes(value)
        case 8:
            return varint(len(value)) + bytes(value)
        case 9:
            item_kind, items = value
            head = (
                bytes([len(items) << 4 | item_kind])
                if len(items) < 15
                else bytes([0xF0 | item_kind]) + varint(len(items))
            )
            return head + b"".join(_encode(3 if item_kind in (1, 2) else item_kind, item) for _, item in items)
        case _:
            content, last = b"", 0
            for number in sorted(value):
                content += bytes([(number - last) << 4 | value[number][0]]) + _encode(*value[number])
                last = number
            return content + b"\0"


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at
