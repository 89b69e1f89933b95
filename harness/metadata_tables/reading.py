"""One metadata table of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.errors import HarnessError, UnknownColumnError
from harness.metadata_tables.naming import check_name

if TYPE_CHECKING:
    from harness.delta.table import DeltaTable
    from harness.iceberg.table import IcebergTable


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A metadata table that is not read yet.

    schema: its columns. read: gives the table, perhaps with nulls in columns that are not asked for.
    """

    schema: pa.Schema
    read: Callable[[frozenset[str]], pa.Table]

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The table, or some of its columns in the order wanted.

        Raises:
            UnknownColumnError: it has no such column; the message says which it has.
            HarnessError: the metadata cannot be read.
        """
        names = self.schema.names if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names:
                raise UnknownColumnError(
                    f"Unknown column {name!r}: there are {', '.join(self.schema.names)}", field=name
                )
        return self.read(frozenset(names)).select(names)


def metadata_table(table: Any, selection: Any, name: str) -> MetadataTable:
    """The metadata table of that name; most are those of a snapshot, others the table's.

    Args:
        table: an opened table.
        selection: what its `select` gave.
        name: one of `harness.metadata_tables.naming.NAMES`, in any case.

    Raises:
        RequestError: there is no such metadata table.
        HarnessError: the manifest list cannot be read.
    """
    kind = check_name(table.format, name)
    try:
        return _of_delta(table, selection, kind) if table.format == "delta" else _of_iceberg(table, selection, kind)
    except HarnessError as error:
        raise error.within(table=table.location, format=table.format) from error.__cause__


def _of_delta(table: DeltaTable, selection: Any, kind: str) -> MetadataTable:
    from harness.metadata_tables import delta

    snapshot = selection.snapshot
    match kind:
        case "files":
            return MetadataTable(delta.files_schema(snapshot), lambda _: delta.files(snapshot))
        case "partitions":
            return MetadataTable(delta.partitions_schema(snapshot), lambda _: delta.partitions(snapshot))
        case _:
            return MetadataTable(delta.VERSIONS, lambda _: delta.versions(table))


def _of_iceberg(table: IcebergTable, selection: Any, kind: str) -> MetadataTable:
    from harness.metadata_tables import iceberg_log as log

    metadata = table.metadata
    match kind:
        case "snapshots":
            return MetadataTable(log.SNAPSHOTS, lambda _: log.snapshots(metadata))
        case "history":
            return MetadataTable(log.HISTORY, lambda _: log.history(metadata))
        case "refs":
            return MetadataTable(log.REFS, lambda _: log.refs(metadata))
        case "metadata_log_entries":
            return MetadataTable(log.METADATA_LOG, lambda _: log.metadata_log(metadata, table.metadata_path))
        case _:
            return _of_manifests(table, selection, kind)


def _of_manifests(table: IcebergTable, selection: Any, kind: str) -> MetadataTable:
    """What manifests list: those of the snapshot, or with `all_` those of all snapshots, each once."""
    from harness.iceberg.equality_keys import read_schema_first
    from harness.iceberg.scan import manifests_of, with_specs_of
    from harness.metadata_tables import iceberg_log as log
    from harness.metadata_tables.iceberg_files import SnapshotFiles
    from harness.metadata_tables.iceberg_positions import positions_schema

    schemas = read_schema_first(table.metadata.schemas, selection.schema)
    if kind.startswith("all_"):
        lists = {each.id: manifests_of(table.source, each) for each in table.metadata.snapshots.values()}
        if kind == "all_manifests":
            return MetadataTable(log.ALL_MANIFESTS, lambda _: log.all_manifests(lists, table.metadata, schemas))
        manifests = list({each.path: each for found in lists.values() for each in found}.values())
        kind = kind.removeprefix("all_")
    else:
        manifests = [] if selection.snapshot is None else manifests_of(table.source, selection.snapshot)
    if kind == "manifests":
        return MetadataTable(log.MANIFESTS, lambda _: log.manifests(manifests, table.metadata, schemas))
    source = with_specs_of(manifests, table.source)
    found = SnapshotFiles(source=source, schema=selection.schema, manifests=manifests)
    match kind:
        case "entries":
            return MetadataTable(found.entries_schema(), lambda columns: found.entries(columns=columns))
        case "partitions":
            return MetadataTable(found.partitions_schema(), lambda columns: found.partitions(columns=columns))
        case "position_deletes":
            return MetadataTable(positions_schema(found.partition), lambda _: found.position_deletes())
        case _:
            data, deletes = kind != "delete_files", kind != "data_files"
            return MetadataTable(
                found.files_schema(), lambda columns: found.files(data=data, deletes=deletes, columns=columns)
            )
