"""File groups as Spark frames, and what one arm of a query selects from them.

A frame has the stored columns that are used, under made-up names, the per-file constants, and where they are needed the
row positions. It is made last: expressions come first, because they decide which constants it must carry.
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
    """A file group to be read.

    looks: what looked at the files, executors where the reader is a gateway. files: those that the group is of.
    values: everything that is read, as `expressions` gives it.
    deleted: deleted positions of each member by number; None: the group has none.
    bounds: what is known of columns in the files of the plan; None: the files are not those of the plan.
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
        """The expression of each of `values`, by its label."""
        translation = ColumnTranslation(self._place, self.constants, self.group.form.legacy)
        return {label: translation.expression(value) for label, value in self.values.items()}

    def frame(self) -> DataFrame:
        """The frame on which all expressions that were asked for hold.

        Beside them it has `pos`, the physical row from 0, if the scan has `positions`, and `deleted` if it has deletes.
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
        """The deleted positions of each member."""
        return None if self.deleted is None else [self.deleted[number] for number in self.group.members.tolist()]

    def _is_readable(self) -> bool:
        """Tells whether Spark can read such files in the reader's session; RequestError where nothing can."""
        names = self._physical()
        match self.reader:
            case Gateway():
                return all(map(hadoop_opens, names))
            case PlannedSource() as source:
                return can_distinguish(source.session, self._used()) and all(map(hadoop_opens, names))
            case PlainPaths() as reader:
                return reader.knows(self.group.form.schema, self._used()) and all(map(reader.opens, names))
            case other:
                assert_never(other)

    def _used(self) -> list[PhysicalField]:
        """The file's columns that are read, each once."""
        places = dict.fromkeys(column.source.place for column in self._stored)
        return [self.group.form.schema[place] for place in places]

    def _gateway_frame(self, reader: PlannedReads) -> DataFrame:
        assert isinstance(self.opener, ExecutorFileOpener)
        bitmaps, deleted = None, self._deleted()
        if deleted is not None:
            masks = [encode(bits, rows) for bits, rows in zip(deleted, self.group.rows.tolist(), strict=True)]
            bitmaps = self.constants.label(pa.array(masks, pa.binary()))
        known = None
        if self.bounds is not None:
            known = self.bounds.table(self._stored, list(self._places), self.group.members, self.group.form.legacy)
        names = self._physical()
        read = PlannedRead(
            file_format=self.group.form.format,
            read_schema=self._read_schema(),
            files=self.opener.disk_files(names),
            constants=self.constants.table(),
            positions=self.positions or bitmaps is not None,
            deleted=bitmaps,
            options=hadoop_options(self.plan.storage, names),
            bounds=known,
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
        """The stored column at a place of the file's schema; Spark's own readers give only those that are asked for."""
        index = self._places.setdefault(place, len(self._places))
        return functions.col(f"p{index if self.native else place}")
