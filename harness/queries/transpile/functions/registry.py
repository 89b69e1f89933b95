"""The shape of the table of functions: one entry for each, from which queries are lowered and the docs are written.

An entry says what DuckDB calls the function, which arguments it takes, how it is written for Spark, where the engines
agree, what becomes of the rest, and expressions by which tests draw values for it. A scalar function has `forms`, and
is found by its name. What is lowered elsewhere, such as an aggregate, has an entry without forms or lowering, with
`takes` and `written` for the docs: its module gives a tuple of entries, `harness.queries.transpile.supported` joins
them, and the docs (`python tests/docs/refresh.py`) and the tests follow.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.model.schema import Type
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.values import Typed

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


class Kind(enum.Enum):
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
        """The error for this call. why: what of it is not certain; instead: what to write."""
        name = f"{self.name}()" if self.name.isidentifier() else self.name
        return refused(self.node, why or name, instead)


@dataclass(frozen=True, slots=True)
class Parameter:
    """What may stand as an argument.

    shown: its type, as DuckDB writes it. taken: the argument in Spark's SQL, in that type; None: it is of another type.
    """

    shown: str
    taken: Callable[[Typed], str | None]


Lowering = Callable[[Call], Typed | None]
"""Lowers a call; None: it is of other types. Raises UnsupportedError where the types are right and the rest is not."""


@dataclass(frozen=True, slots=True)
class Form:
    """One signature.

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
    """Where both engines give the same, as `Function` says: what the makers of entries pass on to it."""

    agree: str
    outside: str
    allowance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An entry of the table.

    names: what DuckDB calls it, first the usual name; an operator by its sign.
    forms: its signatures, tried in their order.
    lowering: how a call becomes Spark's SQL where no form says it.
    takes: its arguments, for the docs, where there are no forms.
    written: how it is written for Spark, for the docs, where there are no forms.
    agree: the domain on which both engines give the same; empty: for all values of its types.
    outside: what becomes of the rest, and what to write instead.
    allowance: how far the results may differ; empty: not at all.
    refused: why all of it is refused, and what to write instead; empty: it is not.
    draws: DuckDB's SQL with the kinds of `harness.testing.properties.strategies.expressions` in braces, by which tests
        draw calls: `lpad({text}, {count}, {text})`.
    """

    names: tuple[str, ...]
    kind: Kind
    forms: tuple[Form, ...] = ()
    lowering: Lowering | None = None
    takes: str = ""
    written: str = ""
    agree: str = ""
    outside: str = ""
    allowance: str = ""
    refused: str = ""
    draws: tuple[str, ...] = ()

    @property
    def is_lowered_elsewhere(self) -> bool:
        """Whether the entry is for the docs and the tests alone."""
        return not self.forms and self.lowering is None and not self.refused

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
