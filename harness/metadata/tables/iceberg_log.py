"""Metadata tables of an Iceberg table's metadata file and manifest lists: snapshots, history, refs, and manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from harness.metadata.iceberg.manifests import FieldSummary, ManifestFile
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.iceberg.values import decode_bound, partition_types
from harness.metadata.model.schema import BinaryType, FixedType, Schema, Type, UuidType
from harness.metadata.tables.reading import FLAG, INT, LONG, TEXT, TEXTS, TIME, schema_of, table_of, values_of

_LogRows: TypeAlias = Iterator[tuple[Any, ...]]
_SUMMARY = pa.struct(list(schema_of(contains_null=FLAG, contains_nan=FLAG, lower_bound=TEXT, upper_bound=TEXT)))
_FILE_COUNTS = [f"{how}_{what}_files_count" for what in ("data", "delete") for how in ("added", "existing", "deleted")]
MANIFESTS = schema_of(
    content=INT,  # 0: data files, 1: delete files
    path=TEXT,
    length=LONG,
    partition_spec_id=INT,
    added_snapshot_id=LONG,
    **dict.fromkeys(_FILE_COUNTS, LONG),
    partition_summaries=pa.list_(_SUMMARY),
)
ALL_MANIFESTS = MANIFESTS.append(pa.field("reference_snapshot_id", LONG))


def _snapshots(metadata: TableMetadata, _: str) -> _LogRows:
    """Yield all snapshots, in the order of the metadata."""
    for s in metadata.snapshots.values():
        summary = [(str(key), str(value)) for key, value in s.summary.items()]
        yield s.timestamp_ms, s.id, s.parent_id, s.operation, s.manifest_list, summary


def _history(metadata: TableMetadata, _: str) -> _LogRows:
    """Yield each snapshot that was once the current one, with the time at which it became current."""
    ancestors: set[int] = set()  # the current snapshot and its known ancestors
    current = metadata.current_snapshot_id
    while current is not None and current not in ancestors:
        ancestors.add(current)
        current = _parent(metadata, current)
    for e in metadata.snapshot_log:
        yield e.timestamp_ms, e.snapshot_id, _parent(metadata, e.snapshot_id), e.snapshot_id in ancestors


def _refs(metadata: TableMetadata, _: str) -> _LogRows:
    """Yield branches and tags."""
    for name, ref in metadata.refs.items():
        limits = (ref.max_ref_age_ms, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms)
        yield name, ref.type.value.upper(), ref.snapshot_id, *limits


def _metadata_log(metadata: TableMetadata, current: str) -> _LogRows:
    """Yield the metadata files, the current one last, with facts about the snapshot that was current in each.

    The facts are id, schema id, and sequence number.
    """
    entries = [(entry.timestamp_ms, entry.file) for entry in metadata.metadata_log]
    for time, file in [*entries, (metadata.last_updated_ms, current)]:
        ids = [entry.snapshot_id for entry in metadata.snapshot_log if time is not None and entry.timestamp_ms <= time]
        snapshot = metadata.snapshots.get(ids[-1]) if ids else None
        facts = (None, None) if snapshot is None else (snapshot.schema_id, snapshot.sequence_number)
        yield time, file, ids[-1] if ids else None, *facts


METADATA_TABLES: Mapping[str, tuple[pa.Schema, Callable[[TableMetadata, str], _LogRows]]] = {
    "snapshots": (
        schema_of(
            committed_at=TIME, snapshot_id=LONG, parent_id=LONG, operation=TEXT, manifest_list=TEXT, summary=TEXTS
        ),
        _snapshots,
    ),
    "history": (
        schema_of(made_current_at=TIME, snapshot_id=LONG, parent_id=LONG, is_current_ancestor=FLAG),
        _history,
    ),
    "refs": (
        schema_of(
            name=TEXT,
            type=TEXT,
            snapshot_id=LONG,
            max_reference_age_in_ms=LONG,
            min_snapshots_to_keep=LONG,
            max_snapshot_age_in_ms=LONG,
        ),
        _refs,
    ),
    "metadata_log_entries": (
        schema_of(
            timestamp=TIME, file=TEXT, latest_snapshot_id=LONG, latest_schema_id=INT, latest_sequence_number=LONG
        ),
        _metadata_log,
    ),
}
"""The tables of a metadata file: their columns, and a function from the metadata and its path to their rows."""


def manifests(
    lists: Mapping[int, Sequence[ManifestFile]], metadata: TableMetadata, schemas: tuple[Schema, ...]
) -> pa.Table:
    """Return the manifests of each snapshot, by snapshot id. Unknown counts are null.

    A data manifest has counts of 0 for delete files, and a delete manifest has counts of 0 for data files.
    """
    types = {spec.id: list(partition_types(spec, schemas).values()) for spec in metadata.specs.values()}
    rows, zeros = [], (0, 0, 0)
    for id_, manifest_files in lists.items():
        for manifest in manifest_files:
            counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
            file_counts = (*zeros, *counts) if manifest.is_deletes else (*counts, *zeros)
            summaries = _summaries(manifest.partitions, types.get(manifest.spec_id or 0, ()))
            facts = (
                int(manifest.is_deletes),
                manifest.path,
                manifest.length,
                manifest.spec_id,
                manifest.added_snapshot_id,
            )
            rows.append((*facts, *file_counts, summaries, id_))
    return table_of(ALL_MANIFESTS, rows)


def _summaries(summaries: Sequence[FieldSummary] | None, types: Sequence[Type]) -> list[tuple[object, ...]] | None:
    if summaries is None:
        return None
    padded_types = [*types, *[BinaryType()] * (len(summaries) - len(types))]
    return [
        (summary.contains_null, summary.contains_nan, _bound(summary.lower, type_), _bound(summary.upper, type_))
        for summary, type_ in zip(summaries, padded_types, strict=False)
    ]


def _bound(data: bytes | None, type_: Type) -> str | None:
    """Return an encoded bound as text, or None if it is missing or unusable.

    Dates and times are ISO 8601, and bytes are hexadecimal digits.
    """
    value = None if data is None else decode_bound(type_, data)
    if value is None:
        return None
    match type_:
        case BinaryType() | FixedType() | UuidType():
            return bytes(value).hex()
        case _:
            return str(values_of([value], type_).cast(pa.string())[0].as_py())


def _parent(metadata: TableMetadata, snapshot_id: int) -> int | None:
    snapshot = metadata.snapshots.get(snapshot_id)
    return None if snapshot is None else snapshot.parent_id
