"""Commits: the manifests and the manifest list of a new snapshot, made from a change and the parent's manifests.

The functions work on Avro documents in memory. `builder.IcebergTable` writes the documents and keeps the table
metadata.

Spec: Iceberg, "Manifests", "Manifest Lists", "Sequence Number Inheritance", "Row Lineage".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.errors import RequestError
from harness.metadata.model.schema import Field, FloatType
from harness.writing.iceberg.avro import (
    AvroDocument,
    avro_name,
    manifest_header,
    manifest_list_schema,
    manifest_schema,
)
from harness.writing.iceberg.files import IcebergFile
from harness.writing.iceberg.types import bound_bytes

EXISTING, ADDED, DELETED = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """The parts of the table that the manifests of a snapshot depend on.

    Attributes:
        version: The format version.
        snapshot_id: The id of the new snapshot.
        parent_id: The id of its parent. None for the first snapshot.
        sequence_number: The sequence number of the new snapshot.
        next_row_id: The table's next row id. None before format version 3.
        schema_json: The current schema as JSON.
        partition_fields: The fields of the partition tuple by spec id.
        spec_json: The fields of the partition spec as JSON, by spec id.
        store: A function that writes a manifest and returns its recorded path and length.
        load: A function that returns a manifest by recorded path.
    """

    version: int
    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    next_row_id: int | None
    schema_json: Mapping[str, object]
    partition_fields: Mapping[int, Sequence[Field]]
    spec_json: Mapping[int, Sequence[Mapping[str, object]]]
    store: Callable[[AvroDocument], tuple[str, int]]
    load: Callable[[str], AvroDocument]


def new_manifests(
    context: CommitContext, added: Iterable[IcebergFile], data_sequence_number: int | None
) -> list[dict[str, Any]]:
    """Write a manifest for each spec and kind of content of the added files.

    Args:
        context: The commit.
        added: The added files.
        data_sequence_number: The sequence number of data files. None for the inherited number.

    Returns:
        The entries of the manifest list, data manifests first.
    """
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for handle in added:
        is_deletes = int(handle.content != 0)
        explicit = None if is_deletes else data_sequence_number
        entry = {
            "status": ADDED,
            "snapshot_id": context.snapshot_id,
            "sequence_number": explicit,
            "file_sequence_number": None,
            "data_file": copy.deepcopy(handle.data_file),
        }
        groups.setdefault((is_deletes, handle.spec_id), []).append(entry)
    return [write_manifest(context, spec_id, kind, entries) for (kind, spec_id), entries in sorted(groups.items())]


def carried_manifests(
    context: CommitContext,
    manifests: Iterable[dict[str, Any]],
    removed: Collection[tuple[str, int | None]],
    mode: Literal["keep", "merge"],
) -> list[dict[str, object]]:
    """Return the parent's manifests without the removed files.

    Manifests without live entries are left out.

    Args:
        context: The commit.
        manifests: The entries of the parent's manifest list.
        removed: The keys of the removed files.
        mode: `keep` rewrites only manifests with a removed file, which becomes DELETED; the other entries become
            EXISTING with explicit sequence numbers. `merge` rewrites all manifests of one spec and kind of content into
            one.

    Returns:
        The entries of the manifest list.

    Raises:
        RequestError: A removed file is not live.
    """
    unchanged: list[dict[str, object]] = []
    rewritten: dict[tuple[Any, ...], list[dict[str, object]]] = {}
    live_removed: set[tuple[str, int | None]] = set()
    for list_entry in manifests:
        live = _live_entries(context.load(list_entry["manifest_path"]), list_entry)
        removed_here = {entry_key(e) for e in live} & set(removed)
        live_removed |= removed_here
        if mode == "merge" or removed_here:
            group = (
                list_entry.get("content", 0),
                list_entry["partition_spec_id"],
                mode == "merge" or list_entry["manifest_path"],
            )
            entries = [_with_status(e, DELETED if entry_key(e) in removed_here else EXISTING, context) for e in live]
            rewritten.setdefault(group, []).extend(entries)
        elif live:
            unchanged.append(list_entry)
    missing = sorted(path for path, _ in set(removed) - live_removed)
    if missing:
        raise RequestError(f"Cannot remove {', '.join(missing)}: not live in the parent snapshot {context.parent_id}")
    written = [write_manifest(context, spec, kind, e) for (kind, spec, _), e in rewritten.items() if e]
    return [*written, *unchanged]


def _live_entries(document: AvroDocument, list_entry: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the entries that are not deleted, with the values that they inherit from the manifest list."""
    next_row_id = list_entry.get("first_row_id")
    result = []
    for entry in document.records:
        if entry["status"] == DELETED:
            continue
        number = list_entry.get("sequence_number", 0)
        filled = {
            **entry,
            "snapshot_id": _value_or(entry.get("snapshot_id"), list_entry.get("added_snapshot_id")),
            "sequence_number": _value_or(entry.get("sequence_number"), number),
            "file_sequence_number": _value_or(entry.get("file_sequence_number"), number),
        }
        if next_row_id is not None and entry["data_file"].get("first_row_id") is None:
            filled["data_file"] = {**entry["data_file"], "first_row_id": next_row_id}
            next_row_id += entry["data_file"]["record_count"]
        result.append(filled)
    return result


def entry_key(entry: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return the identity of an entry's file, as in `IcebergFile.key`."""
    return entry["data_file"]["file_path"], entry["data_file"].get("content_offset")


def write_manifest(context: CommitContext, spec_id: int, kind: int, entries: list[dict[str, Any]]) -> dict[str, object]:
    """Write a manifest and return its manifest list entry.

    Args:
        context: The commit.
        spec_id: The id of the partition spec.
        kind: 0 for data, 1 for deletes.
        entries: The manifest entries.
    """
    partition = context.partition_fields[spec_id]
    header = manifest_header(
        context.version, context.schema_json, spec_id, context.spec_json[spec_id], "deletes" if kind else "data"
    )
    document = AvroDocument(manifest_schema(context.version, partition), entries, header)
    path, length = context.store(document)
    numbers = [_value_or(e.get("sequence_number"), context.sequence_number) for e in entries if e["status"] != DELETED]
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": spec_id,
        "content": kind,
        "sequence_number": context.sequence_number,
        "min_sequence_number": min(numbers, default=context.sequence_number),
        "added_snapshot_id": context.snapshot_id,
        **_counts(entries),
        "partitions": [_summary(f, [e["data_file"]["partition"] for e in entries]) for f in partition],
        "key_metadata": None,
        "first_row_id": None,
    }


def manifest_list(context: CommitContext, manifests: Iterable[dict[str, Any]]) -> tuple[AvroDocument, int]:
    """Return the manifest list, data manifests first, and the number of row ids that it assigns.

    Before format version 3, the number is 0.
    """
    assigned = 0
    records = []
    for list_entry in sorted(manifests, key=lambda m: m.get("content", 0)):
        if (
            context.next_row_id is not None
            and list_entry.get("content", 0) == 0
            and list_entry.get("first_row_id") is None
        ):
            list_entry = {**list_entry, "first_row_id": context.next_row_id + assigned}
            assigned += list_entry["added_rows_count"] + list_entry["existing_rows_count"]
        records.append(list_entry)
    header = {
        "snapshot-id": str(context.snapshot_id),
        "parent-snapshot-id": "null" if context.parent_id is None else str(context.parent_id),
        "format-version": str(context.version),
    }
    if context.version > 1:
        header["sequence-number"] = str(context.sequence_number)
    if context.next_row_id is not None:
        header["first-row-id"] = str(context.next_row_id)
    return AvroDocument(manifest_list_schema(context.version), records, header), assigned


def snapshot_json(
    context: CommitContext, *, timestamp_ms: int, summary: Mapping[str, str], manifest_list: str, assigned_rows: int
) -> dict[str, object]:
    """Return the snapshot as in the metadata file. `manifest_list` is a recorded path."""
    snapshot: dict[str, object] = {"snapshot-id": context.snapshot_id}
    if context.version > 1:
        snapshot["sequence-number"] = context.sequence_number
    if context.parent_id is not None:
        snapshot["parent-snapshot-id"] = context.parent_id
    snapshot |= {"timestamp-ms": timestamp_ms, "summary": dict(summary), "manifest-list": manifest_list}
    snapshot["schema-id"] = context.schema_json["schema-id"]
    if context.next_row_id is not None:
        snapshot |= {"first-row-id": context.next_row_id, "added-rows": assigned_rows}
    return snapshot


def operation_of(added: Sequence[IcebergFile], removed: Sequence[IcebergFile]) -> str:
    """Return the name of the operation that adds and removes some files, as the specification defines it."""
    if not removed and all(handle.content == 0 for handle in added):
        return "append"
    return "overwrite" if any(handle.content == 0 for handle in added) else "delete"


def summary_of(operation: str, added: Sequence[IcebergFile], removed: Sequence[IcebergFile]) -> dict[str, str]:
    """Return the snapshot summary: the operation and the numbers of added and removed files and rows, as strings."""
    counts: dict[str, int] = {}
    for verb, past, handles in (("added", "added", added), ("removed", "deleted", removed)):
        for handle in handles:
            _count(counts, verb, past, handle)
    return {"operation": operation, **{k: str(v) for k, v in counts.items()}}


def _count(counts: dict[str, int], verb: str, past: str, handle: IcebergFile) -> None:
    names = {0: (f"{past}-data-files", f"{past}-records"), 2: (f"{verb}-delete-files", f"{verb}-equality-deletes")}
    is_vector = handle.data_file["file_format"] == "PUFFIN"
    files, rows = names.get(handle.content, (f"{verb}-delete-files", f"{verb}-position-deletes"))
    sizes = {files: 1, rows: handle.record_count, f"{verb}-files-size": handle.data_file["file_size_in_bytes"]}
    for name, value in {**sizes, **({f"{verb}-dvs": 1} if is_vector else {})}.items():
        counts[name] = counts.get(name, 0) + value


def _value_or(value: object, default: object) -> Any:
    return default if value is None else value


def _with_status(entry: dict[str, Any], status: int, context: CommitContext) -> dict[str, object]:
    snapshot_id = context.snapshot_id if status == DELETED else entry["snapshot_id"]
    return {**entry, "status": status, "snapshot_id": snapshot_id}


def _counts(entries: Iterable[dict[str, Any]]) -> dict[str, int]:
    counts = {f"{kind}_{what}_count": 0 for what in ("files", "rows") for kind in ("added", "existing", "deleted")}
    names = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}
    for entry in entries:
        kind = names[entry["status"]]
        counts[f"{kind}_files_count"] += 1
        counts[f"{kind}_rows_count"] += entry["data_file"]["record_count"]
    return counts


def _summary(field: Field, tuples: Iterable[Mapping[str, object]]) -> dict[str, object]:
    values = [t.get(avro_name(field.name)) for t in tuples]
    numbers = [v for v in values if v is not None and not _is_nan(v)]
    return {
        "contains_null": None in values,
        "contains_nan": any(_is_nan(v) for v in values) if isinstance(field.type, FloatType) else None,
        "lower_bound": bound_bytes(field.type, min(numbers, key=_float_order)) if numbers else None,
        "upper_bound": bound_bytes(field.type, max(numbers, key=_float_order)) if numbers else None,
    }


def _float_order(value: object) -> Any:
    # In bounds, -0.0 is less than 0.0, although Python considers them equal.
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
