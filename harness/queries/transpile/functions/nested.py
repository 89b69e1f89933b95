"""Functions of structs and maps."""

from __future__ import annotations

from typing import Unpack

from sqlglot import exp

from harness.metadata.model.schema import Field, IntegerType, ListType, MapType, StringType, StructType, UnknownType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.lists import list_of
from harness.queries.transpile.functions.registry import Call, Domain, Function, FunctionKind, Lowering, said
from harness.queries.transpile.values import BOOLEAN, Typed, alike, type_name

_KEYS = (StringType, IntegerType)


def _packed(call: Call) -> Typed | None:
    """`struct_pack(a := 1)` and `{'a': 1}`."""
    fields, parts = [], []
    for place, item in enumerate(call.arguments, 1):
        if not isinstance(item, exp.PropertyEQ) or not isinstance(item.this, exp.Identifier | exp.Literal):
            raise call.refused("a struct whose fields have no names", "use {'name': value}")
        value = call.expressions.translate(item.expression)
        if isinstance(value.type, UnknownType):
            raise call.refused("a struct with a null that has no type", "cast it")
        name = str(item.this.name)
        fields.append(Field(id=place, name=name, type=value.type))
        parts.append(f"{spark_text.text(name)}, {value.sql}")
    if not fields or len({field.name.casefold() for field in fields}) < len(fields):
        raise call.refused("this struct")
    return Typed(f"NAMED_STRUCT({', '.join(parts)})", StructType(tuple(fields)))


def _field(call: Call) -> Typed | None:
    """`struct_extract`."""
    name = said(call.value(1)) if len(call.arguments) == 2 else None
    if name is None:
        raise call.refused("a field that no literal names")
    return call.expressions.member(call.value(0), name, call.node)


def the_map(call: Call) -> tuple[Typed, MapType]:
    """The first argument, a map. Raises UnsupportedError."""
    value = call.value(0)
    if not isinstance(value.type, MapType):
        raise call.refused(f"{call.name} of {value.type}")
    return value, value.type


def _keys(call: Call) -> Typed | None:
    value, type_ = the_map(call)
    return Typed(f"MAP_KEYS({value.sql})", list_of(type_.key.type))


def _values(call: Call) -> Typed | None:
    value, type_ = the_map(call)
    return Typed(f"MAP_VALUES({value.sql})", list_of(type_.value.type))


def _entries(call: Call) -> Typed | None:
    value, type_ = the_map(call)
    pair = StructType(
        (Field(id=1, name="key", type=type_.key.type), Field(id=2, name="value", type=type_.value.type)),
    )
    return Typed(f"MAP_ENTRIES({value.sql})", list_of(pair))


def _key(call: Call, type_: MapType) -> str:
    if len(call.arguments) != 2 or not isinstance(type_.key.type, _KEYS):
        raise call.refused(f"{call.name} of {type_}")
    value = call.value(1)
    (_, text), common = alike((Typed("", type_.key.type), value), call.name)
    if str(common) != str(type_.key.type) or isinstance(value.type, UnknownType):
        raise call.refused(f"{call.name} with a key of {value.type}", "cast it to the type of the keys")
    return text


def looked_up(call: Call) -> Typed:
    """`m[k]`: null where there is none."""
    value, type_ = the_map(call)
    return Typed(f"TRY_ELEMENT_AT({value.sql}, {_key(call, type_)})", type_.value.type)


def _found(call: Call) -> Typed | None:
    """`element_at`: a list of the value, or an empty one."""
    value, type_ = the_map(call)
    key, result = _key(call, type_), list_of(type_.value.type)
    found = f"WHEN MAP_CONTAINS_KEY({value.sql}, {key}) THEN ARRAY(TRY_ELEMENT_AT({value.sql}, {key}))"
    none = f"CAST(ARRAY() AS {type_name(result)})"
    return Typed(f"CASE WHEN {value.sql} IS NULL THEN NULL {found} ELSE {none} END", result)


def _contains(call: Call) -> Typed | None:
    value, type_ = the_map(call)
    return Typed(f"MAP_CONTAINS_KEY({value.sql}, {_key(call, type_)})", BOOLEAN)


def made_map(call: Call, keys: list[exp.Expr], values: list[exp.Expr]) -> Typed:
    """`MAP {k: v}`: a key that comes twice is an error on both engines."""
    found = [[call.expressions.translate(node) for node in nodes] for nodes in (keys, values)]
    if not keys or any(all(isinstance(v.type, UnknownType) for v in side) for side in found):
        raise call.refused("a map without types")
    firm = [[v if isinstance(v.type, UnknownType) else Typed(v.sql, v.type) for v in side] for side in found]
    (key_texts, key), (value_texts, value) = (alike(side, "MAP") for side in firm)
    if not isinstance(key, _KEYS):
        raise call.refused(f"a map with keys of {key}")
    pairs = ", ".join(f"{k}, {v}" for k, v in zip(key_texts, value_texts, strict=True))
    return Typed(f"MAP({pairs})", MapType(Field(id=1, name="key", type=key), Field(id=2, name="value", type=value)))


def _zipped(call: Call) -> Typed | None:
    """`map(keys, values)`: lists of other lengths, and keys that are null or come twice, are errors on both engines."""
    if len(call.arguments) != 2:
        raise call.refused("a map without types")
    lists = [call.value(0), call.value(1)]
    types = [v.type.element.type for v in lists if isinstance(v.type, ListType)]
    if len(types) < 2 or not isinstance(types[0], _KEYS) or isinstance(types[1], UnknownType):
        raise call.refused(f"a map of {lists[0].type} and {lists[1].type}", "cast them to lists of a type")
    pair = MapType(Field(id=1, name="key", type=types[0]), Field(id=2, name="value", type=types[1]))
    return Typed(f"MAP_FROM_ARRAYS({lists[0].sql}, {lists[1].sql})", pair)


def _nested(
    names: tuple[str, ...],
    lowering: Lowering,
    takes: str,
    written: str,
    *draws: str,
    **domain: Unpack[Domain],
) -> Function:
    return Function(
        names=names, kind=FunctionKind.NESTED, lowering=lowering, takes=takes, written=written, draws=draws, **domain
    )


FUNCTIONS = (
    _nested(
        ("struct_pack", "{…}"),
        _packed,
        "name := any, ...",
        "NAMED_STRUCT",
        "struct_pack(a := {int}, b := {text})",
        "{{'a': {int}, 'b': {date}}}",
    ),
    _nested(
        ("struct_extract", "s.x", "s['x']"),
        _field,
        "struct, literal",
        "a.b",
        "struct_extract({struct}, 'x')",
        "{struct}['y']",
        "({struct}).x",
    ),
    _nested(("map_keys",), _keys, "map", "MAP_KEYS(a)", "list_sort(map_keys({map}))"),
    _nested(("map_values",), _values, "map", "MAP_VALUES(a)", "list_sort(map_values({map}))"),
    _nested(("map_entries",), _entries, "map", "MAP_ENTRIES(a)", "len(map_entries({map}))"),
    _nested(
        ("map_extract_value", "m[k]"),
        looked_up,
        "map, key",
        "TRY_ELEMENT_AT(a, b)",
        "{map}['a']",
        "{map}[{text}]",
        "MAP {{'a': {int}, 'b': 2}}['a']",
        agree="keys of text or integers",
        outside="refused: cast",
    ),
    _nested(
        ("element_at", "map_extract"),
        _found,
        "map, key",
        "ARRAY(TRY_ELEMENT_AT(a, b)), or an empty one",
        "element_at({map}, 'a')",
        agree="keys of text or integers",
    ),
    _nested(
        ("map_contains",),
        _contains,
        "map, key",
        "MAP_CONTAINS_KEY(a, b)",
        "map_contains({map}, 'b')",
        agree="keys of text or integers",
    ),
    _nested(
        ("map",),
        _zipped,
        "list, list",
        "MAP_FROM_ARRAYS(a, b)",
        "map(['a', 'b'], [{int}, 2])",
        "map([1, 2, 3], [{text}, 'x', NULL])[2]",
        agree="keys of text or integers; lists of one length, keys once each",
        outside="an error; refused: cast",
    ),
    Function(
        names=("histogram",), kind=FunctionKind.AGGREGATES, refused="use count(*) with GROUP BY: its counts are UBIGINT"
    ),
    Function(
        names=("cardinality",), kind=FunctionKind.NESTED, refused="use len(map_keys(…)), whose type both engines have"
    ),
    Function(names=("row", "struct_insert", "struct_keys"), kind=FunctionKind.NESTED, refused="use {'name': value}"),
    Function(names=("map_concat", "map_from_entries"), kind=FunctionKind.NESTED, refused="use MAP {key: value}"),
)
