"""Metadata tables of an Iceberg table's metadata file and manifest lists: snapshots, history, refs and manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from harness.metadata.iceberg.manifests import FieldSummary, ManifestFile
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.iceberg.values import decode_bound, partition_types
from harness.metadata.model.arrow_values import array_of
from harness.metadata.model.schema import BinaryType, FixedType, Schema, Type, UuidType
from harness.metadata.tables.reading import FLAG, INT, LONG, TEXT, TEXTS, TIME, schema_of, table_of, values_of

SNAPSHOTS = schema_of(
    committed_at=TIME, snapshot_id=LONG, parent_id=LONG, operation=TEXT, manifest_list=TEXT, summary=TEXTS
)
HISTORY = schema_of(made_current_at=TIME, snapshot_id=LONG, parent_id=LONG, is_current_ancestor=FLAG)
REFS = schema_of(
    name=TEXT,
    type=TEXT,
    snapshot_id=LONG,
    max_reference_age_in_ms=LONG,
    min_snapshots_to_keep=LONG,
    max_snapshot_age_in_ms=LONG,
)
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
METADATA_LOG = schema_of(
    timestamp=TIME, file=TEXT, latest_snapshot_id=LONG, latest_schema_id=INT, latest_sequence_number=LONG
)


def snapshots(metadata: TableMetadata) -> pa.Table:
    """All snapshots, in the order of the metadata."""
    rows = []
    for s in metadata.snapshots.values():
        summary = [(str(key), str(value)) for key, value in s.summary.items()]
        rows.append((s.timestamp_ms, s.id, s.parent_id, s.operation, s.manifest_list, summary))
    return table_of(SNAPSHOTS, rows)


def history(metadata: TableMetadata) -> pa.Table:
    """The current snapshots of the past, and from when on each was current."""
    ancestors: set[int] = set()  # of the current snapshot, as far as they are there; itself too
    current = metadata.current_snapshot_id
    while current is not None and current not in ancestors:
        ancestors.add(current)
        current = _parent(metadata, current)
    rows = [(e.timestamp_ms, e.snapshot_id, _parent(metadata, e.snapshot_id)) for e in metadata.snapshot_log]
    return table_of(HISTORY, [(time, id_, parent, id_ in ancestors) for time, id_, parent in rows])


def refs(metadata: TableMetadata) -> pa.Table:
    """Branches and tags."""
    return table_of(
        REFS,
        [
            (
                *(name, ref.type.value.upper(), ref.snapshot_id),
                *(ref.max_ref_age_ms, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms),
            )
            for name, ref in metadata.refs.items()
        ],
    )


def manifests(found: Sequence[ManifestFile], metadata: TableMetadata, schemas: tuple[Schema, ...]) -> pa.Table:
    """The manifests of a snapshot; unknown counts are null, those of the other kind of files 0."""
    types = {spec.id: list(partition_types(spec, schemas).values()) for spec in metadata.specs.values()}
    return table_of(MANIFESTS, [_manifest(manifest, types) for manifest in found])


def all_manifests(
    lists: Mapping[int, Sequence[ManifestFile]], metadata: TableMetadata, schemas: tuple[Schema, ...]
) -> pa.Table:
    """The manifests of each snapshot, by its id."""
    tables = [manifests(found, metadata, schemas) for found in lists.values()]
    ids = [id_ for id_, found in lists.items() for _ in found]
    whole = pa.concat_tables([MANIFESTS.empty_table(), *tables]).combine_chunks()
    return whole.append_column(ALL_MANIFESTS.field("reference_snapshot_id"), array_of(ids, pa.int64()))


def metadata_log(metadata: TableMetadata, current: str) -> pa.Table:
    """The metadata files, the current one last, each with what was the current snapshot at its time."""
    entries = [(entry.timestamp_ms, entry.file) for entry in metadata.metadata_log]
    rows = [*entries, (metadata.last_updated_ms, current)]
    return table_of(METADATA_LOG, [(time, file, *_latest(metadata, time)) for time, file in rows])


def _latest(metadata: TableMetadata, time: int | None) -> tuple[int | None, int | None, int | None]:
    """Id, schema and sequence number of the snapshot that was the current one; None: unknown, or there was none."""
    ids = [entry.snapshot_id for entry in metadata.snapshot_log if time is not None and entry.timestamp_ms <= time]
    snapshot = metadata.snapshots.get(ids[-1]) if ids else None
    if snapshot is None:
        return (ids[-1] if ids else None), None, None
    return snapshot.id, snapshot.schema_id, snapshot.sequence_number


def _manifest(manifest: ManifestFile, types: Mapping[int, Sequence[Type]]) -> tuple[Any, ...]:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    none = (0, 0, 0)
    return (
        int(manifest.is_deletes),
        manifest.path,
        manifest.length,
        manifest.spec_id,
        manifest.added_snapshot_id,
        *(none if manifest.is_deletes else counts),
        *(counts if manifest.is_deletes else none),
        _summaries(manifest.partitions, types.get(manifest.spec_id or 0, ())),
    )


def _summaries(summaries: Sequence[FieldSummary] | None, types: Sequence[Type]) -> list[dict[str, Any]] | None:
    if summaries is None:
        return None
    known = [*types, *[BinaryType()] * (len(summaries) - len(types))]
    return [
        {
            "contains_null": summary.contains_null,
            "contains_nan": summary.contains_nan,
            "lower_bound": _bound(summary.lower, type_),
            "upper_bound": _bound(summary.upper, type_),
        }
        for summary, type_ in zip(summaries, known, strict=False)
    ]


def _bound(data: bytes | None, type_: Type) -> str | None:
    """An encoded bound as text: ISO 8601 of dates and times, hex of bytes; None: there is none, or it says nothing."""
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
