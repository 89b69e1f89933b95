"""Histories with other values in place of theirs: same types, nulls, order, equal where they were equal.

Values are replaced column by column: the distinct ones of a column, in order, become the first numbers, days, texts …
of its type. Zeros, NaN, infinities, the ends of a type's range and empty texts stay, since they tell nothing and faults
sit there. Partitions follow their rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

from drawn.models.iceberg import IcebergModel
from drawn.models.model import Columns, TableModel, identities, model_of
from drawn.predicates import Compare, In, IsNull, Join, Not, Predicate
from drawn.reads import Read, Shape, over
from drawn.strategies.histories import DrawnHistory
from harness.errors import RequestError
from harness.metadata.model import schema as dt
from harness.testing.scenarios.values import scenario_value, stored_struct, stored_value

Visit: TypeAlias = Callable[[dt.Field, Any], Any]
"""The value in place of a stored value of a primitive column."""


def anonymised(drawn: DrawnHistory, shape: Shape) -> tuple[DrawnHistory, Shape]:
    """The history and what is read of it with other values.

    Raises:
        RequestError: with other values the rows of a file no longer share a partition.
    """
    seen: dict[int, dict[Any, Any]] = {}
    types: dict[int, dt.Type] = {}

    def collect(field: dt.Field, value: Any) -> Any:
        types[field.id] = field.type
        seen.setdefault(field.id, {})[_mark(value)] = value
        return value

    _walk(drawn, shape, collect)
    chosen = {id_: _substitutes(types[id_], list(values.values())) for id_, values in seen.items()}
    return _walk(drawn, shape, lambda field, value: _like(value, chosen[field.id][_mark(value)]))


def _walk(drawn: DrawnHistory, shape: Shape, visit: Visit) -> tuple[DrawnHistory, Shape]:
    """The history with every value replaced; models of both say which column and partition a value belongs to."""
    before, after = model_of(drawn.format, drawn.table), model_of(drawn.format, drawn.table)
    operations = []
    for operation in drawn.operations:
        changed = _operation(operation, before, after, visit)
        before.apply(operation)
        after.apply(changed)
        operations.append(changed)

    def with_values(read: Read) -> Read:
        columns = {f.name: f for f in before.columns_at(read.at)}
        return replace(read, where=None if read.where is None else _predicate(read.where, columns, visit))

    return replace(drawn, operations=tuple(operations), model=after), over(shape, with_values)


def _operation(operation: Mapping[str, Any], before: TableModel, after: TableModel, visit: Visit) -> dict[str, Any]:
    ((name, given),) = operation.items()
    value = copy.deepcopy(given)
    files = (
        value if isinstance(value, list) else value.get("files", value.get("add")) if isinstance(value, dict) else None
    )
    for file in files or ():
        if isinstance(file, dict) and "rows" in file:
            _replace_rows(file, before.columns, visit)
            _replace_partition(file, before, after)
    if name == "add-column" and "initial-default" in value:
        _replace_default(value, before, operation, visit)
    return {name: value}


def _replace_rows(file: dict[str, Any], columns: Columns, visit: Visit) -> None:
    names = file.get("equality-deletes", file.get("columns"))
    by_name = {f.name: f for f in columns}
    chosen = columns if names is None else tuple(by_name[n] for n in names)
    rows = [stored_struct(chosen, row) for row in file["rows"]]
    file["rows"] = [[_scenario(f, row.get(f.id), visit) for f in chosen] for row in rows]


def _replace_partition(file: dict[str, Any], before: TableModel, after: TableModel) -> None:
    """Give a delete the partition that the files of its old partition have now."""
    if "partition" not in file:
        return
    assert isinstance(before, IcebergModel)
    assert isinstance(after, IcebergModel)
    spec = before.specs[file["spec-id"]]
    wanted = [stored_value(before.partition_type(c), file["partition"][c.name]) for c in spec]
    for label, entry in before.current.files.items():
        if entry.spec == file["spec-id"] and repr(list(entry.partition)) == repr(wanted):
            found = after.current.files[label].partition
            file["partition"] = {
                c.name: scenario_value(after.partition_type(c), v) for c, v in zip(spec, found, strict=True)
            }
            return
    raise RequestError("Cannot tell the new partition of a delete: no live file has its old one")


def _replace_default(value: dict[str, Any], before: TableModel, operation: Mapping[str, Any], visit: Visit) -> None:
    then = copy.deepcopy(before)
    then.apply(operation)
    known = identities(before.columns)
    (new,) = (f for id_, f in identities(then.columns).items() if id_ not in known)
    value["initial-default"] = scenario_value(new.type, visit(new, new.initial_default))


def _scenario(field: dt.Field, value: Any, visit: Visit) -> Any:
    return scenario_value(field.type, _visited(field, value, visit))


def _visited(field: dt.Field, value: Any, visit: Visit) -> Any:
    if value is None:
        return None
    match field.type:
        case dt.StructType(fields=fields):
            return {f.id: _visited(f, value.get(f.id), visit) for f in fields}
        case dt.ListType(element=element):
            return [_visited(element, v, visit) for v in value]
        case dt.MapType(key=key, value=item):
            return [(_visited(key, k, visit), _visited(item, v, visit)) for k, v in value]
        case _:
            return visit(field, value)


def _predicate(predicate: Predicate, columns: Mapping[str, dt.Field], visit: Visit) -> Predicate:
    match predicate:
        case Compare(column, _, _, value):
            return replace(predicate, value=visit(columns[column], value))
        case In(column, _, values):
            return replace(predicate, values=tuple(visit(columns[column], v) for v in values))
        case IsNull():
            return predicate
        case Not(part):
            return Not(_predicate(part, columns, visit))
        case Join(word, left, right):
            return Join(word, _predicate(left, columns, visit), _predicate(right, columns, visit))


def _substitutes(type_: dt.Type, values: Sequence[Any]) -> dict[Any, Any]:
    """The new value of each distinct value of a column, by rank; numbers below zero count down from it, others up."""
    rest = sorted((v for v in values if not _stays(type_, v)), key=lambda v: v.encode() if isinstance(v, str) else v)
    below = [v for v in reversed(rest) if not isinstance(v, str | bytes) and v < 0]
    above = [v for v in rest if isinstance(v, str | bytes) or v > 0]
    unit = 1 if any(isinstance(v, int) for v in values) else None  # it held integers before it was widened
    new = {_mark(v): v for v in values}
    new |= {_mark(v): _numbered(type_, n, unit) for n, v in enumerate(above, 1)}
    return new | {_mark(v): -_numbered(type_, n, unit) for n, v in enumerate(below, 1)}


def _numbered(type_: dt.Type, number: int, unit: int | None) -> Any:
    match type_:
        case dt.StringType():
            return f"v{number:03}"
        case dt.FixedType(length=length):
            return number.to_bytes(length, "big")
        case dt.UuidType() | dt.BinaryType():
            return number.to_bytes(16 if isinstance(type_, dt.UuidType) else 2, "big")
        case dt.DecimalType(scale=scale):
            return number * (unit or Decimal(1).scaleb(-scale))
        case dt.FloatType():
            return float(number)
        case _:
            return number


def _stays(type_: dt.Type, value: Any) -> bool:
    match type_:
        case dt.BooleanType():
            return True
        case dt.FloatType():
            return not math.isfinite(value) or value == 0
        case dt.IntegerType(bits=bits):
            return value in (0, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
        case dt.DecimalType(precision=precision, scale=scale):
            return bool(value == 0 or abs(value) == Decimal((0, (9,) * precision, -scale)))
        case _:
            return not value


def _like(value: Any, substitute: Any) -> Any:
    """`substitute` in the Python type of `value`: a column that was widened holds integers and decimals."""
    return type(value)(substitute) if _is_exact(value) else substitute


def _mark(value: Any) -> Any:
    """A key that tells values apart that Python takes for equal, and knows NaN again."""
    return value if _is_exact(value) else repr(value)


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
