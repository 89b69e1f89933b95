"""Checks of a translated query against DuckDB: the syntax tree of its text, and the columns of its result.

sqlglot reads `a JOIN b EXACT NEAREST 1 BY DISTANCE …` as `b` under the alias EXACT, and `a ~ 'b'` as a search, which it
is not on DuckDB 1.5. Therefore the text that sqlglot writes back must have the same DuckDB syntax tree as the user's
text. The trees come from `json_serialize_sql`. Differences without meaning are listed here, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.engines.spark.transpile.aggregates import AGGREGATES
from harness.engines.spark.transpile.queries import SparkQuery
from harness.engines.spark.transpile.values import HUGE
from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt
from harness.storage.records import dataclass

_PLACE = "query_location"

_IRRELEVANT: Mapping[str, str] = {
    _PLACE: "the position of a part in the text",
    "query_location_length": "the length of a part in the text",
    "is_operator": "whether a call is written between its operands",
    "is_implicit": "whether a cross join is a comma",
    "syntax_type": "whether a lambda has the word LAMBDA",
}
"""Entries of a tree that do not affect its meaning, with an explanation."""

_FUNCTIONS: Mapping[str, str] = {
    **{alias: each.names[0] for each in AGGREGATES for alias in each.names[1:]},
    "power": "**",
    "pow": "**",
    "^": "**",
    "position": "instr",
    "strpos": "instr",
    "starts_with": "^@",
    "abs": "@",
}
"""Functions that have several names in DuckDB's catalog: each name, and the name in the catalog's `alias_of`."""

_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("int", "int4", "int32", "signed", "integral"), "integer"),
    **dict.fromkeys(("int8", "int64", "long", "oid"), "bigint"),
    **dict.fromkeys(("int2", "int16", "short"), "smallint"),
    "int1": "tinyint",
    "int128": "hugeint",
    **dict.fromkeys(("text", "string", "char", "bpchar", "nvarchar"), "varchar"),
    **dict.fromkeys(("float4", "real"), "float"),
    "float8": "double",
    **dict.fromkeys(("dec", "numeric"), "decimal"),
    **dict.fromkeys(("bool", "logical"), "boolean"),
    **dict.fromkeys(("bytea", "binary", "varbinary"), "blob"),
    **dict.fromkeys(("datetime", "timestamp_us"), "timestamp"),
    "timestamptz": "timestamp with time zone",
    "timetz": "time with time zone",
    "guid": "uuid",
}
"""Types that have several names in DuckDB's catalog: each name, and the name that `duckdb_types()` lists."""

_DATE_PARTS: Mapping[str, str] = {"dayofweek": "dow", "dayofyear": "doy"}
"""Parts of a date that have two names: each name, and the other one."""

_OPPOSITES: Mapping[str, str] = {
    "OPERATOR_IS_NULL": "OPERATOR_IS_NOT_NULL",
    "COMPARE_NOT_DISTINCT_FROM": "COMPARE_DISTINCT_FROM",
}
"""Comparisons and their negations: `NOT a IS NULL` is `a IS NOT NULL`, and `NOT a IS TRUE` is `a IS NOT TRUE`."""

_UNITS = "year|quarter|month|week|day|hour|minute|second|millisecond|microsecond"


@dataclass(frozen=True, slots=True)
class Misreading:
    """The first difference between two trees.

    Attributes:
        place: The byte offset in the first text. None if the tree has no offset.
    """

    place: int | None

    def part(self, text: str) -> str:
        """Return the rest of the text from the difference on."""
        return text.encode()[self.place or 0 :].decode(errors="ignore")


def misreading(tree: str, written_back: str) -> Misreading | None:
    """Return the first difference in meaning between DuckDB's syntax trees of two texts. None if there is none.

    Args:
        tree: The tree of the user's text, from `json_serialize_sql`.
        written_back: The tree of the text that sqlglot wrote.
    """
    original, rewritten = json.loads(tree), json.loads(written_back)
    if original["error"] or rewritten["error"]:  # for example, the statement is not a SELECT
        return Misreading(None)
    return _difference(_normalize(original), _normalize(rewritten), None)


def _difference(left: object, right: object, place: int | None) -> Misreading | None:
    match left, right:
        case dict(), dict():
            place = left.get(_PLACE, place)
            parts = [(left.get(key), right.get(key)) for key in dict.fromkeys((*left, *right)) if key != _PLACE]
        case list(), list() if len(left) == len(right):
            parts = list(zip(left, right, strict=True))
        case _:
            return None if left == right and type(left) is type(right) else Misreading(place)
    return next((difference for pair in parts if (difference := _difference(*pair, place)) is not None), None)


def _normalize(value: object) -> object:
    """Return a tree with equivalent parts written alike."""
    match value:
        case list():
            return [_normalize(item) for item in value]
        case dict():
            node = {key: _normalize(item) for key, item in value.items() if key == _PLACE or key not in _IRRELEVANT}
            for rule in _RULES:
                node = rule(node)
            return node
        case _:
            return value


def _function(node: dict[str, Any]) -> dict[str, object]:
    if node.get("null_order") == "ORDER_DEFAULT":  # regardless of the direction
        node["null_order"] = "NULLS LAST"
    if node.get("type") == "ARRAY_CONSTRUCTOR":  # `ARRAY[1, 2]` is `[1, 2]`, a call
        node |= {"class": "FUNCTION", "type": "FUNCTION", "function_name": "list_value"}
    if "function_name" not in node:
        return node
    name = node["function_name"]
    node["function_name"] = _FUNCTIONS.get(name, name)
    if node.get("qualified_name") == {"path": [name]}:  # DuckDB 2.0 has the name twice
        del node["qualified_name"]
    if node.get("order_bys") == {"type": "ORDER_MODIFIER"}:
        del node["order_bys"]
    if node.get("schema") == "main":  # functions that DuckDB 1.5 uses for keywords
        del node["schema"]
    if "arguments" in node:  # DuckDB 1.5 calls them children; each may have a name
        arguments = node.pop("arguments")
        node["children"] = [a if a.get("name") else a["expression"] for a in arguments]
    if name == "date_part":
        part, *others = node["children"]
        part_name = (_constant(part) or "").lower()
        node["children"] = [_DATE_PARTS.get(part_name, part_name) or part, *others]
    return node


def _type(node: dict[str, Any]) -> dict[str, object]:
    if node.get("class") == "TYPE":
        name = node["type_name"].lower()
        node["type_name"] = name = _TYPES.get(name, name)
        node.pop("qualified_name", None)
        parameters = [_constant(child) for child in node.get("children", ())]
        if name == "varchar" or parameters == ["18", "3"]:  # DuckDB ignores a length, and DECIMAL is DECIMAL(18, 3)
            node.pop("children", None)
    return node


def _negation(node: dict[str, Any]) -> dict[str, object]:
    if node.get("type") != "OPERATOR_NOT":
        return node
    (operand,) = node["children"]
    opposite = _OPPOSITES.get(operand.get("type"))
    return node if opposite is None else {**operand, "type": opposite, "alias": node.get("alias")}


def _interval(node: dict[str, Any]) -> dict[str, object]:
    """Normalize `INTERVAL '1 day'`, a cast, and `INTERVAL 1 DAY`, a call of `to_days`. Fractions are left unchanged."""
    function = re.fullmatch(f"to_({_UNITS})s", node.get("function_name", ""))
    to = node.get("type_expr") or node.get("cast_type") or {}
    if function is not None:
        interval_text, number = f"{_constant(node['children'][0])} {function[1]}", r"-?\d+"
    elif node.get("class") == "CAST" and str(to.get("type_name") or to.get("id")).lower() == "interval":
        interval_text, number = str(_constant(node["child"])).lower().removesuffix("s"), r"-?[\d.]+"
    else:
        return node
    is_plain = re.fullmatch(rf"{number} ({_UNITS})", interval_text) is not None
    return {_PLACE: node.get(_PLACE), "interval": interval_text} if is_plain else node


def _constant(node: dict[str, Any]) -> str | None:
    """Return a text or integer constant as text, ignoring casts around it. None for other nodes."""
    while node.get("class") == "CAST" or node.get("function_name") == "trunc":
        node = node["child"] if "child" in node else node["children"][0]
    if "literal" in node:
        return str(node["literal"].get("text", "")) if node["literal"]["kind"] in ("STRING", "INTEGER") else None
    if "value" in node:  # DuckDB 1.5
        return str(node["value"].get("value")) if node["value"]["type"]["id"] in ("VARCHAR", "INTEGER") else None
    return None


_RULES: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_function, _type, _negation, _interval)


_SHOWN_TYPES: dict[str, dt.Type] = {
    "BOOLEAN": dt.BooleanType(),
    "TINYINT": dt.IntegerType(8),
    "SMALLINT": dt.IntegerType(16),
    "INTEGER": dt.IntegerType(32),
    "BIGINT": dt.IntegerType(64),
    "HUGEINT": HUGE,
    "FLOAT": dt.FloatType(32),
    "DOUBLE": dt.FloatType(64),
    "VARCHAR": dt.StringType(),
    "BLOB": dt.BinaryType(),
    "UUID": dt.UuidType(),
    "DATE": dt.DateType(),
    "TIME": dt.TimeType(),
    "TIMESTAMP": dt.TimestampType(),
    "TIMESTAMP_NS": dt.TimestampType("ns"),
    "TIMESTAMP WITH TIME ZONE": dt.TimestampType(utc=True),
}


def result_columns(query: SparkQuery, described: Sequence[tuple[str, str]]) -> tuple[dt.Field, ...]:
    """Return the columns that the query must have on Spark: DuckDB's names, and DuckDB's types if Spark has them.

    Args:
        query: The translated query.
        described: The name and type of each column on DuckDB.

    Raises:
        UnsupportedError: The columns differ, so the query was misread.
    """
    names = [name for name, _ in described]
    # DuckDB appends a number to a name that another column already has.
    names_match = (
        expected_name is None or re.fullmatch(re.escape(expected_name) + r"([_:]\d+)?", name, re.IGNORECASE) is not None
        for expected_name, name in zip(query.names, names, strict=False)
    )
    if len(names) != len(query.names) or not all(names_match):
        raise UnsupportedError(
            f"Cannot run the query on Spark: DuckDB returns the columns {', '.join(names)}, "
            f"not {', '.join(name or '?' for name in query.names)}"
        )
    return tuple(
        dt.Field(id=place, name=name, type=_agreed_field(name, _result_type(type_), duckdb_type))
        for place, ((name, duckdb_type), type_) in enumerate(zip(described, query.types, strict=True), 1)
    )


def _result_type(type_: dt.Type) -> dt.Type:
    """Return a type as it appears in DuckDB's results, without the length of bytes and the zone of nanoseconds."""
    match type_:
        case dt.FixedType():
            return dt.BinaryType()
        case dt.TimestampType(unit="ns"):
            return dt.TimestampType("ns")
        case dt.StructType(fields=fields):
            return dt.StructType(tuple(replace(f, type=_result_type(f.type)) for f in fields))
        case dt.ListType(element=element):
            return dt.ListType(replace(element, type=_result_type(element.type)))
        case dt.MapType(key=key, value=value):
            parts = (replace(part, type=_result_type(part.type)) for part in (key, value))
            return dt.MapType(*parts)
        case _:
            return type_


_SHOWN_KINDS = {type(shown) for shown in _SHOWN_TYPES.values()}
_ALIKE = (dt.IntegerType, dt.FloatType, dt.DecimalType, dt.StringType, dt.BooleanType)
"""Types whose names are the same on both engines."""


def _agreed_field(name: str, type_: dt.Type, duckdb_type: str) -> dt.Type:
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", duckdb_type)
    expected = (
        dt.DecimalType(int(decimal[1]), int(decimal[2])) if decimal is not None else _SHOWN_TYPES.get(duckdb_type)
    )
    match type_, expected:
        case dt.OpaqueType(), None:
            raise UnsupportedError(f"Cannot return column {name} of type {duckdb_type} on Spark: use epoch() or a cast")
        case _, None if isinstance(type_, _ALIKE) and duckdb_type != '"NULL"':
            raise UnsupportedError(
                f"Cannot run the query on Spark: column {name} is {duckdb_type} on DuckDB, not {type_}"
            )
        case (_, None) | (dt.UnknownType(), _):
            return type_
        case _, (dt.IntegerType() | dt.DecimalType()) as other if type_ != HUGE and _scale(type_) == _scale(other):
            return other
        case _, other if HUGE in (type_, other) and _scale(type_) == _scale(other) == 0:
            return dt.DecimalType(38, 0) if other == HUGE else other
        case _, other if type(type_) is type(other) and str(type_) == str(other):
            return type_
        case _, (dt.StringType() | dt.BinaryType() | dt.TimestampType()) if type(type_) not in _SHOWN_KINDS:
            # For variants and geometries DuckDB reports their storage types.
            return type_
        case _:
            raise UnsupportedError(
                f"Cannot run the query on Spark: column {name} is {duckdb_type} on DuckDB, not {type_}"
            )


def _scale(type_: dt.Type) -> int | None:
    match type_:
        case dt.DecimalType(scale=scale):
            return scale
        case dt.IntegerType():
            return 0
        case _:
            return 0 if type_ == HUGE else None
