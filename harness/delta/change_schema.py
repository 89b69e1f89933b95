"""Whether the versions of a change data feed can be shown in one schema (delta C3, C10, C11)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.delta.actions import Metadata
from harness.delta.protocol import is_enabled
from harness.delta.types import DeltaSchema
from harness.errors import InvalidTableError, RequestError
from harness.model.metadata_columns import CHANGES
from harness.model.schema import Field, ListType, MapType, StructType, Type
from harness.plan.column_mapping import stored_name

_ENABLED = "delta.enableChangeDataFeed"


def check_enabled(metadata: Metadata, *, version: int) -> None:
    """Returns if the table keeps a change data feed as of `version`.

    Raises:
        RequestError: it does not. Rule: delta C3.
    """
    if not is_enabled(metadata.configuration, _ENABLED):
        raise RequestError(
            f"Cannot read changes of version {version}: {_ENABLED} is not true as of that version; "
            "start after the version that sets it",
            cause="ChangeFeedError",
            snapshot=version,
            rule="delta C3",
        )


def check_names(columns: DeltaSchema, *, version: int) -> None:
    """Returns if no column of the table is called like a column of the feed.

    Raises:
        InvalidTableError: one is. Rule: delta C10.
    """
    for field in columns.schema.fields:
        if field.name.lower() in CHANGES:
            raise InvalidTableError(
                f"Cannot read changes of version {version}: the table has a column {field.name!r}, a name that the "
                "change data feed needs",
                cause="ChangeFeedError",
                snapshot=version,
                field=field.name,
                rule="delta C10",
            )


def check_evolution(old: DeltaSchema, new: DeltaSchema, *, version: int, end: int) -> None:
    """Returns if rows of `version` can be shown in the schema of version `end`: it has the same columns, perhaps more.

    Raises:
        RequestError: a column was renamed, dropped or changed, or the partitioning was. Rule: delta C11.
    """
    reason = _difference(old, new)
    if reason is not None:
        raise RequestError(
            f"Cannot show the changes of version {version} in the schema of version {end}: {reason}; "
            "read the versions before and after that change apart",
            cause="ChangeFeedError",
            snapshot=version,
            rule="delta C11",
        )


def _difference(old: DeltaSchema, new: DeltaSchema) -> str | None:
    before, after = (tuple(stored_name(f) for f in s.partition_columns) for s in (old, new))
    if before != after:
        return f"the partition columns changed from {list(before)} to {list(after)}"
    return _fields_differ(old.schema.fields, new.schema.fields, "")


def _fields_differ(old: Sequence[Field], new: Sequence[Field], parent: str) -> str | None:
    known = {stored_name(f): f for f in new}
    for field in old:
        path = f"{parent}{field.name}"
        other = known.pop(stored_name(field), None)
        if other is None:
            return f"column {path} was dropped or renamed"
        if other.name != field.name:
            return f"column {path} was renamed to {parent}{other.name}"
        if (reason := _field_differs(field, other, path)) is not None:
            return reason
    required = next((f.name for f in known.values() if f.required), None)
    return None if required is None else f"column {parent}{required} was added and is never null"


def _field_differs(old: Field, new: Field, path: str) -> str | None:
    if new.required and not old.required:
        return f"column {path} became one that is never null"
    return _types_differ(old.type, new.type, path)


def _types_differ(old: Type, new: Type, path: str) -> str | None:
    match old, new:
        case StructType(fields=before), StructType(fields=after):
            return _fields_differ(before, after, f"{path}.")
        case ListType(element=before_), ListType(element=after_):
            return _field_differs(before_, after_, f"{path}.element")
        case MapType(key=key, value=value), MapType(key=new_key, value=new_value):
            reason = _field_differs(key, new_key, f"{path}.key")
            return reason or _field_differs(value, new_value, f"{path}.value")
        case _ if old == new:
            return None
        case _:
            return f"column {path} changed from {old} to {new}"
