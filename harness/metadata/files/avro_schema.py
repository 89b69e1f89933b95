"""The writer's schema of an Avro file as a tree, for all readers of Avro: manifests, data files, and delete files.

Names are resolved: each use of a named type is replaced by the tree of its declaration. Names that Avro forbids are
accepted (iceberg 2.16). Recursive types are refused, because Iceberg has none and their values may nest without end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from harness.errors import CorruptFileError, HarnessError, UnsupportedError
from harness.metadata.files.avro_values import DAMAGE
from harness.metadata.files.documents import check_document
from harness.storage.limits import Limits
from harness.storage.records import dataclass

Cause: TypeAlias = Literal["CorruptManifest", "CorruptDataFile"]
"""The cause of errors about a file, which depends on the role of the file in the table."""

AvroKind: TypeAlias = Literal[
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
    "fixed", "enum", "array", "map", "record", "union",
]  # fmt: skip

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_MAX_FIXED = (1 << 31) - 1  # bytes; Arrow has no longer fixed type


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A type in the schema.

    Attributes:
        kind: The kind of the type.
        size: The bytes of a `fixed`.
        symbols: The symbols of an `enum`, by index.
        children: The fields of a record, the element of an array, the value of a map, or the branches of a union.
        names: The names of a record's fields.
        ids: The ids of a record's fields. None: the file has no id for the field.
        declared: The declaration in the schema, with logical types and the ids of elements, keys, and values.
    """

    kind: AvroKind
    size: int = 0
    symbols: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()
    names: tuple[str, ...] = ()
    ids: tuple[int | None, ...] = ()
    declared: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def value(self) -> Node:
        """The type of the values that are not null. A union of several such types is returned unchanged."""
        others = [branch for branch in self.children if branch.kind != "null"] if self.kind == "union" else []
        return others[0] if len(others) == 1 else self

    @property
    def logical_kind(self) -> str:
        """The logical type of the values, or their kind if they have none."""
        return str(self.value.declared.get("logicalType", self.value.kind))

    def field_index(self, id_: int, *names: str) -> int | None:
        """Return the index of a field in a record: by id, or by name if the field has no id (iceberg 2.1)."""
        for place, (field_id, name) in enumerate(zip(self.ids, self.names, strict=True)):
            if field_id == id_ or (field_id is None and name in names):
                return place
        return None

    def field(self, id_: int, *names: str) -> Node | None:
        """Return the type of a field in a record, or None if this is not a record or has no such field."""
        record = self.value
        place = record.field_index(id_, *names) if record.kind == "record" else None
        return None if place is None else record.children[place]

    def declared_id(self, key: str) -> int | None:
        """Return an id in the declaration, for example `element-id`."""
        return _id(self.declared, key)


def parse_schema(text: bytes, *, file: str, cause: Cause, limits: Limits) -> Node:
    """Parse the schema of a file into a tree. Files of one table have the same schema, which is parsed once.

    Raises:
        CorruptFileError: The text is not an Avro schema.
        UnsupportedError: A type contains itself.
        LimitError: The schema is larger than `limits` allow, or has more types or levels. Types count at every use.
    """
    check_document(text, file=file, limits=limits)
    try:
        return _parse_cached(text, cause, limits)
    except HarnessError as error:
        raise error.within(file=file) from error.__cause__


@lru_cache(maxsize=8)
def _parse_cached(text: bytes, cause: Cause, limits: Limits) -> Node:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _corrupt("its header has no readable avro.schema", cause) from error
    try:
        return _AvroSchemaParser(cause, limits).node(document, "", ())
    except DAMAGE as error:
        raise _corrupt(f"its schema is not Avro: {error}", cause) from error


_Path: TypeAlias = tuple[str, ...]
_FullName: TypeAlias = tuple[str, str]
"""The namespace and the name of a type."""


@dataclass(slots=True)
class _AvroSchemaParser:
    """The state of parsing a schema.

    Paths (for messages) and full names are tuples. As joined text, a long name would be copied for each type inside of
    it.
    """

    cause: Cause
    limits: Limits
    types: int = 0
    depth: int = 0
    named: dict[_FullName, Mapping[str, Any]] = field(default_factory=dict)
    enums: dict[int, Node] = field(default_factory=dict)
    inside: list[_FullName] = field(default_factory=list)

    def node(self, schema: Any, namespace: str, path: _Path) -> Node:
        # Types count at each use: in a chain of types that each use the next one twice, a short schema means millions
        # of types.
        self.types += 1
        self.limits.check("schema_types", self.types, "types in its schema")
        self.depth += 1
        self.limits.check("nesting", self.depth, "levels of types")
        node = self.type_of(schema, namespace, path)
        self.depth -= 1
        return node

    def type_of(self, schema: Any, namespace: str, path: _Path) -> Node:
        match schema:
            case list():
                branches = tuple(self.node(branch, namespace, path) for branch in schema)
                if any(branch.kind == "union" for branch in branches):
                    raise self.corrupt("a union directly inside a union", path)
                return Node(kind="union", children=branches)
            case str():
                return self.named_type(schema, namespace, path)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
                full = _full_name(name, str(schema.get("namespace") or namespace))
                self.named[full] = schema
                return self.declared(schema, full, path)
            case {"type": "array", "items": items}:
                element = self.node(items, namespace, (*path, "element"))
                return Node(kind="array", children=(element,), declared=schema)
            case {"type": "map", "values": values}:
                value = self.node(values, namespace, (*path, "value"))
                return Node(kind="map", children=(value,), declared=schema)
            case {"type": str(name)} if name in _PRIMITIVES:
                return Node(kind=name, declared=schema)  # type: ignore[arg-type]  # one of the primitive kinds
            case {"type": inner} if inner not in _NAMED:
                return self.node(inner, namespace, path)
            case _:
                raise self.corrupt("an invalid Avro type", path)

    def named_type(self, name: str, namespace: str, path: _Path) -> Node:
        if name in _PRIMITIVES:
            return Node(kind=name)  # type: ignore[arg-type]  # one of the primitive kinds
        for full in (_full_name(name, namespace), _full_name(name, "")):
            if full in self.named:
                return self.declared(self.named[full], full, path)
        raise self.corrupt(f"the unknown type name {name!r}", path)

    def declared(self, schema: Mapping[str, Any], full: _FullName, path: _Path) -> Node:
        match schema["type"]:
            case "enum":
                if id(schema) not in self.enums:
                    symbols = tuple(str(symbol) for symbol in schema.get("symbols", ()))
                    self.enums[id(schema)] = Node(kind="enum", symbols=symbols)
                return self.enums[id(schema)]
            case "fixed":
                size = schema.get("size")
                if not isinstance(size, int) or not 0 <= size <= _MAX_FIXED:
                    raise self.corrupt(f"a fixed type of size {size!r}", path)
                return Node(kind="fixed", size=size, declared=schema)
            case _:
                return self.record(schema, full, path)

    def record(self, schema: Mapping[str, Any], full: _FullName, path: _Path) -> Node:
        if full in self.inside:
            name = ".".join(filter(None, full))
            raise unsupported_schema(f"the record {name} at {path_text(path)} contains itself")
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(f, dict) and {"name", "type"} <= f.keys() for f in fields
        ):
            raise self.corrupt("a record with invalid fields", path)
        names = tuple(str(f["name"]) for f in fields)
        if len(set(names)) < len(names):
            raise self.corrupt("two fields with the same name", path)
        self.inside.append(full)
        nodes = tuple(self.node(f["type"], full[0], (*path, str(f["name"]))) for f in fields)
        self.inside.pop()
        return Node(kind="record", children=nodes, names=names, ids=tuple(_id(f, "field-id") for f in fields))

    def corrupt(self, reason: str, path: _Path) -> CorruptFileError:
        return _corrupt(f"its schema has {reason} at {path_text(path)}", self.cause)


def _full_name(name: str, namespace: str) -> _FullName:
    prefix, dot, short = name.rpartition(".")
    return (prefix if dot else namespace, short)


def path_text(path: tuple[str, ...]) -> str:
    """Return the path of a type for a message."""
    return ".".join(path) or "the root"


def _id(declared: Mapping[str, Any], key: str) -> int | None:
    value = declared.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _corrupt(reason: str, cause: Cause) -> CorruptFileError:
    return CorruptFileError(f"Cannot decode Avro file: {reason}; restore it", cause=cause, field="avro.schema")


def unsupported_schema(reason: str) -> UnsupportedError:
    """Return the error for a schema that Avro allows but Iceberg does not use."""
    return UnsupportedError(f"Cannot read Avro file: {reason}; rewrite it", cause="UnsupportedType", rule="iceberg 7.3")
