"""Filters: a condition as a tree of tuples, evaluated on one row in three-valued logic (iceberg 3.1).

A node is a tuple of a word and the parts that the word governs; a, b and c are nodes:

    ("and", a, …)  ("or", a, …)  ("not", a)  ("is null", a)  ("is true", a)  ("is false", a)  ("is distinct", a, b)
    ("=", a, b)  ("<>", a, b)  ("<", a, b)  ("<=", a, b)  (">", a, b)  (">=", a, b)  ("between", a, b, c)
    ("in", a, b, …)  ("like", a, b, "escape sign")  ("starts with", a, b)  ("is nan", a)  ("is inf", a)
    ("+", a, b)  ("-", a, b)  ("*", a, b)  ("negative", a)  ("cast", a, "type", "precision", "scale")
    ("column", "name", "name of a field inside", …)  ("number", "1.5")  ("text", "a")  ("true",)  ("false",)  ("null",)

Types, casts and comparisons mean what they mean in DuckDB. What the oracle does not evaluate, it refuses by name.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from harness.errors import UnknownColumnError
from harness.testing.oracle import terms
from harness.testing.oracle import types as dt
from harness.testing.oracle.terms import Evaluate, Term, Values, comparable, constant, refused, unless_null
from harness.testing.oracle.types import Field, children, inside, named

Tree: TypeAlias = tuple[Any, ...]
Find: TypeAlias = Callable[[str], Field]
"""Gives the column that a name means. Raises UnknownColumnError."""


@dataclass(frozen=True)
class Filter:
    """A condition. columns: those that the tree names. evaluate: the condition of a row, None for unknown."""

    columns: tuple[Field, ...]
    evaluate: Evaluate


def filter_of(tree: Tree, find: Find) -> Filter:
    """The filter that a tree means.

    Raises UnknownColumnError: there is no such column. UnsupportedError: the oracle does not evaluate the tree.
    """
    compiler = _Compiler(find)
    condition = compiler.of_type(dt.BOOLEAN, tree)
    return Filter(tuple(compiler.columns.values()), condition)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    **{"=": operator.eq, "<>": operator.ne, "<": operator.lt},
    **{"<=": operator.le, ">": operator.gt, ">=": operator.ge},
}


class _Compiler:
    """Turns nodes into terms, and collects the columns."""

    def __init__(self, find: Find) -> None:
        self.find = find
        self.columns: dict[int, Field] = {}

    def of_type(self, type_: dt.Type, tree: Tree) -> Evaluate:
        """The values of a node of one type, or of NULL."""
        term = self.term(tree)
        if term.type not in (type_, dt.UNKNOWN):
            raise refused(f"know a {type_} from {term.type}")
        return term.evaluate

    def term(self, tree: Tree) -> Term:
        """The term of any node."""
        word, *parts = tree
        match word:
            case "column":
                return self.column(parts)
            case "number":
                return _number(parts[0])
            case "text":
                return constant(dt.STRING, parts[0], literal=parts[0])
            case "null":
                return constant(dt.UNKNOWN, None)
            case "true" | "false":
                return constant(dt.BOOLEAN, word == "true")
            case "+" | "-" | "*":
                return terms.arithmetic(word, self.term(parts[0]), self.term(parts[1]))
            case "negative":
                return terms.negative(self.term(parts[0]))
            case "cast":
                return terms.cast(self.term(parts[0]), _type(parts[1:]))
            case _:
                return Term(dt.BOOLEAN, self.condition(word, parts))

    def condition(self, word: str, parts: Sequence[Any]) -> Evaluate:
        """The condition of a node that is one."""
        match word:
            case "and" | "or":
                return _junction([self.of_type(dt.BOOLEAN, part) for part in parts], wants_all=word == "and")
            case "not":
                condition = self.of_type(dt.BOOLEAN, parts[0])
                return lambda row: unless_null(operator.not_, condition(row))
            case "is null":
                value = self.term(parts[0]).evaluate
                return lambda row: value(row) is None
            case "is true" | "is false":
                condition = self.of_type(dt.BOOLEAN, parts[0])
                return lambda row: condition(row) is (word == "is true")
            case "is distinct":
                left, right = comparable([self.term(part) for part in parts])
                return lambda row: left(row) != right(row)
            case "between":
                value, low, high = comparable([self.term(part) for part in parts])
                return _junction([_known(operator.ge, value, low), _known(operator.le, value, high)], wants_all=True)
            case "in":
                return _membership(*comparable([self.term(part) for part in parts]))
            case "like":
                text, pattern = (self.of_type(dt.STRING, part) for part in parts[:2])
                return _known(lambda value, like: bool(_regex(like, parts[2]).fullmatch(value)), text, pattern)
            case "starts with":
                text, start = (self.of_type(dt.STRING, part) for part in parts)
                return _known(str.startswith, text, start)
            case "is nan" | "is inf":
                term = self.term(parts[0])
                if not isinstance(term.type, dt.FloatType):
                    raise refused(f"know {word} of {term.type}")
                holds = math.isnan if word == "is nan" else math.isinf
                return lambda row: unless_null(holds, term.evaluate(row))
            case _ if word in _COMPARISONS:
                left, right = comparable([self.term(part) for part in parts])
                return _known(_COMPARISONS[word], left, right)
            case _:
                raise refused(f"know {word}")

    def column(self, names: Sequence[str]) -> Term:
        """A column, or a field inside."""
        path = [self.find(names[0])]
        self.columns[path[0].id] = path[0]
        for name in names[1:]:
            found = named(name, children(path[-1].type) if isinstance(path[-1].type, dt.StructType) else ())
            if found is None:
                raise UnknownColumnError(f"Unknown column {'.'.join(names)}", field=".".join(names))
            path.append(found)
        ids = [f.id for f in path]
        return Term(terms.sql_type(path[-1].type), lambda row: inside(row, ids))


def _junction(conditions: Sequence[Evaluate], *, wants_all: bool) -> Evaluate:
    """AND, or OR: decided by the first condition that decides, else unknown if one is."""

    def evaluate(row: Values) -> bool | None:
        is_unknown = False
        for condition in conditions:
            value = condition(row)
            if value is (not wants_all):
                return not wants_all
            is_unknown |= value is None
        return None if is_unknown else wants_all

    return evaluate


def _known(holds: Callable[[Any, Any], bool], left: Evaluate, right: Evaluate) -> Evaluate:
    """Unknown if either side is null."""

    def evaluate(row: Values) -> bool | None:
        first, second = left(row), right(row)
        return None if first is None or second is None else holds(first, second)

    return evaluate


def _membership(value: Evaluate, *items: Evaluate) -> Evaluate:
    """IN: equal to one of them, or unknown if that depends on a null."""

    def evaluate(row: Values) -> bool | None:
        wanted, found = value(row), [item(row) for item in items]
        if wanted is None:
            return None
        return True if wanted in found else None if None in found else False

    return evaluate


def _regex(like: str, escape: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern; without an escape sign, DuckDB has none."""
    pieces, signs = [], iter(like)
    for sign in signs:
        if sign == escape:
            following = next(signs, None)
            if following is None:
                raise refused("know a LIKE pattern that ends with its escape sign")
            pieces.append(re.escape(following))
        else:
            pieces.append({"%": ".*", "_": "."}.get(sign, re.escape(sign)))
    return re.compile("".join(pieces), re.DOTALL)


def _number(text: str) -> Term:
    """A number as DuckDB types it: INTEGER and wider, DECIMAL with as many digits as are written, or DOUBLE."""
    if text.isdecimal() and int(text) < 2**127:
        value = int(text)
        if value >= 2**63:
            return constant(dt.DecimalType(39, 0), value)  # HUGEINT: all that matters is that it is exact
        return constant(dt.IntegerType(32 if value < 2**31 else 64), value, literal=value)
    found = re.fullmatch(r"(\d*)\.(\d*)", text)
    if found is not None and 0 < len(found[1] + found[2]) <= 38:
        precision = max(len(found[1].lstrip("0") + found[2]), 1)
        return constant(dt.DecimalType(precision, len(found[2])), Decimal(text))
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
        return constant(dt.FloatType(64), float(text))
    raise refused(f"know the number {text}")


def _type(parts: Sequence[str]) -> dt.Type:
    """A type by any of the names that DuckDB knows it by, and its sizes."""
    name, sizes = parts[0].lower(), [int(size) for size in parts[1:]]
    if name in ("decimal", "numeric", "dec"):
        precision, scale = (*sizes, 0)[:2] if sizes else (18, 3)
        return dt.DecimalType(precision, scale)
    found = next((type_ for names, type_ in _TYPES.items() if name in names.split()), None)
    if found is None or (sizes and found != dt.STRING):
        raise refused(f"know the type {name}")
    return found


_TYPES: dict[str, dt.Type] = {
    "boolean bool": dt.BOOLEAN,
    "tinyint int1": dt.IntegerType(8),
    "smallint int2 short": dt.IntegerType(16),
    "integer int int4 signed": dt.IntegerType(32),
    "bigint int8 long": dt.IntegerType(64),
    "float real float4": dt.FloatType(32),
    "double float8": dt.FloatType(64),
    "varchar text string char bpchar": dt.STRING,
    "blob bytea binary varbinary": dt.BINARY,
    **{"date": dt.DATE, "time": dt.TimeType(), "uuid": dt.UUID, "timestamp datetime": dt.TimestampType()},
    **{"timestamptz": dt.TimestampType("us", utc=True), "timestamp_ns": dt.TimestampType("ns")},
}
