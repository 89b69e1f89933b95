"""What may stand as an argument of a function, by its type on DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable

from harness.filters.literals import Kind
from harness.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
    UnknownType,
)
from harness.queries.transpile import spark_text
from harness.queries.transpile.functions.registry import Parameter
from harness.queries.transpile.values import DOUBLE, HUGE, TEXT, Typed, type_name


def whole(value: Typed) -> int | None:
    """The number that an argument is, if it is a literal."""
    literal = value.literal
    return int(literal.value) if literal is not None and literal.kind is Kind.INTEGER else None


def said(value: Typed) -> str | None:
    """The text that an argument is, if it is a literal."""
    literal = value.literal
    return str(literal.value) if literal is not None and literal.kind is Kind.STRING else None


def _of(shown: str, type_: Type, accepts: Callable[[Type], bool]) -> Parameter:
    """Values of types that DuckDB casts to `type_` by itself; nulls too."""

    def taken(value: Typed) -> str | None:
        if isinstance(value.type, UnknownType):
            return f"CAST(NULL AS {type_name(type_)})"
        if not accepts(value.type):
            return None
        return value.sql if str(value.type) == str(type_) else f"CAST({value.sql} AS {type_name(type_)})"

    return Parameter(shown, taken)


def is_number(type_: Type) -> bool:
    """Whether a type is one of numbers."""
    return isinstance(type_, IntegerType | DecimalType | FloatType) or type_ == HUGE


def clipped(value: Typed) -> str | None:
    """A whole number as an INT of Spark: beyond 32 bits the nearest, which is as far from any text or list."""
    number = whole(value)
    if number is not None:
        return spark_text.integer(max(-(2**31), min(2**31 - 1, number)), 32)
    if not isinstance(value.type, IntegerType):
        return "CAST(NULL AS INT)" if isinstance(value.type, UnknownType) else None
    if value.type.bits <= 32:
        return value.sql
    # GREATEST and LEAST would make numbers of nulls.
    sql = value.sql
    nearest = (
        f"CASE WHEN {sql} > 2147483647L THEN 2147483647L WHEN {sql} < -2147483647L THEN -2147483647L ELSE {sql} END"
    )
    return f"CAST({nearest} AS INT)"


def _any_text(value: Typed) -> str | None:
    """A value as the text that both engines make of it."""
    match value.type:
        case UnknownType() | StringType():
            return VARCHAR.taken(value)
        case IntegerType() | BooleanType() | DecimalType() | DateType():
            return f"CAST({value.sql} AS STRING)"
        case _:
            return None


def _literal_text(value: Typed) -> str | None:
    text = said(value)
    return spark_text.text(text) if text else None


def _literal_pattern(value: Typed) -> str | None:
    text = said(value)
    return spark_text.text(re.sub(r"([^\w\s]|_)", r"\\\1", text, flags=re.ASCII)) if text else None


VARCHAR = _of("VARCHAR", TEXT, lambda t: t == TEXT)
INTEGER = _of("INTEGER", IntegerType(32), lambda t: isinstance(t, IntegerType) and t.bits <= 32)
BIGINT = _of("BIGINT", IntegerType(64), lambda t: isinstance(t, IntegerType))
NUMBER = _of("DOUBLE", DOUBLE, is_number)
BOOL = _of("BOOLEAN", BooleanType(), lambda t: isinstance(t, BooleanType))
DAY = _of("DATE", DateType(), lambda t: isinstance(t, DateType))
CLOCK = _of("TIMESTAMP", TimestampType(), lambda t: t == TimestampType() or isinstance(t, DateType))
BLOB = _of("BLOB", BinaryType(), lambda t: isinstance(t, BinaryType | FixedType))
PLACE = Parameter("BIGINT", clipped)
"""A place or a count, in an INT of Spark."""
ANY_TEXT = Parameter("VARCHAR or what becomes text alike", _any_text)
LITERAL_TEXT = Parameter("a literal of VARCHAR, not empty", _literal_text)
LITERAL_PATTERN = Parameter("a literal of VARCHAR, not empty", _literal_pattern)
"""A text as the regular expression that matches it."""
