"""Names that an engine could confuse (iceberg 5.21): no engine may answer where another one cannot."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import SchemaMismatchError
from harness.model.schema import Field, StructType, walk
from harness.plan.scan_plan import ScanPlan


def columns_to_read(plan: ScanPlan) -> tuple[Field, ...]:
    """The plan's columns, each once, and after them those that only its filter needs.

    Raises:
        SchemaMismatchError: fields of a struct have names that differ only by case, which not every engine can show.
    """
    chosen = {f.id: f for f in plan.columns}
    if plan.filter is not None:
        chosen |= {f.id: f for f in plan.filter.columns if f.id not in chosen}
    columns = tuple(chosen.values())
    for path, f in walk(columns):
        if isinstance(f.type, StructType):
            names = [part.name.lower() for part in f.type.fields]
            if len(set(names)) < len(names):
                raise SchemaMismatchError(
                    "Cannot read a struct: names of its fields differ only by case; leave the column out",
                    cause="AmbiguousColumn",
                    table=plan.table,
                    field=".".join(path),
                    rule="iceberg 5.21",
                )
    return columns


def refuse_same_names(columns: Sequence[Field], table: str) -> None:
    """Refuses columns that a result with case-insensitive names cannot hold beside each other.

    Raises:
        SchemaMismatchError: two names differ only by case, or not at all.
    """
    seen: dict[str, Field] = {}
    for column in columns:
        other = seen.setdefault(column.name.lower(), column)
        if other is not column:
            raise SchemaMismatchError(
                f"Cannot show columns {other.name!r} and {column.name!r} in one result: they differ only by case; "
                "choose one with columns=, or read them with to_arrow() in Python",
                cause="AmbiguousColumn",
                table=table,
                field=column.name,
                rule="iceberg 5.21",
                options=("columns",),
            )
