"""Hashes as Spark columns: `harness.differ.hashing` by calls of the Java class `RowHash`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
from pyspark.sql import Column, functions
from pyspark.sql import types as spark

from harness.differ.forms import (
    Bytes,
    Digits,
    Entries,
    Fields,
    Float,
    Form,
    Items,
    Nothing,
    Number,
    Ticks,
    Whole,
    nanos,
)
from harness.differ.hashing import BLOCK, LANES, NULL, SEEDS, Lane
from harness.engines.spark.gateway import Gateway

_CLASS = "RowHash"
_DIGITS = {Digits.NARROW: 0, Digits.WIDE: 1, Digits.SPLIT: 2}


@dataclass(frozen=True, slots=True)
class Value:
    """A column to hash: its Spark type, what it stands for (a long may be a time), and what is hashed."""

    column: Column
    stored: spark.DataType
    logical: pa.DataType
    form: Form


def row_hashes(values: Sequence[Value], gateway: Gateway) -> tuple[Column, Column]:
    """Both lanes of the hash of a row, as the bigints of the same bits."""
    first, second = (_blocks([_hash(value, lane, gateway) for value in values], lane, gateway) for lane in LANES)
    return first, second


def _blocks(hashes: Sequence[Column], lane: Lane, gateway: Gateway) -> Column:
    if len(hashes) <= BLOCK:
        return _chain(hashes, lane, gateway)
    return _chain([_chain(hashes[i : i + BLOCK], lane, gateway) for i in range(0, len(hashes), BLOCK)], lane, gateway)


def _chain(hashes: Sequence[Column], lane: Lane, gateway: Gateway) -> Column:
    linked = _constant(SEEDS[lane])
    for value in hashes:
        linked = _call(gateway, "link", linked, value)
    return linked


def _hash(value: Value, lane: Lane, gateway: Gateway) -> Column:
    if isinstance(value.stored, spark.NullType) or isinstance(value.form, Nothing):
        return _constant(NULL)
    return functions.coalesce(_not_null(value, lane, gateway), _constant(NULL))


def _not_null(value: Value, lane: Lane, gateway: Gateway) -> Column:
    match value.form, value.stored:
        case Whole(), _:
            return _call(gateway, "whole", value.column)
        case Ticks(split=False), _ if _divisor(value.stored, value.logical) == 1:
            return _call(gateway, "whole", value.column)
        case Float(signed_zeros=zeros), _:
            return _call(gateway, "real" if zeros == "distinct" else "realWithOneZero", value.column)
        case Bytes(), spark.StringType() | spark.BinaryType() if not _is_uuid(value.logical):
            return _call(gateway, "secondOfBytes" if lane else "firstOfBytes", value.column)
        case Number(scale=scale, digits=Digits.NARROW), spark.DecimalType():
            return _call(gateway, "narrow", value.column, functions.lit(scale))
        case _:
            text = f"{value.stored.json()}\n{_described(value.form, value.stored, value.logical)}"
            return _call(gateway, "of", value.column, functions.lit(text), functions.lit(lane))


def _described(form: Form, stored: spark.DataType, logical: pa.DataType) -> str:
    """What the value is, as `RowHash` reads it."""
    if isinstance(stored, spark.NullType):
        return "N"
    match form:
        case Nothing():
            return "N"
        case Whole():
            return "W"
        case Float(signed_zeros=zeros):
            return "F" if zeros == "distinct" else "Z"
        case Number(scale=scale, digits=digits):
            return f"D{scale},{_DIGITS[digits]};"
        case Ticks(base=base, split=split):
            return f"T{_divisor(stored, logical)},{base // nanos(logical) if split else 0};"
        case Bytes():
            return "U" if _is_uuid(logical) else "B" if isinstance(stored, spark.BinaryType) else "S"
        case Items(element=element):
            assert isinstance(stored, spark.ArrayType)
            return f"[{_described(element, stored.elementType, logical.value_type)}"
        case Entries(key=key, value=item):
            assert isinstance(stored, spark.MapType)
            keys = _described(key, stored.keyType, logical.key_type)
            return f"<{keys}{_described(item, stored.valueType, logical.item_type)}"
        case Fields(fields=fields):
            assert isinstance(stored, spark.StructType)
            places = [(logical.get_field_index(name), part) for name, part in fields]
            texts = [
                f"{place};{_described(part, stored.fields[place].dataType, logical.field(place).type)}"
                for place, part in places
            ]
            return "{" + "".join(texts) + "}"
        case other:
            assert_never(other)


def _divisor(stored: spark.DataType, logical: pa.DataType) -> int:
    """How many of the numbers that Spark holds are one of the logical unit: its own times are nanos always."""
    return nanos(logical) if stored.typeName() == "time" else 1


def _is_uuid(logical: pa.DataType) -> bool:
    return isinstance(logical, pa.UuidType)


def _constant(word: int) -> Column:
    return functions.lit(word - (1 << 64) if word >> 63 else word).cast("bigint")


def _call(gateway: Gateway, method: str, *arguments: Column) -> Column:
    return gateway.invoke(_CLASS, method, spark.LongType(), *arguments)
