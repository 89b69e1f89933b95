"""The function `compare`: whether two results hold the same rows, and how they differ.

    harness.compare("warehouse/orders", "staging/orders", keys=["id"])
    harness.compare("warehouse/orders", at=(4, 5))
    harness.compare(connection.sql("..."), spark.sql("..."))

Small sides are fetched and compared by `harness.diff.exact`. For large sides, the engines compute hashes, and
`harness.diff.by_hashes` finds the differing rows by them. Only the rows to show are fetched and compared by
`harness.diff.exact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from harness.diff.by_hashes import (
    LABELS,
    RowComparison,
    SideFailedError,
    cheaper_first,
    compare_by_hashes,
    on_both_sides,
    row_count,
    side_phase,
)
from harness.diff.closeness import MOST_ROWS, add_pairing_column
from harness.diff.exact import SHARED_FIELDS, Rules, TypesRule
from harness.diff.hashing import hash_form
from harness.diff.opening import Query, SideOpening, resolve_side
from harness.diff.origins import with_origins
from harness.diff.paths import ColumnPath, find_path, is_inside, narrow_schema, suggestion
from harness.diff.result import ComparisonResult, SideInfo
from harness.diff.schemas import compare_schemas
from harness.diff.sides import Hashing, Side, in_engine, narrow_side, reconcile, recorded_rows
from harness.diff.sources import default_engines
from harness.diff.spread import count_by_columns, partition_columns, spread_by_key
from harness.diff.tolerances import Tolerance, parse_tolerances
from harness.errors import RequestError, UnknownColumnError, UnsupportedError
from harness.metadata.model.arguments import validate_call
from harness.metadata.model.times import When
from harness.snapshot import Changes, Snapshot
from harness.storage.threads import phase
from harness.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
DIRECT_ROWS = 50_000
"""The most rows of a side that is fetched and compared directly."""
_NO_SIDE = object()
"""Stands for a right side that is not given."""


@validate_call
def compare(
    left: object,
    right: object = _NO_SIDE,
    *,
    keys: Sequence[str] = (),
    at: When | Sequence[When] = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    engines: Sequence[str] | str | None = None,
    spark: SparkSession | None = None,
    tolerance: Mapping[str, Tolerance | str | float | Decimal] | None = None,
    exclude: Sequence[str] = (),
    types: TypesRule | None = None,
    schema_only: bool = False,
    max_rows: int = 100,
    names: Sequence[str] | None = None,
    direct_rows: int = DIRECT_ROWS,
) -> ComparisonResult:
    """Compare two sides, and return all differences: of schemas, of rows, and of outcomes if only one side fails.

    Rows are compared as multisets, or paired by `keys`. A side is one of:

    - a table, which the engine named in `engines` reads: its location or name (as for `harness.open_table`), a `Table`,
      `Snapshot` or `Changes`, the rows of `harness.open_plan`, a table of PyIceberg or deltalake, or a `Query` over
      tables;
    - a pair of one of these and an engine's name, `(table, "spark")`;
    - a DuckDB relation, a Spark DataFrame, or an object with an Arrow stream, which is read once;
    - a text that names a file or a table of another database, as described in `harness.diff.sources`.

    Without a right side, the left one is read twice. The comparison does not change a user's connection or session.

    Two rows are equal if all their values are equal. Null equals null, and NaN equals NaN. Instants are compared in UTC
    to the nanosecond, decimals by value, text by its bytes, maps without order, and struct fields by name. If the types
    of a column differ, its values are still compared if possible, and the type is reported as a difference of the
    schema. A side may be read several times, and must return the same rows each time.

    Args:
        left: The left side.
        right: The right side. If it is left out, the left side is read twice.
        keys: Columns that identify a row on either side; null is a key value like any other. Rows with the same key are
            paired and reported as changed. Without keys, rows are counted.
        at: The point in time at which tables are read: an id or version, a time, a branch, or a tag, as for `--at`. Two
            values are for the left and the right side.
        columns: The columns, or struct fields like `s.x`, to compare on both sides. None: all columns.
        where: A boolean SQL expression in DuckDB's dialect that filters both sides. Only tables and snapshots can be
            filtered.
        engines: `duckdb`, `spark`, or `oracle`, for the left and the right side if they are planned tables. One name is
            for both. None: DuckDB and Spark for a table that is compared with itself, otherwise DuckDB for both, also
            if `at` has two values.
        spark: The session that reads planned tables on Spark. None: `harness.spark_session()`.
        tolerance: The distance up to which values count as equal, by column, by part of a column (`s.x`, `l.element`,
            `m.value`), or for all `floats`. It is a number, or a text like `0.1%`, `4 ulps`, or `500 ms`; ` because
            REASON` after it appears in reports. Without keys, rows are paired by all other columns, and rows that agree
            in those are paired in the order of their values. This needs the same number of rows on both sides, at most
            2 million. A `Query` adds the tolerances that follow from its text.
        exclude: Columns, and struct fields like `s.x`, to leave out on both sides.
        types: `by_value` if columns of different types may count as equal, `exact` if not. None: `by_value` if a side
            is a file, a table of another database, or rows of another project's reader, otherwise `exact`.
        schema_only: Compare only the names and types of columns, and read no rows.
        max_rows: The most differing rows to show. All differing rows are counted.
        names: Names of the two sides for reports.
        direct_rows: Sides with at most this many rows are fetched and compared directly. For larger sides, the
            engines find the differing rows by 128-bit hashes, and only these rows are fetched.

    Returns:
        The comparison, with counts of all differences and up to `max_rows` differing rows.

    Raises:
        RequestError: A side cannot be compared, a column is missing, several rows have the same key, or an argument is
            invalid.
        UnsupportedError: A column has a type that cannot be compared.
    """
    rules = Rules(
        keys=tuple(keys),
        max_rows=max_rows,
        direct_rows=direct_rows,
        tolerance=parse_tolerances(tolerance or {}),
        exclude=tuple(exclude),
        types=types,
        schema_only=schema_only,
    )
    rules.check()
    openings = _side_openings(left, right, at, columns, where, engines, spark, names, rules.exclude)
    for opening in openings:
        opening.check()
    with ExitStack() as resources:
        return _Comparison(openings, rules, resources, columns).run()


@dataclass(slots=True)
class _Comparison:
    """A comparison in progress, with the information that is collected while its sides are opened."""

    openings: tuple[SideOpening, SideOpening]
    rules: Rules
    resources: ExitStack
    columns: Sequence[str] | None
    _partitions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The partition columns of each side that is a planned table."""
    _names: dict[int, list[str]] = field(default_factory=lambda: {0: [], 1: []})
    """The names of all columns of each side."""

    def run(self) -> ComparisonResult:
        sides = None
        try:
            sides = self._narrow_sides(self._open_sides())
            schema, columns = compare_schemas(sides[0].schema, sides[1].schema, by_value=self._by_value)
            _check_keys(self.rules.keys, columns, sides)
            sides = reconcile(sides, columns)
            close = self._rules_with_allowances(sides, columns)
            whole = ComparisonResult(
                left=sides[0].info,
                right=sides[1].info,
                columns=columns,
                keys=self.rules.keys,
                schema=schema,
                schema_only=self.rules.schema_only,
            )
            if self.rules.schema_only:
                return self._with_relaxations(whole, self.rules)
            first = self.rules if self.rules.keys else replace(self.rules, tolerance={})
            result = self._compare_rows(whole, sides, first)
            if result.equal or close.tolerance == first.tolerance:
                return result
            return (
                self._compare_rows(whole, sides, close)
                if close.keys
                else self._compare_within_tolerance(close, sides, result)
            )
        except SideFailedError as failed:
            return self._compare_outcomes(failed, sides)

    def _open_sides(self) -> tuple[Side, Side]:
        """Open both sides. A side without types is opened second, with the types of the first side."""
        first = 1 if self.openings[1].has_types and not self.openings[0].has_types else 0
        typed = self._open_side(first)
        schema = typed.schema
        like = dict(zip(schema.names, schema.types, strict=True)) if self.openings[first].has_types else None
        other = self._open_side(1 - first, like)
        return (other, typed) if first else (typed, other)

    def _open_side(self, number: int, like: Mapping[str, pa.DataType] | None = None) -> Side:
        with side_phase(number, "opening the {} side"):
            side = self.openings[number].open(self.rules.direct_rows, self.resources, like, self._names[number])
        if side.plan is not None:
            self._partitions[number] = partition_columns(side.plan)
        return side

    def _narrow_sides(self, sides: tuple[Side, Side]) -> tuple[Side, Side]:
        """Return the sides without excluded struct fields. If some fields of a column are selected, only these stay.

        Raises:
            RequestError: Neither side has an excluded column or field, or a side lacks a selected one.
        """
        schemas = [side.schema for side in sides]
        selected_paths: list[list[ColumnPath]] = [[], []]
        for text in self.columns or ():
            for number, schema in enumerate(schemas):
                path = find_path(text, schema)
                if path is not None:
                    selected_paths[number].append(path)
                elif text not in self.rules.exclude:
                    raise UnknownColumnError(
                        f"Cannot compare {text!r}: the {LABELS[number]} side has no such column or field; "
                        f"{suggestion(text, [schema])}",
                        field=text,
                    )
        names = {name for number in (0, 1) for name in self._names[number]}
        excluded: list[list[ColumnPath]] = [[], []]
        for text in self.rules.exclude:
            if text in names:
                continue
            paths = [find_path(text, schema) for schema in schemas]
            if paths == [None, None]:
                raise UnknownColumnError(
                    f"Cannot leave out {text!r}: neither side has such a column or field to compare; "
                    f"{suggestion(text, [*schemas, *self._names.values()])}",
                    field=text,
                )
            for number, path in enumerate(paths):
                if path is not None:
                    excluded[number].append(path)
        result = [
            narrow_side(side, narrow_schema(schema, None if self.columns is None else selected_paths[i], excluded[i]))
            for i, (side, schema) in enumerate(zip(sides, schemas, strict=True))
        ]
        return result[0], result[1]

    def _with_relaxations(self, result: ComparisonResult, rules: Rules) -> ComparisonResult:
        """Return the result with a line for each difference that does not count and each partly compared column."""
        columns = result.columns
        inside = [
            (column, text)
            for text in self.columns or ()
            if text not in columns
            for column in columns
            if is_inside(text, column)
        ]
        lines = [
            f"compared in {column}: {', '.join(text for name, text in inside if name == column)}"
            for column in dict.fromkeys(name for name, _ in inside)
        ]
        return replace(result, relaxations=(*rules.relaxation_lines(columns), *lines))

    def _compare_rows(self, whole: ComparisonResult, sides: tuple[Side, Side], rules: Rules) -> ComparisonResult:
        """Return the result with the differences of rows."""
        columns = whole.columns
        rules = rules.resolve(columns, sides[0].schema, sides[1].schema)
        partitions = self._partitions.get(0) or self._partitions.get(1, ())
        group_by = tuple(name for name in partitions if name in columns)
        small = self._fetch_small_sides(sides, columns)
        if small is None:
            result = compare_by_hashes(sides, columns, rules, group_by)
        else:
            with phase("comparing rows"):
                difference = rules.difference(*small, columns)
                groups = count_by_columns(difference, small, group_by)
                result = RowComparison((small[0].num_rows, small[1].num_rows), difference, small, *groups)
        difference, tables, keys = result.difference, result.shown_rows, rules.keys
        infos = [replace(side.info, rows=rows) for side, rows in zip(sides, result.rows, strict=True)]
        plans, rows, files = (sides[0].plan, sides[1].plan), difference.rows, None
        if rows and plans != (None, None):
            with phase("finding the files of differing rows"):
                rows, files = with_origins(difference, tables, columns, plans, keys=keys)
        is_known = bool(keys and difference.differing)
        found_rows = replace(
            whole,
            left=infos[0],
            right=infos[1],
            rows=rows,
            grouped_by=group_by if result.by_group else (),
            by_group=result.by_group,
            groups=result.groups,
            by_key=spread_by_key(difference, tables, keys[0], is_whole=small is not None) if is_known else None,
            by_file=files,
            **{name: getattr(difference, name) for name in SHARED_FIELDS},
        )
        return self._with_relaxations(found_rows, rules)

    def _rules_with_allowances(self, sides: tuple[Side, Side], columns: Sequence[str]) -> Rules:
        """Return the rules with the tolerances that queries need, for columns without a tolerance of the user.

        Raises:
            RequestError: A tolerance is for a column that is not compared, or does not fit the column's values.
        """
        user_tolerances = self.rules.resolve(columns, sides[0].schema, sides[1].schema).tolerances
        fixed_columns = {*self.rules.keys, *(name for name, parts in user_tolerances.items() if () in parts)}
        floats = [n for n in columns if all(pa.types.is_floating(side.schema.field(n).type) for side in sides)]
        queries = {name: each for opening in self.openings[::-1] for name, each in opening.allowances().items()}
        allowed = {name: each for name, each in queries.items() if name in floats and name not in fixed_columns}
        return replace(self.rules, tolerance={**self.rules.tolerance, **allowed})

    def _compare_within_tolerance(
        self, close: Rules, sides: tuple[Side, Side], result: ComparisonResult
    ) -> ComparisonResult:
        """Compare rows without keys within tolerances, or return the given result if rows cannot be paired.

        Raises:
            RequestError: The user gave a tolerance, and there are too many rows to pair them.
        """
        if result.left.rows != result.right.rows:
            return self._note_unused_tolerance(result)
        if (result.left.rows or 0) > MOST_ROWS:
            if self.rules.tolerance:
                raise RequestError(
                    f"Cannot use a tolerance without keys for more than {MOST_ROWS:,} rows: pass keys",
                    options=("keys",),
                )
            return result
        resolved = close.resolve(result.columns, sides[0].schema, sides[1].schema)
        heads = on_both_sides(sides, "fetching rows of the {} side", lambda side: side.head(result.columns, MOST_ROWS))
        pairs = add_pairing_column(*heads, resolved.tolerances)
        if pairs is None:
            return self._note_unused_tolerance(result)
        (left, right), keys = pairs
        second = compare(
            left, right, keys=keys, max_rows=close.max_rows, direct_rows=close.direct_rows, tolerance=close.tolerance
        )
        second = replace(second, left=result.left, right=result.right, schema=result.schema)
        return self._with_relaxations(second, close)

    def _note_unused_tolerance(self, result: ComparisonResult) -> ComparisonResult:
        """Return the result with a line which says that the user's tolerance could not be applied."""
        if not self.rules.tolerance:
            return result
        line = "the tolerance is not applied: without keys, the rows of both sides cannot be paired"
        return replace(result, relaxations=(*result.relaxations, line))

    @property
    def _by_value(self) -> bool:
        """True if types may differ: the user chose it or, by default, if a side's rows come from outside harness."""
        if self.rules.types is None:
            return any(each.is_foreign for each in self.openings)
        return self.rules.types == "by_value"

    def _fetch_small_sides(self, sides: tuple[Side, Side], columns: Sequence[str]) -> tuple[pa.Table, pa.Table] | None:
        """Return all rows of both sides, or None if a side has too many. The cheaper engine is tried first."""
        heads: dict[int, pa.Table] = {}
        for number in cheaper_first(sides):
            side = sides[number]
            if side.plan is not None and side.plan.filter is None and _has_many_rows(side, self.rules.direct_rows):
                return None
            with side_phase(number, "fetching rows of the {} side"):
                heads[number] = side.head(columns, self.rules.direct_rows + 1)
            if heads[number].num_rows > self.rules.direct_rows:
                return None
        return heads[0], heads[1]

    def _compare_outcomes(self, failed: SideFailedError, sides: tuple[Side, Side] | None) -> ComparisonResult:
        """Read the second side too, to report whether it fails as well.

        Args:
            failed: The failure of the first side.
            sides: Both sides, or None if one could not be opened.
        """
        infos: dict[int, SideInfo] = {}
        infos[failed.number] = replace(self.openings[failed.number].info, error=failed.error)
        number = 1 - failed.number
        try:
            side = self._open_side(number) if sides is None else sides[number]
            with side_phase(number, "counting rows of the {} side", recorded_rows(side)):
                infos[number] = replace(side.info, rows=_count_rows(side, self.rules.direct_rows))
        except SideFailedError as other:
            infos[number] = replace(self.openings[number].info, error=other.error)
        return ComparisonResult(left=infos[0], right=infos[1], keys=self.rules.keys)


def _side_openings(
    left: object,
    right: object,
    at: When | Sequence[When],
    columns: Sequence[str] | None,
    where: str | None,
    engines: Sequence[str] | str | None,
    spark: SparkSession | None,
    names: Sequence[str] | None,
    exclude: Sequence[str],
) -> tuple[SideOpening, SideOpening]:
    selected_columns = None if columns is None else tuple(columns)
    if selected_columns is not None and len(set(selected_columns)) < len(selected_columns):
        raise RequestError(f"Invalid columns {list(selected_columns)}: a name occurs twice")
    moments = _pair_of(at if isinstance(at, list | tuple) else (at, at), "at")
    if right is _NO_SIDE:
        left = right = resolve_side(left)
        if not isinstance(left, Table | Snapshot | Changes | Query | tuple):
            raise RequestError("Cannot compare the left side alone: it is not a table, so pass a right side")
        engines = default_engines(is_one_table=not isinstance(at, list | tuple)) if engines is None else engines
    if engines is None:
        engines = default_engines(is_one_table=False)
    if isinstance(engines, str):
        engines = [name.strip() for name in engines.split(",")]
        engines = engines * 2 if len(engines) == 1 else engines
    readers = _pair_of(engines, "engines")
    side_names = (None, None) if names is None else _pair_of(names, "names")
    pairs = (_with_engine(left, readers[0], spark, moments[0]), _with_engine(right, readers[1], spark, moments[1]))
    first, second = (
        SideOpening(
            data=data,
            label=LABELS[i],
            name=side_names[i] if query is None or side_names[i] is not None else query.name,
            engine=engine,
            columns=selected_columns,
            where=where,
            spark=spark,
            exclude=frozenset(exclude),
            query=query,
        )
        for i, (data, engine, query) in enumerate(pairs)
    )
    return first, second


def _pair_of(values: Sequence[_T], what: str) -> tuple[_T, _T]:
    if isinstance(values, str) or len(values) != 2:
        raise RequestError(f"Invalid {what} {values!r}: expected two, for the left and the right side")
    return values[0], values[1]


def _with_engine(side: object, engine: str, spark: SparkSession | None, at: When) -> tuple[object, str, Query | None]:
    """Return the data to read, its engine, and the query if the data is a query's result."""
    match side:
        case Query() if at is None:
            return side.run(engine, spark), engine, side
        case (data, str(own)):
            return _with_engine(data, own, spark, at)
        case _:
            data = resolve_side(side, at)
            return data.snapshot() if isinstance(data, Table) else data, engine, None


def _check_keys(keys: Sequence[str], columns: Sequence[str], sides: tuple[Side, Side]) -> None:
    for key in keys:
        for label, side in zip(LABELS, sides, strict=True):
            if key not in side.schema.names:
                raise UnknownColumnError(
                    f"Cannot pair rows by {key!r}: the {label} side has no such column; "
                    f"{suggestion(key, [side.schema.names])}",
                    field=key,
                )
        if key not in columns:
            types = " and ".join(str(side.schema.field(key).type) for side in sides)
            raise RequestError(f"Cannot pair rows by {key!r}: its types {types} cannot be compared", field=key)


def _has_many_rows(side: Side, direct_rows: int) -> bool:
    """Return whether a planned table certainly has too many rows to fetch, regardless of its deletes."""
    assert side.plan is not None
    if side.plan.equality_deletes or side.plan.position_deletes:
        return False
    return (recorded_rows(side) or 0) > direct_rows


def _count_rows(side: Side, direct_rows: int) -> int:
    """Return the number of a side's rows. All values that can be hashed are read, so that a failing read is noticed."""
    head = side.head(side.schema.names, direct_rows + 1)
    if head.num_rows <= direct_rows:
        return int(head.num_rows)
    forms = {}
    for name, type_ in zip(side.schema.names, side.schema.types, strict=True):
        try:
            forms[name] = hash_form(type_, type_)
        except UnsupportedError:
            continue
    return row_count(in_engine(side).buckets(Hashing(columns=tuple(forms), forms=tuple(forms.values()))))
