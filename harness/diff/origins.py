"""The data files of differing rows in planned tables, and the deletes that hide these rows on the opposite side.

DuckDB searches the table's files for the rows of a difference, including deleted rows. Canonical values decide which
rows match, so that NaN, -0.0 and nested values are found too. Each found place, a file and a position, is then looked
up in the plan of the opposite side. This costs one read of the compared columns per side, regardless of the number of
rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import duckdb
import pyarrow as pa

from harness.diff.canonical import CanonicalRow, canonical_rows
from harness.diff.exact import Difference, DifferingRow
from harness.diff.paths import narrow_rows
from harness.diff.result import Origin, RowDifference, Spread
from harness.diff.schemas import normal_type
from harness.diff.spread import sample_evenly, spread_by_file
from harness.engines.column_values import conform
from harness.engines.duckdb.failures import engine_error
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.lowering import QueryUse, lower, with_numbered_columns
from harness.engines.duckdb.relations import registrar
from harness.errors import HarnessWarning
from harness.metadata.model.schema import (
    METADATA,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    arrow_field,
)
from harness.metadata.plan.deletes import PositionDeletes
from harness.metadata.plan.scan_plan import files_without_deletes
from harness.metadata.planned_scan import PlannedScan

RowPlace: TypeAlias = tuple[str, int]
"""A data file's recorded path, and a physical row position in the file."""

MOST_ORIGINS = 10
"""The most origins to report for a row, because a row may occur a million times."""
MOST_CANDIDATES = 100_000
"""The most rows to match by value. If more rows are similar, no origins are reported."""
_MOST_LOCATED, _MOST_VALUES = 5_000, 500_000
"""The most rows whose files are counted, and the most values that these rows may have."""
_MOST_PROBES = 300
"""The most reads to find which equality deletes hide rows. After that, some deletes are not reported."""
_PLACE = ("_file", "_pos", "_deleted")


def with_origins(
    difference: Difference,
    rows: tuple[pa.Table, pa.Table],
    columns: Sequence[str],
    plans: tuple[PlannedScan | None, PlannedScan | None],
    *,
    keys: Sequence[str] = (),
) -> tuple[tuple[RowDifference, ...], Spread | None]:
    """Add the origins to the rows of a difference, and count the differing rows in each data file.

    A row that no file holds, because an engine read its values wrongly, has no origin. With keys, it has the origin of
    the row with its key. Files are counted for a sample of some thousand rows.

    Args:
        difference: The difference of `rows` in `columns`.
        rows: The rows of both sides.
        columns: The compared columns.
        plans: The plan of each side, or None if the side is not a planned table.
        keys: The key columns.

    Returns:
        The rows with their origins, and the counts by file, or None if no row's file was found.

    Raises:
        HarnessError: DuckDB cannot read the files of a plan.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HarnessWarning)  # the comparison has already read the tables and warned
        lookup = _RowLookup(tuple(columns), tuple(keys), len(difference.rows))
        counted = sample_evenly(difference, min(_MOST_LOCATED, _MOST_VALUES // max(1, len(columns))))
        sample = {i: difference.differing[i] for i in sorted({*range(len(difference.rows)), *counted})}
        lefts = lookup.origins(sample, rows[0], {i: row.left for i, row in sample.items()}, plans)
        rights = lookup.origins(sample, rows[1], {i: row.right for i, row in sample.items()}, plans[::-1])
    result = tuple(
        replace(row, left_origins=lefts.get(i, ()), right_origins=rights.get(i, ()))
        for i, row in enumerate(difference.rows)
    )
    return result, spread_by_file({i: sample[i] for i in counted}, lefts, rights)


def hiding_deletes(plan: PlannedScan, places: Iterable[RowPlace]) -> dict[RowPlace, tuple[str, ...]]:
    """Return the recorded paths of the delete files that hide the row at each place.

    Places whose file is not in the plan are omitted. An empty tuple means that the row is not deleted.
    """
    ordinals = {path: i for i, path in reversed(list(enumerate(plan.files.column("path").to_pylist())))}
    positions_by_file: dict[int, list[int]] = {}
    for path, position in places:
        if path in ordinals:
            positions_by_file.setdefault(ordinals[path], []).append(position)
    deleted = plan.load_positions(positions_by_file)
    positional = plan.position_hits()
    result = {}
    for ordinal, positions in positions_by_file.items():
        sources = [source.path for source, files in positional if ordinal in files]
        for position in positions:
            result[ordinal, position] = sources[:] if position in deleted.get(ordinal, ()) else []
    by_scope: dict[int, list[int]] = {}
    scopes = plan.files.column("delete_set").to_pylist()
    for ordinal in positions_by_file:
        by_scope.setdefault(scopes[ordinal], []).append(ordinal)
    probe = _DeleteProbe(plan, positions_by_file)
    for scope, members in by_scope.items():
        for place, delete in probe.hits(members, plan.delete_sets[scope]):
            result[place].append(plan.equality_deletes[delete].path)
    paths = plan.files.column("path")
    return {
        (paths[o].as_py(), position): tuple(dict.fromkeys(delete_paths))
        for (o, position), delete_paths in result.items()
    }


@dataclass(slots=True)
class _DeleteProbe:
    """A search for the equality deletes that apply to rows.

    The rows' files are read repeatedly, each time with half of the deletes.
    """

    plan: PlannedScan
    wanted: Mapping[int, Sequence[int]]
    reads: int = 0

    def hits(self, ordinals: Sequence[int], deletes: Sequence[int]) -> list[tuple[tuple[int, int], int]]:
        """Return the wanted rows that `deletes` delete, as (file ordinal, position), each with one of its deletes."""
        if not deletes or not ordinals or self.reads >= _MOST_PROBES:
            return []
        self.reads += 1
        struck = self._deleted_rows(ordinals, deletes)
        if len(deletes) == 1 or not struck:
            return [(place, deletes[0]) for place in struck]
        files = sorted({ordinal for ordinal, _ in struck})
        half = len(deletes) // 2
        return self.hits(files, deletes[:half]) + self.hits(files, deletes[half:])

    def _deleted_rows(self, ordinals: Sequence[int], deletes: Sequence[int]) -> list[tuple[int, int]]:
        files = files_without_deletes(self.plan.files.take(pa.array(ordinals, pa.int64())))
        plan = replace(
            self.plan,
            columns=tuple(METADATA[name] for name in _PLACE),
            filter=None,
            files=files,
            equality_deletes=tuple(self.plan.equality_deletes[d] for d in deletes),
            delete_sets=(tuple(range(len(deletes))),),
            position_deletes=PositionDeletes(),
        )
        numbers = dict(zip(files.column("path").to_pylist(), ordinals, strict=True))
        rows = pa.table(
            {
                "_file": [path for path, ordinal in numbers.items() for _ in self.wanted[ordinal]],
                "_pos": [position for ordinal in numbers.values() for position in self.wanted[ordinal]],
            }
        )
        read = _read_matching(plan, rows, ("_file", "_pos"))
        return [
            (numbers[path], position)
            for path, position, deleted in zip(*(read.column(i).to_pylist() for i in range(3)), strict=True)
            if deleted
        ]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A physical row with the same values, or only the same key, as a differing row."""

    place: RowPlace
    only_key: bool
    deleted: bool


@dataclass(frozen=True, slots=True)
class _RowLookup:
    """A search for differing rows in planned tables."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    shown: int
    """Only rows with lower numbers are looked up in the deletes of the opposite side, because this costs reads."""

    def origins(
        self,
        differing: Mapping[int, DifferingRow],
        rows: pa.Table,
        places: Mapping[int, int | None],
        plans: tuple[PlannedScan | None, PlannedScan | None],
    ) -> dict[int, tuple[Origin, ...]]:
        """Return the origins of a side's differing rows, by row number.

        Args:
            differing: The differing rows by number.
            rows: The rows of the side.
            places: The index in `rows` of each differing row, or None.
            plans: The plan of the side, and the plan of the opposite side.
        """
        plan, other = plans
        row_indexes = {number: index for number, index in places.items() if index is not None}
        if plan is None or not row_indexes:
            return {}
        candidates = self._candidates(plan, rows.take(pa.array(list(row_indexes.values()), pa.int64())))
        if candidates is None:
            fewer = {number: index for number, index in row_indexes.items() if number < self.shown}
            return {} if len(fewer) == len(row_indexes) else self.origins(differing, rows, fewer, plans)
        by_number = dict(zip(row_indexes, candidates, strict=True))
        hiding_files: dict[RowPlace, tuple[str, ...]] = {}
        whole = set[str]()
        if other is not None:
            candidate_places = {
                each.place for number, result in by_number.items() if number < self.shown for each in result
            }
            hiding_files = hiding_deletes(other, sorted(candidate_places))
            files = zip(*(other.files.column(n).to_pylist() for n in ("path", "positions", "delete_set")), strict=True)
            whole = {path for path, positions, scope in files if positions is None and not other.delete_sets[scope]}

        def rank(candidate: _Candidate) -> tuple[bool, bool, bool, RowPlace]:
            """Return a sort key that puts the best candidate first.

            Rows with equal values come first, then rows that are not deleted, then rows that the opposite side does not
            read.
            """
            place = candidate.place
            is_read = hiding_files.get(place) == () or place[0] in whole
            return candidate.only_key, candidate.deleted, is_read, place

        return {
            number: tuple(
                Origin(file=c.place[0], position=c.place[1], hidden_by=hiding_files.get(c.place, ()))
                for c in sorted(result, key=rank)[: min(differing[number].count, MOST_ORIGINS)]
            )
            for number, result in by_number.items()
        }

    def _candidates(self, plan: PlannedScan, rows: pa.Table) -> list[list[_Candidate]] | None:
        """Return for each of `rows` the physical rows that may be its origin, or None if they are too many."""
        fields_by_name = METADATA | {f.name: f for f in (*plan.schema.fields, *plan.columns)}
        plan = replace(plan, columns=tuple(fields_by_name[name] for name in dict.fromkeys([*self.columns, *_PLACE])))
        read = _read_matching(plan, rows, self.keys or self.columns)
        read = narrow_rows(read, dict(zip(rows.column_names, rows.schema.types, strict=True)))
        if read.num_rows > MOST_CANDIDATES:
            return None
        matched = self.keys or self.columns
        by_match: dict[CanonicalRow, list[tuple[CanonicalRow, RowPlace, bool]]] = {}
        places = zip(*(read.column(name).to_pylist() for name in _PLACE), strict=True)
        for key, row, (file, position, deleted) in zip(
            self._rows(read, matched), self._rows(read, self.columns), places, strict=True
        ):
            by_match.setdefault(key, []).append((row, (file, position), deleted))
        return [
            [_Candidate(where, result != row, deleted) for result, where, deleted in by_match.get(key, ())]
            for key, row in zip(self._rows(rows, matched), self._rows(rows, self.columns), strict=True)
        ]

    def _rows(self, table: pa.Table, columns: Sequence[str]) -> list[CanonicalRow]:
        return canonical_rows(table, columns)


def _read_matching(plan: PlannedScan, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Read the rows of a plan that may equal one of `rows` in `columns`. Some rows match only in part."""
    connection = cursor()
    add = registrar(connection)
    query = with_numbered_columns(lower(plan, connection, add, QueryUse.VIEW), plan)
    safe = _searchable_columns(plan, rows, columns)
    if safe:
        keys = add(pa.table({f"w{i}": rows.column(name).cast(arrow_field(f).type) for i, (name, f) in safe.items()}))
        condition = " AND ".join(f"d.r{i} IS NOT DISTINCT FROM w.w{i}" for i in safe)
        query = f"SELECT d.* FROM ({query}) AS d SEMI JOIN {keys} AS w ON {condition}"
    try:
        read = pa.table(connection.sql(f"{query} LIMIT {MOST_CANDIDATES + 1}"))
        return conform(read, pa.schema([arrow_field(f) for f in plan.columns]))
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise engine_error(error, plan).within(format=plan.format) from error


def _searchable_columns(plan: PlannedScan, rows: pa.Table, columns: Sequence[str]) -> dict[int, tuple[str, Field]]:
    """Return the indexes in the plan of columns that DuckDB can join on exactly, or of floats as a last resort."""
    plain, floats = {}, {}
    for i, f in enumerate(plan.columns):
        if f.name not in columns or not normal_type(arrow_field(f).type).equals(
            normal_type(rows.schema.field(f.name).type)
        ):
            continue
        match f.type:
            case FloatType():
                floats[i] = (f.name, f)
            case BooleanType() | IntegerType() | DecimalType() | StringType() | BinaryType() | DateType():
                plain[i] = (f.name, f)
            case TimestampType(unit="us"):
                plain[i] = (f.name, f)
            case _:
                pass
    return plain or floats
