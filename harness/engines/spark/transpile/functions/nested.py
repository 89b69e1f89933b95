"""Functions of lists, structs, and maps. Spark treats nulls in lists as values; DuckDB mostly skips them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.functions.registry import (
    ANY_TEXT,
    LIST,
    MAP,
    VARCHAR,
    Call,
    Function,
    Lowering,
    Signature,
    clip_to_int,
    first_element_type,
    first_type,
    function_of_forms,
    values_of_types,
)
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import (
    BOOLEAN,
    DOUBLE,
    HUGE,
    INT,
    LONG,
    TEXT,
    TypedSql,
    coerce,
    list_of,
    type_name,
    with_common_type,
)
from harness.metadata.model import schema as dt

PLAIN = (dt.BooleanType, dt.IntegerType, dt.DecimalType, dt.StringType, dt.DateType, dt.TimestampType)
ORDERED = (*PLAIN, dt.FloatType)
"""Element types with an order, and among them the types with plain equality."""


def list_argument(call: Call, place: int = 0) -> TypedSql:
    """Return an argument, which must be a list."""
    value = call.value(place)
    if not isinstance(value.type, dt.ListType):
        raise call.refusal(f"{call.name} of {value.type}")
    return value


def element_of(value: TypedSql) -> dt.Type:
    """Return the element type of a list."""
    assert isinstance(value.type, dt.ListType)
    return value.type.element.type


def _as_element(call: Call, place: int, element: dt.Type) -> str:
    """Return an argument in the type of a list's elements."""
    value = call.value(place)
    (_, text), type_ = with_common_type((TypedSql("", element), value), call.name)
    if str(type_) != str(element):
        raise call.refusal(f"{call.name} of list<{element}> and {value.type}", "cast to one type")
    return text


def without_nulls(sql: str) -> str:
    """Return an expression for a list without its nulls."""
    return f"FILTER({sql}, v -> v IS NOT NULL)"


def _empty(type_: dt.Type) -> str:
    return f"CAST(ARRAY() AS {type_name(type_)})"


def list_value(call: Call) -> TypedSql:
    """Translate `[…]`. The elements get the type that DuckDB gives to values of any kind, literals or not."""
    values = call.values()
    if not values or all(isinstance(v.type, dt.UnknownType) for v in values):
        raise call.refusal("a list without a type")
    texts, type_ = with_common_type(
        [v if isinstance(v.type, dt.UnknownType) else TypedSql(v.sql, v.type) for v in values], "a list"
    )
    return TypedSql(f"ARRAY({', '.join(texts)})", list_of(type_))


def _with_element(spark: str, result: dt.Type) -> Lowering:
    """Return the lowering of a function of a list `{0}` and a value `{1}` of the element type.

    It returns None if the first argument is not a list.
    """

    def lower(call: Call) -> TypedSql | None:
        listed = call.value(0)
        if not isinstance(listed.type, dt.ListType):
            return None
        check_elements(call, listed, ORDERED)
        return TypedSql(spark.format(listed.sql, _as_element(call, 1, element_of(listed))), result)

    return lower


# Spark returns null if the value is not found and the list has a null.
contains = _with_element(
    "COALESCE(ARRAY_CONTAINS({0}, {1}), CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN false END)", BOOLEAN
)
_position = _with_element(
    "CAST(NULLIF(CASE WHEN {1} IS NULL THEN ARRAY_POSITION(TRANSFORM({0}, v -> v IS NULL), true) "
    "ELSE ARRAY_POSITION({0}, {1}) END, 0) AS INT)",
    INT,
)


def check_elements(call: Call, listed: TypedSql, types: tuple[type, ...]) -> None:
    """Refuse a list whose elements have other types."""
    if not isinstance(element_of(listed), types):
        raise call.refusal(f"{call.name} of {listed.type}")


def _list_condition(condition: str) -> Lowering:
    """Return the lowering of a condition on two lists of the same type, `{0}` and `{1}`."""

    def lower(call: Call) -> TypedSql | None:
        first, second = list_argument(call, 0), list_argument(call, 1)
        check_elements(call, first, PLAIN)
        if str(first.type) != str(second.type):
            raise call.refusal(f"{call.name} of {first.type} and {second.type}", "cast to one type")
        return TypedSql(condition.format(first.sql, second.sql), BOOLEAN)

    return lower


def element_at(call: Call, listed: TypedSql, place: TypedSql) -> TypedSql:
    """Return a list's element by its index from 1 or, if negative, from the end. Null if there is no such element."""
    index = clip_to_int(place)
    if index is None:
        raise call.refusal(f"an element by {place.type}")
    element = f"TRY_ELEMENT_AT({listed.sql}, {index})"
    if place.number is None:
        element = f"CASE WHEN {index} <> 0 THEN {element} END"
    elif place.number == 0:
        raise call.refusal("element 0")
    return TypedSql(element, element_of(listed))


def slice_list(call: Call, base: TypedSql, first: TypedSql | None, last: TypedSql | None) -> TypedSql:
    """Return a part of a list or text between two literal indexes, both included."""
    start, end = (1 if first is None else first.number), (None if last is None else last.number)
    if start is None or (end is None and last is not None):
        raise call.refusal("a slice with a bound that is not a literal", "use list_filter() with an index")
    is_text = isinstance(base.type, dt.StringType)
    size = f"{'CHAR_LENGTH' if is_text else 'SIZE'}({base.sql})"
    begin = str(max(start, 1)) if start >= 0 else f"GREATEST({size} {start + 1:+d}, 1)"
    until = size if end is None else str(end) if end >= 0 else f"{size} {end + 1:+d}"
    function = "SUBSTRING" if is_text else "SLICE"
    return TypedSql(f"{function}({base.sql}, {begin}, GREATEST({until} - {begin} + 1, 0))", base.type)


def character(call: Call, text: TypedSql, place: TypedSql) -> TypedSql:
    """Return a character of a text by a literal index. Empty if there is no such character."""
    if not place.number:
        raise call.refusal("a character at an index that is not a literal", "use substring()")
    return slice_list(call, text, place, place)


def _sort_list(call: Call) -> TypedSql | None:
    order = (call.value(1).text or "?").upper() if len(call.arguments) > 1 else "ASC"
    nulls = (call.value(2).text or "?").upper() if len(call.arguments) > 2 else "NULLS LAST"
    return _sort_by(call, order, nulls)


def _sort_by(call: Call, order: str, nulls: str) -> TypedSql:
    listed = _distinct_inside(call) or list_argument(call)
    check_elements(call, listed, ORDERED)
    ascending = order in ("ASC", "ASCENDING")
    is_known = (ascending or order in ("DESC", "DESCENDING")) and nulls in ("NULLS FIRST", "NULLS LAST")
    if not is_known or len(call.arguments) > 3:
        raise call.refusal(f"{call.name} in this order")
    if ascending is (nulls == "NULLS FIRST"):
        return TypedSql(f"SORT_ARRAY({listed.sql}, {'true' if ascending else 'false'})", listed.type)
    if ascending:
        return TypedSql(f"ARRAY_SORT({listed.sql})", listed.type)
    raise call.refusal(f"{call.name} in this order", "use list_filter() and list_sort()")


def _distinct_inside(call: Call) -> TypedSql | None:
    """Return the values of a `list_distinct` call in the argument, for a function that ignores their order."""
    node = call.arguments[0]
    if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in _DISTINCT or len(node.expressions) != 1:
        return None
    listed = call.expressions.translate(node.expressions[0])
    if not isinstance(listed.type, dt.ListType) or not isinstance(element_of(listed), PLAIN):
        raise call.refusal(f"list_distinct of {listed.type}")
    return TypedSql(f"ARRAY_DISTINCT({without_nulls(listed.sql)})", listed.type)


_DISTINCT = ("list_distinct", "array_distinct")


def size(call: Call) -> TypedSql | None:
    """Translate `len` of a list."""
    value = _distinct_inside(call) or call.value(0)
    return TypedSql(f"CAST(SIZE({value.sql}) AS BIGINT)", LONG) if isinstance(value.type, dt.ListType) else None


def _concat_lists(call: Call) -> TypedSql | None:
    values = call.values()
    types = {str(v.type): v.type for v in values}
    if len(types) != 1 or not isinstance(values[0].type, dt.ListType):
        return None
    parts = [f"COALESCE({v.sql}, {_empty(v.type)})" for v in values]
    return TypedSql(f"CONCAT({', '.join(parts)})", values[0].type)


def _extend_list(call: Call, *, in_front: bool = False) -> TypedSql:
    listed = list_argument(call, int(in_front))
    item = f"ARRAY({_as_element(call, int(not in_front), element_of(listed))})"
    base = f"COALESCE({listed.sql}, {_empty(listed.type)})"
    return TypedSql(f"CONCAT({item}, {base})" if in_front else f"CONCAT({base}, {item})", listed.type)


LISTS = values_of_types(lambda t: isinstance(t, dt.ListType) and isinstance(t.element.type, dt.ListType))

_SHARED = f"(SIZE(ARRAY_INTERSECT({without_nulls('{0}')}, {without_nulls('{1}')})) > 0)"
_COVERED = f"(SIZE(ARRAY_EXCEPT({without_nulls('{1}')}, {{0}})) = 0)"

_OF_LISTS = (
    Function(("list_value", "list_pack", "[…]"), list_value),
    Function(("list_contains", "list_has", "array_contains", "array_has"), contains, 2),
    Function(("list_position", "list_indexof", "array_position", "array_indexof"), _position, 2),
    Function(("list_has_any", "array_has_any", "&&"), _list_condition(_SHARED), 2),
    Function(("list_has_all", "array_has_all", "@>"), _list_condition(_COVERED), 2),
    Function(
        ("list_extract", "list_element", "array_extract"), lambda c: element_at(c, list_argument(c), c.value(1)), 2
    ),
    Function(("list_slice", "array_slice"), lambda c: slice_list(c, list_argument(c), c.value(1), c.value(2)), 3),
    Function(("list_sort", "array_sort"), _sort_list),
    Function(("list_reverse_sort", "array_reverse_sort"), lambda c: _sort_by(c, "DESC", "NULLS LAST"), 1),
    function_of_forms(("list_reverse", "array_reverse"), Signature((LIST,), first_type, "REVERSE({0})")),
    Function(("array_length",), size, 1),
    Function(("list_concat", "list_cat", "array_concat", "array_cat"), _concat_lists, instead="cast to one type"),
    Function(("list_append", "array_append", "array_push_back"), _extend_list, 2),
    Function(("list_prepend", "array_prepend"), lambda c: _extend_list(c, in_front=True), 2),
    function_of_forms(("flatten",), Signature((LISTS,), first_element_type, f"FLATTEN({without_nulls('{0}')})")),
    Function(
        (*_DISTINCT, "list_unique", "array_unique"),
        alternative="use list_sort(list_distinct(…)) or len(list_distinct(…)), whose order is certain",
    ),
)


_KEYS = (dt.StringType, dt.IntegerType)


def map_of(key: dt.Type, value: dt.Type) -> dt.MapType:
    """Return the type of maps with keys and values of two types."""
    return dt.MapType(dt.Field(id=1, name="key", type=key), dt.Field(id=2, name="value", type=value))


def members(base: TypedSql, names: Iterable[str], node: exp.Expr) -> TypedSql:
    """Return a nested struct field by its path. Names match exactly or, as on DuckDB, ignoring case."""
    for name in names:
        fields = base.type.fields if isinstance(base.type, dt.StructType) else ()
        matches = [f for f in fields if f.name == name] or [f for f in fields if f.name.casefold() == name.casefold()]
        if len(matches) != 1:
            raise refusal(node, f"field {name} of {base.type}")
        base = TypedSql(f"({base.sql}).{spark_text.name(matches[0].name)}", matches[0].type)
    return base


def _struct_pack(call: Call) -> TypedSql | None:
    """Translate `struct_pack(a := 1)` and `{'a': 1}`."""
    fields, parts = [], []
    for place, item in enumerate(call.arguments, 1):
        if not isinstance(item, exp.PropertyEQ) or not isinstance(item.this, exp.Identifier | exp.Literal):
            raise call.refusal("a struct whose fields have no names", "use {'name': value}")
        value = call.expressions.translate(item.expression)
        if isinstance(value.type, dt.UnknownType):
            raise call.refusal("a struct with a null that has no type", "cast it")
        name = str(item.this.name)
        fields.append(dt.Field(id=place, name=name, type=value.type))
        parts.append(f"{spark_text.text(name)}, {value.sql}")
    if not fields or len({field.name.casefold() for field in fields}) < len(fields):
        raise call.refusal("this struct")
    return TypedSql(f"NAMED_STRUCT({', '.join(parts)})", dt.StructType(tuple(fields)))


def _field(call: Call) -> TypedSql | None:
    """Translate `struct_extract`."""
    name = call.value(1).text
    if name is None:
        raise call.refusal("a field name that is not a literal")
    return members(call.value(0), [name], call.node)


def _pair(type_: dt.MapType) -> dt.Type:
    plain = map_of(type_.key.type, type_.value.type)
    return list_of(dt.StructType((plain.key, plain.value)))


def _by_key(spark: str, result: Callable[[dt.MapType], dt.Type]) -> Callable[[Call], TypedSql]:
    """Return the lowering of a function of a map `{0}` and a key `{1}`. `result` returns its result type."""

    def lower(call: Call) -> TypedSql:
        value, key = call.value(0), call.value(1)
        if not isinstance(value.type, dt.MapType) or not isinstance(value.type.key.type, _KEYS):
            raise call.refusal(f"{call.name} of {value.type}")
        (_, text), common = with_common_type((TypedSql("", value.type.key.type), key), call.name)
        if str(common) != str(value.type.key.type) or isinstance(key.type, dt.UnknownType):
            raise call.refusal(f"{call.name} with a key of {key.type}", "cast it to the type of the keys")
        result_type = result(value.type)
        return TypedSql(spark.format(value.sql, text, type=type_name(result_type)), result_type)

    return lower


lookup = _by_key("TRY_ELEMENT_AT({0}, {1})", lambda t: t.value.type)
"""Translates `m[k]`, which is null for a missing key."""
_lookup_as_list = _by_key(
    "CASE WHEN {0} IS NULL THEN NULL WHEN MAP_CONTAINS_KEY({0}, {1}) THEN ARRAY(TRY_ELEMENT_AT({0}, {1})) "
    "ELSE CAST(ARRAY() AS {type}) END",
    lambda t: list_of(t.value.type),
)
_contains = _by_key("MAP_CONTAINS_KEY({0}, {1})", lambda t: BOOLEAN)


def map_from_lists(call: Call, keys: list[exp.Expr], values: list[exp.Expr]) -> TypedSql:
    """Translate `MAP {k: v}`. A duplicate key is an error on both engines."""
    sides = [[call.expressions.translate(node) for node in nodes] for nodes in (keys, values)]
    if not keys or any(all(isinstance(v.type, dt.UnknownType) for v in side) for side in sides):
        raise call.refusal("a map without types")
    firm = [[v if isinstance(v.type, dt.UnknownType) else TypedSql(v.sql, v.type) for v in side] for side in sides]
    (key_texts, key), (value_texts, value) = (with_common_type(side, "MAP") for side in firm)
    if not isinstance(key, _KEYS):
        raise call.refusal(f"a map with keys of {key}")
    pairs = ", ".join(f"{k}, {v}" for k, v in zip(key_texts, value_texts, strict=True))
    return TypedSql(f"MAP({pairs})", map_of(key, value))


def _map_from_two_lists(call: Call) -> TypedSql | None:
    """Translate `map(keys, values)`.

    Lists of different lengths and null or duplicate keys are errors on both engines.
    """
    if len(call.arguments) != 2:
        raise call.refusal("a map without types")
    lists = call.values()
    types = [v.type.element.type for v in lists if isinstance(v.type, dt.ListType)]
    if len(types) < 2 or not isinstance(types[0], _KEYS) or isinstance(types[1], dt.UnknownType):
        return None
    return TypedSql(f"MAP_FROM_ARRAYS({lists[0].sql}, {lists[1].sql})", map_of(types[0], types[1]))


FUNCTIONS = (
    *_OF_LISTS,
    Function(("struct_pack", "{…}"), _struct_pack),
    Function(("struct_extract", "s.x", "s['x']"), _field, 2),
    function_of_forms(("map_keys",), Signature((MAP,), lambda t: list_of(t.key.type), "MAP_KEYS({0})")),
    function_of_forms(("map_values",), Signature((MAP,), lambda t: list_of(t.value.type), "MAP_VALUES({0})")),
    function_of_forms(("map_entries",), Signature((MAP,), _pair, "MAP_ENTRIES({0})")),
    Function(("map_extract_value", "m[k]"), lookup, 2),
    Function(("element_at", "map_extract"), _lookup_as_list, 2),
    Function(("map_contains",), _contains, 2),
    Function(("map",), _map_from_two_lists, instead="cast them to lists of a type"),
    Function(("histogram",), alternative="use count(*) with GROUP BY: its counts are UBIGINT"),
    Function(("cardinality",), alternative="use len(map_keys(…)), whose type both engines have"),
    Function(("row", "struct_insert", "struct_keys"), alternative="use {'name': value}"),
    Function(("map_concat", "map_from_entries"), alternative="use MAP {key: value}"),
)


def _sum(call: Call) -> TypedSql | None:
    listed = list_argument(call)
    match element_of(listed):
        case dt.IntegerType():
            result: dt.Type = HUGE
        case dt.DecimalType(scale=scale):
            result = dt.DecimalType(38, scale)
        case dt.FloatType(bits=64):
            result = DOUBLE
        case _:
            return None
    values = without_nulls(listed.sql)
    # Spark's sum has one digit more.
    spare = dt.DecimalType(37, result.scale) if isinstance(result, dt.DecimalType) and result.scale else result
    name = type_name(spare)
    added = f"AGGREGATE({values}, CAST(0 AS {name}), (s, v) -> CAST(s + CAST(v AS {name}) AS {name}))"
    return TypedSql(f"CASE WHEN SIZE({values}) > 0 THEN CAST({added} AS {type_name(result)}) END", result)


def _list_aggregate(call: Call) -> TypedSql | None:
    """Translate `list_aggregate(l, 'sum')` like `list_sum(l)`."""
    aggregate = call.value(1).text
    function = _AGGREGATES.get(f"list_{str(aggregate).lower()}")
    if function is None:
        raise call.refusal(f"{call.name} by {aggregate or 'a name that is not a literal'}", _INSTEAD)
    return function.lower(replace(call, arguments=call.arguments[:1]))


ORDERED_LIST = values_of_types(lambda t: isinstance(t, dt.ListType) and isinstance(t.element.type, ORDERED))
_AGGREGATES: Mapping[str, Function] = {
    "list_sum": Function(("list_sum",), _sum, 1),
    "list_count": function_of_forms(
        ("list_count",), Signature((LIST,), LONG, f"CAST(SIZE({without_nulls('{0}')}) AS BIGINT)")
    ),
    "list_min": function_of_forms(("list_min",), Signature((ORDERED_LIST,), first_element_type, "ARRAY_MIN({0})")),
    "list_max": function_of_forms(("list_max",), Signature((ORDERED_LIST,), first_element_type, "ARRAY_MAX({0})")),
}
_INSTEAD = "use list_sum(), list_min(), list_max() or list_count()"


def _text(call: Call) -> TypedSql | None:
    """Translate `array_to_string`."""
    listed, between = list_argument(call), VARCHAR(call.value(1)) if call.value(1).text is not None else None
    item = ANY_TEXT(TypedSql("v", element_of(listed)))
    if item is None or between is None:
        raise call.refusal(f"{call.name} of {listed.type}", "use list_transform() to make texts")
    has_only_nulls = f"SIZE({listed.sql}) > 0 AND SIZE({without_nulls(listed.sql)}) = 0"
    joined = f"ARRAY_JOIN(TRANSFORM({listed.sql}, v -> {item}), {between})"
    return TypedSql(f"CASE WHEN {has_only_nulls} THEN NULL ELSE {joined} END", TEXT)


def _list_transform(call: Call) -> TypedSql | None:
    listed, head, body = _lambda(call)
    return TypedSql(f"TRANSFORM({listed.sql}, {head} -> {body.sql})", list_of(body.type))


def _list_filter(call: Call) -> TypedSql | None:
    listed, head, body = _lambda(call)
    if body.type != BOOLEAN:
        raise call.refusal(f"a {body.type} as a condition")
    return TypedSql(f"FILTER({listed.sql}, {head} -> {body.sql})", listed.type)


def _lambda(call: Call) -> tuple[TypedSql, str, TypedSql]:
    """Return the list, the variables of the lambda on Spark, and its translated body."""
    if not isinstance(call.arguments[1], exp.Lambda):
        raise call.refusal(f"{call.name} without a lambda")
    listed, node = list_argument(call), call.arguments[1]
    names = [str(item.name) for item in node.expressions]
    if not 1 <= len(names) <= 2:
        raise call.refusal(f"{call.name} with a lambda of {len(names)} variables")
    head, inner = call.expressions.within(names, element_of(listed))
    body = inner.translate(node.this)
    if isinstance(body.type, dt.UnknownType):
        raise call.refusal(f"{call.name} to null")
    if body.literal is not None:
        body = TypedSql(coerce(body, body.type, call.name), body.type)
    return listed, head, body


def comprehension(call: Call, node: exp.Comprehension) -> TypedSql:
    """Translate `[x + 1 for x in l if x > 2]`."""
    listed = call.expressions.translate(node.args["iterator"])
    if not isinstance(listed.type, dt.ListType) or node.args.get("position"):
        raise call.refusal("this list comprehension", "use list_transform()")
    head, inner = call.expressions.within([str(node.args["expression"].name)], element_of(listed))
    condition = node.args.get("condition")
    sql = listed.sql if condition is None else f"FILTER({listed.sql}, {head} -> {inner.boolean(condition)})"
    body = inner.translate(node.this)
    if isinstance(body.type, dt.UnknownType):
        raise call.refusal("this list comprehension")
    return TypedSql(f"TRANSFORM({sql}, {head} -> {body.sql})", list_of(body.type))


FOLDS = (
    Function(("array_to_string", "list_to_string"), _text, 2),
    *_AGGREGATES.values(),
    Function(("list_transform", "list_apply", "array_transform", "array_apply", "apply"), _list_transform, 2),
    Function(("list_filter", "array_filter", "filter"), _list_filter, 2),
    Function(("list_aggregate", "array_aggregate", "list_aggr", "array_aggr", "aggregate"), _list_aggregate, 2),
    Function(("list_reduce", "array_reduce", "reduce", "list_avg", "list_zip"), alternative=_INSTEAD),
)
