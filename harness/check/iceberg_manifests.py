"""Rules about manifest lists, manifests, and the files of a snapshot (iceberg 2.1 to 2.22, 3.4 to 3.9)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from harness.check.files import row_id_ranges
from harness.check.iceberg import Manifest, SnapshotFiles, is_compatible_type
from harness.check.rules import Breach, Place, Reads, Severity, rule
from harness.errors import HarnessError, counted, size_text
from harness.metadata.iceberg.manifests import Content, FieldSummary, ManifestEntry, Status
from harness.metadata.iceberg.metadata import NO_SNAPSHOT
from harness.metadata.iceberg.model import parse_header_spec
from harness.metadata.iceberg.skipping import partition_target, source_columns
from harness.metadata.iceberg.transforms import UnknownTransform, Void
from harness.metadata.iceberg.types import parse_schema
from harness.metadata.iceberg.values import decode_bound
from harness.metadata.model import schema as dt

_NESTED = (dt.StructType, dt.ListType, dt.MapType, dt.VariantType)
_NO_BOUNDS = (*_NESTED, dt.GeometryType, dt.GeographyType, dt.UnknownType, dt.OpaqueType)
_COUNTED = ((Status.ADDED, "added"), (Status.EXISTING, "existing"), (Status.DELETED, "deleted"))


@rule("ICE-201", Severity.ERROR, Reads.MANIFEST, "iceberg 2.2", "iceberg 3.5")
def counts(manifest: Manifest) -> Iterator[Breach]:
    """The manifest list has the correct counts of a manifest's entries and rows.

    Hurts: Readers that skip a manifest without added and existing files, and readers that count rows from the list.
    Mends: manifest list: the counts of the manifest
    """
    line = manifest.line
    files, rows = Counter(entry.status for entry in manifest.entries), Counter[Status]()
    for entry in manifest.entries:
        rows[entry.status] += entry.file.record_count or 0
    unknown = {entry.status for entry in manifest.entries if entry.file.record_count is None}
    for status, name in _COUNTED:
        for kind, actual in (("files", files[status]), ("rows", rows[status])):
            field = f"{name}_{kind}_count"
            recorded = getattr(line, field)
            is_missing = recorded is None and line.sequence_number > 0  # only optional in v1
            if (is_missing or recorded not in (None, actual)) and not (kind == "rows" and status in unknown):
                yield _list_breach(manifest, field, "no value" if is_missing else recorded, str(actual))


@rule("ICE-202", Severity.WARNING, Reads.MANIFEST, "iceberg 2.3")
def length(manifest: Manifest) -> Iterator[Breach]:
    """The manifest list has the correct length of a manifest.

    Hurts: Readers that only read that many bytes: they lose entries, or fail.
    Mends: manifest list: manifest_length
    """
    recorded, actual = manifest.line.length, manifest.size
    if recorded is not None and recorded != actual:
        yield _list_breach(manifest, "manifest_length", size_text(recorded), f"{actual:,} bytes")


@rule("ICE-203", Severity.ERROR, Reads.MANIFEST, "iceberg 3.6", "iceberg 3.9")
def summaries(manifest: Manifest) -> Iterator[Breach]:
    """Partition summaries include every partition value of a manifest's live files.

    Hurts: Readers that skip manifests by a filter on the partition: they lose rows without an error.
    Mends: manifest list: partitions of the manifest
    """
    recorded = manifest.line.partitions
    if recorded is None:
        return
    if len(recorded) != len(manifest.spec.fields):
        actual = f"spec {manifest.spec.id} has {len(manifest.spec.fields)} fields"
        yield _list_breach(manifest, "partitions", f"{len(recorded)} summaries", actual)
        return
    live = [entry.file.partition for entry in manifest.entries if entry.status is not Status.DELETED]
    distinct = {id(partition): partition for partition in live}.values()
    for field, summary in zip(manifest.spec.fields, recorded, strict=True):
        targets = [
            partition_target(field, source)
            for schema in manifest.columns.schemas
            for source in source_columns(field, schema)
        ]
        if targets and not isinstance(field.transform, Void | UnknownTransform):
            values = [partition.get(field.field_id) for partition in distinct]
            for statement, actual in _summary_faults(summary, targets[0], values):
                yield _list_breach(manifest, f"partitions/{field.name}", statement, actual)


def _summary_faults(summary: FieldSummary, target: dt.Field, values: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield contradictions between a summary and the values, at most one of each kind."""
    present = [value for value in values if value is not None and value == value]
    if not summary.contains_null and None in values:
        yield "contains_null is false", "a file has null"
    if summary.contains_nan is False and any(value is not None and value != value for value in values):
        yield "contains_nan is false", "a file has NaN"
    if present and summary.lower is None and summary.upper is None:
        yield "no bounds", f"a file has {present[0]!r}"
    lower, upper = (None if b is None else decode_bound(target.type, b) for b in (summary.lower, summary.upper))
    for name, bound, decoded in (("lower_bound", summary.lower, lower), ("upper_bound", summary.upper, upper)):
        if bound is not None and decoded is None:
            yield f"{name} {bound.hex()}", f"not a value of {target.type}"
    if present and lower is not None and min(present) < lower:
        yield f"lower_bound {lower!r}", f"a file has {min(present)!r}"
    if present and upper is not None and max(present) > upper:
        yield f"upper_bound {upper!r}", f"a file has {max(present)!r}"


@rule("ICE-204", Severity.WARNING, Reads.MANIFEST, "iceberg 2.4", "iceberg 2.22")
def header(manifest: Manifest) -> Iterator[Breach]:
    """A manifest's header agrees with its line in the manifest list.

    Hurts: Readers that use the header: they treat deletes as data, or use the partition values of another spec.
    Mends: manifest: its header; manifest list: content, partition_spec_id
    """
    expected = {
        "content": ["deletes" if manifest.line.is_deletes else "data"],
        "partition-spec-id": [str(manifest.spec.id)],
        "format-version": [str(version) for version in range(1, manifest.table.metadata.format_version + 1)],
    }
    is_v1 = manifest.line.sequence_number == 0  # from before an upgrade
    required = ["schema", "partition-spec", "partition-spec-id"] + ([] if is_v1 else ["content", "format-version"])
    missing = [key for key in required if key not in manifest.header]
    faults = [(key, "no value", "the header must have it") for key in missing[:1]]
    for key, data in manifest.header.items():
        text, fault = data.decode("utf-8", "replace"), None
        if key in expected:
            fault = None if text in expected[key] else " or ".join(expected[key])
        elif key in ("schema", "partition-spec"):
            fault = (_schema_fault if key == "schema" else _spec_fault)(manifest, text)
        faults += [] if fault is None else [(key, f"{text:.60}", fault)]
    for key, recorded, actual in faults:
        yield Breach(manifest.place(field=key), recorded, actual, manifest.writer)


def _schema_fault(manifest: Manifest, text: str) -> str | None:
    """Return why the schema in a header is not one of the table's schemas, or None."""
    schema, schemas = _header_schema(text), manifest.table.metadata.schemas
    if schema is None:
        return "not a table schema"
    recorded = schemas.get(schema.id) if '"schema-id"' in text else None
    if recorded is not None and recorded.by_id().keys() != schema.by_id().keys():
        return f"schema {schema.id} of the table has other columns: {', '.join(recorded.names())}"
    columns = [each.by_id() for each in schemas.values()]
    for _, column in schema.walk():
        types = [fields[column.id][1].type for fields in columns if column.id in fields]
        if types and not any(
            isinstance(type_, dt.OpaqueType) or is_compatible_type(type_, column.type) for type_ in types
        ):
            return f"id {column.id} is of type {types[0]} in the table"
    return None


@lru_cache(maxsize=64)
def _header_schema(text: str) -> dt.Schema | None:
    """Parse the schema in a manifest's header, or return None. Cached, because manifests repeat few texts."""
    try:
        return parse_schema(json.loads(text))
    except (ValueError, RecursionError, HarnessError):
        return None


def _spec_fault(manifest: Manifest, text: str) -> str | None:
    """Return why the partition spec in a header differs from the spec in the list, or None."""
    try:
        header_spec = parse_header_spec(text, manifest.spec.id, file=manifest.line.path)
    except HarnessError:
        return "not a partition spec"
    meanings = [
        [(each.source_ids, str(each.transform)) for each in spec.fields] for spec in (header_spec, manifest.spec)
    ]
    return None if meanings[0] == meanings[1] else f"spec {manifest.spec.id} of the table differs"


@rule("ICE-205", Severity.ERROR, Reads.MANIFEST, "iceberg 2.9", "iceberg 2.10")
def inherited_sequence_numbers(manifest: Manifest) -> Iterator[Breach]:
    """An added file has its manifest's sequence number, and no file has a higher one.

    Hurts: Readers of deletes: deletes apply to files that they should not delete from, or miss files.
    Mends: manifest: sequence_number and file_sequence_number of the entry; manifest list: min_sequence_number
    """
    number = manifest.line.sequence_number
    if number == 0:  # of v1, or from before an upgrade
        return
    live = [entry for entry in manifest.entries if entry.status is not Status.DELETED]
    for entry in live:
        recorded = entry.file_sequence_number
        if entry.status is Status.ADDED and recorded != number:
            yield _entry_breach(manifest, entry, "file_sequence_number", recorded, f"added by sequence number {number}")
        if entry.sequence_number > number:
            actual = f"the manifest's number is {number}"
            yield _entry_breach(manifest, entry, "sequence_number", entry.sequence_number, actual)
    least = min((entry.sequence_number for entry in live), default=None)
    if least is not None and manifest.line.min_sequence_number > least:
        yield _list_breach(manifest, "min_sequence_number", manifest.line.min_sequence_number, f"a file has {least}")


@rule("ICE-208", Severity.ERROR, Reads.MANIFEST, "iceberg 2.6", "iceberg 2.9")
def sequence_of_snapshot(manifest: Manifest) -> Iterator[Breach]:
    """A manifest has the sequence number of the snapshot that added it, which also added or deleted its files.

    Hurts: Readers of changes between snapshots, and of deletes: they assign files to the wrong snapshot.
    Mends: manifest list: added_snapshot_id, sequence_number; manifest: snapshot_id of the entry
    """
    line, snapshots = manifest.line, manifest.table.metadata.snapshots
    owner = snapshots.get(line.added_snapshot_id or NO_SNAPSHOT)
    if owner is not None and owner.sequence_number != line.sequence_number:
        actual = f"snapshot {owner.id} has {owner.sequence_number}"
        yield _list_breach(manifest, "sequence_number", line.sequence_number, actual)
    for other in snapshots.values() if owner is None and line.sequence_number else ():  # 0 means v1
        if other.sequence_number == line.sequence_number:
            actual = f"sequence number {line.sequence_number} is of snapshot {other.id}"
            yield _list_breach(manifest, "added_snapshot_id", line.added_snapshot_id, actual)
    for entry in manifest.entries if manifest.list_path is not None else ():  # v1 names no list
        if entry.status is not Status.EXISTING and entry.snapshot_id not in (None, line.added_snapshot_id):
            actual = f"{entry.status.name.lower()} by a manifest of snapshot {line.added_snapshot_id}"
            yield _entry_breach(manifest, entry, "snapshot_id", entry.snapshot_id, actual)


@rule("ICE-209", Severity.WARNING, Reads.MANIFEST, "iceberg 1.28")
def operation(manifest: Manifest) -> Iterator[Breach]:
    """An append only adds data files, and a delete adds none.

    Hurts: Readers of appended rows: they read rows of other operations as new ones, or miss that rows are gone.
    Mends: metadata file: operation in the summary of the snapshot
    """
    owner = manifest.table.metadata.snapshots.get(manifest.line.added_snapshot_id or NO_SNAPSHOT)
    if owner is None or owner.operation not in ("append", "delete"):
        return
    for entry in manifest.entries:
        is_data, status = entry.file.content is Content.DATA, entry.status
        is_against = status is Status.ADDED and is_data == (owner.operation == "delete")
        is_against |= status is Status.DELETED and owner.operation == "append"
        if entry.snapshot_id == owner.id and is_against:
            reason = f"{status.name.lower()} by snapshot {owner.id}, whose operation is {owner.operation}"
            yield _entry_breach(manifest, entry, "status", "a data file" if is_data else "a delete file", reason)
            return


@rule("ICE-206", Severity.ERROR, Reads.MANIFEST, "iceberg 3.19")
def possible_counts(manifest: Manifest) -> Iterator[Breach]:
    """Counts of values, nulls, and NaN in a column are possible: not negative, and not above the rows or values.

    Hurts: Readers that skip files without nulls or without values: they lose rows without an error.
    Mends: manifest: value_counts, null_value_counts, nan_value_counts of the entry
    """
    nested = manifest.columns.repeated
    for entry in manifest.entries:
        file, rows = entry.file, entry.file.record_count
        if entry.status is Status.DELETED or rows is None:
            continue
        values: Mapping[int, int] = file.value_counts or {}
        for key, number in values.items():
            # Values in lists and maps are counted by element. ORC does not count values inside a null struct.
            path, _ = manifest.columns.fields.get(key, ((), None))
            if number < 0 or (key not in nested and number > rows) or (len(path) == 1 and number != rows):
                yield _entry_breach(manifest, entry, "value_counts", number, f"the file has {rows:,} rows", key)
        for name, numbers in (
            ("null_value_counts", file.null_value_counts),
            ("nan_value_counts", file.nan_value_counts),
        ):
            for key, number in (numbers or {}).items():
                most = values.get(key, rows if key not in nested else number)
                if number < 0 or number > most:
                    yield _entry_breach(manifest, entry, name, number, f"there are {most:,} values", key)


@rule("ICE-207", Severity.ERROR, Reads.MANIFEST, "iceberg 3.22", "iceberg 3.25")
def bounds(manifest: Manifest) -> Iterator[Breach]:
    """Bounds of a column can be decoded, and the lower bound is not above the upper bound.

    Hurts: Readers that skip files by bounds: they lose rows without an error, or fail.
    Mends: manifest: lower_bounds, upper_bounds of the entry
    """
    types = {id_: f.type for id_, (_, f) in manifest.columns.fields.items() if not isinstance(f.type, _NO_BOUNDS)}
    for entry in manifest.entries:
        if entry.status is Status.DELETED:
            continue
        lower, upper = entry.file.lower_bounds or {}, entry.file.upper_bounds or {}
        for key in {*lower, *upper} & types.keys():
            pair = {}
            for name, bound in (("lower_bounds", lower.get(key)), ("upper_bounds", upper.get(key))):
                pair[name] = None if bound is None else decode_bound(types[key], bound)
                if bound is not None and pair[name] is None:
                    yield _entry_breach(manifest, entry, name, bound.hex(), f"not a value of {types[key]}", key)
            low, high = pair["lower_bounds"], pair["upper_bounds"]
            if low is not None and high is not None and low > high:
                yield _entry_breach(manifest, entry, "lower_bounds", repr(low), f"the upper bound is {high!r}", key)


@rule("ICE-210", Severity.WARNING, Reads.MANIFEST, "iceberg 3.22")
def short_decimals(manifest: Manifest) -> Iterator[Breach]:
    """Bounds of decimals have the minimum number of bytes.

    Hurts: Strict readers and catalogs, which refuse the manifest.
    Mends: manifest: lower_bounds, upper_bounds of the entry
    """
    decimals = [id_ for id_, (_, f) in manifest.columns.fields.items() if isinstance(f.type, dt.DecimalType)]
    for entry in manifest.entries if decimals else ():
        for name, bounds_ in (("lower_bounds", entry.file.lower_bounds), ("upper_bounds", entry.file.upper_bounds)):
            for key in decimals:
                bound = (bounds_ or {}).get(key, b"")
                value = int.from_bytes(bound, "big", signed=True)
                fewest = (value if value >= 0 else ~value).bit_length() // 8 + 1
                if len(bound) > fewest:
                    yield _entry_breach(manifest, entry, name, bound.hex(), f"{counted(fewest, 'byte')} suffice", key)


@rule("ICE-221", Severity.ERROR, Reads.SNAPSHOT, "iceberg 2.13")
def duplicates(files: SnapshotFiles) -> Iterator[Breach]:
    """A snapshot lists each live data file once.

    Hurts: All readers: its rows appear twice, or the read is refused.
    Mends: manifests: all entries of the file but one
    """
    entries: dict[str, ManifestEntry] = {}
    for entry in files.live:
        first = entries.setdefault(entry.file.path, entry) if entry.file.content is Content.DATA else entry
        if first is not entry:
            yield files.breach(entry, "file_path", None, f"also live in {first.manifest}")


@rule("ICE-222", Severity.ERROR, Reads.SNAPSHOT, "iceberg 2.11")
def file_row_ids(files: SnapshotFiles) -> Iterator[Breach]:
    """The row ids of data files do not overlap, belong to their snapshot, and stay below next-row-id.

    Hurts: Readers of row lineage: two rows have the same id.
    Mends: manifest list and manifests: first_row_id
    """
    snapshot, last = files.snapshot, files.table.metadata.next_row_id
    for line in files.manifests if snapshot.first_row_id is not None else ():
        place = Place(file=snapshot.manifest_list or files.table.metadata.file, entry=line.path, field="first_row_id")
        first, rows = line.first_row_id, (line.added_rows_count or 0) + (line.existing_rows_count or 0)
        if first is None:
            if not line.is_deletes:
                yield Breach(place, "no value", f"the snapshot assigns ids from {snapshot.first_row_id}")
        elif line.added_snapshot_id == snapshot.id and snapshot.added_rows is not None:
            end = (snapshot.first_row_id or 0) + snapshot.added_rows
            if not (snapshot.first_row_id or 0) <= first <= first + rows <= end:
                actual = f"the snapshot assigns ids from {snapshot.first_row_id} to {end - 1}"
                yield Breach(place, f"{first} and {rows} rows", actual)
    with_ids = [e for e in files.live if e.file.first_row_id is not None and e.file.content is Content.DATA]
    with_ids.sort(key=lambda entry: entry.file.first_row_id or 0)
    ranges = ((e.file.first_row_id or 0, e.file.record_count or 0, files.place(e, "first_row_id")) for e in with_ids)
    yield from row_id_ranges(ranges, last, f"next-row-id is {last}")


@rule("ICE-223", Severity.NOTE, Reads.SNAPSHOT, "iceberg 1.28")
def totals(files: SnapshotFiles) -> Iterator[Breach]:
    """The numbers in a snapshot's summary match its live files and the files that it added.

    Hurts: People, and optimizers that use counts from the summary.
    Mends: metadata file: summary of the snapshot
    """
    added = [e for e in files.live if e.status is Status.ADDED and e.snapshot_id == files.snapshot.id]
    numbers = {f"total-{key}": number for key, number in _numbers(files.live).items()}
    numbers |= {f"added-{key}": number for key, number in _numbers(added).items()}
    for key, number in numbers.items():
        recorded = files.snapshot.summary.get(key)
        if recorded is not None and recorded != str(number):
            yield files.table.breach(f"summary/{key}", recorded, str(number), files.snapshot.id)


@rule("ICE-225", Severity.ERROR, Reads.SNAPSHOT, "iceberg 1.28", "iceberg 2.6")
def kept_files(files: SnapshotFiles) -> Iterator[Breach]:
    """An append keeps the data files of its parent snapshot.

    Hurts: All readers: rows are missing that were never deleted.
    Mends: a new snapshot that adds the files again; or the operation in the summary of the snapshot
    """
    snapshot, table = files.snapshot, files.table
    parent = table.metadata.snapshots.get(snapshot.parent_id or NO_SNAPSHOT)
    is_older = parent is not None and parent.sequence_number <= snapshot.sequence_number
    if parent is not None and is_older and snapshot.operation == "append":
        for path in sorted(table.data_files(parent) - {entry.file.path for entry in files.live}):
            actual = f"live in snapshot {parent.id}, and not here"
            yield table.breach("manifest-list", "append", actual, snapshot.id, path)


def _numbers(entries: Sequence[ManifestEntry]) -> dict[str, int]:
    """Count files and rows by the keys used in summaries."""
    rows: Counter[Content] = Counter()
    for entry in entries:
        rows[entry.file.content] += entry.file.record_count or 0
    data = sum(entry.file.content is Content.DATA for entry in entries)
    files = {"data-files": data, "delete-files": len(entries) - data}
    if any(entry.file.record_count is None for entry in entries):
        return files
    return files | {
        "records": rows[Content.DATA],
        "position-deletes": rows[Content.POSITION_DELETES],
        "equality-deletes": rows[Content.EQUALITY_DELETES],
    }


def _list_breach(manifest: Manifest, field: str, recorded: object, actual: str) -> Breach:
    return Breach(manifest.listed(field), str(recorded), actual, manifest.writer)


def _entry_breach(
    manifest: Manifest, entry: ManifestEntry, field: str, recorded: object, actual: str, key: int | None = None
) -> Breach:
    column = None if key is None else manifest.columns.name(key)
    place = manifest.place(entry, field=field, column=column)
    return Breach(place, str(recorded), actual, manifest.table.writer(entry.snapshot_id))
