"""Data files of a slice that loses rows or columns: each linked from its original, or written anew without them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.footers import Footer, read_footers
from harness.engines.registry import duckdb_engine
from harness.errors import UnsupportedError
from harness.metadata.files.roaring import from_positions
from harness.metadata.model.arrow_values import scalar_of
from harness.metadata.model.schema import Field, TimestampType
from harness.metadata.plan.projection import ColumnLookup, Stored, find_named, find_stored, is_positional, resolve
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage
from harness.tools.slices.masking import Mask
from harness.tools.slices.parquet import Cut, RowIds, cut_file
from harness.tools.slices.request import Positions, without_deletes

Statistics: TypeAlias = Callable[[pa.Table, tuple[Field, ...]], Mapping[str, Any]]
"""From values of columns, named as the table names them, to what metadata says of a file that holds them."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A data file that is in its place.

    size: bytes. count: rows; None: it is the source's file, whose metadata holds on.
    rows: positions in the source's file of the rows that it has; None: all of them.
    said: what metadata says of it besides; empty for the source's file.
    """

    size: int
    count: int | None = None
    rows: Positions | None = None
    said: Mapping[str, Any] = field(default_factory=dict)

    def moved(self, positions: BitMap64) -> BitMap64:
        """Where rows at these positions of the source's file are now; those that are gone are left out."""
        if self.rows is None:
            return positions
        here = np.isin(self.rows, np.fromiter(positions, np.uint64, len(positions)).astype(np.int64))
        return from_positions(np.flatnonzero(here))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriter:
    """Settles the files of one read.

    columns: those of the slice, of `plan.schema`; None: all.
    row_ids: name and id of the column for ids of rows; None: they have none, or no column for them.
    row_versions: likewise of the column that says when each row was last changed.
    mask: gives columns other values; None: they stay.
    """

    plan: ScanPlan
    columns: tuple[Field, ...] | None
    row_ids: tuple[str, int | None] | None
    row_versions: tuple[str, int | None] | None
    statistics: Statistics
    mask: Mask | None = None

    def settle(self, ordinal: int, original: Path, target: Path, rows: Positions | None) -> Settled:
        """The file with the rows and columns that stay.

        ordinal: of the file in the plan. original: a copy of it. rows: that stay; None: all.

        Raises:
            UnsupportedError: it cannot be written without the others.
            CorruptFileError: it cannot be read.
        """
        (row,) = self.plan.files.slice(ordinal, 1).to_pylist()
        if row["format"] != "parquet":
            return self._unchanged(row, original, target, rows)
        footer = read_footer(original, row["path"], self.plan.table)
        rows = None if rows is None or len(rows) == footer.rows else rows
        if rows is None and self.columns is None:
            return _linked(original, target)
        cut, stored = self._cut(row, footer, rows)
        target.parent.mkdir(parents=True, exist_ok=True)
        count = cut_file(original, target, cut, name=row["path"])
        return Settled(target.stat().st_size, count, rows, self._said(ordinal, target, count, stored))

    def _unchanged(self, row: Mapping[str, Any], original: Path, target: Path, rows: Positions | None) -> Settled:
        if self.columns is None and (rows is None or len(rows) == row["record_count"]):
            return _linked(original, target)
        raise UnsupportedError(
            f"Cannot rewrite data file: its format is {row['format']}, and only Parquet is written; pull whole files",
            table=self.plan.table,
            file=row["path"],
        )

    def _cut(self, row: Mapping[str, Any], footer: Footer, rows: Positions | None) -> tuple[Cut, tuple[Field, ...]]:
        """What becomes of the file, and the columns of the slice that it has."""
        plan = self.plan
        positional = is_positional(footer.schema, name_mapping=plan.name_mapping)
        if self.columns is not None and positional and plan.lookup is ColumnLookup.ICEBERG:
            raise UnsupportedError(
                "Cannot leave out columns: the file has no field ids, so its columns are found by their places; set "
                "the table property schema.name-mapping.default, or pull all columns",
                table=plan.table,
                file=row["path"],
            )
        wanted = plan.schema.fields if self.columns is None else self.columns
        sources = resolve(
            wanted,
            footer.schema,
            name_mapping=plan.name_mapping,
            partition_ids=frozenset(plan.partitions[row["partition"]].constants),
            file_path=row["path"],
            table=plan.table,
            lookup=plan.lookup,
        )
        stored = {f: source.place for f, source in zip(wanted, sources, strict=True) if isinstance(source, Stored)}
        version = _place(self.row_versions, footer)
        places = None if self.columns is None else sorted({*stored.values(), *([] if version is None else [version])})
        ids = self._row_ids(row, footer, rows)
        if ids is not None and ids.place is not None:
            places = [p for p in (range(len(footer.schema)) if places is None else places) if p != ids.place]
        instants = frozenset(p for f, p in stored.items() if isinstance(f.type, TimestampType) and f.type.utc)
        masked = {} if self.mask is None else {place: column for column, place in stored.items()}
        cut = Cut(rows=rows, places=places, instants=instants, row_ids=ids, mask=self.mask, masked=masked)
        return cut, tuple(stored)

    def _row_ids(self, row: Mapping[str, Any], footer: Footer, rows: Positions | None) -> RowIds | None:
        if self.row_ids is None or row["first_row_id"] is None:
            return None
        place = _place(self.row_ids, footer)
        if rows is None and place is None:
            return None
        name, id_ = self.row_ids
        return RowIds(name=name, field_id=id_, place=place, first=row["first_row_id"])

    def _said(self, ordinal: int, target: Path, count: int, stored: tuple[Field, ...]) -> Mapping[str, Any]:
        """What the format's metadata says of the new file, by what a reader finds in it."""
        if not stored:
            return self.statistics(pa.table({"_": pa.nulls(count)}).drop_columns(["_"]), ())
        files = self.plan.files.slice(ordinal, 1)
        for name, value in (("physical", str(target)), ("record_count", count), ("size", target.stat().st_size)):
            index = files.schema.get_field_index(name)
            kind = files.schema.types[index]
            files = files.set_column(index, files.schema.field(index), pa.repeat(scalar_of(value, kind), 1))
        partitions = self.plan.partitions
        if self.mask is not None:  # the tuples are those of the values that were
            partitions = tuple(replace(partition, constants={}) for partition in partitions)
        read = replace(
            without_deletes(replace(self.plan, files=files, filter=None, partitions=partitions)),
            columns=stored,
            storage=Storage(),
            row_commit_versions=None,
            kept_whole=None,
            bounds=None,
        )
        return self.statistics(duckdb_engine().to_arrow(read), stored)


def read_footer(original: Path, recorded: str, table: str) -> Footer:
    """What a file says of itself. original: a copy of it. recorded, table: for messages."""
    files = DuckDBFiles(cursor(), Storage())
    return read_footers(files, [FileName(recorded, str(original))], table=table)[str(original)]


def _place(column: tuple[str, int | None] | None, footer: Footer) -> int | None:
    """Where a file has a column that is none of the table's; None: it has not."""
    if column is None:
        return None
    name, id_ = column
    found = find_named(name, footer.schema) if id_ is None else find_stored(id_, footer.schema)
    return None if found is None else found.place


def ordinals(plan: ScanPlan) -> dict[str, int]:
    """The ordinal of each planned file, by its physical path."""
    paths = plan.files.column("physical").to_pylist()
    return {path: ordinal for ordinal, path in enumerate(paths)}


def _linked(original: Path, target: Path) -> Settled:
    """The source's file in its place; the original stays, so that an interrupted pull need not fetch it again."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(original, target)
    except OSError:
        shutil.copyfile(original, target)
    return Settled(target.stat().st_size)
