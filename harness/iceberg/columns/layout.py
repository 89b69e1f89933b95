"""A writer's schema of manifest entries as steps of a walk, with the places to note of what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from harness.files.avro_numbers import DAMAGE
from harness.iceberg.columns.walk import (
    Step,
    boolean,
    byte_pairs,
    byte_string,
    fixed,
    number,
    number_items,
    number_pairs,
    optional,
    record,
)
from harness.records import dataclass

Kind: TypeAlias = Literal["number", "numbers", "text", "bytes", "record", "counts", "bounds"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A field whose places are noted.

    id: its field id. names: what it is called where the schema gives no id (iceberg 2.1).
    kind: `record` notes the bytes of a whole record; `numbers` is a list, `counts` and `bounds` are maps from field
        ids.
    fields: the slots of a record whose bytes are not noted.
    pair: the field ids of a map's key and value. keys: the keys of `bounds` to note.
    """

    id: int
    name: str
    kind: Kind
    fields: tuple[Slot, ...] = ()
    pair: tuple[int, int] = (0, 0)
    keys: tuple[int, ...] = ()


PATH = Slot(100, "file_path", "text")


@dataclass(frozen=True, slots=True)
class EntrySteps:
    """The steps over an entry. around_path: those before the path of its file, and those behind it; None: it has none
    that is always there."""

    whole: Step
    around_path: tuple[Step, Step] | None


def entry_steps(schema: Any, slots: tuple[Slot, ...]) -> EntrySteps | None:
    """The steps over a record of `schema`; None: the schema has a form that is decoded entry by entry.

    Slots that the schema has no field for are never noted.
    """
    try:
        fields = _fields(schema, slots, depth=0)
    except (_Unforeseen, *DAMAGE):
        return None
    steps = [step for _, step in fields]
    paths = [place for place, (slot, _) in enumerate(fields) if slot is PATH]
    around = (record(steps[: paths[0]]), record(steps[paths[0] + 1 :])) if paths else None
    return EntrySteps(record(steps), around)


class _Unforeseen(Exception):
    """A schema that no step is made for."""


_DEEPEST = 8
_LARGEST_FIXED = 1 << 20


def _fields(schema: Any, slots: tuple[Slot, ...], *, depth: int) -> list[tuple[Slot | None, Step]]:
    """The steps over the fields of a record, with the slot of each; fields of a record within stand for it, where its
    bytes are not noted."""
    if not isinstance(schema, dict) or schema.get("type") != "record" or depth > _DEEPEST:
        raise _Unforeseen
    by_id = {slot.id: slot for slot in slots}
    by_name = {slot.name: slot for slot in slots}
    steps: list[tuple[Slot | None, Step]] = []
    used: set[str] = set()
    for field in schema["fields"]:
        id_ = field.get("field-id")
        slot = by_name.get(field["name"]) if id_ is None else by_id.get(int(id_))
        if slot is not None:
            if slot.name in used:
                raise _Unforeseen
            used.add(slot.name)
        if slot is not None and slot.fields and _plain(field["type"]) == "record":
            steps += _fields(field["type"], slot.fields, depth=depth + 1)
        else:
            is_optional = isinstance(field["type"], list)
            steps.append((None if is_optional else slot, _field(field["type"], slot, depth)))
    return steps


def _record(schema: Any, slots: tuple[Slot, ...], *, depth: int, name: str | None = None) -> Step:
    """name: of the slot that the bytes of the record are noted in."""
    return record([step for _, step in _fields(schema, slots, depth=depth)], name)


def _field(schema: Any, slot: Slot | None, depth: int) -> Step:
    if not isinstance(schema, list):
        return _value(schema, slot, depth)
    if len(schema) != 2 or schema.count("null") != 1:
        raise _Unforeseen
    null = schema.index("null")
    return optional(null, _value(schema[1 - null], slot, depth))


def _value(schema: Any, slot: Slot | None, depth: int) -> Step:
    kind = _plain(schema)
    name = None if slot is None else slot.name
    _check_kind(kind, slot)
    match kind:
        case "int" | "long":
            return number(name)
        case "string" | "bytes":
            return byte_string(name)
        case "boolean":
            return boolean()
        case "float" | "double":
            return fixed(4 if kind == "float" else 8)
        case "fixed" if type(schema["size"]) is int and 0 <= schema["size"] <= _LARGEST_FIXED:
            return fixed(schema["size"])
        case "record" if slot is None or slot.fields:
            return _record(schema, () if slot is None else slot.fields, depth=depth + 1)
        case "record":
            return _record(schema, (), depth=depth + 1, name=name)
        case "array":
            return _array(schema["items"], slot)
        case _:
            raise _Unforeseen


_SERVES: Mapping[Kind, tuple[str, ...]] = {
    "number": ("int", "long"),
    "text": ("string",),
    "bytes": ("bytes",),
    "record": ("record",),
    "numbers": ("array",),
    "counts": ("array",),
    "bounds": ("array",),
}


def _check_kind(kind: Any, slot: Slot | None) -> None:
    if slot is not None and kind not in _SERVES[slot.kind]:
        raise _Unforeseen


def _plain(schema: Any) -> Any:
    """The kind of a type that is no union, through an annotation such as a logical type."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    return _plain(kind) if isinstance(kind, dict) and schema.keys() == {"type"} else kind


def _array(items: Any, slot: Slot | None) -> Step:
    if (slot is None or slot.kind == "numbers") and _plain(items) in ("int", "long"):
        return number_items(None if slot is None else slot.name)
    if not isinstance(items, dict) or items.get("type") != "record" or (slot is not None and slot.kind == "numbers"):
        raise _Unforeseen
    if slot is not None:
        _check_pair(items["fields"], slot)
    name = None if slot is None else slot.name
    match [_plain(field["type"]) for field in items["fields"]]:
        case ["int" | "long", "int" | "long"] if slot is None or slot.kind == "counts":
            return number_pairs(name)
        case ["int" | "long", "bytes" | "string"] if slot is None or slot.kind == "bounds":
            return byte_pairs() if slot is None else byte_pairs(slot.name, slot.keys)
        case _:
            raise _Unforeseen


def _check_pair(fields: list[Any], slot: Slot) -> None:
    """A wanted map must say which of its two fields is the key: by field id, or by name without ids."""
    names = [field["name"] if field.get("field-id") is None else int(field["field-id"]) for field in fields]
    if len(names) != 2 or names[0] not in ("key", slot.pair[0]) or names[1] not in ("value", slot.pair[1]):
        raise _Unforeseen
