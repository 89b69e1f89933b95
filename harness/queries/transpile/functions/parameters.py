"""What may stand as an argument of a function, by its type on DuckDB."""

from __future__ import annotations

from collections.abc import Callable

from harness.filters.literals import Kind
from harness.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    TimestampType,
    Type,
    UnknownType,
)
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


VARCHAR = _of("VARCHAR", TEXT, lambda t: t == TEXT)
INTEGER = _of("INTEGER", IntegerType(32), lambda t: isinstance(t, IntegerType) and t.bits <= 32)
BIGINT = _of("BIGINT", IntegerType(64), lambda t: isinstance(t, IntegerType))
NUMBER = _of("DOUBLE", DOUBLE, is_number)
BOOL = _of("BOOLEAN", BooleanType(), lambda t: isinstance(t, BooleanType))
DAY = _of("DATE", DateType(), lambda t: isinstance(t, DateType))
CLOCK = _of("TIMESTAMP", TimestampType(), lambda t: t == TimestampType() or isinstance(t, DateType))
