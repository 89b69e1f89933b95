"""Looks at files from this process: what engines that run here learn of files before they read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from harness.engines.shared.conflicts import check_partition_values
from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.engines.shared.file_failures import failing_on
from harness.engines.shared.file_groups import Opened, ScanFile
from harness.engines.shared.footers import FOOTER, Footer, converted_files, read_footers
from harness.engines.shared.legacy_calendar import is_dated, legacy_files
from harness.model.schema import Field
from harness.plan.projection import ColumnSource
from harness.plan.scan_plan import ScanPlan
from harness.records import dataclass


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
