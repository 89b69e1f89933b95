"""Values of the log: the actions of commits and checkpoints, and the state that replaying them gives.

File actions come in thousands and stay in Arrow tables (`ADDS`, `REMOVES`, `FILES_STATE`); all other actions are few
and become dataclasses. None means absent or null in the log. Times are milliseconds since the epoch, sizes bytes.

Spec: Delta, "Actions", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.delta.checkpoint_statistics import CheckpointStatistics

PARTITION_VALUES = pa.map_(pa.string(), pa.string())
"""Partition values as recorded: text by physical column name; a null value and a missing key are both null."""

DELETION_VECTOR = (
    pa.field("dv_storage_type", pa.string()),  # u, p, i; null: the file has no deletion vector
    pa.field("dv_path_or_inline", pa.string()),
    pa.field("dv_offset", pa.int64()),  # bytes; null: not recorded
    pa.field("dv_size", pa.int64()),  # bytes of the bitmap, decoded
    pa.field("dv_cardinality", pa.int64()),  # deleted rows
)
"""The columns of a deletion vector descriptor in `ADDS`, `REMOVES` and `FILES_STATE`."""

_LOCATION = (
    pa.field("path", pa.string(), nullable=False),  # as recorded
    pa.field("key", pa.string(), nullable=False),  # one for all spellings, see `harness.metadata.delta.paths`
)
_ROW_TRACKING = (pa.field("base_row_id", pa.int64()), pa.field("default_row_commit_version", pa.int64()))

FILES_STATE = pa.schema(
    [
        *_LOCATION,
        pa.field("partition_values", PARTITION_VALUES),
        pa.field("size", pa.int64(), nullable=False),  # as recorded: informative only, real tables record wrong sizes
        pa.field("modification_time", pa.int64()),
        pa.field("data_change", pa.bool_()),  # never matters to a snapshot (delta R9)
        pa.field("stats", pa.string()),  # JSON text, unparsed; null: none recorded, or not asked for
        *DELETION_VECTOR,
        *_ROW_TRACKING,
    ]
)
"""Columns of `State.files`; after them may come `stats_parsed`, a struct whose fields vary with the writer."""

ADDS = FILES_STATE
"""Columns of `Commit.adds`."""

REMOVES = pa.schema(
    [
        *_LOCATION,
        pa.field("partition_values", PARTITION_VALUES),  # null: not recorded (delta C8)
        pa.field("size", pa.int64()),
        pa.field("deletion_time", pa.int64()),
        pa.field("data_change", pa.bool_()),
        pa.field("extended_file_metadata", pa.bool_()),
        pa.field("stats", pa.string()),
        *DELETION_VECTOR,
        *_ROW_TRACKING,
    ]
)
"""Columns of `Commit.removes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The protocol: versions and features that a reader and a writer must know.

    reader_features, writer_features: names as recorded; None: the list is absent, which is not the empty list.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The table's schema, partitioning and properties.

    schema_string: JSON, unparsed; empty where the log has none.
    partition_columns: logical names, in partition order.
    configuration: table properties, keys as recorded; null values are left out.
    provider: format of the data files; `parquet` is the only one that Delta defines.
    """

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    provider: str = "parquet"
    name: str | None = None
    description: str | None = None
    created_time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor:
    """The place of the deleted positions of a data file, see delta D1.

    storage_type: `u` (relative file), `p` (absolute file), `i` (inline).
    offset, size: bytes of the bitmap; offset None: not recorded. cardinality: deleted rows.
    """

    storage_type: str
    path_or_inline: str
    offset: int | None = None
    size: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The identity of a deletion vector among those of its file (delta R1)."""
        unique = self.storage_type + self.path_or_inline
        return unique if self.offset is None else f"{unique}@{self.offset}"

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> DeletionVectorDescriptor | None:
        """The descriptor in a row of `FILES_STATE`, `ADDS` or `REMOVES`; None: the file has none."""
        if row["dv_storage_type"] is None:
            return None
        return DeletionVectorDescriptor(
            storage_type=row["dv_storage_type"],
            path_or_inline=row["dv_path_or_inline"],
            offset=row["dv_offset"],
            size=row["dv_size"],
            cardinality=row["dv_cardinality"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """Provenance of a commit. Writers put anything here: only the fields below are checked for their type.

    timestamp_ms: the writer's clock; the commit's time is another (delta L33).
    in_commit_timestamp_ms: None: not recorded.
    is_first: whether it is the first action of its commit, as in-commit timestamps need (delta L35).
    values: all fields as recorded.
    """

    timestamp_ms: int | None
    in_commit_timestamp_ms: int | None
    operation: str | None
    is_first: bool
    values: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCdc:
    """A file of change rows: `cdc` in the log. path: as recorded. physical: where the file is."""

    path: str
    physical: PhysicalPath
    partition_values: Mapping[str, str | None] = field(hash=False)
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The progress of an application that writes idempotently: `txn` in the log."""

    app_id: str
    version: int
    last_updated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """Text that a feature keeps under a name of its own. removed: the domain ends here."""

    domain: str
    configuration: str
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit file, all of it.

    version: of the commit; for a compaction file the last one that it covers.
    adds, removes: tables of schema `ADDS` and `REMOVES`, in the order of the lines, which means nothing (delta L26).
    """

    version: int
    file: str
    protocol: Protocol | None
    metadata: Metadata | None
    info: CommitInfo | None
    adds: pa.Table = field(hash=False)
    removes: pa.Table = field(hash=False)
    cdc: tuple[AddCdc, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()


@dataclass(frozen=True, kw_only=True)
class State:
    """A table at one version: the result of replaying its log.

    files: `FILES_STATE`, one row per live file, keys unique; perhaps with `stats_parsed` or `stats_row`. Order means
        nothing.
    statistics: of the files that have a `stats_row`; None: there are none.
    transactions, domains: the latest of each; without removed domains.
    warnings: what is odd about the log and does not change the result.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    files: pa.Table = field(repr=False)
    statistics: CheckpointStatistics | None = field(default=None, repr=False)
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
