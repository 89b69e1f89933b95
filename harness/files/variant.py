"""Variant columns, plain and shredded, as JSON text with sorted keys: the one form in which all engines' rows compare.

    null, true, false    as they are; a missing object field is left out
    integers             digits
    float, double        the shortest number that reads back as the same value of that width: 1.0, 1e+300, -0.0
    NaN, infinities      the strings "NaN", "Infinity", "-Infinity"
    decimal              a number with exactly as many digits after the point as its scale: 1.50
    date                 "2017-11-16"; years outside 0 to 9999 carry a sign
    time                 "22:31:08.123456"
    timestamp            "2017-11-16T22:31:08.123456", nanos with nine digits, an instant with +00:00
    binary               base64, padded
    uuid                 lower case with hyphens
    string               only what JSON demands is escaped

No blanks between tokens. Spec: Parquet, "Variant Binary Encoding" and "Variant Shredding"; iceberg 6.15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.files import variant_text
from harness.files.variant_value import malformed, object_fields, unsupported, value_text

__all__ = ["value_text", "variant_to_json"]


def variant_to_json(array: pa.StructArray) -> pa.StringArray:
    """The variants of a stored group `metadata`, `value` and `typed_value` as JSON text, row by row.

    Null where the whole group is null (SQL null). The text `null` where the variant is null, and where neither `value`
    nor `typed_value` is there. Where an object is both shredded and not, shredded fields win.

    Raises:
        CorruptFileError: a malformed variant, or one that is shredded and stored whole (iceberg 6.15).
        UnsupportedError: a type that is not known.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    parts = _parts(array)
    present = array.is_valid().to_pylist()
    metadata = _bytes(parts, "metadata", len(array))
    if any(there and m is None for there, m in zip(present, metadata, strict=True)):
        raise malformed("it has no metadata")
    texts = _group(parts, metadata)
    rows = [None if not there else "null" if t is None else t for there, t in zip(present, texts, strict=True)]
    return pa.array(rows, pa.string())


def _parts(group: pa.StructArray) -> dict[str, pa.Array]:
    """The group's children by name, null where the group is."""
    return dict(zip((f.name for f in group.type), group.flatten(), strict=True))


def _bytes(parts: dict[str, pa.Array], name: str, rows: int) -> list[bytes | None]:
    """The values of one part, row by row; null where the group has no such part."""
    if name not in parts:
        return [None] * rows
    type_ = parts[name].type
    if not any(is_kind(type_) for is_kind in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)):
        raise malformed(f"its {name} is {type_}, expected binary")
    values: list[bytes | None] = parts[name].to_pylist()
    return values


def _group(parts: dict[str, pa.Array], metadata: Sequence[bytes | None]) -> list[str | None]:
    """JSON text per row of a `value` and `typed_value` pair; None where both are null: missing."""
    values = _bytes(parts, "value", len(metadata))
    typed = parts.get("typed_value")
    if typed is None or pa.types.is_null(typed.type):
        return [None if v is None else _whole(m, v) for m, v in zip(metadata, values, strict=True)]
    if pa.types.is_struct(typed.type):
        return _objects(typed, metadata, values)
    shredded = _arrays(typed, metadata) if _is_list(typed.type) else _singles(typed)
    return [_one_of(m, v, s) for m, v, s in zip(metadata, values, shredded, strict=True)]


def _whole(metadata: bytes | None, value: bytes) -> str:
    if metadata is None:
        raise malformed("it has no metadata")
    return value_text(metadata, value)


def _one_of(metadata: bytes | None, value: bytes | None, shredded: str | None) -> str | None:
    if value is None:
        return shredded
    if shredded is not None:
        raise malformed("it has both a value and a typed_value, and is no object")
    return _whole(metadata, value)


def _objects(
    typed: pa.StructArray, metadata: Sequence[bytes | None], values: Sequence[bytes | None]
) -> list[str | None]:
    names = [f.name for f in typed.type]
    columns = [_group(_field_parts(field), metadata) for field in typed.flatten()]
    texts: list[str | None] = []
    for row, (there, m, value) in enumerate(zip(typed.is_valid().to_pylist(), metadata, values, strict=True)):
        if not there:
            texts.append(None if value is None else _whole(m, value))
            continue
        fields = {} if value is None or m is None else object_fields(m, value)
        for name, column in zip(names, columns, strict=True):
            fields.pop(name, None)
            if (text := column[row]) is not None:
                fields[name] = text
        texts.append(variant_text.record(fields))
    return texts


def _field_parts(field: pa.Array) -> dict[str, pa.Array]:
    if not pa.types.is_struct(field.type):
        raise malformed(f"a shredded part is {field.type}, expected a group of value and typed_value")
    return _parts(field)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _arrays(typed: pa.Array, metadata: Sequence[bytes | None]) -> list[str | None]:
    lengths = pc.list_value_length(typed).to_pylist()
    repeated = [m for m, length in zip(metadata, lengths, strict=True) for m in repeat(m, length or 0)]
    # A list has no missing elements, so one with neither value is a variant null.
    elements = ["null" if t is None else t for t in _group(_field_parts(typed.flatten()), repeated)]
    texts: list[str | None] = []
    start = 0
    for length in lengths:
        texts.append(None if length is None else variant_text.array(elements[start : start + length]))
        start += length or 0
    return texts


def _singles(typed: pa.Array) -> list[str | None]:
    """JSON text per row of a shredded primitive; None where it is null."""
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    plain, form = _form(typed)
    return [None if v is None else form(v) for v in plain.to_pylist()]


def _form(typed: pa.Array) -> tuple[pa.Array, Callable[[Any], str]]:
    """The array in values that Python holds exactly, and how one of them is written."""
    type_ = typed.type
    if pa.types.is_boolean(type_):
        return typed, variant_text.boolean
    if pa.types.is_signed_integer(type_):
        return typed, str
    if pa.types.is_float64(type_):
        return typed, variant_text.double
    if pa.types.is_float32(type_):
        return typed, variant_text.single
    if pa.types.is_decimal(type_):
        return typed, lambda value: f"{value:f}"
    if pa.types.is_date32(type_):
        return typed.view(pa.int32()), variant_text.date
    if pa.types.is_time64(type_) and type_.unit == "us":
        return typed.view(pa.int64()), variant_text.time
    if pa.types.is_timestamp(type_) and type_.unit in ("us", "ns"):
        digits, utc = 6 if type_.unit == "us" else 9, type_.tz is not None
        return typed.view(pa.int64()), lambda value: variant_text.timestamp(value, digits=digits, utc=utc)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return typed, variant_text.text
    if pa.types.is_fixed_size_binary(type_) and type_.byte_width == 16:
        return typed, variant_text.uuid_text
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return typed, variant_text.binary
    raise unsupported(f"it is shredded as {type_}")
