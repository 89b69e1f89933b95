"""Translation of a `ScanPlan` to one Spark frame: a union of arms, each over files that are read in the same way.

The frame fulfills the contract in `harness.metadata.plan.scan_plan`. Spark's optimizer pushes filters and projections
through the arms to the files. Inside the frame, columns have generated names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyspark.errors.utils
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StructField, StructType

from harness.engines.change_roles import Role, file_roles
from harness.engines.changes import Steps, base_plan, commits_table, filters_files, output_columns
from harness.engines.column_values import ColumnValue, constant
from harness.engines.file_groups import Faults, Inspector, LocalFileOpener, ScanFiles
from harness.engines.spark.arrow_worker import worker_error
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.connect import PlainPaths, SparkReader, reader_for
from harness.engines.spark.deletes import DeleteJoins, key_columns
from harness.engines.spark.dialect import DIALECT, FrameRows
from harness.engines.spark.file_bounds import FileBounds
from harness.engines.spark.file_opener import ExecutorFileOpener, FooterImages, client_opener
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead, PlannedReads
from harness.engines.spark.scans import FrameScan
from harness.engines.spark.session import check_session
from harness.engines.spark.transpile.filters import condition
from harness.engines.spark.types import storage_type
from harness.engines.union_arms import (
    DELETED,
    DELETED_BY,
    DeletePool,
    KeySet,
    UnionArm,
    columns_to_read,
    dated_positions,
    delete_files,
    deleted_keys,
    key_roots,
    readable_arms,
    with_merged_scopes,
)
from harness.errors import HarnessError
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.schema import METADATA, Field
from harness.metadata.plan.lifetimes import Lifetimes
from harness.metadata.planned_scan import PlannedScan
from harness.storage.threads import Lock


def refused_arms(
    gateway: PlannedReads, plan: PlannedScan, columns: Sequence[Field], files: ScanFiles, faults: Faults
) -> Iterator[DataFrame]:
    """Yield frames for files that cannot be read, one per set of partition values. Reading one of these files fails.

    A query that does not need the files succeeds. The columns are called `c0`, `c1`, …. All except partition values
    appear to Spark as stored columns, so that Spark assumes nothing about them.
    """
    numbers_by_columns: dict[frozenset[int], list[int]] = {}
    for number in faults:
        (values,) = files.partition_values(np.array([number]))
        numbers_by_columns.setdefault(frozenset(values), []).append(number)
    for numbers in numbers_by_columns.values():
        yield _refused_arm(gateway, plan, columns, files, {number: faults[number] for number in numbers})


def _refused_arm(
    gateway: PlannedReads, plan: PlannedScan, columns: Sequence[Field], files: ScanFiles, faults: Faults
) -> DataFrame:
    numbers = np.array(list(faults))
    partitions = files.partition_values(numbers)
    constants = FileConstants(len(numbers))
    translation = ColumnTranslation(lambda place: functions.col(f"p{place}"), constants)
    expressions: list[Column] = []
    stored: list[StructField] = []
    for f in columns:
        if f.id in partitions[0]:
            value = constant([values[f.id] for values in partitions], f.type)
            expressions.append(translation.expression(value))
        else:
            expressions.append(functions.col(f"p{len(stored)}"))
            stored.append(StructField(f"refused{len(stored)}", storage_type(f.type)))
    for fault in faults.values():
        fault.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
    reasons = pa.array([str(worker_error(fault)) for fault in faults.values()], pa.string())
    read = PlannedRead(
        file_format="refused",
        read_schema=StructType(stored),
        files=[DiskFile(physical, 1) for physical in files.physical_of(numbers)],
        constants=constants.table().add_column(0, "#reason", reasons),
    )
    frame = gateway.planned_frame(read)
    return frame.select(*[expression.alias(f"c{i}") for i, expression in enumerate(expressions)])


_DEBUGGING = "_enable_debugging_cache"
_BY_POSITION = frozenset(METADATA[name].id for name in ("_pos", "_row_id"))


def lower(plan: PlannedScan, reader: SparkReader) -> DataFrame:
    """Return the frame of a plan in the reader's session.

    Its columns are `c0`, `c1`, … in the order of `plan.columns`.

    Raises:
        HarnessError: A file cannot be read. The error names the file.
        RequestError: A setting of the session would change the rows, and there is no gateway to read in a private
            session.
    """
    with without_call_sites():
        lifetimes = plan.lifetimes
        if lifetimes is not None and lifetimes.mode is not None:
            columns, frame = _lower_changes(plan, lifetimes, reader)
        else:
            columns, arms, used = _arms(plan, reader)
            frame = _union(columns, [arm for _, arm in arms], used.session)
            frame = _filtered(frame, columns, plan.filter)
        places = {f.id: i for i, f in enumerate(columns)}
        return frame.select(*[functions.col(f"c{places[f.id]}").alias(f"c{i}") for i, f in enumerate(plan.columns)])


def _filtered(frame: DataFrame, columns: Sequence[Field], filter_: Filter | None) -> DataFrame:
    if filter_ is None:
        return frame
    return frame.where(condition(filter_, {f.name: f"c{i}" for i, f in enumerate(columns)}))


def _union(columns: Sequence[Field], frames: Sequence[DataFrame], session: SparkSession) -> DataFrame:
    if frames:
        return reduce(DataFrame.union, frames)
    # createDataFrame would make the private session the active one.
    nulls = [functions.lit(None).cast(storage_type(f.type)).alias(f"c{i}") for i, f in enumerate(columns)]
    return session.range(0).select(*nulls)


def _arms(
    plan: PlannedScan, reader: SparkReader
) -> tuple[tuple[Field, ...], list[tuple[Role | None, DataFrame]], SparkReader]:
    """Return the columns of a plan, the frames of its arms, each with the role of its files, and their reader."""
    columns = columns_to_read(plan)
    if not isinstance(reader, Gateway):
        where = (
            None if plan.filter is None else condition(plan.filter, {f.name: f"c{i}" for i, f in enumerate(columns)})
        )
        check_session(reader.session, (*columns, *key_roots(plan)), where)
        reader = reader_for(plan, reader)
    if plan.files.num_rows == 0:
        return columns, [], reader
    plan = with_merged_scopes(plan)
    if isinstance(reader, PlainPaths):
        opener: ExecutorFileOpener | LocalFileOpener = client_opener(plan)
    else:
        opener = ExecutorFileOpener(reader, plan, FooterImages(plan))
    lowering = _FrameLowering(plan, reader, opener, columns, Inspector(opener, plan), delete_files(plan))
    return columns, lowering.arms(), reader


def _lower_changes(plan: PlannedScan, lifetimes: Lifetimes, reader: SparkReader) -> tuple[tuple[Field, ...], DataFrame]:
    """Return the columns of `output_columns`, and a frame with these columns as `c0`, `c1`, …."""
    base, outputs = base_plan(plan, lifetimes), output_columns(plan, lifetimes)
    columns, arms, used = _arms(base, reader)
    frame = _union(outputs, [], used.session)
    if arms:
        files = [(role, FrameRows(_filtered(arm, columns, base.filter))) for role, arm in arms if role is not None]
        commits = FrameRows(used.arrow_frame(commits_table(lifetimes)))
        frame = Steps(plan, lifetimes, columns, DIALECT).changes(files, commits).frame
    return outputs, frame if filters_files(plan, lifetimes) else _filtered(frame, outputs, plan.filter)


_call_sites = Lock()
_before: list[bool | None] = []
"""PySpark's setting before each frame that is being lowered, in any thread. The first entry is the user's value."""


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Stop PySpark from recording the Python line of each column expression, which costs 5 JVM calls per column.

    PySpark's own setting, spark.python.sql.dataFrameDebugging.enabled, belongs to the user and is read once per
    process.
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
    plan: PlannedScan
    reader: SparkReader
    opener: ExecutorFileOpener | LocalFileOpener
    columns: tuple[Field, ...]
    inspector: Inspector
    deletes: ScanFiles

    def arms(self) -> list[tuple[Role | None, DataFrame]]:
        equality = DeleteJoins(self.plan, self._keys)
        by_position = any(f.id in _BY_POSITION for f in self.columns)
        bounds = FileBounds.from_plan(self.plan, self.columns)
        frames: list[tuple[Role | None, DataFrame]] = []
        arms, files, faults = readable_arms(self.plan, self.columns, self.inspector, self.deletes)
        for arm in arms:
            scan = FrameScan(
                reader=self.reader,
                opener=self.opener,
                plan=self.plan,
                group=arm.group,
                files=arm.files,
                values=arm.values(),
                deleted=arm.deleted,
                positions=by_position or arm.dated,
                bounds=bounds,
            )
            frames.append((arm.role, self._dated(arm, scan, equality) if arm.role else _arm(arm, scan, equality)))
        if faults:
            assert not isinstance(self.reader, PlainPaths)
            for role, refused in self._faults_by_role(faults):
                frames += [(role, arm) for arm in refused_arms(self.reader, self.plan, self.columns, files, refused)]
        return frames

    def _faults_by_role(self, faults: Faults) -> list[tuple[Role | None, Faults]]:
        lifetimes = self.plan.lifetimes
        if lifetimes is None:
            return [(None, faults)]
        roles = file_roles(self.plan, lifetimes)
        groups: dict[Role, dict[int, HarnessError]] = {}
        for number, fault in faults.items():
            groups.setdefault(roles[number], {})[number] = fault
        return list(groups.items())

    def _dated(self, arm: UnionArm, scan: FrameScan, equality: DeleteJoins) -> DataFrame:
        """Return all rows of the files of a plan with lifetimes, with the first delete of each row."""
        selected = scan.expressions()
        numbers: list[Column] = []
        frame = scan.frame().select(*[expression.alias(label) for label, expression in selected.items()])
        if arm.scope is DeletePool.ALL:
            frame, numbers = equality.with_first_deletes(frame, arm.scope, arm.key_labels())
        if arm.dated:
            table = dated_positions(self.plan, arm.group.members.tolist()).rename_columns(["#f", "#p", "#n"])
            positions = self.reader.arrow_frame(table)
            on = (functions.col("fn") == functions.col("#f")) & (functions.col("ps") == functions.col("#p"))
            frame = frame.join(positions, on, "left")
            numbers.append(functions.col("#n"))
        # `least` needs two arguments
        nothing = functions.lit(None).cast("bigint")
        number = functions.least(*numbers, nothing, nothing)
        computed = {DELETED: number.isNotNull(), DELETED_BY: number}
        columns = [computed.get(f.id, functions.col(f"c{i}")) for i, f in enumerate(arm.columns)]
        return frame.select(*[column.alias(f"c{i}") for i, column in enumerate(columns)])

    def _keys(self, key_set: KeySet, members: Sequence[int]) -> DataFrame:
        """Return all keys of some delete files: `k0`, `k1`, …, and the columns of `DeletedKeys.constants`."""
        files, frames = self.deletes, []
        self.opener.prefetch(files)
        faults = self.opener.faults(files)
        for member in faults.keys() & set(members):
            raise faults[member]
        for group in self.inspector.groups(files, key_set.keys, np.array(members)):
            key_values = deleted_keys(self.plan, key_set, files, group)
            roots: dict[str, ColumnValue] = {f"e{i}": root for i, root in enumerate(key_values.roots)}
            scan = FrameScan(
                reader=self.reader,
                opener=self.opener,
                plan=self.plan,
                group=group,
                files=files,
                values={**roots, **key_values.constants()},
            )
            read = scan.expressions()
            keys = key_columns(key_set, [read.pop(label) for label in roots])
            columns = {f"k{i}": key for i, key in enumerate(keys)} | read
            frames.append(scan.frame().select(*[column.alias(label) for label, column in columns.items()]))
        return reduce(DataFrame.union, frames)


def _arm(arm: UnionArm, scan: FrameScan, equality: DeleteJoins) -> DataFrame:
    """Return the live rows of an arm's files, or all rows if the plan has the column `_deleted`."""
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
        frame, is_deleted = equality.flagged(frame, arm.scope, arm.key_labels())
        dead = dead | is_deleted
    elif arm.scope is not None:
        frame = equality.without_deleted(frame, arm.scope, arm.key_labels())
    outputs = [dead if f.id == DELETED else functions.col(f"c{i}") for i, f in enumerate(arm.columns)]
    return frame.select(*[output.alias(f"c{i}") for i, output in enumerate(outputs)])
