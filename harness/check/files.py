"""Rules about the files of a snapshot, for both formats: existence, size, footer, and columns (iceberg 5, 7; delta T).

The files come from a plan without skipping, so the rules use the same code as reads.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np

from harness.check.rules import Breach, Place, Reads, Severity, decoding_breach, rule
from harness.engines.data_files import FileName, check_file, map_files
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.duckdb.relations import naming_table, relation
from harness.engines.footers import Footer, footers_and_faults
from harness.engines.row_groups import ColumnChunk, column_chunks
from harness.errors import HarnessError, UnsupportedError, counted
from harness.metadata.iceberg.manifests import DataFile
from harness.metadata.iceberg.model import PartitionSpec, SortOrder
from harness.metadata.model.arrow_values import to_numpy
from harness.metadata.plan.deletes import PositionDeleteFile
from harness.metadata.plan.projection import is_positional, resolver
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath, join
from harness.storage.records import dataclass
from harness.storage.stores import UNREADABLE, Storage
from harness.storage.threads import phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The metadata's statements about files that are not in a plan, by recorded path.

    Attributes:
        named_by: The manifest or commit that names the file.
        entries: Iceberg's entries.
        specs: Iceberg's partition specs by id.
        orders: Iceberg's sort orders by id.
        next_row_id: Iceberg's next row id, or None if not recorded.
        stats: Delta's statistics, as JSON.
        constraints: Delta's constraints, as Spark SQL by the field that contains them.
        materialized: Delta's columns of stored row ids, as in `ScanPlan`.
    """

    named_by: Mapping[str, str]
    entries: Mapping[str, DataFile] = field(default_factory=dict)
    specs: Mapping[int, PartitionSpec] = field(default_factory=dict)
    orders: Mapping[int, SortOrder] = field(default_factory=dict)
    next_row_id: int | None = None
    stats: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    materialized: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of some files of a plan, with the metadata's statements about the files.

    Attributes:
        plan: The plan.
        statements: The statements.
        paths: The recorded paths of the files.
        deletes: Position delete files that were not checked before.
    """

    plan: PlannedScan
    statements: Statements
    paths: Sequence[str] = ()
    deletes: Sequence[PositionDeleteFile] = ()

    def breach(self, path: str, field: str, recorded: str, actual: str, column: str | None = None) -> Breach:
        """Return a breach for a wrong statement about a file."""
        file = self.statements.named_by.get(path, self.plan.table)
        return Breach(Place(file=file, entry=path, field=field, column=column), recorded, actual)

    def by(self, number: Callable[[DataFile], int | None]) -> Mapping[int, list[str]]:
        """Return the paths grouped by a number in their entries, for example the spec id.

        Files whose entries lack the number are left out.
        """
        paths: dict[int, list[str]] = {}
        for path in self.paths:
            entry = self.statements.entries.get(path)
            if entry is not None and (number_ := number(entry)) is not None:
                paths.setdefault(number_, []).append(path)
        return paths


_AT_ONCE = 500  # footers read at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A data or delete file of a plan.

    Attributes:
        plan: The plan.
        name: The recorded and the physical path.
        format: The file format.
        is_data: True for a data file.
        recorded_size: Size in bytes, or None if not recorded.
        recorded_rows: The number of rows, or None if not recorded.
        partition_ids: Source ids of the identity fields of the file's partition.
        named_by: The manifest or commit that names the file.
        entry: Iceberg's entry, or None.
        size: Size in bytes, or None if the file cannot be found.
        fault: The reason why the file cannot be read, or None.
        footer: The footer of a readable Parquet file, or None.
        chunks: The column chunks of a Parquet file, if Iceberg records their offsets or sizes.
    """

    plan: PlannedScan
    name: FileName
    format: str
    is_data: bool
    recorded_size: int | None
    recorded_rows: int | None
    partition_ids: frozenset[int]
    named_by: str
    entry: DataFile | None
    size: int | None = None
    fault: HarnessError | None = None
    footer: Footer | None = None
    chunks: Sequence[ColumnChunk] = ()

    def place(self, field: str | None = None, column: str | None = None) -> Place:
        """Return the place where the metadata makes a statement about the file."""
        return Place(file=self.named_by, entry=self.name.recorded, field=field, column=column)


FileStatement: TypeAlias = tuple[str, str, int | None, int | None, str | None]
"""A snapshot's statement about a file: path, the table's columns, size, rows, and the JSON of its statistics."""


def checked_files(
    plan: PlannedScan, statements: Statements, checked_before: set[FileStatement]
) -> Iterator[CheckedFile]:
    """Yield the files of a plan whose statements were not `checked_before`. Files are examined in parallel.

    If `statements` does not contain a file, its findings name the table's location.
    """
    schema, stats = str(plan.schema), statements.stats

    def statement_of(file: CheckedFile) -> FileStatement:
        path = file.name.recorded
        if not file.is_data:  # all snapshots make the same statement about a delete file
            return path, "", None, None, None
        return path, schema, file.recorded_size, file.recorded_rows, stats.get(path)

    files_and_statements = [(file, statement_of(file)) for file in _unexamined_files(plan, statements)]
    files = [file for file, statement in files_and_statements if statement not in checked_before]
    checked_before.update(statement for _, statement in files_and_statements)
    with phase("looking at files", len(files), "files") as advance:
        for start in range(0, len(files), _AT_ONCE):
            part = files[start : start + _AT_ONCE]
            sizes = map_files(lambda file: _size(file.name, plan), part, [file.name.physical for file in part])
            sized = list(zip(part, sizes, strict=True))
            names = [file.name for file, size in sized if file.format == "parquet" and size]
            footers, faults = footers_and_faults(DuckDBFiles(cursor(), plan.storage), names, table=plan.table)
            with_chunks = [e.name.physical for e in part if e.entry and (e.entry.split_offsets or e.entry.column_sizes)]
            chunks = column_chunks(plan, [path for path in with_chunks if path in footers])
            for file, size in sized:
                at = file.name.physical
                fault = faults.get(at) or _fault(file.name, size, plan)
                yield replace(file, size=size, fault=fault, footer=footers.get(at), chunks=chunks.get(at, ()))
                advance(1)


def _unexamined_files(plan: PlannedScan, statements: Statements) -> Iterator[CheckedFile]:
    """Yield the data files of a plan in its order, then its delete files. They are not examined yet."""
    ids = [frozenset(partition.constants) for partition in plan.partitions]
    names = ("path", "physical", "format", "size", "record_count", "partition")
    rows = zip(*(plan.files.column(name).to_pylist() for name in names), strict=True)
    data = [(path, at, format_, size, count, ids[partition]) for path, at, format_, size, count, partition in rows]
    deletes = [(d.path, d.physical, d.format, None, d.record_count, frozenset[int]()) for d in plan.equality_deletes]
    deletes += [
        (d.path, d.physical, d.format, None, d.record_count, frozenset[int]()) for d in plan.position_deletes.files
    ]
    for number, (path, at, format_, size, count, partition_ids) in enumerate([*data, *dict.fromkeys(deletes)]):
        entry = statements.entries.get(path)
        yield CheckedFile(
            plan=plan,
            name=FileName(path, at),
            format=format_,
            is_data=number < len(data),
            recorded_size=size if entry is None else entry.size,
            recorded_rows=count,
            partition_ids=partition_ids,
            named_by=statements.named_by.get(path, plan.table),
            entry=entry,
        )


def _size(name: FileName, plan: PlannedScan) -> int | None:
    try:
        return plan.storage.size(name.physical)
    except HarnessError:  # `_fault` gives the reason
        return None


def _fault(name: FileName, size: int | None, plan: PlannedScan) -> HarnessError | None:
    if size:
        return None
    try:
        check_file(name, plan.storage, table=plan.table)
    except HarnessError as error:
        return error
    return None


@rule("ICE-401", Severity.ERROR, Reads.FILE, "iceberg 7.6", "iceberg 2.19")
@rule("DEL-401", Severity.ERROR, Reads.FILE, "delta E9")
def readable(file: CheckedFile) -> Iterator[Breach]:
    """A data or delete file exists, and its footer can be read.

    Hurts: All readers: they fail, or lose rows if they ignore missing files.
    Mends: the file; or remove its entry, and its rows, by a new snapshot or commit
    """
    if file.fault is not None:
        yield Breach(place=file.place("file_path"), detail=f"{file.fault.message} [{file.fault.cause}]")


@rule("ICE-402", Severity.ERROR, Reads.FILE, "iceberg 2.7")
@rule("DEL-402", Severity.ERROR, Reads.FILE, "delta R12")
def size(file: CheckedFile) -> Iterator[Breach]:
    """A file has the recorded size.

    Hurts: Readers that locate the footer by the recorded size: they fail. The file may be a different one.
    Mends: manifest: file_size_in_bytes; log: size of the add
    """
    if file.size is not None and file.recorded_size is not None and file.size != file.recorded_size:
        yield Breach(file.place("file_size_in_bytes"), f"{file.recorded_size:,} bytes", f"{file.size:,} bytes")


@rule("ICE-403", Severity.ERROR, Reads.FILE, "iceberg 2.7", "iceberg 2.11")
@rule("DEL-403", Severity.ERROR, Reads.FILE, "delta E9", "delta F15")
def rows(file: CheckedFile) -> Iterator[Breach]:
    """A file has the recorded number of rows.

    Hurts: Readers that count from metadata or use row ids: they return wrong numbers.
    Mends: manifest: record_count; log: numRecords in the statistics of the add
    """
    if file.footer is not None and file.recorded_rows is not None and file.footer.rows != file.recorded_rows:
        yield Breach(file.place("record_count"), f"{file.recorded_rows:,}", f"{file.footer.rows:,}")


@rule("ICE-404", Severity.ERROR, Reads.FILE, "iceberg 5.1", "iceberg 5.2", "iceberg 5.12")
@rule("DEL-404", Severity.ERROR, Reads.FILE, "delta T11", "delta T16", "delta T22")
def columns(file: CheckedFile) -> Iterator[Breach]:
    """The columns of a data file can be read as the table's columns.

    Hurts: All readers: they fail, or return the values of another type or column.
    Mends: the file: rewrite it with the table's columns
    """
    if file.footer is None or not file.is_data or not file.footer.schema:
        return
    plan = file.plan
    source_of = resolver(
        plan.schema.fields,
        file.footer.schema,
        name_mapping=plan.name_mapping,
        partition_ids=file.partition_ids,
        file_path=str(file.name),
        table=plan.table,
        lookup=plan.lookup,
    )
    for column in plan.schema.fields:
        try:
            source_of(column)
        except HarnessError as error:
            yield decoding_breach(file.place(column=column.name), error)


@rule("ICE-405", Severity.WARNING, Reads.FILE, "iceberg 5.6")
def field_ids(file: CheckedFile) -> Iterator[Breach]:
    """A data file has field ids, or the table has a name mapping.

    Hurts: Readers that use field ids: they fail, or return null for every column.
    Mends: table property schema.name-mapping.default; or rewrite the file
    """
    if (
        file.footer is not None
        and file.is_data
        and is_positional(file.footer.schema, name_mapping=file.plan.name_mapping)
    ):
        yield Breach(file.place(), actual="no field ids: columns are matched by position")


@rule("ICE-409", Severity.WARNING, Reads.FILE, "iceberg 3.26")
def split_offsets(file: CheckedFile) -> Iterator[Breach]:
    """Split offsets are the starts of row groups, and column sizes are the stored sizes of the columns.

    Hurts: Engines that split files at these offsets: tasks get no rows, or too many. Wrong sizes mislead optimizers.
    Mends: manifest: split_offsets, column_sizes of the entry
    """
    if not file.chunks or file.entry is None or file.footer is None:
        return
    groups: dict[int, int] = {}
    sizes: Counter[str] = Counter()
    for chunk in file.chunks:
        groups[chunk.group] = min(chunk.start, groups.get(chunk.group, chunk.start))
        sizes[chunk.column.partition(", ")[0]] += chunk.size
    offsets, starts = file.entry.split_offsets or (), set(groups.values())
    if not starts.issuperset(offsets) or list(offsets) != sorted(set(offsets)):
        yield Breach(file.place("split_offsets"), str(list(offsets)[:5]), f"row groups start at {sorted(starts)[:5]}")
    names = {stored.id: stored.name for stored in file.footer.schema if not stored.children}
    for id_, recorded in (file.entry.column_sizes or {}).items():
        actual_size = sizes.get(names.get(id_, ""))
        if actual_size is not None and recorded != actual_size:
            yield Breach(file.place("column_sizes", names[id_]), f"{recorded:,} bytes", f"{actual_size:,} bytes")


@rule("ICE-406", Severity.ERROR, Reads.DELETES, "iceberg 4.11", "iceberg 4.19")
def positions(rows: FileRows) -> Iterator[Breach]:
    """The deleted positions of a data file can be read and exist in the file.

    Hurts: All readers: they fail, or return deleted rows if they ignore the delete.
    Mends: the delete file or deletion vector: rewrite it
    """
    plan = rows.plan
    for ordinal in np.flatnonzero(to_numpy(plan.files.column("positions").is_valid())).tolist():
        path, count = (plan.files.column(name)[ordinal].as_py() for name in ("path", "record_count"))
        place = Place(file=rows.statements.named_by.get(path, plan.table), entry=path)
        try:
            deleted = plan.load_positions([ordinal]).get(ordinal)
        except HarnessError as error:
            yield decoding_breach(place, error)
            continue
        if deleted and count is not None and deleted.max() >= count:
            yield Breach(place, f"position {deleted.max()} deleted", f"the file has {count} rows")


@rule("ICE-407", Severity.ERROR, Reads.DELETES, "iceberg 4.23", "iceberg 4.25")
def equality_keys(rows: FileRows) -> Iterator[Breach]:
    """The keys of equality deletes can be read as the columns that they name.

    Hurts: All readers: they fail, or return deleted rows if they ignore the delete.
    Mends: the equality delete file: rewrite it
    """
    if rows.plan.equality_deletes:
        try:
            with naming_table(rows.plan):
                relation(rows.plan).aggregate("count(*)").fetchall()
        except HarnessError as error:
            yield decoding_breach(Place(file=error.file or rows.plan.table), error)


def row_id_ranges(ranges: Iterable[tuple[int, int, Place]], next_id: int | None, limit_text: str) -> Iterator[Breach]:
    """Yield the files whose row ids overlap those of an earlier file, or were never assigned.

    Args:
        ranges: The first id, the number of rows, and the place of each file, by ascending ids.
        next_id: The first id that is not assigned yet, or None if not recorded.
        limit_text: The recorded limit in words.
    """
    end, owner = 0, None
    for first, rows, place in ranges:
        if first < end and rows:
            yield Breach(place, str(first), f"{owner} has ids up to {end - 1}")
        if next_id is not None and first + rows > next_id:
            yield Breach(place, f"{first} and {rows} rows", limit_text)
        if first + rows > end:
            end, owner = first + rows, place.entry


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file below the table's location that nothing references.

    Attributes:
        path: Its physical path.
        size: Size in bytes.
        age_ms: Milliseconds since its last change, or None if unknown.
    """

    path: str
    size: int
    age_ms: int | None


def unreferenced_files(
    storage: Storage, root: PhysicalPath, log: PhysicalPath | None, referenced: Set[str]
) -> Iterator[Orphan]:
    """Yield the files below a directory that are not referenced.

    Hadoop's local file system writes a checksum, `.NAME.crc`, beside each file. The checksum of a referenced file is
    not yielded.

    Args:
        storage: The store of the table.
        root: The directory.
        log: A directory below it to skip, or None.
        referenced: Physical paths of referenced files.

    Raises:
        UnsupportedError: Raised after the last file if there are symbolic links. Links are not followed, because they
            may lead outside the table or back into it.
    """
    now = time.time_ns() // 1_000_000
    waiting, links = [root], list[str]()
    while waiting:
        directory = waiting.pop()
        entries = {entry.name: entry for entry in storage.entries(directory)}
        paths = (join(directory, entry.name) for entry in entries.values() if entry.is_link)
        links += [path for path in paths if path not in referenced]
        for entry in (entry for entry in entries.values() if not entry.is_link):
            path, about = join(directory, entry.name), entry.name.removeprefix(".").removesuffix(".crc")
            is_checksum = entry.name == f".{about}.crc" and join(directory, about) in referenced
            if entry.size != UNREADABLE and path not in referenced and not is_checksum:
                age = None if entry.modified_ms is None else now - entry.modified_ms
                yield Orphan(path, entry.size, age)
        inside = (name for name in storage.directories(directory) if name not in entries or not entries[name].is_link)
        waiting += [path for name in inside if (path := join(directory, name)) != log]
    if links:
        listed = ", ".join(sorted(links)[:_SHOWN_LINKS])
        rest = f" and {len(links) - _SHOWN_LINKS} more" if len(links) > _SHOWN_LINKS else ""
        raise UnsupportedError(
            f"Cannot find unreferenced files below {counted(len(links), 'link')}, because links are not followed: "
            f"{listed}{rest}. Remove the links, or check their targets separately"
        )


_SHOWN_LINKS = 5


@rule("ICE-408", Severity.NOTE, Reads.ORPHAN, "iceberg 1.1")
@rule("DEL-408", Severity.NOTE, Reads.ORPHAN, "delta U5")
def orphan(file: Orphan) -> Iterator[Breach]:
    """A file below the table's location is referenced by a snapshot, a version, or the log.

    Hurts: No reader; the files waste space. A file that is younger than a commit takes may belong to an unfinished
    commit.
    Mends: the store: delete the file, once it is too old to belong to an unfinished commit
    """
    days = "unknown" if file.age_ms is None else f"{file.age_ms / 86_400_000:.1f} days"
    yield Breach(Place(file=file.path), actual=f"{file.size:,} bytes, age {days}")
