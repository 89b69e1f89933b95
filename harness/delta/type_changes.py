"""Recorded changes of a column's type, which a reader must know before it reads older files (delta T22, T23).

Spec: Delta, "Type Widening", "Type Change Metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import InvalidTableError, UnsupportedError
from harness.model.schema import Type
from harness.model.type_promotion import widens

TYPE_CHANGES = "delta.typeChanges"


def check_type_changes(annotations: Mapping[str, Any], parse: Callable[[str], Type | None], *, field: str) -> None:
    """Returns if every change that the field's metadata lists is a widening that harness reads.

    Args:
        annotations: the field's metadata.
        parse: a type's name to the type; None for an unknown one.
        field: dotted path of the field, for messages.

    Raises:
        InvalidTableError: the list is malformed.
        UnsupportedError: a change is none of delta T22.
    """
    changes = annotations.get(TYPE_CHANGES)
    if changes is None:
        return
    for change in changes if isinstance(changes, list) else [changes]:
        before, after, inner = (
            (change.get("fromType"), change.get("toType"), change.get("fieldPath"))
            if isinstance(change, dict)
            else (None, None, None)
        )
        path = field if inner is None else f"{field}.{inner}"
        if not isinstance(before, str) or not isinstance(after, str):
            raise InvalidTableError(
                f"Invalid schema: got {TYPE_CHANGES} {change!r}, expected an object with fromType and toType",
                cause="SchemaError",
                field=path,
                rule="delta T23",
            )
        old, new = parse(before), parse(after)
        if old is None or new is None or not (old == new or widens(old, new)):
            raise UnsupportedError(
                f"Cannot read a table with a column that changed from {before} to {after}: that is no widening",
                cause="UnsupportedType",
                field=path,
                rule="delta T23",
            )
