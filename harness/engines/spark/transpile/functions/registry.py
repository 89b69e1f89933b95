"""The definition of an entry in the function table: DuckDB's names of a function, and how a call is written for Spark.

Test calls for each entry are in tests/properties/drawn/functions.txt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import (
    BLOB_TYPE,
    DOUBLE,
    INT,
    LONG,
    TEXT,
    TypedSql,
    is_moment,
    is_number,
    type_name,
)
from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt

if TYPE_CHECKING:
    from harness.engines.spark.transpile.expressions import Expressions


@dataclass(slots=True)
class Call:
    """A function call in a query, with its arguments in DuckDB's order. Each argument is translated once.

    Attributes:
        expressions: Translates the arguments.
        node: The call.
        name: DuckDB's name of the function.
        arguments: The arguments.
    """

    expressions: Expressions
    node: exp.Expr
    name: str
    arguments: tuple[exp.Expr, ...]
    _lowered: dict[int, TypedSql] = field(init=False, default_factory=dict)

    def value(self, place: int) -> TypedSql:
        """Return a translated argument."""
        if place not in self._lowered:
            self._lowered[place] = self.expressions.translate(self.arguments[place])
        return self._lowered[place]

    def values(self) -> list[TypedSql]:
        """Return all translated arguments."""
        return [self.value(place) for place in range(len(self.arguments))]

    def refusal(self, why: str | None = None, instead: str | None = None) -> UnsupportedError:
        """Return the error for this call.

        Args:
            why: The uncertain part of the call. None for the function itself.
            instead: An alternative for the message.
        """
        name = f"{self.name}()" if self.name.isidentifier() else self.name
        return refusal(self.node, why or name, instead)


Parameter = Callable[[TypedSql], str | None]
"""Returns the argument in Spark's SQL, in the type of the parameter. None if the argument has another type."""

Lowering = Callable[[Call], TypedSql | None]
"""Translates a call. Returns None if its arguments have other types."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a function.

    Attributes:
        parameters: The parameters in order.
        result: The result type on DuckDB, or a function that returns it, given the type of the first argument.
        spark: The call for Spark, with `{0}` for the first argument, `{all}` for all arguments, and `{type}` for the
            result type.
        repeats: True if the last parameter can be repeated.
    """

    parameters: tuple[Parameter, ...]
    result: dt.Type | Callable[..., dt.Type]
    spark: str
    repeats: bool = False

    def lowered(self, values: Sequence[TypedSql]) -> TypedSql | None:
        """Return the translated call. None if the arguments do not match."""
        more = len(values) - len(self.parameters)
        if more < 0 or (more > 0 and not self.repeats):
            return None
        arguments = []
        for place, value in enumerate(values):
            text = self.parameters[min(place, len(self.parameters) - 1)](value)
            if text is None:
                return None
            arguments.append(text)
        result = self.result(values[0].type) if callable(self.result) else self.result
        type_text = type_name(result) if "{type}" in self.spark else ""
        return TypedSql(self.spark.format(*arguments, all=", ".join(arguments), type=type_text), result)


@dataclass(frozen=True, slots=True)
class Function:
    """An entry of the function table.

    Attributes:
        names: DuckDB's names, the usual one first. An operator is named by its sign.
        lowering: Translates a call. If there is none, or it returns None, `forms` are tried.
        count: The number of arguments that `lowering` accepts. None for any number.
        forms: The signatures, tried in this order.
        instead: The alternative that the error message suggests if no form matches.
        alternative: The alternative that the error message suggests for a function that is always refused. Empty for
            other functions.
    """

    names: tuple[str, ...]
    lowering: Lowering | None = None
    count: int | None = None
    forms: tuple[Signature, ...] = ()
    instead: str = ""
    alternative: str = ""

    def lower(self, call: Call) -> TypedSql:
        """Translate a call of the function."""
        if self.alternative:
            raise call.refusal(instead=self.alternative)
        lowering = self.lowering if self.count in (None, len(call.arguments)) else None
        translation = None if lowering is None else lowering(call)
        if translation is not None:
            return translation
        values = call.values() if lowering is not None or self.forms else []
        for form in self.forms:
            translation = form.lowered(values)
            if translation is not None:
                return translation
        types = ", ".join(str(v.type) for v in values)
        raise call.refusal(f"{call.name} of {types}" if types else None, self.instead or None)


def function_of_forms(names: tuple[str, ...], *forms: Signature, instead: str = "") -> Function:
    """Return an entry that has only signatures."""
    return Function(names, forms=forms, instead=instead)


def checked_value(subject: str, condition: str, value: str, message: str) -> str:
    """Return an expression that fails at run time unless a condition holds. It is null if the subject is null.

    Args:
        subject: An argument of the function.
        condition: The condition.
        value: The value if the condition holds.
        message: The error otherwise.
    """
    done = f"CASE WHEN {condition} THEN {value} ELSE RAISE_ERROR({spark_text.text(message)}) END"
    return f"CASE WHEN {subject} IS NULL THEN NULL ELSE {done} END"


def values_of_types(accepts: Callable[[dt.Type], bool]) -> Parameter:
    """Return a parameter that accepts values of some types unchanged."""
    return lambda value: value.sql if accepts(value.type) else None


def values_of_kind(kind: type) -> Parameter:
    """Return a parameter that accepts values of types of one class unchanged."""
    return values_of_types(lambda type_: isinstance(type_, kind))


def _castable(type_: dt.Type, accepts: Callable[[dt.Type], bool]) -> Parameter:
    """Return a parameter for values that DuckDB casts to `type_` implicitly, including nulls."""

    def lower(value: TypedSql) -> str | None:
        if isinstance(value.type, dt.UnknownType):
            return f"CAST(NULL AS {type_name(type_)})"
        if not accepts(value.type):
            return None
        return value.sql if str(value.type) == str(type_) else f"CAST({value.sql} AS {type_name(type_)})"

    return lower


def clip_to_int(value: TypedSql) -> str | None:
    """Return an integer as an INT, clipped to 32 bits.

    A larger index or count has the same effect on any text or list.
    """
    number = value.number
    if number is not None:
        return spark_text.integer(max(-(2**31), min(2**31 - 1, number)), 32)
    if not isinstance(value.type, dt.IntegerType):
        return "CAST(NULL AS INT)" if isinstance(value.type, dt.UnknownType) else None
    if value.type.bits <= 32:
        return value.sql
    # GREATEST and LEAST would turn nulls into numbers.
    sql = value.sql
    nearest = (
        f"CASE WHEN {sql} > 2147483647L THEN 2147483647L WHEN {sql} < -2147483647L THEN -2147483647L ELSE {sql} END"
    )
    return f"CAST({nearest} AS INT)"


def _any_text(value: TypedSql) -> str | None:
    """Return a value as text, if both engines convert it to the same text."""
    match value.type:
        case dt.UnknownType() | dt.StringType():
            return VARCHAR(value)
        case dt.IntegerType() | dt.BooleanType() | dt.DecimalType() | dt.DateType():
            return f"CAST({value.sql} AS STRING)"
        case _:
            return None


def _literal_text(value: TypedSql) -> str | None:
    return spark_text.text(value.text) if value.text else None


def _literal_pattern(value: TypedSql) -> str | None:
    text = value.text
    return spark_text.text(re.sub(r"([^\w\s]|_)", r"\\\1", text, flags=re.ASCII)) if text else None


VARCHAR = _castable(TEXT, lambda t: t == TEXT)
INTEGER = _castable(INT, lambda t: isinstance(t, dt.IntegerType) and t.bits <= 32)
BIGINT = _castable(LONG, lambda t: isinstance(t, dt.IntegerType))
NUMBER = _castable(DOUBLE, is_number)
CLOCK = _castable(dt.TimestampType(), lambda t: t == dt.TimestampType() or isinstance(t, dt.DateType))
BLOB = _castable(BLOB_TYPE, lambda t: isinstance(t, dt.BinaryType | dt.FixedType))
WHOLE, FLOATING, DECIMAL = values_of_kind(dt.IntegerType), values_of_kind(dt.FloatType), values_of_kind(dt.DecimalType)
LIST, MAP = values_of_kind(dt.ListType), values_of_kind(dt.MapType)
NUMERIC, MOMENT = values_of_types(is_number), values_of_types(is_moment)
PLACE: Parameter = clip_to_int
"""An index or a count, as an INT."""
ANY_TEXT: Parameter = _any_text
LITERAL_TEXT: Parameter = _literal_text
LITERAL_PATTERN: Parameter = _literal_pattern
"""A text literal, as a regular expression that matches it."""


def first_type(type_: dt.Type) -> dt.Type:
    """Return the type of the first argument as the result type."""
    return type_


def first_element_type(type_: dt.ListType) -> dt.Type:
    """Return the element type of the first argument as the result type."""
    return type_.element.type
