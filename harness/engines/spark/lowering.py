"""Lowers a `ScanPlan` to one Spark frame over the planned files.

The frame is a union of arms, each over files that are read in the same way, and owes what `harness.plan.scan_plan`
says: positions from the unfiltered file, positional deletes, equality deletes on table-typed values, the whole filter,
the projection. Spark's optimizer carries filters and projections through the arms down to the files. Inside, columns
have made-up names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyroaring import BitMap64
from pyspark.sql import DataFrame, functions

from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.engines.shared.duckdb_instance import cursor
from harness.engines.shared.file_groups import FileGroup, Inspector, Opened, PlannedFiles, ScanFile
from harness.engines.shared.key_sets import KeySet, check_keys, delete_files, key_roots
from harness.engines.shared.names import columns_to_read
from harness.engines.spark.arrow_heads import read_head
from harness.engines.spark.connect import PlainPaths, Reader
from harness.engines.spark.equality import EqualityLowering, key_columns
from harness.engines.spark.filters import spark_condition
from harness.engines.spark.scans import GroupScan
from harness.engines.spark.types import storage_type
from harness.engines.spark.union_arm import UnionArm, is_metadata
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, IntegerType
from harness.plan.scan_plan import ScanPlan

_LONG = IntegerType(64)
_BY_POSITION = frozenset(METADATA[name].id for name in ("_pos", "_row_id"))


def lower(plan: ScanPlan, reader: Reader) -> DataFrame:
    """The frame of a plan, in the reader's session: its columns are `c0`, `c1`, … in the order of `plan.columns`.

    Raises:
        MissingFileError, CorruptFileError, CorruptDeleteError, SchemaMismatchError, UnsupportedError: about the file
            at fault.
        RequestError: the session has a setting under which rows would come out wrong, and no gateway to read beside it.
    """
    columns = columns_to_read(plan)
    labels = {f.name: f"c{i}" for i, f in enumerate(columns)}
    condition = None if plan.filter is None else spark_condition(plan.filter, labels)
    if isinstance(reader, PlainPaths):
        reader.check((*columns, *key_roots(plan)), condition)
    if plan.files.num_rows == 0:
        # Not by createDataFrame, which would make harness's own session the active one.
        nulls = [functions.lit(None).cast(storage_type(f.type)).alias(f"c{i}") for i, f in enumerate(columns)]
        frame = reader.session.range(0).select(*nulls)
    else:
        frame = reduce(DataFrame.union, _Lowering.of(plan, reader, columns).arms())
    if condition is not None:
        frame = frame.where(condition)
    places = {f.id: i for i, f in enumerate(columns)}
    return frame.select(*[functions.col(f"c{places[f.id]}").alias(f"c{i}") for i, f in enumerate(plan.columns)])


@dataclass(frozen=True, slots=True)
class _Lowering:
    plan: ScanPlan
    reader: Reader
    columns: tuple[Field, ...]
    inspector: Inspector
    deletes: tuple[ScanFile, ...]

    @staticmethod
    def of(plan: ScanPlan, reader: Reader, columns: tuple[Field, ...]) -> _Lowering:
        def open_other(file: ScanFile) -> Opened:
            return Opened(*read_head(file.name, file.format, plan.storage, table=plan.table))

        inspector = Inspector(DuckDBFiles(cursor(), plan.storage), plan, open_other)
        return _Lowering(plan, reader, columns, inspector, delete_files(plan))

    def arms(self) -> list[DataFrame]:
        files = PlannedFiles.of(self.plan)
        loaded = self.plan.load_positions([i for i in files if files.has_positions[i]])
        deleted = {ordinal: positions for ordinal, positions in loaded.items() if len(positions)}
        equality = EqualityLowering.of(self.plan, self._keys)
        shows_ids = any(f.id == METADATA["_row_id"].id for f in self.columns)
        scan_files = [
            files.scan_file(i, (equality.split(files.delete_set[i]), i in deleted), exact=i in deleted or shows_ids)
            for i in files
        ]
        self.inspector.prefetch([*scan_files, *self.deletes])
        fields = tuple(f for f in self.columns if not is_metadata(f)) + equality.roots
        frames = []
        for group in self.inspector.groups(scan_files, fields):
            self.inspector.check_partition_values(scan_files[group.members[0]], group, fields)
            _, has_positions = group.split
            bitmaps = [deleted[i] for i in group.members] if has_positions else None
            scan = self._scan(scan_files, group, fields, bitmaps)
            frames.append(UnionArm(self.plan, self.columns, files, group.members, scan, equality).frame())
        return frames

    def _scan(
        self,
        files: Sequence[ScanFile],
        group: FileGroup,
        fields: tuple[Field, ...],
        deleted: Sequence[BitMap64] | None = None,
    ) -> GroupScan:
        return GroupScan(
            reader=self.reader,
            plan=self.plan,
            group=group,
            files=tuple(files[i] for i in group.members),
            fields=fields,
            deleted=deleted,
            positions=any(f.id in _BY_POSITION for f in self.columns),
        )

    def _keys(self, key_set: KeySet, members: Sequence[int]) -> DataFrame:
        """All keys of some delete files, as columns `k0`, `k1`, …, with `ks` (sequence number) and `kp` (partition).

        members: indexes into `plan.equality_deletes`.
        """
        deletes = [self.plan.equality_deletes[member] for member in members]
        files = [self.deletes[member] for member in members]
        frames = []
        for group in self.inspector.groups(files, key_set.keys):
            hits = [deletes[i] for i in group.members]
            check_keys(self.plan, key_set, group, hits[0])
            scan = self._scan(files, group, key_set.keys)
            keys = key_columns(key_set, scan.expressions())
            numbers = scan.constants.constant([d.sequence_number for d in hits], _LONG)
            partitions = scan.constants.constant([d.partition for d in hits], _LONG)
            columns = [key.alias(f"k{i}") for i, key in enumerate(keys)]
            frames.append(scan.frame().select(*columns, numbers.alias("ks"), partitions.alias("kp")))
        return reduce(DataFrame.union, frames)
