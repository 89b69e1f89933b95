"""Decoders made from a writer's Avro schema and a wish list of field ids: closures from (bytes, position) to values.

A decoder returns the value and the position after it; a skipper only the position. Both are made once per file.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, assert_never

from harness.errors import CorruptFileError
from harness.metadata.files.avro_numbers import (
    DAMAGE,
    FieldError,
    decode_bytes,
    decode_long,
    decode_string,
    reason,
    within,
)
from harness.metadata.iceberg.avro_leaves import (
    Decoder,
    Skipper,
    Tally,
    array_decoder,
    bytes_map_decoder,
    decode_boolean,
    enum_decoder,
    fixed_decoder,
    long_map_decoder,
    map_decoder,
    memo,
    optional_decoder,
    packed_decoder,
    pairs_decoder,
    sequence_skipper,
    skip_bytes,
    skip_bytes_items,
    skip_long,
    skip_long_items,
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
    """The error to raise for one that a decoder met."""
    path = ".".join(error.path) if isinstance(error, FieldError) else None
    return CorruptFileError(
        f"Cannot decode Avro record: {reason(error)}", cause="CorruptManifest", file=file, field=path or None
    )


def schema_error(error: Exception, *, file: str) -> CorruptFileError:
    """The error for a writer's schema that is not Avro."""
    return CorruptFileError(
        f"Invalid Avro schema: {reason(error)}", cause="CorruptManifest", file=file, field="avro.schema"
    )


def record_decoder(schema: Any, wanted: tuple[Wanted, ...], *, file: str, tally: Tally) -> Decoder:
    """A decoder of the file's records that gives a list of the values of `wanted`, None for fields that are missing.

    tally: counts what the records claim.

    Raises:
        CorruptFileError: the schema is not a record, or not Avro.
    """
    return _compiled(schema, schema, Struct(wanted), tally, file)


def plain_decoder(schema: Any, type_: Any, tally: Tally, *, file: str) -> Decoder:
    """A decoder of the values of `type_`, which is a part of the file's schema, as they are; raises as above."""
    return _compiled(schema, type_, Plain(), tally, file)


def _compiled(schema: Any, type_: Any, shape: Shape, tally: Tally, file: str) -> Decoder:
    compiler = _Compiler(tally)
    try:
        compiler.collect(schema, "")
        return compiler.decoder(type_, shape)
    except (*DAMAGE, RecursionError) as error:
        raise schema_error(error, file=file) from error


def union_branches(schema: Any) -> list[Any]:
    """The branches of a union; any other type is its own only branch."""
    return schema if isinstance(schema, list) else [schema]


_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_COMPLEX = frozenset({"record", "error", "enum", "fixed", "array", "map"})


class _Compiler:
    """Makes decoders. Named types are collected first, so that a use may come before or inside its definition.

    Types are counted at each use: a short schema may use a type of many fields many times.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._types, self._most_types = 0, tally.limits.schema_types
        self._made: dict[str | int, Decoder] = {}
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

    def decoder(self, schema: Any, shape: Shape) -> Decoder:
        self._count(1)
        if isinstance(schema, list):
            return self._union_decoder(schema, shape)
        kind, declared = self._declared(schema)
        match shape:
            case Memo(convert=convert):
                return memo(self.skipper(schema), self.decoder(schema, Plain()), convert)
            case Struct(fields=fields):
                if kind != "record":
                    raise TypeError(f"expected a record, got {kind}")
                return self._record_decoder(declared, fields)
            case ListOf(fields=fields):
                if kind != "array":
                    raise TypeError(f"expected an array, got {kind}")
                return array_decoder(self.decoder(declared["items"], Struct(fields)), self._tally)
            case IntMap():
                return self._int_map_decoder(declared, shape)
            case Plain():
                return self._plain_decoder(kind, declared)
            case _:
                assert_never(shape)

    def _declared(self, schema: Any) -> tuple[str, dict[str, Any]]:
        """Kind and declaration of a type that is not a union."""
        while True:
            # Before names, since a type may be named like a kind of types: in a declaration the kind is meant.
            if isinstance(schema, str):
                if schema in _PRIMITIVES:
                    return schema, {}
                schema = self._named(schema)
            kind = schema["type"]
            if isinstance(kind, str) and (kind in _PRIMITIVES or kind in _COMPLEX):
                return ("record" if kind == "error" else kind), schema
            schema = kind

    def _named(self, name: str) -> Any:
        namespace, _, short = name.rpartition(".")
        return self._names[namespace, short] if (namespace, short) in self._names else self._short_names[short]

    def _count(self, types: int) -> None:
        self._types += types
        if self._types > self._most_types:
            self._tally.limits.check("schema_types", self._types, "types in its schema", file=self._tally.file)

    def _plain_decoder(self, kind: str, declared: dict[str, Any]) -> Decoder:
        match kind:
            case "int" | "long":
                return decode_long
            case "string":
                return decode_string
            case "bytes":
                return decode_bytes
            case "null":
                return lambda data, position: (None, position)
            case "boolean":
                return decode_boolean
            case "float" | "double":
                return packed_decoder("<f" if kind == "float" else "<d")
            case "fixed":
                return fixed_decoder(int(declared["size"]))
            case "enum":
                return enum_decoder(declared["symbols"])
            case "array":
                return array_decoder(self._lazy(declared["items"]), self._tally)
            case "map":
                return map_decoder(self._lazy(declared["values"]), self._tally)
            case "record":
                return self._values_decoder(declared)
            case _:
                raise TypeError(f"unknown type {kind!r}")

    def _lazy(self, schema: Any) -> Decoder:
        """A decoder made at first use, because a named type may contain itself, and once for all uses of it."""
        key = schema if isinstance(schema, str) else id(schema)

        def decode(data: bytes, position: int) -> tuple[Any, int]:
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = self.decoder(schema, Plain())
            return made(data, position)

        return decode

    def _union_decoder(self, branches: list[Any], shape: Shape) -> Decoder:
        # A null branch is null in every shape.
        decoders = [self.decoder(b, Plain() if b == "null" else shape) for b in branches]
        if len(branches) == 2 and branches.count("null") == 1:
            null = branches.index("null")
            return optional_decoder(null * 2, decoders[1 - null])

        def decode(data: bytes, position: int) -> tuple[Any, int]:
            index, position = decode_long(data, position)
            if not 0 <= index < len(decoders):
                raise ValueError(f"union branch {index} does not exist")
            return decoders[index](data, position)

        return decode

    def _values_decoder(self, declared: dict[str, Any]) -> Decoder:
        self._count(len(declared["fields"]))
        fields = [(f["name"], self._lazy(f["type"])) for f in declared["fields"]]
        nothing = self._tally.nothing

        def decode(data: bytes, position: int) -> tuple[list[Any], int]:
            values = []
            name, start = "", position
            try:
                for name, decoder in fields:  # noqa: B007 (the error needs the name)
                    value, position = decoder(data, position)
                    values.append(value)
            except DAMAGE as error:
                raise within(name, error) from error
            if position == start:  # records of no bytes may hold each other, each twice the one before
                nothing()
            return values, position

        return decode

    def _record_decoder(self, declared: dict[str, Any], wanted: tuple[Wanted, ...]) -> Decoder:
        self._count(len(declared["fields"]))
        slots = _slots(declared["fields"], wanted)
        width, nothing = len(wanted), self._tally.nothing
        steps: list[tuple[str, Decoder | None, Skipper, int]] = []
        for position_in_record, declared_field in enumerate(declared["fields"]):
            name, type_ = declared_field["name"], declared_field["type"]
            slot = slots.get(position_in_record)
            if slot is None:
                steps.append((name, None, self.skipper(type_), 0))
                continue
            self._check_kind(declared_field, wanted[slot])
            steps.append((name, self.decoder(type_, wanted[slot].shape), _never, slot))

        def decode(data: bytes, position: int) -> tuple[list[Any], int]:
            values: list[Any] = [None] * width
            name, start = "", position
            try:
                for name, decoder, skip, slot in steps:  # noqa: B007 (the error needs the name)
                    if decoder is None:
                        position = skip(data, position)
                    else:
                        values[slot], position = decoder(data, position)
            except DAMAGE as error:
                raise within(name, error) from error
            if position == start:
                nothing()
            return values, position

        return decode

    def _check_kind(self, declared: dict[str, Any], wanted: Wanted) -> None:
        for branch in union_branches(declared["type"]) if wanted.kinds else ():
            kind = self._kind(branch)
            if kind != "null" and kind not in wanted.kinds:
                expected = " or ".join(sorted(wanted.kinds))
                raise TypeError(f"field {declared['name']!r} is of type {kind}, expected {expected}")

    def _kind(self, schema: Any) -> str:
        if isinstance(schema, list):
            return "union"
        kind, declared = self._declared(schema)
        return f"array of {self._kind(declared['items'])}" if kind == "array" else kind

    def _int_map_decoder(self, declared: dict[str, Any], shape: IntMap) -> Decoder:
        """Statistics of an unforeseen form are decoded, and come back as None: unknown."""
        if declared.get("type") != "array":
            plain = self._plain_decoder(*self._declared(declared or "null"))
            return lambda data, position: (None, plain(data, position)[1])
        kind, item = self._declared(declared["items"]) if not isinstance(declared["items"], list) else ("union", {})
        if kind != "record":
            plain = self._plain_decoder("array", declared)
            return lambda data, position: (None, plain(data, position)[1])
        wanted = (Wanted(shape.key_id, ("key",)), Wanted(shape.value_id, ("value",)))
        if _slots(item["fields"], wanted) == {0: 0, 1: 1}:
            match self._kinds(item):
                case ["int" | "long", "int" | "long"]:
                    return long_map_decoder(shape.keep, self._tally)
                case ["int" | "long", "bytes" | "string"]:
                    return bytes_map_decoder(shape.keep, self._tally)
                case _:
                    pass
        return pairs_decoder(self._record_decoder(item, wanted), shape.keep, self._tally)

    def _kinds(self, declared: dict[str, Any]) -> list[str]:
        types = (f["type"] for f in declared["fields"])
        return ["union" if isinstance(t, list) else self._declared(t)[0] for t in types]

    def skipper(self, schema: Any) -> Skipper:
        self._count(1)
        if isinstance(schema, list):
            skippers = [self.skipper(branch) for branch in schema]

            def skip_union(data: bytes, position: int) -> int:
                index, position = decode_long(data, position)
                if not 0 <= index < len(skippers):
                    raise ValueError(f"union branch {index} does not exist")
                return skippers[index](data, position)

            return skip_union
        kind, declared = self._declared(schema)
        match kind:
            case "int" | "long" | "enum":
                return skip_long
            case "bytes" | "string":
                return skip_bytes
            case "array":
                return self._array_skipper(declared["items"])
            case "record" if all(_is_flat(f["type"]) for f in declared["fields"]):
                return sequence_skipper([self.skipper(f["type"]) for f in declared["fields"]])
            case _:
                decode = self._plain_decoder(kind, declared)
                return lambda data, position: decode(data, position)[1]

    def _array_skipper(self, items: Any) -> Skipper:
        if isinstance(items, dict) and items.get("type") == "record":
            match self._kinds(items):
                case ["int" | "long", "int" | "long"]:
                    return skip_long_items
                case ["int" | "long", "bytes" | "string"]:
                    return skip_bytes_items
                case _:
                    pass
        decode = array_decoder(self._lazy(items), self._tally)
        return lambda data, position: decode(data, position)[1]


def _never(data: bytes, position: int) -> int:
    raise AssertionError("a wanted field is decoded")


def _is_flat(schema: Any) -> bool:
    """Whether a type is primitive, or a union of such; others may contain themselves."""
    types = (b.get("type") if isinstance(b, dict) else b for b in union_branches(schema))
    return all(isinstance(t, str) and t in _PRIMITIVES for t in types)


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
