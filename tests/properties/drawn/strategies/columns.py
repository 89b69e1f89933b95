"""Drawn changes of a table's columns, with names, paths, and types; and labels for files and commits."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from drawn.models.model import Columns, column_at
from drawn.strategies.types import NAMES, Draw, TableKind, column_types, type_text, types, widenings
from drawn.strategies.values import values
from harness.metadata.model import schema as dt

Operation: TypeAlias = dict[str, Any]
"""One operation of a scenario's history."""


@dataclass(frozen=True, slots=True)
class HistoryOperation:
    """A kind of operation. `possible` returns whether a table in the state of its model allows it."""

    possible: Callable[[Any], bool]
    draw: Callable[[Draw, Any], Operation]


def column_operations(
    droppable: Callable[[Any], list[str]], may_name: Callable[[Any], bool] = lambda model: True
) -> dict[str, HistoryOperation]:
    """Return the operations on columns by name.

    Args:
        droppable: A function that returns the paths that may be dropped.
        may_name: A function that returns whether columns may be renamed or dropped.
    """
    return {
        "add-column": HistoryOperation(lambda model: bool(free_names(model.columns, None)), _add),
        "drop-column": HistoryOperation(
            lambda model: may_name(model) and bool(droppable(model)),
            lambda draw, model: {"drop-column": draw(st.sampled_from(droppable(model)))},
        ),
        "rename-column": HistoryOperation(
            lambda model: may_name(model) and bool(free_names(model.columns, None)), _rename
        ),
        "move-column": HistoryOperation(lambda model: len(model.columns) > 1, _move),
        "widen-column": HistoryOperation(lambda model: bool(widenable(model.kind, model.columns)), _widen),
    }


def _add(draw: Draw, model: Any) -> Operation:
    """Draw a new column, or a field of a struct. In Iceberg 3 it may have a default for existing rows."""
    structs = [p for p, f in paths(model.columns) if isinstance(f.type, dt.StructType)]
    parent = draw(st.sampled_from([None, *structs]))
    type_ = draw(added_type(model.kind, inner=parent is not None))
    new = {"name": draw(st.sampled_from(free_names(model.columns, parent))), "type": type_text(model.kind, type_)}
    if parent is not None:
        new["parent"] = parent
    if model.kind == "iceberg-3" and not dt.children(type_) and not isinstance(type_, dt.UnknownType | dt.GeometryType):
        default = draw(st.one_of(st.none(), values(type_).filter(_is_json)))
        new |= {} if default is None else {"initial-default": default}
    return {"add-column": new}


def _is_json(value: Any) -> bool:
    """Return whether metadata can store the value as a default. JSON has no NaN and infinity."""
    return not isinstance(value, float) or math.isfinite(value)


def _rename(draw: Draw, model: Any) -> Operation:
    path = draw(st.sampled_from([p for p, _ in paths(model.columns, named_only=True)]))
    parent = path.rpartition(".")[0] or None
    return {"rename-column": {"path": path, "to": draw(st.sampled_from(free_names(model.columns, parent)))}}


def _move(draw: Draw, model: Any) -> Operation:
    names = [f.name for f in model.columns]
    return {"move-column": {"path": draw(st.sampled_from(names)), "to": draw(st.integers(0, len(names) - 1))}}


def _widen(draw: Draw, model: Any) -> Operation:
    """Draw a wider type for a column, or for a field at any level except in map keys."""
    path, type_ = draw(st.sampled_from(widenable(model.kind, model.columns)))
    return {"widen-column": {"path": path, "type": type_text(model.kind, type_)}}


def fresh(used_labels: Collection[str], prefix: str) -> str:
    """Return a label that is not in `used_labels`, and add it if `used_labels` is a set.

    Vectors of one file are named `d1.f1` for `d1`.
    """
    stems = {label.partition(".")[0] for label in used_labels}
    label = next(f"{prefix}{n}" for n in range(1, len(stems) + 2) if f"{prefix}{n}" not in stems)
    if isinstance(used_labels, set):
        used_labels.add(label)
    return label


def paths(columns: Columns, *, named_only: bool = False) -> list[tuple[str, dt.Field]]:
    """Return the columns and the fields inside them with their paths, except for fields inside map keys.

    Args:
        columns: The columns of the table.
        named_only: If true, only fields with user-defined names: no list elements, map keys, or map values.
    """
    found: list[tuple[str, dt.Field]] = []
    for f in columns:
        found.append((f.name, f))
        match f.type:
            case dt.StructType(fields=fields):
                inner, chosen = fields, True
            case dt.ListType(element=element):
                inner, chosen = (element,), not named_only
            case dt.MapType(value=value):
                inner, chosen = (value,), not named_only
            case _:
                continue
        below = paths(inner, named_only=named_only)
        if not chosen:
            below = [(p, g) for p, g in below if "." in p]
        found += [(f"{f.name}.{p}", g) for p, g in below]
    return found


def free_names(columns: Columns, parent: str | None) -> list[str]:
    """Return unused names for a new column, or for a field of the struct at a path. Case is ignored."""
    level = columns if parent is None else dt.children(column_at(columns, parent).type)
    used = {f.name.lower() for f in level}
    return [name for name in NAMES if name.lower() not in used]


def widenable(kind: TableKind, columns: Columns) -> list[tuple[str, dt.Type]]:
    """Return paths and the wider types that they may have."""
    return [(path, type_) for path, f in paths(columns) for type_ in widenings(kind, f.type)]


def added_type(kind: TableKind, *, inner: bool) -> st.SearchStrategy[dt.Type]:
    """Return a strategy for the type of a new column, or of a new field inside a struct."""
    return types(kind, depth=1) if inner else column_types(kind)
