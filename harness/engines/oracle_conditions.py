"""Conditions of SQL for the oracle: a tree of tuples, evaluated on one row in three-valued logic.

Neither format has SQL, so the oracle takes a condition as a function, and this module makes the function.
A node is a tuple of a word and the parts that the word governs; a, b and c are nodes:

    ("and", a, …)  ("or", a, …)  ("not", a)  ("is null", a)  ("is true", a)  ("is false", a)  ("is distinct", a, b)
    ("=", a, b)  ("<>", a, b)  ("<", a, b)  ("<=", a, b)  (">", a, b)  (">=", a, b)  ("between", a, b, c)
    ("in", a, b, …)  ("like", a, b, "escape sign")  ("starts with", a, b)  ("is nan", a)  ("is inf", a)
    ("+", a, b)  ("-", a, b)  ("*", a, b)  ("negative", a)  ("cast", a, "type", "precision", "scale")
    ("upper", a)  ("lower", a)  ("coalesce", a, …)  ("case", condition, value, …, value of no condition)
    ("column", "name", "name of a field inside", …)  ("number", "1.5")  ("text", "a")  ("true",)  ("false",)  ("null",)

Types, casts and comparisons mean what they mean in DuckDB. What the oracle does not evaluate, it refuses by name.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

from harness.errors import EngineError, UnknownColumnError, UnsupportedError
from harness.testing.oracle import types as dt
from harness.testing.oracle.scan import Filter
from harness.testing.oracle.types import Field, children, inside, named
from harness.testing.oracle.values import DAY_SECONDS, UNITS, Grammar, parsed, single, to_decimal, within_bits

Tree: TypeAlias = tuple[Any, ...]
Find: TypeAlias = Callable[[str], Field]
"""Gives the column that a name means. Raises UnknownColumnError."""


def filter_of(tree: Tree, find: Find) -> Filter:
    """The filter that a tree means."""
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
                return arithmetic(word, self.term(parts[0]), self.term(parts[1]))
            case "negative":
                return negative(self.term(parts[0]))
            case "cast":
                return cast(self.term(parts[0]), _type(parts[1:]))
            case "upper" | "lower":
                return Term(dt.STRING, _letters(word, self.of_type(dt.STRING, parts[0])))
            case "coalesce":
                values = [self.term(part) for part in parts]
                return _choice([(_is_there(value), value) for value in values])
            case "case":
                conditions = [self.of_type(dt.BOOLEAN, part) for part in parts[:-1:2]]
                values = [self.term(part) for part in [*parts[1::2], parts[-1]]]
                return _choice([*zip([*conditions, lambda _: True], values, strict=True)])
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
        return Term(sql_type(path[-1].type), lambda row: inside(row, ids))


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


def _letters(word: str, text: Evaluate) -> Evaluate:
    """The upper or lower case of a text; beyond ASCII, Python and DuckDB need not agree."""

    def evaluate(row: Values) -> str | None:
        value = text(row)
        if value is not None and not value.isascii():
            raise refused(f"know {word} of text beyond ASCII")
        return None if value is None else str.upper(value) if word == "upper" else str.lower(value)

    return evaluate


def _is_there(term: Term) -> Evaluate:
    return lambda row: term.evaluate(row) is not None


def _choice(cases: Sequence[tuple[Evaluate, Term]]) -> Term:
    """The value whose condition is the first that is true; null if none is. All values are of one type, or integers."""
    types = {term.type for _, term in cases} - {dt.UNKNOWN}
    widths = [type_.bits for type_ in types if isinstance(type_, dt.IntegerType)]
    if len(widths) == len(types) > 1:
        types = {dt.IntegerType(max(widths))}
    if len(types) > 1:
        raise refused(f"choose among {' and '.join(sorted(map(str, types)))}")

    def evaluate(row: Values) -> Any:
        return next((term.evaluate(row) for condition, term in cases if condition(row) is True), None)

    return Term(next(iter(types), dt.UNKNOWN), evaluate)


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


_SQL = Grammar(
    r"(?!0+-)(\d{1,6})-(\d{1,2})-(\d{1,2})",
    r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?",
    "[ T]",
    r"(?:Z|([+-])(\d{2})(?::?(\d{2}))?())",
    {"true": True, "false": False, "t": True, "f": False},
    16 * 3600 - 1,
)
"""The texts that DuckDB casts to a value."""
Values: TypeAlias = Mapping[int, Any]
"""A row: values by the field id of the column."""
Evaluate: TypeAlias = Callable[[Values], Any]
_NUMBERS = (dt.IntegerType, dt.DecimalType, dt.FloatType)
_WIDE = Context(prec=200)
_SIGNS = {"+": (operator.add, _WIDE.add), "-": (operator.sub, _WIDE.subtract), "*": (operator.mul, _WIDE.multiply)}
"""Per sign, the operation on floats and the one on exact numbers."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


@dataclass(frozen=True)
class Term:
    """A part of an expression.

    type: `UNKNOWN` for NULL.
    literal: the text of a string literal, or the number of an integer literal, which take the type of what they meet.
    """

    type: dt.Type
    evaluate: Evaluate
    literal: str | int | None = None


def refused(reason: str) -> UnsupportedError:
    """The error for a filter, or a part of one, that the oracle does not evaluate."""
    return UnsupportedError(f"Cannot evaluate the filter: the oracle does not {reason}")


def constant(type_: dt.Type, value: Any, *, literal: str | int | None = None) -> Term:
    """A term that is the same in every row."""
    return Term(type_, lambda _: value, literal)


def unless_null(convert: Callable[[Any], Any], value: Any) -> Any:
    """The converted value; null stays null."""
    return None if value is None else convert(value)


def sql_type(type_: dt.Type) -> dt.Type:
    """The type of a column as the engines' SQL has it: variant is text, geometries and fixed are bytes."""
    if isinstance(type_, dt.FixedType | dt.GeoType):
        return dt.BINARY
    is_nanos = isinstance(type_, dt.TimestampType) and type_.unit == "ns"
    return dt.TimestampType("ns") if is_nanos else dt.STRING if type_ == dt.VARIANT else type_


def comparable(terms: Sequence[Term]) -> list[Evaluate]:
    """The terms of one comparison, all in the type in which DuckDB compares them, ordered as DuckDB orders values."""
    typed = [t.type for t in terms if not isinstance(t.literal, str) and t.type != dt.UNKNOWN]
    wanted = reduce(_common, typed) if typed else dt.STRING
    return [_ordered(_implicit(term, wanted).evaluate, wanted) for term in terms]


def _common(left: dt.Type, right: dt.Type) -> dt.Type:
    if left == right:
        return left
    floats = [t.bits for t in (left, right) if isinstance(t, dt.FloatType)]
    moments = [t for t in (left, right) if isinstance(t, dt.TimestampType)]
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        # Exact numbers are compared as they are, so no type need hold both.
        return dt.FloatType(max(floats)) if floats else dt.DecimalType(38, 0)
    if len(moments) == 1 and dt.DATE in (left, right):
        return moments[0]
    if len(moments) == 2 and (moments[0].unit == moments[1].unit == "us" or not moments[0].utc | moments[1].utc):
        return dt.TimestampType("us", utc=True) if moments[0].unit == moments[1].unit else dt.TimestampType("ns")
    raise refused(f"compare {left} with {right}")


def _implicit(term: Term, wanted: dt.Type) -> Term:
    exact = (dt.IntegerType, dt.DecimalType)
    is_exact = isinstance(term.type, exact) and isinstance(wanted, exact)
    return term if is_exact or term.type == dt.UNKNOWN else cast(term, wanted)


def _ordered(evaluate: Evaluate, type_: dt.Type) -> Evaluate:
    """Values in an order of Python's that is DuckDB's: text by its bytes, NaN above all numbers and equal to itself."""
    match type_:
        case dt.STRING:
            return lambda row: unless_null(str.encode, evaluate(row))
        case dt.FloatType():
            return lambda row: unless_null(lambda v: (1, 0.0) if math.isnan(v) else (0, v), evaluate(row))
        case dt.StructType() | dt.ListType() | dt.MapType() | dt.OpaqueType():
            raise refused(f"compare values of type {type_}")
        case _:
            return evaluate


def cast(term: Term, wanted: dt.Type) -> Term:
    """`CAST(term AS wanted)`. Raises UnsupportedError for a cast that the oracle does not know."""
    if isinstance(term.literal, str):
        return constant(wanted, _value_of_text(term.literal, wanted))
    convert = _conversion(term.type, wanted)

    def evaluate(row: Values) -> Any:
        try:
            return unless_null(convert, term.evaluate(row))
        except (ValueError, ArithmeticError) as error:
            raise EngineError(f"Cannot evaluate the filter: {error}") from error

    return Term(wanted, evaluate)


def _value_of_text(text: str, type_: dt.Type) -> Any:
    """The value of a type that DuckDB makes of a text."""
    if type_ == dt.BINARY and re.fullmatch(r"(?:\\x[0-9a-fA-F]{2}|[ -\[\]-~])*", text):
        return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())
    try:
        return parsed(text, type_, _SQL)
    except (ValueError, ArithmeticError) as error:
        raise refused(f"read {text!r} as {type_}") from error


def _conversion(type_: dt.Type, wanted: dt.Type) -> Callable[[Any], Any]:
    """The cast of a value that is not null; it raises ValueError or ArithmeticError for one that does not fit."""
    match wanted, type_:
        case _ if type_ == wanted or type_ == dt.UNKNOWN:
            return lambda value: value
        case dt.IntegerType(bits=bits), dt.IntegerType():
            return lambda value: within_bits(value, bits)
        case dt.FloatType(bits=bits), dt.IntegerType() | dt.DecimalType() | dt.FloatType():
            return lambda value: as_float(value, bits)
        case dt.DecimalType(scale=scale), dt.IntegerType() | dt.DecimalType() if getattr(type_, "scale", 0) <= scale:
            return lambda value: to_decimal(Decimal(value), wanted)
        case dt.DATE, dt.TimestampType(unit=unit):
            return lambda value: value // (DAY_SECONDS * UNITS[unit])
        case dt.TimestampType(unit=unit), dt.DATE:
            return lambda value: within_bits(value * DAY_SECONDS * UNITS[unit], 64)
        case dt.TimestampType(unit="ns"), dt.TimestampType(unit="us", utc=False):
            return lambda value: within_bits(value * 1000, 64)
        case dt.TimestampType(unit="us"), dt.TimestampType(unit="us"):
            return lambda value: value
        case _:
            raise refused(f"cast {type_} to {wanted}")


def as_float(value: int | float | Decimal, bits: int) -> float:
    """A number as DuckDB casts it to DOUBLE or FLOAT; a decimal of too many digits by its whole and its rest."""
    rounded = single if bits == 32 else float
    if not isinstance(value, Decimal):
        return rounded(value)
    sign, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    unscaled, power = int("".join(map(str, digits))), 10**scale
    if unscaled <= 2 ** (24 if bits == 32 else 53) or scale == 0:
        number = rounded(rounded(unscaled) / rounded(power))
    else:
        number = rounded(rounded(unscaled // power) + rounded(rounded(unscaled % power) / rounded(power)))
    return -number if sign else number


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """`left sign right`, where sign is one of + - *; null if either is null."""
    type_ = _computed(sign, left, right)
    of_floats, of_exact = _SIGNS[sign]

    def evaluate(row: Values) -> Any:
        x, y = left.evaluate(row), right.evaluate(row)
        if x is None or y is None:
            return None
        if isinstance(type_, dt.FloatType):
            return as_float(of_floats(as_float(x, type_.bits), as_float(y, type_.bits)), type_.bits)
        value = of_exact(Decimal(x), Decimal(y))
        if isinstance(type_, dt.DecimalType) and abs(value) < Decimal(10) ** (type_.precision - type_.scale):
            return value
        if isinstance(type_, dt.IntegerType) and abs(2 * value + 1) < 2**type_.bits:
            return int(value)
        raise EngineError(f"Cannot evaluate the filter: {value} overflows {type_}")

    return Term(type_, evaluate)


def _computed(sign: str, left: Term, right: Term) -> dt.IntegerType | dt.FloatType | dt.DecimalType:
    """The type of a sum, difference or product; an integer literal takes the other integer's type if it fits."""
    sides = (left.type, right.type)
    floats = [t.bits for t in sides if isinstance(t, dt.FloatType)]
    if not all(isinstance(t, _NUMBERS) for t in sides):
        raise refused(f"compute {left.type} {sign} {right.type}")
    if floats:
        return dt.FloatType(max(floats))
    if isinstance(left.type, dt.IntegerType) and isinstance(right.type, dt.IntegerType):
        for literal, other in ((left.literal, right), (right.literal, left)):
            bits = getattr(other.type, "bits", 64)
            if isinstance(literal, int) and other.literal is None and -(2 ** (bits - 1)) <= literal < 2 ** (bits - 1):
                return dt.IntegerType(bits)
        return dt.IntegerType(max(left.type.bits, right.type.bits))
    (p, s), (q, t) = _size(left), _size(right)
    scale = s + t if sign == "*" else max(s, t)
    if scale > 38:
        raise refused(f"compute {left.type} {sign} {right.type}")
    return dt.DecimalType(min(p + q if sign == "*" else max(p - s, q - t) + scale + 1, 38), scale)


def _size(term: Term) -> tuple[int, int]:
    """Precision and scale of an exact number."""
    if isinstance(term.type, dt.DecimalType):
        return term.type.precision, term.type.scale
    bits = term.type.bits if isinstance(term.type, dt.IntegerType) else 64
    return (len(str(abs(term.literal))) if isinstance(term.literal, int) else _DIGITS[bits]), 0


def negative(term: Term) -> Term:
    """`-term`. A literal stays one."""
    if isinstance(term.literal, int):
        return constant(term.type, -term.literal, literal=-term.literal)
    if not isinstance(term.type, _NUMBERS):
        raise refused(f"know a negative {term.type}")
    if isinstance(term.type, dt.IntegerType):
        return arithmetic("-", constant(term.type, 0), term)
    return Term(
        term.type,
        lambda row: unless_null(lambda v: v.copy_negate() if isinstance(v, Decimal) else -v, term.evaluate(row)),
    )
