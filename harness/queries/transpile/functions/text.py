"""Functions of text."""

from __future__ import annotations

from harness.model.schema import ListType, UnknownType
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.parameters import VARCHAR, whole
from harness.queries.transpile.functions.registry import Call, Form, Function, Kind
from harness.queries.transpile.values import BOOLEAN, LONG, TEXT, Typed


def _length(call: Call) -> Typed | None:
    if len(call.arguments) != 1:
        return None
    value = call.value(0)
    if isinstance(value.type, ListType):
        return Typed(f"CAST(CASE WHEN {value.sql} IS NOT NULL THEN SIZE({value.sql}) END AS BIGINT)", LONG)
    return None


def _upper(call: Call) -> Typed | None:
    return _case(call, "UPPER")


def _lower(call: Call) -> Typed | None:
    return _case(call, "LOWER")


def _case(call: Call, name: str) -> Typed | None:
    """Beyond ASCII the engines follow other rules ('ß', 'İ'): an error when such a text comes along."""
    text = VARCHAR.taken(call.value(0)) if len(call.arguments) == 1 else None
    if text is None:
        return None
    message = spark_text.text(f"{name.lower()}() of text beyond ASCII differs between Spark and DuckDB")
    return Typed(
        f"CASE WHEN {text} IS NULL THEN NULL WHEN CHAR_LENGTH({text}) = OCTET_LENGTH({text}) THEN {name}({text}) "
        f"ELSE RAISE_ERROR({message}) END",
        TEXT,
    )


def _substring(call: Call) -> Typed | None:
    if len(call.arguments) not in (2, 3):
        return None
    text, first = VARCHAR.taken(call.value(0)), whole(call.value(1))
    count = whole(call.value(2)) if len(call.arguments) == 3 else 0
    if text is None:
        return None
    if first is None or first < 1 or count is None or count < 0:
        raise call.refused("a substring that does not start at a literal from 1 on")
    return Typed(f"SUBSTRING({text}, {first}{'' if len(call.arguments) == 2 else f', {count}'})", TEXT)


def _concat(call: Call) -> Typed | None:
    """DuckDB leaves nulls out; Spark's is null if one part is."""
    values = [call.value(place) for place in range(len(call.arguments))]
    texts = [VARCHAR.taken(v) for v in values]
    if None in texts:
        return None
    parts = [f"COALESCE({text}, '')" for text in texts if text is not None]
    return Typed(f"CONCAT({', '.join(parts)})", TEXT)


def _concatenated(call: Call) -> Typed | None:
    values = [call.value(place) for place in range(len(call.arguments))]
    if any(v.type != TEXT and not isinstance(v.type, UnknownType) for v in values):
        raise call.refused(f"|| of {', '.join(str(v.type) for v in values)}")
    return Typed(f"({' || '.join(str(VARCHAR.taken(v)) for v in values)})", TEXT)


FUNCTIONS = (
    Function(
        names=("length", "len", "char_length", "character_length"),
        kind=Kind.TEXT,
        forms=(Form((VARCHAR,), LONG, "CAST(CHAR_LENGTH({0}) AS BIGINT)"),),
        lowering=_length,
        draws=("length({text})", "len({ints})"),
    ),
    Function(
        names=("upper", "ucase"),
        kind=Kind.TEXT,
        lowering=_upper,
        written="UPPER, behind a guard",
        agree="ASCII",
        outside="an error when other text comes along",
        draws=("upper({ascii})",),
    ),
    Function(
        names=("lower", "lcase"),
        kind=Kind.TEXT,
        lowering=_lower,
        written="LOWER, behind a guard",
        agree="ASCII",
        outside="an error when other text comes along",
        draws=("lower({ascii})",),
    ),
    Function(names=("trim",), kind=Kind.TEXT, forms=(Form((VARCHAR,), TEXT, "TRIM({0})"),), draws=("trim({text})",)),
    Function(names=("ltrim",), kind=Kind.TEXT, forms=(Form((VARCHAR,), TEXT, "LTRIM({0})"),), draws=("ltrim({text})",)),
    Function(names=("rtrim",), kind=Kind.TEXT, forms=(Form((VARCHAR,), TEXT, "RTRIM({0})"),), draws=("rtrim({text})",)),
    Function(
        names=("substring", "substr"),
        kind=Kind.TEXT,
        lowering=_substring,
        written="SUBSTRING",
        agree="a start that is a literal from 1 on, a length that is a literal from 0 on",
        outside="refused",
        draws=("substring({text}, 2, 2)", "substring({text}, 1)"),
    ),
    Function(
        names=("strpos", "instr", "position"),
        kind=Kind.TEXT,
        forms=(Form((VARCHAR, VARCHAR), LONG, "CAST(INSTR({0}, {1}) AS BIGINT)"),),
        draws=("strpos({text}, {text})",),
    ),
    Function(
        names=("starts_with", "prefix"),
        kind=Kind.TEXT,
        forms=(Form((VARCHAR, VARCHAR), BOOLEAN, "STARTSWITH({0}, {1})"),),
        draws=("starts_with({text}, {text})",),
    ),
    Function(
        names=("ends_with", "suffix"),
        kind=Kind.TEXT,
        forms=(Form((VARCHAR, VARCHAR), BOOLEAN, "ENDSWITH({0}, {1})"),),
        draws=("ends_with({text}, {text})",),
    ),
    Function(
        names=("contains",),
        kind=Kind.TEXT,
        forms=(Form((VARCHAR, VARCHAR), BOOLEAN, "CONTAINS({0}, {1})"),),
        draws=("contains({text}, {text})",),
    ),
    Function(
        names=("concat",),
        kind=Kind.TEXT,
        lowering=_concat,
        written="CONCAT(COALESCE(a, ''), ...)",
        draws=("concat({text}, {text}, 'x')",),
    ),
    Function(
        names=("concat_ws",),
        kind=Kind.TEXT,
        # On both engines nulls are left out, empty texts are not, and a separator of null makes a null.
        forms=(Form((VARCHAR, VARCHAR), TEXT, "CONCAT_WS({all})", more=-1),),
        draws=("concat_ws({text}, {text}, {text})",),
    ),
    Function(
        names=("||",),
        kind=Kind.OPERATORS,
        lowering=_concatenated,
        written="a || b",
        draws=("({text} || {text})",),
    ),
)
