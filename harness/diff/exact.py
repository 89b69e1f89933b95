"""The exact differences between two tables in memory, as multisets of rows or as rows paired by keys.

Counts are exact, and rows are shown up to a limit. The shown rows and their order depend only on the values.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from harness.diff.canonical import CanonicalRow, canonical_rows, order_key
from harness.diff.closeness import ColumnTolerances, LineKind, NumberLine, close_pairs, tolerance_line
from harness.diff.parts import differing_parts, is_nested
from harness.diff.paths import ColumnPath, find_path, float_texts, is_in_key, suggestion, type_at
from harness.diff.printing import show, show_pair
from harness.diff.result import ColumnDifference, PartDifference, RowDifference, RowKind
from harness.diff.schemas import normal_type
from harness.diff.tolerances import FLOATS, Tolerance, expand_floats
from harness.errors import RequestError

MOST_EXAMPLES = 3
"""The most example pairs of values that are shown for a column."""


def examples(
    left: pa.Table, right: pa.Table, column: str, pairs: Iterable[tuple[int, int]], rules: Rules
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return some pairs of differing values as text. For nested values, also return the path of the differing part."""
    result: dict[tuple[str, str], str] = {}
    a, b = left.column(column), right.column(column)
    are_nested = is_nested(a.type) and is_nested(b.type)
    for i, j in pairs:
        if are_nested:
            (part, *_), _ = rules.parts(column, a, i, b, j)
            result.setdefault(part.values, part.path)
        else:
            result[show_pair(a, i, b, j)] = column
        if len(result) == MOST_EXAMPLES:
            break
    return tuple(result), tuple(result.values()) if are_nested else ()


def distance(left: Hashable, right: Hashable) -> Decimal | float | None:
    """Return the distance of two canonical values, or None if a value is null or not finite."""
    match left, right:
        case ((float() | "-0.0"), (float() | "-0.0")):
            gap = abs(float(left) - float(right))
            return gap if gap < float("inf") else None
        case ((int() | Decimal()), (int() | Decimal())):
            with localcontext() as context:
                context.prec = 80
                return abs(Decimal(left) - Decimal(right))
        case _:
            return None


def distance_text(line: NumberLine, gap: Decimal | float) -> str:
    """Return a distance as text for reports."""
    if line.kind is not LineKind.TICKS:
        return format(gap, "f") if isinstance(gap, Decimal) else repr(gap)
    dates = pa.types.is_date(line.left) and pa.types.is_date(line.right)
    seconds = Decimal(gap) * Decimal("1e-9")
    if dates and seconds % 86_400 == 0:
        return f"{seconds / 86_400:f} d"
    return f"{seconds.normalize():f} s"


_MOST_PAIRS = 250_000
"""The most pairs of rows that are searched for similar rows. If there are more pairs, no row has a partner."""


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row that differs.

    If the row occurs several times in a table, the index is that of the first occurrence.

    Attributes:
        kind: The kind of difference.
        left: The row's index in the left table, or None if the left table does not have the row.
        right: The row's index in the right table, or None if the right table does not have the row.
        count: The number of surplus occurrences.
    """

    kind: RowKind
    left: int | None
    right: int | None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The differences between the rows of two tables.

    Fields that are not listed here are described in `ComparisonResult`. Rows of one kind are in the order of their
    values.

    Attributes:
        differing: All differing rows. It begins with the rows in `rows`, in the same order.
    """

    rows: tuple[RowDifference, ...] = ()
    differing: tuple[DifferingRow, ...] = ()
    only_left: int = 0
    only_right: int = 0
    changed: int = 0
    truncated: bool = False
    allowed: int = 0
    by_column: tuple[ColumnDifference, ...] = ()


SHARED_FIELDS = ("only_left", "only_right", "changed", "truncated", "allowed", "by_column")
"""The fields that `Difference` and `ComparisonResult` share, except for the rows."""


def _multiset_difference(sides: _RowTables) -> Difference:
    """Return the rows that one table has more often than the other. Similar rows of both tables become partners."""
    surplus = Counter(sides.left_rows)
    surplus.subtract(sides.right_rows)
    lefts = {row: count for row, count in surplus.items() if count > 0}
    rights = {row: -count for row, count in surplus.items() if count < 0}
    shares = _display_shares([len(lefts), len(rights)], sides.rules.max_rows)
    first_left = {row: i for i, row in reversed([*enumerate(sides.left_rows)]) if row in lefts}
    first_right = {row: i for i, row in reversed([*enumerate(sides.right_rows)]) if row in rights}
    result = [
        [
            DifferingRow(RowKind.ONLY_LEFT, first_left[row], None, lefts[row])
            for row in _order_for_display(lefts, shares[0])
        ],
        [
            DifferingRow(RowKind.ONLY_RIGHT, None, first_right[row], rights[row])
            for row in _order_for_display(rights, shares[1])
        ],
    ]
    row_indexes = (
        [each.left or 0 for each in result[0][: shares[0]]],
        [each.right or 0 for each in result[1][: shares[1]]],
    )
    partners = sides.partners(*row_indexes)
    similar_pairs = [(row_indexes[0][a], row_indexes[1][b - shares[0]]) for a, b in partners.items() if a < b]
    counts = {"only_left": sum(lefts.values()), "only_right": sum(rights.values())}
    return sides.difference(result, shares, similar_pairs, partners, counts)


def _keyed_difference(sides: _RowTables) -> Difference:
    """Return the keys that only one table has, and the rows whose other columns differ. Null equals null in keys."""
    rules = sides.rules
    left_keys = _index_by_key("left", sides.left, rules)
    right_keys = _index_by_key("right", sides.right, rules)
    unequal = {
        key: (i, right_keys[key])
        for key, i in left_keys.items()
        if key in right_keys and sides.left_rows[i] != sides.right_rows[right_keys[key]]
    }
    pairs = list(unequal.values())
    if rules.tolerances:
        close = close_pairs(sides.left, sides.right, pairs, rules.tolerances)
        never = [False] * len(pairs)
        passed = zip(*(close.get(name, never) for name in sides.columns), strict=True)
        sides = replace(sides, passed=dict(zip(pairs, passed, strict=True)))
    changed = [key for key, pair in unequal.items() if any(sides.differs(*pair))]
    only_left = [key for key in left_keys if key not in right_keys]
    only_right = [key for key in right_keys if key not in left_keys]
    kinds = {RowKind.CHANGED: changed, RowKind.ONLY_LEFT: only_left, RowKind.ONLY_RIGHT: only_right}
    shares = _display_shares([*map(len, kinds.values())], rules.max_rows)
    result = [
        [DifferingRow(kind, left_keys.get(key), right_keys.get(key)) for key in _order_for_display(keys, share)]
        for (kind, keys), share in zip(kinds.items(), shares, strict=True)
    ]
    counts = {"only_left": len(only_left), "only_right": len(only_right), "changed": len(changed)}
    return sides.difference(result, shares, pairs, {}, counts | {"allowed": len(unequal) - len(changed)})


@dataclass(frozen=True, slots=True)
class _RowTables:
    """Two tables with their canonical rows.

    Attributes:
        passed: For a pair of row indexes, a flag for each column whether its values are within a tolerance.
    """

    rules: Rules
    left: pa.Table
    right: pa.Table
    columns: tuple[str, ...]
    left_rows: Sequence[CanonicalRow]
    right_rows: Sequence[CanonicalRow]
    passed: Mapping[tuple[int, int], tuple[bool, ...]] = field(default_factory=dict)

    def difference(
        self,
        rows_by_kind: Sequence[Sequence[DifferingRow]],
        shares: Sequence[int],
        pairs: Sequence[tuple[int, int]],
        partners: Mapping[int, int],
        counts: Mapping[str, int],
    ) -> Difference:
        """Return the difference. It shows `shares[i]` rows of the kind number `i`.

        Args:
            rows_by_kind: The differing rows of each kind.
            shares: The number of rows to show of each kind.
            pairs: The pairs of row indexes whose columns are compared.
            partners: For the number of a shown row, the similar row of the opposite side.
            counts: Further fields of the difference.
        """
        display_rows = [row for rows, share in zip(rows_by_kind, shares, strict=True) for row in rows[:share]]
        rest = [row for rows, share in zip(rows_by_kind, shares, strict=True) for row in rows[share:]]
        return Difference(
            rows=tuple(self.row_difference(row, display_rows, partners.get(i)) for i, row in enumerate(display_rows)),
            differing=(*display_rows, *rest),
            truncated=bool(rest),
            by_column=self.by_column(pairs),
            **counts,
        )

    def by_column(self, pairs: Sequence[tuple[int, int]]) -> tuple[ColumnDifference, ...]:
        """Return the columns that differ in at least one pair of rows."""
        result = []
        for number, column in enumerate(self.columns):
            unequal = [(i, j) for i, j in pairs if self.left_rows[i][number] != self.right_rows[j][number]]
            if not unequal:
                continue
            differing = [pair for pair in unequal if not (pair in self.passed and self.passed[pair][number])]
            values = {(i, j): (self.left_rows[i][number], self.right_rows[j][number]) for i, j in differing}
            line = NumberLine.for_types(self.left.schema.field(column).type, self.right.schema.field(column).type)
            distances = {} if line is None else {pair: distance(*both) for pair, both in values.items()}
            finite_distances = {pair: gap for pair, gap in distances.items() if gap is not None}
            furthest = max(finite_distances, key=finite_distances.__getitem__, default=None)
            first = [] if furthest is None else [furthest]
            texts, paths = examples(self.left, self.right, column, first + differing, self.rules)
            result.append(
                ColumnDifference(
                    column=column,
                    rows=len(differing),
                    allowed=len(unequal) - len(differing),
                    left_nulls=sum(value is None for value, _ in values.values()),
                    right_nulls=sum(value is None for _, value in values.values()),
                    largest=None
                    if line is None or furthest is None
                    else distance_text(line, finite_distances[furthest]),
                    examples=texts,
                    paths=paths,
                )
            )
        return tuple(result)

    def partners(self, lefts: Sequence[int], rights: Sequence[int]) -> dict[int, int]:
        """Return the partner of each row, which is the most similar row of the opposite side.

        Rows are numbered by their position in `lefts` followed by `rights`.

        Among equally similar rows, those that agree in the leftmost columns are preferred, because keys tend to be
        there. Struct fields count like columns. Rows whose texts are equal become partners too, so that the report can
        show how they differ.
        """
        if len(lefts) * len(rights) > _MOST_PAIRS:
            return {}
        candidates = []
        types = [[table.schema.field(name).type for name in self.columns] for table in (self.left, self.right)]
        others = [_leaves(self.right_rows[j], types[1]) for j in rights]
        for a, i in enumerate(lefts):
            left_leaves = _leaves(self.left_rows[i], types[0])
            for b, other in enumerate(others, len(lefts)):
                differs = tuple(x != y for x, y in zip(left_leaves, other, strict=True))
                shared = len(differs) - sum(differs)
                if shared > 0 and 2 * shared >= len(differs):
                    candidates.append((-shared, differs, a, b))
        partners: dict[int, int] = {}
        for _, _, a, b in sorted(candidates):
            if a not in partners and b not in partners:
                partners[a], partners[b] = b, a
        printed = {self.printed_row(self.left, i): a for a, i in enumerate(lefts) if a not in partners}
        for b, j in enumerate(rights, len(lefts)):
            if b not in partners and (partner := printed.pop(self.printed_row(self.right, j), None)) is not None:
                partners[partner], partners[b] = b, partner
        return partners

    def printed_row(self, table: pa.Table, place: int) -> tuple[str, ...]:
        """Return the values of a row as text. The text does not depend on any other row."""
        return tuple(show(table.column(name), place) for name in self.columns)

    def row_difference(
        self, differing_row: DifferingRow, rows: Sequence[DifferingRow], partner: int | None
    ) -> RowDifference:
        """Return a row with its values as text.

        The texts show how the row differs from the row with the same key, or from its partner.
        """
        left, right = differing_row.left, differing_row.right
        if partner is not None:
            left = rows[partner].left if left is None else left
            right = rows[partner].right if right is None else right
        differs = (False,) * len(self.columns)
        if left is not None and right is not None:
            differs = self.differs(left, right)
        texts, parts, has_more = [], list[PartDifference](), False
        for name, is_other in zip(self.columns, differs, strict=True):
            a, b = self.left.column(name), self.right.column(name)
            if is_other and left is not None and right is not None:
                texts.append(show_pair(a, left, b, right))
                if is_nested(a.type) and is_nested(b.type):
                    found_parts, is_cut = self.rules.parts(name, a, left, b, right)
                    parts += found_parts
                    has_more |= is_cut
            else:
                texts.append(("" if left is None else show(a, left), "" if right is None else show(b, right)))
        return RowDifference(
            kind=differing_row.kind,
            left=None if differing_row.left is None else tuple(text for text, _ in texts),
            right=None if differing_row.right is None else tuple(text for _, text in texts),
            count=differing_row.count,
            differing=tuple(name for name, d in zip(self.columns, differs, strict=True) if d),
            partner=partner,
            parts=tuple(parts),
            has_more_parts=has_more,
        )

    def differs(self, left: int, right: int) -> tuple[bool, ...]:
        """Return for each column whether the values of two rows differ by more than the tolerance."""
        unequal = tuple(a != b for a, b in zip(self.left_rows[left], self.right_rows[right], strict=True))
        passed = self.passed.get((left, right))
        return unequal if passed is None else tuple(u and not p for u, p in zip(unequal, passed, strict=True))


def _leaves(row: Sequence[Hashable], types: Sequence[pa.DataType]) -> list[Hashable]:
    """Return the values of a row. Each struct is replaced by its fields."""
    return [leaf for value, type_ in zip(row, types, strict=True) for leaf in _fields(value, type_)]


def _fields(value: Any, type_: pa.DataType) -> list[Hashable]:
    type_ = normal_type(type_)
    if not pa.types.is_struct(type_):
        return [value]
    types = [field.type for field in sorted(type_, key=lambda field: field.name)]
    values = [None] * len(types) if value is None else value
    return [leaf for each, field_type in zip(values, types, strict=True) for leaf in _fields(each, field_type)]


def _index_by_key(side: str, table: pa.Table, rules: Rules) -> dict[CanonicalRow, int]:
    """Return the row index of each key.

    Raises:
        RequestError: Several rows have the same key.
    """
    rows = canonical_rows(table, rules.keys)
    places = {row: i for i, row in enumerate(rows)}
    if len(places) < len(rows):
        several = {row: count for row, count in Counter(rows).items() if count > 1}
        (worst,) = _smallest_rows(several, 1)
        text = ", ".join(f"{name} = {show(table.column(name), places[worst])}" for name in rules.keys)
        raise RequestError(
            f"Cannot pair rows by {', '.join(map(repr, rules.keys))}: the {side} side has {several[worst]} rows with "
            f"{text}, and {len(several)} keys occur several times; add columns to the key, or compare without keys"
        )
    return places


def _display_shares(numbers: Sequence[int], most: int) -> list[int]:
    """Return the number of rows to show of each kind: equal shares if possible, and at most `most` in total."""
    shares = [0] * len(numbers)
    for left, i in enumerate(sorted(range(len(numbers)), key=numbers.__getitem__)):
        shares[i] = min(numbers[i], (most - sum(shares)) // (len(numbers) - left))
    return shares


def _smallest_rows(rows: Collection[CanonicalRow], most: int) -> list[CanonicalRow]:
    return heapq.nsmallest(most, rows, key=order_key)


def _order_for_display(rows: Collection[CanonicalRow], most: int) -> list[CanonicalRow]:
    """Return all rows, starting with the `most` smallest ones."""
    return list(dict.fromkeys([*_smallest_rows(rows, most), *rows]))


TypesRule: TypeAlias = Literal["exact", "by_value"]
"""Whether columns of different types may count as equal if their values can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a comparison of rows. `harness.compare` explains each option.

    Attributes:
        tolerances: The tolerances of the compared columns and their parts, after `resolve`.
    """

    keys: tuple[str, ...]
    max_rows: int
    direct_rows: int
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    types: TypesRule | None = None
    schema_only: bool = False
    tolerances: ColumnTolerances = field(default_factory=dict)

    def check(self) -> None:
        """Check the options.

        Raises:
            RequestError: A number is negative, `types` has an unknown value, a key has a tolerance, or an excluded
                column is a key or has a tolerance.
        """
        if self.max_rows < 0 or self.direct_rows < 0:
            raise RequestError(
                f"Invalid max_rows {self.max_rows} or direct_rows {self.direct_rows}: expected 0 or more"
            )
        if self.types not in (None, *get_args(TypesRule)):
            expected = " or ".join(get_args(TypesRule))
            raise RequestError(f"Invalid types {self.types!r}: expected {expected}", options=("types",))
        for column in self.tolerance:
            if column in self.keys:
                raise RequestError(f"Cannot use a tolerance of {column!r}: it is a key column")
        for column in self.exclude:
            if column in self.keys or column in self.tolerance:
                raise RequestError(f"Cannot exclude {column!r}: it is a key, or has a tolerance")

    def relaxation_lines(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return a line for each difference that does not count.

        Types are omitted, because their rule depends on the sides.

        Args:
            columns: The compared columns.
        """
        names = {FLOATS: "all floats"} if FLOATS not in columns else {}
        lines = [f"tolerance of {names.get(name, name)}: {each}" for name, each in self.tolerance.items()]
        return (*lines, f"left out: {', '.join(self.exclude)}") if self.exclude else tuple(lines)

    def resolve(self, columns: Sequence[str], left: pa.Schema, right: pa.Schema) -> Rules:
        """Return these rules with the tolerances of each compared column and its parts.

        Raises:
            RequestError: A tolerance is for a column or part that is not compared, or does not fit the values.
        """
        schemas = [pa.schema([schema.field(name) for name in columns]) for schema in (left, right)]
        result: dict[str, dict[ColumnPath, Tolerance]] = {}
        tolerances = self.tolerance
        if FLOATS not in columns:
            other = float_texts(schemas[1])
            tolerances = expand_floats(
                tolerances, [text for text in float_texts(schemas[0], self.keys) if text in other]
            )
        for text, tolerance in tolerances.items():
            paths = {find_path(text, schema) for schema in schemas}
            path = paths.pop()
            if path is None or paths:
                raise RequestError(
                    f"Cannot use a tolerance of {text!r}: both sides must have it, in comparable types, among the "
                    f"compared columns; {suggestion(text, schemas)}",
                    field=text,
                )
            if path[0] in self.keys or is_in_key(path, schemas[0]):
                raise RequestError(f"Cannot use a tolerance of {text!r}: it is part of a key", field=text)
            tolerance_line(text, type_at(path, schemas[0]), type_at(path, schemas[1]), tolerance)
            result.setdefault(path[0], {})[path[1:]] = tolerance
        return replace(self, tolerances=result)

    def parts(
        self, column: str, left: pa.ChunkedArray, i: int, right: pa.ChunkedArray, j: int
    ) -> tuple[tuple[PartDifference, ...], bool]:
        """Return the first differing parts of two nested values of a column, and whether there are more."""
        return differing_parts(
            column,
            left.slice(i, 1).combine_chunks(),
            right.slice(j, 1).combine_chunks(),
            self.tolerances.get(column, {}),
        )

    def difference(self, left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Difference:
        """Return the differences between rows in memory, as multisets or as rows paired by keys.

        Raises:
            RequestError: Several rows have the same key.
            UnsupportedError: A column has a type that cannot be compared.
        """
        lefts, rights = (canonical_rows(table, columns) for table in (left, right))
        sides = _RowTables(self, left, right, tuple(columns), lefts, rights)
        return _keyed_difference(sides) if self.keys else _multiset_difference(sides)
