"""Numbers beside floats as floats: what the rule `TypeRule.ROUNDING` makes of columns before they are compared.

Each engine does it from the number's text, which all of them read as the float that is nearest to it; a direct cast of
DuckDB's divides, and may be a float off.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from harness.differ.arrow_side import ArrowSide
from harness.differ.duckdb_side import DuckDBSide
from harness.differ.schemas import rounds_to_float
from harness.differ.sides import Side


def reconciled(sides: tuple[Side, Side], columns: tuple[str, ...]) -> tuple[Side, Side]:
    """Both sides; of the columns, numbers that stand beside a float are floats of its width.

    A side that this changes is no planned table any more: its values are not those of the files.
    """
    left, right = sides
    return _as_floats(left, right.schema, columns), _as_floats(right, left.schema, columns)


def _as_floats(side: Side, other: pa.Schema, columns: tuple[str, ...]) -> Side:
    types = {
        side.schema.get_field_index(name): other.field(name).type
        for name in columns
        if rounds_to_float(side.schema.field(name).type, other.field(name).type)
    }
    if not types:
        return side
    if isinstance(side, ArrowSide):
        side = side.in_duckdb()
    schema = _with_types(side.schema, types)
    if isinstance(side, DuckDBSide):
        texts = [
            f"CAST(CAST(#{i + 1} AS VARCHAR) AS {_name(types[i])}) AS c{i}" if i in types else f"#{i + 1} AS c{i}"
            for i in range(len(schema))
        ]
        relation = side.relation.project(", ".join(texts))
        return replace(side, relation=relation, schema=schema, types=_with_types(side.types, types), plan=None)
    from harness.differ.spark_side import SparkSide, with_types

    assert isinstance(side, SparkSide)
    return replace(with_types(side, {i: _name(type_) for i, type_ in types.items()}), schema=schema)


def _name(type_: pa.DataType) -> str:
    """What both engines call it."""
    return "FLOAT" if pa.types.is_float32(type_) else "DOUBLE"


def _with_types(schema: pa.Schema, types: dict[int, pa.DataType]) -> pa.Schema:
    return pa.schema([field.with_type(types.get(place, field.type)) for place, field in enumerate(schema)])
