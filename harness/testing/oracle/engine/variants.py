"""Variants as JSON text, row by row: shredded parts are put together here (iceberg 6.15).

How a single variant value is spelled, and the binary encoding, are shared with the other engines:
`harness.metadata.files`.
"""

from __future__ import annotations

from typing import Any

from harness.metadata.files import variant as variant_text
from harness.metadata.files.variant import malformed, object_fields, unsupported, value_text
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
    UnknownType,
    UuidType,
)
from harness.testing.oracle.engine.stored import Column


def is_variant(column: Column) -> bool:
    """Whether a struct has the parts of a variant."""
    names = {part.name for part in column.parts}
    known = names <= {"metadata", "value", "typed_value"}
    return column.type == "struct" and known and "metadata" in names and len(names) > 1


def variant_json(column: Column, group: Any) -> str:
    """A stored variant that is not SQL's null.

    Raises:
        CorruptFileError, UnsupportedError: it cannot be decoded.
    """
    parts = _parts(column, group)
    metadata = parts["metadata"][1]
    if metadata is None:
        raise malformed("it has no metadata")
    text = _text(parts, metadata)
    return "null" if text is None else text


_Parts = dict[str, tuple[Column, Any]]


def _parts(column: Column, group: Any) -> _Parts:
    if column.type != "struct":
        raise malformed(f"a shredded part is {column.type}, expected a group of value and typed_value")
    return {part.name: (part, None if group is None else group[i]) for i, part in enumerate(column.parts)}


def _text(parts: _Parts, metadata: bytes) -> str | None:
    """The JSON of a pair of `value` and `typed_value`; None where both are null: there is nothing."""
    _, value = parts.get("value", (None, None))
    column, typed = parts.get("typed_value", (None, None))
    if column is None or typed is None:
        return None if value is None else value_text(metadata, value)
    if column.type == "struct":
        return _object(column, typed, metadata, value)
    if value is not None:
        raise malformed("it has both a value and a typed_value, and is no object")
    return _list(column, typed, metadata) if column.type == "list" else _single(column, typed)


def _object(column: Column, typed: Any, metadata: bytes, value: bytes | None) -> str:
    """Shredded fields, and those of `value` that are not shredded."""
    fields = {} if value is None else object_fields(metadata, value)
    for part, group in zip(column.parts, typed, strict=True):
        fields.pop(part.name, None)
        text = _text(_parts(part, group), metadata)
        if text is not None:
            fields[part.name] = text
    return variant_text.record(fields)


def _list(column: Column, typed: Any, metadata: bytes) -> str:
    """A list has no holes: an element without a value is a variant null."""
    texts = [_text(_parts(column.parts[0], group), metadata) for group in typed]
    return variant_text.array(["null" if text is None else text for text in texts])


def _single(column: Column, value: Any) -> str:
    match column.type:
        case BooleanType():
            return variant_text.boolean(value)
        case IntegerType():
            return str(value)
        case FloatType(bits=64):
            return variant_text.double(value)
        case FloatType(bits=32):
            return variant_text.single(value)
        case DecimalType():
            return f"{value:f}"
        case DateType():
            return variant_text.date(value)
        case TimeType(unit="us"):
            return variant_text.time(value)
        case TimestampType(unit="us" | "ns" as unit, utc=utc):
            return variant_text.timestamp(value, digits=6 if unit == "us" else 9, utc=utc)
        case StringType():
            return variant_text.text(value.decode())
        case UuidType() | FixedType(length=16):
            return variant_text.uuid_text(value)
        case BinaryType():
            return variant_text.binary(value)
        case UnknownType():
            return "null"
        case other:
            raise unsupported(f"it is shredded as {other}")
