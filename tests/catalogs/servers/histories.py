"""Drawn histories of a table, written by PyIceberg: appends, overwrites, deletes, and schema and partition changes."""

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

_TYPES: tuple[pa.DataType, ...] = (
    pa.int32(),
    pa.int64(),
    pa.string(),
    pa.bool_(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.decimal128(9, 2),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.binary(),
    pa.list_(pa.int32()),
    pa.struct([("a", pa.int32()), ("b", pa.string())]),
)
_PARTITIONED = ("identity", "bucket[4]", "truncate[2]")
_MOST_ROWS = 12
_MOST_STEPS = 8


def write_history(catalog: Any, name: tuple[str, ...], random: Random) -> list[str]:
    """Create a table, change it several times, and return the steps as text."""
    columns = {"id": pa.int32(), "k": pa.string()} | {
        f"c{n}": random.choice(_TYPES) for n in range(random.randint(0, 3))
    }
    schema = pa.schema(list(columns.items()))
    version = random.choice(("1", "2"))
    table = catalog.create_table(name, schema=schema, properties={"format-version": version})
    steps = [f"create v{version} {columns}"]
    for _ in range(random.randint(2, _MOST_STEPS)):
        step = random.choice((_append, _append, _append, _delete, _overwrite, _evolve, _evolve, _partition))
        try:
            steps.append(step(table, random))
        except struct.error:  # PyIceberg 0.11.1 reads the old bounds of a widened column with the new type
            steps.append("a filter on id, which PyIceberg fails at")
        table = catalog.load_table(name)
    return steps


def _append(table: Any, random: Random) -> str:
    rows = _rows(table, random)
    table.append(rows)
    return f"append {rows.num_rows}"


def _delete(table: Any, random: Random) -> str:
    condition = _condition(random)
    table.delete(condition)
    return f"delete where {condition}"


def _overwrite(table: Any, random: Random) -> str:
    condition, rows = _condition(random), _rows(table, random)
    table.overwrite(rows, overwrite_filter=condition)
    return f"overwrite {rows.num_rows} where {condition}"


def _evolve(table: Any, random: Random) -> str:
    names = [field.name for field in table.schema().fields]
    partitioned = {table.schema().find_column_name(f.source_id) for f in table.spec().fields}
    free = [name for name in names if name not in ("id", "k", *partitioned)]
    kind = random.choice(("add", "rename", "drop", "widen"))
    with table.update_schema() as update:
        if kind == "rename" and free:
            old, new = random.choice(free), _fresh(names, random)
            update.rename_column(old, new)
            return f"rename {old} to {new}"
        if kind == "drop" and free:
            old = random.choice(free)
            update.delete_column(old)
            return f"drop {old}"
        if kind == "widen" and str(table.schema().find_type("id")) == "int" and "id" not in partitioned:
            from pyiceberg.types import LongType

            update.update_column("id", LongType())
            return "widen id"
        new, type_ = _fresh(names, random), random.choice(_TYPES)
        update.union_by_name(pa.schema([(new, type_)]))
        return f"add {new} {type_}"


def _partition(table: Any, random: Random) -> str:
    source = random.choice(("id", "k"))
    transform = random.choice(_PARTITIONED)
    if any(table.schema().find_column_name(field.source_id) == source for field in table.spec().fields):
        field = next(f for f in table.spec().fields if table.schema().find_column_name(f.source_id) == source)
        with table.update_spec() as update:
            update.remove_field(field.name)
        return f"no longer by {source}"
    with table.update_spec() as update:
        update.add_field(source, _transform(transform), f"p{random.randrange(10**6)}")
    return f"by {transform} of {source}"


def _transform(text: str) -> Any:
    from pyiceberg.transforms import parse_transform

    return parse_transform(text)


def _fresh(names: list[str], random: Random) -> str:
    return next(n for n in (f"n{random.randrange(1000)}" for _ in range(1000)) if n not in names)


def _condition(random: Random) -> str:
    key = random.choice("abc")
    return random.choice(
        (f"id < {random.randint(-3, 3)}", f"id = {random.randint(-3, 3)}", f"k = '{key}'", "k is null")
    )


def _rows(table: Any, random: Random) -> pa.Table:
    schema = table.schema().as_arrow()
    count = random.randint(1, _MOST_ROWS)
    arrays = [
        pa.array([None if random.random() < 0.2 else _value(field.type, random) for _ in range(count)], field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _value(type_: pa.DataType, random: Random) -> Any:
    """Draw from few values of each type, so that rows match."""
    number = random.randint(-3, 3)
    match type_:
        case _ if pa.types.is_integer(type_):
            return number
        case _ if pa.types.is_string(type_) or pa.types.is_large_string(type_):
            return random.choice(("a", "b", "c", "", "ü€"))
        case _ if pa.types.is_boolean(type_):
            return number > 0
        case _ if pa.types.is_floating(type_):
            return random.choice((0.0, -0.0, 1.5, float("nan"), float("inf"), -2.25))
        case _ if pa.types.is_date(type_):
            return date(2024, 1, 1) + timedelta(days=number)
        case _ if pa.types.is_decimal(type_):
            return Decimal(number) / 4
        case _ if pa.types.is_timestamp(type_):
            moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=number, microseconds=7)
            return moment if type_.tz else moment.replace(tzinfo=None)
        case _ if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
            return bytes([number % 256])
        case _ if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            return [None if n == 0 else n for n in range(abs(number))]
        case _:
            return {"a": number, "b": random.choice(("x", None))}
