"""File groups: the planned files, grouped by how an engine has to read them.

Planning opens no data file. Before a read, engines therefore read the footers, many in one call. Files with the same
physical schema and the same kinds of constants form a group, and all files of a group are read in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from harness.engines.data_files import FileName, corrupt_file, load, load_parquet, with_canonical_geometries
from harness.engines.duckdb.instance import IS_DUCKDB_1, DuckDBFiles, cursor
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
from harness.metadata.model.arrow_values import Indices, Mask, scalar_of, to_numpy
from harness.metadata.model.file_schema import PhysicalSchema
from harness.metadata.plan.projection import ColumnSource, FileColumn, is_positional, resolve, shares_columns
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass

Faults: TypeAlias = Mapping[int, HarnessError]
"""The errors of files that cannot be read, by the files' numbers in a `ScanFiles`."""
UNKNOWN = -1
"""The row count of a file that has to be read completely to count its rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScanFiles:
    """Files to read, stored as columns. A file's *number* is its index in these columns.

    Attributes:
        path: The recorded paths, as in `harness.metadata.plan.scan_plan.FILES`.
        physical: The physical paths.
        format: The file formats.
        recorded_rows: The row counts that the metadata records, null if unknown. A wrong count causes a warning, or an
            error if the file has no columns.
        exact: True for a file that must have the recorded row count, because positions or row ids depend on the count.
        partition: For each file, an index into `constants`.
        constants: Partition values in internal form by source field id. They replace columns that a file lacks.
        split: Files with different values never share a group.
        are_data: True for data files, which should have columns of the table. Delete files hold keys instead.
    """

    path: Sequence[str]
    physical: Sequence[PhysicalPath]
    format: Sequence[str]
    recorded_rows: pa.Array | pa.ChunkedArray
    exact: Mask
    partition: Indices
    constants: Sequence[Mapping[int, Any]]
    split: Indices
    are_data: bool

    def __len__(self) -> int:
        return len(self.path)

    def name(self, number: int) -> FileName:
        """Return both paths of a file."""
        return FileName(self.path[number], self.physical[number])

    def names(self, numbers: Indices) -> list[FileName]:
        """Return both paths of some of the files."""
        return list(map(self.name, numbers.tolist()))

    def physical_of(self, numbers: Indices) -> list[PhysicalPath]:
        """Return the physical paths of some of the files."""
        return [self.physical[number] for number in numbers.tolist()]

    def partition_values(self, numbers: Indices) -> list[Mapping[int, Any]]:
        """Return the partition values of some of the files, each by source field id."""
        return [self.constants[place] for place in self.partition[numbers].tolist()]

    def exact_rows(self, number: int) -> int | None:
        """Return the row count that a file must have. None if any row count is accepted."""
        rows: int | None = self.recorded_rows[number].as_py() if self.exact[number] else None
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """The storage form of files, known before their rows are read.

    Attributes:
        format: `parquet`, `avro` or `orc`.
        schema: The physical schema.
        legacy: The kinds of values that the files may hold in the Julian calendar, see `harness.engines.footers`.
        converted: True if DuckDB would convert binary columns on this connection, see `footers.converted_files`.
        duckdb_types: The columns' types in DuckDB if the footer determines them, see `footers.Footer`.
        foreign: True if DuckDB cannot open the files, see `footers.Footer`.
    """

    format: str
    schema: PhysicalSchema
    legacy: frozenset[str] = frozenset()
    converted: bool = False
    duckdb_types: tuple[str, ...] | None = None
    foreign: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OpenedFiles:
    """The forms and row counts of opened files.

    Attributes:
        forms: Each distinct form once.
        form: For each file, an index into `forms`.
        rows: For each file, the physical row count, or UNKNOWN.
    """

    forms: Sequence[FileForm]
    form: Indices
    rows: Indices

    @staticmethod
    def from_forms(forms: Sequence[FileForm], rows: Sequence[int | None]) -> OpenedFiles:
        """Collect the forms and row counts of files. Both arguments have one entry per file."""
        counts = np.array([UNKNOWN if count is None else count for count in rows], np.int64)
        distinct = {id(form): form for form in forms}
        if len(distinct) == 1:  # hashing a form takes 0.2 µs per column of its schema
            return OpenedFiles(forms[:1], np.zeros_like(counts), counts)
        numbers: dict[FileForm, int] = {}
        number_of = {key: numbers.setdefault(form, len(numbers)) for key, form in distinct.items()}
        return OpenedFiles(list(numbers), np.array([number_of[id(form)] for form in forms], np.int64), counts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileGroup:
    """Files that are read in the same way.

    Attributes:
        members: The numbers of the files, ascending.
        rows: For each member, its physical row count; UNKNOWN for Avro until the file is read.
        form: The storage form that all members share.
        sources: For each requested field, the source of its values.
    """

    members: Indices
    rows: Indices
    form: FileForm
    sources: tuple[ColumnSource, ...]

    def part(self, places: Indices) -> FileGroup:
        """Return a group of some of the members. `places` are indexes into `members`."""
        return replace(self, members=self.members[places], rows=self.rows[places])


class FileOpener(Protocol):
    """Reads the schemas and row counts of files before their rows.

    Each engine chooses the process that opens the files.
    """

    def prefetch(self, *parts: ScanFiles) -> None:
        """Open those files that have not been opened yet, together if that is faster.

        Raises:
            HarnessError: A file cannot be read, and `faults` does not report this file.
        """

    def faults(self, files: ScanFiles) -> Faults:
        """Return the errors of prefetched files that cannot be read, by file number."""

    def opened(self, files: ScanFiles, numbers: Indices) -> OpenedFiles:
        """Return the forms and row counts of files that were prefetched without a fault.

        Raises the errors of `prefetch`.
        """

    def check_partition_values(
        self, files: ScanFiles, number: int, fields: Sequence[dt.Field], sources: Sequence[ColumnSource]
    ) -> None:
        """Refuse a Parquet file whose stored columns contradict its partition values (iceberg 5.3).

        Raises:
            SchemaMismatchError: The values contradict each other.
            MissingFileError, CorruptFileError, StorageError: The file's statistics cannot be read.
        """


@dataclass(frozen=True, slots=True)
class Inspector:
    """Groups the files of a plan by their storage forms and checks them."""

    opener: FileOpener
    plan: PlannedScan

    def groups(self, files: ScanFiles, fields: tuple[dt.Field, ...], numbers: Indices | None = None) -> list[FileGroup]:
        """Return the file groups, ordered by their first files, with `fields` resolved in each group.

        Args:
            files: The files. In each group of data files, the first file is checked against its partition values.
            fields: The columns to read.
            numbers: The numbers of the files to group, ascending. None for all files.

        Raises:
            HarnessError: A file cannot be read, lacks a column for a field, or contradicts its partition values.
        """
        numbers = np.arange(len(files)) if numbers is None else numbers
        self.opener.prefetch(files)
        opened = self.opener.opened(files, numbers)
        self._check_counts(files, numbers, opened)
        parts = _group_places(files, numbers, opened)
        self._warn_of_other_names(files, numbers, opened)
        groups = [
            self._group(files, numbers[part], opened.forms[opened.form[part[0]]], opened.rows[part], fields)
            for part in parts
        ]
        for group in groups:
            if files.are_data and group.form.format == "parquet" and not group.form.foreign:
                self.opener.check_partition_values(files, int(group.members[0]), fields, group.sources)
        return groups

    def _group(
        self, files: ScanFiles, members: Indices, form: FileForm, rows: Indices, fields: tuple[dt.Field, ...]
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
                f"Columns of files without field ids, for example {files.name(first)}, are matched by position, "
                f"because table {self.plan.table} has no name mapping [iceberg 5.6]"
            )
        return FileGroup(members=members, rows=rows, form=form, sources=sources)

    def _check_counts(self, files: ScanFiles, numbers: Indices, opened: OpenedFiles) -> None:
        """Compare row counts with the recorded counts.

        A wrong count only causes a warning, because no plan relies on recorded counts. It raises an error if positions
        or row ids depend on it, or if the file has no columns.
        """
        recorded = files.recorded_rows
        stated = to_numpy(recorded.is_valid())[numbers] if recorded.null_count else True
        if recorded.null_count:
            # pyarrow would import pandas if the argument were a Python number.
            recorded = recorded.fill_null(scalar_of(UNKNOWN, recorded.type))
        expected = to_numpy(recorded)[numbers]
        mismatches = np.flatnonzero(stated & (opened.rows != UNKNOWN) & (opened.rows != expected)).tolist()
        if not mismatches:
            return
        for place in mismatches:
            number = int(numbers[place])
            if files.exact[number] or not opened.forms[opened.form[place]].schema:
                row_count = int(opened.rows[place])
                raise wrong_count(files.name(number), row_count, int(expected[place]), self.plan.table)
        remark = f"; {len(mismatches) - 1} more files are affected" if len(mismatches) > 1 else ""
        self._doubt(
            f"Recorded row counts of table {self.plan.table} are wrong: {files.name(int(numbers[mismatches[0]]))} has "
            f"{opened.rows[mismatches[0]]} rows, the metadata says {expected[mismatches[0]]}{remark} "
            f"[{rule_in_format('iceberg 7.2', self.plan.format)}]"
        )

    def _warn_of_other_names(self, files: ScanFiles, numbers: Indices, opened: OpenedFiles) -> None:
        """Warn about data files that share no column with the table. Usually their names or field ids are wrong."""
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
                "table's schema, so it only yields nulls, defaults and partition values; compare its names and field "
                f"ids with the schema, unless all its columns were dropped [{rule}]"
            )

    def _doubt(self, sentence: str) -> None:
        if self.plan.storage.untrusted:
            raise untrusted_table_error(sentence, self.plan.table)
        warn(sentence)


def _group_places(files: ScanFiles, numbers: Indices, opened: OpenedFiles) -> list[Indices]:
    """Group the files by how they are read.

    Return indexes into `numbers` per group, ordered by the groups' first files.
    """
    partition = files.partition[numbers].tolist()
    columns = {place: frozenset(files.constants[place]) for place in set(partition)}
    parts: dict[tuple[int, int, frozenset[int]], list[int]] = {}
    keys = zip(opened.form.tolist(), files.split[numbers].tolist(), map(columns.__getitem__, partition), strict=True)
    for place, key in enumerate(keys):
        parts.setdefault(key, []).append(place)
    return [np.array(places) for places in parts.values()]


def wrong_count(file: FileName, rows: int, expected: int, table: str) -> CorruptFileError:
    """Return the error for a file whose row count differs from the recorded count (iceberg 7.2)."""
    reason = f"Cannot read file: it has {rows} rows, the metadata says {expected}; restore the file"
    return corrupt_file(reason, file, table=table, field="record_count", rule="iceberg 7.2")


# Checking field ids: an imported file may use ids that belong to other columns of the table. Therefore one file of each
# group is checked: the statistics of its first row group must not contradict its partition values (iceberg 5.3).


# Types whose statistics DuckDB prints as text that it can cast back.
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
    """Raise SchemaMismatchError if a Parquet file's stored columns cannot contain its own partition values.

    Args:
        access: Reads the file's statistics. Missing or unreadable statistics prove nothing.
        file: The file.
        fields: The requested top-level columns.
        sources: For each field, its place in this file.
        constants: The file's partition values in internal form, by source field id.
        table: The table's location, for errors.
    """
    checked = {
        source.physical.name: f
        for f, source in zip(fields, sources, strict=True)
        if isinstance(source, FileColumn)
        and isinstance(f.type, _COMPARABLE)
        and not (isinstance(f.type, dt.TimestampType) and f.type.utc)  # the text depends on the session's time zone
        and f.id in constants
        and constants[f.id] == constants[f.id]  # NaN: statistics do not include it
    }
    if not checked:
        return
    listed = ", ".join(map(sqltext.text, checked))
    connection = access.connection
    statistics = (
        "SELECT path_in_schema, stats_min_value, stats_max_value, stats_null_count, num_values "
        f"FROM parquet_metadata({access.listed((file.physical,))}) "
        f"WHERE row_group_id = 0 AND path_in_schema IN ({listed})"
    )
    try:
        rows = connection.execute(statistics).fetchall()
    except duckdb.ConversionException:
        if IS_DUCKDB_1:  # it cannot print the statistics of the earliest nanosecond timestamps, also of other columns
            return
        raise
    for name, low, high, nulls, values in rows:
        field = checked[name]
        value = constants[field.id]
        if _contradicts(connection, field, value, low, high, nulls, values):
            raise SchemaMismatchError(
                f"Cannot read column {field.name!r}: the file's partition value is {value!r}, but its first rows "
                f"contain {low!r} to {high!r}; its field ids may belong to another table",
                cause="PartitionValueConflict",
                table=table,
                file=str(file),
                field=field.name,
                rule="iceberg 5.3",
            )


def _contradicts(
    connection: duckdb.DuckDBPyConnection,
    field: dt.Field,
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
    kind, literal = sqltext.type_name(field.type), sqltext.literal(value, field.type)
    bounds = [f"TRY_CAST({sqltext.text(text)} AS {kind})" for text in (low, high)]
    ((outside,),) = connection.execute(f"SELECT {literal} < {bounds[0]} OR {literal} > {bounds[1]}").fetchall()
    return bool(outside)


@dataclass(slots=True)
class LocalFileOpener:
    """Opens the files of a plan in this process.

    The footers of Parquet files are read together. Other files are read completely and kept in memory.

    Attributes:
        access: Opens the files for DuckDB, which reads the footers but no rows.
        plan: The plan.
        open_other: Returns the schema and row count of an Avro or ORC file without reading its rows, and raises
            HarnessError with the file's name. The row count is None if only reading the file shows it. If `open_other`
            is None, Avro and ORC files are read completely, because the engine will call `rows`.
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
        """Read the footers of the Parquet files that have not been opened yet.

        Raises the errors of `FileOpener.prefetch`.
        """
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
            if self.plan.lookup.is_delta:  # no Iceberg writer ever used the Julian calendar (iceberg 6.9)
                self._legacy.update({path: legacy_kinds(f.schema, f.metadata) for path, f in dated.items()})

    def faults(self, files: ScanFiles) -> Faults:
        """Return no faults: `prefetch` raises the error of any file that cannot be read."""
        return {}

    def opened(self, files: ScanFiles, numbers: Indices) -> OpenedFiles:
        """Return the forms and row counts of files. Parquet files were prefetched; other files are read now."""
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
        return OpenedFiles.from_forms(forms, rows)

    def _form(self, path: str, footer: Footer) -> FileForm:
        """Return the form of a Parquet file. Files whose footers have the same schema share one object."""
        legacy, converted = self._legacy.get(path, frozenset()), path in self._converted
        key = (id(footer.schema), legacy, converted)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = FileForm(
                format="parquet",
                schema=footer.schema,
                legacy=legacy,
                converted=converted,
                duckdb_types=footer.duckdb_types,
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
        """Return whether a prefetched Parquet file has pages compressed with Brotli in its first row group."""
        return self._footers[name.physical].is_brotli

    def rows(self, name: FileName, group: FileGroup, fields: Sequence[dt.Field]) -> pa.Table:
        """Return all rows of one file of a group in physical order. Variants are JSON text (iceberg 6.15).

        Args:
            name: The file.
            group: The file's group.
            fields: The fields that the group's sources belong to, in their order.

        Returns:
            A table whose columns have the order of the file's columns.

        Raises:
            CorruptFileError: The file or a value cannot be decoded.
            LimitError: The file has more rows than may be read at once.
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
        """Check a file as described in `FileOpener.check_partition_values`."""
        name, table = files.name(number), self.plan.table
        (constants,) = files.partition_values(np.array([number]))
        with failing_on([name], self.plan.storage, table=table, doing=FOOTER):
            check_partition_values(self.access, name, fields, sources, constants, table=table)


def local_opener(plan: PlannedScan) -> LocalFileOpener:
    """Return an opener for an engine that reads the files of a plan in this process."""
    return LocalFileOpener(DuckDBFiles(cursor(), plan.storage), plan)
