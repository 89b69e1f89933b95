"""Distances between two values, as DuckDB expressions over Arrow data that `harness.diff.hashing` prepares.

Numbers are subtracted exactly as decimals, floats as doubles, and times as whole nanoseconds. Relative tolerances are
applied in doubles. Null, NaN, and infinities are not close to any other value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from enum import Enum
from typing import TypeAlias

import duckdb
import pyarrow as pa

from harness.diff.hashing import (
    DAYS,
    DuckDBValue,
    Entries,
    Items,
    StructFields,
    digits_of,
    element_value,
    entry_values,
    field_values,
    hash_form,
    hash_of,
    to_duckdb_types,
)
from harness.diff.paths import ColumnPath
from harness.diff.schemas import display_type, is_ticks, nanos, normal_type
from harness.diff.tolerances import Measure, Tolerance
from harness.errors import RequestError
from harness.storage.threads import track

_MOST_DIGITS = 37
"""The most digits of two numbers whose difference always fits 38 digits."""
_NANOS_PER_SECOND = 1_000_000_000


class LineKind(Enum):
    """The ways to subtract two values."""

    NUMBER = "number"
    WIDE = "wide"  # numbers with so many digits that they can only be subtracted as doubles
    FLOAT = "float"
    TICKS = "ticks"


@dataclass(frozen=True, slots=True)
class NumberLine:
    """How the values of two columns are subtracted.

    Attributes:
        kind: The way to subtract the values.
        left: The normal type of the left column.
        right: The normal type of the right column.
        scale: The digits after the decimal point, if the values are numbers.
    """

    kind: LineKind
    left: pa.DataType
    right: pa.DataType
    scale: int = 0

    @staticmethod
    def for_types(left: pa.DataType, right: pa.DataType) -> NumberLine | None:
        """Return how values of two comparable types are subtracted, or None if they cannot be subtracted."""
        a, b = normal_type(left), normal_type(right)
        kind = pa.types
        if kind.is_floating(a) and kind.is_floating(b):
            return NumberLine(LineKind.FLOAT, a, b)
        if all(kind.is_integer(type_) or kind.is_decimal(type_) for type_ in (a, b)):
            wholes, scales = zip(digits_of(a), digits_of(b), strict=True)
            wide = max(wholes) + max(scales) > _MOST_DIGITS
            return NumberLine(LineKind.WIDE if wide else LineKind.NUMBER, a, b, max(scales))
        if is_ticks(a) and is_ticks(b):
            return NumberLine(LineKind.TICKS, a, b)
        return None

    def distance(self, left: str, right: str) -> str:
        """Return the SQL expression of the distance between two values.

        The distance is a DOUBLE, and null if a value is null or not finite.
        """
        a, b = self._value(left, self.left), self._value(right, self.right)
        gap = f"CAST(abs({a} - {b}) AS DOUBLE)"
        return f"CASE WHEN isfinite({a}) AND isfinite({b}) THEN {gap} END" if self._is_double else gap

    def within(self, tolerance: Tolerance, left: str, right: str) -> str:
        """Return the SQL condition that the distance between two values is within a tolerance.

        The condition is false if a value is null or not finite. The tolerance must fit the types, as `tolerance_line`
        checks.
        """
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
                steps = [self._float_rank(text) for text in (left, right)]
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

    def _float_rank(self, text: str) -> str:
        """Return the SQL expression of a float's position among all floats of its width.

        Both zeros have the same position.
        """
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


ColumnTolerances: TypeAlias = Mapping[str, Mapping[ColumnPath, Tolerance]]
"""The tolerances of each column, by the paths of its parts. The empty path means the whole column."""


def equal_within(left: DuckDBValue, right: DuckDBValue, tolerances: Mapping[ColumnPath, Tolerance]) -> str:
    """Return the SQL condition that two values are equal within tolerances.

    Parts of nested values without a tolerance must be equal.

    Args:
        left: The left value.
        right: The right value.
        tolerances: The tolerances by path inside the values.
    """
    equal = f"{hash_of(left, 0)} = {hash_of(right, 0)}"
    if not tolerances:
        return equal
    if () in tolerances:
        close = tolerance_line("", left.logical, right.logical, tolerances[()]).within(
            tolerances[()], left.text, right.text
        )
        return f"({equal} OR {close})"
    is_null = f"{left.text} IS NULL OR {right.text} IS NULL"
    inside = _parts_equal_within(left, right, tolerances)
    return f"CASE WHEN {is_null} THEN {left.text} IS NULL AND {right.text} IS NULL ELSE {inside} END"


def _parts_equal_within(left: DuckDBValue, right: DuckDBValue, tolerances: Mapping[ColumnPath, Tolerance]) -> str:
    def below(name: str) -> dict[ColumnPath, Tolerance]:
        return {path[1:]: each for path, each in tolerances.items() if path[0] == name}

    item = f"p{left.depth}"
    match left.form:
        case StructFields():
            fields = field_values(left), field_values(right)
            return " AND ".join(
                f"({equal_within(part, fields[1][name], below(name))})" for name, part in fields[0].items()
            )
        case Items():
            lists = (left.text, right.text)
            parts = element_value(left, f"{item}[1]"), element_value(right, f"{item}[2]")
            condition = equal_within(*parts, below("element"))
        case Entries():
            # Keys are compared only by their hashes, so sorting the entries by key hash pairs entries with equal keys.
            lists = (_sorted_entries(left), _sorted_entries(right))
            entries = entry_values(left, "", f"{item}[1].v")[1], entry_values(right, "", f"{item}[2].v")[1]
            condition = f"{item}[1].h = {item}[2].h AND {equal_within(*entries, below('value'))}"
        case other:
            raise AssertionError(f"{other} has no parts")
    unlike = f"list_filter(list_zip({lists[0]}, {lists[1]}), lambda {item}: NOT ({condition}))"
    return f"(len({lists[0]}) = len({lists[1]}) AND len({unlike}) = 0)"


def _sorted_entries(map_: DuckDBValue) -> str:
    item = f"e{map_.depth}"
    key = hash_of(entry_values(map_, f"{item}.key", "")[0], 0)
    return f"list_sort(list_transform(map_entries({map_.text}), lambda {item}: {{'h': {key}, 'v': {item}.value}}))"


def close_pairs(
    left: pa.Table,
    right: pa.Table,
    pairs: Sequence[tuple[int, int]],
    tolerances: ColumnTolerances,
) -> dict[str, list[bool]]:
    """Return by column whether the values of each pair of rows are equal or within tolerances.

    Args:
        left: The rows of the left side.
        right: The rows of the right side.
        pairs: Indexes of a left and a right row.
        tolerances: The tolerances of the columns to test.
    """
    if not tolerances or not pairs:
        return {column: [] for column in tolerances}
    names = list(tolerances)
    sides = [
        to_duckdb_types(table.select(names).take(pa.array(places, pa.int64())))
        for table, places in zip((left, right), zip(*pairs, strict=True), strict=True)
    ]
    both = pa.table(
        [*sides[0].columns, *sides[1].columns, pa.array(range(len(pairs)), pa.int64())],
        names=[*(f"l{i}" for i in range(len(names))), *(f"r{i}" for i in range(len(names))), "place"],
    )
    with closing(track(duckdb.connect())) as connection:
        connection.register("pairs", both)
        stored, texts = connection.table("pairs").types, []
        for i, name in enumerate(names):
            types = [table.schema.field(name).type for table in (left, right)]
            as_hashed = hash_form(*types)
            values = [
                DuckDBValue(f"{label}{i}", stored[place], display_type(type_), as_hashed)
                for label, place, type_ in zip("lr", (i, len(names) + i), types, strict=True)
            ]
            texts.append(equal_within(values[0], values[1], tolerances[name]))
        result = pa.table(connection.sql(f"SELECT {', '.join(texts)} FROM pairs ORDER BY place"))
    return {name: result.column(i).to_pylist() for i, name in enumerate(names)}


def tolerance_line(column: str, left: pa.DataType, right: pa.DataType, tolerance: Tolerance) -> NumberLine:
    """Return how the values of a column with a tolerance are subtracted.

    Raises:
        RequestError: The tolerance does not fit the column's values.
    """
    line = NumberLine.for_types(left, right)
    if line is None:
        raise RequestError(
            f"Cannot use a tolerance of {column!r}: its types {left} and {right} are not numbers or times. "
            "Compare queries that cast it to a number or time",
            field=column,
        )
    if tolerance.measure not in _FITS[line.kind]:
        raise RequestError(
            f"Invalid tolerance {tolerance} of {column!r}, of type {line.left}: expected "
            f"{' or '.join(_EXAMPLES[measure] for measure in _FITS[line.kind])}",
            field=column,
        )
    return line


def _decimal(amount: Decimal, scale: int) -> str:
    """Return the SQL literal of the largest number with this scale that is not above the amount."""
    with localcontext() as context:
        context.prec = 400
        floor = amount.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_FLOOR)
        most = Decimal(10) ** (38 - scale) - Decimal(1).scaleb(-scale)
        return f"CAST('{min(floor, most):f}' AS DECIMAL(38, {scale}))"


def _double(amount: Decimal) -> str:
    return f"CAST('{amount:e}' AS DOUBLE)"


MOST_ROWS = 2_000_000
"""The most rows of a side that are kept in memory to be paired. Larger sides are compared without allowances."""
PLACE = "place among equal rows"


def add_pairing_column(
    left: pa.Table, right: pa.Table, close: Collection[str]
) -> tuple[tuple[pa.Table, pa.Table], tuple[str, ...]] | None:
    """Add a column that pairs rows without keys, so that each row is compared with the closest row.

    Rows are paired by all columns without a tolerance. Rows that agree in these columns are paired in the order of
    their other values.

    Args:
        left: The rows of the left side.
        right: The rows of the right side.
        close: The columns that have a tolerance.

    Returns:
        Both sides with the column, and the names of the columns to use as keys. None if rows cannot be paired.
    """
    exact = [name for name in left.column_names if name not in close]
    try:
        sides = (_with_pairing_column(left, exact, close), _with_pairing_column(right, exact, close))
    except duckdb.Error:  # for example if a value has no order
        return None
    return sides, (*exact, PLACE)


def _with_pairing_column(rows: pa.Table, exact: Sequence[str], close: Collection[str]) -> pa.Table:
    """Add a column that numbers the rows with the same exact values, in the order of the close columns."""
    texts = {name: f"c{i}" for i, name in enumerate(rows.column_names)}
    partition = f"PARTITION BY {', '.join(texts[name] for name in exact)} " if exact else ""
    order = ", ".join(texts[name] for name in rows.column_names if name in close)
    with closing(track(duckdb.connect())) as connection:
        input_rows = to_duckdb_types(rows).append_column("row_number", pa.array(range(rows.num_rows), pa.int64()))
        connection.register("rows", input_rows)
        numbered = f"row_number() OVER ({partition}ORDER BY {order})"
        places = pa.table(connection.sql(f'SELECT {numbered} AS p FROM rows ORDER BY "row_number"'))
    return rows.append_column(PLACE, places.column(0))
