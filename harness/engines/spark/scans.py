"""File groups as Spark frames, with the expressions that one arm of a query selects from them.

A frame has the stored columns that are used, under generated names, the per-file constants, and row positions if they
are needed. The frame is created last, because the expressions decide which constants it must have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import StructType as SparkStruct

from harness.engines.column_values import ColumnValue, StoredColumn, stored_columns
from harness.engines.file_groups import FileGroup, LocalFileOpener, ScanFiles
from harness.engines.spark.arrow_scan import FileTraits, arrow_frame, reads_natively
from harness.engines.spark.arrow_worker import ArrowFile, pack_positions
from harness.engines.spark.columns import ColumnTranslation, FileConstants
from harness.engines.spark.connect import PlainPaths, SparkReader
from harness.engines.spark.deletes import encode, is_marked, unmarked
from harness.engines.spark.file_bounds import FileBounds
from harness.engines.spark.file_opener import ClientTraits, ExecutorFileOpener
from harness.engines.spark.gateway import Gateway, PlannedRead, PlannedReads, hadoop_opens
from harness.engines.spark.hadoop_options import hadoop_options
from harness.engines.spark.planned_source import PlannedSource
from harness.engines.spark.session import can_distinguish
from harness.engines.spark.types import physical_column
from harness.metadata.files.roaring import to_positions
from harness.metadata.model.file_schema import PhysicalField
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath


@dataclass(slots=True, kw_only=True)
class FrameScan:
    """A file group to read.

    Attributes:
        reader: Reads the files.
        opener: The opener of the files. It works on executors if the reader is a gateway.
        plan: The plan.
        group: The file group.
        files: The files that the group's members belong to.
        values: All values to read, by label.
        deleted: The deleted positions of each member by file number. None if the group has none.
        positions: True if the frame needs row positions.
        bounds: The known bounds of columns in the plan's files. None if the files are not the plan's data files.
        constants: The values that differ between files.
        native: True if Spark's own reader reads the files.
    """

    reader: SparkReader
    opener: ExecutorFileOpener | LocalFileOpener
    plan: PlannedScan
    group: FileGroup
    files: ScanFiles
    values: Mapping[str, ColumnValue]
    deleted: Mapping[int, BitMap64] | None = None
    positions: bool = False
    bounds: FileBounds | None = None
    constants: FileConstants = field(init=False)
    native: bool = field(init=False)
    _stored: tuple[StoredColumn, ...] = field(init=False)
    _places: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        form, stored = self.group.form, tuple(stored_columns(self.values.values()))
        match self.opener:
            case ExecutorFileOpener() as opener:
                traits: FileTraits = opener
            case LocalFileOpener() as opener:
                traits = ClientTraits(self.plan.storage, opener.is_brotli)
        native = reads_natively(
            form.format,
            form.schema,
            [column.field for column in stored],
            [column.source for column in stored],
            positions=self.positions or self.deleted is not None,
            files=self.files.names(self.group.members),
            traits=traits,
        )
        self._stored = stored
        self.native = self._is_readable() and native
        self.constants = FileConstants(len(self.group.members))

    def expressions(self) -> dict[str, Column]:
        """Return the expression of each of `values`, by label."""
        translation = ColumnTranslation(self._place, self.constants, self.group.form.legacy)
        return {label: translation.expression(value) for label, value in self.values.items()}

    def frame(self) -> DataFrame:
        """Return the frame on which the expressions that were returned so far can be evaluated.

        It also has `pos`, the physical row number from 0, if the scan has `positions`, and `deleted` if it has deletes.
        """
        if not self.native:
            return self._arrow_frame()
        match self.reader:
            case PlannedReads() as reader:
                return self._gateway_frame(reader)
            case PlainPaths() as reader:
                return reader.planned_frame(
                    file_format=self.group.form.format,
                    read_schema=self._read_schema(),
                    paths=self._physical(),
                    constants=self.constants.table(),
                    positions=self.positions,
                    deleted=self._deleted(),
                )
            case other:
                assert_never(other)

    def _physical(self) -> list[PhysicalPath]:
        return self.files.physical_of(self.group.members)

    def _deleted(self) -> list[BitMap64] | None:
        """Return the deleted positions of each member."""
        return None if self.deleted is None else [self.deleted[number] for number in self.group.members.tolist()]

    def _is_readable(self) -> bool:
        """Return whether Spark can read these files in the reader's session. Raise RequestError if no reader can."""
        names = self._physical()
        match self.reader:
            case Gateway():
                return all(map(hadoop_opens, names))
            case PlannedSource() as source:
                return can_distinguish(source.session, self._used()) and all(map(hadoop_opens, names))
            case PlainPaths() as reader:
                return reader.reads_unambiguously(self.group.form.schema, self._used()) and all(
                    map(reader.opens, names)
                )
            case other:
                assert_never(other)

    def _used(self) -> list[PhysicalField]:
        """Return the file's columns that are read, each once."""
        places = dict.fromkeys(column.source.place for column in self._stored)
        return [self.group.form.schema[place] for place in places]

    def _gateway_frame(self, reader: PlannedReads) -> DataFrame:
        assert isinstance(self.opener, ExecutorFileOpener)
        bitmaps, deleted = None, self._deleted()
        if deleted is not None:
            masks = [encode(bits, rows) for bits, rows in zip(deleted, self.group.rows.tolist(), strict=True)]
            bitmaps = self.constants.label(pa.array(masks, pa.binary()))
        bounds = None
        if self.bounds is not None:
            bounds = self.bounds.table(self._stored, list(self._places), self.group.members, self.group.form.legacy)
        names = self._physical()
        read = PlannedRead(
            file_format=self.group.form.format,
            read_schema=self._read_schema(),
            files=self.opener.disk_files(names),
            constants=self.constants.table(),
            positions=self.positions or bitmaps is not None,
            deleted=bitmaps,
            options=hadoop_options(self.plan.storage, names),
            bounds=bounds,
            root=self.plan.table,
        )
        frame = reader.planned_frame(read)
        if bitmaps is None:
            return frame
        position = functions.col("pos")
        return frame.withColumns({"deleted": is_marked(position), "pos": unmarked(position)})

    def _read_schema(self) -> SparkStruct:
        return SparkStruct([physical_column(self.group.form.schema[place]) for place in self._places])

    def _arrow_frame(self) -> DataFrame:
        files, deleted = self.files, self.deleted
        return arrow_frame(
            self.reader.session,
            files=[
                ArrowFile(
                    name=files.name(number),
                    exact_rows=files.exact_rows(number),
                    deleted=None if deleted is None else pack_positions(to_positions(deleted[number])),
                )
                for number in self.group.members.tolist()
            ],
            file_format=self.group.form.format,
            schema=self.group.form.schema,
            fields=[column.field for column in self._stored],
            sources=[column.source for column in self._stored],
            constants=self.constants.table(),
            storage=self.plan.storage,
            table=self.plan.table,
            table_format=self.plan.format,
        )

    def _place(self, place: int) -> Column:
        """Return the stored column with an index in the file's schema.

        Spark's own readers return only requested columns.
        """
        index = self._places.setdefault(place, len(self._places))
        return functions.col(f"p{index if self.native else place}")
