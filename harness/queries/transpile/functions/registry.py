"""The shape of the table of functions, from which calls are lowered and the docs are written.

An entry says what DuckDB calls a function, which arguments it takes, how it is written for Spark, where the engines
agree, what happens elsewhere, and expressions by which tests draw values for it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.metadata.filters.literals import Kind
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
    UnknownType,
)
from harness.queries.transpile import spark_text
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import DOUBLE, TEXT, Typed, is_number, type_name

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


class FunctionKind(enum.Enum):
    """The section of the table in which a function stands."""

    GENERAL = "Conditions and nulls"
    OPERATORS = "Operators and casts"
    TEXT = "Text"
    PATTERNS = "Patterns"
    NUMBERS = "Numbers"
    TIMES = "Dates and times"
    LISTS = "Lists"
    NESTED = "Structs and maps"
    AGGREGATES = "Aggregates"
    WINDOWS = "Window functions"


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments in DuckDB's order, as it stands in a query."""

    expressions: Expressions
    node: exp.Expr
    name: str
    arguments: tuple[exp.Expr, ...]

    def value(self, place: int) -> Typed:
        """An argument, lowered. Raises UnsupportedError."""
        return self.expressions.translate(self.arguments[place])

    def refused(self, why: str | None = None, instead: str | None = None) -> UnsupportedError:
        """The error for this call. why: the part that is not certain; instead: words to write."""
        name = f"{self.name}()" if self.name.isidentifier() else self.name
        return refused(self.node, why or name, instead)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function.

    shown: its type, as DuckDB writes it. taken: the argument in Spark's SQL, in that type; None: it is of another type.
    """

    shown: str
    taken: Callable[[Typed], str | None]


Lowering = Callable[[Call], Typed | None]
"""Lowers a call; None: it is of other types. Raises UnsupportedError where the types are right and the rest is not."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature.

    parameters: by place. result: the type of the result on DuckDB. spark: the call in Spark's SQL, with `{0}` for the
    first argument. more: how many of the last parameters may be left out; -1: the last one may be repeated.
    """

    parameters: tuple[Parameter, ...]
    result: Type
    spark: str
    more: int = 0

    def lowered(self, values: Sequence[Typed]) -> Typed | None:
        """The call; None if its arguments are others."""
        if len(values) < len(self.parameters) - max(0, self.more):
            return None
        if len(values) > len(self.parameters) and self.more >= 0:
            return None
        taken = []
        for place, value in enumerate(values):
            text = self.parameters[min(place, len(self.parameters) - 1)].taken(value)
            if text is None:
                return None
            taken.append(text)
        return Typed(self.spark.format(*taken, all=", ".join(taken)), self.result)

    def shown(self) -> str:
        """The types of the arguments, as DuckDB writes them."""
        names = [p.shown for p in self.parameters]
        if self.more < 0:
            return ", ".join([*names, "..."])
        firm = len(names) - self.more
        return ", ".join(names[:firm]) + "".join(f"[, {name}]" for name in names[firm:])


class Domain(TypedDict, total=False):
    """Parts of `Function` that say where both engines give the same."""

    agree: str
    outside: str
    allowance: str


@dataclass(frozen=True, slots=True)
class Function:
    """An entry of the table.

    names: DuckDB's names, first the usual one; an operator by its sign.
    lowering: how a call becomes Spark's SQL; None, or a result of None: by the forms.
    forms: its signatures, tried in their order.
    takes, written: its arguments and how it is written for Spark, for the docs, where there are no forms.
    agree: the domain on which both engines give the same; empty: for all values of its types.
    outside: the outcome for other values, and words to write instead.
    allowance: how far the results may differ; empty: not at all.
    refused: words to write instead of a function that is always refused; empty: it is not.
    draws: DuckDB's SQL with kinds of values in braces, by which tests draw calls: `lpad({text}, {count}, {text})`.
    """

    names: tuple[str, ...]
    lowering: Lowering | None = None
    _: KW_ONLY
    kind: FunctionKind
    forms: tuple[Signature, ...] = ()
    takes: str = ""
    written: str = ""
    agree: str = ""
    outside: str = ""
    allowance: str = ""
    refused: str = ""
    draws: tuple[str, ...] = ()

    def lower(self, call: Call) -> Typed:
        """A call of it in Spark's SQL. Raises UnsupportedError."""
        if self.refused:
            raise call.refused(instead=self.refused)
        found = self.lowering(call) if self.lowering is not None else None
        if found is not None:
            return found
        values = [call.value(place) for place in range(len(call.arguments))] if self.forms else []
        for form in self.forms:
            found = form.lowered(values)
            if found is not None:
                return found
        types = ", ".join(str(v.type) for v in values)
        raise call.refused(f"{call.name} of {types}" if types else None, self.outside or None)


def lowered_by(
    kind: FunctionKind,
    names: tuple[str, ...],
    lowering: Lowering,
    takes: str,
    written: str,
    *draws: str,
    **domain: Unpack[Domain],
) -> Function:
    """An entry with a lowering and without forms."""
    return Function(names, lowering, kind=kind, takes=takes, written=written, draws=draws, **domain)


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
