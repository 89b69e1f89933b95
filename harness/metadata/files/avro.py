"""Avro data files: physical schema and all rows as Arrow. Delete files in Avro are read the same way.

Positions are ordinals over all blocks (iceberg 7.3), so rows come whole and in file order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from harness.errors import UnsupportedError
from harness.metadata.files.avro_container import Cause, corrupt, open_container
from harness.metadata.files.avro_values import (
    DAMAGE,
    PRIMITIVES,
    AvroColumn,
    FieldError,
    Tally,
    enum,
    fixed,
    list_column,
    optional_column,
    plain_column,
    reason,
    record_column,
)
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.file_schema import STORED_LIST, STORED_MAP, STORED_STRUCT, PhysicalField, PhysicalSchema
from harness.storage.limits import DEFAULT, Limits

# The writer's schema as a tree. Logical types are interpreted exactly and for any year, and names may be such that Avro
# forbids (iceberg 2.16).


_CAUSE: Cause = "CorruptDataFile"

AvroKind: TypeAlias = Literal["value", "enum", "decimal", "struct", "list", "map", "pairs"]
"""The forms of values: `map` as pairs of text and value, `pairs` as records of key and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value of the schema.

    type: the stored type; a nested one gives only its kind.
    plain: the Avro type that its bytes are of, where `shape` does not say it; of `size` bytes if it is `fixed`.
    union: where null stands in the union that holds the value; `single`: in no place of it, `none`: there is no union.
    children, names, ids: record fields; or the element; or key and value.
    symbols: of an enum, by index.
    """

    type: dt.Type
    plain: str
    size: int = 0
    shape: AvroKind = "value"
    union: Literal["none", "null first", "null last", "single"] = "none"
    children: tuple[Node, ...] = ()
    names: tuple[str, ...] = ()
    ids: tuple[int | None, ...] = ()
    symbols: tuple[str, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the values; every field may be null, whatever the file says."""
        fields = [pa.field(name, child.arrow) for name, child in zip(self.names, self.children, strict=True)]
        match self.shape:
            case "struct":
                return pa.struct(fields)
            case "list":
                return pa.list_(fields[0])
            case "map" | "pairs":
                return pa.map_(fields[0].type, fields[1].type)
            case _:
                return pa.null() if isinstance(self.type, dt.UnknownType) else dt.arrow_type(self.type)

    def physical(self, name: str, id_: int | None) -> PhysicalField:
        """The node as a stored field."""
        return PhysicalField(name=name, id=id_, type=self.type, children=self.fields())

    def fields(self) -> tuple[PhysicalField, ...]:
        """The children as stored fields."""
        return tuple(c.physical(n, i) for c, n, i in zip(self.children, self.names, self.ids, strict=True))


def parse_writer_schema(schema: Any, *, file: str, limits: Limits = DEFAULT) -> Node:
    """The tree of a file's schema; its root is a struct.

    Raises:
        UnsupportedError: a union other than of null and one type, a type that contains itself, a root that is no record
            (iceberg 7.3).
        CorruptFileError: not an Avro schema.
        LimitError: it has more types, a named one counted at each use, or more levels than `limits` allow.
    """
    try:
        root = _Parser(file, limits).node(schema, "", ())
    except DAMAGE as error:
        raise corrupt(f"its schema is not Avro: {error}", file, _CAUSE) from error
    if root.shape != "struct" or root.union != "none":
        raise _unsupported("its root is not a record", file)
    return root


_PRIMITIVES: dict[str, dt.Type] = {
    "null": dt.UnknownType(),
    "boolean": dt.BooleanType(),
    "int": dt.IntegerType(32),
    "long": dt.IntegerType(64),
    "float": dt.FloatType(32),
    "double": dt.FloatType(64),
    "bytes": dt.BinaryType(),
    "string": dt.StringType(),
}


_Path: TypeAlias = tuple[str, ...]
_FullName: TypeAlias = tuple[str, str]
"""Namespace and name of a type."""

_MAX_FIXED = (1 << 31) - 1  # bytes; Arrow has no longer type


@dataclass(slots=True)
class _Parser:
    """Paths, for messages, and full names stay in parts: put together, a long name is copied for each type in it."""

    file: str
    limits: Limits
    types: int = 0
    depth: int = 0
    named: dict[_FullName, Mapping[str, Any]] = field(default_factory=dict)
    enums: dict[int, Node] = field(default_factory=dict)
    inside: list[_FullName] = field(default_factory=list)

    def node(self, schema: Any, namespace: str, path: _Path) -> Node:
        # Counted at each use: a chain of types that each hold the next one twice is short, and means millions.
        self.types += 1
        self.limits.check("schema_types", self.types, "types in its schema", file=self.file)
        self.depth += 1
        self.limits.check("nesting", self.depth, "levels of types", file=self.file)
        node = self.type_of(schema, namespace, path)
        self.depth -= 1
        return node

    def type_of(self, schema: Any, namespace: str, path: _Path) -> Node:
        match schema:
            case list():
                return self.union(schema, namespace, path)
            case str():
                return self.named_type(schema, namespace, path)
            case {"type": "record" | "error" | "enum" | "fixed" as kind, "name": str(name)}:
                full = _full_name(name, str(schema.get("namespace") or namespace))
                self.named[full] = schema
                return self.declared(kind, schema, full, path)
            case {"type": "array", "items": items}:
                return self.array(schema, items, namespace, path)
            case {"type": "map", "values": values}:
                value = self.node(values, namespace, (*path, "value"))
                key = Node(type=dt.StringType(), plain="string")
                ids = (_id(schema, "key-id"), _id(schema, "value-id"))
                return Node(
                    type=STORED_MAP, plain="map", shape="map", children=(key, value), names=("key", "value"), ids=ids
                )
            case {"type": str(name)} if name in _PRIMITIVES:
                return _with_logical_type(Node(type=_PRIMITIVES[name], plain=name), schema)
            case {"type": inner}:
                return self.node(inner, namespace, path)
            case _:
                raise corrupt(f"its schema has something that is no Avro type at {_shown(path)}", self.file, _CAUSE)

    def union(self, branches: list[Any], namespace: str, path: _Path) -> Node:
        nodes = [self.node(branch, namespace, path) for branch in branches]
        if any(node.union != "none" for node in nodes):
            raise corrupt(f"its schema has a union right inside a union at {_shown(path)}", self.file, _CAUSE)
        nulls = [isinstance(node.type, dt.UnknownType) for node in nodes]
        if len(nodes) == 1:
            return replace(nodes[0], union="single")
        if nulls == [True, False]:
            return replace(nodes[1], union="null first")
        if nulls == [False, True]:
            return replace(nodes[0], union="null last")
        raise _unsupported(
            f"column {_shown(path)} is a union of {len(branches)} types, expected null and one other", self.file
        )

    def named_type(self, name: str, namespace: str, path: _Path) -> Node:
        if name in _PRIMITIVES:
            return Node(type=_PRIMITIVES[name], plain=name)
        for full in (_full_name(name, namespace), _full_name(name, "")):
            if full in self.named:
                schema = self.named[full]
                return self.declared(schema["type"], schema, full, path)
        raise corrupt(f"its schema names an unknown type {name!r} at {_shown(path)}", self.file, _CAUSE)

    def declared(self, kind: str, schema: Mapping[str, Any], full: _FullName, path: _Path) -> Node:
        if kind == "enum":
            if id(schema) not in self.enums:
                symbols = tuple(str(symbol) for symbol in schema.get("symbols", ()))
                self.enums[id(schema)] = Node(type=dt.StringType(), plain="int", shape="enum", symbols=symbols)
            return self.enums[id(schema)]
        if kind != "fixed":
            return self.record(schema, full, path)
        size = schema.get("size")
        if not isinstance(size, int) or not 0 <= size <= _MAX_FIXED:
            raise corrupt(f"its schema has a fixed type of size {size!r} at {_shown(path)}", self.file, _CAUSE)
        return _with_logical_type(Node(type=dt.FixedType(size), plain="fixed", size=size), schema)

    def record(self, schema: Mapping[str, Any], full: _FullName, path: _Path) -> Node:
        if full in self.inside:
            name = ".".join(filter(None, full))
            raise _unsupported(f"the record {name} at {_shown(path)} contains itself", self.file)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(f, dict) and {"name", "type"} <= f.keys() for f in fields
        ):
            raise corrupt(f"its schema has a record without proper fields at {_shown(path)}", self.file, _CAUSE)
        names = tuple(str(f["name"]) for f in fields)
        if len(set(names)) < len(names):
            raise corrupt(f"its schema has two fields of one name at {_shown(path)}", self.file, _CAUSE)
        self.inside.append(full)
        nodes = tuple(self.node(f["type"], full[0], (*path, str(f["name"]))) for f in fields)
        self.inside.pop()
        ids = tuple(_id(f, "field-id") for f in fields)
        return Node(type=STORED_STRUCT, plain="record", shape="struct", children=nodes, names=names, ids=ids)

    def array(self, schema: Mapping[str, Any], items: Any, namespace: str, path: _Path) -> Node:
        element = self.node(items, namespace, (*path, "element"))
        if schema.get("logicalType") != "map":
            ids = (_id(schema, "element-id"),)
            return Node(type=STORED_LIST, plain="array", shape="list", children=(element,), names=("element",), ids=ids)
        if element.shape != "struct" or element.union != "none" or len(element.children) != 2:
            raise corrupt(
                f"column {_shown(path)} is a map whose items are not records of key and value", self.file, _CAUSE
            )
        return replace(element, type=STORED_MAP, plain="array", shape="pairs", names=("key", "value"))


def _with_logical_type(node: Node, schema: Mapping[str, Any]) -> Node:
    """The node as its logical type reads it; one that is unknown or misplaced is ignored, as Avro says."""
    utc = schema.get("adjust-to-utc") is True
    match schema.get("logicalType"), node.plain:
        case "decimal", "bytes" | "fixed":
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38):
                return node
            return replace(node, type=dt.DecimalType(precision, scale), shape="decimal") if precision > 0 else node
        case "uuid", "fixed" if node.size == 16:
            return replace(node, type=dt.UuidType())
        case "date", "int":
            return replace(node, type=dt.DateType())
        case "time-millis", "int":
            return replace(node, type=dt.TimeType("ms"))
        case "time-micros", "long":
            return replace(node, type=dt.TimeType("us"))
        case str(name), "long" if name in _TIMESTAMPS:
            return replace(node, type=dt.TimestampType(_TIMESTAMPS[name], utc and not name.startswith("local-")))
        case _:
            return node


_TIMESTAMPS: dict[str, Literal["ms", "us", "ns"]] = {
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
    "local-timestamp-nanos": "ns",
}


def _full_name(name: str, namespace: str) -> _FullName:
    own, dot, short = name.rpartition(".")
    return (own if dot else namespace, short)


def _shown(path: _Path) -> str:
    return ".".join(path) or "the root"


def _id(schema: Mapping[str, Any], key: str) -> int | None:
    value = schema.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unsupported(reason: str, file: str) -> UnsupportedError:
    return UnsupportedError(
        f"Cannot read Avro file: {reason}; rewrite it", cause="UnsupportedType", file=file, rule="iceberg 7.3"
    )


# Records as Arrow columns. Avro has no checksum of its records: a damaged byte shows only where it breaks what the
# schema demands, so every demand is checked: branches of unions, booleans, symbols, the last byte of a block.


def _column(node: Node, tally: Tally) -> AvroColumn:
    match node.shape:
        case "struct":
            children = [_column(child, tally) for child in node.children]
            steps = [(name, child.read) for name, child in zip(node.names, children, strict=True)]
            column = record_column(steps, children, tally)
        case "list" | "map" | "pairs":
            column = list_column([_column(child, tally) for child in node.children], tally)
        case "enum":
            column = plain_column(partial(enum, node.symbols))
        case "value" | "decimal":
            column = plain_column(partial(fixed, node.size) if node.plain == "fixed" else PRIMITIVES[node.plain])
    nulls = {"null first": 0, "null last": 2, "single": None}
    return column if node.union == "none" else optional_column(column, nulls[node.union])


def _array(node: Node, column: AvroColumn) -> pa.Array:
    """The values of a column, of the type and encoding that the node says."""
    match node.shape:
        case "struct":
            children = _arrays(node, column)
            return pa.Array.from_buffers(node.arrow, len(column.values), [_validity(column.values)], children=children)
        case "list" | "map" | "pairs":
            sizes = column.values
            *starts, end = accumulate((size or 0 for size in sizes), initial=0)
            known = (None if size is None else start for size, start in zip(sizes, starts, strict=True))
            offsets, parts = array_of([*known, end], pa.int32()), _arrays(node, column)
            if node.shape == "list":
                return pa.ListArray.from_arrays(offsets, parts[0], type=node.arrow)
            if parts[0].null_count:
                raise ValueError("a map's key is null")
            return pa.MapArray.from_arrays(offsets, *parts)
        case "decimal":
            return _decimals(node, column.values)
        case "enum" | "value":
            if not pa.types.is_temporal(node.arrow):
                return array_of(column.values, node.arrow)
            # Through their integers, since times may lie in any year.
            integers = pa.int32() if node.arrow.bit_width == 32 else pa.int64()
            return array_of(column.values, integers).view(node.arrow)


def _arrays(node: Node, column: AvroColumn) -> list[pa.Array]:
    columns = [child for child in column.children if child is not None]
    return [_array(child, part) for child, part in zip(node.children, columns, strict=True)]


def _decimals(node: Node, values: Sequence[bytes | None]) -> pa.Array:
    """Big-endian two's complement bytes of any length; a value with too many digits is damage."""
    assert isinstance(node.type, dt.DecimalType)
    limit = 10**node.type.precision
    unscaled = [None if v is None else int.from_bytes(v, "big", signed=True) for v in values]
    if any(v is not None and abs(v) >= limit for v in unscaled):
        raise ValueError(f"a value has more digits than {node.type}")
    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in unscaled)
    present = [v is not None for v in unscaled]
    return pa.Array.from_buffers(node.arrow, len(unscaled), [_validity(present), pa.py_buffer(data)])


def _validity(present: Sequence[bool]) -> pa.Buffer | None:
    """A bitmap of the values that are there; None if all are."""
    return None if all(present) else array_of(present, pa.bool_()).buffers()[1]


def read_avro(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[PhysicalSchema, pa.Table]:
    """The columns of an Avro container and all its rows, in file order.

    Values keep their stored units. Enums come as text, a UUID in fixed bytes as Arrow's uuid.

    Raises:
        CorruptFileError: not an Avro container, cut, or damaged: a checksum, a length, or a value that its type does
            not have (iceberg 2.14, 7.3).
        EncryptedTableError: an encrypted stream.
        UnsupportedError: a codec outside iceberg 2.14, a union other than of null and one type, a recursive type (7.3).
        LimitError: it asks for more than `limits` allow.
    """
    container = open_container(data, file=file, cause=_CAUSE, limits=limits)
    root = parse_writer_schema(container.schema, file=file, limits=limits)
    column = _column(root, Tally(limits, file, is_manifest=False))
    try:
        for count, block in container.blocks():
            container.read_block(column, count, block)
        array = _array(root, column)
    except (pa.ArrowException, OverflowError) as error:
        raise corrupt(f"a value does not fit its type: {error}", file, _CAUSE) from error
    except DAMAGE as error:
        path = ".".join(error.path) if isinstance(error, FieldError) else None
        raise corrupt(reason(error), file, _CAUSE, path) from error
    return root.fields(), pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


def schema_of_avro(head: bytes, *, file: str, limits: Limits = DEFAULT) -> PhysicalSchema:
    """The columns of an Avro container, from first bytes that hold all of its header. Raises as `read_avro`."""
    container = open_container(head, file=file, cause=_CAUSE, limits=limits)
    return parse_writer_schema(container.schema, file=file, limits=limits).fields()
