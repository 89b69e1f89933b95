"""One arm of a lowered plan: the files of one file group, with their deletes applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions

from harness.engines.shared.file_groups import PlannedFiles
from harness.engines.spark.equality import EqualityLowering
from harness.engines.spark.scans import GroupScan
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, IntegerType, StringType, StructType
from harness.plan.scan_plan import Partition, ScanPlan

_INT, _LONG = IntegerType(32), IntegerType(64)
_METADATA_IDS = frozenset(f.id for f in METADATA.values())
_FLAG = METADATA["_deleted"].id


def is_metadata(field: Field) -> bool:
    """Whether a column describes the row's place instead of coming from the table's schema."""
    return field.id in _METADATA_IDS


@dataclass(frozen=True, slots=True)
class UnionArm:
    """One file group and what its rows need.

    columns: what the arm yields, as `c0`, `c1`, …: stored columns and metadata columns.
    ordinals: of the group's files.
    """

    plan: ScanPlan
    columns: tuple[Field, ...]
    files: PlannedFiles
    ordinals: tuple[int, ...]
    scan: GroupScan
    equality: EqualityLowering

    def frame(self) -> DataFrame:
        """The rows of the files less the deleted ones, or all rows where `_deleted` is asked for."""
        stored = dict(zip(self.scan.fields, self.scan.expressions(), strict=True))
        flagged = any(f.id == _FLAG for f in self.columns)
        labels = [f"c{i}" for i in range(len(self.columns))]
        selected = {
            label: stored[f] if f in stored else self._metadata(f)
            for label, f in zip(labels, self.columns, strict=True)
            if f.id != _FLAG
        }
        split, has_positions = self.scan.group.split
        deleted = functions.col("deleted") if has_positions else functions.lit(False)
        if flagged:
            selected["p"] = deleted
        roots = {root: f"e{i}" for i, root in enumerate(self.equality.roots)} if split is not None else {}
        selected |= {label: stored[root] for root, label in roots.items()}
        if split is not None and self.equality.compares_sequence_numbers:
            selected |= {"sq": self._sequence_number(), "sp": self._partition_index()}
        frame = self.scan.frame()
        if has_positions and not flagged:
            frame = frame.where(~deleted)
        frame = frame.select(*[expression.alias(label) for label, expression in selected.items()])
        if split is None:
            dead = functions.col("p")
        elif flagged:
            frame, hit = self.equality.flagged(frame, split, roots)
            dead = functions.col("p") | hit
        else:
            frame = self.equality.without_deleted(frame, split, roots)
        return frame.select(
            *[
                (dead.alias(label) if f.id == _FLAG else functions.col(label))
                for label, f in zip(labels, self.columns, strict=True)
            ]
        )

    def _metadata(self, column: Field) -> Column:
        """The expression of a metadata column (iceberg 5.17, 5.18)."""
        match column.name:
            case "_file":
                return self._constant(self.files.path, StringType())
            case "_pos":
                return functions.col("pos")
            case "_spec_id":
                return self._constant(self.files.spec_id, _INT)
            case "_partition":
                # No spec of the table has a field: null. A file whose own spec has none: a struct of nulls.
                has_fields = isinstance(column.type, StructType)
                tuples = [p.values if has_fields else None for p in self._partitions()]
                return self.scan.constants.constant(tuples, column.type)
            case "_row_id":
                first = self._constant(self.files.first_row_id, _LONG)
                return self._lineage(column, first, first + functions.col("pos"))
            case "_last_updated_sequence_number":
                first = self._constant(self.files.first_row_id, _LONG)
                return self._lineage(column, first, self._sequence_number())
            case "_row_commit_version":
                versions = self.plan.row_commit_versions
                own = [None if versions is None else versions[o].as_py() for o in self.ordinals]
                inherited = self.scan.constants.constant(own, _LONG)
                return self._or_stored(column, inherited)
            case other:
                raise AssertionError(f"no metadata column is called {other}")

    def _lineage(self, column: Field, first_row_id: Column, inherited: Column) -> Column:
        """Stored values win; without a first row id there is no lineage, whatever is stored (iceberg 5.18)."""
        return functions.when(first_row_id.isNotNull(), self._or_stored(column, inherited))

    def _or_stored(self, column: Field, inherited: Column) -> Column:
        """The value that the files hold, or where it is null the inherited one."""
        stored = self._materialized(column)
        return inherited if stored is None else functions.coalesce(stored, inherited)

    def _materialized(self, column: Field) -> Column | None:
        """The expression of a metadata column that the files may hold themselves, or None."""
        if not self.plan.lookup.is_delta:
            return self.scan.stored(column)
        name = self.plan.materialized.get(column.name)
        return None if name is None else self.scan.named(column, name)

    def _partition_index(self) -> Column:
        return self._constant(self.files.partition_index, _LONG)

    def _sequence_number(self) -> Column:
        return self._constant(self.files.sequence_number, _LONG)

    def _constant(self, values: Sequence[object], type_: IntegerType | StringType) -> Column:
        return self.scan.constants.constant([values[o] for o in self.ordinals], type_)

    def _partitions(self) -> list[Partition]:
        """The partition tuple of each file."""
        return [self.files.partition(ordinal) for ordinal in self.ordinals]
