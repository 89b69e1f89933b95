"""What a scan reads from: one version of a table's metadata, where its files are, and how the caller wants it read."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import HarnessError
from harness.iceberg.metadata import TableMetadata
from harness.plan.pruning import Prune
from harness.storage.stores import PathMap, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How to read a table; see `harness.table.open_table`."""

    prune: Prune = Prune.FILES
    lenient_delete_partition: bool = False
    allow_duplicate_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSource:
    """What a scan reads from: one version of a table's metadata, and where its files are."""

    location: str
    metadata: TableMetadata
    storage: Storage
    path_map: PathMap
    options: ScanOptions

    def read(self, recorded: str, what: str) -> bytes:
        """The bytes of a metadata file of the table, by its recorded path.

        Raises:
            MissingFileError: it is not where the path map says; names both paths (iceberg 1.12).
        """
        physical = self.path_map.physical(recorded)
        try:
            return self.storage.read(physical)
        except HarnessError as error:
            error.message = f"Cannot read {what}: {error.message}"
            error.file = recorded if recorded == physical else f"{recorded} ({physical})"
            error.cause = "MissingFile"
            raise
