"""Conditions on rows in the JSON of Iceberg's REST specification.

Iceberg evaluates conditions with two truth values: a comparison with null is false, except that `not-eq`, `not-in`,
`not-starts-with`, and `not-nan` are true, because they are the negations of `eq`, `in`, `starts-with`, and `is-nan`.
Predicates of harness have SQL's three truth values. Therefore every row that satisfies a predicate also satisfies the
condition that `expression_of` writes for it, and `parse_expression` adds `IS NULL` if null satisfies a condition.

Implementations differ in two points, and `expression_of` avoids conditions that depend on them. Iceberg for Java treats
null as less than every value when it evaluates rows, but not when it evaluates bounds. It also orders -0.0 below 0.0.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml, `Expression`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, assert_never

from harness.errors import StorageError
from harness.metadata.files.documents import short_repr
from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNan,
    IsNull,
    Leaf,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    conjunction,
    disjunction,
    negate,
)
from harness.metadata.iceberg.server.values import parse_single_value, single_value
from harness.metadata.iceberg.values import PER_DAY
from harness.metadata.model import schema as dt
from harness.storage.records import dataclass

Expression: TypeAlias = Any
"""A condition as a JSON value."""

MOST_LITERALS = 10_000
"""The maximum number of literals in an expression. Parts of a condition beyond this number are left out."""
MOST_LEVELS = 100
"""The maximum nesting depth of a condition. A chain of ANDs or ORs counts as one level when it is read."""

_NAMES = {Op.EQ: "eq", Op.NE: "not-eq", Op.LT: "lt", Op.LE: "lt-eq", Op.GT: "gt", Op.GE: "gt-eq"}
_OPS = {name: op for op, name in _NAMES.items()}


def expression_of(predicate: Predicate, schema: dt.Schema) -> Expression | None:
    """Return a condition in Iceberg's JSON that is true for every row that satisfies a predicate.

    The condition is weaker than the predicate if JSON or a server cannot express a part of the predicate.

    Args:
        predicate: The predicate.
        schema: The schema whose names the server resolves.

    Returns:
        The JSON value, or None if the condition would be true for all rows.
    """
    expression = _Writer(_column_names(schema)).write(predicate)
    if expression is True:
        return None
    if expression is False:
        # Servers write the constant in different ways, so use the AND of a condition and its opposite instead.
        name = next(iter(schema.names()), None)
        return None if name is None else _both("and", _unary("is-null", name), _unary("not-null", name))
    return expression


def _column_names(schema: dt.Schema) -> dict[int, tuple[str, dt.Field]]:
    """Return the full names of the columns that conditions can use, by field id.

    Columns in lists and maps are left out, and so are columns that share their full name.
    """
    names: dict[int, tuple[str, dt.Field]] = {}

    def add(fields: Iterable[dt.Field], prefix: str) -> None:
        for field in fields:
            name = f"{prefix}{field.name}"
            names[field.id] = (name, field)
            if isinstance(field.type, dt.StructType):
                add(field.type.fields, f"{name}.")

    add(schema.fields, "")
    counts: dict[str, int] = {}
    for path, _ in schema.walk():
        counts[".".join(path)] = counts.get(".".join(path), 0) + 1
    return {id_: (name, field) for id_, (name, field) in names.items() if counts[name] == 1}


def _unary(type_: str, term: str) -> Expression:
    return {"type": type_, "term": term}


def _both(type_: str, left: Expression, right: Expression) -> Expression:
    return {"type": type_, "left": left, "right": right}


def _balanced(type_: str, parts: Sequence[Expression]) -> Expression:
    """Return the AND or OR of one or more parts as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _both(type_, _balanced(type_, parts[:middle]), _balanced(type_, parts[middle:]))


@dataclass(slots=True)
class _Writer:
    """A writer of one condition. It writes True or False if a condition is true or false for all rows.

    Attributes:
        columns: Full names and fields by field id.
        literals: The number of literals so far.
    """

    columns: Mapping[int, tuple[str, dt.Field]]
    literals: int = 0

    def write(self, predicate: Predicate, levels: int = MOST_LEVELS) -> Expression:
        """Return the condition. Leave out parts that are nested in more than `levels` ANDs and ORs."""
        match predicate:
            case And(parts=parts):
                written = self._write_parts(parts, levels)
                remaining = [part for part in written if part is not True]
                return False if False in remaining else _balanced("and", remaining) if remaining else True
            case Or(parts=parts):
                written = self._write_parts(parts, levels)
                remaining = [part for part in written if part is not False]
                return True if True in remaining else _balanced("or", remaining) if remaining else False
            case Constant(value=value):
                return value is True
            case Undecided():
                return True
            case Comparison() | In() | IsNull() | IsNan() | StartsWith():
                return self._write_leaf(predicate)
            case _:
                assert_never(predicate)

    def _write_parts(self, parts: Sequence[Predicate], levels: int) -> list[Expression]:
        below = levels - len(parts).bit_length()
        return [True if below <= 0 else self.write(part, below) for part in parts]

    def _write_leaf(self, leaf: Leaf) -> Expression:
        name, column = self.columns.get(leaf.field.id, (None, leaf.field))
        # A server reads a literal as the type that the column has in the server's schema.
        if name is None or column.type != leaf.field.type or not isinstance(column.type, _WRITABLE):
            return True
        count = len(leaf.values) if isinstance(leaf, In) else 1
        if self.literals + count > MOST_LITERALS:
            return True
        self.literals += count
        match leaf:
            case IsNull(negated=True):
                return _unary("not-null", name)
            case IsNull():
                # Writers count the nulls of a field in a struct in different ways (iceberg 3.4).
                return _unary("is-null", name) if "." not in name else True
            case IsNan(negated=negated):
                is_float = isinstance(column.type, dt.FloatType)
                return _unary("not-nan" if negated else "is-nan", name) if is_float else True
            case StartsWith(prefix=prefix, negated=negated):
                if not prefix or not isinstance(column.type, dt.StringType):
                    return True
                return _literal("not-starts-with" if negated else "starts-with", name, prefix)
            case Comparison(value=None):
                return False
            case Comparison(op=op, value=value):
                return _comparison(name, column.type, op, value)
            case In(values=values, negated=negated):
                return _set(name, column.type, values, negated=negated)
            case _:
                assert_never(leaf)


def _literal(type_: str, term: str, value: Any) -> Expression:
    return {"type": type_, "term": term, "value": value}


_WRITABLE = (
    dt.BooleanType
    | dt.IntegerType
    | dt.FloatType
    | dt.DecimalType
    | dt.DateType
    | dt.TimeType
    | dt.TimestampType
    | dt.StringType
    | dt.UuidType
)
"""The column types that conditions can use. Java cannot convert the text of a literal to the types fixed and binary."""


def _comparison(name: str, type_: dt.Type, op: Op, value: Any) -> Expression:
    """Return a comparison, or True if it cannot be written."""
    if isinstance(type_, dt.FloatType):
        return _float_comparison(name, type_, op, value)
    # Implementations order UUIDs differently (iceberg 3.3).
    if isinstance(type_, dt.UuidType) and op not in (Op.EQ, Op.NE):
        return True
    return _literal(_NAMES[op], name, single_value(value, type_)) if _is_writable(value, type_) else True


def _float_comparison(name: str, type_: dt.FloatType, op: Op, value: Any) -> Expression:
    """Return a comparison of floats, or True if it cannot be written.

    NaN is greater than all numbers here, but bounds leave NaN out. Without `is-nan`, a server would skip a file whose
    only matches are NaN. Java orders -0.0 below 0.0, which are equal here.
    """
    if value != value:
        match op:
            case Op.EQ | Op.GE:
                return _unary("is-nan", name)
            case Op.GT:
                return False
            case Op.LE:
                return _unary("not-null", name)
            case Op.LT | Op.NE:
                return _unary("not-nan", name)
    if not _is_writable(value, type_):
        return True
    if value == 0 and op is Op.EQ:
        return {"type": "in", "term": name, "values": [-0.0, 0.0]}
    if value == 0:
        value = -0.0 if op in (Op.GE, Op.LT) else 0.0
    comparison = _literal(_NAMES[op], name, value)
    return _both("or", comparison, _unary("is-nan", name)) if op in (Op.GE, Op.GT) else comparison


def _set(name: str, type_: dt.Type, values: Sequence[Any], *, negated: bool) -> Expression:
    """Return IN or NOT IN, or True if it cannot be written."""
    numbers = [value for value in values if value == value]
    has_nan = len(numbers) < len(values)
    if not all(_is_writable(value, type_) for value in numbers):
        return True
    if isinstance(type_, dt.FloatType) and not negated and 0.0 in numbers:
        numbers = [-0.0, 0.0, *(value for value in numbers if value != 0)]
    members = [single_value(value, type_) for value in numbers]
    if isinstance(type_, dt.TimestampType) and type_.unit == "ns":
        # Java 1.12 loses the unit of these values in IN when it skips partitions, and reads them as microseconds.
        tests = [_literal("not-eq" if negated else "eq", name, member) for member in members]
        return _balanced("and" if negated else "or", tests)
    if negated:
        return {"type": "not-in", "term": name, "values": members} if members else True
    parts = [{"type": "in", "term": name, "values": members}] if members else []
    return _balanced("or", [*parts, _unary("is-nan", name)] if has_nan else parts)


def _is_writable(value: Any, type_: dt.Type) -> bool:
    """Return whether servers can read a literal: it must have the column's type, and years must have four digits."""
    match type_:
        case dt.IntegerType(bits=bits):
            return type(value) is int and -1 << bits - 1 <= value < 1 << bits - 1
        case dt.FloatType():
            return type(value) is float and math.isfinite(value)
        case dt.DateType():
            return type(value) is int and _FIRST_DAY <= value <= _LAST_DAY
        case dt.TimestampType(unit=unit):
            return type(value) is int and _FIRST_DAY <= value // PER_DAY[unit] <= _LAST_DAY
        case dt.TimeType(unit=unit):
            return type(value) is int and 0 <= value < PER_DAY[unit]
        case dt.DecimalType():
            return isinstance(value, Decimal) and _fits(value, type_)
        case dt.BooleanType():
            return type(value) is bool
        case dt.StringType():
            return type(value) is str
        case dt.UuidType():
            return type(value) is bytes and len(value) == 16
        case _:
            return False


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days 0001-01-01 and 9999-12-31."""


def _fits(value: Decimal, type_: dt.DecimalType) -> bool:
    try:
        return bool(abs(dt.unscaled(value, type_.scale)) < 10**type_.precision)
    except ValueError:
        return False


def parse_expression(document: Expression, schema: dt.Schema) -> Predicate:
    """Return the predicate that is equivalent to a condition in Iceberg's JSON.

    A row satisfies `not` if and only if it does not satisfy the negated condition. -0.0 and 0.0 are equal.

    Args:
        document: The JSON value.
        schema: The schema with the columns.

    Returns:
        The predicate. Transforms of columns and columns in lists and maps become `Undecided`.

    Raises:
        StorageError: The JSON value is not a condition on the columns of the schema (cause `CatalogAnswer`).
    """
    return _Reader({".".join(path): field for path, field in schema.walk()}, _column_names(schema)).read(document)


@dataclass(slots=True)
class _Reader:
    """A reader of conditions.

    Attributes:
        names: Fields by full name, including those in lists and maps.
        columns: Full names and fields by field id, of the columns that conditions can use.
    """

    names: Mapping[str, dt.Field]
    columns: Mapping[int, tuple[str, dt.Field]]

    def read(self, document: Expression, *, negated: bool = False, levels: int = MOST_LEVELS) -> Predicate:
        """Return the predicate for a condition, or for its complement."""
        if levels == 0:
            raise _invalid(document, f"it has more than {MOST_LEVELS} nested parts")
        if type(document) is bool:
            return Constant(document is not negated)
        if type(document) is not dict or type(document.get("type")) is not str:
            raise _invalid(document, "expected true, false, or an object with a type")
        type_ = document["type"].lower().replace("_", "-")
        match type_:
            case "true" | "false":
                return Constant((type_ == "true") is not negated)
            case "literal" if type(document.get("value")) is bool:
                return Constant(document["value"] is not negated)
            case "not":
                return self.read(document.get("child"), negated=not negated, levels=levels - 1)
            case "and" | "or":
                parts = tuple(self.read(part, negated=negated, levels=levels - 1) for part in _parts(document, type_))
                return conjunction(parts) if (type_ == "and") is not negated else disjunction(parts)
            case _:
                return self._read_leaf(document, type_, negated=negated)

    def _read_leaf(self, document: Mapping[str, Any], type_: str, *, negated: bool) -> Predicate:
        positive, is_negative = _POSITIVE.get(type_, (type_, False))
        if positive not in ("is-null", "is-nan", "starts-with", "in", *_OPS):
            raise _invalid(document, "its type is unknown")
        field = self._field(document.get("term"))
        if field is None or (
            not isinstance(field.type, _WRITABLE | dt.FixedType | dt.BinaryType) and positive != "is-null"
        ):
            return Undecided()
        leaf = self._positive_leaf(document, positive, field)
        if is_negative is negated:
            return leaf
        opposite = negate(leaf)
        # Iceberg's negations are true for null values.
        return opposite if isinstance(leaf, IsNull | Constant) else Or((IsNull(field), opposite))

    def _positive_leaf(self, document: Mapping[str, Any], type_: str, field: dt.Field) -> Predicate:
        if type_ == "is-null":
            return IsNull(field)
        if type_ == "is-nan":
            if not isinstance(field.type, dt.FloatType):
                raise _invalid(document, f"column {field.name!r} has type {field.type}, which has no NaN")
            return IsNan(field)
        if type_ == "in":
            values = document.get("values")
            if type(values) is not list:
                raise _invalid(document, "expected a list of values")
            parsed = tuple(dict.fromkeys(_parse_literal(document, value, field) for value in values))
            return In(field, parsed) if parsed else Constant(False)
        value = _parse_literal(document, document.get("value"), field)
        if type_ != "starts-with":
            return Comparison(field, _OPS[type_], value)
        if not isinstance(field.type, dt.StringType):
            raise _invalid(document, f"column {field.name!r} has type {field.type}, expected string")
        return StartsWith(field, value)

    def _field(self, term: Any) -> dt.Field | None:
        """Return the column that a term names, or None if it is a transform or a column in a list or map."""
        is_transform = False
        for _ in range(MOST_LEVELS):
            if type(term) is not dict or term.get("type") not in ("reference", "transform"):
                break
            is_transform |= term["type"] == "transform" and term.get("transform") != "identity"
            term = term.get("term")
        if type(term) is not str or term not in self.names:
            raise _invalid(term, "expected the full name of a column")
        field = self.names[term]
        return None if is_transform or field.id not in self.columns else field


_POSITIVE = {
    "not-eq": ("eq", True),
    "not-in": ("in", True),
    "not-null": ("is-null", True),
    "not-nan": ("is-nan", True),
    "not-starts-with": ("starts-with", True),
}
"""The negations, and the condition that each of them negates."""


def _parts(document: Mapping[str, Any], type_: str) -> Iterator[Expression]:
    """Yield the parts of a chain of ANDs or ORs from left to right.

    A chain may have any length, because servers write long chains as nested pairs.
    """
    rest: list[Expression] = [document]
    while rest:
        part = rest.pop()
        if type(part) is dict and part.get("type") == document["type"]:
            rest += (part.get("right"), part.get("left"))
        else:
            yield part


def _parse_literal(document: Mapping[str, Any], value: Any, field: dt.Field) -> dt.CellValue:
    if type(value) is dict and value.get("type") == "literal":
        value = value.get("value")
    if type(value) is int and isinstance(field.type, dt.IntegerType):
        return value  # the value may be outside the column's range
    try:
        if value is None:
            raise ValueError("a value")
        return parse_single_value(value, field.type)
    except ValueError as error:
        raise _invalid(document, f"expected {error} for column {field.name!r} of type {field.type}") from error


def _invalid(document: Any, problem: str) -> StorageError:
    message = f"The catalog returned an invalid condition: got {short_repr(document)}, {problem}"
    return StorageError(message, cause="CatalogAnswer")
