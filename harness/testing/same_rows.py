"""`assert_same_rows`: fails unless two results are the same rows, and reports how they differ.

assert_same_rows(table, [(1, "x"), (2, "y")])
assert_same_rows(table.snapshot(), connection.sql("SELECT * FROM expected"), keys=["id"])
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from typing import Any, cast

import duckdb
import pyarrow as pa
from pyarrow import types

from harness.diff.compare import DIRECT_ROWS, compare
from harness.diff.opening import SideOpening, is_frame, resolve_side
from harness.errors import RequestError, counted
from harness.snapshot import Changes, Snapshot
from harness.table import Table

# Python values must have exactly the type of their column, because Arrow itself would round, truncate, and guess:
#
# boolean bool · integers int · floats float, int · decimals Decimal, int · strings str · binary bytes · dates date ·
# times time · timestamps datetime, with a zone exactly if the type has one · UUIDs uuid.UUID · structs a mapping of
# all fields · lists a list or tuple · maps a mapping or pairs · null None


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (types.is_boolean, (bool,)),
    (types.is_integer, (int,)),
    (types.is_floating, (float, int)),
    (types.is_decimal, (Decimal, int)),
    *((fits, (str,)) for fits in (types.is_string, types.is_large_string)),
    *((fits, (bytes,)) for fits in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)),
    (types.is_date, (dt.date,)),
    (types.is_time, (dt.time,)),
    (types.is_timestamp, (dt.datetime,)),
    (types.is_struct, (Mapping,)),
    *((fits, (list, tuple)) for fits in (types.is_list, types.is_large_list, types.is_fixed_size_list)),
    (types.is_map, (Mapping, list, tuple)),
    (lambda type_: isinstance(type_, pa.UuidType), (uuid.UUID,)),
)
"""The Python types of values for each kind of Arrow type."""
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _check_value(type_: pa.DataType, value: object) -> None:
    if value is None:
        return
    kinds = next((kinds for fits, kinds in _KINDS if fits(type_)), (object,))
    is_mismatch = (isinstance(value, bool) and bool not in kinds) or (
        isinstance(value, dt.datetime) and dt.date in kinds
    )
    if not isinstance(value, kinds) or (is_mismatch and object not in kinds):
        type_names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"expected {type_names} for {type_}, got {value!r}")
    _check_time(type_, value)
    _check_nested(type_, value)


def _check_time(type_: pa.DataType, value: Any) -> None:
    if types.is_timestamp(type_) and (value.tzinfo is None) != (type_.tz is None):
        raise ValueError(f"expected {'no' if type_.tz is None else 'a'} zone for {type_}, got {value!r}")
    if types.is_timestamp(type_) or types.is_time(type_):
        nanos = value.microsecond * 1000 + getattr(value, "nanosecond", 0)  # pandas timestamps have nanoseconds
        if nanos % _NANOS[type_.unit]:
            raise ValueError(f"{value!r} has more digits than {type_}")


def _check_nested(type_: pa.DataType, value: Any) -> None:
    if types.is_struct(type_):
        names = [field.name for field in type_]
        if set(value) != set(names):
            raise ValueError(f"expected the fields {', '.join(names)}, got {value!r}")
        for field in type_:
            _check_value(field.type, value[field.name])
    elif types.is_map(type_):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            _check_value(type_.key_type, key)
            _check_value(type_.item_type, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_value(type_.value_type, item)


def assert_same_rows(
    left: object,
    right: object,
    *,
    keys: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Fail unless both sides have the same columns and, in any order, the same rows.

    A side is anything that `harness.compare` accepts: tables, Spark DataFrames (classic or Connect), DuckDB relations,
    and Arrow, pandas, and Polars frames. It can also be a list of rows: mappings with all columns, Spark's Rows
    (`df.collect()`), or tuples or lists in the order of the columns. Their values are the Python values that
    `harness.testing.same_rows` lists for the types of the opposite side. If both sides are lists, the first one that
    names its columns determines the types.

    Args:
        left: One side.
        right: The opposite side.
        keys: The columns that identify a row. Rows with the same key are paired and reported as changed. None: rows are
            counted.
        options: Keyword arguments of `harness.compare`, for example `tolerance={"price": 0.01, "share": "0.1%"}`. With
            `columns`, a list of rows has these columns, in this order.

    Raises:
        AssertionError: The rows differ. The message is the report of the comparison.
        RequestError: As for `harness.compare`; or both sides are lists without column names, or with Spark's maps.
    """
    __tracebackhide__ = True
    both = _is_rows(left) and _is_rows(right)
    names = ["expected" if _is_rows(side) else None for side in (left, right)]
    options.setdefault("names", ("actual" if both else names[0], names[1]))
    sides = [_without_spark(side) if _is_rows(side) else side for side in (left, right)]
    if both:
        if not (left and right):
            if left or right:
                raise AssertionError(f"different: {_row_count(left)} on the left, {_row_count(right)} on the right")
            return
        _type_rows(sides, (left, right))
    for number in (0, 1):
        if _is_rows(sides[number]):
            other = _prepare_other_side(sides[1 - number], options, 1 - number)
            sides[1 - number] = other
            schema = _schema_of(other, options.get("columns"))
            if any(map(_is_spark_row, cast("Any", (left, right)[number]))):
                sides[number] = [_with_zones(pa.struct(schema), row) for row in cast("Any", sides[number])]
            sides[number] = rows_to_table(sides[number], schema)
    result = compare(*sides, keys=() if keys is None else keys, **options)
    if not result.equal:
        raise AssertionError(result.to_text())


def _is_rows(side: object) -> bool:
    """Return whether a side is a list of rows, and not a pair of a table and an engine's name."""
    if not isinstance(side, list | tuple):
        return False
    return all(isinstance(row, Mapping | list | tuple) for row in side)


def _row_count(rows: object) -> str:
    return counted(len(cast("Any", rows)), "row")


def _type_rows(sides: list[Any], inputs: Sequence[Any]) -> None:
    """Replace the first list of rows that names its columns by an Arrow table. Both sides are lists of rows.

    Arrow reads a dict as a struct. In Spark's Rows, a struct is a Row and a dict is a map, so maps are rejected.

    Raises:
        AssertionError: The rows of this list have different columns. Arrow would use only the columns of the first row.
        RequestError: The rows of this list are Spark's Rows and have maps.
    """
    for number, rows in enumerate(sides):
        if all(isinstance(row, Mapping) for row in rows):
            if any(_has_map(row) for row in inputs[number] if _is_spark_row(row)):
                raise RequestError("Cannot compare two lists of rows with maps: pass the DataFrame, which has types")
            for place, row in enumerate(rows):
                if set(row) != set(rows[0]):
                    raise AssertionError(f"different columns: row {place} has {list(row)}, row 0 {list(rows[0])}")
            sides[number] = pa.Table.from_pylist([dict(row) for row in rows])
            return


def _is_spark_row(value: object) -> bool:
    """Return whether a value is a Row of Spark whose columns have distinct names."""
    names = getattr(value, "__fields__", None) if isinstance(value, tuple) and hasattr(value, "asDict") else None
    return names is not None and len(set(names)) == len(names)


def _has_map(value: object) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list | tuple) and any(map(_has_map, value))


def _without_spark(rows: Any) -> list[object]:
    """Return rows with mappings in place of Spark's Rows, at every level."""
    return [row.asDict(recursive=True) if _is_spark_row(row) else row for row in rows]


def _with_zones(type_: pa.DataType, value: object) -> object:
    """Return a value of a Row with time zones added if its type has one. Spark returns instants as local datetimes."""
    if types.is_timestamp(type_) and type_.tz is not None and isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.astimezone(dt.UTC)
    if types.is_struct(type_) and isinstance(value, Mapping):
        inner = {field.name: field.type for field in type_}
        return {name: _with_zones(inner.get(name, pa.null()), item) for name, item in value.items()}
    if types.is_map(type_) and isinstance(value, Mapping):
        return [(_with_zones(type_.key_type, key), _with_zones(type_.item_type, item)) for key, item in value.items()]
    if types.is_list(type_) and isinstance(value, list):
        return [_with_zones(type_.value_type, item) for item in value]
    return value


def rows_to_table(rows: Any, schema: pa.Schema) -> pa.Table:
    """Return a list of rows as a table with this schema.

    Raises:
        AssertionError: A row has other columns, or a value does not have its column's type. The sides therefore differ.
    """
    names, records = schema.names, []
    for number, row in enumerate(rows):
        columns: Sequence[str] | str = list(row) if isinstance(row, Mapping) else f"{len(row)} values"
        if set(columns) != set(names) if isinstance(row, Mapping) else len(row) != len(names):
            raise AssertionError(f"different columns: expected row {number} has {columns}, the other side {names}")
        records.append([row[name] for name in names] if isinstance(row, Mapping) else list(row))
    arrays = []
    for i, field in enumerate(schema):
        try:
            for record in records:
                _check_value(field.type, record[i])
            arrays.append(pa.array([record[i] for record in records], field.type))
        except (ValueError, pa.ArrowException, TypeError, OverflowError) as error:
            raise AssertionError(f"different values: column {field.name!r} is {field.type}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _schema_of(side: object, columns: Sequence[str] | None) -> pa.Schema:
    """Return the names and types of a side's columns, or of the given columns in their order. Only metadata is read."""
    data = resolve_side(side[0] if isinstance(side, tuple) else side)
    data = data.snapshot() if isinstance(data, Table) else data
    names = None if columns is None else tuple(columns)
    opening = SideOpening(data=data, label="other", name=None, engine="duckdb", columns=names, where=None, spark=None)
    opening.check()
    with ExitStack() as resources:
        return opening.open(DIRECT_ROWS, resources).schema


def _prepare_other_side(side: object, options: dict[str, Any], number: int) -> object:
    """Return the side that a list of rows is compared with, prepared so that its schema can be read first.

    Its filter is applied here, because the list of rows cannot be filtered.
    """
    if _is_rows(side):
        raise RequestError("Cannot compare two lists of rows: one side must be a table, a result or a relation")
    data, engine = side if isinstance(side, tuple) else (side, (options.get("engines") or ("duckdb", "duckdb"))[number])
    if isinstance(data, Table | Snapshot | Changes):
        where = options.get("where")
        if where is None or isinstance(data, Changes):
            return side
        del options["where"]
        snapshot = data.snapshot() if isinstance(data, Table) else data
        return snapshot.to_arrow(columns=options.get("columns"), where=where, engine=engine)
    if isinstance(data, duckdb.DuckDBPyRelation) or is_frame(data) or not hasattr(data, "__arrow_c_stream__"):
        return side
    return pa.table(data)  # a stream can be read only once
