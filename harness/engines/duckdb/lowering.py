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
import pyarrow as pa
from pyroaring import BitMap64

from harness.engines.duckdb.equality import EqualityLowering
from harness.engines.duckdb.scans import Scanner
from harness.engines.duckdb.union_arm import UnionArm, is_metadata
from harness.engines.shared import sqltext
from harness.engines.shared.file_groups import PlannedFiles
from harness.engines.shared.names import columns_to_read
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field
from harness.plan.scan_plan import ScanPlan

_POSITIONAL_JOIN_VERSIONS = ("1.5.", "2.0.")
"""DuckDB versions on which the tests proved that no optimizer rule reaches below a positional join."""
_POSITIONAL_JOIN_FILES = 64
"""Each file is a arm of its own; beyond this, planning the arms costs more than it wins."""


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
        files = PlannedFiles.of(self.plan)
        deleted, exact = self._deleted_positions(files), self._shows_row_ids()
        scanner = Scanner.over(self.plan, self.connection, self.register)
        equality = EqualityLowering.of(self.plan, scanner, self.register)
        scan_files = [
            files.scan_file(i, (equality.split(files.delete_set[i]), i in deleted), exact=i in deleted or exact)
            for i in files
        ]
        scanner.inspector.prefetch([*scan_files, *equality.files])
        fields = tuple(f for f in self.columns if not is_metadata(f)) + equality.roots
        positional = self._joins_by_position(deleted)
        arms = []
        for scan in scanner.scans(scan_files, fields):
            scanner.inspector.check_partition_values(scan_files[scan.group.members[0]], scan.group, fields)
            arm = UnionArm(self.plan, self.columns, fields, files, scan, deleted, equality, scanner)
            if positional and scan.parquet and arm.has_positions:
                arms += arm.by_position()
            else:
                arms.append(arm.by_bitmap())
        return arms

    def _deleted_positions(self, files: PlannedFiles) -> dict[int, BitMap64]:
        loaded = self.plan.load_positions([i for i in files if files.has_positions[i]])
        return {ordinal: positions for ordinal, positions in loaded.items() if len(positions)}

    def _shows_row_ids(self) -> bool:
        return any(f.id == METADATA["_row_id"].id for f in self.columns)

    def _joins_by_position(self, deleted: Mapping[int, BitMap64]) -> bool:
        return (
            self.use is Use.ONCE
            and self.plan.filter is None
            and len(deleted) <= _POSITIONAL_JOIN_FILES
            and not any(f.id == METADATA["_deleted"].id for f in self.columns)
            and duckdb.__version__.startswith(_POSITIONAL_JOIN_VERSIONS)
        )
