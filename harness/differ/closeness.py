"""Distances of two values, as DuckDB expressions over Arrow data that `harness.differ.hashing` carries.

Numbers are subtracted exactly as decimals, floats as doubles, times as whole nanoseconds. Relative tolerances are
judged in doubles. Neither null, NaN nor an infinity is close to anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from enum import Enum

import duckdb
import pyarrow as pa

from harness.differ.hashing import DAYS, carried, digits_of
from harness.differ.relaxations import Measure, Tolerance
from harness.differ.schemas import is_ticks, nanos, normal_type
from harness.errors import RequestError
from harness.storage.threads import tracked

_MOST_DIGITS = 37
"""The digits of numbers whose difference surely fits 38 digits."""
_NANOS_PER_SECOND = 1_000_000_000


class LineKind(Enum):
    """The ways to subtract values."""

    NUMBER = "number"
    WIDE = "wide"  # numbers of too many digits to be subtracted but as doubles
    FLOAT = "float"
    TICKS = "ticks"


@dataclass(frozen=True, slots=True)
class Line:
    """The number line of a column's values. left, right: their types. scale: of numbers, digits after the point."""

    kind: LineKind
    left: pa.DataType
    right: pa.DataType
    scale: int = 0

    @staticmethod
    def of(left: pa.DataType, right: pa.DataType) -> Line | None:
        """The line of two types that are comparable; None: their values cannot be subtracted."""
        a, b = normal_type(left), normal_type(right)
        kind = pa.types
        if kind.is_floating(a) and kind.is_floating(b):
            return Line(LineKind.FLOAT, a, b)
        if all(kind.is_integer(type_) or kind.is_decimal(type_) for type_ in (a, b)):
            wholes, scales = zip(digits_of(a), digits_of(b), strict=True)
            wide = max(wholes) + max(scales) > _MOST_DIGITS
            return Line(LineKind.WIDE if wide else LineKind.NUMBER, a, b, max(scales))
        if is_ticks(a) and is_ticks(b):
            return Line(LineKind.TICKS, a, b)
        return None

    def distance(self, left: str, right: str) -> str:
        """The distance of two values, a DOUBLE; null beside a null or a value that is not finite."""
        a, b = self._value(left, self.left), self._value(right, self.right)
        apart = f"CAST(abs({a} - {b}) AS DOUBLE)"
        return f"CASE WHEN isfinite({a}) AND isfinite({b}) THEN {apart} END" if self._is_double else apart

    def within(self, tolerance: Tolerance, left: str, right: str) -> str:
        """The condition that two values are within a checked tolerance; false beside a null or infinity."""
        a, b = self._value(left, self.left), self._value(right, self.right)
        amount = tolerance.amount
        match tolerance.measure:
            case Measure.ABSOLUTE if self.kind is LineKind.NUMBER:
                close = f"abs({a} - {b}) <= {_decimal(amount, self.scale)}"
            case Measure.ABSOLUTE:
                close = f"abs({a} - {b}) <= {_double(amount)}"
            case Measure.RELATIVE:
                most = f"greatest(CAST(abs({a}) AS DOUBLE), CAST(abs({b}) AS DOUBLE))"
                close = f"CAST(abs({a} - {b}) AS DOUBLE) <= {_double(amount)} * {most}"
            case Measure.ULPS:
                steps = [self._step(text) for text in (left, right)]
                close = f"abs({steps[0]} - {steps[1]}) <= {int(amount)}::HUGEINT"
            case Measure.SECONDS:
                close = f"abs({a} - {b}) <= {int(amount * _NANOS_PER_SECOND)}::HUGEINT"
        if self._is_double:
            close = f"isfinite({a}) AND isfinite({b}) AND {close}"
        return f"coalesce({close}, FALSE)"

    @property
    def _is_double(self) -> bool:
        return self.kind in (LineKind.FLOAT, LineKind.WIDE)

    def _value(self, text: str, type_: pa.DataType) -> str:
        match self.kind:
            case LineKind.NUMBER:
                return f"CAST({text} AS DECIMAL(38, {self.scale}))"
            case LineKind.FLOAT | LineKind.WIDE:
                return f"CAST({text} AS DOUBLE)"
            case LineKind.TICKS:
                count = DAYS.format(text) if pa.types.is_date32(type_) else text
                return f"(CAST({count} AS HUGEINT) * {nanos(type_)}::HUGEINT)"

    def _step(self, text: str) -> str:
        """The place of a float among all floats of its width; of both zeros the same."""
        single = self.left.bit_width <= 32 and self.right.bit_width <= 32
        float_, integer, highest = ("FLOAT", "INTEGER", 2**31) if single else ("DOUBLE", "BIGINT", 2**63)
        bits = f"CAST(CAST(CAST(CAST({text} AS {float_}) AS BIT) AS {integer}) AS HUGEINT)"
        return f"(CASE WHEN {bits} < 0 THEN -({bits} + {highest}::HUGEINT) ELSE {bits} END)"


_FITS = {
    LineKind.NUMBER: (Measure.ABSOLUTE, Measure.RELATIVE),
    LineKind.WIDE: (Measure.ABSOLUTE, Measure.RELATIVE),
    LineKind.FLOAT: (Measure.ABSOLUTE, Measure.RELATIVE, Measure.ULPS),
    LineKind.TICKS: (Measure.SECONDS,),
}
_EXAMPLES = {
    Measure.ABSOLUTE: "an amount such as 0.01",
    Measure.RELATIVE: "0.1%",
    Measure.ULPS: "4 ulps",
    Measure.SECONDS: "500 ms",
}


def close_pairs(
    left: pa.Table, right: pa.Table, pairs: Sequence[tuple[int, int]], tolerances: Mapping[str, Tolerance]
) -> dict[str, list[bool]]:
    """Tells by column whether the values of each pair of rows are within its tolerance."""
    if not tolerances or not pairs:
        return {column: [] for column in tolerances}
    names = list(tolerances)
    sides = [
        carried(table.select(names).take(pa.array(places, pa.int64())))
        for table, places in zip((left, right), zip(*pairs, strict=True), strict=True)
    ]
    both = pa.table(
        [*sides[0].columns, *sides[1].columns, pa.array(range(len(pairs)), pa.int64())],
        names=[*(f"l{i}" for i in range(len(names))), *(f"r{i}" for i in range(len(names))), "place"],
    )
    texts = []
    for i, name in enumerate(names):
        line = line_of(name, left.schema.field(name).type, right.schema.field(name).type, tolerances[name])
        texts.append(line.within(tolerances[name], f"l{i}", f"r{i}"))
    with closing(tracked(duckdb.connect())) as connection:
        connection.register("pairs", both)
        found = pa.table(connection.sql(f"SELECT {', '.join(texts)} FROM pairs ORDER BY place"))
    return {name: found.column(i).to_pylist() for i, name in enumerate(names)}


def line_of(column: str, left: pa.DataType, right: pa.DataType, tolerance: Tolerance) -> Line:
    """The line of a column with a tolerance. Raises RequestError: the tolerance does not fit the column's values."""
    line = Line.of(left, right)
    if line is None:
        raise RequestError(
            f"Cannot use a tolerance of {column!r}: its types {left} and {right} are no numbers or times", field=column
        )
    if tolerance.measure not in _FITS[line.kind]:
        raise RequestError(
            f"Invalid tolerance {tolerance} of {column!r}, of type {line.left}: expected "
            f"{' or '.join(_EXAMPLES[measure] for measure in _FITS[line.kind])}",
            field=column,
        )
    return line


def _decimal(amount: Decimal, scale: int) -> str:
    """The largest number of a scale that is not above the amount."""
    with localcontext() as context:
        context.prec = 400
        floor = amount.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_FLOOR)
        most = Decimal(10) ** (38 - scale) - Decimal(1).scaleb(-scale)
        return f"CAST('{min(floor, most):f}' AS DECIMAL(38, {scale}))"


def _double(amount: Decimal) -> str:
    return f"CAST('{amount:e}' AS DOUBLE)"
