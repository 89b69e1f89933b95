"""Scalar functions that mean the same on both engines, or can be made to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from harness.filters.literals import Kind
from harness.model.schema import (
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    UnknownType,
)
from harness.queries.transpile import spark_text
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import BOOLEAN, LONG, TEXT, Typed, alike

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


def translate(expressions: Expressions, node: exp.Expr) -> Typed | None:
    """The call; None if it is none of the functions known here. Raises UnsupportedError."""
    match node:
        case exp.Coalesce():
            return _several(expressions, node, "COALESCE", [node.this, *node.expressions])
        case exp.Greatest() | exp.Least() if node.args.get("ignore_nulls", True):
            name = "GREATEST" if isinstance(node, exp.Greatest) else "LEAST"
            found = _several(expressions, node, name, [node.this, *node.expressions])
            if isinstance(found.type, ListType | StructType | MapType):
                raise refused(node)
            return found
        case exp.Nullif():
            subject = expressions.translate(node.this)
            equal = expressions.translate(exp.EQ(this=node.this.copy(), expression=node.expression.copy()))
            return Typed(f"CASE WHEN {equal.sql} THEN NULL ELSE {subject.sql} END", subject.type)
        case exp.Abs():
            return _abs(expressions, node)
        case exp.Round():
            return _round(expressions, node)
        case _:
            return _of_text(expressions, node) or _of_time(expressions, node)


def _several(expressions: Expressions, node: exp.Expr, name: str, parts: list[exp.Expr]) -> Typed:
    if len(parts) == 1:
        return expressions.translate(parts[0])
    texts, type_ = alike((expressions.translate(part) for part in parts), name)
    return Typed(f"{name}({', '.join(texts)})", type_)


def _abs(expressions: Expressions, node: exp.Abs) -> Typed:
    value = expressions.translate(node.this)
    if not isinstance(value.type, IntegerType | FloatType | DecimalType):
        raise refused(node, f"abs of {value.type}")
    return Typed(f"ABS({value.sql})", value.type)


def _round(expressions: Expressions, node: exp.Round) -> Typed:
    """Decimals only: Spark rounds the shortest text of a double, DuckDB the double itself."""
    value, digits = expressions.translate(node.this), node.args.get("decimals")
    places = _number(expressions, digits) if digits is not None else 0
    if not isinstance(value.type, DecimalType) or places is None or not 0 <= places < value.type.scale:
        raise refused(node, f"round of {value.type}")
    type_ = DecimalType(value.type.precision, places)
    return Typed(f"CAST(ROUND({value.sql}, {places}) AS {spark_text.type_name(type_)})", type_)


def _number(expressions: Expressions, node: exp.Expr | None) -> int | None:
    """The value of a whole number that stands there as a literal."""
    literal = expressions.translate(node).literal if node is not None else None
    return int(literal.value) if literal is not None and literal.kind is Kind.INTEGER else None


# Of text.

_PAIRS: dict[type[exp.Expr], str] = {exp.StartsWith: "STARTSWITH", exp.EndsWith: "ENDSWITH", exp.Contains: "CONTAINS"}
_NAMED_PAIRS = {"prefix": "STARTSWITH", "suffix": "ENDSWITH"}


def _of_text(expressions: Expressions, node: exp.Expr) -> Typed | None:
    match node:
        case exp.Length():
            return _length(expressions, node)
        case exp.Upper() | exp.Lower():
            return _case(expressions, node)
        case exp.Trim() if node.expression is None:
            side = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(node.args.get("position") or "", "TRIM")
            return Typed(f"{side}({_text(expressions, node, node.this)})", TEXT)
        case exp.Substring():
            return _substring(expressions, node)
        case exp.StrPosition() if node.args.get("position") is None and node.args.get("occurrence") is None:
            text = _text(expressions, node, node.this)
            return Typed(f"CAST(INSTR({text}, {_text(expressions, node, node.args['substr'])}) AS BIGINT)", LONG)
        case exp.StartsWith() | exp.EndsWith() | exp.Contains():
            return _pair(expressions, node, _PAIRS[type(node)], [node.this, node.expression])
        case exp.Anonymous() if node.name.lower() in _NAMED_PAIRS and len(node.expressions) == 2:
            return _pair(expressions, node, _NAMED_PAIRS[node.name.lower()], node.expressions)
        case exp.ConcatWs():
            return _joined(expressions, node)
        case exp.Concat():
            # DuckDB leaves nulls out; Spark's is null if one part is.
            parts = [f"COALESCE({_text(expressions, node, part)}, '')" for part in node.expressions]
            return Typed(f"CONCAT({', '.join(parts)})", TEXT)
        case _:
            return None


def _joined(expressions: Expressions, node: exp.ConcatWs) -> Typed:
    """`concat_ws`: on both engines nulls are left out, empty texts are not, and a separator of null makes a null."""
    if len(node.expressions) < 2:
        raise refused(node)
    return Typed(f"CONCAT_WS({', '.join(_text(expressions, node, part) for part in node.expressions)})", TEXT)


def _text(expressions: Expressions, node: exp.Expr, part: exp.Expr) -> str:
    value = expressions.translate(part)
    if isinstance(value.type, UnknownType):
        return "CAST(NULL AS STRING)"
    if value.type != TEXT:
        raise refused(node, f"a function of text on {value.type}")
    return value.sql


def _pair(expressions: Expressions, node: exp.Expr, name: str, parts: list[exp.Expr]) -> Typed:
    return Typed(f"{name}({', '.join(_text(expressions, node, part) for part in parts)})", BOOLEAN)


def _length(expressions: Expressions, node: exp.Length) -> Typed:
    value = expressions.translate(node.this)
    if isinstance(value.type, ListType):
        return Typed(f"CAST(CASE WHEN {value.sql} IS NOT NULL THEN SIZE({value.sql}) END AS BIGINT)", LONG)
    if value.type != TEXT:
        raise refused(node, f"length of {value.type}")
    return Typed(f"CAST(CHAR_LENGTH({value.sql}) AS BIGINT)", LONG)


def _case(expressions: Expressions, node: exp.Upper | exp.Lower) -> Typed:
    """Beyond ASCII the engines follow other rules ('ß', 'İ'): an error when such a text comes along."""
    text = _text(expressions, node, node.this)
    name = "UPPER" if isinstance(node, exp.Upper) else "LOWER"
    message = spark_text.text(f"{name.lower()}() of text beyond ASCII differs between Spark and DuckDB")
    return Typed(
        f"CASE WHEN {text} IS NULL THEN NULL WHEN CHAR_LENGTH({text}) = OCTET_LENGTH({text}) THEN {name}({text}) "
        f"ELSE RAISE_ERROR({message}) END",
        TEXT,
    )


def _substring(expressions: Expressions, node: exp.Substring) -> Typed:
    text, start, length = _text(expressions, node, node.this), node.args.get("start"), node.args.get("length")
    first, count = _number(expressions, start), _number(expressions, length)
    if first is None or first < 1 or (length is not None and (count is None or count < 0)):
        raise refused(node, "a substring that does not start at a literal from 1 on")
    return Typed(f"SUBSTRING({text}, {first}{'' if length is None else f', {count}'})", TEXT)


# Of dates and times.

_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
}
_OF_TIMESTAMPS = ("HOUR", "MINUTE")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def _of_time(expressions: Expressions, node: exp.Expr) -> Typed | None:
    match node:
        case exp.Extract():
            return _part(expressions, node, node.name.upper(), node.expression)
        case _ if type(node) in _PARTS:
            return _part(expressions, node, _PARTS[type(node)], node.this)
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _truncated(expressions, node)
        case exp.DateDiff() if node.args["unit"].name.upper() == "DAY":
            return _days_between(expressions, node)
        case _:
            return None


def _part(expressions: Expressions, node: exp.Expr, part: str, of: exp.Expr) -> Typed:
    value = expressions.translate(of)
    is_timestamp = isinstance(value.type, TimestampType) and value.type.unit == "us"
    if part not in _PARTS.values() or not (
        is_timestamp or (isinstance(value.type, DateType) and part not in _OF_TIMESTAMPS)
    ):
        raise refused(node, f"{part.lower()} of {value.type}")
    return Typed(f"CAST({part}({value.sql}) AS BIGINT)", LONG)


def _truncated(expressions: Expressions, node: exp.Expr) -> Typed:
    value, unit = expressions.translate(node.this), node.args["unit"].name.upper()
    if unit not in _UNITS or not (
        isinstance(value.type, DateType) or (isinstance(value.type, TimestampType) and value.type.unit == "us")
    ):
        raise refused(node, f"date_trunc of {value.type} to {unit.lower()}")
    type_ = value.type if isinstance(value.type, TimestampType) else TimestampType()
    # Spark's is an instant whatever it is given, in the session's zone, which is UTC here.
    return Typed(f"CAST(DATE_TRUNC('{unit}', {value.sql}) AS {spark_text.type_name(type_)})", type_)


def _days_between(expressions: Expressions, node: exp.DateDiff) -> Typed:
    ends = [expressions.translate(part) for part in (node.this, node.expression)]
    if not all(
        isinstance(v.type, DateType) or (isinstance(v.type, TimestampType) and v.type.unit == "us") for v in ends
    ):
        raise refused(node)
    last, first = (f"CAST({v.sql} AS DATE)" for v in ends)
    return Typed(f"CAST(DATEDIFF({last}, {first}) AS BIGINT)", LONG)
