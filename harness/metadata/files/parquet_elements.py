"""The schema elements of a Parquet footer, parsed from its bytes.

DuckDB lists them of many files in one call (`harness.engines.footers`). This parser serves files that DuckDB refuses
over an annotation that the Parquet format allows.

Spec: Apache Parquet, `SchemaElement` and `LogicalType` in Thrift's compact protocol.
"""

from __future__ import annotations

from harness.metadata.files.parquet import ParquetElement
from harness.metadata.files.parquet_footer import Contradiction, list_head, struct, varint

_I32, _BINARY, _STRUCT, _TRUE, _I8 = 5, 8, 12, 1, 3
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_REPETITIONS = ("REQUIRED", "OPTIONAL", "REPEATED")
_CONVERTED = (
    *("UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS"),
    *("TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64"),
    *("INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"),
)
_LOGICAL = {
    **{1: "StringType", 2: "MapType", 3: "ListType", 4: "EnumType", 5: "DecimalType", 6: "DateType", 7: "TimeType"},
    **{8: "TimestampType", 10: "IntType", 11: "NullType", 12: "JsonType", 13: "BsonType", 14: "UUIDType"},
    **{15: "Float16Type", 16: "VariantType", 17: "GeometryType", 18: "GeographyType"},
}
_UNITS = {1: "MILLIS", 2: "MICROS", 3: "NANOS"}


def parse_elements(schema: bytes) -> tuple[ParquetElement, ...]:
    """Return the elements of a schema, root first, with texts as DuckDB's `parquet_schema` prints them.

    Args:
        schema: the first bytes of a footer, its version and its schema (`parquet_footer.Tail.schema`).

    Raises:
        Contradiction: the bytes are no list of elements.
        UnicodeDecodeError: a name is no UTF-8.
        IndexError: the bytes are cut.
    """
    _, at = varint(schema, 1)
    count, at = list_head(schema, at + 1)
    elements = []
    for _ in range(count):
        element, at = _element(schema, at)
        elements.append(element)
    return tuple(elements)


def _element(data: bytes, at: int) -> tuple[ParquetElement, int]:
    found, end = struct(data, at, {})
    number = {key >> 4: value for key, value in found.items() if key & 0x0F == _I32}
    name = b""
    if (place := found.get(4 << 4 | _BINARY)) is not None:
        length, start = varint(data, place)
        name = data[start : start + length]
    logical = found.get(10 << 4 | _STRUCT)
    element = ParquetElement(
        name=name.decode(),
        type=_named(_TYPES, number.get(1)),
        type_length=number.get(2),
        repetition_type=_named(_REPETITIONS, number.get(3)),
        num_children=number.get(5),
        converted_type=_named(_CONVERTED, number.get(6)),
        scale=number.get(7),
        precision=number.get(8),
        field_id=number.get(9),
        logical_type=None if logical is None else _logical_type(data, logical),
    )
    return element, end


def _named(names: tuple[str, ...], number: int | None) -> str | None:
    if number is None:
        return None
    if not 0 <= number < len(names):
        raise Contradiction(f"its schema has {number}, expected 0 to {len(names) - 1}")
    return names[number]


def _logical_type(data: bytes, at: int) -> str | None:
    """Return the text of a logical type, such as `DecimalType(scale=2, precision=9)`; None for an empty union."""
    union, _ = struct(data, at, {})
    for key, place in union.items():
        number, name = key >> 4, _LOGICAL.get(key >> 4, f"logical type {key >> 4}")
        fields, _ = struct(data, place, {})
        match number:
            case 5:
                scale, precision = (fields.get(part << 4 | _I32) for part in (1, 2))
                return f"{name}(scale={scale}, precision={precision})"
            case 7 | 8:
                unit, _ = struct(data, fields[2 << 4 | _STRUCT], {}) if 2 << 4 | _STRUCT in fields else ({}, 0)
                units = {part >> 4 for part in unit}
                shown = ", ".join(f"{_UNITS[n]}={'set' if n in units else '<null>'}" for n in _UNITS)
                return f"{name}(isAdjustedToUTC={int(1 << 4 | _TRUE in fields)}, unit=TimeUnit({shown}))"
            case 10:
                width = data[fields[1 << 4 | _I8]] if 1 << 4 | _I8 in fields else 0
                return f"{name}(bitWidth={width}, isSigned={int(2 << 4 | _TRUE in fields)})"
            case _:
                return f"{name}()"
    return None
