"""What a scan of a Delta table reads from: where the table is, and one version of it."""

from __future__ import annotations

from dataclasses import field

from harness.metadata.delta.actions import State
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.partition_values import PartitionTuples, partition_tuples
from harness.metadata.delta.paths import TableRoot
from harness.metadata.delta.protocol import feature_warnings
from harness.metadata.delta.types import DeltaSchema
from harness.metadata.plan.read_options import ReadOptions
from harness.storage.paths import PathMap
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import cached_property


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource:
    """Where a table is and how to read it.

    location: as the user gave it, for messages.
    """

    location: str
    root: TableRoot
    storage: Storage
    options: ReadOptions

    @property
    def locator(self) -> Locator:
        """Tells where the table's files are."""
        return Locator(self.root, self.path_map)

    @property
    def path_map(self) -> PathMap:
        """From recorded paths to where the files are."""
        return self.options.path_map


@dataclass(frozen=True, kw_only=True)
class DeltaSnapshot:
    """One version of a table.

    timestamp_ms: when it was committed, milliseconds since 1970-01-01 UTC; None: no file of the log tells.
    """

    state: State = field(repr=False)
    columns: DeltaSchema = field(repr=False)
    timestamp_ms: int | None = None

    @property
    def id(self) -> int:
        """The version."""
        return self.state.version

    @cached_property
    def feature_warnings(self) -> tuple[str, ...]:
        """Features of the version that the protocol does not list as it should, one sentence each (delta P1, P3)."""
        vectors = self.state.files.column("dv_storage_type")
        return feature_warnings(self.state.protocol, has_vectors=vectors.null_count < len(vectors))

    @cached_property
    def partitions(self) -> PartitionTuples:
        """The partition tuples of the live files.

        Raises:
            InvalidTableError: a partition value is none of its column's type.
        """
        return partition_tuples(self.state.files, self.columns.partition_columns)
