"""Looks at files from this process: what engines that run here learn of files before they read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import duckdb

from harness.engines import sqltext
from harness.engines.data_files import FileName
from harness.engines.duckdb.files import DuckDBFiles
from harness.engines.file_groups import Opened, ScanFile
from harness.engines.footers import FOOTER, Footer, converted_files, failing_on, is_dated, legacy_files, read_footers
from harness.errors import SchemaMismatchError
from harness.metadata.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
)
from harness.metadata.plan.projection import ColumnSource, Stored
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass

# Whether a file's stored partition column contradicts its partition tuple (iceberg 5.3).
#
# A file imported from elsewhere may have field ids of its own that collide with the table's: then the column that
# the ids lead to is another one, and its values are not the partition's. Rows would be wrong without a sign, so the
# statistics of the first row group are held against the tuple, in one file of each file group: collisions come
# from the writer, and its files are alike.


# Types whose statistics DuckDB prints in a form that it also reads.
_COMPARABLE = (BooleanType, DateType, DecimalType, FloatType, IntegerType, StringType, TimestampType)


def check_partition_values(
    access: DuckDBFiles,
    file: FileName,
    fields: Sequence[Field],
    sources: Sequence[ColumnSource],
    constants: Mapping[int, Any],
    *,
    table: str,
) -> None:
    """Refuses a Parquet file whose stored columns cannot hold its own partition values.

    Args:
        access: reads the file's statistics; those that are missing or unreadable say nothing.
        file: the file.
        fields, sources: the wanted top-level columns, and where they come from in this file.
        constants: the tuple's values by source field id, as internal values.
        table: for messages.

    Raises:
        SchemaMismatchError: cause `PartitionValueConflict`.
    """
    checked = {
        source.physical.name: f
        for f, source in zip(fields, sources, strict=True)
        if isinstance(source, Stored) and f.id in constants and _is_comparable(f.type, constants[f.id])
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


def _is_comparable(type_: Type, value: Any) -> bool:
    if isinstance(type_, TimestampType) and type_.utc:  # the text depends on the session's zone
        return False
    return isinstance(type_, _COMPARABLE) and value == value  # statistics leave NaN out


def _contradicts(
    connection: duckdb.DuckDBPyConnection,
    wanted: Field,
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
    """Opens the files of a plan, Parquet footers many in one call.

    access: opens the files for DuckDB, which reads footers; no rows are read.
    open_other: opens a file that is not Parquet; raises HarnessError naming the file.
    """

    access: DuckDBFiles
    plan: ScanPlan
    open_other: Callable[[ScanFile], Opened]
    _footers: dict[str, Footer] = field(default_factory=dict)
    _legacy: dict[str, frozenset[str]] = field(default_factory=dict)
    _converted: set[str] = field(default_factory=set)

    def prefetch(self, files: Sequence[ScanFile]) -> None:
        """Reads the footers of all Parquet files among `files` that were not looked at.

        Raises:
            MissingFileError, CorruptFileError, EncryptedTableError: naming the file at fault.
        """
        names = {file.name.physical: file.name for file in files if file.format == "parquet"}
        missing = [name for path, name in names.items() if path not in self._footers]
        footers = read_footers(self.access, missing, table=self.plan.table)
        self._footers.update(footers)
        dated = {path: footer for path, footer in footers.items() if footer.schema}
        with failing_on([names[path] for path in dated], self.plan.storage, table=self.plan.table, doing=FOOTER):
            self._converted.update(converted_files(self.access, dated))
            if self.plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
                doubtful = [path for path, footer in dated.items() if footer.may_be_legacy and is_dated(footer.schema)]
                self._legacy.update(legacy_files(self.access, doubtful))

    def opened(self, file: ScanFile) -> Opened:
        """What is known of a file; a Parquet file was prefetched."""
        if file.format != "parquet":
            return self.open_other(file)
        path = file.name.physical
        footer = self._footers[path]
        legacy = self._legacy.get(path, frozenset())
        converted = path in self._converted
        return Opened(footer.schema, footer.rows, legacy=legacy, converted=converted, shown=footer.shown)

    def check_partition_values(self, file: ScanFile, fields: Sequence[Field], sources: Sequence[ColumnSource]) -> None:
        """Refuses a Parquet file whose stored columns contradict its partition tuple (iceberg 5.3).

        Raises:
            SchemaMismatchError: they do.
            MissingFileError, CorruptFileError, StorageError: its statistics cannot be read.
        """
        table = self.plan.table
        with failing_on([file.name], self.plan.storage, table=table, doing=FOOTER):
            check_partition_values(self.access, file.name, fields, sources, file.constants, table=table)
