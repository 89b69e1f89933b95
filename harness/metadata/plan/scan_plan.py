"""ScanPlan: everything that a read of one snapshot must do, for every engine.

A format makes a plan. An engine runs it and does not know manifests, logs, or bitmap files. The plan is columnar
(Arrow tables), because the plan of a million files must fit into memory and be passed to an engine in one step.

For each data file, an engine must do the following, in this order: take the physical row positions of the unfiltered
file; drop the rows whose positions are deleted; drop the rows that match an equality delete, with values of the table's
types; apply the whole filter; and project the columns. Planning skips only whole files, and never because of a recorded
row count alone. An engine must not answer a count from metadata if a delete applies.

An engine must also refuse some columns, even if the plan has no files: a column of an unknown type (`OpaqueType`,
iceberg 1.22), a column that the engine cannot return exactly, and a struct whose fields differ only by case (iceberg
5.21). `harness.engines.union_arms.columns_to_read` does this for all engines. A missing column is replaced by a
partition value, a default, or null (iceberg 5.2). A file that cannot be read is an error that names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.metadata.filters.predicate import Filter
from harness.metadata.model.arrow_values import empty_table, from_numpy, to_numpy
from harness.metadata.model.file_schema import NameMapping
from harness.metadata.model.schema import Field, Schema, Type, value_text
from harness.metadata.plan.deletes import EqualityDelete, PositionDelete, PositionDeletes
from harness.metadata.plan.lifetimes import Lifetimes
from harness.metadata.plan.projection import ColumnLookup
from harness.storage.paths import PathMap, RecordedPath, redact
from harness.storage.records import dataclass

P = TypeVar("P", bound="ScanPlan")

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),  # as recorded; identifies the file
        pa.field("physical", pa.string(), nullable=False),  # physical path
        pa.field("format", pa.string(), nullable=False),  # parquet, avro, orc
        pa.field("record_count", pa.int64()),  # physical rows, before deletes; null: unknown
        pa.field("size", pa.int64()),  # bytes, as recorded: informative only, real tables record wrong sizes
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),  # index into ScanPlan.partitions
        pa.field("sequence_number", pa.int64()),  # data sequence number; null: Delta, or a server made the plan
        pa.field("first_row_id", pa.int64()),  # null: rows have no ids
        # Delta: `_row_commit_version` if no column of the file holds it; null: none
        pa.field("commit_version", pa.int64()),
        pa.field("delete_set", pa.int32(), nullable=False),  # index into ScanPlan.delete_sets
        pa.field("positions", pa.int32()),  # source in ScanPlan.position_deletes; null: no deleted positions
    ]
)
"""Columns of `ScanPlan.files`. The index of a row is the *ordinal* of the file, which identifies it in the rest of the
plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition tuple of a spec.

    Attributes:
        spec_id: Id of the partition spec.
        values: Internal values (see `harness.metadata.model.schema`) by partition field id.
        constants: Internal values by *source* field id, for identity fields only. A file without the column has this
            value in every row (iceberg 5.2). A null in the tuple is a null constant.
        names: Names of the partition fields by id, for display.
        types: Types of the partition fields by id, for display.
    """

    spec_id: int
    values: Mapping[int, Any] = field(hash=False)
    constants: Mapping[int, Any] = field(hash=False)
    names: Mapping[int, str] = field(default_factory=dict, hash=False)
    types: Mapping[int, Type] = field(default_factory=dict, hash=False, compare=False)

    def __str__(self) -> str:
        texts = (
            f"{self.names.get(id_, id_)}={value_text(value, self.types.get(id_))}" for id_, value in self.values.items()
        )
        return f"{{{', '.join(texts)}}}"

    def by_name(self) -> dict[str, Any]:
        """Return the internal values by name of the partition field, in the spec's order."""
        return {self.names.get(field_id, str(field_id)): value for field_id, value in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of manifests and files that planning considered.

    Attributes:
        manifests: Number of manifests of data files.
        manifests_skipped: Number of these that were not read, because they cannot list a matching file.
        files: Number of data files considered.
    """

    manifests: int = 0
    manifests_skipped: int = 0
    files: int = 0


# A plan may skip hundreds of thousands of files, so their columns are only created when they are needed.


KEPT: Final = 0
BY_PARTITION: Final = 1
BY_STATISTICS: Final = 2
"""The decisions of planning on a file."""

Decisions: TypeAlias = npt.NDArray[np.int8]

SKIPPED = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),  # as recorded
        pa.field("decision", pa.int8(), nullable=False),  # BY_PARTITION or BY_STATISTICS
        pa.field("record_count", pa.int64()),  # null: unknown
        pa.field("size", pa.int64()),
        pa.field("partition", pa.int32(), nullable=False),  # index into SkippedFiles.partitions
    ]
)
"""Columns of `SkippedFiles.files`."""

_REASONS = {BY_PARTITION: "partition", BY_STATISTICS: "statistics"}


@dataclass(frozen=True, slots=True, eq=False)
class SkippedFiles:
    """The files that a plan skips. Their columns are created when they are first accessed, compared, or pickled.

    Attributes:
        decisions: Why each file is skipped: `BY_PARTITION` or `BY_STATISTICS`.
    """

    decisions: Decisions
    _load: Callable[[], tuple[pa.Table, tuple[Partition, ...]]] = field(repr=False)

    @staticmethod
    def lazy(decisions: Decisions, load: Callable[[], tuple[Mapping[str, Any], tuple[Partition, ...]]]) -> SkippedFiles:
        """Return skipped files whose columns are loaded on first access.

        Args:
            decisions: The decision on each skipped file.
            load: Returns all columns of `SKIPPED` except the decision, and the partitions of the files. It is called at
                most once.
        """

        def files() -> tuple[pa.Table, tuple[Partition, ...]]:
            columns, partitions = load()
            arrays = {**columns, "decision": from_numpy(decisions)}
            return pa.table([arrays[name] for name in SKIPPED.names], schema=SKIPPED), partitions

        return SkippedFiles(decisions, cache(files))

    @staticmethod
    def from_table(files: pa.Table, partitions: tuple[Partition, ...]) -> SkippedFiles:
        """Return skipped files from a table of `SKIPPED` and the partitions to which it refers."""
        return SkippedFiles(to_numpy(files.column("decision")), lambda: (files, partitions))

    @property
    def files(self) -> pa.Table:
        """The files as a table of `SKIPPED`."""
        return self._load()[0]

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions of the files, after the partitions of the plan."""
        return self._load()[1]

    def __reduce__(self) -> tuple[Callable[..., SkippedFiles], tuple[Any, ...]]:
        return SkippedFiles.from_table, self._load()

    def reasons(self) -> dict[str, int]:
        """Return the number of skipped files by reason, without loading the columns."""
        counts = {reason: int((self.decisions == decision).sum()) for decision, reason in _REASONS.items()}
        return {reason: count for reason, count in counts.items() if count}

    def __len__(self) -> int:
        return len(self.decisions)

    def to_pylist(self, count: int | None = None) -> list[dict[str, Any]]:
        """Return the files as dicts with `path`, `reason`, `record_count`, and `size`.

        Args:
            count: How many files to return; None for all.

        Returns:
            The files. The reason is `partition` if the partition tuple excludes the filter, and `statistics` if bounds
                or null counts of columns do.
        """
        rows = self.files.slice(0, count).select(["path", "decision", "record_count", "size"]).to_pylist()
        return [{"path": row["path"], "reason": _REASONS[row.pop("decision")], **row} for row in rows]


def no_skipped_files() -> SkippedFiles:
    """Return an empty `SkippedFiles`, for plans that skip no file."""
    return SkippedFiles(np.zeros(0, np.int8), lambda: (empty_table(SKIPPED), ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergRules:
    """The parts of a plan that only Iceberg tables need.

    Attributes:
        location: The table's location as recorded in its metadata.
        path_map: The map from recorded to physical paths. Rows of position delete files name data files by recorded
            path.
        name_mapping: How columns are found in files without field ids; None for by position (iceberg 5.6).
    """

    location: RecordedPath
    path_map: PathMap
    name_mapping: NameMapping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRules:
    """The parts of a plan that only Delta tables need.

    Attributes:
        lookup: How columns are found in data files.
        materialized: For row tracking, the name of the data file column that holds a metadata column, by name of the
            metadata column (delta W2, W3). The column applies if the file has it and its value is not null. Iceberg
            finds these columns by id.
    """

    lookup: ColumnLookup
    materialized: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanPlan:
    """The plan of a read: a contract between a format and an engine. A plan is a value and holds no open resources.

    Attributes:
        table: The location that the user passed.
        snapshot: The snapshot id or version; None if the table has no snapshot.
        schema: The schema of the table for this read.
        columns: The columns of the result, in order: fields of `schema`, and metadata columns
            (`model.schema.METADATA`).
        filter: The condition that rows must satisfy; None for all rows. Engines always apply all of it.
        rules: The parts that only one format needs.
        files: A table of `FILES`, one row per data file to read, in the format's order.
        partitions: The partition tuples of the files.
        equality_deletes: The equality deletes that apply to at least one file.
        delete_sets: The distinct sets of equality deletes that apply to a file, each an ascending tuple of indexes into
            `equality_deletes`. `files.delete_set` refers to them.
        position_deletes: The sources of deleted positions. `files.positions` refers to them.
        skipped: Live files that are not read, with the reason.
        counts: Counts from planning.
        warnings: One sentence for each oddity of the files that does not affect rows.
        trusted: One phrase for each kind of recorded statistics that was trusted to skip manifests or files.
        guarded: One phrase for each known writer fault that could affect `filter`. harness guards against these faults,
            so no row is lost.
        enough: The number of rows that the caller needs, whichever rows they are. An engine may stop there and leave
            files unread. None if all rows are needed.
        lifetimes: When the files and deletes were live, for a read of changes in a range of commits. None for a read of
            one snapshot.
    """

    table: str
    snapshot: int | None
    schema: Schema
    columns: tuple[Field, ...]
    filter: Filter | None
    rules: IcebergRules | DeltaRules
    files: pa.Table
    partitions: tuple[Partition, ...]
    equality_deletes: tuple[EqualityDelete, ...] = ()
    delete_sets: tuple[tuple[int, ...], ...] = ((),)
    position_deletes: PositionDeletes = field(default_factory=PositionDeletes)
    skipped: SkippedFiles = field(default_factory=no_skipped_files)
    counts: Counts = field(default_factory=Counts)
    warnings: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    enough: int | None = None
    lifetimes: Lifetimes | None = None

    @property
    def format(self) -> Literal["iceberg", "delta"]:
        """The table's format."""
        return "iceberg" if isinstance(self.rules, IcebergRules) else "delta"

    @property
    def lookup(self) -> ColumnLookup:
        """How columns are found in data files, for `harness.metadata.plan.projection.resolve`."""
        return self.rules.lookup if isinstance(self.rules, DeltaRules) else ColumnLookup.ICEBERG

    @property
    def name_mapping(self) -> NameMapping | None:
        """The name mapping of an Iceberg table, or None."""
        return self.rules.name_mapping if isinstance(self.rules, IcebergRules) else None

    @property
    def materialized(self) -> Mapping[str, str]:
        """The columns of data files that hold metadata columns of a Delta table, see `DeltaRules`."""
        return self.rules.materialized if isinstance(self.rules, DeltaRules) else {}

    def position_hits(self) -> list[tuple[PositionDelete, tuple[int, ...]]]:
        """Return every position delete file and vector, with the ordinals of the files to which it may apply."""
        return self.position_deletes.hits(self.files.column("positions").to_pylist())

    def to_ipc(self) -> bytes:
        """Return the plan as bytes, which `from_ipc` reads in any process. See `harness.metadata.plan.encoding`."""
        from harness.metadata.plan.encoding import encode

        return encode(self)

    @staticmethod
    def from_ipc(data: bytes) -> ScanPlan:
        """Return the plan in bytes that `to_ipc` returned.

        No file of the plan is opened. `harness.open_plan` checks the paths before files are read.

        Args:
            data: The bytes.

        Raises:
            RequestError: The bytes are not a plan, are damaged, or contradict themselves.
            UnsupportedError: A later version of harness wrote the bytes.
        """
        from harness.metadata.plan.encoding import decode

        return decode(data)

    def __eq__(self, other: object) -> bool:
        """Return whether another plan has equal content."""
        if not isinstance(other, ScanPlan):
            return NotImplemented
        from harness.metadata.plan.encoding import document, tables

        return document(self) == document(other) and all(map(pa.Table.equals, tables(self), tables(other)))

    def __reduce__(self) -> tuple[Callable[[bytes], ScanPlan], tuple[bytes]]:
        return ScanPlan.from_ipc, (self.to_ipc(),)

    __hash__ = None  # type: ignore[assignment]  # Arrow tables have no hash

    def __repr__(self) -> str:
        name = "version" if self.format == "delta" else "snapshot"
        counts = f"files={self.files.num_rows}, skipped={len(self.skipped)}"
        counts += "" if self.lifetimes is None else f", {self.lifetimes}"
        return f"ScanPlan({redact(self.table)!r}, format={self.format!r}, {name}={self.snapshot}, {counts})"

    def _repr_html_(self) -> str:
        """Return the picture and the text of `explain` as HTML, for notebooks."""
        from harness.metadata.plan import explain as plan_report

        return plan_report.as_html(self)

    def explain(self, *, width: int | None = None, in_ascii: bool = False) -> str:
        """Return the plan as text: files read and skipped with the reasons, deletes, rows, and bytes.

        Bars show the rows read, deleted, and skipped: one bar per partition, or per file if the table is unpartitioned.
        If there are many, only the largest have bars of their own.

        Args:
            width: Maximum width of tables and bars in cells; None for no maximum.
            in_ascii: If True, draw bars in ASCII.
        """
        from harness.metadata.model.drawing import text_section
        from harness.metadata.plan import explain as plan_report
        from harness.metadata.plan.layout import layout

        return plan_report.as_text(self, width, text_section(layout(self), width, in_ascii=in_ascii))

    def to_dict(self) -> dict[str, Any]:
        """Return the whole plan as plain values, for JSON. Internal values are unchanged, including bytes."""
        from harness.metadata.plan import explain as plan_report

        return plan_report.as_dict(self)


def without_deletes(plan: P) -> P:
    """Return the plan of a read that also returns deleted rows."""
    files = files_without_deletes(plan.files)
    return replace(plan, files=files, equality_deletes=(), delete_sets=((),), position_deletes=PositionDeletes())


def files_without_deletes(files: pa.Table) -> pa.Table:
    """Return rows of `FILES` without deletes: all files in delete set 0, and without deleted positions."""
    count = files.num_rows
    columns = {"delete_set": from_numpy(np.zeros(count, np.int32)), "positions": pa.nulls(count, pa.int32())}
    for name, values in columns.items():
        index = files.schema.get_field_index(name)
        files = files.set_column(index, files.schema.field(index), values)
    return files


def trusted_statistics(skipped: SkippedFiles, condition: Filter | None) -> tuple[str, ...]:
    """Return a phrase for each kind of recorded statistics that was trusted to skip files."""
    reasons = skipped.reasons()
    phrases = [f"partition tuples of {reasons['partition']:,} files"] if "partition" in reasons else []
    if "statistics" in reasons and condition is not None:
        columns = ", ".join(f.name for f in condition.columns)
        phrases.append(f"bounds and counts of {columns} in {reasons['statistics']:,} files")
    return tuple(phrases)
