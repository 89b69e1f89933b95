"""Lowers a `ScanPlan` to one Spark frame over the planned files.

The frame is a union of arms, each over files that are read in the same way, and owes what `harness.plan.scan_plan`
says: positions from the unfiltered file, positional deletes, equality deletes on table-typed values, the whole filter,
the projection. Spark's optimizer carries filters and projections through the arms down to the files. Inside, columns
have made-up names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import pyspark.errors.utils
from pyspark.sql import DataFrame, functions

from harness.engines.shared.direct_looks import DirectLooks
from harness.engines.shared.file_groups import Inspector, ScanFile
from harness.engines.shared.key_sets import KeySet, delete_files, deleted_keys, key_roots
from harness.engines.shared.names import columns_to_read
from harness.engines.shared.union_arms import DELETED, UnionArm, union_arms
from harness.engines.spark.client_looks import client_looks
from harness.engines.spark.connect import PlainPaths, Reader, reader_for
from harness.engines.spark.equality import EqualityLowering, key_columns
from harness.engines.spark.executor_looks import ExecutorLooks
from harness.engines.spark.file_bounds import FileBounds
from harness.engines.spark.filters import spark_condition
from harness.engines.spark.footer_images import FooterImages
from harness.engines.spark.gateway import Gateway
from harness.engines.spark.merged_scopes import with_merged_scopes
from harness.engines.spark.refused import refused_arm
from harness.engines.spark.scans import GroupScan
from harness.engines.spark.types import storage_type
from harness.engines.spark.user_settings import check_session
from harness.forks import Lock
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field
from harness.plan.scan_plan import ScanPlan

_DEBUGGING = "_enable_debugging_cache"
_BY_POSITION = frozenset(METADATA[name].id for name in ("_pos", "_row_id"))


def lower(plan: ScanPlan, reader: Reader) -> DataFrame:
    """The frame of a plan, in the reader's session: its columns are `c0`, `c1`, … in the order of `plan.columns`.

    Raises:
        MissingFileError, CorruptFileError, CorruptDeleteError, SchemaMismatchError, UnsupportedError: about the file
            at fault.
        RequestError: the session has a setting under which rows would come out wrong, and no gateway to read beside it.
    """
    with without_call_sites():
        return _lowered(plan, reader)


class _CallSites:
    """Keeps PySpark from noting the line of Python that makes each column: five calls of the JVM a column.

    Its own setting, spark.python.sql.dataFrameDebugging.enabled, is read once per process, and is the user's. Lines of
    harness in Spark's errors help nobody.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: bool | None = None

    @contextmanager
    def off(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._before = getattr(pyspark.errors.utils, _DEBUGGING, None)
            self._inside += 1
            setattr(pyspark.errors.utils, _DEBUGGING, False)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    setattr(pyspark.errors.utils, _DEBUGGING, self._before)


without_call_sites = _CallSites().off


def _lowered(plan: ScanPlan, reader: Reader) -> DataFrame:
    columns = columns_to_read(plan)
    labels = {f.name: f"c{i}" for i, f in enumerate(columns)}
    condition = None if plan.filter is None else spark_condition(plan.filter, labels)
    if not isinstance(reader, Gateway):
        check_session(reader.session, (*columns, *key_roots(plan)), condition)
        reader = reader_for(plan, reader)
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
    looks: ExecutorLooks | DirectLooks
    columns: tuple[Field, ...]
    inspector: Inspector
    deletes: tuple[ScanFile, ...]

    @staticmethod
    def of(plan: ScanPlan, reader: Reader, columns: tuple[Field, ...]) -> _Lowering:
        plan = with_merged_scopes(plan)
        looks = (
            client_looks(plan) if isinstance(reader, PlainPaths) else ExecutorLooks(reader, plan, FooterImages(plan))
        )
        return _Lowering(plan, reader, looks, columns, Inspector(looks, plan), delete_files(plan))

    def arms(self) -> list[DataFrame]:
        equality = EqualityLowering(self.plan, self._keys)
        by_position = any(f.id in _BY_POSITION for f in self.columns)
        bounds = FileBounds.of(self.plan, self.columns)
        frames = []
        for arm in union_arms(self.plan, self.columns, self.inspector, self.deletes):
            if arm.group.faults is not None:
                assert not isinstance(self.reader, PlainPaths)
                frames.append(refused_arm(self.reader, arm))
                continue
            scan = GroupScan(
                reader=self.reader,
                looks=self.looks,
                plan=self.plan,
                group=arm.group,
                files=arm.files,
                values=arm.values(),
                deleted=arm.deleted,
                positions=by_position,
                bounds=bounds,
            )
            frames.append(_arm(arm, scan, equality))
        return frames

    def _keys(self, key_set: KeySet, members: Sequence[int]) -> DataFrame:
        """All keys of some delete files, as columns `k0`, `k1`, …, with `ks` (sequence number) and `kp` (partition).

        members: indexes into `plan.equality_deletes`.
        """
        files = [self.deletes[member] for member in members]
        frames = []
        for group in self.inspector.groups(files, key_set.keys):
            if group.faults is not None:
                raise group.faults[0]
            found = deleted_keys(self.plan, key_set, group, members)
            roots = {f"e{i}": root for i, root in enumerate(found.roots)}
            scan = GroupScan(
                reader=self.reader,
                looks=self.looks,
                plan=self.plan,
                group=group,
                files=tuple(files[i] for i in group.members),
                values={**roots, "ks": found.sequence_number, "kp": found.partition},
            )
            read = scan.expressions()
            keys = key_columns(key_set, [read.pop(label) for label in roots])
            columns = {f"k{i}": key for i, key in enumerate(keys)} | read
            frames.append(scan.frame().select(*[column.alias(label) for label, column in columns.items()]))
        return reduce(DataFrame.union, frames)


def _arm(arm: UnionArm, scan: GroupScan, equality: EqualityLowering) -> DataFrame:
    """The rows of the arm's files less the deleted ones, or all rows where `_deleted` is asked for."""
    selected = scan.expressions()
    deleted = functions.col("deleted") if arm.deleted is not None else functions.lit(False)
    if arm.flags_deleted:
        selected["p"] = deleted
    frame = scan.frame()
    if arm.deleted is not None and not arm.flags_deleted:
        frame = frame.where(~deleted)
    frame = frame.select(*[expression.alias(label) for label, expression in selected.items()])
    dead = functions.col("p")
    if arm.scope is not None and arm.flags_deleted:
        frame, hit = equality.flagged(frame, arm.scope, arm.key_labels())
        dead = dead | hit
    elif arm.scope is not None:
        frame = equality.without_deleted(frame, arm.scope, arm.key_labels())
    outputs = [dead if f.id == DELETED else functions.col(f"c{i}") for i, f in enumerate(arm.columns)]
    return frame.select(*[output.alias(f"c{i}") for i, output in enumerate(outputs)])
