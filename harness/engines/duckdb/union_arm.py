"""One arm of the query: the files of one file group, with their deletes applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.engines.duckdb.constants import FileTable
from harness.engines.duckdb.equality import DataColumns, EqualityLowering, Match
from harness.engines.duckdb.scans import GroupScan, Scanner
from harness.engines.shared.file_groups import PlannedFiles, partition_fields
from harness.files.roaring import deleted_bits
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, IntegerType, StringType, StructType
from harness.plan.scan_plan import Partition, ScanPlan

_BITMAP_ROWS = 2**31 - 1
"""The index of `get_bit` is an INTEGER; longer files lose positions by an anti join."""
_INT, _LONG = IntegerType(32), IntegerType(64)


_METADATA_IDS = frozenset(f.id for f in METADATA.values())


def is_metadata(field: Field) -> bool:
    """Whether a column describes the row's place instead of coming from the table's schema."""
    return field.id in _METADATA_IDS


@dataclass(frozen=True, slots=True)
class UnionArm:
    """One file group and what its rows need.

    columns: what the arm yields, as `c0`, `c1`, …: stored columns and metadata columns.
    fields: the stored columns among them, then the equality keys' root columns, as the group resolved them.
    deleted: deleted positions by ordinal.
    """

    plan: ScanPlan
    columns: tuple[Field, ...]
    fields: tuple[Field, ...]
    files: PlannedFiles
    scan: GroupScan
    deleted: Mapping[int, BitMap64]
    equality: EqualityLowering
    scanner: Scanner

    @property
    def has_positions(self) -> bool:
        """Whether deleted positions hit files of this arm; all of its files are alike in this."""
        return self.scan.group.members[0] in self.deleted

    def by_bitmap(self) -> str:
        """The arm with deleted positions looked up in bitmaps."""
        scan = _Scan.over(self, self.scan.group.members, self.scan.relation)
        if not self.has_positions:
            return scan.query(deleted=None)
        if max(self.scan.rows) > _BITMAP_ROWS:
            return scan.query(deleted=self._listed_positions())
        counted = zip(self.scan.group.members, self.scan.rows, strict=True)
        masks = pa.array([deleted_bits(self.deleted[ordinal], rows) for ordinal, rows in counted], pa.large_binary())
        bits = scan.table.column(masks, convert="BIT")
        return scan.query(deleted=f"get_bit({bits}, CAST(f.file_row_number AS INTEGER)) = 1")

    def by_position(self) -> list[str]:
        """The arm as one query per file, each joined by position with a column of flags, one per physical row.

        Flags are an Arrow table and never a DuckDB table: a table's row order is not promised.
        """
        flag = "deleted"
        while flag in {shown.name.lower() for shown in self.scan.shown}:
            flag += "_"
        queries = []
        for ordinal, rows in zip(self.scan.group.members, self.scan.rows, strict=True):
            flags = self.scanner.register(pa.table({flag: _flags(self.deleted[ordinal], rows)}))
            data = f"(SELECT *, file_row_number FROM {self.scanner.read_parquet((self.files.physical[ordinal],))})"
            relation = f"(SELECT * FROM {data} POSITIONAL JOIN (SELECT {flag} FROM {flags}))"
            queries.append(_Scan.over(self, (ordinal,), relation).query(deleted=f"f.{flag}"))
        return queries

    def _listed_positions(self) -> str:
        """Whether a row is deleted, looked up among the listed positions of all files."""
        listed = [np.array(self.deleted[ordinal], np.int64) for ordinal in self.scan.group.members]
        places = [np.full(len(positions), i, np.uint64) for i, positions in enumerate(listed)]
        name = self.scanner.register(pa.table({"i": np.concatenate(places), "p": np.concatenate(listed)}))
        return f"EXISTS (SELECT 1 FROM {name} AS l WHERE l.i = f.file_index AND l.p = f.file_row_number)"


@dataclass(frozen=True, slots=True)
class _Scan:
    """A SELECT over some files of a arm, with the per-file constants that it turns out to need."""

    arm: UnionArm
    members: tuple[int, ...]
    relation: str
    table: FileTable

    @staticmethod
    def over(arm: UnionArm, members: tuple[int, ...], relation: str) -> _Scan:
        return _Scan(arm, members, relation, FileTable(len(members)))

    def query(self, *, deleted: str | None) -> str:
        """The rows of the files less the deleted ones, or all rows where `_deleted` is asked for.

        deleted: when a row, `f`, is deleted by position; None: never.
        """
        arm, flag = self.arm, METADATA["_deleted"].id
        stored = self._stored()
        flagged = any(f.id == flag for f in arm.columns)
        outputs = {
            f"c{i}": stored[f] if f in stored else self._metadata(f) for i, f in enumerate(arm.columns) if f.id != flag
        }
        roots = {root: f"e{i}" for i, root in enumerate(arm.equality.roots)}
        split, _ = arm.scan.group.split
        keys = {label: stored[root] for root, label in roots.items()} if split is not None else {}
        extra: dict[str, str] = {}
        matches = arm.equality.matches(split, {root: f"s.{e}" for root, e in roots.items()}, self._scope(extra))
        inner = outputs | keys | extra | ({"p": deleted or "false"} if flagged else {})
        scan = f"SELECT {_listed(inner)} FROM {self.relation} AS f{self.table.join(arm.scanner.register)}"
        if deleted is not None and not flagged:
            scan += f" WHERE NOT ({deleted})"
        if flagged:
            return self._flagged(scan, matches)
        for match in matches:
            scan = f"SELECT s.* FROM ({scan}) AS s ANTI JOIN {match.relation} AS d ON {' AND '.join(match.on)}"
        return f"SELECT {', '.join(outputs) or 'NULL AS c0'} FROM ({scan})" if matches else scan

    def _flagged(self, scan: str, matches: Sequence[Match]) -> str:
        hits = [f"EXISTS (SELECT 1 FROM {m.relation} AS d WHERE {' AND '.join(m.on)})" for m in matches]
        dead = " OR ".join(["s.p", *hits])
        columns = [
            f"({dead}) AS c{i}" if f.id == METADATA["_deleted"].id else f"s.c{i}"
            for i, f in enumerate(self.arm.columns)
        ]
        return f"SELECT {', '.join(columns)} FROM ({scan}) AS s"

    def _stored(self) -> dict[Field, str]:
        """Expressions of the fields that files, partitions or defaults provide."""
        read, fields, partitions = self.arm.scan, self.arm.fields, self._partitions()
        constants = {
            field_id: self.table.constant([p.constants.get(field_id) for p in partitions], type_)
            for field_id, type_ in partition_fields(fields, read.group.sources).items()
        }
        return dict(zip(fields, read.expressions(fields, constants), strict=True))

    def _metadata(self, column: Field) -> str:
        """The expression of a metadata column (iceberg 5.17, 5.18)."""
        files = self.arm.files
        match column.name:
            case "_file":
                return self.table.constant([files.path[o] for o in self.members], StringType())
            case "_pos":
                return "f.file_row_number"
            case "_spec_id":
                return self.table.constant([files.spec_id[o] for o in self.members], _INT)
            case "_partition":
                # No spec of the table has a field: null. A file whose own spec has none: a struct of nulls.
                has_fields = isinstance(column.type, StructType)
                tuples = [p.values if has_fields else None for p in self._partitions()]
                return self.table.constant(tuples, column.type)
            case "_row_id":
                first = self.table.constant([files.first_row_id[o] for o in self.members], _LONG)
                return self._lineage(column, first, f"{first} + f.file_row_number")
            case "_last_updated_sequence_number":
                first = self.table.constant([files.first_row_id[o] for o in self.members], _LONG)
                return self._lineage(column, first, self._sequence_number())
            case "_row_commit_version":
                versions = self.arm.plan.row_commit_versions
                own = [None if versions is None else versions[o].as_py() for o in self.members]
                stored, inherited = self._materialized(column), self.table.constant(own, _LONG)
                return inherited if stored is None else f"coalesce({stored}, {inherited})"
            case other:
                raise AssertionError(f"no metadata column is called {other}")

    def _lineage(self, column: Field, first_row_id: str, inherited: str) -> str:
        """Stored values win; without a first row id there is no lineage, whatever is stored (iceberg 5.18)."""
        stored = self._materialized(column)
        value = inherited if stored is None else f"coalesce({stored}, {inherited})"
        return f"CASE WHEN {first_row_id} IS NULL THEN NULL ELSE {value} END"

    def _materialized(self, column: Field) -> str | None:
        """The expression of a metadata column that the files may hold themselves, or None."""
        plan, read = self.arm.plan, self.arm.scan
        if not plan.lookup.is_delta:
            return read.stored(column)
        name = plan.materialized.get(column.name)
        return None if name is None else read.named(column, name)

    def _sequence_number(self) -> str:
        return self.table.constant([self.arm.files.sequence_number[o] for o in self.members], _LONG)

    def _scope(self, extra: dict[str, str]) -> DataColumns:
        """Columns that anti joins over many scopes compare; a column appears in `extra` once it is asked for."""

        def sequence_number() -> str:
            extra["sq"] = self._sequence_number()
            return "s.sq"

        def partition() -> str:
            indexes = [self.arm.files.partition_index[o] for o in self.members]
            extra["sp"] = self.table.constant(indexes, _LONG)
            return "s.sp"

        return DataColumns(sequence_number, partition)

    def _partitions(self) -> list[Partition]:
        """The partition tuple of each file."""
        return [self.arm.files.partition(ordinal) for ordinal in self.members]


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} AS {label}" for label, expression in columns.items()) or "NULL AS c0"


def _flags(deleted: BitMap64, rows: int) -> pa.BooleanArray:
    bits = deleted_bits(deleted, rows, order="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])
