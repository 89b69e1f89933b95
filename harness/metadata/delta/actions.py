"""The actions of commits and checkpoints, and the table state that results from replaying them.

There are thousands of file actions, which stay in Arrow tables (`ADDS`, `REMOVES`, `FILES_STATE`). There are only a few
other actions, which become dataclasses. None means absent or null in the log. Times are milliseconds since the epoch,
sizes are bytes.

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
"""Partition values as recorded: text by physical column name. A null value and a missing key both mean null."""

DELETION_VECTOR = (
    pa.field("dv_storage_type", pa.string()),  # u, p, i; null: the file has no deletion vector
    pa.field("dv_path_or_inline", pa.string()),
    pa.field("dv_offset", pa.int64()),  # bytes; null: not recorded
    pa.field("dv_size", pa.int64()),  # bytes of the bitmap, decoded
    pa.field("dv_cardinality", pa.int64()),  # deleted rows
)
"""The columns of a deletion vector descriptor in `ADDS`, `REMOVES`, and `FILES_STATE`."""

_LOCATION = (
    pa.field("path", pa.string(), nullable=False),  # as recorded
    # the same for all spellings of a path, see `harness.metadata.delta.paths`
    pa.field("key", pa.string(), nullable=False),
)
_ROW_TRACKING = (pa.field("base_row_id", pa.int64()), pa.field("default_row_commit_version", pa.int64()))

FILES_STATE = pa.schema(
    [
        *_LOCATION,
        pa.field("partition_values", PARTITION_VALUES),
        # as recorded, for information only: real tables record wrong sizes
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.int64()),
        pa.field("data_change", pa.bool_()),  # has no effect on snapshots (delta R9)
        pa.field("stats", pa.string()),  # JSON text, unparsed; null: none recorded, or not read
        *DELETION_VECTOR,
        *_ROW_TRACKING,
    ]
)
"""The columns of `State.files`. The column `stats_parsed`, a struct whose fields vary with the writer, may follow."""

ADDS = FILES_STATE
"""The columns of `Commit.adds`."""

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
"""The columns of `Commit.removes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The protocol action: the versions and features that a reader and a writer must support.

    Attributes:
        min_reader_version: The reader version.
        min_writer_version: The writer version.
        reader_features: Feature names as recorded. None: the log has no list, which differs from an empty list.
        writer_features: Feature names as recorded. None: the log has no list.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The table's schema, partitioning, and properties.

    Attributes:
        id: The table's unique id.
        schema_string: The schema as JSON, unparsed. Empty if the log has none.
        partition_columns: Logical names, in partition order.
        configuration: Table properties with their keys as recorded, without null values.
        provider: The format of the data files. Delta defines `parquet` only.
        name: The table's name.
        description: The table's description.
        created_time_ms: The time at which the table was created.
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
    """The location of the deleted positions of a data file (rule delta D1).

    Attributes:
        storage_type: `u` (relative file), `p` (absolute file), or `i` (inline).
        path_or_inline: The path of the file, or the inline bitmap as text.
        offset: The position of the bitmap in its file, in bytes. None: not recorded.
        size: The bytes of the bitmap.
        cardinality: The number of deleted rows.
    """

    storage_type: str
    path_or_inline: str
    offset: int | None = None
    size: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The id of a deletion vector, unique among the vectors of its data file (delta R1)."""
        unique = self.storage_type + self.path_or_inline
        return unique if self.offset is None else f"{unique}@{self.offset}"

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> DeletionVectorDescriptor | None:
        """Return the descriptor in a row of `FILES_STATE`, `ADDS`, or `REMOVES`, or None if there is no vector."""
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
    """The provenance of a commit. Writers record anything here, so only the fields below are checked for their type.

    Attributes:
        timestamp_ms: The writer's clock. The time of the commit is determined differently (delta L33).
        in_commit_timestamp_ms: The in-commit timestamp. None: not recorded.
        operation: The operation that made the commit, for example `MERGE`.
        is_first: True if this is the first action of its commit, which in-commit timestamps require (delta L35).
        values: All fields as recorded.
    """

    timestamp_ms: int | None
    in_commit_timestamp_ms: int | None
    operation: str | None
    is_first: bool
    values: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCdc:
    """A file of change rows: `cdc` in the log.

    Attributes:
        path: The path as recorded.
        physical: The location of the file.
        partition_values: Text by physical column name.
        size: The size of the file in bytes.
    """

    path: str
    physical: PhysicalPath
    partition_values: Mapping[str, str | None] = field(hash=False)
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The progress of an application that writes idempotently: `txn` in the log.

    Attributes:
        app_id: The id of the application.
        version: The version of its last transaction.
        last_updated_ms: The time of its last transaction.
    """

    app_id: str
    version: int
    last_updated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """A text that a table feature stores under the name of its domain.

    Attributes:
        domain: The name of the domain.
        configuration: The text.
        removed: True if this action removes the domain.
    """

    domain: str
    configuration: str
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """All actions of one commit file.

    Attributes:
        version: The version of the commit. For a compaction file, the last version that it covers.
        file: The path of the file.
        protocol: The protocol action. None: the commit does not change the protocol.
        metadata: The metaData action. None: the commit does not change the metadata.
        info: The provenance of the commit.
        adds: A table of schema `ADDS`, in the order of the lines. The order has no meaning (delta L26).
        removes: A table of schema `REMOVES`, in the order of the lines.
        cdc: The files of change rows.
        transactions: The transactions.
        domains: The domain metadata.
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

    Attributes:
        version: The version.
        protocol: The protocol in force.
        metadata: The metadata in force.
        files: One row of `FILES_STATE` for each live file, in no particular order. Keys are unique. The column
            `stats_parsed` or `stats_row` may follow.
        statistics: The statistics of the files that have a `stats_row`. None: no file has one.
        transactions: The latest transaction of each application, by application id.
        domains: The latest metadata of each domain, by name, without removed domains.
        warnings: Irregularities of the log that do not change the result.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    files: pa.Table = field(repr=False)
    statistics: CheckpointStatistics | None = field(default=None, repr=False)
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
