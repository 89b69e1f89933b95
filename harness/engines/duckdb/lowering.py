"""Lowers a `ScanPlan` to one SQL query over the planned files.

The query is a UNION ALL of arms, each over files that are read in the same way, and owes what `harness.plan.scan_plan`
says: positions from the unfiltered file, positional deletes, equality deletes on table-typed values, the whole filter,
the projection. Inside, columns have made-up names, because DuckDB takes names that differ only by case for equal.

Deleted positions are applied in one of two ways, both measured on 20 million rows with 1 % deleted:
- by *bitmap*: a row's bit is looked up in its file's bitmap, which joins on `file_index`. Filters reach the Parquet
  reader, so row groups are still skipped; a full scan costs 1.7 times the plain one.
- by *positional join* of each file with a column of flags: a full scan costs 1.2 times the plain one, but nothing can
  be skipped. So only for queries without a filter, on DuckDB versions whose optimizer is known to leave it alone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.engines.duckdb.columns import FileTable, Translation
from harness.engines.duckdb.equality import EqualityLowering, Match
from harness.engines.duckdb.scans import GroupScan, Scanner
from harness.engines.shared import sqltext
from harness.engines.shared.names import columns_to_read
from harness.engines.shared.union_arms import DELETED, UnionArm, union_arms
from harness.files.roaring import deleted_bits
from harness.model.schema import Field
from harness.plan.scan_plan import ScanPlan

_POSITIONAL_JOIN_VERSIONS = ("1.5.", "2.0.")
"""DuckDB versions on which the tests proved that no optimizer rule reaches below a positional join."""
_POSITIONAL_JOIN_FILES = 64
"""Each file is a arm of its own; beyond this, planning the arms costs more than it wins."""
_BITMAP_ROWS = 2**31 - 1
"""The index of `get_bit` is an INTEGER; longer files lose positions by an anti join."""


class Use(enum.Enum):
    """What the query is for, which decides how positions are deleted."""

    ONCE = "run once, as it is"
    VIEW = "a relation that others will filter"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A query without a filter or names applied: `sql` yields the columns `c0`, `c1`, … of `columns`."""

    sql: str
    columns: tuple[Field, ...]


def lower(
    plan: ScanPlan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str], use: Use
) -> Lowered:
    """The query of a plan.

    Args:
        plan: what to read.
        connection: where footers are read and names are bound; no rows are.
        register: puts an Arrow table where the query can read it, and returns its name.
        use: how the query will be run.

    Raises:
        MissingFileError, CorruptFileError, CorruptDeleteError, SchemaMismatchError, UnsupportedError: about the file
            at fault.
    """
    columns = columns_to_read(plan)
    if plan.files.num_rows == 0:
        empty = ", ".join(f"{sqltext.literal(None, f.type)} AS c{i}" for i, f in enumerate(columns))
        return Lowered(f"SELECT {empty or 'NULL AS c0'} WHERE false", columns)
    lowering = _Lowering(plan, connection, register, use, columns)
    return Lowered("\nUNION ALL\n".join(lowering.arms()), columns)


def named(lowered: Lowered, plan: ScanPlan) -> str:
    """`lowered` with the filter applied, and the plan's columns under their own names."""
    return _finished(lowered, plan, [sqltext.name(f.name) for f in plan.columns])


def numbered(lowered: Lowered, plan: ScanPlan) -> str:
    """`lowered` with the filter applied, and the plan's columns in order under the names `r0`, `r1`, …"""
    return _finished(lowered, plan, [f"r{i}" for i in range(len(plan.columns))])


def _finished(lowered: Lowered, plan: ScanPlan, labels: Sequence[str]) -> str:
    places = {f.id: i for i, f in enumerate(lowered.columns)}
    if plan.filter is None:
        outputs = [f"c{places[f.id]} AS {label}" for f, label in zip(plan.columns, labels, strict=True)]
        return f"SELECT {', '.join(outputs) or 'NULL'} FROM ({lowered.sql})"
    # The filter speaks in the user's names; every other column keeps out of its way.
    prefix = "#"
    while any(f.name.startswith(prefix) for f in plan.filter.columns):
        prefix += "#"
    inner = [f"c{i} AS {sqltext.name(f'{prefix}{i}')}" for i in range(len(lowered.columns))]
    inner += [f"c{places[f.id]} AS {sqltext.name(f.name)}" for f in plan.filter.columns]
    outer = [f"{sqltext.name(f'{prefix}{places[f.id]}')} AS {x}" for f, x in zip(plan.columns, labels, strict=True)]
    rows = f"SELECT {', '.join(inner)} FROM ({lowered.sql})"
    return f"SELECT {', '.join(outer) or 'NULL'} FROM ({rows}) WHERE {plan.filter.sql}"


@dataclass(frozen=True, slots=True)
class _Lowering:
    plan: ScanPlan
    connection: duckdb.DuckDBPyConnection
    register: Callable[[pa.Table], str]
    use: Use
    columns: tuple[Field, ...]

    def arms(self) -> list[str]:
        scanner = Scanner.over(self.plan, self.connection, self.register)
        equality = EqualityLowering.of(self.plan, scanner, self.register)
        arms = union_arms(self.plan, self.columns, scanner.inspector, equality.files)
        positional = self._joins_by_position(arms)
        queries = []
        for arm in arms:
            scan = scanner.scan(arm.files, arm.group, arm.fields)
            lowered = _Arm(arm, scan, scanner, equality)
            if positional and scan.parquet and arm.deleted is not None:
                queries += lowered.by_position(arm.deleted)
            else:
                queries.append(lowered.by_bitmap())
        return queries

    def _joins_by_position(self, arms: Sequence[UnionArm]) -> bool:
        return (
            self.use is Use.ONCE
            and self.plan.filter is None
            and sum(len(arm.deleted or ()) for arm in arms) <= _POSITIONAL_JOIN_FILES
            and not any(arm.flags_deleted for arm in arms)
            and duckdb.__version__.startswith(_POSITIONAL_JOIN_VERSIONS)
        )


@dataclass(frozen=True, slots=True)
class _Arm:
    """One arm of the query."""

    arm: UnionArm
    scan: GroupScan
    scanner: Scanner
    equality: EqualityLowering

    def by_bitmap(self) -> str:
        """The arm with deleted positions looked up in bitmaps."""
        arm, rows = self.arm, self.scan.rows
        translation = Translation(self.scan.shown, FileTable(len(rows)))
        if arm.deleted is None:
            return self._query(arm, self.scan.relation, translation, deleted=None)
        if max(rows) > _BITMAP_ROWS:
            return self._query(arm, self.scan.relation, translation, deleted=self._listed(arm.deleted))
        masks = [deleted_bits(positions, count) for positions, count in zip(arm.deleted, rows, strict=True)]
        bits = translation.table.column(pa.array(masks, pa.large_binary()), convert="BIT")
        deleted = f"get_bit({bits}, CAST(f.file_row_number AS INTEGER)) = 1"
        return self._query(arm, self.scan.relation, translation, deleted=deleted)

    def by_position(self, deleted: Sequence[BitMap64]) -> list[str]:
        """The arm as one query per file, each joined by position with a column of flags, one per physical row.

        Flags are an Arrow table and never a DuckDB table: a table's row order is not promised.
        """
        flag = "deleted"
        while flag in {shown.name.lower() for shown in self.scan.shown}:
            flag += "_"
        queries = []
        for arm, positions, rows in zip(self.arm.file_by_file(), deleted, self.scan.rows, strict=True):
            flags = self.scanner.register(pa.table({flag: _flags(positions, rows)}))
            data = f"(SELECT *, file_row_number FROM {self.scanner.read_parquet((arm.files[0].name.physical,))})"
            relation = f"(SELECT * FROM {data} POSITIONAL JOIN (SELECT {flag} FROM {flags}))"
            translation = Translation(self.scan.shown, FileTable(1))
            queries.append(self._query(arm, relation, translation, deleted=f"f.{flag}"))
        return queries

    def _listed(self, deleted: Sequence[BitMap64]) -> str:
        """Whether a row is deleted, looked up among the listed positions of all files."""
        listed = [np.array(positions, np.int64) for positions in deleted]
        places = [np.full(len(positions), i, np.uint64) for i, positions in enumerate(listed)]
        name = self.scanner.register(pa.table({"i": np.concatenate(places), "p": np.concatenate(listed)}))
        return f"EXISTS (SELECT 1 FROM {name} AS l WHERE l.i = f.file_index AND l.p = f.file_row_number)"

    def _query(self, arm: UnionArm, relation: str, translation: Translation, *, deleted: str | None) -> str:
        """The rows of the files less the deleted ones, or all rows where `_deleted` is asked for.

        deleted: when a row, `f`, is deleted by position; None: never.
        """
        inner = {label: translation.expression(value) for label, value in arm.values().items()}
        if arm.flags_deleted:
            inner["p"] = deleted or "false"
        scan = f"SELECT {_labelled(inner)} FROM {relation} AS f{translation.table.join(self.scanner.register)}"
        if deleted is not None and not arm.flags_deleted:
            scan += f" WHERE NOT ({deleted})"
        roots = {root: f"s.{label}" for root, label in arm.key_labels().items()}
        matches = self.equality.matches(arm.scope, roots)
        if arm.flags_deleted:
            return _flagged(arm, scan, matches)
        for match in matches:
            scan = f"SELECT s.* FROM ({scan}) AS s ANTI JOIN {match.relation} AS d ON {' AND '.join(match.on)}"
        outputs = ", ".join(f"c{i}" for i in range(len(arm.columns)))
        return f"SELECT {outputs or 'NULL AS c0'} FROM ({scan})" if matches else scan


def _flagged(arm: UnionArm, scan: str, matches: Sequence[Match]) -> str:
    hits = [f"EXISTS (SELECT 1 FROM {m.relation} AS d WHERE {' AND '.join(m.on)})" for m in matches]
    dead = " OR ".join(["s.p", *hits])
    columns = [f"({dead}) AS c{i}" if f.id == DELETED else f"s.c{i}" for i, f in enumerate(arm.columns)]
    return f"SELECT {', '.join(columns)} FROM ({scan}) AS s"


def _labelled(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} AS {label}" for label, expression in columns.items()) or "NULL AS c0"


def _flags(deleted: BitMap64, rows: int) -> pa.BooleanArray:
    bits = deleted_bits(deleted, rows, order="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])
