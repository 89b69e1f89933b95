"""Columns of a manifest's wanted fields, made once per file from the writer's Avro schema and field ids.

Manifests are read by the hundred thousand entries, and most of an entry is statistics that a plan does not need:
skipping these costs a tenth of what building their values does. The schema is seen as it is written, so names may be
anything (iceberg 2.16), logical types have no say (iceberg 2.15), and an error knows its field.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeAlias, assert_never

from harness.errors import CorruptFileError
from harness.metadata.files.avro_values import (
    DAMAGE,
    PRIMITIVES,
    AvroColumn,
    FieldError,
    Read,
    Tally,
    decode_bytes,
    decode_long,
    enum,
    fields_step,
    fixed,
    int_map,
    items_step,
    list_column,
    memo,
    optional_column,
    pairs_map,
    plain_column,
    reason,
    record_column,
    sequence_step,
    skip_bytes,
    skip_bytes_items,
    skip_long,
    skip_long_items,
    union_column,
    unknown,
)
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Plain:
    """The value as it is: a record as the list of its values, an array as a list, an enum as its symbol."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A record, as the list of the wanted fields' values."""

    fields: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of records, as the list of each one's wanted values."""

    fields: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class IntMap:
    """A map with int keys, which Avro has only as an array of key-value records (iceberg 2.8); a dict comes back.

    keep: the keys to keep; None: all. A key with a null value, or that occurs twice, is left out.
    """

    key_id: int
    value_id: int
    keep: AbstractSet[int] | None = None


@dataclass(frozen=True, slots=True)
class Memo:
    """Any value, converted; equal encodings are decoded and converted once and give the same object.

    A `ValueError` of `convert` counts as damage of the field.
    """

    convert: Callable[[Any], Any]


Shape: TypeAlias = Plain | Struct | ListOf | IntMap | Memo


@dataclass(frozen=True, slots=True)
class Wanted:
    """A field to decode.

    names: what it is called in files that give no field ids; never used otherwise.
    kinds: the Avro types that it may have beside null; empty: any.
    """

    id: int
    names: tuple[str, ...] = ()
    shape: Shape = Plain()
    kinds: frozenset[str] = frozenset()


LONG, TEXT, BYTES, BOOLEAN = (
    frozenset(kinds) for kinds in (("int", "long"), ("string", "enum"), ("bytes", "fixed"), ("boolean",))
)
LONGS = frozenset(f"array of {kind}" for kind in LONG)
"""Kinds of fields, as readers expect them."""


def decode_error(error: Exception, *, file: str) -> CorruptFileError:
    """The error to raise for one that a decoder of a manifest met."""
    path = ".".join(error.path) if isinstance(error, FieldError) else None
    return CorruptFileError(
        f"Cannot decode Avro record: {reason(error)}", cause="CorruptManifest", file=file, field=path or None
    )


def schema_error(error: Exception, *, file: str) -> CorruptFileError:
    """The error for a writer's schema that is not Avro."""
    return CorruptFileError(
        f"Invalid Avro schema: {reason(error)}", cause="CorruptManifest", file=file, field="avro.schema"
    )


def column_of(schema: Any, type_: Any, shape: Shape, tally: Tally) -> AvroColumn:
    """A column of the values of `type_`, the file's schema or a part of it.

    Raises CorruptFileError: the type has not that shape, or the schema is not Avro.
    """
    compiler = _Compiler(tally)
    try:
        compiler.collect(schema, "")
        return compiler.column(type_, shape)
    except (*DAMAGE, RecursionError) as error:
        raise schema_error(error, file=tally.file) from error


def union_branches(schema: Any) -> list[Any]:
    """The branches of a union; any other type is its own only branch."""
    return schema if isinstance(schema, list) else [schema]


_COMPLEX = frozenset({"record", "error", "enum", "fixed", "array", "map"})


class _Compiler:
    """Makes columns. Named types are collected first, so that a use may come before or inside its definition.

    Types are counted at each use: a short schema may use a type of many fields many times.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._types, self._most_types = 0, tally.limits.schema_types
        self._inside: list[int] = []  # the declarations of records that a column is just made for
        # By namespace and name, apart: a namespace may be long, and its types many.
        self._names: dict[tuple[str, str], Any] = {}
        self._short_names: dict[str, Any] = {}

    def collect(self, schema: Any, namespace: str) -> None:
        for branch in union_branches(schema):
            if not isinstance(branch, dict):
                continue
            inner = namespace
            if "name" in branch and branch["type"] in ("record", "error", "enum", "fixed"):
                inner = branch.get("namespace", branch["name"].rpartition(".")[0] or namespace) or ""
                short = branch["name"].rpartition(".")[2]
                self._short_names.setdefault(short, branch)
                self._names[inner, short] = branch
            for field in branch.get("fields", ()):
                self.collect(field["type"], inner)
            for part in ("items", "values", "type"):
                if isinstance(branch.get(part), dict | list):
                    self.collect(branch[part], inner)

    def column(self, schema: Any, shape: Shape) -> AvroColumn:
        self._count(1)
        if isinstance(schema, list):  # a null branch is null in every shape
            columns = [self.column(branch, Plain() if branch == "null" else shape) for branch in schema]
            if len(schema) == 2 and schema.count("null") == 1:
                null = schema.index("null")
                return optional_column(columns[1 - null], null * 2)
            return union_column(columns)
        kind, declared = self._declared(schema)
        match shape:
            case Memo(convert=convert):
                return plain_column(partial(memo, self.skipper(schema), self.column(schema, Plain()), convert))
            case Struct(fields=fields):
                if kind != "record":
                    raise TypeError(f"expected a record, got {kind}")
                return self._record(declared, fields)
            case ListOf(fields=fields):
                if kind != "array":
                    raise TypeError(f"expected an array, got {kind}")
                return list_column([self.column(declared["items"], Struct(fields))], self._tally)
            case IntMap():
                return self._int_map(schema, declared, shape)
            case Plain():
                return self._plain(kind, declared)
            case _:
                assert_never(shape)

    def _declared(self, schema: Any) -> tuple[str, dict[str, Any]]:
        """Kind and declaration of a type that is not a union."""
        while True:
            # Before names, since a type may be named like a kind of types: in a declaration the kind is meant.
            if isinstance(schema, str):
                if schema in PRIMITIVES:
                    return schema, {}
                namespace, _, short = schema.rpartition(".")
                schema = self._names.get((namespace, short)) or self._short_names[short]
            kind = schema["type"]
            if isinstance(kind, str) and (kind in PRIMITIVES or kind in _COMPLEX):
                return ("record" if kind == "error" else kind), schema
            schema = kind

    def _count(self, types: int) -> None:
        self._types += types
        if self._types > self._most_types:
            self._tally.limits.check("schema_types", self._types, "types in its schema", file=self._tally.file)

    def _plain(self, kind: str, declared: dict[str, Any]) -> AvroColumn:
        match kind:
            case "fixed":
                return plain_column(partial(fixed, int(declared["size"])))
            case "enum":
                return plain_column(partial(enum, declared["symbols"]))
            case "array":
                return list_column([self.column(declared["items"], Plain())], self._tally)
            case "map":
                pair = plain_column(PRIMITIVES["string"]), self.column(declared["values"], Plain())
                return list_column(pair, self._tally)
            case "record" if id(declared) in self._inside:
                return plain_column(partial(self._within_itself, declared))
            case "record":
                self._inside.append(id(declared))
                columns = [(f["name"], self.column(f["type"], Plain())) for f in declared["fields"]]
                self._inside.pop()
                return record_column([(name, c.read) for name, c in columns], [c for _, c in columns], self._tally)
            case _:
                return plain_column(PRIMITIVES[kind])

    def _within_itself(self, declared: dict[str, Any], values: list[Any]) -> Read:
        """A step over a record that contains itself: each value is read into a column of its own."""

        def read(data: bytes, position: int) -> int:
            inside, self._inside = self._inside, []
            column = self._plain("record", declared)
            self._inside = inside
            position = column.read(data, position)
            values.extend(column.take())
            return position

        return read

    def _record(self, declared: dict[str, Any], wanted: tuple[Wanted, ...]) -> AvroColumn:
        self._count(len(declared["fields"]))
        slots = _slots(declared["fields"], wanted)
        columns: list[AvroColumn | None] = [None] * len(wanted)
        steps: list[tuple[str, Read]] = []
        for position, declared_field in enumerate(declared["fields"]):
            name, type_ = declared_field["name"], declared_field["type"]
            slot = slots.get(position)
            if slot is None:
                steps.append((name, self.skipper(type_)))
                continue
            for branch in union_branches(type_) if wanted[slot].kinds else ():
                kind = self._kind(branch)
                if kind != "null" and kind not in wanted[slot].kinds:
                    expected = " or ".join(sorted(wanted[slot].kinds))
                    raise TypeError(f"field {name!r} is of type {kind}, expected {expected}")
            columns[slot] = column = self.column(type_, wanted[slot].shape)
            steps.append((name, column.read))
        return record_column(steps, columns, self._tally)

    def _kind(self, schema: Any) -> str:
        if isinstance(schema, list):
            return "union"
        kind, declared = self._declared(schema)
        return f"array of {self._kind(declared['items'])}" if kind == "array" else kind

    def _int_map(self, schema: Any, declared: dict[str, Any], shape: IntMap) -> AvroColumn:
        inner = declared["items"] if declared.get("type") == "array" else None
        kind, item = ("", {}) if inner is None or isinstance(inner, list) else self._declared(inner)
        if kind != "record":  # statistics of an unforeseen form are unknown
            return plain_column(partial(unknown, self.skipper(schema)))
        wanted = (Wanted(shape.key_id, ("key",)), Wanted(shape.value_id, ("value",)))
        if _slots(item["fields"], wanted) == {0: 0, 1: 1}:
            match self._kinds(item):
                case ["int" | "long", "int" | "long"]:
                    return plain_column(partial(int_map, decode_long, skip_long, shape.keep, self._tally))
                case ["int" | "long", "bytes" | "string"]:
                    return plain_column(partial(int_map, decode_bytes, skip_bytes, shape.keep, self._tally))
                case _:
                    pass
        items = list_column([self._record(item, wanted)], self._tally)
        return plain_column(partial(pairs_map, items, shape.keep))

    def _kinds(self, declared: dict[str, Any]) -> list[str]:
        types = (f["type"] for f in declared["fields"])
        return ["union" if isinstance(t, list) else self._declared(t)[0] for t in types]

    def skipper(self, schema: Any) -> Read:
        self._count(1)
        if isinstance(schema, list):
            return self._union_skipper([self.skipper(branch) for branch in schema])
        kind, declared = self._declared(schema)
        match kind:
            case "int" | "long" | "enum":
                return skip_long
            case "bytes" | "string":
                return skip_bytes
            case "array":
                return self._array_skipper(declared["items"])
            case "map":
                return items_step([skip_bytes, self.skipper(declared["values"])], self._tally)
            case "record" if all(_is_flat(f["type"]) for f in declared["fields"]):
                return sequence_step([self.skipper(f["type"]) for f in declared["fields"]])
            case "record" if id(declared) not in self._inside:
                self._inside.append(id(declared))
                steps = [(f["name"], self.skipper(f["type"])) for f in declared["fields"]]
                self._inside.pop()
                return fields_step(steps, self._tally)
            case _:
                column = self._plain(kind, declared)

                def skip(data: bytes, position: int) -> int:
                    position = column.read(data, position)
                    column.take()
                    return position

                return skip

    def _union_skipper(self, skippers: list[Read]) -> Read:
        def skip(data: bytes, position: int) -> int:
            index, position = decode_long(data, position)
            if not 0 <= index < len(skippers):
                raise ValueError(f"union branch {index} does not exist")
            return skippers[index](data, position)

        return skip

    def _array_skipper(self, items: Any) -> Read:
        if isinstance(items, dict) and items.get("type") == "record":
            match self._kinds(items):
                case ["int" | "long", "int" | "long"]:
                    return skip_long_items
                case ["int" | "long", "bytes" | "string"]:
                    return skip_bytes_items
                case _:
                    pass
        return items_step([self.skipper(items)], self._tally)


def _is_flat(schema: Any) -> bool:
    """True if a type is primitive, or a union of primitive types; others may contain themselves."""
    types = (b.get("type") if isinstance(b, dict) else b for b in union_branches(schema))
    return all(isinstance(t, str) and t in PRIMITIVES for t in types)


def _slots(declared: list[dict[str, Any]], wanted: tuple[Wanted, ...]) -> dict[int, int]:
    """Index in `wanted` by position in the record: by id, and by name only for fields that have no id (iceberg 2.1)."""
    by_id = {w.id: slot for slot, w in enumerate(wanted)}
    by_name = {name: slot for slot, w in enumerate(wanted) for name in w.names}
    slots: dict[int, int] = {}
    for position, field in enumerate(declared):
        id_ = field.get("field-id")
        slot = by_name.get(field["name"]) if id_ is None else by_id.get(int(id_))
        if slot is not None and slot not in slots.values():
            slots[position] = slot
    return slots
