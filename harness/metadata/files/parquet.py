"""The physical schema of a Parquet file, built from the flat list of schema elements in its footer.

Callers read the list from footers, for example with an engine that reads many files in one call. Most files of a table
have equal lists. Elements are therefore hashable, and `physical_schema` converts equal lists once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from harness.errors import CorruptFileError
from harness.metadata.files.parquet_footer import Contradiction, read_list_header, read_struct, read_varint
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import STORED_LIST, STORED_MAP, STORED_STRUCT, PhysicalField, PhysicalSchema
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class ParquetElement:
    """An element of a footer's depth-first schema list, with texts as printed by DuckDB's `parquet_schema`.

    Attributes:
        name: The name.
        type: The physical type, for example `INT32`. None: a group.
        type_length: The bytes of a `FIXED_LEN_BYTE_ARRAY`. DuckDB returns text.
        repetition_type: `REQUIRED`, `OPTIONAL`, or `REPEATED`. None for some roots.
        num_children: The number of children. None or 0: a leaf.
        converted_type: The converted type.
        scale: The scale of a decimal.
        precision: The precision of a decimal.
        field_id: The field id.
        logical_type: The logical type, for example `DecimalType(scale=2, precision=9)`. None: the file has a converted
            type only, or neither.
    """

    name: str
    type: str | None = None
    type_length: int | str | None = None
    repetition_type: str | None = None
    num_children: int | None = None
    converted_type: str | None = None
    scale: int | None = None
    precision: int | None = None
    field_id: int | None = None
    logical_type: str | None = None


ELEMENT_COLUMNS = tuple(field.name for field in fields(ParquetElement))
"""The columns of DuckDB's `parquet_schema` that make up a `ParquetElement`, in order."""


def physical_schemas(rows: Iterable[Sequence[Any]]) -> dict[str, PhysicalSchema]:
    """Return the physical schema of each file.

    Equal schemas are the same object.

    Args:
        rows: Rows of (file_name, *ELEMENT_COLUMNS) of many files, with the rows of each file in footer order.

    Raises:
        CorruptFileError: The list of a file is not a valid tree. The error names the file.
    """
    by_file: dict[str, list[tuple[Any, ...]]] = {}
    for file, *element in rows:
        by_file.setdefault(file, []).append(tuple(element))
    folded: dict[tuple[tuple[Any, ...], ...], PhysicalSchema] = {}
    schemas: dict[str, PhysicalSchema] = {}
    for file, raw in by_file.items():
        key = tuple(raw)
        if key not in folded:
            try:
                folded[key] = physical_schema(tuple(ParquetElement(*row) for row in key))
            except CorruptFileError as error:
                raise error.within(file=file) from None
        schemas[file] = folded[key]
    return schemas


@lru_cache(maxsize=1024)
def physical_schema(elements: tuple[ParquetElement, ...]) -> PhysicalSchema:
    """Return the columns of a file as users see them.

    Lists and maps lose their repeated groups, also in their legacy forms (iceberg 6.14). A variant stays the stored
    struct of binaries (6.15). A leaf of unknown meaning, and a malformed list or map, becomes an
    `OpaqueType`, so that only reading it is refused.

    Args:
        elements: The elements in the footer, root first.

    Raises:
        CorruptFileError: The elements are not a valid tree.
    """
    if not elements:
        raise _schema_error("it is empty")
    tree, tree_size = _tree(elements, 0)
    if tree_size != len(elements):
        raise _schema_error(f"{len(elements) - tree_size} elements follow the root's last child")
    return tuple(_fold(child) for child in tree.children)


@dataclass(frozen=True, slots=True)
class _ParquetNode:
    element: ParquetElement
    children: tuple[_ParquetNode, ...]

    @property
    def is_group(self) -> bool:
        return self.element.type is None

    @property
    def is_repeated(self) -> bool:
        return self.element.repetition_type == "REPEATED"


_MAX_DEPTH = 100


def _tree(elements: Sequence[ParquetElement], start: int, depth: int = 0) -> tuple[_ParquetNode, int]:
    """Return the node at `start`, and the index after its last descendant."""
    if start >= len(elements):
        raise _schema_error("a group lacks children")
    if depth > _MAX_DEPTH:
        raise _schema_error(f"it nests deeper than {_MAX_DEPTH} levels")
    element, position = elements[start], start + 1
    children = []
    for _ in range(element.num_children or 0):
        child, position = _tree(elements, position, depth + 1)
        children.append(child)
    return _ParquetNode(element, tuple(children)), position


def _schema_error(reason: str) -> CorruptFileError:
    return CorruptFileError(f"Invalid Parquet schema in the footer: {reason}; restore it", cause="CorruptDataFile")


def _fold(node: _ParquetNode) -> PhysicalField:
    element = node.element
    if node.is_repeated:
        # A repeated field outside of a list group is itself a list of required elements.
        single = _fold_single(node, field_id=None)
        return PhysicalField(name=element.name, id=element.field_id, type=STORED_LIST, children=(single,))
    return _fold_single(node, field_id=element.field_id)


def _fold_single(node: _ParquetNode, *, field_id: int | None) -> PhysicalField:
    """Return `node` as a single value, ignoring its repetition."""
    element = node.element
    logical = _logical_name(element.logical_type)
    children: PhysicalSchema = ()
    if not node.is_group:
        type_ = leaf_type(element)
    elif logical == "ListType" or element.converted_type == "LIST":
        type_, children = _list_parts(node)
    elif logical == "MapType" or element.converted_type in ("MAP", "MAP_KEY_VALUE"):
        type_, children = _map_parts(node)
    else:
        type_, children = STORED_STRUCT, tuple(_fold(child) for child in node.children)
    is_binary = isinstance(type_, dt.DecimalType) and element.type == "BYTE_ARRAY"
    return PhysicalField(name=element.name, id=field_id, type=type_, children=children, is_binary=is_binary)


def _list_parts(node: _ParquetNode) -> tuple[dt.Type, tuple[PhysicalField, ...]]:
    if len(node.children) != 1 or not node.children[0].is_repeated:
        return dt.OpaqueType("malformed list group"), ()
    (repeated,) = node.children
    inner = repeated.children
    # With two levels, the repeated node is the element. With three levels, it is a group around the element.
    is_element = not repeated.is_group or len(inner) != 1 or inner[0].is_repeated
    if is_element or repeated.element.name in ("array", f"{node.element.name}_tuple"):
        return STORED_LIST, (_fold_single(repeated, field_id=repeated.element.field_id),)
    return STORED_LIST, (_fold(inner[0]),)


def _map_parts(node: _ParquetNode) -> tuple[dt.Type, tuple[PhysicalField, ...]]:
    repeated = node.children[0] if len(node.children) == 1 else None
    if repeated is None or not repeated.is_repeated or len(repeated.children) != 2:
        return dt.OpaqueType("malformed map group"), ()
    return STORED_MAP, tuple(_fold(child) for child in repeated.children)


def leaf_type(element: ParquetElement) -> dt.Type:
    """Return the type of a leaf: from the logical type, else the converted type, else the physical type.

    If the logical and the converted type mean different values, the type is opaque, because readers differ in which of
    them they use. For example, DuckDB uses the decimal scale of the converted type, and pyarrow that of the logical
    type.
    """
    logical = None if element.logical_type is None else _from_logical(element.logical_type)
    name = element.converted_type
    converted = None if name is None else _CONVERTED.get(name, dt.OpaqueType(name))
    if name == "DECIMAL":
        converted = _decimal(element.precision, element.scale or 0, name)
    if logical is None or converted is None:
        return logical or converted or _from_physical(element)
    if _stored_as(logical) == _stored_as(converted) or isinstance(logical, dt.OpaqueType):
        return logical
    return dt.OpaqueType(f"{logical} by its logical type, {converted} by its converted type")


def _stored_as(annotated: dt.Type) -> dt.Type:
    # A converted type cannot express a timestamp that is not an instant.
    return replace(annotated, utc=True) if isinstance(annotated, dt.TimestampType) else annotated


def _logical_name(logical: str | None) -> str | None:
    return None if logical is None else logical.split("(", 1)[0]


def _from_logical(logical: str) -> dt.Type | None:
    match _logical_name(logical):
        case "StringType" | "EnumType" | "JsonType":
            return dt.StringType()
        case "UUIDType":
            return dt.UuidType()
        case "BsonType":
            return dt.BinaryType()
        case "DateType":
            return dt.DateType()
        case "DecimalType":
            return _decimal(_number(logical, "precision"), _number(logical, "scale"), logical)
        case "TimeType" if (unit := _unit(logical)) is not None:
            return dt.TimeType(unit)
        case "TimestampType" if (unit := _unit(logical)) is not None:
            return dt.TimestampType(unit, "isAdjustedToUTC=1" in logical)
        case "IntType":
            # DuckDB prints the width as a character with that code: 8 is a backspace, 32 a blank, 64 an at sign.
            match_ = re.search(r"bitWidth=(8|16|32|64|.), isSigned=([01])", logical, re.DOTALL)
            if match_ is None:
                return None
            width = int(match_[1]) if match_[1].isdecimal() else ord(match_[1])
            return _INTEGERS.get((width, match_[2] == "1")) or dt.OpaqueType(f"integer of {width} bits")
        case "NullType":
            return dt.UnknownType()
        case "Float16Type":
            return dt.FloatType(16)
        case "GeometryType":
            return dt.GeometryType()
        case "GeographyType":
            return dt.GeographyType()
        case _:
            return dt.OpaqueType(logical)


def _number(logical: str, key: str) -> int | None:
    match = re.search(rf"\b{key}=(-?\d+)", logical)
    return None if match is None else int(match[1])


_UNITS: dict[str, Literal["ms", "us", "ns"]] = {"MILLIS": "ms", "MICROS": "us", "NANOS": "ns"}


def _unit(logical: str) -> Literal["ms", "us", "ns"] | None:
    """Return the unit of a printed time or timestamp type, or None if no unit is set."""
    for name, unit in _UNITS.items():
        if re.search(rf"\b{name}=(?!<null>)", logical):
            return unit
    return None


_WIDTHS: tuple[Literal[8, 16, 32, 64], ...] = (8, 16, 32, 64)
_INTEGERS: dict[tuple[int, bool], dt.Type] = {
    **{(bits, True): dt.IntegerType(bits) for bits in _WIDTHS},
    **{(bits, False): dt.UnsignedType(bits) for bits in _WIDTHS},
}

_CONVERTED: dict[str, dt.Type] = {
    "UTF8": dt.StringType(),
    "ENUM": dt.StringType(),
    "JSON": dt.StringType(),
    "BSON": dt.BinaryType(),
    "DATE": dt.DateType(),
    "TIME_MILLIS": dt.TimeType("ms"),
    "TIME_MICROS": dt.TimeType("us"),
    # A converted type without a logical type always means an instant.
    "TIMESTAMP_MILLIS": dt.TimestampType("ms", True),
    "TIMESTAMP_MICROS": dt.TimestampType("us", True),
    **{f"INT_{bits}": dt.IntegerType(bits) for bits in _WIDTHS},
    **{f"UINT_{bits}": dt.UnsignedType(bits) for bits in _WIDTHS},
    "INTERVAL": dt.OpaqueType("interval"),
}


def _decimal(precision: int | None, scale: int | None, text: str) -> dt.Type:
    if precision is None or scale is None or not 0 < precision <= 38 or not 0 <= scale <= precision:
        return dt.OpaqueType(text if precision is None else f"decimal({precision}, {scale})")
    return dt.DecimalType(precision, scale)


_PHYSICAL: dict[str, dt.Type] = {
    "BOOLEAN": dt.BooleanType(),
    "INT32": dt.IntegerType(32),
    "INT64": dt.IntegerType(64),
    "INT96": dt.Int96Type(),
    "FLOAT": dt.FloatType(32),
    "DOUBLE": dt.FloatType(64),
    "BYTE_ARRAY": dt.BinaryType(),
}


def _from_physical(element: ParquetElement) -> dt.Type:
    physical = element.type or ""
    if physical == "FIXED_LEN_BYTE_ARRAY" and element.type_length is not None:
        return dt.FixedType(int(element.type_length))
    return _PHYSICAL.get(physical) or dt.OpaqueType(physical)


def open_parquet(source: Any, **options: Any) -> pq.ParquetFile:
    """Open the file in `source` with pyarrow, with INT96 in microseconds (iceberg 6.9).

    By default, pyarrow reads INT96 in nanoseconds and silently returns a wrong time outside of the years 1677 to 2262.

    Args:
        source: Anything that pyarrow can open.
        **options: Options of `pyarrow.parquet.ParquetFile`.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", **options)


def row_count(footer: pq.FileMetaData, *, file: str, cause: str = "CorruptDataFile") -> int:
    """Return the number of rows of a file, after checking that its footer and its row groups agree.

    Raises:
        CorruptFileError: The counts differ, or one is negative. The error has the given cause.
    """
    groups = [int(footer.row_group(i).num_rows) for i in range(footer.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != footer.num_rows:
        message = (
            f"Cannot read file: its footer counts {footer.num_rows} rows, its row groups {sum(groups)}; restore it"
        )
        raise CorruptFileError(message, cause=cause, file=file)
    return int(footer.num_rows)


def check_rows(read: pa.Table, rows: int, *, file: str) -> pa.Table:
    """Return the table that pyarrow read, after checking that it is complete.

    pyarrow 26 silently returns no rows if the footer counts no values in any column. It also reads past the end of a
    dictionary if an index is out of range.

    Args:
        read: The table.
        rows: The result of `row_count`.
        file: The path of the file, for errors.

    Raises:
        CorruptFileError: The table has another number of rows, or an invalid dictionary index.
    """
    if read.num_rows != rows:
        message = f"Cannot read file: its columns hold {read.num_rows} rows, its footer counts {rows}; restore it"
        raise CorruptFileError(message, cause="CorruptDataFile", file=file)
    for field, column in zip(read.schema, read.columns, strict=True):
        if not _has_dictionary(field.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            message = f"Cannot read file: values of a dictionary are damaged: {error}; restore it"
            raise CorruptFileError(message, cause="CorruptDataFile", file=file, field=field.name) from error
    return read


def _has_dictionary(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_dictionary(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_dictionary(type_))


_I32, _BINARY, _STRUCT, _TRUE, _I8 = 5, 8, 12, 1, 3
_PHYSICAL_NAMES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_REPETITIONS = ("REQUIRED", "OPTIONAL", "REPEATED")
_CONVERTED_NAMES = (
    *("UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS"),
    *("TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64"),
    *("INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"),
)
_LOGICAL = {
    **{1: "StringType", 2: "MapType", 3: "ListType", 4: "EnumType", 5: "DecimalType", 6: "DateType", 7: "TimeType"},
    **{8: "TimestampType", 10: "IntType", 11: "NullType", 12: "JsonType", 13: "BsonType", 14: "UUIDType"},
    **{15: "Float16Type", 16: "VariantType", 17: "GeometryType", 18: "GeographyType"},
}
_UNIT_NAMES = {1: "MILLIS", 2: "MICROS", 3: "NANOS"}


def parse_elements(schema: bytes) -> tuple[ParquetElement, ...]:
    """Return the elements of a schema, root first, with texts as printed by DuckDB's `parquet_schema`.

    Args:
        schema: The first bytes of a footer: its version and its schema (`parquet_footer.Tail.schema`).

    Raises:
        Contradiction: The bytes are not a list of elements.
        UnicodeDecodeError: A name is not UTF-8.
        IndexError: The bytes are truncated.
    """
    _, at = read_varint(schema, 1)
    count, at = read_list_header(schema, at + 1)
    elements = []
    for _ in range(count):
        element, at = _element(schema, at)
        elements.append(element)
    return tuple(elements)


def _element(data: bytes, at: int) -> tuple[ParquetElement, int]:
    values, end = read_struct(data, at, {})
    number = {key >> 4: value for key, value in values.items() if key & 0x0F == _I32}
    name = b""
    if (place := values.get(4 << 4 | _BINARY)) is not None:
        length, start = read_varint(data, place)
        name = data[start : start + length]
    logical = values.get(10 << 4 | _STRUCT)
    element = ParquetElement(
        name=name.decode(),
        type=_enum_name(_PHYSICAL_NAMES, number.get(1)),
        type_length=number.get(2),
        repetition_type=_enum_name(_REPETITIONS, number.get(3)),
        num_children=number.get(5),
        converted_type=_enum_name(_CONVERTED_NAMES, number.get(6)),
        scale=number.get(7),
        precision=number.get(8),
        field_id=number.get(9),
        logical_type=None if logical is None else _logical_type(data, logical),
    )
    return element, end


def _enum_name(names: tuple[str, ...], number: int | None) -> str | None:
    if number is None:
        return None
    if not 0 <= number < len(names):
        raise Contradiction(f"its schema has {number}, expected 0 to {len(names) - 1}")
    return names[number]


def _logical_type(data: bytes, at: int) -> str | None:
    """Return a logical type as text, for example `DecimalType(scale=2, precision=9)`, or None for an empty union."""
    union, _ = read_struct(data, at, {})
    for key, place in union.items():
        number, name = key >> 4, _LOGICAL.get(key >> 4, f"logical type {key >> 4}")
        fields, _ = read_struct(data, place, {})
        match number:
            case 5:
                scale, precision = (fields.get(part << 4 | _I32) for part in (1, 2))
                return f"{name}(scale={scale}, precision={precision})"
            case 7 | 8:
                unit, _ = read_struct(data, fields[2 << 4 | _STRUCT], {}) if 2 << 4 | _STRUCT in fields else ({}, 0)
                units = {part >> 4 for part in unit}
                unit_text = ", ".join(f"{_UNIT_NAMES[n]}={'set' if n in units else '<null>'}" for n in _UNIT_NAMES)
                return f"{name}(isAdjustedToUTC={int(1 << 4 | _TRUE in fields)}, unit=TimeUnit({unit_text}))"
            case 10:
                width = data[fields[1 << 4 | _I8]] if 1 << 4 | _I8 in fields else 0
                return f"{name}(bitWidth={width}, isSigned={int(2 << 4 | _TRUE in fields)})"
            case _:
                return f"{name}()"
    return None
