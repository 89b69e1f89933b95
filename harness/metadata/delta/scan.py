"""Planning of a read of a Delta snapshot: from the state of a version to a `ScanPlan` (delta sections 5 to 7 and 9)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError, InvalidTableError, RequestError, UnknownColumnError, warn
from harness.metadata.deletes.delta_vectors import FIRST_OFFSET, bad_vector, decode_z85
from harness.metadata.delta.actions import DeletionVectorDescriptor, State
from harness.metadata.delta.checkpoint_statistics import STATISTICS_COLUMNS, FilesStatistics
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.partition_values import PartitionTuples, partition_tuples
from harness.metadata.delta.paths import TableRoot
from harness.metadata.delta.protocol import feature_warnings, is_enabled
from harness.metadata.delta.statistics import FileStats, statistics_columns
from harness.metadata.delta.types import DeltaSchema, materialized_columns
from harness.metadata.filters.predicate import Filter, Predicate, fields_of, filter_for, opposite
from harness.metadata.filters.skipping import ColumnBounds, exact_facts, may_match
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.model.arrow_values import Indices, array_of, combine_chunks, from_numpy, scalar_of, to_numpy
from harness.metadata.model.schema import METADATA, Field, Schema, StructType, UnknownType
from harness.metadata.plan.deletes import VECTORS, InlineVector, PositionDeletes, StoredVector, Vector
from harness.metadata.plan.read_options import Prune
from harness.metadata.plan.scan_plan import (
    BY_PARTITION,
    BY_STATISTICS,
    FILES,
    KEPT,
    Counts,
    Decisions,
    DeltaRules,
    Partition,
    SkippedFiles,
    trusted_statistics,
)
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.paths import RecordedPath, join
from harness.storage.records import dataclass
from harness.storage.threads import cached_property

if TYPE_CHECKING:
    from harness.metadata.delta.table import DeltaTable


@dataclass(frozen=True, kw_only=True)
class DeltaSnapshot:
    """A version of a table.

    Attributes:
        state: The state of the version.
        columns: The schema of the version.
        timestamp_ms: The time of the commit, in milliseconds since 1970-01-01 UTC. None: the log does not contain it.
    """

    state: State = field(repr=False)
    columns: DeltaSchema = field(repr=False)
    timestamp_ms: int | None = None

    @property
    def id(self) -> int:
        """The version."""
        return self.state.version

    @cached_property
    def feature_warnings(self) -> tuple[str, ...]:
        """Return a sentence for each feature that the protocol does not list correctly (delta P1, P3)."""
        vectors = self.state.files.column("dv_storage_type")
        return feature_warnings(self.state.protocol, has_vectors=vectors.null_count < len(vectors))

    @cached_property
    def partitions(self) -> PartitionTuples:
        """Return the partition tuples of the live files.

        Raises:
            InvalidTableError: A partition value is invalid.
        """
        return partition_tuples(self.state.files, self.columns.partition_columns)


def planned_files(
    files: pa.Table, locator: Locator, counts: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32]
) -> pa.Table:
    """Return the `FILES` rows of a plan for live files.

    Args:
        files: The files, with schema `FILES_STATE`.
        locator: Maps recorded paths to files.
        counts: The physical rows of each file. -1: unknown.
        partitions: The index of each file's partition tuple.
    """
    size = files.num_rows
    zeros = from_numpy(np.zeros(size, dtype=np.int32))
    columns = {
        "path": files.column("path"),
        "physical": locator.physical(files.column("key")),
        "format": pa.repeat(scalar_of("parquet", pa.string()), size),
        "record_count": from_numpy(counts, missing=counts < 0),
        "size": files.column("size"),
        "spec_id": zeros,
        "partition": from_numpy(partitions),
        "sequence_number": pa.nulls(size, pa.int64()),
        "first_row_id": files.column("base_row_id"),
        "delete_set": zeros,
        "commit_version": files.column("default_row_commit_version"),
        # The vector is read even if its recorded cardinality is 0, because a count may be wrong (deviates from delta
        # D9).
        "positions": _vector_numbers(to_numpy(pc.is_valid(files.column("dv_storage_type")))),
    }
    return pa.table([columns[name] for name in FILES.names], schema=FILES)


def _vector_numbers(has_vector: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the number of each file's vector among all vectors, with null for files without one."""
    return from_numpy(np.cumsum(has_vector, dtype=np.int32) - np.int32(1), missing=~has_vector)


def skipped_files(
    statistics: FilesStatistics,
    decisions: Decisions,
    numbers: npt.NDArray[np.int32],
    partitions: tuple[Partition, ...],
) -> SkippedFiles:
    """Return the files that the filter skips.

    Args:
        statistics: The statistics of all files.
        decisions: For each file, whether and why it is skipped.
        numbers: For each file, the index of its partition.
        partitions: The partitions.
    """
    places = np.flatnonzero(decisions != KEPT)

    def load() -> tuple[Mapping[str, Any], tuple[Partition, ...]]:
        counts = statistics.record_counts(places)
        files = statistics.files.select(["path", "size"]).take(from_numpy(places))
        columns = {name: files.column(name) for name in files.column_names}
        columns |= {"partition": from_numpy(numbers[places]), "record_count": from_numpy(counts, missing=counts < 0)}
        return columns, partitions

    return SkippedFiles.lazy(decisions[places], load)


_ROW_ID, _ROW_COMMIT_VERSION = "_row_id", "_row_commit_version"
_ROW_TRACKING = {_ROW_ID: ("base_row_id", "baseRowId"), _ROW_COMMIT_VERSION: ("default_row_commit_version",) * 2}


def plan_scan(
    source: DeltaTable, snapshot: DeltaSnapshot, *, columns: tuple[str, ...] | None, where: str | Filter | None
) -> PlannedScan:
    """Plan a read.

    Args:
        source: The table.
        snapshot: The version to read.
        columns: The column names, in order. None: all columns of the schema.
        where: A boolean SQL expression, or a filter for the schema of the version. None: all rows.

    Raises:
        RequestError: A column is unknown or unavailable, or `where` cannot be parsed or is for another schema.
        InvalidTableError, UnsupportedError: The version cannot be read. The error names the table, the version, and the
            file.
        OutsideTableError: A file is outside the allowed roots.
    """
    source = replace(source, storage=source.storage.for_read())
    try:
        schema = snapshot.columns.schema
        selected_columns = schema.fields if columns is None else bind_columns(columns, schema)
        condition = None if where is None else filter_for(where, schema)
        return within_roots(DeltaScan(source, snapshot).plan(selected_columns, condition))
    except HarnessError as error:
        error.within(table=source.location, snapshot=snapshot.id, format="delta")
        raise


@dataclass(frozen=True, slots=True)
class DeltaScan:
    """A read of the files in the state of a snapshot.

    Attributes:
        source: The table.
        snapshot: The version to read.
        requires_row_ids: True if files without row ids and row commit versions are refused when these are read.
    """

    source: DeltaTable
    snapshot: DeltaSnapshot
    requires_row_ids: bool = True

    def statistics(self) -> FilesStatistics:
        """Return the statistics of all files."""
        state, storage = self.snapshot.state, self.source.storage
        return FilesStatistics(state.files, state.statistics, self.source.location, strict=storage.untrusted)

    def plan(self, columns: tuple[Field, ...], condition: Filter | None) -> PlannedScan:
        """Plan a read of the files that the condition keeps."""
        statistics = self.statistics()
        decisions = self.decisions(condition, statistics, self.snapshot.partitions)
        return self.plan_files(columns, condition, statistics, decisions)

    def plan_files(
        self, columns: tuple[Field, ...], condition: Filter | None, statistics: FilesStatistics, decisions: Decisions
    ) -> PlannedScan:
        """Plan a read of the files with the decision `KEPT`."""
        state = self.snapshot.state
        requested = (*columns, *(condition.columns if condition is not None else ()))
        metadata_columns = {f.name for f in requested if f.name in METADATA and METADATA[f.name].id == f.id}
        self._check_metadata_columns(metadata_columns)
        for text in self.snapshot.feature_warnings:
            warn(f"Table {self.source.location}: {text}")
        places = np.flatnonzero(decisions == KEPT)
        counts = statistics.record_counts(places)
        files = state.files.drop_columns([name for name in STATISTICS_COLUMNS if name in state.files.column_names])
        # `take` would first combine the chunks of all files; `filter` works on each chunk.
        files = files if len(places) == files.num_rows else files.filter(from_numpy(decisions == KEPT))
        if self.requires_row_ids:
            self._check_row_tracking(files, metadata_columns)
        names = {f.id: f.name for f in self.snapshot.columns.partition_columns}
        types = {f.id: f.type for f in self.snapshot.columns.partition_columns}
        numbers = self.snapshot.partitions.indexes
        partitions = tuple(
            Partition(spec_id=0, values=values, constants=values, names=names, types=types)
            for values in self.snapshot.partitions.tuples
        )
        skipped = skipped_files(statistics, decisions, numbers, partitions)
        materialized = materialized_columns(state.metadata.configuration)
        return PlannedScan(
            table=self.source.location,
            snapshot=self.snapshot.id,
            schema=self.snapshot.columns.schema,
            columns=tuple(self._with_partition_type(f) for f in columns),
            filter=condition,
            rules=DeltaRules(
                lookup=self.snapshot.columns.lookup,
                materialized={column: name for column, name in materialized.items() if column in metadata_columns},
            ),
            files=planned_files(files, self.source.locator, counts, numbers[places]),
            partitions=partitions,
            position_deletes=self._vectors(files),
            skipped=skipped,
            counts=Counts(files=state.files.num_rows),
            storage=self.source.storage,
            warnings=self.snapshot.feature_warnings,
            trusted=trusted_statistics(skipped, condition),
            guarded=self._known_faults(condition),
            statistics=_PlannedStatistics(self, statistics, places, condition),
        )

    def _known_faults(self, condition: Filter | None) -> tuple[str, ...]:
        """Return the known writer faults that concern the bounds of the filter's columns."""
        if condition is None or not self.source.options.prune.by_statistics:
            return ()
        from harness.metadata.plan.trust import Statement, guarded_faults

        return guarded_faults("delta", Statement.COLUMN_BOUNDS, condition.columns)

    def decisions(
        self, condition: Filter | None, statistics: FilesStatistics, partitions: PartitionTuples
    ) -> Decisions:
        """Return for each file whether the filter keeps it.

        Row counts alone never skip a file. A file is read even if its numRecords is 0 or equals its vector's
        cardinality, because a wrong count must not drop rows. This deviates from delta F13, which allows skipping such
        files.
        """
        if condition is None or self.source.options.prune is Prune.OFF:
            return np.zeros(statistics.files.num_rows, dtype=np.int8)
        by_statistics = self.source.options.prune.by_statistics
        schema = self.snapshot.columns.schema
        return skip_files(statistics, partitions, schema, condition.predicate, by_statistics=by_statistics)

    def _check_metadata_columns(self, names: set[str]) -> None:
        if "_last_updated_sequence_number" in names:
            raise UnknownColumnError(
                "Cannot read _last_updated_sequence_number: Delta tables have no sequence numbers; "
                "read _row_commit_version",
                field="_last_updated_sequence_number",
            )
        row_columns = sorted(names & _ROW_TRACKING.keys())
        if row_columns and not is_enabled(self.snapshot.state.metadata.configuration, "delta.enableRowTracking"):
            message = f"Cannot read {row_columns[0]}: row tracking is not enabled on this version of the table"
            raise RequestError(message, cause="RowTrackingDisabled", field=row_columns[0], rule="delta W4")

    def _check_row_tracking(self, files: pa.Table, names: set[str]) -> None:
        """Check that every planned file records the base of its row ids and row commit versions (delta W4)."""
        for name in sorted(names & _ROW_TRACKING.keys()):
            column, recorded = _ROW_TRACKING[name]
            values = files.column(column)
            if values.null_count:
                path = files.column("path").filter(pc.is_null(values))[0].as_py()
                message = (
                    f"Cannot read {name}: row tracking is enabled, but a file has no {recorded} in the log; "
                    "leave the column out"
                )
                raise InvalidTableError(message, cause="LogCorrupt", file=path, field=name, rule="delta W4")

    def _with_partition_type(self, column: Field) -> Field:
        """Return a column. If it is `_partition`, fill in its type.

        The type is a struct of the partition columns, or null if there are none.
        """
        if column.id != METADATA["_partition"].id:
            return column
        parts = tuple(replace(f, physical_name=None) for f in self.snapshot.columns.partition_columns)
        return replace(column, type=StructType(parts) if parts else UnknownType())

    def _vectors(self, files: pa.Table) -> PositionDeletes:
        """Return the deletion vectors of the files that have one, in the order of the files."""
        with_vector = files.column("dv_storage_type").is_valid()
        if not pc.any(with_vector, min_count=0).as_py():
            return PositionDeletes()
        return PositionDeletes(vectors=vectors_of(files.filter(with_vector), self.source.locator))


@dataclass(frozen=True, slots=True)
class _PlannedStatistics:
    """The statistics of the planned files.

    Attributes:
        scan: The scan.
        statistics: The statistics of all files of the snapshot.
        kept: The indices of the planned files in the snapshot.
        condition: The filter of the scan.
    """

    scan: DeltaScan
    statistics: FilesStatistics
    kept: npt.NDArray[np.int64]
    condition: Filter | None

    def matches_all_rows(self) -> npt.NDArray[np.bool_]:
        of_snapshot = self.scan.snapshot.partitions
        partitions = replace(of_snapshot, indexes=of_snapshot.indexes[self.kept])
        planned = replace(self.statistics, files=self.statistics.files.take(from_numpy(self.kept)))
        condition = None if self.condition is None else opposite(self.condition)
        return np.not_equal(self.scan.decisions(condition, planned, partitions), KEPT)

    def bounds(self, columns: Sequence[Field]) -> Mapping[int, ColumnBounds]:
        """Return the bounds of columns in the log, or an empty mapping if a part of the log cannot be read."""
        if not self.scan.source.options.prune.by_statistics:
            return {}
        leaf_columns = statistics_columns(self.scan.snapshot.columns.schema, (f.id for f in columns))
        try:
            return replace(self.statistics, strict=True).bounds(leaf_columns, self.kept)
        except HarnessError:
            return {}


def skip_files(
    files: FilesStatistics,
    partitions: PartitionTuples,
    schema: Schema,
    predicate: Predicate,
    *,
    by_statistics: bool = True,
) -> Decisions:
    """Decide for each file whether a predicate can skip it.

    Args:
        files: The statistics of the files.
        partitions: The partition tuples of the files.
        schema: The schema of the version.
        predicate: The predicate.
        by_statistics: True if column bounds may be used. Partition values are always used.

    Returns:
        KEPT, BY_PARTITION, or BY_STATISTICS for each file.

    Spec: rules delta F1 to F13, V12.
    """
    tuples, indexes = partitions.tuples, partitions.indexes
    ids = frozenset(tuples[0]) if tuples else frozenset[int]()
    facts = exact_facts(tuples)

    def of_tuples(column: Field) -> ColumnBounds | None:
        return facts(column) if column.id in ids else None

    may_hold = may_match(predicate, of_tuples, len(tuples))
    decisions: Decisions = np.where(may_hold, KEPT, BY_PARTITION).astype(np.int8)[indexes]
    must_hold = may_match(predicate, of_tuples, len(tuples), undecided=False)
    places = np.flatnonzero((may_hold & ~must_hold)[indexes])
    leaf_columns = statistics_columns(schema, fields_of(predicate) - ids)
    if not leaf_columns or not by_statistics or not len(places):
        return decisions
    for part_places, statistics in files.read(leaf_columns, places):
        of_files = _file_facts(statistics, of_tuples, indexes[part_places].astype(np.int64))
        decisions[part_places[~may_match(predicate, of_files, len(part_places))]] = BY_STATISTICS
    return decisions


def _file_facts(
    statistics: FileStats, of_tuples: Callable[[Field], ColumnBounds | None], indexes: Indices
) -> Callable[[Field], ColumnBounds | None]:
    """Return a function from a column to its facts in every file.

    The facts come from the partition values of the column, or from its statistics if it is no partition column.
    """

    @cache
    def facts(column: Field) -> ColumnBounds | None:
        exact = of_tuples(column)
        return statistics.bounds(column) if exact is None else exact.take(indexes)

    return facts


_UUID_CHARACTERS = 20


def vector_path(storage_type: str, text: str, root: TableRoot) -> RecordedPath | None:
    """Return the path of the file that holds a deletion vector, or None if the vector is inline (delta D2, D3).

    Args:
        storage_type: `u` (relative file), `p` (absolute file), or `i` (inline).
        text: The path or the inline vector, as recorded in the descriptor.
        root: The root of the table.

    Raises:
        CorruptDeleteError: The storage type is unknown, or the path cannot be decoded.
        InvalidTableError, UnsupportedError: As for `TableRoot.canonical`.
    """
    match storage_type:
        case "i":
            return None
        case "u":
            if len(text) < _UUID_CHARACTERS:
                raise bad_vector(f"its path {text!r} is shorter than {_UUID_CHARACTERS} characters", "delta D2")
            # the prefix is a folder with a random name
            prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            try:
                name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(encoded))}.bin"
            except ValueError as error:
                raise bad_vector(f"its path {text!r} has {error}", "delta D2") from None
            return RecordedPath(join(root.path, prefix, name) if prefix else join(root.path, name))
        case "p":
            if not text.startswith("/") and ":" not in text.split("/", 1)[0]:
                raise bad_vector(f"its path {text!r} is relative, expected an absolute URI", "delta D3")
            return root.canonical(text)
        case other:
            raise bad_vector(f"its storage type is {other!r}, expected u, p or i", "delta D1")


def vector_of(descriptor: DeletionVectorDescriptor, locator: Locator) -> Vector:
    """Return the vector of a descriptor.

    Raises:
        HarnessError: As for `vector_path`.
    """
    path = vector_path(descriptor.storage_type, descriptor.path_or_inline, locator.root)
    length, record_count = descriptor.size, descriptor.cardinality
    if path is None:
        return InlineVector(text=descriptor.path_or_inline, length=length, record_count=record_count)
    return StoredVector(
        path=path,
        physical=locator.path_map.physical(path),
        format="bin",
        offset=descriptor.offset or FIRST_OFFSET,
        length=length,
        record_count=record_count,
    )


def vectors_of(files: pa.Table, locator: Locator) -> pa.Table:
    """Return the deletion vectors of files with schema `VECTORS`. Each file must have a vector.

    A path is resolved once for all vectors in its file.

    Args:
        files: The files, with the columns of `DELETION_VECTOR`.
        locator: Maps recorded paths to files.

    Raises:
        HarnessError: As for `vector_path`.
    """
    types, texts = (combine_chunks(files.column(name)) for name in ("dv_storage_type", "dv_path_or_inline"))
    is_inline = pc.equal(types, scalar_of("i", pa.string()))
    pairs = pc.binary_join_element_wise(types, texts, scalar_of("\n", pa.string())).dictionary_encode()
    typed_texts = [tuple(pair.split("\n", 1)) for pair in pairs.dictionary.to_pylist()]
    paths = [vector_path(storage_type, text, locator.root) for storage_type, text in typed_texts]
    physical = [None if path is None else locator.path_map.physical(path) for path in paths]
    shown_paths = [text if path is None else path for path, (_, text) in zip(paths, typed_texts, strict=True)]
    first, none = scalar_of(FIRST_OFFSET, pa.int64()), scalar_of(None, pa.int64())
    offsets = pc.fill_null(combine_chunks(files.column("dv_offset")), first)
    offsets = pc.if_else(pc.equal(offsets, scalar_of(0, pa.int64())), first, offsets)
    columns = {
        "format": pc.if_else(is_inline, scalar_of("inline", pa.string()), scalar_of("bin", pa.string())),
        "path": array_of(shown_paths, pa.string()).take(pairs.indices),
        "physical": array_of(physical, pa.string()).take(pairs.indices),
        "offset": pc.if_else(is_inline, none, offsets),
        "length": files.column("dv_size"),
        "record_count": files.column("dv_cardinality"),
    }
    return pa.table([columns[name] for name in VECTORS.names], schema=VECTORS)
