"""Functions of lists. Nulls in lists are values to Spark, and mostly nothing to DuckDB."""

from __future__ import annotations

from sqlglot import exp

from harness.metadata.model import schema as dt
from harness.queries.transpile.functions.registry import (
    LIST,
    Call,
    Function,
    Lowering,
    Signature,
    clipped,
    element,
    formed,
    same,
    where,
)
from harness.queries.transpile.values import BOOLEAN, INT, LONG, Typed, alike, type_name

PLAIN = (dt.BooleanType, dt.IntegerType, dt.DecimalType, dt.StringType, dt.DateType, dt.TimestampType)
ORDERED = (*PLAIN, dt.FloatType)
"""Types of elements that have an order, and of those the ones whose equality is plain."""


def list_of(type_: dt.Type) -> dt.ListType:
    """The type of lists of values of a type."""
    return dt.ListType(dt.Field(id=0, name="element", type=type_))


def the_list(call: Call, place: int = 0) -> Typed:
    """An argument that is a list. Raises UnsupportedError."""
    value = call.value(place)
    if not isinstance(value.type, dt.ListType):
        raise call.refused(f"{call.name} of {value.type}")
    return value


def element_of(value: Typed) -> dt.Type:
    """The type of a list's elements."""
    assert isinstance(value.type, dt.ListType)
    return value.type.element.type


def _beside(call: Call, place: int, element: dt.Type) -> str:
    """An argument as a value of a list's type. Raises UnsupportedError."""
    value = call.value(place)
    (_, text), type_ = alike((Typed("", element), value), call.name)
    if str(type_) != str(element):
        raise call.refused(f"{call.name} of list<{element}> and {value.type}", "cast to one type")
    return text


def without_nulls(sql: str) -> str:
    """A list without its nulls."""
    return f"FILTER({sql}, v -> v IS NOT NULL)"


def _empty(type_: dt.Type) -> str:
    return f"CAST(ARRAY() AS {type_name(type_)})"


def made(call: Call) -> Typed:
    """A list of values; its elements have the type that DuckDB gives to values of any kind, literals or not."""
    values = call.values()
    if not values or all(isinstance(v.type, dt.UnknownType) for v in values):
        raise call.refused("a list without a type")
    texts, type_ = alike([v if isinstance(v.type, dt.UnknownType) else Typed(v.sql, v.type) for v in values], "a list")
    return Typed(f"ARRAY({', '.join(texts)})", list_of(type_))


def _with_element(spark: str, result: dt.Type) -> Lowering:
    """A function of a list `{0}` and a value `{1}` of its elements' type; None: there is no list."""

    def lower(call: Call) -> Typed | None:
        listed = call.value(0)
        if not isinstance(listed.type, dt.ListType):
            return None
        check_elements(call, listed, ORDERED)
        return Typed(spark.format(listed.sql, _beside(call, 1, element_of(listed))), result)

    return lower


# Spark does not know where a null is in the list and nothing is found.
contains = _with_element(
    "COALESCE(ARRAY_CONTAINS({0}, {1}), CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN false END)", BOOLEAN
)
_position = _with_element(
    "CAST(NULLIF(CASE WHEN {1} IS NULL THEN ARRAY_POSITION(TRANSFORM({0}, v -> v IS NULL), true) "
    "ELSE ARRAY_POSITION({0}, {1}) END, 0) AS INT)",
    INT,
)


def check_elements(call: Call, listed: Typed, types: tuple[type, ...]) -> None:
    """Refuses elements of other types."""
    if not isinstance(element_of(listed), types):
        raise call.refused(f"{call.name} of {listed.type}")


def _of_two(condition: str) -> Lowering:
    """A condition on two lists of one type, `{0}` and `{1}`."""

    def lower(call: Call) -> Typed | None:
        first, second = the_list(call, 0), the_list(call, 1)
        check_elements(call, first, PLAIN)
        if str(first.type) != str(second.type):
            raise call.refused(f"{call.name} of {first.type} and {second.type}", "cast to one type")
        return Typed(condition.format(first.sql, second.sql), BOOLEAN)

    return lower


def at(call: Call, listed: Typed, place: Typed) -> Typed:
    """An element by its place from 1 on, or from the end by a negative one; null where there is none."""
    index = clipped(place)
    if index is None:
        raise call.refused(f"an element by {place.type}")
    found = f"TRY_ELEMENT_AT({listed.sql}, {index})"
    if place.number is None:
        found = f"CASE WHEN {index} <> 0 THEN {found} END"
    elif place.number == 0:
        raise call.refused("element 0")
    return Typed(found, element_of(listed))


def sliced(call: Call, base: Typed, first: Typed | None, last: Typed | None) -> Typed:
    """A part of a list or a text by literals; both ends belong to it."""
    start, end = (1 if first is None else first.number), (None if last is None else last.number)
    if start is None or (end is None and last is not None):
        raise call.refused("a slice by what is no literal", "use list_filter() with an index")
    is_text = isinstance(base.type, dt.StringType)
    size = f"{'CHAR_LENGTH' if is_text else 'SIZE'}({base.sql})"
    begin = str(max(start, 1)) if start >= 0 else f"GREATEST({size} {start + 1:+d}, 1)"
    until = size if end is None else str(end) if end >= 0 else f"{size} {end + 1:+d}"
    function = "SUBSTRING" if is_text else "SLICE"
    return Typed(f"{function}({base.sql}, {begin}, GREATEST({until} - {begin} + 1, 0))", base.type)


def character(call: Call, text: Typed, place: Typed) -> Typed:
    """A character of a text by a literal place; nothing where there is none."""
    if not place.number:
        raise call.refused("a character by what is no literal", "use substring()")
    return sliced(call, text, place, place)


def _sorted(call: Call) -> Typed | None:
    order = (call.value(1).text or "?").upper() if len(call.arguments) > 1 else "ASC"
    nulls = (call.value(2).text or "?").upper() if len(call.arguments) > 2 else "NULLS LAST"
    return _in_order(call, order, nulls)


def _in_order(call: Call, order: str, nulls: str) -> Typed:
    listed = _distinct_inside(call) or the_list(call)
    check_elements(call, listed, ORDERED)
    ascending = order in ("ASC", "ASCENDING")
    is_known = (ascending or order in ("DESC", "DESCENDING")) and nulls in ("NULLS FIRST", "NULLS LAST")
    if not is_known or len(call.arguments) > 3:
        raise call.refused(f"{call.name} in this order")
    if ascending is (nulls == "NULLS FIRST"):
        return Typed(f"SORT_ARRAY({listed.sql}, {'true' if ascending else 'false'})", listed.type)
    if ascending:
        return Typed(f"ARRAY_SORT({listed.sql})", listed.type)
    raise call.refused(f"{call.name} in this order", "use list_filter() and list_sort()")


def _distinct_inside(call: Call) -> Typed | None:
    """The values of `list_distinct` in the argument, whose order means nothing to the function around it."""
    node = call.arguments[0]
    if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in _DISTINCT or len(node.expressions) != 1:
        return None
    listed = call.expressions.translate(node.expressions[0])
    if not isinstance(listed.type, dt.ListType) or not isinstance(element_of(listed), PLAIN):
        raise call.refused(f"list_distinct of {listed.type}")
    return Typed(f"ARRAY_DISTINCT({without_nulls(listed.sql)})", listed.type)


_DISTINCT = ("list_distinct", "array_distinct")


def size(call: Call) -> Typed | None:
    """`len` of a list."""
    value = _distinct_inside(call) or call.value(0)
    return Typed(f"CAST(SIZE({value.sql}) AS BIGINT)", LONG) if isinstance(value.type, dt.ListType) else None


def _joined(call: Call) -> Typed | None:
    values = call.values()
    types = {str(v.type): v.type for v in values}
    if len(types) != 1 or not isinstance(values[0].type, dt.ListType):
        return None
    parts = [f"COALESCE({v.sql}, {_empty(v.type)})" for v in values]
    return Typed(f"CONCAT({', '.join(parts)})", values[0].type)


def _extended(call: Call, *, in_front: bool = False) -> Typed:
    listed = the_list(call, int(in_front))
    item = f"ARRAY({_beside(call, int(not in_front), element_of(listed))})"
    base = f"COALESCE({listed.sql}, {_empty(listed.type)})"
    return Typed(f"CONCAT({item}, {base})" if in_front else f"CONCAT({base}, {item})", listed.type)


LISTS = where(lambda t: isinstance(t, dt.ListType) and isinstance(t.element.type, dt.ListType))

_SHARED = f"(SIZE(ARRAY_INTERSECT({without_nulls('{0}')}, {without_nulls('{1}')})) > 0)"
_COVERED = f"(SIZE(ARRAY_EXCEPT({without_nulls('{1}')}, {{0}})) = 0)"

FUNCTIONS = (
    Function(("list_value", "list_pack", "[…]"), made),
    Function(("list_contains", "list_has", "array_contains", "array_has"), contains, 2),
    Function(("list_position", "list_indexof", "array_position", "array_indexof"), _position, 2),
    Function(("list_has_any", "array_has_any", "&&"), _of_two(_SHARED), 2),
    Function(("list_has_all", "array_has_all", "@>"), _of_two(_COVERED), 2),
    Function(("list_extract", "list_element", "array_extract"), lambda c: at(c, the_list(c), c.value(1)), 2),
    Function(("list_slice", "array_slice"), lambda c: sliced(c, the_list(c), c.value(1), c.value(2)), 3),
    Function(("list_sort", "array_sort"), _sorted),
    Function(("list_reverse_sort", "array_reverse_sort"), lambda c: _in_order(c, "DESC", "NULLS LAST"), 1),
    formed(("list_reverse", "array_reverse"), Signature((LIST,), same, "REVERSE({0})")),
    Function(("array_length",), size, 1),
    Function(("list_concat", "list_cat", "array_concat", "array_cat"), _joined, instead="cast to one type"),
    Function(("list_append", "array_append", "array_push_back"), _extended, 2),
    Function(("list_prepend", "array_prepend"), lambda c: _extended(c, in_front=True), 2),
    formed(("flatten",), Signature((LISTS,), element, f"FLATTEN({without_nulls('{0}')})")),
    Function(
        (*_DISTINCT, "list_unique", "array_unique"),
        refused="use list_sort(list_distinct(…)) or len(list_distinct(…)), whose order is certain",
    ),
)
