"""Comparisons of a column with a literal, translated into predicates on internal values.

DuckDB decides to which type both sides of a comparison are cast. Predicates express the same condition without casts,
or are `Undecided` if the meaning is uncertain. If the column cannot hold the literal (`id = 1.5`, or a date compared
with a time of day), the predicate compares with the nearest value that it can hold, or is a constant (iceberg 3.2).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from harness.metadata.filters.literals import Literal, LiteralKind, double, float32, nearest_float32, parse_float32
from harness.metadata.filters.predicate import (
    IN_LIMIT,
    And,
    Comparison,
    Constant,
    IsNull,
    Op,
    Or,
    Predicate,
    Undecided,
    conjunction,
    disjunction,
)
from harness.metadata.filters.sqltext import (
    DAY_NS,
    parse_bytes,
    parse_date,
    parse_decimal,
    parse_float,
    parse_instant,
    parse_integer,
    parse_time,
    parse_timestamp,
    parse_uuid,
)
from harness.metadata.model import schema as dt


def share_type(operand: object, literals: Sequence[Literal]) -> bool:
    """Return whether the literals of an IN or BETWEEN keep their meaning although SQL casts them to a common type.

    Args:
        operand: A column, or an expression of a column.
        literals: The literals.
    """
    column = operand if isinstance(operand, dt.Field) else None
    values = [x for x in literals if x.kind is not LiteralKind.NULL]
    kinds = {x.kind for x in values}
    if LiteralKind.DECIMAL in kinds and not _fits_decimal(column, values):
        return False
    if LiteralKind.STRING in kinds and len(kinds) == 2:
        # A string is cast to the type of its fellow literals, which is harmless if the column has this type too.
        return column is not None and kinds - {LiteralKind.STRING} <= uncast_kinds(column.type)
    # A date among timestamps means its first moment, whichever of these types the column has.
    return len(kinds) <= 1 or kinds in (
        {LiteralKind.INTEGER, LiteralKind.DECIMAL},
        {LiteralKind.DATE, LiteralKind.TIMESTAMP},
    )


def uncast_kinds(type_: dt.Type) -> set[LiteralKind]:
    """Return the kinds of literals that have the type of a column, or are cast to it without loss."""
    match type_:
        case dt.IntegerType():
            return {LiteralKind.INTEGER}
        case dt.FloatType(bits=64):
            return {LiteralKind.DOUBLE}
        case dt.DateType():
            return {LiteralKind.DATE}
        case dt.TimestampType(utc=utc):
            return {LiteralKind.INSTANT if utc else LiteralKind.TIMESTAMP}
        case _:
            return set()


def compare_column(field: dt.Field, op: Op, literal: Literal) -> Predicate:
    """Return the predicate for `field op literal`, Undecided if engines could read it differently."""
    if literal.kind is LiteralKind.NULL:
        return Constant(None)
    kind, value = literal.kind, literal.value
    match field.type:
        case dt.BooleanType():
            return Comparison(field, op, value) if kind is LiteralKind.BOOLEAN else Undecided()
        case dt.IntegerType(bits=bits):
            return _compare_integer(field, bits, op, literal)
        case dt.FloatType(bits=bits):
            return _compare_float(field, bits, op, literal)
        case dt.DecimalType() as type_:
            return _compare_decimal(field, type_, op, literal)
        case dt.DateType():
            instant = as_nanoseconds(literal, date_nanoseconds)
            return Undecided() if instant is None else _compare_integers(field, op, Fraction(instant, DAY_NS), 31)
        case dt.TimestampType() as type_:
            return _compare_timestamp(field, type_, op, literal)
        case dt.TimeType(unit="us"):
            time = value if kind is LiteralKind.TIME else parse_time(value) if kind is LiteralKind.STRING else None
            return Undecided() if time is None else _compare_integers(field, op, Fraction(time, 1000), 63)
        case dt.StringType():
            return Comparison(field, op, value) if kind is LiteralKind.STRING else Undecided()
        case dt.UuidType():
            id_ = value if kind is LiteralKind.UUID else parse_uuid(value) if kind is LiteralKind.STRING else None
            # Implementations order UUIDs differently (iceberg 3.3).
            return Undecided() if id_ is None or op not in (Op.EQ, Op.NE) else Comparison(field, op, id_)
        case dt.FixedType() | dt.BinaryType():
            data = value if kind is LiteralKind.BYTES else parse_bytes(value) if kind is LiteralKind.STRING else None
            return Undecided() if data is None else Comparison(field, op, data)
        case _:
            return Undecided()


def _compare_integers(field: dt.Field, op: Op, value: Fraction, bits: int) -> Predicate:
    """Compare a column of signed integers, which have `bits` bits without the sign, with any number."""
    return _between_neighbors(field, op, value, 2**bits - 1, -(2**bits), int)


def _between_neighbors(field: dt.Field, op: Op, value: Fraction, most: int, least: int, stored: Any) -> Predicate:
    """Compare integers from `least` to `most` with `value`, which may be between two of them or outside the range."""
    floor = math.floor(value)
    if not least <= value <= most:
        is_true = op is Op.NE or (op is not Op.EQ and (op in (Op.LT, Op.LE)) == (value > most))
        return _always_true(field) if is_true else never_true(field)
    if floor == value:
        return Comparison(field, op, stored(floor))
    match op:
        case Op.EQ:
            return never_true(field)
        case Op.NE:
            return _always_true(field)
        case Op.LT | Op.LE:
            return Comparison(field, Op.LE, stored(floor))
        case _:
            return Comparison(field, Op.GT, stored(floor))


def _always_true(field: dt.Field) -> Predicate:
    """Return a predicate that is true for every value, and unknown for null."""
    return Or((IsNull(field, negated=True), Constant(None)))


def never_true(field: dt.Field) -> Predicate:
    """Return a predicate that is false for every value, and unknown for null."""
    return And((IsNull(field), Constant(None)))


def compare_uncertain(field: dt.Field, op: Op, low: Any, high: Any) -> Predicate:
    """Return the predicate for a comparison with a literal that engines may read as any value from `low` to `high`."""
    match op:
        case Op.EQ:
            return conjunction((Comparison(field, Op.GE, low), Comparison(field, Op.LE, high), Undecided()))
        case Op.NE:
            return Undecided()
        case Op.LT | Op.LE:
            return conjunction((Comparison(field, Op.LE, high), Undecided()))
        case _:
            return conjunction((Comparison(field, Op.GE, low), Undecided()))


def _compare_integer(field: dt.Field, bits: int, op: Op, literal: Literal) -> Predicate:
    number: Fraction
    match literal.kind:
        case LiteralKind.INTEGER:
            number = Fraction(literal.value)
        case LiteralKind.DECIMAL if _fits_decimal(field, [literal]):
            number = Fraction(literal.value)
        case LiteralKind.DOUBLE | LiteralKind.FLOAT if abs(literal.value) < 2 ** (
            53 if literal.kind is LiteralKind.DOUBLE else 24
        ):
            # Larger integers are rounded when they are cast to the literal's type. The cast keeps their order.
            number = Fraction(literal.value)
        case LiteralKind.STRING:
            text = parse_integer(literal.value)
            if text is None or not -(2 ** (bits - 1)) <= text < 2 ** (bits - 1):
                return Undecided()
            number = Fraction(text)
        case _:
            return Undecided()
    return _compare_integers(field, op, number, bits - 1)


def _compare_float(field: dt.Field, bits: int, op: Op, literal: Literal) -> Predicate:
    """Compare a float column with a literal.

    DuckDB casts the literal to the type of the column. An exception is a FLOAT column with a DOUBLE literal: the column
    is then cast to DOUBLE.
    """
    value = literal.value
    if literal.kind in (LiteralKind.DOUBLE, LiteralKind.FLOAT):
        return Comparison(field, op, value)
    if literal.kind not in (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.STRING) or bits == 16:
        return Undecided()
    is_text = literal.kind is LiteralKind.STRING
    read, exact = (parse_float, double) if bits == 64 else (parse_float32, float32)
    number = read(value) if is_text else exact(value)
    if number is not None:
        return Comparison(field, op, number)
    nearest = parse_float(value) if is_text else float(value)
    if nearest is not None and bits == 32:
        nearest = nearest_float32(nearest)
    if nearest is None or (bits == 64 and is_text):
        return Undecided()
    # DuckDB rounds the literal, and Spark widens the column. The results differ by less than two steps.
    step = _double_step if bits == 64 else _float32_step
    return compare_uncertain(field, op, step(nearest, -2), step(nearest, 2))


def _double_step(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.copysign(math.inf, steps))
    return value


def _float32_step(value: float, steps: int) -> float:
    """Return the 32-bit float that is `steps` representable values above or below a finite one."""
    bits: int = struct.unpack("<i", struct.pack("<f", abs(value)))[0]
    position = (bits if math.copysign(1.0, value) > 0 else -bits) + steps
    magnitude = struct.unpack("<f", struct.pack("<i", min(abs(position), _FLOAT32_INFINITY)))[0]
    return math.copysign(float(magnitude), position)


_FLOAT32_INFINITY = 0x7F800000


def _compare_decimal(field: dt.Field, type_: dt.DecimalType, op: Op, literal: Literal) -> Predicate:
    value = literal.value
    match literal.kind:
        case LiteralKind.INTEGER | LiteralKind.DECIMAL if _fits_decimal(field, [literal]):
            number = Fraction(value)
        case LiteralKind.STRING if type_.precision <= 15 and parse_decimal(value) is not None:
            # DuckDB rounds the text to the column's scale, and Spark compares as DOUBLE. They agree only if the text
            # fits the scale.
            number = Fraction(value)
            unscaled = number * 10**type_.scale
            if unscaled.denominator != 1 or abs(unscaled) >= 10**type_.precision:
                return Undecided()
        case _:
            return Undecided()
    most = 10**type_.precision - 1
    scale = type_.scale
    return _between_neighbors(field, op, number * 10**scale, most, -most, lambda n: dt.from_unscaled(n, scale))


def _fits_decimal(column: dt.Field | None, literals: Sequence[Literal]) -> bool:
    """Return whether column and literals fit a common DECIMAL of 38 digits. With more digits, engines differ."""
    whole, scale = 0, 0
    if column is not None and isinstance(column.type, dt.DecimalType):
        whole, scale = column.type.precision - column.type.scale, column.type.scale
    elif column is not None and isinstance(column.type, dt.IntegerType):
        whole = {8: 3, 16: 5, 32: 10, 64: 19}[column.type.bits]
    for literal in literals:
        if literal.kind is LiteralKind.INTEGER:
            digits = 10 if abs(literal.value) < 2**31 else 19
            whole = max(whole, digits if abs(literal.value) < 2**63 else 39)
        elif literal.kind is LiteralKind.DECIMAL:
            _, numerals, exponent = literal.value.as_tuple()
            whole, scale = max(whole, len(numerals) + exponent, 1), max(scale, -exponent)
    return whole + scale <= 38


def date_nanoseconds(text: str) -> int | None:
    """Return the first nanosecond of the date in a text, or None if the text is not a date."""
    days = parse_date(text)
    return None if days is None else days * DAY_NS


def as_nanoseconds(literal: Literal, parse: Any) -> int | None:
    """Return a date, timestamp, or instant (in UTC) as nanoseconds; None for other literals. `parse` reads texts."""
    match literal.kind:
        case LiteralKind.DATE:
            return int(literal.value) * DAY_NS
        case LiteralKind.TIMESTAMP | LiteralKind.INSTANT:
            return int(literal.value)
        case LiteralKind.STRING:
            result: int | None = parse(literal.value)
            return result
        case _:
            return None


def _compare_timestamp(field: dt.Field, type_: dt.TimestampType, op: Op, literal: Literal) -> Predicate:
    """Compare a timestamp column.

    Timestamps without a zone and instants compare as in UTC, the session's zone (iceberg 3.2).
    """
    digits = 9 if type_.unit == "ns" else 6

    def parse(text: str) -> int | None:
        return parse_instant(text, digits=digits) if type_.utc else parse_timestamp(text, digits=digits)

    instant = as_nanoseconds(literal, parse)
    if instant is None or type_.unit == "ms":
        return Undecided()
    if type_.unit == "us":
        return _compare_integers(field, op, Fraction(instant, 1000), 63)
    if type_.utc or literal.kind is LiteralKind.INSTANT:
        # Engines store instants in microseconds: DuckDB 1.5 has no TIMESTAMPTZ in nanoseconds.
        return compare_uncertain(field, op, instant - 1000, instant + 1000)
    return _compare_integers(field, op, Fraction(instant), 63)


def covering_ranges(field: dt.Field, values: Sequence[Any]) -> Predicate:
    """Return a condition that consists of at most `IN_LIMIT` ranges, which together cover all of the values.

    The ranges are separated at the widest gaps between the values. Adding the condition to `field IN (values)` with AND
    does not change the result.

    Args:
        field: The column.
        values: Internal values of the column's type, without nulls.
    """
    numbers = sorted({value for value in values if value == value})
    most = IN_LIMIT - 1
    # these types have no distances
    if isinstance(field.type, dt.StringType | dt.BinaryType | dt.FixedType | dt.UuidType):
        starts = sorted({len(numbers) * i // most for i in range(most)})
    else:
        gaps = sorted(range(1, len(numbers)), key=lambda i: numbers[i - 1] - numbers[i])
        starts = [0, *sorted(gaps[: most - 1])]
    ranges = []
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        low, high = Comparison(field, Op.GE, numbers[start]), Comparison(field, Op.LE, numbers[end - 1])
        is_one = low.value == high.value
        ranges.append(Comparison(field, Op.EQ, low.value) if is_one else conjunction((low, high)))
    # NaN is above all numbers, so no range includes it.
    nans = [Comparison(field, Op.EQ, math.nan)] if any(value != value for value in values) else []
    return disjunction((*ranges, *nans))
