"""Functions of structs and maps, and of the elements of lists: lambdas, sums, texts, the least and the greatest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sqlglot import exp

from harness.metadata.model.schema import (
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    Type,
    UnknownType,
)
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.lists import (
    ORDERED,
    check_elements,
    element_of,
    list_function,
    list_of,
    the_list,
    without_nulls,
)
from harness.queries.transpile.functions.registry import (
    ANY_TEXT,
    VARCHAR,
    Call,
    Function,
    FunctionKind,
    Lowering,
    lowered_by,
    said,
)
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import (
    BOOLEAN,
    DOUBLE,
    HUGE,
    LONG,
    TEXT,
    Typed,
    alike,
    coerced,
    type_name,
)

_KEYS = (StringType, IntegerType)


def member(base: Typed, name: str, node: exp.Expr) -> Typed:
    """A field of a struct; names match in their case first, as DuckDB has it."""
    fields = base.type.fields if isinstance(base.type, StructType) else ()
    alike_ = [f for f in fields if f.name == name] or [f for f in fields if f.name.casefold() == name.casefold()]
    if len(alike_) != 1:
        raise refused(node, f"field {name} of {base.type}")
    return Typed(f"({base.sql}).{spark_text.name(alike_[0].name)}", alike_[0].type)


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
    return member(call.value(0), name, call.node)


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
    pair = StructType((Field(id=1, name="key", type=type_.key.type), Field(id=2, name="value", type=type_.value.type)))
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


_nested = partial(lowered_by, FunctionKind.NESTED)

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


def _least(function: str) -> Lowering:
    def lower(call: Call) -> Typed | None:
        listed = the_list(call)
        check_elements(call, listed, ORDERED)
        return Typed(f"{function}({listed.sql})", element_of(listed))

    return lower


def _sum(call: Call) -> Typed | None:
    listed = the_list(call)
    element = element_of(listed)
    match element:
        case IntegerType():
            result: Type = HUGE
        case DecimalType(scale=scale):
            result = DecimalType(38, scale)
        case FloatType(bits=64):
            result = DOUBLE
        case _:
            raise call.refused(f"{call.name} of {listed.type}")
    values = without_nulls(listed.sql)
    # Spark adds with one digit to spare.
    spare = DecimalType(37, result.scale) if isinstance(result, DecimalType) and result.scale else result
    name = type_name(spare)
    added = f"AGGREGATE({values}, CAST(0 AS {name}), (s, v) -> CAST(s + CAST(v AS {name}) AS {name}))"
    return Typed(f"CASE WHEN SIZE({values}) > 0 THEN CAST({added} AS {type_name(result)}) END", result)


def _count(call: Call) -> Typed | None:
    listed = the_list(call)
    return Typed(f"CAST(SIZE({without_nulls(listed.sql)}) AS BIGINT)", LONG)


def _aggregated(call: Call) -> Typed | None:
    """`list_aggregate(l, 'sum')`, as `list_sum(l)`."""
    if len(call.arguments) != 2:
        return None
    named = said(call.value(1))
    lowering = _AGGREGATES.get(str(named).lower())
    if lowering is None:
        raise call.refused(f"{call.name} by {named or 'what no literal names'}", _INSTEAD)
    return lowering(replace(call, arguments=call.arguments[:1]))


_AGGREGATES: Mapping[str, Lowering] = {
    "sum": _sum,
    "count": _count,
    "min": _least("ARRAY_MIN"),
    "max": _least("ARRAY_MAX"),
}
_INSTEAD = "use list_sum(), list_min(), list_max() or list_count()"


def _text(call: Call) -> Typed | None:
    """`array_to_string`."""
    if len(call.arguments) != 2:
        return None
    listed, between = the_list(call), VARCHAR.taken(call.value(1)) if said(call.value(1)) is not None else None
    item = ANY_TEXT.taken(Typed("v", element_of(listed)))
    if item is None or between is None:
        raise call.refused(f"{call.name} of {listed.type}", "use list_transform() to make texts")
    nothing = f"SIZE({listed.sql}) > 0 AND SIZE({without_nulls(listed.sql)}) = 0"
    joined = f"ARRAY_JOIN(TRANSFORM({listed.sql}, v -> {item}), {between})"
    return Typed(f"CASE WHEN {nothing} THEN NULL ELSE {joined} END", TEXT)


def _transformed(call: Call) -> Typed | None:
    listed, head, body = _lambda(call)
    return Typed(f"TRANSFORM({listed.sql}, {head} -> {body.sql})", list_of(body.type))


def _filtered(call: Call) -> Typed | None:
    listed, head, body = _lambda(call)
    if body.type != BOOLEAN:
        raise call.refused(f"a {body.type} as a condition")
    return Typed(f"FILTER({listed.sql}, {head} -> {body.sql})", listed.type)


def _lambda(call: Call) -> tuple[Typed, str, Typed]:
    """The list, the variables in Spark's words, and the body."""
    if len(call.arguments) != 2 or not isinstance(call.arguments[1], exp.Lambda):
        raise call.refused(f"{call.name} without a lambda")
    listed, node = the_list(call), call.arguments[1]
    names = [str(item.name) for item in node.expressions]
    if not 1 <= len(names) <= 2:
        raise call.refused(f"{call.name} with a lambda of {len(names)} variables")
    head, inner = call.expressions.within(names, element_of(listed))
    body = inner.translate(node.this)
    if isinstance(body.type, UnknownType):
        raise call.refused(f"{call.name} to null")
    if body.literal is not None:
        body = Typed(coerced(body, body.type, call.name), body.type)
    return listed, head, body


def comprehended(call: Call, node: exp.Comprehension) -> Typed:
    """`[x + 1 for x in l if x > 2]`."""
    listed = call.expressions.translate(node.args["iterator"])
    if not isinstance(listed.type, ListType) or node.args.get("position") is not None:
        raise call.refused("this list comprehension", "use list_transform()")
    head, inner = call.expressions.within([str(node.args["expression"].name)], element_of(listed))
    condition = node.args.get("condition")
    sql = listed.sql if condition is None else f"FILTER({listed.sql}, {head} -> {inner.boolean(condition)})"
    body = inner.translate(node.this)
    if isinstance(body.type, UnknownType):
        raise call.refused("this list comprehension")
    return Typed(f"TRANSFORM({sql}, {head} -> {body.sql})", list_of(body.type))


_ZEROS = "of 0.0 and -0.0, which are equal, either may come"

FOLDS = (
    list_function(
        ("array_to_string", "list_to_string"),
        _text,
        "list, VARCHAR",
        "ARRAY_JOIN; null where all elements are",
        "array_to_string({texts}, ',')",
        "array_to_string({ints}, '')",
        agree="elements of text, integers, decimals, booleans, dates",
        outside="refused: use list_transform() to make texts",
    ),
    *(
        list_function(
            (f"list_{name}",),
            _least(f"ARRAY_{name.upper()}"),
            "list",
            f"ARRAY_{name.upper()}(a)",
            f"list_{name}({{ints}})",
            f"list_{name}({{doubles}})",
            allowance=_ZEROS,
        )
        for name in ("min", "max")
    ),
    list_function(
        ("list_sum",),
        _sum,
        "list of numbers",
        "AGGREGATE",
        "list_sum({ints})",
        "list_sum({doubles})",
        "list_sum([{decimal}, 0.0000000003])",
    ),
    list_function(("list_count",), _count, "list", "SIZE of what is not null", "list_count({texts})"),
    list_function(
        ("list_transform", "list_apply", "array_transform", "array_apply", "apply"),
        _transformed,
        "list, lambda",
        "TRANSFORM",
        "list_transform({ints}, lambda x: coalesce(x, 0) // 2)",
        "list_transform({texts}, lambda x, i: concat(x, i))",
        "[x % 3 for x in {ints} if x > 1]",
    ),
    list_function(
        ("list_filter", "array_filter", "filter"),
        _filtered,
        "list, lambda",
        "FILTER",
        "list_filter({ints}, lambda x: x > {int})",
        "list_filter({texts}, lambda x, i: i > 1)",
    ),
    list_function(
        ("list_aggregate", "array_aggregate", "list_aggr", "array_aggr", "aggregate"),
        _aggregated,
        "list, name",
        "as `list_sum`, `list_min`, `list_max`, `list_count`",
        "list_aggregate({ints}, 'sum')",
        "list_aggr({doubles}, 'max')",
        "array_aggregate({texts}, 'count')",
        outside=f"refused: {_INSTEAD}",
        allowance=_ZEROS,
    ),
    Function(
        names=("list_reduce", "array_reduce", "reduce", "list_avg", "list_zip"),
        kind=FunctionKind.LISTS,
        refused=_INSTEAD,
    ),
)
