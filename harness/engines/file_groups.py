"""File groups: the planned files sorted by how they are read, before any engine reads them.

Planning opens no data file. Engines therefore look at the footers first, many in one call, and then treat files
alike that have the same physical schema and the same kinds of constants: one group, one way to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from harness.engines.data_files import FileName, damaged, load, load_parquet, with_canonical_geometries
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.footers import FOOTER, Footer, converted_files, failing_on, legacy_kinds, read_footers
from harness.errors import (
    CorruptFileError,
    HarnessError,
    SchemaMismatchError,
    rule_in_format,
    untrusted_table_error,
    warn,
)
from harness.metadata.filters import sqltext
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Mask, Places, scalar_of, to_numpy
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.plan.projection import ColumnSource, FileColumn, is_positional, resolve, shares_columns
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass

Faults: TypeAlias = Mapping[int, HarnessError]
"""Why files cannot be read, by their numbers in a `ScanFiles`."""
UNKNOWN = -1
"""The row count of a file that only reading tells."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanFiles:
    """Files to read, as columns. A file's *number* is its index in them.

    path, physical, format: as in `harness.metadata.plan.scan_plan.FILES`.
    recorded_rows: the row counts that the metadata records, null if unknown. A wrong count is a warning, and an error
        for a file without columns.
    exact: whether the file must have the recorded row count, because positions or row ids depend on it.
    partition: an index into `constants`.
    constants: by source field id, the partition values (internal values) that replace columns that a file lacks.
    split: files with different values never share a group.
    are_data: whether the files hold rows of the table, and so should have columns of the table. Deletes hold keys.
    """

    path: Sequence[str]
    physical: Sequence[PhysicalPath]
    format: Sequence[str]
    recorded_rows: pa.Array | pa.ChunkedArray
    exact: Mask
    partition: Places
    constants: Sequence[Mapping[int, Any]]
    split: Places
    are_data: bool

    def __len__(self) -> int:
        return len(self.path)

    def name(self, number: int) -> FileName:
        """Return both paths of a file."""
        return FileName(self.path[number], self.physical[number])

    def names(self, numbers: Places) -> list[FileName]:
        """Return both paths of some of the files."""
        return list(map(self.name, numbers.tolist()))

    def physical_of(self, numbers: Places) -> list[PhysicalPath]:
        """Return the physical paths of some of the files."""
        return [self.physical[number] for number in numbers.tolist()]

    def partition_values(self, numbers: Places) -> list[Mapping[int, Any]]:
        """Return the partition values of some of the files, each by source field id."""
        return [self.constants[place] for place in self.partition[numbers].tolist()]

    def exact_rows(self, number: int) -> int | None:
        """Return the row count that a file must have. None: any."""
        rows: int | None = self.recorded_rows[number].as_py() if self.exact[number] else None
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """How files are stored, as a look at them shows before their rows are read.

    format: `parquet`, `avro` or `orc`. schema: the physical schema.
    legacy: what the files hold in the old calendar, see `harness.engines.footers`.
    converted: whether DuckDB would convert binary columns on the connection, see `footers.converted_files`.
    shown: the types in which DuckDB shows the columns, where the footer tells, see `footers.Footer`.
    foreign: whether DuckDB opens none of the files, see `footers.Footer`.
    """

    format: str
    schema: PhysicalSchema
    legacy: frozenset[str] = frozenset()
    converted: bool = False
    shown: tuple[str, ...] | None = None
    foreign: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """Files after a look at them.

    forms: each form once. form: per file, an index into `forms`. rows: per file, the physical row count or UNKNOWN.
    """

    forms: Sequence[FileForm]
    form: Places
    rows: Places

    @staticmethod
    def of(forms: Sequence[FileForm], rows: Sequence[int | None]) -> Opened:
        """Return the columns of files, given a form and a row count of each."""
        counts = np.array([UNKNOWN if count is None else count for count in rows], np.int64)
        distinct = {id(form): form for form in forms}
        if len(distinct) == 1:  # a hash takes 0.2 µs a column of the schema
            return Opened(forms[:1], np.zeros_like(counts), counts)
        numbers: dict[FileForm, int] = {}
        number_of = {key: numbers.setdefault(form, len(numbers)) for key, form in distinct.items()}
        return Opened(list(numbers), np.array([number_of[id(form)] for form in forms], np.int64), counts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileGroup:
    """Files that are read in one way.

    members: their numbers, ascending. rows: per member, the physical row count; UNKNOWN until the file is read (avro).
    form: how all members are stored. sources: per wanted field, where its values come from.
    """

    members: Places
    rows: Places
    form: FileForm
    sources: tuple[ColumnSource, ...]

    def part(self, places: Places) -> FileGroup:
        """Return the group of some of its members. places: indexes into `members`."""
        return replace(self, members=self.members[places], rows=self.rows[places])


class Looks(Protocol):
    """Learns of files what must be known before their rows are read; from where is an engine's choice."""

    def prefetch(self, *parts: ScanFiles) -> None:
        """Looks at those files that were not looked at, in one go where that is quicker.

        Raises HarnessError: naming a file that cannot be read, unless `faults` has it.
        """

    def faults(self, files: ScanFiles) -> Faults:
        """Return why files that were prefetched cannot be read, by number."""

    def opened(self, files: ScanFiles, numbers: Places) -> Opened:
        """Return some of the files, which were prefetched and have no fault. Raises as `prefetch`."""

    def check_partition_values(
        self, files: ScanFiles, number: int, fields: Sequence[dt.Field], sources: Sequence[ColumnSource]
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
    plan: PlannedScan

    def groups(self, files: ScanFiles, fields: tuple[dt.Field, ...], numbers: Places | None = None) -> list[FileGroup]:
        """Return the file groups, in the order of their first files, with `fields` resolved.

        Args:
            files: The files. The first data file of each group is held against its partition tuple.
            fields: The columns that are wanted of them.
            numbers: The files to group, ascending. None: all.

        Raises:
            HarnessError: A file cannot be read, has no column for a field, or contradicts its partition tuple.
        """
        numbers = np.arange(len(files)) if numbers is None else numbers
        self.looks.prefetch(files)
        opened = self.looks.opened(files, numbers)
        self._check_counts(files, numbers, opened)
        parts = _alike(files, numbers, opened)
        self._warn_of_other_names(files, numbers, opened)
        groups = [
            self._group(files, numbers[part], opened.forms[opened.form[part[0]]], opened.rows[part], fields)
            for part in parts
        ]
        for group in groups:
            if files.are_data and group.form.format == "parquet" and not group.form.foreign:
                self.looks.check_partition_values(files, int(group.members[0]), fields, group.sources)
        return groups

    def _group(
        self, files: ScanFiles, members: Places, form: FileForm, rows: Places, fields: tuple[dt.Field, ...]
    ) -> FileGroup:
        first, mapping = int(members[0]), self.plan.name_mapping
        sources = resolve(
            fields,
            form.schema,
            name_mapping=mapping,
            partition_ids=frozenset(*files.partition_values(members[:1])),
            file_format=form.format,
            file_path=str(files.name(first)),
            table=self.plan.table,
            lookup=self.plan.lookup,
        )
        if not self.plan.lookup.is_delta and is_positional(form.schema, name_mapping=mapping, file_format=form.format):
            self._doubt(
                f"Columns of files without field ids, such as {files.name(first)}, are taken by their positions, "
                f"because table {self.plan.table} has no name mapping [iceberg 5.6]"
            )
        return FileGroup(members=members, rows=rows, form=form, sources=sources)

    def _check_counts(self, files: ScanFiles, numbers: Places, opened: Opened) -> None:
        """Hold row counts against the recorded ones.

        Wrong ones are warned of. Rows do not depend on these: no plan trusts a count alone.
        """
        recorded = files.recorded_rows
        stated = to_numpy(recorded.is_valid())[numbers] if recorded.null_count else True
        if recorded.null_count:
            # For a Python number pyarrow would import pandas.
            recorded = recorded.fill_null(scalar_of(UNKNOWN, recorded.type))
        expected = to_numpy(recorded)[numbers]
        wrong = np.flatnonzero(stated & (opened.rows != UNKNOWN) & (opened.rows != expected)).tolist()
        if not wrong:
            return
        for place in wrong:
            number = int(numbers[place])
            if files.exact[number] or not opened.forms[opened.form[place]].schema:
                found = int(opened.rows[place])
                raise wrong_count(files.name(number), found, int(expected[place]), self.plan.table)
        others = f", and those of {len(wrong) - 1} more files" if len(wrong) > 1 else ""
        self._doubt(
            f"Recorded row counts of table {self.plan.table} are wrong: {files.name(int(numbers[wrong[0]]))} has "
            f"{opened.rows[wrong[0]]} rows, the metadata says {expected[wrong[0]]}{others} "
            f"[{rule_in_format('iceberg 7.2', self.plan.format)}]"
        )

    def _warn_of_other_names(self, files: ScanFiles, numbers: Places, opened: Opened) -> None:
        """Tells of data files that have no column of the table: mostly names or ids went astray."""
        if not files.are_data:
            return
        shares = [
            shares_columns(
                self.plan.schema.fields,
                form.schema,
                name_mapping=self.plan.name_mapping,
                file_format=form.format,
                lookup=self.plan.lookup,
            )
            for form in opened.forms
        ]
        if all(shares):
            return
        unmatched = numbers[~np.array(shares, np.bool_)[opened.form] & (opened.rows != 0)]
        if unmatched.size:
            others = f", and {unmatched.size - 1} more files," if unmatched.size > 1 else ""
            rule = rule_in_format("iceberg 5.2", self.plan.format)
            self._doubt(
                f"Data file {files.name(int(unmatched[0]))}{others} of table {self.plan.table} has no column of the "
                "table's schema, so all its values are null, a default or a partition value; unless its columns were "
                f"all dropped since, compare its names and field ids with the schema [{rule}]"
            )

    def _doubt(self, sentence: str) -> None:
        if self.plan.storage.untrusted:
            raise untrusted_table_error(sentence, self.plan.table)
        warn(sentence)


def _alike(files: ScanFiles, numbers: Places, opened: Opened) -> list[Places]:
    """Return the files that are read in one way together, as indexes into `numbers`, by their first files."""
    partition = files.partition[numbers].tolist()
    columns = {place: frozenset(files.constants[place]) for place in set(partition)}
    parts: dict[tuple[int, int, frozenset[int]], list[int]] = {}
    alike = zip(opened.form.tolist(), files.split[numbers].tolist(), map(columns.__getitem__, partition), strict=True)
    for place, key in enumerate(alike):
        parts.setdefault(key, []).append(place)
    return [np.array(places) for places in parts.values()]


def wrong_count(file: FileName, rows: int, expected: int, table: str) -> CorruptFileError:
    """The error about a file that has another number of rows than the metadata says (iceberg 7.2)."""
    reason = f"Cannot read file: it has {rows} rows, the metadata says {expected}; restore the file"
    return damaged(reason, file, table=table, field="record_count", rule="iceberg 7.2")


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
        if isinstance(source, FileColumn)
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
    if low is None or high is None or low == high == str(value):
        return False
    kind, literal = sqltext.type_name(wanted.type), sqltext.literal(value, wanted.type)
    bounds = [f"TRY_CAST({sqltext.text(text)} AS {kind})" for text in (low, high)]
    ((outside,),) = connection.execute(f"SELECT {literal} < {bounds[0]} OR {literal} > {bounds[1]}").fetchall()
    return bool(outside)


@dataclass(slots=True)
class DirectLooks:
    """Opens the files of a plan, Parquet footers many in one call; other files are read as a whole, and kept.

    access: opens the files for DuckDB, which reads footers; no rows are read.
    open_other: returns the schema and the row count of a file that is not Parquet without reading its rows; raises
        HarnessError naming the file. None: `rows` are asked for.
    """

    access: DuckDBFiles
    plan: PlannedScan
    open_other: Callable[[FileName, str], tuple[PhysicalSchema, int | None]] | None = None
    _loaded: dict[str, tuple[PhysicalSchema, pa.Table]] = field(default_factory=dict)
    _footers: dict[PhysicalPath, Footer] = field(default_factory=dict)
    _legacy: dict[str, frozenset[str]] = field(default_factory=dict)
    _converted: set[str] = field(default_factory=set)
    _forms: dict[tuple[int, frozenset[str], bool], FileForm] = field(default_factory=dict)

    def prefetch(self, *parts: ScanFiles) -> None:
        """Reads the footers of the Parquet files that were not looked at; raises as `Looks` says."""
        missing = [
            FileName(path, physical)
            for files in parts
            for path, physical, format_ in zip(files.path, files.physical, files.format, strict=True)
            if physical not in self._footers and format_ == "parquet"
        ]
        names = list({name.physical: name for name in missing}.values())
        footers = read_footers(self.access, names, table=self.plan.table)
        self._footers.update(footers)
        dated = {path: footer for path, footer in footers.items() if footer.schema}
        names = [name for name in names if name.physical in dated]
        with failing_on(names, self.plan.storage, table=self.plan.table, doing=FOOTER):
            self._converted.update(converted_files(self.access, dated))
            if self.plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
                self._legacy.update({path: legacy_kinds(f.schema, f.metadata) for path, f in dated.items()})

    def faults(self, files: ScanFiles) -> Faults:
        """Return nothing: `prefetch` raises what is wrong with a file."""
        return {}

    def opened(self, files: ScanFiles, numbers: Places) -> Opened:
        """Return some of the files; Parquet files were prefetched, others are read now."""
        forms: list[FileForm] = []
        rows: list[int | None] = []
        for number in numbers.tolist():
            if files.format[number] == "parquet":
                path = files.physical[number]
                footer = self._footers[path]
                forms.append(self._form(path, footer))
                rows.append(footer.rows)
            else:
                schema, count = self._other(files.name(number), files.format[number])
                forms.append(FileForm(format=files.format[number], schema=schema))
                rows.append(count)
        return Opened.of(forms, rows)

    def _form(self, path: str, footer: Footer) -> FileForm:
        """Return the form of a Parquet file, one object for all files whose footers share their schema."""
        legacy, converted = self._legacy.get(path, frozenset()), path in self._converted
        key = (id(footer.schema), legacy, converted)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = FileForm(
                format="parquet",
                schema=footer.schema,
                legacy=legacy,
                converted=converted,
                shown=footer.shown,
                foreign=footer.foreign,
            )
        return form

    def _other(self, name: FileName, file_format: str) -> tuple[PhysicalSchema, int | None]:
        if self.open_other is not None:
            return self.open_other(name, file_format)
        if name.physical not in self._loaded:
            self._loaded[name.physical] = load(name, file_format, self.plan.storage, table=self.plan.table)
        schema, rows = self._loaded[name.physical]
        return schema, rows.num_rows

    def is_brotli(self, name: FileName) -> bool:
        """Return whether pages of a Parquet file, which was prefetched, are in that codec."""
        return self._footers[name.physical].is_brotli

    def rows(self, name: FileName, group: FileGroup, fields: Sequence[dt.Field]) -> pa.Table:
        """All rows of a file of a group in physical order, columns by place; variants are JSON text (iceberg 6.15).

        fields: what the group's sources are the sources of.

        Raises:
            CorruptFileError: the file or a value cannot be decoded.
            LimitError: it has more rows than are read at once.
        """
        table = self.plan.table
        if group.form.format == "parquet":
            rows = load_parquet(name, group.form.schema, fields, group.sources, self.plan.storage, table=table)
        else:
            _, rows = self._loaded[name.physical]
        return with_canonical_geometries(rows, fields, group.sources, file=name, table=table)

    def check_partition_values(
        self, files: ScanFiles, number: int, fields: Sequence[dt.Field], sources: Sequence[ColumnSource]
    ) -> None:
        """Checks as `Looks` says."""
        name, table = files.name(number), self.plan.table
        (constants,) = files.partition_values(np.array([number]))
        with failing_on([name], self.plan.storage, table=table, doing=FOOTER):
            check_partition_values(self.access, name, fields, sources, constants, table=table)


def looks_here(plan: PlannedScan) -> DirectLooks:
    """Looks at the files of a plan from this process, for an engine that reads them here."""
    return DirectLooks(DuckDBFiles(cursor(), plan.storage), plan)
