"""Data files of a slice that lacks rows or columns of its source: links to the originals, or rewritten files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.duckdb.relations import to_arrow
from harness.engines.footers import Footer, read_footers
from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.files.parquet import open_parquet
from harness.metadata.files.roaring import from_positions
from harness.metadata.model.arrow_values import from_numpy, plain_type, scalar_of
from harness.metadata.model.schema import Field, TimestampType
from harness.metadata.plan.projection import ColumnLookup, FileColumn, find_named, find_stored, is_positional, resolve
from harness.metadata.plan.scan_plan import without_deletes
from harness.metadata.planned_scan import PlannedScan
from harness.slices.anonymising.pseudonyms import OLD_INT96, Pseudonyms, check_calendar, check_stored
from harness.slices.directory import SliceDirectory, SlicePaths, translate_write_errors
from harness.slices.request import RowPositions, RowSelection
from harness.storage.paths import PhysicalPath
from harness.storage.stores import Storage
from harness.storage.threads import phase
from harness.writing.arrow import write_columnless_parquet

_ANNOTATION = re.compile(r"field_id=\d+|\([A-Z]\w+")
_CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCut:
    """The rows and columns of a file that are kept.

    Types, field ids, and names of columns stay the same, and so does the key-value metadata in the footer.

    Attributes:
        rows: The positions of the kept rows, in ascending order. None: all rows.
        places: The indexes of the kept top-level columns, in ascending order. None: all columns.
        instants: The indexes of columns whose values are instants, which INT96 does not record.
        row_ids: The column for row ids, its index in the file if the file has it, and the id of the file's first row,
            for rows without a stored id. None: rows have no ids, or keep their positions.
        pseudonyms: The pseudonyms for values of `masked` columns.
        masked: Columns of the table, by index, whose values are replaced.
    """

    rows: npt.NDArray[np.int64] | None = None
    places: Sequence[int] | None = None
    instants: frozenset[int] = frozenset()
    row_ids: tuple[pa.Field, int | None, int] | None = None
    pseudonyms: Pseudonyms | None = None
    masked: Mapping[int, Field] = field(default_factory=dict)


def cut_file(source: Path, target: Path, cut: FileCut, *, name: str) -> int:
    """Write a file with the kept rows and columns, and return the number of its rows.

    Args:
        source: The original file.
        target: The new file.
        cut: The rows and columns to keep.
        name: The name of the source file, for messages.

    Raises:
        UnsupportedError: A column would change its type.
        CorruptFileError: The source cannot be read.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        return _write_cut(source, target, cut, name)
    except pa.ArrowException as error:
        raise CorruptFileError(f"Cannot rewrite data file: {error}", cause="CorruptDataFile", file=name) from error


def _write_cut(source: Path, target: Path, cut: FileCut, name: str) -> int:
    with open_parquet(source) as file:
        places = range(len(file.schema_arrow)) if cut.places is None else cut.places
        count = file.metadata.num_rows if cut.rows is None else len(cut.rows)
        if not places and cut.row_ids is None:
            write_columnless_parquet(target, [count] if count else [], {})
            return count
        stored = pa.schema([f.with_type(plain_type(f.type)) for f in file.schema_arrow], file.schema_arrow.metadata)
        schema = _cut_schema(file, stored, places, cut, name)
        if cut.pseudonyms is not None:
            check_calendar(stored.metadata, file=name)
            for place, column in cut.masked.items():
                check_stored(column, stored.field(place), file=name)
            schema = schema.remove_metadata()
        with pq.ParquetWriter(target, schema, store_schema=False, **_writer_settings(file)) as out:
            start = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                group_rows = (
                    None if cut.rows is None else cut.rows[slice(*np.searchsorted(cut.rows, (start, start + rows)))]
                )
                if group_rows is None or len(group_rows):
                    table = file.read_row_group(group, use_threads=False)
                    out.write_table(_cut_table(table, group_rows, start, schema, places, cut))
                start += rows
        _check_types(file.schema, target, places, name)
        return count


def _check_types(source: pq.ParquetSchema, target: Path, places: Sequence[int], name: str) -> None:
    """Raise UnsupportedError if a column has another type in the new file. Obsolete INT96 may change."""
    with open_parquet(target) as new:
        before = _column_schemas(source)
        for place, column, after in zip(places, new.schema_arrow, _column_schemas(new.schema), strict=False):
            then = before[place]
            has_same_annotations = sorted(_ANNOTATION.findall(then)) == sorted(_ANNOTATION.findall(after))
            if then != after and "int96" not in then and not has_same_annotations:
                raise UnsupportedError(
                    f"Cannot rewrite column {column.name}: {' '.join(then.split())} would become "
                    f"{' '.join(after.split())}; pull whole files",
                    file=name,
                    field=column.name,
                )


def _cut_table(
    table: pa.Table,
    positions: npt.NDArray[np.int64] | None,
    start: int,
    schema: pa.Schema,
    places: Sequence[int],
    cut: FileCut,
) -> pa.Table:
    columns = [table.column(place) for place in places]
    if cut.row_ids is not None:
        _, id_column, first = cut.row_ids
        ids = from_numpy(np.arange(table.num_rows, dtype=np.int64) + (first + start))
        columns.append(pa.chunked_array([ids]) if id_column is None else pc.coalesce(table.column(id_column), ids))
    typed = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    if cut.pseudonyms is not None:
        for index, place in enumerate(places):
            typed[index] = cut.pseudonyms.column(typed[index]) if place in cut.masked else typed[index]
    output = pa.Table.from_arrays(typed, schema=schema)
    return output if positions is None else output.take(from_numpy(positions - start))


def _cut_schema(file: pq.ParquetFile, stored: pa.Schema, places: Sequence[int], cut: FileCut, name: str) -> pa.Schema:
    """Return the schema of the new file: the schema of the old file, with timestamps in place of INT96."""
    leaves = map(file.schema.column, range(len(file.schema.names)))
    int96 = {column.path.partition(".")[0] for column in leaves if column.physical_type == "INT96"}
    fields = []
    for place in places:
        column = stored.field(place)
        if column.name in int96:
            if not pa.types.is_timestamp(column.type) or OLD_INT96 in (stored.metadata or {}):
                raise UnsupportedError(
                    f"Cannot rewrite column {column.name}: it holds INT96 in a nested type, or in the old calendar; "
                    "pull whole files",
                    file=name,
                    field=column.name,
                )
            column = column.with_type(pa.timestamp("us", "UTC" if place in cut.instants else None))
        fields.append(column)
    if cut.row_ids is not None:
        fields.append(cut.row_ids[0])
    return pa.schema(fields, metadata=stored.metadata)


def _writer_settings(file: pq.ParquetFile) -> dict[str, object]:
    """Return the writer settings that keep a file's compression and its storage of decimals."""
    columns = [file.schema.column(i) for i in range(len(file.schema.names))]
    decimals = [c.physical_type for c in columns if c.logical_type.type == "DECIMAL"]
    codec = file.metadata.row_group(0).column(0).compression if file.num_row_groups and columns else None
    return {
        "compression": _CODECS.get(str(codec), "snappy"),
        "store_decimal_as_integer": not {"INT32", "INT64"}.isdisjoint(decimals),
    }


def _column_schemas(schema: pq.ParquetSchema) -> list[str]:
    """Return the schema of each top-level column as text."""
    blocks: list[str] = []
    for line in str(schema).splitlines()[2:]:
        if line.startswith("  ") and not line.startswith(("   ", "  }")):
            blocks.append(line)
        elif blocks:
            blocks[-1] += f"\n{line}"
    return blocks


@dataclass(frozen=True, slots=True)
class SliceFile:
    """A data file in its final place.

    Attributes:
        size: The size in bytes.
        count: The number of rows, or None if the file is unchanged and its metadata stays valid.
        rows: The positions of its rows in the source file. None: all rows.
        statistics: The statistics, empty for an unchanged file.
    """

    size: int
    count: int | None = None
    rows: RowPositions | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)

    def translate_positions(self, positions: BitMap64) -> BitMap64:
        """Return the new positions of rows, given their positions in the source file. Removed rows are left out."""
        if self.rows is None:
            return positions
        is_deleted = np.isin(self.rows, np.fromiter(positions, np.uint64, len(positions)).astype(np.int64))
        return from_positions(np.flatnonzero(is_deleted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriter:
    """Rewrites the data files of a slice.

    Attributes:
        columns: The slice's columns. None: all columns.
        rows: The slice's rows. None: all rows.
        row_ids: The name and id of the column for row ids. None: rows have no ids, or no column for them.
        row_versions: The same for the column with the version that last changed each row.
        statistics: A function that computes a file's statistics from its values.
        pseudonyms: The pseudonyms. None: values stay.
    """

    columns: tuple[Field, ...] | None
    rows: RowSelection | None
    row_ids: tuple[str, int | None] | None
    row_versions: tuple[str, int | None] | None
    statistics: Callable[[pa.Table, tuple[Field, ...]], Mapping[str, object]]
    pseudonyms: Pseudonyms | None

    def rewrite_files(
        self, plans: Iterable[PlannedScan], keys: str, place: SliceDirectory, names: SlicePaths
    ) -> dict[str, SliceFile]:
        """Write all data files to their final places.

        Args:
            plans: The reads of the slice's snapshots.
            keys: The column of planned files with the paths by which the result is keyed.
            place: The slice's directory.
            names: The paths in the slice.

        Raises:
            UnsupportedError: A file cannot be written without the dropped rows or columns.
            CorruptFileError: A file cannot be read.
        """
        matches: dict[str, SliceFile] = {}
        for plan in plans:
            paths = zip(*(plan.files.column(name).to_pylist() for name in (keys, "physical")), strict=True)
            with phase("rewriting files", plan.files.num_rows, "files") as advance:
                for ordinal, (path, physical) in enumerate(paths):
                    advance(1)
                    if path in matches or (self.rows is not None and physical not in self.rows):
                        continue
                    original, target = (
                        place.file(name(path, is_rewritten=True)) for name in (names.fetched_path, names.written_path)
                    )
                    with translate_write_errors(target):
                        matches[path] = self._rewrite_file(plan, ordinal, original, target)
        return matches

    def _rewrite_file(self, plan: PlannedScan, ordinal: int, original: Path, target: Path) -> SliceFile:
        (row,) = plan.files.slice(ordinal, 1).to_pylist()
        rows = None if self.rows is None else self.rows[row["physical"]]
        if row["format"] != "parquet":
            if self.columns is None and (rows is None or len(rows) == row["record_count"]):
                return _link_original(original, target)
            raise UnsupportedError(
                f"Cannot rewrite data file: its format is {row['format']}, and only Parquet can be written; "
                "pull whole files",
                table=plan.table,
                file=row["path"],
            )
        footer = read_footer(original, row["path"], plan.table)
        rows = None if rows is None or len(rows) == footer.rows else rows
        if rows is None and self.columns is None:
            return _link_original(original, target)
        cut, stored = self._file_cut(plan, row, footer, rows)
        count = cut_file(original, target, cut, name=row["path"])
        return SliceFile(
            target.stat().st_size, count, rows, self._read_statistics(plan, ordinal, target, count, stored)
        )

    def _file_cut(
        self, plan: PlannedScan, row: Mapping[str, Any], footer: Footer, rows: RowPositions | None
    ) -> tuple[FileCut, tuple[Field, ...]]:
        """Return the rows and columns of a file to keep, and the slice's columns that the file has."""
        positional = is_positional(footer.schema, name_mapping=plan.name_mapping)
        if self.columns is not None and positional and plan.lookup is ColumnLookup.ICEBERG:
            raise UnsupportedError(
                "Cannot leave out columns: the file has no field ids, so its columns are found by position; set "
                "the table property schema.name-mapping.default, or pull all columns",
                table=plan.table,
                file=row["path"],
            )
        fields = plan.schema.fields if self.columns is None else self.columns
        sources = resolve(
            fields,
            footer.schema,
            name_mapping=plan.name_mapping,
            partition_ids=frozenset(plan.partitions[row["partition"]].constants),
            file_path=row["path"],
            table=plan.table,
            lookup=plan.lookup,
        )
        stored = {f: source.place for f, source in zip(fields, sources, strict=True) if isinstance(source, FileColumn)}
        version = _column_index(self.row_versions, footer)
        places = None if self.columns is None else sorted({*stored.values(), *([] if version is None else [version])})
        ids, id_column = None, _column_index(self.row_ids, footer)
        if self.row_ids is not None and row["first_row_id"] is not None and not (rows is None and id_column is None):
            name, id_ = self.row_ids
            marks = {} if id_ is None else {"PARQUET:field_id": str(id_)}
            ids = pa.field(name, pa.int64(), metadata=marks), id_column, row["first_row_id"]
            if id_column is not None:
                places = [p for p in (range(len(footer.schema)) if places is None else places) if p != id_column]
        instants = frozenset(p for f, p in stored.items() if isinstance(f.type, TimestampType) and f.type.utc)
        masked = {} if self.pseudonyms is None else {place: column for column, place in stored.items()}
        cut = FileCut(
            rows=rows, places=places, instants=instants, row_ids=ids, pseudonyms=self.pseudonyms, masked=masked
        )
        return cut, tuple(stored)

    def _read_statistics(
        self, plan: PlannedScan, ordinal: int, target: Path, count: int, stored: tuple[Field, ...]
    ) -> Mapping[str, Any]:
        """Return the statistics of the new file, computed from the values that a reader returns for it."""
        if not stored:
            return self.statistics(pa.table({"_": pa.nulls(count)}).drop_columns(["_"]), ())
        files = plan.files.slice(ordinal, 1)
        for name, value in (("physical", str(target)), ("record_count", count), ("size", target.stat().st_size)):
            index = files.schema.get_field_index(name)
            kind = files.schema.types[index]
            files = files.set_column(index, files.schema.field(index), pa.repeat(scalar_of(value, kind), 1))
        partitions = plan.partitions
        if self.pseudonyms is not None:  # the partition tuples have the old values
            partitions = tuple(replace(partition, constants={}) for partition in partitions)
        read = replace(
            without_deletes(replace(plan, files=files, filter=None, partitions=partitions)),
            columns=stored,
            storage=Storage(),
            statistics=None,
        )
        return self.statistics(to_arrow(read), stored)


def read_footer(original: Path, recorded: str, table: str) -> Footer:
    """Return the footer of a file.

    Args:
        original: A copy of the file.
        recorded: The recorded path, for messages.
        table: The table, for messages.
    """
    physical = PhysicalPath(str(original))
    return read_footers(DuckDBFiles(cursor(), Storage()), [FileName(recorded, physical)], table=table)[physical]


def _column_index(column: tuple[str, int | None] | None, footer: Footer) -> int | None:
    """Return the index of a column, given by name and id, or None if the file has no such column."""
    if column is None:
        return None
    name, id_ = column
    result = find_named(name, footer.schema) if id_ is None else find_stored(id_, footer.schema)
    return None if result is None else result.place


def _link_original(original: Path, target: Path) -> SliceFile:
    """Link the unchanged source file to its final place.

    The original stays, so that an interrupted pull can continue.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(original, target)
    except OSError:
        shutil.copyfile(original, target)
    return SliceFile(target.stat().st_size)
