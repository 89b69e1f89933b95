"""File groups: the planned files sorted by how they are read, before any engine reads them.

Planning opens no data file. Engines therefore look at the footers first, many in one call, and then treat files
alike that have the same physical schema and the same kinds of constants: one group, one way to read it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeAlias

import duckdb
import pyarrow as pa

from harness.engines.data_files import FileName, damaged, load, load_parquet, with_canonical_geometries
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.footers import FOOTER, Footer, converted_files, failing_on, legacy_files, read_footers
from harness.errors import CorruptFileError, HarnessError, SchemaMismatchError, distrusted, in_format, warn
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.plan.projection import ColumnSource, Stored, is_positional, resolve, shares_columns
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass


class Pooled(enum.Enum):
    """Equality deletes that are not sorted out by data file, see `harness.engines.union_arms.scopes`."""

    ALL = "all deletes of the plan, each with its sequence number and partition"


Scope: TypeAlias = int | Pooled | None
"""The equality deletes of a file: an index into `ScanPlan.delete_sets`, or all of the plan; None: no delete hits it."""
Split: TypeAlias = tuple[Scope, bool]
"""A file's equality deletes, and whether positions are deleted: files that differ in it share no group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFile:
    """A file to read.

    constants: by source field id, the partition values (internal values) that stand in for columns that the file lacks.
    exact_rows: the row count that the file must have, because positions or row ids depend on it; None: any.
    recorded_rows: the row count that the metadata says; None: unknown. Where it is wrong, that is a warning, and an
        error for a file without columns (`data_files.columnless_rows`).
    is_data: whether it holds rows of the table, and so should have columns of the table; deletes hold their keys.
    split: files with different values never share a group.
    """

    name: FileName
    format: str
    constants: Mapping[int, Any] = field(default_factory=dict, hash=False)
    exact_rows: int | None = None
    recorded_rows: int | None = None
    is_data: bool = False
    split: Split = (None, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that are read in one way.

    members: indexes of the files in the list that was grouped. format: `parquet`, `avro` or `orc`.
    rows: per member, the physical row count; None: not known before the file is read (avro).
    schema: the physical schema of all members. sources: per wanted field, where its values come from.
    legacy: what the files hold in the old calendar, see `harness.engines.footers`.
    converted: whether DuckDB would convert binary columns on the connection, see `footers.converted_files`.
    shown: the types in which DuckDB shows the columns, where the footer tells, see `footers.Footer`.
    foreign: whether DuckDB opens none of the files, see `footers.Footer`.
    split: as in `ScanFile`.
    faults: per member, why it cannot be read; then schema and sources are empty. None: all can be, as far as is known.
    """

    members: tuple[int, ...]
    rows: tuple[int | None, ...]
    format: str
    schema: PhysicalSchema
    sources: tuple[ColumnSource, ...]
    split: Split
    legacy: frozenset[str] = frozenset()
    converted: bool = False
    shown: tuple[str, ...] | None = None
    foreign: bool = False
    faults: tuple[HarnessError, ...] | None = None


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as a look shows it, before its rows are read.

    rows: None, where only reading tells. legacy, converted, shown, foreign: as in `FileGroup`.
    fault: why it cannot be read; then nothing else is known.
    """

    schema: PhysicalSchema
    rows: int | None
    legacy: frozenset[str] = frozenset()
    converted: bool = False
    shown: tuple[str, ...] | None = None
    foreign: bool = False
    fault: HarnessError | None = None


class Looks(Protocol):
    """Learns of files what must be known before their rows are read; from where is an engine's choice."""

    def prefetch(self, files: Sequence[ScanFile]) -> None:
        """Looks at those of `files` that were not looked at, in one go where that is quicker.

        Raises HarnessError: naming a file that cannot be read.
        """

    def opened(self, file: ScanFile) -> KnownFile:
        """The file, which was prefetched. Raises as `prefetch`."""

    def check_partition_values(
        self, file: ScanFile, fields: Sequence[dt.Field], sources: Sequence[ColumnSource]
    ) -> None:
        """Refuses a Parquet file whose stored columns contradict its partition tuple (iceberg 5.3).

        Raises:
            SchemaMismatchError: they do.
            MissingFileError, CorruptFileError, StorageError: its statistics cannot be read.
        """


@dataclass(frozen=True, slots=True)
class Inspector:
    """Groups the files of a plan by what a look at them tells."""

    looks: Looks
    plan: ScanPlan
    _schemas: dict[PhysicalSchema, PhysicalSchema] = field(default_factory=dict)
    _met: dict[int, tuple[PhysicalSchema, PhysicalSchema]] = field(default_factory=dict)

    def prefetch(self, files: Sequence[ScanFile]) -> None:
        """Looks at `files` in one go, for the calls of `groups` that follow."""
        self.looks.prefetch(files)

    def groups(self, files: Sequence[ScanFile], fields: tuple[dt.Field, ...]) -> list[FileGroup]:
        """The file groups of `files`, in the order of their first files, with `fields` resolved.

        Raises HarnessError: naming the file that cannot be read, or has no column for a field.
        """
        self.prefetch(files)
        opened = [self._open(file) for file in files]
        split: dict[Hashable, list[int]] = {}
        for index, (file, found) in enumerate(zip(files, opened, strict=True)):
            expected = file.exact_rows if found.schema else file.recorded_rows
            if found.rows is not None and expected is not None and expected != found.rows:
                raise wrong_count(file, found.rows, expected, self.plan.table)
            traits = (found.legacy, found.converted, found.foreign, found.fault is None)
            alike = (file.format, id(found.schema), frozenset(file.constants), file.split, *traits)
            split.setdefault(alike, []).append(index)
        self._warn_of_counts(files, opened)
        self._warn_of_strangers(files, opened, split.values())
        return [self._group(files, members, opened, fields) for members in split.values()]

    def check_partition_values(self, file: ScanFile, group: FileGroup, fields: tuple[dt.Field, ...]) -> None:
        """Checks one file of a group as `Looks.check_partition_values` says."""
        if group.format == "parquet" and group.faults is None and not group.foreign:
            self.looks.check_partition_values(file, fields, group.sources)

    def _open(self, file: ScanFile) -> KnownFile:
        """The file with the first of the schemas that are equal. Most share an object; a hash takes 0.2 µs a column."""
        found = self.looks.opened(file)
        met = self._met.get(id(found.schema))
        if met is None:
            # It is kept too, so that no other schema gets its id.
            met = self._met[id(found.schema)] = found.schema, self._schemas.setdefault(found.schema, found.schema)
        return found if met[1] is found.schema else replace(found, schema=met[1])

    def _group(
        self,
        files: Sequence[ScanFile],
        members: Sequence[int],
        opened: Sequence[KnownFile],
        fields: tuple[dt.Field, ...],
    ) -> FileGroup:
        first, found = files[members[0]], opened[members[0]]
        schema = found.schema
        if found.fault is not None:
            return FileGroup(
                members=tuple(members),
                rows=tuple(None for _ in members),
                format=first.format,
                schema=(),
                sources=(),
                split=first.split,
                faults=tuple(fault for i in members if (fault := opened[i].fault) is not None),
            )
        sources = resolve(
            fields,
            schema,
            name_mapping=self.plan.name_mapping,
            partition_ids=frozenset(first.constants),
            file_format=first.format,
            file_path=str(first.name),
            table=self.plan.table,
            lookup=self.plan.lookup,
        )
        mapping = self.plan.name_mapping
        if not self.plan.lookup.is_delta and is_positional(schema, name_mapping=mapping, file_format=first.format):
            self._doubt(
                f"Columns of files without field ids, such as {first.name}, are taken by their positions, because "
                f"table {self.plan.table} has no name mapping [iceberg 5.6]"
            )
        return FileGroup(
            members=tuple(members),
            rows=tuple(opened[i].rows for i in members),
            format=first.format,
            schema=schema,
            sources=sources,
            split=first.split,
            legacy=found.legacy,
            converted=found.converted,
            shown=found.shown,
            foreign=found.foreign,
        )

    def _warn_of_counts(self, files: Sequence[ScanFile], opened: Sequence[KnownFile]) -> None:
        """Warns of recorded counts that are wrong. Rows do not depend on these: no plan trusts a count alone."""
        pairs = [(file, found.rows) for file, found in zip(files, opened, strict=True) if found.rows is not None]
        wrong = [(file, rows) for file, rows in pairs if file.recorded_rows not in (None, rows)]
        if wrong:
            file, rows = wrong[0]
            others = f", and those of {len(wrong) - 1} more files" if len(wrong) > 1 else ""
            self._doubt(
                f"Recorded row counts of table {self.plan.table} are wrong: {file.name} has {rows} rows, the metadata "
                f"says {file.recorded_rows}{others} [{in_format('iceberg 7.2', self.plan.format)}]"
            )

    def _warn_of_strangers(
        self, files: Sequence[ScanFile], opened: Sequence[KnownFile], groups: Iterable[Sequence[int]]
    ) -> None:
        """Tells of files that have no column of the table: mostly names or ids went astray."""
        strangers = [
            number
            for members in groups
            if not shares_columns(
                self.plan.schema.fields,
                opened[members[0]].schema,
                name_mapping=self.plan.name_mapping,
                file_format=files[members[0]].format,
                lookup=self.plan.lookup,
            )
            for number in members
            if files[number].is_data and opened[number].rows != 0
        ]
        if strangers:
            others = f", and {len(strangers) - 1} more files," if len(strangers) > 1 else ""
            rule = in_format("iceberg 5.2", self.plan.format)
            self._doubt(
                f"Data file {files[min(strangers)].name}{others} of table {self.plan.table} has no column of the "
                "table's schema, so all its values are null, a default or a partition value; unless its columns were "
                f"all dropped since, compare its names and field ids with the schema [{rule}]"
            )

    def _doubt(self, sentence: str) -> None:
        if self.plan.storage.untrusted:
            raise distrusted(sentence, self.plan.table)
        warn(sentence)


def wrong_count(file: ScanFile, rows: int, expected: int, table: str) -> CorruptFileError:
    """The error about a file that has another number of rows than the metadata says (iceberg 7.2)."""
    reason = f"Cannot read file: it has {rows} rows, the metadata says {expected}; restore the file"
    return damaged(reason, file.name, table=table, field="record_count", rule="iceberg 7.2")


# Looks from this process, for engines that run here.
#
# An imported file may have field ids that collide with the table's. So the statistics of the first row group are held
# against the partition tuple, in one file of each file group (iceberg 5.3).


# Types whose statistics DuckDB prints in a form that it also reads.
_COMPARABLE = (
    dt.BooleanType,
    dt.DateType,
    dt.DecimalType,
    dt.FloatType,
    dt.IntegerType,
    dt.StringType,
    dt.TimestampType,
)


def check_partition_values(
    access: DuckDBFiles,
    file: FileName,
    fields: Sequence[dt.Field],
    sources: Sequence[ColumnSource],
    constants: Mapping[int, Any],
    *,
    table: str,
) -> None:
    """Raises SchemaMismatchError for a Parquet file whose stored columns cannot hold its own partition values.

    access: reads the file's statistics; those that are missing or unreadable say nothing.
    fields, sources: the wanted top-level columns, and where they come from in this file.
    constants: the tuple's values by source field id, as internal values.
    """
    checked = {
        source.physical.name: f
        for f, source in zip(fields, sources, strict=True)
        if isinstance(source, Stored)
        and isinstance(f.type, _COMPARABLE)
        and not (isinstance(f.type, dt.TimestampType) and f.type.utc)  # the text depends on the session's zone
        and f.id in constants
        and constants[f.id] == constants[f.id]  # statistics leave NaN out
    }
    if not checked:
        return
    listed = ", ".join(map(sqltext.text, checked))
    connection = access.connection
    rows = connection.execute(
        "SELECT path_in_schema, stats_min_value, stats_max_value, stats_null_count, num_values "
        f"FROM parquet_metadata({access.listed((file.physical,))}) "
        f"WHERE row_group_id = 0 AND path_in_schema IN ({listed})"
    ).fetchall()
    for name, low, high, nulls, values in rows:
        wanted = checked[name]
        value = constants[wanted.id]
        if _contradicts(connection, wanted, value, low, high, nulls, values):
            raise SchemaMismatchError(
                f"Cannot read column {wanted.name!r}: the file's partition says {value!r}, its first rows hold "
                f"{low!r} to {high!r}; its field ids may be those of another table",
                cause="PartitionValueConflict",
                table=table,
                file=str(file),
                field=wanted.name,
                rule="iceberg 5.3",
            )


def _contradicts(
    connection: duckdb.DuckDBPyConnection,
    wanted: dt.Field,
    value: Any,
    low: str | None,
    high: str | None,
    nulls: int | None,
    values: int,
) -> bool:
    if nulls is not None and nulls == values:
        return value is not None and values > 0
    if value is None:
        return nulls == 0 and values > 0
    if low is None or high is None:
        return False
    kind, literal = sqltext.type_name(wanted.type), sqltext.literal(value, wanted.type)
    bounds = [f"TRY_CAST({sqltext.text(text)} AS {kind})" for text in (low, high)]
    ((outside,),) = connection.execute(f"SELECT {literal} < {bounds[0]} OR {literal} > {bounds[1]}").fetchall()
    return bool(outside)


@dataclass(frozen=True, slots=True)
class DirectLooks:
    """Opens the files of a plan, Parquet footers many in one call; other files are read as a whole, and kept.

    access: opens the files for DuckDB, which reads footers; no rows are read.
    open_other: opens a file that is not Parquet without its rows; raises HarnessError naming the file. None: `rows` are
        asked for.
    """

    access: DuckDBFiles
    plan: ScanPlan
    open_other: Callable[[ScanFile], KnownFile] | None = None
    _loaded: dict[str, pa.Table] = field(default_factory=dict)
    _footers: dict[PhysicalPath, Footer] = field(default_factory=dict)
    _legacy: dict[str, frozenset[str]] = field(default_factory=dict)
    _converted: set[str] = field(default_factory=set)

    def prefetch(self, files: Sequence[ScanFile]) -> None:
        """Reads the footers of the Parquet files that were not looked at; raises as `Looks` says."""
        names = {file.name.physical: file.name for file in files if file.format == "parquet"}
        missing = [name for path, name in names.items() if path not in self._footers]
        footers = read_footers(self.access, missing, table=self.plan.table)
        self._footers.update(footers)
        dated = {path: footer for path, footer in footers.items() if footer.schema}
        with failing_on([names[path] for path in dated], self.plan.storage, table=self.plan.table, doing=FOOTER):
            self._converted.update(converted_files(self.access, dated))
            if self.plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
                self._legacy.update(legacy_files(self.access, dated))

    def opened(self, file: ScanFile) -> KnownFile:
        """The file; a Parquet file was prefetched."""
        if file.format != "parquet":
            if self.open_other is not None:
                return self.open_other(file)
            schema, rows = load(file.name, file.format, self.plan.storage, table=self.plan.table)
            self._loaded[file.name.physical] = rows
            return KnownFile(schema, rows.num_rows)
        path = file.name.physical
        footer = self._footers[path]
        legacy = self._legacy.get(path, frozenset())
        converted = path in self._converted
        return KnownFile(
            footer.schema,
            footer.rows,
            legacy=legacy,
            converted=converted,
            shown=footer.shown,
            foreign=footer.foreign,
        )

    def rows(self, file: ScanFile, group: FileGroup, fields: Sequence[dt.Field]) -> pa.Table:
        """All rows of a file of a group in physical order, columns by place; variants are JSON text (iceberg 6.15).

        fields: what the group's sources are the sources of.

        Raises:
            CorruptFileError: the file or a value cannot be decoded.
            LimitError: it has more rows than are read at once.
        """
        name, table = file.name, self.plan.table
        if group.format == "parquet":
            rows = load_parquet(name, group.schema, fields, group.sources, self.plan.storage, table=table)
        else:
            rows = self._loaded[name.physical]
        return with_canonical_geometries(rows, fields, group.sources, file=name, table=table)

    def check_partition_values(
        self, file: ScanFile, fields: Sequence[dt.Field], sources: Sequence[ColumnSource]
    ) -> None:
        """Checks as `Looks` says."""
        table = self.plan.table
        with failing_on([file.name], self.plan.storage, table=table, doing=FOOTER):
            check_partition_values(self.access, file.name, fields, sources, file.constants, table=table)


def looks_here(plan: ScanPlan) -> DirectLooks:
    """Looks at the files of a plan from this process, for an engine that reads them here."""
    return DirectLooks(DuckDBFiles(cursor(), plan.storage), plan)
