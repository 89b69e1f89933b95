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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from harness.errors import OutsideTableWarning, warn
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from harness.metadata.model.column_stats import ColumnBounds
from harness.metadata.model.file_schema import NameMapping
from harness.metadata.model.schema import Field, Schema, Type, value_text
from harness.metadata.plan.projection import ColumnLookup
from harness.storage.gate import Roots, Verdict
from harness.storage.paths import PhysicalPath, shown
from harness.storage.records import dataclass
from harness.storage.stores import Storage

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
        pa.field("delete_set", pa.int32(), nullable=False),  # index into ScanPlan.delete_sets
        pa.field("has_positions", pa.bool_(), nullable=False),  # whether deleted positions may exist
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

    def named(self) -> dict[str, Any]:
        """The tuple by name of partition field, in the spec's order; internal values."""
        return {self.names.get(field_id, str(field_id)): value for field_id, value in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityDelete:
    """An equality delete file: rows in its scope that equal a row of the file in all keys are deleted.

    path, physical, format: as in `FILES`.
    keys: the key columns with their newest type, in ascending order of field id; ids are what matters, names are not.
        A key inside a struct is given by the path of ids from the top-level column, see `key_paths`.
    key_paths: per key, field ids from the top-level column down to the key.
    sequence_number: hits data files with a smaller data sequence number.
    partition: index into `ScanPlan.partitions`; None: global, hits all partitions.
    record_count: rows, None if unknown.
    """

    path: str
    physical: PhysicalPath
    format: str
    keys: tuple[Field, ...]
    key_paths: tuple[tuple[int, ...], ...]
    sequence_number: int
    partition: int | None
    record_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDelete:
    """A source of deleted positions, for display; the positions come from `ScanPlan.load_positions`.

    kind: `position delete file`, or `deletion vector`. path: as recorded.
    offset, length: the blob in the file, in bytes; None for a whole file.
    record_count: deleted positions in it, None if unknown.
    files: ordinals of the data files that it may hit.
    physical: where the bytes are; None: only `load_positions` can tell (inline vectors, a change feed's differences).
    format: `parquet`, `avro` or `orc` of a position delete file.
    """

    kind: Literal["position delete file", "deletion vector"]
    path: str
    offset: int | None = None
    length: int | None = None
    record_count: int | None = None
    files: tuple[int, ...] = ()
    physical: PhysicalPath | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    """A live data file that the plan leaves out.

    reason: `partition` (the tuple excludes the filter) or `statistics` (bounds or null counts of columns do).
    physical: where the bytes are; None: the format did not say.
    """

    path: str
    reason: Literal["partition", "statistics"]
    record_count: int | None
    size: int | None
    physical: PhysicalPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of planning. Skipped manifests could not hold a matching file."""

    manifests: int = 0
    manifests_skipped: int = 0
    files: int = 0


PositionLoader = Callable[[Sequence[int]], Mapping[int, BitMap64]]


@dataclass(frozen=True, kw_only=True)
class ScanPlan:
    """The contract between a format and an engine.

    format: `iceberg` or `delta`. snapshot: its id or version; None for a table without one.
    schema: the table's schema as of this read.
    columns: what the caller gets, in order: fields of `schema`, and metadata columns (`model.schema.METADATA`).
    filter: what rows must satisfy; engines always apply all of it. None: every row.
    files: `FILES`, one row per data file to read, in the format's order.
    delete_sets: the distinct sets of equality deletes that files have; each a tuple of indexes into
        `equality_deletes`, ascending. `files.delete_set` points here.
    load_positions: ordinals to deleted row positions (from 0); files without any are absent. Reads delete files.
    name_mapping: how columns of files without field ids are found; None: by position (iceberg 5.6).
    skipped: live files left out, with the reason.
    warnings: what is odd about the files but harmless to the rows, one sentence each.
    trusted: what the table says of manifests and files, and was believed so that they were skipped, a phrase each.
    guarded: gives the known faults of writers that `filter` meets and that lose no row, a phrase each.
    lookup: how columns are found in data files, for `harness.metadata.plan.projection.resolve`.
    materialized: by name of a metadata column, the name of the column of data files that holds it, where a file has
        one and it is not null; Delta's row tracking (delta W2, W3). Iceberg finds such columns by their ids.
    row_commit_versions: int64, per file the version that `_row_commit_version` is where no column holds it; None: rows
        have none.
    enough: so many of the rows will do, whichever they are, so that an engine may leave files unread and give no more
        rows; None: all are wanted.
    kept_whole: per file, whether the metadata says that `filter` keeps all of its rows; None: nobody knows. It may be
        wrong, and leaves nulls out, so it tells an engine what is quicker and never what is right.
    bounds: of columns of `schema`, what the metadata says of each in each file, by field id, as far as it says
        anything; for an engine that skips files by filters that come after the plan. None: nothing is known.
    """

    table: str
    format: Literal["iceberg", "delta"]
    snapshot: int | None
    schema: Schema
    columns: tuple[Field, ...]
    filter: Filter | None
    files: pa.Table
    partitions: tuple[Partition, ...]
    equality_deletes: tuple[EqualityDelete, ...]
    delete_sets: tuple[tuple[int, ...], ...]
    position_deletes: tuple[PositionDelete, ...]
    load_positions: PositionLoader
    name_mapping: NameMapping | None
    skipped: Sequence[SkippedFile]
    counts: Counts
    storage: Storage
    warnings: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    guarded: Callable[[], tuple[str, ...]] = tuple
    lookup: ColumnLookup = ColumnLookup.ICEBERG
    materialized: Mapping[str, str] = field(default_factory=dict)
    row_commit_versions: pa.Array | None = None
    enough: int | None = None
    kept_whole: Callable[[], npt.NDArray[np.bool_]] | None = None
    bounds: Callable[[Sequence[Field]], Mapping[int, ColumnBounds]] | None = None

    def __repr__(self) -> str:
        name = "version" if self.format == "delta" else "snapshot"
        counts = f"files={self.files.num_rows}, skipped={len(self.skipped)}"
        return f"ScanPlan({shown(self.table)!r}, format={self.format!r}, {name}={self.snapshot}, {counts})"

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
        from harness.metadata.model.drawing import section
        from harness.metadata.plan import explain as plan_report
        from harness.metadata.plan.layout import layout

        return plan_report.as_text(self, width, section(layout(self), width, in_ascii=in_ascii))

    def to_dict(self) -> dict[str, Any]:
        """The whole plan as plain values, for JSON; stored-form values as they are (bytes included)."""
        from harness.metadata.plan import explain as plan_report

        return plan_report.as_dict(self)


def without_deletes(plan: ScanPlan) -> ScanPlan:
    """The plan of a read that sees deleted rows too."""
    files, count = plan.files, plan.files.num_rows
    for name, values in (("delete_set", np.zeros(count, np.int32)), ("has_positions", np.zeros(count, np.bool_))):
        index = files.schema.get_field_index(name)
        files = files.set_column(index, files.schema.field(index), from_numpy(values))
    return replace(
        plan, files=files, equality_deletes=(), delete_sets=((),), position_deletes=(), load_positions=lambda _: {}
    )


# The live files that a plan skips, made into objects only when looked at: there may be hundreds of thousands.


KEPT: Final = 0
BY_PARTITION: Final = 1
BY_STATISTICS: Final = 2
"""Verdicts on a file."""

Verdicts: TypeAlias = npt.NDArray[np.int8]

_SLICE_ROWS = 1 << 14
"""Files are made into objects so many at a time."""

_REASONS: dict[int, Literal["partition", "statistics"]] = {BY_PARTITION: "partition", BY_STATISTICS: "statistics"}


@dataclass(frozen=True, slots=True)
class SkippedFiles(Sequence[SkippedFile]):
    """Files left out.

    verdicts: on each. load: their path, record_count (null: unknown), size, physical path and the number of their
        partition, as columns; asked once.
    partitions: by number, those of the plan first; asked after `load`.
    """

    verdicts: Verdicts
    load: Callable[[], pa.Table]
    partitions: Callable[[], tuple[Partition, ...]]

    @staticmethod
    def of(
        verdicts: Verdicts, load: Callable[[], pa.Table], partitions: Callable[[], tuple[Partition, ...]]
    ) -> SkippedFiles:
        """The same, with what `load` gives kept once somebody has looked."""
        return SkippedFiles(verdicts, cache(load), partitions)

    def reasons(self) -> dict[str, int]:
        """Counts of skipped files by reason, without a look at any file."""
        counts = {reason: int((self.verdicts == verdict).sum()) for verdict, reason in _REASONS.items()}
        return {reason: count for reason, count in counts.items() if count}

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[SkippedFile]:
        table = self.load().select(["path", "record_count", "size", "physical"])
        for start in range(0, len(self), _SLICE_ROWS):
            columns = [column.to_pylist() for column in table.slice(start, _SLICE_ROWS).columns]
            verdicts = self.verdicts[start : start + _SLICE_ROWS].tolist()
            for verdict, path, record_count, size, physical in zip(verdicts, *columns, strict=True):
                yield SkippedFile(
                    path=path, reason=_REASONS[verdict], record_count=record_count, size=size, physical=physical
                )

    @overload
    def __getitem__(self, index: int) -> SkippedFile: ...

    @overload
    def __getitem__(self, index: slice) -> SkippedFiles: ...

    def __getitem__(self, index: int | slice) -> SkippedFile | SkippedFiles:
        places = range(len(self))[index]
        if isinstance(places, range):
            own = np.array(places, dtype=np.int64)
            return SkippedFiles.of(self.verdicts[own], lambda: self.load().take(from_numpy(own)), self.partitions)
        return next(iter(self[places : places + 1]))


def trusted_of_files(skipped: SkippedFiles, condition: Filter | None) -> tuple[str, ...]:
    """The claims of the table by which files were skipped: a phrase each."""
    reasons = skipped.reasons()
    found = [f"partition tuples of {reasons['partition']:,} files"] if "partition" in reasons else []
    if "statistics" in reasons and condition is not None:
        columns = ", ".join(f.name for f in condition.columns)
        found.append(f"bounds and counts of {columns} in {reasons['statistics']:,} files")
    return tuple(found)


# Holds a plan's files against the roots of its table (`harness.storage.gate`), by their distinct directories.


_SLICE_OF_PATHS = 1 << 16
"""Paths are taken apart so many at a time: as lists they take twice the memory of the texts."""
_MAY_CLIMB = r"(\.|%(25)*2[eE]){2}"
"""Two dots, encoded or not: what `harness.storage.paths.climbs` is then asked about."""


def within_roots(plan: ScanPlan) -> ScanPlan:
    """The plan, once every file in it may be read; files outside of the table are named in one warning.

    Links between the files themselves show when these are opened, see `harness.storage.gate`.

    Raises OutsideTableError: a data or delete file may not be read; names it.
    """
    roots = plan.storage.roots
    if roots is None:
        return plan
    deletes = [(d.path, d.physical) for d in plan.equality_deletes]
    positions = [(d.path, d.physical) for d in plan.position_deletes]
    for path, physical in (*_doubtful(plan.files, roots), *deletes, *positions):
        if physical is not None:
            roots.check(physical, path)
    sentence = roots.told()
    if sentence is None:
        return plan
    warn(f"Table {shown(plan.table)}: {sentence}", OutsideTableWarning)
    return replace(plan, warnings=(*plan.warnings, sentence))


def _doubtful(files: pa.Table, roots: Roots) -> Iterator[tuple[str, PhysicalPath]]:
    """Data files outside of the roots, recorded and physical: one of each directory, and all that may climb."""
    physical = files.column("physical")
    slices = (physical.slice(start, _SLICE_OF_PATHS) for start in range(0, len(physical), _SLICE_OF_PATHS))
    distinct = dict.fromkeys(folder for part in slices for folder in pc.unique(_folders(part)).to_pylist())
    outside = [f for f in distinct if f.endswith(":/") or roots.verdict(f) is not Verdict.INSIDE]
    if not outside:
        return
    folders = _folders(physical)
    is_outside = pc.is_in(folders, array_of(outside, pa.string()))
    found = files.select(["path", "physical"]).filter(is_outside)
    places = to_numpy(folders.filter(is_outside).combine_chunks().dictionary_encode().indices)
    _, first = np.unique(places, return_index=True)
    path = found.column("path")
    dotted = found.filter(pc.or_(pc.match_substring(path, ".."), pc.match_substring(path, "%")))
    for rows in (
        found.take(from_numpy(first)),
        dotted.filter(pc.match_substring_regex(dotted.column("path"), _MAY_CLIMB)),
    ):
        yield from zip(rows.column("path").to_pylist(), rows.column("physical").to_pylist(), strict=True)


def _folders(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.list_element(pc.split_pattern(paths, "/", max_splits=1, reverse=True), scalar_of(0, pa.int32()))
