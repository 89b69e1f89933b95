"""Columns whose types a rule reconciles only once one of them is converted, before they are compared.

A number beside a float becomes the float that is nearest to it (`TypeRule.ROUNDING`). Each engine reads it from the
number's text, which all do alike; a direct cast of DuckDB's divides, and may be a float off. True and false beside an
integer become 1 and 0 (`TypeRule.TRUTH`).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from harness.differ.arrow_side import ArrowSide
from harness.differ.duckdb_side import DuckDBSide
from harness.differ.schemas import converted
from harness.differ.sides import Side


def reconciled(sides: tuple[Side, Side], columns: tuple[str, ...]) -> tuple[Side, Side]:
    """Both sides, with those of the columns converted that need it.

    A side that this changes is no planned table any more: its values are not those of the files.
    """
    left, right = sides
    return _converted(left, right.schema, columns), _converted(right, left.schema, columns)


def _converted(side: Side, other: pa.Schema, columns: tuple[str, ...]) -> Side:
    found = {
        side.schema.get_field_index(name): converted(side.schema.field(name).type, other.field(name).type)
        for name in columns
    }
    types = {place: type_ for place, type_ in found.items() if type_ is not None}
    if not types:
        return side
    if isinstance(side, ArrowSide):
        side = side.in_duckdb()
    schema = _with_types(side.schema, types)
    casts = {place: _CASTS[type_] for place, type_ in types.items()}
    if isinstance(side, DuckDBSide):
        texts = [casts.get(i, "{}").format(f"#{i + 1}") + f" AS c{i}" for i in range(len(schema))]
        relation = side.relation.project(", ".join(texts))
        return replace(side, relation=relation, schema=schema, types=_with_types(side.types, types), plan=None)
    from harness.differ.spark_side import SparkSide, with_casts

    assert isinstance(side, SparkSide)
    return replace(with_casts(side, casts), schema=schema)


_CASTS = {
    pa.float32(): "CAST(CAST({} AS STRING) AS FLOAT)",
    pa.float64(): "CAST(CAST({} AS STRING) AS DOUBLE)",
    pa.int32(): "CAST({} AS INT)",
}
"""In the SQL of both engines."""


def _with_types(schema: pa.Schema, types: dict[int, pa.DataType]) -> pa.Schema:
    return pa.schema([field.with_type(types.get(place, field.type)) for place, field in enumerate(schema)])
