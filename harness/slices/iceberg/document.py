"""The metadata document of a slice: the source's, as it is, but for what is not in the slice."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from harness.iceberg.compression import decompress
from harness.iceberg.metadata import Snapshot
from harness.iceberg.specs import PartitionSpec
from harness.iceberg.table import IcebergTable
from harness.model.schema import Schema
from harness.slices.iceberg.manifests import spec_fields

# Where a writer would put new files, or a class that it would ask: none of the slice's.
_LOCATING = (
    *("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"),
    *("write.location-provider.impl", "write.object-storage.enabled"),
)


def read_document(table: IcebergTable) -> dict[str, Any]:
    """The table's metadata as it is in its file."""
    storage = table.source.storage
    data = storage.read(table.metadata_path)
    document: dict[str, Any] = json.loads(decompress(data, file=table.metadata_path, limits=storage.limits))
    return document


def schema_json(document: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """A schema of the document, as it is there, with its id."""
    listed = document.get("schemas") or [document["schema"]]
    return next({"schema-id": 0, **s} for s in listed if s.get("schema-id", 0) == schema.id)


def slice_document(
    source: Mapping[str, Any],
    *,
    location: str,
    schema: Schema,
    snapshots: tuple[Snapshot, ...],
    lists: Mapping[int, str],
    specs: Mapping[int, PartitionSpec],
    whole: bool,
) -> dict[str, Any]:
    """The document of a slice.

    Args:
        source: the table's, see `read_document`.
        location: the slice's.
        schema: the slice's current one.
        snapshots: oldest first; the last is the slice's current one.
        lists: recorded paths of manifest lists by snapshot id.
        specs: of the slice's files, some of which only manifests may know.
        whole: whether the slice has all files of its snapshots, so that their totals are right.
    """
    document = copy.deepcopy(dict(source))
    ids = {snapshot.id for snapshot in snapshots}
    document["location"] = location
    document["snapshots"] = [
        _snapshot(raw, lists[raw["snapshot-id"]], is_root=raw["snapshot-id"] == snapshots[0].id, whole=whole)
        for raw in source.get("snapshots") or ()
        if raw["snapshot-id"] in ids
    ]
    document["current-snapshot-id"] = snapshots[-1].id if snapshots else -1
    document["snapshot-log"] = _log(source.get("snapshot-log") or [], ids, snapshots)
    refs = {name: ref for name, ref in (source.get("refs") or {}).items() if ref["snapshot-id"] in ids}
    if snapshots:
        main = {**refs.get("main", {"type": "branch"}), "snapshot-id": snapshots[-1].id}
        refs = {"main": main, **{name: ref for name, ref in refs.items() if name != "main"}}
    if document["format-version"] > 1 or "refs" in source:
        document["refs"] = refs
    document["metadata-log"] = []
    for name in ("statistics", "partition-statistics"):
        document.pop(name, None)
    known = {spec["spec-id"] for spec in document.get("partition-specs") or ()}
    if "partition-specs" in document:
        added = [{"spec-id": s.id, "fields": spec_fields(s)} for s in specs.values() if s.id not in known]
        document["partition-specs"] = [*document["partition-specs"], *added]
    if "current-schema-id" in document:
        document["current-schema-id"] = schema.id
    if "schema" in document:
        document["schema"] = schema_json(source, schema)
    properties = document.get("properties") or {}
    document["properties"] = {name: text for name, text in properties.items() if name not in _LOCATING}
    return document


def left_out(source: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """What the source's metadata has and the slice's has not, a sentence each."""
    told = []
    for name, what in (("refs", "branches and tags"), ("properties", "properties")):
        gone = sorted(set(source.get(name) or {}) - set(document.get(name) or {}))
        if gone:
            told.append(f"Left out {what}: {', '.join(gone)}")
    return told


def _snapshot(raw: Mapping[str, Any], manifest_list: str, *, is_root: bool, whole: bool) -> dict[str, Any]:
    gone = {"manifests", *(["parent-snapshot-id"] if is_root else [])}
    found = {**{name: value for name, value in raw.items() if name not in gone}, "manifest-list": manifest_list}
    if raw.get("summary") is not None and not whole:
        found["summary"] = {name: text for name, text in raw["summary"].items() if not name.startswith("total-")}
    return found


def _log(log: list[dict[str, Any]], ids: set[int], snapshots: tuple[Snapshot, ...]) -> list[dict[str, Any]]:
    """The history of `main` since it last was at a snapshot that the slice lacks: no time is answered wrongly."""
    first = max((place + 1 for place, entry in enumerate(log) if entry["snapshot-id"] not in ids), default=0)
    kept = log[first:]
    if snapshots and (not kept or kept[-1]["snapshot-id"] != snapshots[-1].id):
        # An older snapshot, or a branch: it is current in the slice from its own time on, and nothing before it.
        return [{"timestamp-ms": snapshots[-1].timestamp_ms, "snapshot-id": snapshots[-1].id}]
    return kept
