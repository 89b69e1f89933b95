"""File groups as Spark frames, and what one arm of a query selects from them.

A frame has the stored columns that are used, under made-up names, the per-file constants, and where they are needed the
row positions. It is made last: expressions come first, because they decide which constants it must carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import StructType as SparkStruct

from harness.engines.shared.file_groups import FileGroup, ScanFile, partition_fields
from harness.engines.spark.arrow_scan import ArrowFile, arrow_frame
from harness.engines.spark.columns import column
from harness.engines.spark.connect import PlainPaths, Reader
from harness.engines.spark.constants import literal, storable
from harness.engines.spark.gateway import FileFormat, Gateway, disk_files
from harness.engines.spark.native_reads import reads_natively
from harness.engines.spark.positions import encode, is_deleted
from harness.engines.spark.types import natural
from harness.model.schema import Field, StructType, Type
from harness.plan.projection import ColumnSource, Stored, find_named, find_stored
from harness.plan.scan_plan import ScanPlan
from harness.storage.stores import is_local


@dataclass(frozen=True, slots=True)
class FileConstants:
    """Values that are the same in a whole file: literals where all files agree, else columns of the frame.

    size: how many files there are.
    """

    size: int
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    def constant(self, values: Sequence[Any], type_: Type) -> Column:
        """The expression of a constant. `values`: per file, as internal values."""
        if isinstance(type_, StructType):
            return self._struct(values, type_)
        if all(_same(value, values[0]) for value in values):
            return literal(values[0], type_)
        stored, show = storable(values, type_)
        return show(self.column(stored))

    def column(self, values: pa.Array) -> Column:
        """The expression of a column of ready values, one per file."""
        label = f"v{len(self._columns)}"
        self._columns[label] = values
        return functions.col(label)

    def table(self) -> pa.Table:
        """One row per file, with the columns that the expressions need."""
        return pa.table({**self._columns, "_": pa.nulls(self.size)}).drop(["_"])  # keeps the rows without columns

    def _struct(self, values: Sequence[Any], type_: StructType) -> Column:
        if all(value is None for value in values):
            return literal(None, type_)
        parts = [
            self.constant([None if v is None else v.get(f.id) for v in values], f.type).alias(f.name)
            for f in type_.fields
        ]
        return functions.struct(*parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScan:
    """A file group to be read.

    files: the members of the group.
    fields: what `group.sources` are the sources of.
    deleted: deleted positions of each member; None: the group has none.
    positions: whether rows must know their position.
    """

    reader: Reader
    plan: ScanPlan
    group: FileGroup
    files: tuple[ScanFile, ...]
    fields: tuple[Field, ...]
    deleted: Sequence[BitMap64] | None = None
    positions: bool = False
    constants: FileConstants = field(init=False)
    native: bool = field(init=False)
    _held: dict[Field, Stored] = field(init=False, default_factory=dict)
    _places: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        by_row = self.positions or self.deleted is not None
        group = self.group
        native = reads_natively(
            group.format,
            group.schema,
            self.fields,
            group.sources,
            positions=by_row,
            files=[file.name for file in self.files],
            storage=self.plan.storage,
        )
        object.__setattr__(self, "native", self._is_readable() and native)
        object.__setattr__(self, "constants", FileConstants(len(self.files)))

    def expressions(self) -> list[Column]:
        """The expression of each of `fields`, in order."""
        types = partition_fields(self.fields, self.group.sources)
        constants = {
            field_id: self.constants.constant([file.constants.get(field_id) for file in self.files], type_)
            for field_id, type_ in types.items()
        }
        return [self._column(f, source, constants) for f, source in zip(self.fields, self.group.sources, strict=True)]

    def stored(self, wanted: Field) -> Column | None:
        """The expression of a metadata column that the files hold themselves (row lineage), or None."""
        return self._metadata(wanted, find_stored(wanted.id, self.group.schema))

    def named(self, wanted: Field, name: str) -> Column | None:
        """The expression of a metadata column that the files hold as a column called `name`, or None (delta W2, W3)."""
        return self._metadata(wanted, find_named(name, self.group.schema))

    def frame(self) -> DataFrame:
        """The frame on which all expressions that were asked for hold.

        Beside them it has `pos`, the physical row from 0, if the scan has `positions`, and `deleted` if it has deletes.
        """
        return self._native_frame() if self.native else self._arrow_frame()

    def _is_readable(self) -> bool:
        """Whether Spark can read files of these names, with these columns, in the reader's session.

        Raises:
            RequestError: nothing can read them in that session.
        """
        names = [file.name.physical for file in self.files]
        match self.reader:
            case Gateway():
                return all(map(_opens, names))
            case PlainPaths() as reader:
                schema = self.group.schema
                used = [schema[source.place] for source in self.group.sources if isinstance(source, Stored)]
                reader.check_nested(used)
                return reader.knows(schema, used) and all(map(reader.opens, names))
            case other:
                assert_never(other)

    def _native_frame(self) -> DataFrame:
        match self.reader:
            case Gateway() as reader:
                return self._gateway_frame(reader)
            case PlainPaths() as reader:
                return reader.planned_frame(
                    file_format=_native(self.group.format),
                    read_schema=self._read_schema(),
                    paths=[file.name.physical for file in self.files],
                    constants=self.constants.table(),
                    positions=self.positions,
                    deleted=self.deleted,
                )
            case other:
                assert_never(other)

    def _gateway_frame(self, reader: Gateway) -> DataFrame:
        encoded = None
        if self.deleted is not None:
            masks = [encode(bits, rows) for bits, rows in zip(self.deleted, self._rows(), strict=True)]
            encoded = self.constants.column(pa.array(masks, pa.binary()))
        frame = reader.planned_frame(
            file_format=_native(self.group.format),
            read_schema=self._read_schema(),
            files=disk_files(self.plan.storage, [file.name.physical for file in self.files]),
            constants=self.constants.table(),
            positions=self.positions or encoded is not None,
        )
        if encoded is None:
            return frame
        return frame.withColumn("deleted", is_deleted(reader, encoded, functions.col("pos")))

    def _read_schema(self) -> SparkStruct:
        return SparkStruct([natural(self.group.schema[place]) for place in self._places])

    def _arrow_frame(self) -> DataFrame:
        deleted = self.deleted if self.deleted is not None else [None] * len(self.files)
        return arrow_frame(
            self.reader.session,
            files=[
                ArrowFile(name=file.name, exact_rows=file.exact_rows, deleted=bits)
                for file, bits in zip(self.files, deleted, strict=True)
            ],
            file_format=self.group.format,
            schema=self.group.schema,
            fields=(*self.fields, *self._held),
            sources=(*self.group.sources, *self._held.values()),
            constants=self.constants.table(),
            storage=self.plan.storage,
            table=self.plan.table,
            table_format=self.plan.format,
        )

    def _rows(self) -> list[int]:
        return [rows for rows in self.group.rows if rows is not None]

    def _metadata(self, wanted: Field, source: Stored | None) -> Column | None:
        if source is None:
            return None
        self._held[wanted] = source
        return self._column(wanted, source, {})

    def _column(self, wanted: Field, source: ColumnSource, constants: Mapping[int, Column]) -> Column:
        legacy = self.group.legacy
        return column(wanted, source, self._place, constants, legacy=legacy)

    def _place(self, place: int) -> Column:
        """The stored column at a place of the file's schema; Spark's own readers give only those that are asked for."""
        index = self._places.setdefault(place, len(self._places))
        return functions.col(f"p{index if self.native else place}")


def _opens(physical: str) -> bool:
    """Whether Spark can open a file of that name: Hadoop takes a colon in a local one for the end of a scheme."""
    return not is_local(physical) or ":" not in physical.rsplit("/", 1)[-1]


def _native(file_format: str) -> FileFormat:
    match file_format:
        case "parquet":
            return "parquet"
        case "orc":
            return "orc"
        case _:
            raise AssertionError(f"Spark reads no {file_format}")


def _same(left: Any, right: Any) -> bool:
    """Equality that keeps -0.0 and NaN apart from what they equal, or do not equal, in Python."""
    return left == right if not isinstance(left, float) else repr(left) == repr(right)
