"""Lowers a `ScanPlan` to one Spark frame over the planned files: a union of arms, each of files that are read alike.

`harness.metadata.plan.scan_plan` says what the frame owes. Spark's optimizer carries filters and projections through
the arms down to the files. Inside, columns have made-up names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark.errors.utils
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import StructField, StructType

from harness.engines.column_values import constant
from harness.engines.file_groups import DirectLooks, Inspector, ScanFile
from harness.engines.spark.arrow_worker import told
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.connect import PlainPaths, SparkReader, reader_for
from harness.engines.spark.deletes import DeleteJoins, key_columns
from harness.engines.spark.file_bounds import FileBounds
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead, PlannedReads
from harness.engines.spark.looks import ExecutorLooks, FooterImages, client_looks
from harness.engines.spark.scans import FrameScan
from harness.engines.spark.session import check_session
from harness.engines.spark.types import storage_type
from harness.engines.union_arms import (
    DELETED,
    KeySet,
    UnionArm,
    columns_to_read,
    delete_files,
    deleted_keys,
    key_roots,
    union_arms,
)
from harness.metadata.model.schema import METADATA, Field
from harness.metadata.plan.scan_plan import ScanPlan
from harness.queries.transpile.filters import condition
from harness.storage.threads import Lock

# Fewer delete sets: data files that the rules give the same equality deletes share one join.
#
# A plan leaves out deletes by bounds, so that each file may have a set of its own; on Spark each costs two broadcasts.


Numbers: TypeAlias = npt.NDArray[np.integer[Any]]

_MOST_ROWS = 1_000_000
"""Most rows of the deletes of a merged set: a hash table of more costs what its bounds spare."""
_MOST_WORK = 1_000_000
"""Deletes over all sets of a plan that is looked at."""


def with_merged_scopes(plan: ScanPlan) -> ScanPlan:
    """The plan with the delete sets of a class made one, where that has a known and moderate number of rows.

    By the rules of sequence numbers and partitions a delete hits all files of a class or none (iceberg 4.6, 4.29): they
    are older than the same deletes, and in one partition, or in partitions that no delete is for alone.
    """
    sets, place = plan.delete_sets, plan.files.schema.get_field_index("delete_set")
    own: Numbers = plan.files.column(place).to_numpy()
    if len(sets) < 2 or plan.files.column("sequence_number").null_count or sum(map(len, sets)) > _MOST_WORK:
        return plan
    merged, shared = own.copy(), list(sets)
    hit = np.flatnonzero(np.isin(own, [number for number, members in enumerate(sets) if members]))
    classes = _classes(plan)[hit]
    by_class: dict[int, list[int]] = {}
    for class_, number in np.unique(np.stack([classes, own[hit]]), axis=1).T.tolist():
        by_class.setdefault(class_, []).append(number)
    shares = np.full(len(own), -1)
    for class_, numbers in by_class.items():
        members = sorted({member for number in numbers for member in sets[number]})
        counts = [plan.equality_deletes[member].record_count for member in members]
        rows = sum(float("inf") if count is None else count for count in counts)
        if len(numbers) > 1 and rows <= _MOST_ROWS:
            shares[class_] = len(shared)
            shared.append(tuple(members))
    merged[hit] = np.where(shares[classes] < 0, own[hit], shares[classes])
    used, numbered = np.unique(merged, return_inverse=True)
    files = plan.files.set_column(place, plan.files.schema.field(place), pa.array(numbered.ravel(), pa.int32()))
    return replace(plan, files=files, delete_sets=tuple(shared[number] for number in used.tolist()))


def _classes(plan: ScanPlan) -> Numbers:
    """The class of each file, as a number below that of the files."""
    deletes = plan.equality_deletes
    numbers, partitions = (plan.files.column(name).to_numpy() for name in ("sequence_number", "partition"))
    age = np.searchsorted(np.unique([d.sequence_number for d in deletes]), numbers, side="right")
    alone = np.isin(partitions, [d.partition for d in deletes if d.partition is not None])
    return np.unique(np.stack([age, np.where(alone, partitions, -1)]), axis=1, return_inverse=True)[1].ravel()


# Files that cannot be read, as a frame: who reads one of them fails, and who leaves it out does not.
#


def refused_arm(gateway: PlannedReads, arm: UnionArm) -> DataFrame:
    """The columns of an arm whose files cannot be read, as `c0`, `c1`, ….

    All but those of the partition tuple are stored ones to Spark, so that it takes nothing about them for known.
    """
    assert arm.group.faults is not None
    constants = FileConstants(len(arm.files))
    translation = ColumnTranslation(lambda place: functions.col(f"p{place}"), constants)
    expressions: list[Column] = []
    stored: list[StructField] = []
    for f in arm.columns:
        if all(f.id in file.constants for file in arm.files):
            value = constant([file.constants[f.id] for file in arm.files], f.type)
            expressions.append(translation.expression(value))
        else:
            expressions.append(functions.col(f"p{len(stored)}"))
            stored.append(StructField(f"refused{len(stored)}", storage_type(f.type)))
    plan = arm.plan
    faults = [f.within(table=plan.table, snapshot=plan.snapshot, format=plan.format) for f in arm.group.faults]
    reasons = pa.array([str(told(fault)) for fault in faults], pa.string())
    read = PlannedRead(
        file_format="refused",
        read_schema=StructType(stored),
        files=[DiskFile(file.name.physical, 1) for file in arm.files],
        constants=constants.table().add_column(0, "#reason", reasons),
    )
    frame = gateway.planned_frame(read)
    return frame.select(*[expression.alias(f"c{i}") for i, expression in enumerate(expressions)])


_DEBUGGING = "_enable_debugging_cache"
_BY_POSITION = frozenset(METADATA[name].id for name in ("_pos", "_row_id"))


def lower(plan: ScanPlan, reader: SparkReader) -> DataFrame:
    """The frame of a plan, in the reader's session: its columns are `c0`, `c1`, … in the order of `plan.columns`.

    Raises:
        HarnessError: about the file at fault.
        RequestError: the session has a setting under which rows would come out wrong, and no gateway to read beside it.
    """
    with without_call_sites():
        columns = columns_to_read(plan)
        labels = {f.name: f"c{i}" for i, f in enumerate(columns)}
        where = None if plan.filter is None else condition(plan.filter, labels)
        if not isinstance(reader, Gateway):
            check_session(reader.session, (*columns, *key_roots(plan)), where)
            reader = reader_for(plan, reader)
        if plan.files.num_rows == 0:
            # Not by createDataFrame, which would make harness's own session the active one.
            nulls = [functions.lit(None).cast(storage_type(f.type)).alias(f"c{i}") for i, f in enumerate(columns)]
            frame = reader.session.range(0).select(*nulls)
        else:
            plan = with_merged_scopes(plan)
            if isinstance(reader, PlainPaths):
                looks: ExecutorLooks | DirectLooks = client_looks(plan)
            else:
                looks = ExecutorLooks(reader, plan, FooterImages(plan))
            lowering = _FrameLowering(plan, reader, looks, columns, Inspector(looks, plan), delete_files(plan))
            frame = reduce(DataFrame.union, lowering.arms())
        if where is not None:
            frame = frame.where(where)
        places = {f.id: i for i, f in enumerate(columns)}
        return frame.select(*[functions.col(f"c{places[f.id]}").alias(f"c{i}") for i, f in enumerate(plan.columns)])


_call_sites = Lock()
_before: list[bool | None] = []
"""PySpark's setting before each frame that is being lowered, in any thread; the first is the user's."""


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Keeps PySpark from noting the line of Python that makes each column: five calls of the JVM a column.

    Its own setting, spark.python.sql.dataFrameDebugging.enabled, is read once per process, and is the user's.
    """
    with _call_sites:
        _before.append(getattr(pyspark.errors.utils, _DEBUGGING, None))
        setattr(pyspark.errors.utils, _DEBUGGING, False)
    try:
        yield
    finally:
        with _call_sites:
            before = _before.pop()
            if not _before:
                setattr(pyspark.errors.utils, _DEBUGGING, before)


@dataclass(frozen=True, slots=True)
class _FrameLowering:
    plan: ScanPlan
    reader: SparkReader
    looks: ExecutorLooks | DirectLooks
    columns: tuple[Field, ...]
    inspector: Inspector
    deletes: tuple[ScanFile, ...]

    def arms(self) -> list[DataFrame]:
        equality = DeleteJoins(self.plan, self._keys)
        by_position = any(f.id in _BY_POSITION for f in self.columns)
        bounds = FileBounds.of(self.plan, self.columns)
        frames = []
        for arm in union_arms(self.plan, self.columns, self.inspector, self.deletes):
            if arm.group.faults is not None:
                assert not isinstance(self.reader, PlainPaths)
                frames.append(refused_arm(self.reader, arm))
                continue
            scan = FrameScan(
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
        """All keys of some delete files, as columns `k0`, `k1`, …, with `ks` (sequence number) and `kp` (partition)."""
        files = [self.deletes[member] for member in members]
        frames = []
        for group in self.inspector.groups(files, key_set.keys):
            if group.faults is not None:
                raise group.faults[0]
            found = deleted_keys(self.plan, key_set, group, members)
            roots = {f"e{i}": root for i, root in enumerate(found.roots)}
            scan = FrameScan(
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


def _arm(arm: UnionArm, scan: FrameScan, equality: DeleteJoins) -> DataFrame:
    """The rows of the arm's files less the deleted ones, or all rows where `_deleted` is asked for."""
    selected = scan.expressions()
    deleted = functions.col("deleted") if arm.deleted is not None else functions.lit(False)
    if arm.shows_deleted:
        selected["p"] = deleted
    frame = scan.frame()
    if arm.deleted is not None and not arm.shows_deleted:
        frame = frame.where(~deleted)
    frame = frame.select(*[expression.alias(label) for label, expression in selected.items()])
    dead = functions.col("p")
    if arm.scope is not None and arm.shows_deleted:
        frame, hit = equality.flagged(frame, arm.scope, arm.key_labels())
        dead = dead | hit
    elif arm.scope is not None:
        frame = equality.without_deleted(frame, arm.scope, arm.key_labels())
    outputs = [dead if f.id == DELETED else functions.col(f"c{i}") for i, f in enumerate(arm.columns)]
    return frame.select(*[output.alias(f"c{i}") for i, output in enumerate(outputs)])
