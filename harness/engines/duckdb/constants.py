"""Values that are the same in a whole file: literals where a arm's files agree, else columns of a file table.

The file table has a row per file of the arm and joins on DuckDB's `file_index`. A join costs next to nothing per
row, works alike on every DuckDB, and lets filters on the constants skip whole files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from harness.engines.duckdb.columns import cast
from harness.engines.shared import sqltext
from harness.errors import UnsupportedError
from harness.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    arrow_type,
)


@dataclass(frozen=True, slots=True)
class FileTable:
    """The per-file constants of one arm.

    size: how many files the arm has.
    """

    size: int
    _columns: dict[str, pa.Array] = field(default_factory=dict)
    _selected: dict[str, str] = field(default_factory=dict)

    def constant(self, values: Sequence[Any], type_: Type) -> str:
        """The expression of a constant. `values`: per file, as internal values."""
        if isinstance(type_, StructType):
            return self._struct(values, type_)
        first = values[0]
        if all(_same(value, first) for value in values):
            return sqltext.literal(first, type_)
        stored, shown = _stored(type_)
        return cast(self.column(pa.array(values, stored)), shown, type_)

    def column(self, values: pa.Array, *, convert: str | None = None) -> str:
        """The expression of a column of ready values, one per file; `convert`: a type that Arrow cannot carry."""
        label = f"v{len(self._columns)}"
        self._columns[label] = values
        self._selected[label] = label if convert is None else f"CAST({label} AS {convert}) AS {label}"
        return f"g.{label}"

    def join(self, register: Callable[[pa.Table], str]) -> str:
        """The JOIN clause that the expressions need; empty if all were literals."""
        if not self._columns:
            return ""
        table = pa.table({"i": pa.array(range(self.size), pa.uint64()), **self._columns})
        columns = ", ".join(["i", *self._selected.values()])
        return f" JOIN (SELECT {columns} FROM {register(table)}) AS g ON g.i = f.file_index"

    def _struct(self, values: Sequence[Any], type_: StructType) -> str:
        if all(value is None for value in values):
            return sqltext.literal(None, type_)
        parts = {
            f.name: self.constant([None if v is None else v.get(f.id) for v in values], f.type) for f in type_.fields
        }
        return sqltext.struct(parts)


def _same(left: Any, right: Any) -> bool:
    """Equality that keeps -0.0 and NaN apart from what they equal, or do not equal, in Python."""
    return left == right if not isinstance(left, float) else repr(left) == repr(right)


def _stored(type_: Type) -> tuple[pa.DataType, str]:
    """An Arrow type that holds stored-form values of a primitive type as they are, and how DuckDB shows it."""
    match type_:
        case BooleanType() | FloatType() | DecimalType() | IntegerType() | StringType():
            return arrow_type(type_), sqltext.type_name(type_)
        case DateType():
            return pa.int32(), "INTEGER"
        case TimeType() | TimestampType():
            return pa.int64(), "BIGINT"
        case _ if sqltext.type_name(type_) in ("BLOB", "UUID"):
            return pa.binary(), "BLOB"
        case other:
            raise UnsupportedError(f"Cannot use {other} as a per-file constant", cause="UnsupportedType")
