"""Names, paths and types for changes of a table's columns, and labels for what histories make."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

from hypothesis import strategies as st

from drawn.models.model import Columns, column_at
from drawn.strategies.types import NAMES, TableKind, column_types, types, widenings
from harness.metadata.model.schema import Field, ListType, MapType, StructType, Type, children

Operation: TypeAlias = dict[str, Any]
"""One operation of a scenario's history."""


def fresh(taken: Collection[str], prefix: str) -> str:
    """A label that is not taken; a set is told that it now is. Vectors written together take `d1.f1` for `d1`."""
    stems = {label.partition(".")[0] for label in taken}
    label = next(f"{prefix}{n}" for n in range(1, len(stems) + 2) if f"{prefix}{n}" not in stems)
    if isinstance(taken, set):
        taken.add(label)
    return label


def paths(columns: Columns, *, named: bool = False) -> list[tuple[str, Field]]:
    """The columns and the fields inside them, with their paths; not what is inside the keys of maps.

    named: only those whose name a user gave: not elements, keys and values.
    """
    found: list[tuple[str, Field]] = []
    for f in columns:
        found.append((f.name, f))
        match f.type:
            case StructType(fields=fields):
                inner, chosen = fields, True
            case ListType(element=element):
                inner, chosen = (element,), not named
            case MapType(value=value):
                inner, chosen = (value,), not named
            case _:
                continue
        below = paths(inner, named=named)
        if not chosen:
            below = [(p, g) for p, g in below if "." in p]
        found += [(f"{f.name}.{p}", g) for p, g in below]
    return found


def free_names(columns: Columns, parent: str | None) -> list[str]:
    """Names for a new column, or for a new field of the struct at a path, that no other has in any case."""
    level = columns if parent is None else children(column_at(columns, parent.split(".")).type)
    used = {f.name.lower() for f in level}
    return [name for name in NAMES if name.lower() not in used]


def widenable(kind: TableKind, columns: Columns) -> list[tuple[str, Type]]:
    """Paths and the wider types that they may have."""
    return [(path, type_) for path, f in paths(columns) for type_ in widenings(kind, f.type)]


def added_type(kind: TableKind, *, inner: bool) -> st.SearchStrategy[Type]:
    """The type of a new column, or of a new field inside a struct."""
    return types(kind, depth=1) if inner else column_types(kind)
