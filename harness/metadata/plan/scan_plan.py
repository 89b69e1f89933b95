"""ScanPlan: what a read of one snapshot must do, said once, for every engine.

A format makes a plan; an engine runs it and knows nothing of manifests, logs or bitmap files. The plan is columnar
(Arrow tables), because a table of a million files must fit in memory and cross into an engine in one step.

An engine owes a plan, per data file and in this order: the physical row position from the unfiltered file; drop the
rows whose position is deleted; drop the rows that an equality delete matches, on table-typed values; apply the whole
residual filter; project. Planning only ever skips whole files, and none by its recorded row count alone; no count may
be answered from metadata when a delete applies.

An engine owes refusals too, and also for a plan without any file: of a column whose type nobody knows (`OpaqueType`,
iceberg 1.22) or that the engine cannot give exactly, and of a struct whose fields differ only by case (iceberg 5.21).
`harness.engines.union_arms.columns_to_read` refuses for all engines. A partition value, a default or a null stands for
a missing column (iceberg 5.2); a file that cannot be read is an error that names the file.
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
from harness.metadata.plan.projection import ColumnLookup
from harness.storage.paths import PathMap, RecordedPath, redact
from harness.storage.records import dataclass

P = TypeVar("P", bound="ScanPlan")

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),  # as recorded: the file's identity
        pa.field("physical", pa.string(), nullable=False),  # where the bytes are
        pa.field("format", pa.string(), nullable=False),  # parquet, avro, orc
        pa.field("record_count", pa.int64()),  # physical rows, before deletes; null: unknown
        pa.field("size", pa.int64()),  # bytes, as recorded: informative only, real tables record wrong sizes
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),  # index into ScanPlan.partitions
        pa.field("sequence_number", pa.int64()),  # data sequence number; Delta: null
        pa.field("first_row_id", pa.int64()),  # null: rows have no ids
        pa.field("commit_version", pa.int64()),  # Delta: `_row_commit_version` where no column holds it; null: none
        pa.field("delete_set", pa.int32(), nullable=False),  # index into ScanPlan.delete_sets
        pa.field("positions", pa.int32()),  # source in ScanPlan.position_deletes; null: no position is deleted
    ]
)
"""Columns of `ScanPlan.files`; a row's index is the file's *ordinal*, its name in the rest of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition tuple of a spec.

    spec_id: the spec that gives the tuple its meaning.
    values: internal values (see `harness.metadata.model.schema`) by partition field id.
    constants: internal values by *source* field id, for identity fields only: what a file without that column holds
        (iceberg 5.2). A null in the tuple is a null constant.
    names, types: of the partition fields, by id, for display.
    """

    spec_id: int
    values: Mapping[int, Any] = field(hash=False)
    constants: Mapping[int, Any] = field(hash=False)
    names: Mapping[int, str] = field(default_factory=dict, hash=False)
    types: Mapping[int, Type] = field(default_factory=dict, hash=False, compare=False)

    def __str__(self) -> str:
        shown = (
            f"{self.names.get(id_, id_)}={value_text(value, self.types.get(id_))}" for id_, value in self.values.items()
        )
        return f"{{{', '.join(shown)}}}"

    def by_name(self) -> dict[str, Any]:
        """The tuple by name of partition field, in the spec's order; internal values."""
        return {self.names.get(field_id, str(field_id)): value for field_id, value in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of planning. Skipped manifests could not hold a matching file."""

    manifests: int = 0
    manifests_skipped: int = 0
    files: int = 0


# The live files that a plan skips. There may be hundreds of thousands, so their columns are made when looked at.


KEPT: Final = 0
BY_PARTITION: Final = 1
BY_STATISTICS: Final = 2
"""Verdicts on a file."""

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
    """Files left out. Their columns are made when somebody first looks at them, compares, or pickles the plan.

    decisions: on each.
    """

    decisions: Decisions
    _load: Callable[[], tuple[pa.Table, tuple[Partition, ...]]] = field(repr=False)

    @staticmethod
    def lazy(decisions: Decisions, load: Callable[[], tuple[Mapping[str, Any], tuple[Partition, ...]]]) -> SkippedFiles:
        """Return the files of some decisions.

        Args:
            decisions: Of skipped files alone.
            load: Returns the other columns of `SKIPPED`, and the partitions of the files. It is called once.
        """

        def files() -> tuple[pa.Table, tuple[Partition, ...]]:
            found, partitions = load()
            columns = {**found, "decision": from_numpy(decisions)}
            return pa.table([columns[name] for name in SKIPPED.names], schema=SKIPPED), partitions

        return SkippedFiles(decisions, cache(files))

    @staticmethod
    def from_table(files: pa.Table, partitions: tuple[Partition, ...]) -> SkippedFiles:
        """Return the files of a table of `SKIPPED`."""
        return SkippedFiles(to_numpy(files.column("decision")), lambda: (files, partitions))

    @property
    def files(self) -> pa.Table:
        """`SKIPPED` of the files."""
        return self._load()[0]

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions of the files; those of the plan come first."""
        return self._load()[1]

    def __reduce__(self) -> tuple[Callable[..., SkippedFiles], tuple[Any, ...]]:
        return SkippedFiles.from_table, self._load()

    def reasons(self) -> dict[str, int]:
        """Counts of skipped files by reason, without a look at any file."""
        counts = {reason: int((self.decisions == decision).sum()) for decision, reason in _REASONS.items()}
        return {reason: count for reason, count in counts.items() if count}

    def __len__(self) -> int:
        return len(self.decisions)

    def to_pylist(self, count: int | None = None) -> list[dict[str, Any]]:
        """Return the first `count` files, or all: `path`, `reason`, `record_count`, and `size`.

        The reason is `partition` (the tuple excludes the filter) or `statistics` (bounds or null counts of columns do).
        """
        rows = self.files.slice(0, count).select(["path", "decision", "record_count", "size"]).to_pylist()
        return [{"path": row["path"], "reason": _REASONS[row.pop("decision")], **row} for row in rows]


def no_skipped_files() -> SkippedFiles:
    """Return the skipped files of a plan that skips none."""
    return SkippedFiles(np.zeros(0, np.int8), lambda: (empty_table(SKIPPED), ()))


# The plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergRules:
    """What only plans of Iceberg tables need.

    location: the table's, as its metadata says.
    name_mapping: how columns of files without field ids are found; None: by position (iceberg 5.6).
    path_map: from recorded paths to physical ones; rows of position delete files name data files by recorded paths.
    """

    location: RecordedPath
    path_map: PathMap
    name_mapping: NameMapping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRules:
    """What only plans of Delta tables need.

    lookup: how columns are found in data files.
    materialized: by name of a metadata column, the name of the column of data files that holds it, where a file has
        one and it is not null: row tracking (delta W2, W3). Iceberg finds such columns by their ids.
    """

    lookup: ColumnLookup
    materialized: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanPlan:
    """The contract between a format and an engine: a value, which holds nothing open.

    table: the location that the user gave. snapshot: its id or version; None for a table without one.
    schema: the table's schema as of this read.
    columns: what the caller gets, in order: fields of `schema`, and metadata columns (`model.schema.METADATA`).
    filter: what rows must satisfy; engines always apply all of it. None: every row.
    rules: what only one format needs.
    files: `FILES`, one row per data file to read, in the format's order.
    delete_sets: the distinct sets of equality deletes that files have; each a tuple of indexes into
        `equality_deletes`, ascending. `files.delete_set` points here.
    position_deletes: where deleted positions are recorded; `files.positions` points here.
    skipped: live files left out, with the reason.
    warnings: what is odd about the files but harmless to the rows, one sentence each.
    trusted: what the table says of manifests and files, and was believed so that they were skipped, a phrase each.
    guarded: the known faults of writers that `filter` meets and that lose no row, a phrase each.
    enough: so many of the rows will do, whichever they are, so that an engine may leave files unread and give no more
        rows; None: all are wanted.
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
        """The name mapping of an Iceberg table, if there is one."""
        return self.rules.name_mapping if isinstance(self.rules, IcebergRules) else None

    @property
    def materialized(self) -> Mapping[str, str]:
        """The columns of data files that hold metadata columns of a Delta table."""
        return self.rules.materialized if isinstance(self.rules, DeltaRules) else {}

    def position_hits(self) -> list[tuple[PositionDelete, tuple[int, ...]]]:
        """Return every position delete file and deletion vector with the ordinals of the data files it may hit."""
        return self.position_deletes.hits(self.files.column("positions").to_pylist())

    def to_ipc(self) -> bytes:
        """Return the plan as bytes, which `from_ipc` reads in any process; see `harness.metadata.plan.encoding`."""
        from harness.metadata.plan.encoding import encode

        return encode(self)

    @staticmethod
    def from_ipc(data: bytes) -> ScanPlan:
        """Return the plan of the bytes that `to_ipc` made.

        Nothing of the plan is opened. `harness.open_plan` checks its paths before they are read.

        Raises:
            RequestError: The bytes are no plan, are damaged, or contradict themselves.
            UnsupportedError: A later version of harness wrote them.
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
        return f"ScanPlan({redact(self.table)!r}, format={self.format!r}, {name}={self.snapshot}, {counts})"

    def _repr_html_(self) -> str:
        """For notebooks: the picture of partitions or files, and what `explain` says."""
        from harness.metadata.plan import explain as plan_report

        return plan_report.as_html(self)

    def explain(self, *, width: int | None = None, in_ascii: bool = False) -> str:
        """The plan for a person: files read and skipped and by what, deletes, rows, bytes.

        A bar per partition, or per file of an unpartitioned table, shows the rows read, deleted and skipped; the
        largest of them if there are many. width: of tables and bars at most, in cells; None: tables are as wide as they
        are. in_ascii: draws bars without characters of other encodings.
        """
        from harness.metadata.model.drawing import text_section
        from harness.metadata.plan import explain as plan_report
        from harness.metadata.plan.layout import layout

        return plan_report.as_text(self, width, text_section(layout(self), width, in_ascii=in_ascii))

    def to_dict(self) -> dict[str, Any]:
        """The whole plan as plain values, for JSON; stored-form values as they are (bytes included)."""
        from harness.metadata.plan import explain as plan_report

        return plan_report.as_dict(self)


def without_deletes(plan: P) -> P:
    """The plan of a read that sees deleted rows too."""
    files = files_without_deletes(plan.files)
    return replace(plan, files=files, equality_deletes=(), delete_sets=((),), position_deletes=PositionDeletes())


def files_without_deletes(files: pa.Table) -> pa.Table:
    """Return `FILES` of the same files in delete set 0, and without deleted positions."""
    count = files.num_rows
    columns = {"delete_set": from_numpy(np.zeros(count, np.int32)), "positions": pa.nulls(count, pa.int32())}
    for name, values in columns.items():
        index = files.schema.get_field_index(name)
        files = files.set_column(index, files.schema.field(index), values)
    return files


def trusted_statistics(skipped: SkippedFiles, condition: Filter | None) -> tuple[str, ...]:
    """The claims of the table by which files were skipped: a phrase each."""
    reasons = skipped.reasons()
    found = [f"partition tuples of {reasons['partition']:,} files"] if "partition" in reasons else []
    if "statistics" in reasons and condition is not None:
        columns = ", ".join(f.name for f in condition.columns)
        found.append(f"bounds and counts of {columns} in {reasons['statistics']:,} files")
    return tuple(found)
