"""Translation of a `ScanPlan` to one SQL query over the planned files.

The query is a UNION ALL of arms, each over files that are read in the same way, and fulfills the contract in
`harness.metadata.plan.scan_plan`. Inside the query, columns have generated names, because DuckDB treats names that
differ only in case as equal.

Deleted positions are applied in one of two ways. Both were measured on 20 million rows with 1 % deleted, in CPU time of
the query alone (docs/bench has wall-clock times of whole reads):
- by *bitmap*: each row's bit is looked up in its file's bitmap, which is joined on `file_index`. Filters reach the
  Parquet reader, so row groups are still skipped; a full scan costs 1.75 times the plain one.
- by *positional join* of runs of files with a column of flags: a full scan costs 1.1 times the plain one, but no row
  group can be skipped. So this is used only for files whose rows all match the filter according to the metadata,
  on DuckDB versions whose optimizer is known not to move filters below the join, and if `plan_runs` finds enough work
  for all threads. It is never used for streams: each run holds a row group, and DuckDB starts all runs at once (20 runs
  held 530 MB, one bitmap arm 96 MB).

Slower alternatives, in multiples of the plain scan: an anti join on positions 2.7, one bit or Boolean of a list 2.0 and
8.9, row groups with flags cut by `file_row_number` 1.5, ranges instead of bits 2.0 to 2.4, BIT from Arrow 1.65, and
bits in a tree of CASE 2.0 to 2.5 plus 14 s to plan. Reading `file_row_number`, which every lookup needs, takes 1.13.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.engines.duckdb.columns import FileTable, SqlTranslation
from harness.engines.duckdb.scans import AntiJoins, FirstDelete, RelationScan, Scanner
from harness.engines.union_arms import (
    DELETED,
    DELETED_BY,
    UnionArm,
    columns_to_read,
    dated_positions,
    delete_files,
    union_arms,
    with_enough_files,
    with_merged_scopes,
)
from harness.metadata.files.roaring import deleted_bits, deleted_mask
from harness.metadata.filters import sqltext
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.arrow_values import Indices, array_of, from_numpy
from harness.metadata.model.schema import Field
from harness.metadata.plan.lifetimes import Lifetimes
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.engines.change_roles import Role

# A positional join processes all its rows in order on one thread. So the files are distributed over runs, each with its
# own join: enough runs to keep the threads busy, but no more, because each run costs 1 to 2 ms to bind and plan.


Run: TypeAlias = tuple[int, ...]
"""The files of an arm that one positional join reads, as ascending indexes into the arm's files."""

_LEAST_ROWS = 250_000
"""The fewest rows in a run: joining by position saves 7 ns per row (2 columns, DuckDB 2.0); a run costs 1 to 2 ms."""
_OF_A_THREAD = 2
"""The fewest runs per thread, so that a thread that finishes early finds more work.

More runs cost planning time: for 20 million rows in 10 files on 2 threads, 10 runs took 14 ms and 4 runs took 8 ms.
"""
_RUN_ROWS = 10_000_000
"""The most rows in a run. In a large table, planning is a small part, but long runs let threads idle at the end."""
_MOST_ROWS = 200_000_000
"""The most rows joined by position in one query. The join needs one byte per row; bitmaps need one bit."""
_LARGEST_SHARE = 1.5
"""The most rows that a run may have, as a multiple of a thread's fair share. Bitmaps take about this much more time."""


def plan_runs(deleted: Sequence[Sequence[int]], others: int, threads: int) -> list[list[Run]] | None:
    """Divide the files of each arm into runs to join by position, largest run first. None if bitmaps are faster.

    Args:
        deleted: For each arm to join, the row counts of its files.
        others: The number of rows in arms that are not joined by position.
        threads: The number of threads of the query.
    """
    joined = sum(map(sum, deleted))
    if joined > _MOST_ROWS:
        return None
    target = max(_LEAST_ROWS, min(joined // (_OF_A_THREAD * threads), _RUN_ROWS))
    dealt = [_distribute(counts, max(1, sum(counts) // target)) for counts in deleted]
    sizes = [_rows(counts, run) for counts, arm in zip(deleted, dealt, strict=True) for run in arm]
    if joined < _LEAST_ROWS * len(sizes) // 2 or max(sizes, default=0) * threads > _LARGEST_SHARE * (joined + others):
        return None
    return dealt


def _distribute(counts: Sequence[int], most: int) -> list[Run]:
    """Return at most `most` runs of about equal size, larger ones first.

    If there are several runs, each has at least `_LEAST_ROWS` rows.
    """
    dealt = _pack(counts, most)
    while len(dealt) > 1 and _rows(counts, dealt[-1]) < _LEAST_ROWS:
        dealt = _pack(counts, len(dealt) - 1)
    return dealt


def _pack(counts: Sequence[int], size: int) -> list[Run]:
    """Distribute files over `size` runs: each file, the largest first, is added to the smallest run so far."""
    sizes = [0] * min(size, len(counts))
    members: list[list[int]] = [[] for _ in sizes]
    for place in sorted(range(len(counts)), key=lambda place: -counts[place]):
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        members[smallest].append(place)
        sizes[smallest] += counts[place]
    return sorted((tuple(sorted(run)) for run in members), key=lambda run: -_rows(counts, run))


def _rows(counts: Sequence[int], run: Run) -> int:
    return sum(counts[place] for place in run)


POSITIONAL_JOIN_VERSIONS = frozenset({"1.5.4", "1.5.5", "1.5.6", "2.0.0", "2.0.1"})
"""The DuckDB versions that move no filter below a positional join, as test_duckdb_positional_join.py proves."""
BITMAP_ROWS = 2**31 - 1
"""The largest row count for bitmaps: the index of `get_bit` is an INTEGER.

Longer files use an anti join on positions.
"""


class QueryUse(enum.Enum):
    """The way in which a query will be run. It determines how deleted positions are applied."""

    ONCE = "run once, as it is"
    VIEW = "a relation that others will filter"
    STREAM = "run once, and read bit by bit"


@dataclass(frozen=True, slots=True)
class LoweredQuery:
    """A query before the filter and the column names are applied.

    Attributes:
        sql: The query, which yields the columns as `c0`, `c1`, ….
        columns: The columns.
        filter: The filter to apply. None if the query already applies the plan's filter.
    """

    sql: str
    columns: tuple[Field, ...]
    filter: Filter | None


def lower(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: QueryUse
) -> LoweredQuery:
    """Return the query of a plan.

    Args:
        plan: The plan.
        connection: Footers are read and names are bound on this connection. No rows are read.
        register: Makes an Arrow table available to the query and returns its name.
        use: The use of the query.

    Raises:
        HarnessError: A file cannot be read. The error names the file.
    """
    lifetimes = plan.lifetimes
    if lifetimes is not None and lifetimes.mode is not None:
        return _lower_changes(plan, lifetimes, connection, register)
    columns, arms = _arms(plan, connection, register, use)
    sql = "\nUNION ALL\n".join(query for _, query in arms) or _empty(columns)
    return LoweredQuery(sql, columns, plan.filter)


def _empty(columns: Sequence[Field]) -> str:
    empty = ", ".join(f"{sqltext.literal(None, f.type)} AS c{i}" for i, f in enumerate(columns))
    return f"SELECT {empty or 'NULL AS c0'} WHERE false"


def _arms(
    plan: PlannedScan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: QueryUse
) -> tuple[tuple[Field, ...], list[tuple[Role | None, str]]]:
    """Return the columns of a plan, and the queries of its arms, each with the role of its files."""
    columns = columns_to_read(plan)
    if plan.files.num_rows == 0:
        return columns, []
    scanner = Scanner.create(plan, connection, register)
    plan = with_merged_scopes(with_enough_files(plan, scanner.opener))
    return columns, _QueryLowering(plan, connection, scanner.for_plan(plan), use, columns).arms()


def _lower_changes(
    plan: PlannedScan,
    lifetimes: Lifetimes,
    connection: duckdb.DuckDBPyConnection,
    register: Callable[[pa.Table], str],
) -> LoweredQuery:
    from harness.engines.changes import Steps, base_plan, commits_table, filters_files, output_columns
    from harness.engines.duckdb.dialect import DIALECT, SqlRows

    base = base_plan(plan, lifetimes)
    outputs = output_columns(plan, lifetimes)
    columns, arms = _arms(base, connection, register, QueryUse.STREAM)
    rest = None if filters_files(plan, lifetimes) else plan.filter
    if not arms:
        return LoweredQuery(_empty(outputs), outputs, rest)
    labels = [f"c{i}" for i in range(len(base.columns))]
    files = [
        (role, SqlRows(with_labels(LoweredQuery(query, columns, base.filter), base, labels)))
        for role, query in arms
        if role is not None
    ]
    commits = SqlRows(f"SELECT * FROM {register(commits_table(lifetimes))}")
    steps = Steps(plan, lifetimes, base.columns, DIALECT)
    return LoweredQuery(steps.changes(files, commits).sql, outputs, rest)


def with_numbered_columns(lowered: LoweredQuery, plan: PlannedScan) -> str:
    """Apply the query's filter, and return the plan's columns in order under the names `r0`, `r1`, …."""
    return with_labels(lowered, plan, [f"r{i}" for i in range(len(plan.columns))])


def with_labels(lowered: LoweredQuery, plan: PlannedScan, labels: Sequence[str]) -> str:
    """Apply the query's filter, and return the plan's columns in order under `labels`, which are quoted SQL names."""
    places = {f.id: i for i, f in enumerate(lowered.columns)}
    condition = lowered.filter
    if condition is None:
        outputs = [f"c{places[f.id]} AS {label}" for f, label in zip(plan.columns, labels, strict=True)]
        return f"SELECT {', '.join(outputs) or 'NULL'} FROM ({lowered.sql})"
    # The filter uses the user's names, so the names of all other columns must not collide with them.
    prefix = "#"
    while any(f.name.startswith(prefix) for f in condition.columns):
        prefix += "#"
    inner = [f"c{i} AS {sqltext.name(f'{prefix}{i}')}" for i in range(len(lowered.columns))]
    inner += [f"c{places[f.id]} AS {sqltext.name(f.name)}" for f in condition.columns]
    outer = [f"{sqltext.name(f'{prefix}{places[f.id]}')} AS {x}" for f, x in zip(plan.columns, labels, strict=True)]
    rows = f"SELECT {', '.join(inner) or 'NULL'} FROM ({lowered.sql})"
    return f"SELECT {', '.join(outer) or 'NULL'} FROM ({rows}) WHERE {condition.sql}"


@dataclass(frozen=True, slots=True)
class _QueryLowering:
    plan: PlannedScan
    connection: duckdb.DuckDBPyConnection
    scanner: Scanner
    use: QueryUse
    columns: tuple[Field, ...]

    def arms(self) -> list[tuple[Role | None, str]]:
        scanner = self.scanner
        equality = AntiJoins(self.plan, scanner, delete_files(self.plan))
        arms = union_arms(self.plan, self.columns, scanner.inspector, equality.files)
        scans = [scanner.scan(arm.files, arm.group, arm.fields) for arm in arms]
        lowered = [_ArmQuery(arm, scan, scanner, equality) for arm, scan in zip(arms, scans, strict=True)]
        queries: list[tuple[Role | None, str]] = []
        for arm, cut in self._choose_joins(lowered):
            parts = [arm.by_bitmap()] if cut is None else map(arm.by_position, cut)
            queries += [(arm.arm.role, query) for query in parts]
        return queries

    def _choose_joins(self, arms: Sequence[_ArmQuery]) -> list[tuple[_ArmQuery, list[Run] | None]]:
        """Return the arms, each with its runs of files to join by position, or with None to use bitmaps."""
        by_bitmap: list[tuple[_ArmQuery, list[Run] | None]] = [(arm, None) for arm in arms]
        if self.use is not QueryUse.ONCE or any(lowered.arm.shows_deleted for lowered in arms):
            return by_bitmap
        if duckdb.__version__ not in POSITIONAL_JOIN_VERSIONS:
            return by_bitmap
        joined, others = [arm for arm in arms if arm.can_join], [arm for arm in arms if not arm.can_join]
        if not joined:
            return by_bitmap
        ((threads,),) = self.connection.execute("SELECT current_setting('threads')").fetchall()
        cut = self._runs(joined, others, threads)
        if cut is not None and self.plan.filter is not None:
            joined, rest = self._split_by_filter(joined)
            others += rest
            cut = self._runs(joined, others, threads)
        return by_bitmap if cut is None else [*zip(joined, cut, strict=True), *((arm, None) for arm in others)]

    def _runs(self, joined: Sequence[_ArmQuery], others: Sequence[_ArmQuery], threads: int) -> list[list[Run]] | None:
        counted = [arm.scan.rows.tolist() for arm in joined]
        return plan_runs(counted, sum(int(arm.scan.rows.sum()) for arm in others), threads) if joined else None

    def _split_by_filter(self, arms: Sequence[_ArmQuery]) -> tuple[list[_ArmQuery], list[_ArmQuery]]:
        """Split the arms by file: first the files whose rows all match the filter, then all other files."""
        if self.plan.statistics is None:
            return [], list(arms)
        whole = self.plan.statistics.matches_all_rows()
        complete: list[_ArmQuery] = []
        others: list[_ArmQuery] = []
        for lowered in arms:
            is_kept = whole[lowered.arm.group.members]
            complete += lowered.part(np.flatnonzero(is_kept))
            others += lowered.part(np.flatnonzero(~is_kept))
        return complete, others


@dataclass(frozen=True, slots=True)
class _ArmQuery:
    """An arm as SQL."""

    arm: UnionArm
    scan: RelationScan
    scanner: Scanner
    equality: AntiJoins

    @property
    def can_join(self) -> bool:
        """True if rows are deleted by position and DuckDB itself reads the files."""
        return self.scan.parquet and self.arm.deleted is not None

    def part(self, places: Indices) -> list[_ArmQuery]:
        """Return the arm for some of its files, which DuckDB itself reads. Empty if `places` is empty."""
        if places.size in (0, len(self.scan.rows)):
            return [self] if places.size else []
        arm = replace(self.arm, group=self.arm.group.part(places))
        relation = self.scanner.read_parquet(arm.files.physical_of(arm.group.members))
        return [replace(self, arm=arm, scan=replace(self.scan, rows=self.scan.rows[places], relation=relation))]

    def _deleted(self, deleted: Mapping[int, BitMap64]) -> list[tuple[BitMap64, int]]:
        """Return the deleted positions and the row count of each file."""
        members, rows = self.arm.group.members.tolist(), self.scan.rows.tolist()
        return [(deleted[ordinal], count) for ordinal, count in zip(members, rows, strict=True)]

    def by_bitmap(self) -> str:
        """Return the arm's query, with deleted positions looked up in bitmaps."""
        arm, rows = self.arm, self.scan.rows
        translation = SqlTranslation(self.scan.columns, FileTable(len(rows)))
        if arm.deleted is None:
            return self._query(arm, self.scan.relation, translation, deleted=None)
        if rows.max() > BITMAP_ROWS:
            listed = [np.array(positions, np.int64) for positions, _ in self._deleted(arm.deleted)]
            places = [np.full(len(positions), i, np.uint64) for i, positions in enumerate(listed)]
            name = self.scanner.register(
                pa.table({"i": from_numpy(np.concatenate(places)), "p": from_numpy(np.concatenate(listed))})
            )
            deleted = f"EXISTS (SELECT 1 FROM {name} AS l WHERE l.i = f.file_index AND l.p = f.file_row_number)"
            return self._query(arm, self.scan.relation, translation, deleted=deleted)
        masks = [deleted_bits(positions, count) for positions, count in self._deleted(arm.deleted)]
        bits = translation.table.column(array_of(masks, pa.large_binary()), convert="BIT")
        deleted = f"get_bit({bits}, CAST(f.file_row_number AS INTEGER)) = 1"
        return self._query(arm, self.scan.relation, translation, deleted=deleted)

    def by_position(self, run: Run) -> str:
        """Return the query for a run of the arm's files, joined by position with a column of flags, one per row.

        The flags are an Arrow table, because a DuckDB table does not guarantee row order. They are bytes, because
        Booleans cost time to pack and unpack. A subquery between the files and the join would make planning a quarter
        slower.
        """
        (part,) = self.part(np.array(run))
        arm = part.arm
        masks = [deleted_mask(positions, count) for positions, count in part._deleted(arm.deleted or {})]
        flags = self.scanner.register(
            pa.table({"deleted": pa.chunked_array([from_numpy(mask) for mask in masks], pa.int8())})
        )
        translation = SqlTranslation(self.scan.columns, FileTable(len(part.scan.rows)))
        joined = f" POSITIONAL JOIN {flags} AS m"
        return self._query(arm, part.scan.relation, translation, deleted="m.deleted = 1", joined=joined)

    def _query(
        self, arm: UnionArm, relation: str, translation: SqlTranslation, *, deleted: str | None, joined: str = ""
    ) -> str:
        """Return a query for the live rows of the files, or for all rows if the plan has the column `_deleted`.

        Args:
            arm: The arm.
            relation: The FROM item of its files.
            translation: Translates the column values.
            deleted: The condition under which a row is deleted by position. None if no row is.
            joined: A join clause that `deleted` refers to.
        """
        inner = {label: translation.expression(value) for label, value in arm.values().items()}
        if arm.shows_deleted and self.arm.plan.lifetimes is None:
            inner["p"] = deleted or "false"
        selected = ", ".join(f"{expression} AS {label}" for label, expression in inner.items()) or "NULL AS c0"
        scan = f"SELECT {selected} FROM {relation} AS f{joined}{translation.table.join(self.scanner.register)}"
        if deleted is not None and not arm.shows_deleted:
            scan += f" WHERE NOT ({deleted})"
        roots = {root: f"s.{label}" for root, label in arm.key_labels().items()}
        if arm.plan.lifetimes is not None:
            return self._dated(arm, scan, roots)
        matches = self.equality.matches(arm.scope, roots, int(self.scan.rows.sum()))
        if arm.shows_deleted:
            hits = [f"EXISTS (SELECT 1 FROM {m.relation} AS d WHERE {' AND '.join(m.on)})" for m in matches]
            dead = " OR ".join(["s.p", *hits])
            columns = [f"({dead}) AS c{i}" if f.id == DELETED else f"s.c{i}" for i, f in enumerate(arm.columns)]
            return f"SELECT {', '.join(columns)} FROM ({scan}) AS s"
        for match in matches:
            scan = f"SELECT s.* FROM ({scan}) AS s ANTI JOIN {match.relation} AS d ON {' AND '.join(match.on)}"
        outputs = ", ".join(f"c{i}" for i in range(len(arm.columns)))
        return f"SELECT {outputs or 'NULL AS c0'} FROM ({scan})" if matches else scan

    def _dated(self, arm: UnionArm, scan: str, roots: Mapping[Field, str]) -> str:
        """Return a query for all rows of the files, with the first delete of each row.

        Args:
            arm: The arm.
            scan: The query for its rows without the columns that depend on deletes.
            roots: The expression of each root column of equality deletes.
        """
        joins = self.equality.first_deletes(arm.scope, roots)
        if arm.dated:
            positions = self.scanner.register(dated_positions(arm.plan, arm.group.members.tolist()))
            on = "s.fn = dp.f AND s.ps = dp.p"
            joins.append(FirstDelete(f" LEFT JOIN {positions} AS dp ON {on}", "dp.n"))
        number = f"least({', '.join(join.number for join in joins)})" if joins else "CAST(NULL AS BIGINT)"
        computed = {DELETED: f"({number}) IS NOT NULL", DELETED_BY: number}
        columns = [f"{computed.get(f.id, f's.c{i}')} AS c{i}" for i, f in enumerate(arm.columns)]
        return f"SELECT {', '.join(columns) or 'NULL AS c0'} FROM ({scan}) AS s{''.join(join.join for join in joins)}"
