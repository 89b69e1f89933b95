"""Rules about an Iceberg metadata file: ids, references, lineage, and logs (iceberg 1.7 to 1.37)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from harness.check.iceberg import CheckedIceberg, is_compatible_type
from harness.check.rules import Breach, Place, Reads, Severity, decoding_breach, rule
from harness.errors import HarnessError, counted
from harness.metadata.iceberg.metadata import NO_SNAPSHOT, OUT_OF_ORDER_MS
from harness.metadata.iceberg.model import IcebergSnapshot, PartitionField, RefType, SortField
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.types import NAME_MAPPING, parse_name_mapping
from harness.metadata.model.file_schema import MappedName
from harness.metadata.model.schema import Field, FloatType, children
from harness.metadata.model.times import show_ms


@rule("ICE-001", Severity.ERROR, Reads.ERROR, "iceberg 1.17", "iceberg 2.2", "iceberg 2.6")
def undecodable(error: HarnessError) -> Iterator[Breach]:
    """The table's files can be decoded as the specification requires.

    Hurts: All readers: they fail, or treat the damage as data.
    Mends: the file in the finding; restore it, or roll back to a snapshot without it
    """
    yield decoding_breach(Place(file=error.file or error.table or "the table", field=error.field), error)


@rule("ICE-101", Severity.WARNING, Reads.TABLE, "iceberg 1.17")
def required(table: CheckedIceberg) -> Iterator[Breach]:
    """The metadata file has the fields that its format version requires.

    Hurts: Strict readers, which refuse the table.
    Mends: metadata file: the missing fields
    """
    for key in table.metadata.missing:
        yield Breach(Place(file=table.metadata.file, field=f"/{key}"), "no value")


@rule("ICE-102", Severity.WARNING, Reads.TABLE, "iceberg 1.17")
def last_column(table: CheckedIceberg) -> Iterator[Breach]:
    """last-column-id is the highest column id in any schema.

    Hurts: The next writer: a new column gets an id that files already use, and shows another column's values.
    Mends: metadata file: last-column-id
    """
    used = (f.id for schema in table.metadata.schemas.values() for _, f in schema.walk())
    yield from _low_id_breaches(table, "last-column-id", used)


@rule("ICE-103", Severity.WARNING, Reads.TABLE, "iceberg 1.17")
def last_partition(table: CheckedIceberg) -> Iterator[Breach]:
    """last-partition-id is the highest id of a partition field in any spec.

    Hurts: The next writer: a new partition field gets an id that manifests already use.
    Mends: metadata file: last-partition-id
    """
    used = (f.field_id for spec in table.metadata.specs.values() for f in spec.fields)
    yield from _low_id_breaches(table, "last-partition-id", used)


@rule("ICE-104", Severity.WARNING, Reads.TABLE, "iceberg 1.17")
def defaults(table: CheckedIceberg) -> Iterator[Breach]:
    """The default spec and the default sort order exist.

    Hurts: Writers and strict readers, which refuse the table.
    Mends: metadata file: default-spec-id, default-sort-order-id
    """
    metadata = table.metadata
    for key, id_, ids in (
        ("default-spec-id", metadata.default_spec_id, metadata.specs),
        ("default-sort-order-id", metadata.default_sort_order_id, metadata.sort_orders),
    ):
        if id_ not in ids:
            yield table.breach(key, str(id_), f"there are {', '.join(map(str, ids))}")


@rule("ICE-105", Severity.WARNING, Reads.TABLE, "iceberg 1.21")
def sources(table: CheckedIceberg) -> Iterator[Breach]:
    """The default spec and sort order use columns of the current schema, and older ones use columns of any schema.

    Hurts: Readers that bind every spec fail. A filter on the partition may apply to the wrong column.
    Mends: metadata file: source-id of the field
    """
    metadata = table.metadata
    ever = {f.id for schema in metadata.schemas.values() for _, f in schema.walk()}
    now = {f.id for _, f in metadata.current_schema.walk()}
    groups: tuple[tuple[str, int, dict[int, tuple[PartitionField | SortField, ...]]], ...] = (
        ("partition-specs", metadata.default_spec_id, {s.id: s.fields for s in metadata.specs.values()}),
        ("sort-orders", metadata.default_sort_order_id, {o.id: o.fields for o in metadata.sort_orders.values()}),
    )
    for key, default, every in groups:
        for id_, fields in every.items():
            # Dropping a column does not change older specs.
            columns = now if id_ == default else ever
            for field in fields:
                missing = [source for source in field.source_ids if source not in columns]
                if missing and not isinstance(field.transform, Void):
                    yield table.breach(f"{key}/{id_}", f"source {missing[0]}", "no column")


@rule("ICE-106", Severity.ERROR, Reads.TABLE, "iceberg 1.26")
def sequence_numbers(table: CheckedIceberg) -> Iterator[Breach]:
    """A snapshot's sequence number is unique, above its parent's, and at most last-sequence-number.

    Hurts: Readers of deletes: sequence numbers decide which files a delete applies to.
    Mends: metadata file: sequence-number of the snapshot, last-sequence-number
    """
    metadata, last = table.metadata, table.metadata.last_sequence_number
    if metadata.format_version == 1:
        return
    owners: dict[int, IcebergSnapshot] = {}
    for snapshot in metadata.snapshots.values():
        number, parent = snapshot.sequence_number, metadata.snapshots.get(snapshot.parent_id or NO_SNAPSHOT)
        if number > last:
            yield table.breach("sequence-number", str(number), f"last-sequence-number is {last}", snapshot.id)
        # All snapshots from before an upgrade to v2 have 0.
        if parent is not None and 0 < number <= parent.sequence_number:
            actual = f"its parent {parent.id} has {parent.sequence_number}"
            yield table.breach("sequence-number", str(number), actual, snapshot.id)
        other = owners.setdefault(number, snapshot)
        if other is not snapshot and number > 0:
            yield table.breach("sequence-number", str(number), f"snapshot {other.id} also has it", snapshot.id)


@rule("ICE-107", Severity.WARNING, Reads.TABLE, "iceberg 1.26")
def lineage(table: CheckedIceberg) -> Iterator[Breach]:
    """Parents of a snapshot form no cycle, and no parent is younger by more than a minute.

    Hurts: Incremental reads and expiry, which follow parents.
    Mends: metadata file: parent-snapshot-id, timestamp-ms
    """
    snapshots = table.metadata.snapshots
    for snapshot in snapshots.values():
        visited, ancestor = {snapshot.id}, snapshots.get(snapshot.parent_id or NO_SNAPSHOT)
        if ancestor is not None and ancestor.timestamp_ms > snapshot.timestamp_ms + OUT_OF_ORDER_MS:
            actual = f"its parent {ancestor.id} has the time {show_ms(ancestor.timestamp_ms)}"
            yield table.breach("parent-snapshot-id", show_ms(snapshot.timestamp_ms), actual, snapshot.id)
        while ancestor is not None and ancestor.id not in visited:
            visited.add(ancestor.id)
            ancestor = snapshots.get(ancestor.parent_id or NO_SNAPSHOT)
        if ancestor is not None and ancestor.id == snapshot.id:
            yield table.breach("parent-snapshot-id", str(snapshot.parent_id), "its own ancestor", snapshot.id)


@rule("ICE-108", Severity.ERROR, Reads.TABLE, "iceberg 1.33")
def log_end(table: CheckedIceberg) -> Iterator[Breach]:
    """The snapshot log ends at the current snapshot.

    Hurts: Reads by time: they return an older state than the table had.
    Mends: metadata file: snapshot-log
    """
    log, current = table.metadata.snapshot_log, table.metadata.current_snapshot_id
    if log and log[-1].snapshot_id != current:
        yield table.breach("snapshot-log", str(log[-1].snapshot_id), f"the current one is {current}")


@rule("ICE-109", Severity.WARNING, Reads.TABLE, "iceberg 1.8", "iceberg 1.34")
def log_order(table: CheckedIceberg) -> Iterator[Breach]:
    """The snapshot log, the metadata log, and last-updated-ms are in order of time and not before their snapshots.

    Hurts: Java readers, which refuse the table, and reads by time.
    Mends: metadata file: snapshot-log, metadata-log, last-updated-ms
    """
    metadata = table.metadata
    current = metadata.current_snapshot
    for key, times in (
        ("current-snapshot-id", [] if current is None else [current.timestamp_ms]),
        ("snapshot-log", [entry.timestamp_ms for entry in metadata.snapshot_log]),
        ("metadata-log", [entry.timestamp_ms for entry in metadata.metadata_log]),
    ):
        updated = [] if metadata.last_updated_ms is None else [metadata.last_updated_ms]
        for index, (earlier, later) in enumerate(pairwise([*times, *updated])):
            if later < earlier - OUT_OF_ORDER_MS:
                where = f"{key}/{index + 1}" if index + 1 < len(times) else "last-updated-ms"
                yield table.breach(where, show_ms(later), f"the entry before it has {show_ms(earlier)}")
    for index, entry in enumerate(metadata.snapshot_log):
        snapshot = metadata.snapshots.get(entry.snapshot_id)
        if snapshot is not None and entry.timestamp_ms < snapshot.timestamp_ms - OUT_OF_ORDER_MS:
            actual = f"its snapshot has the time {show_ms(snapshot.timestamp_ms)}"
            yield table.breach(f"snapshot-log/{index}", show_ms(entry.timestamp_ms), actual)


@rule("ICE-110", Severity.ERROR, Reads.TABLE, "iceberg 1.25")
def refs(table: CheckedIceberg) -> Iterator[Breach]:
    """Branches, tags, and the current snapshot refer to existing snapshots, and main is a branch.

    Hurts: Readers of that branch or tag, which fail. Java readers refuse the whole table.
    Mends: metadata file: refs
    """
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_id not in table.metadata.snapshots:
            yield table.breach(f"refs/{name}", str(ref.snapshot_id), "no such snapshot")
        if name == "main" and ref.type is not RefType.BRANCH:
            yield table.breach("refs/main/type", ref.type.value, "main is a branch")


@rule("ICE-111", Severity.WARNING, Reads.TABLE, "iceberg 1.37")
def retention(table: CheckedIceberg) -> Iterator[Breach]:
    """Retention settings of branches and tags are positive, and tags have no setting for snapshots.

    Hurts: Maintenance, which may expire too much or nothing.
    Mends: metadata file: refs
    """
    for name, ref in table.metadata.refs.items():
        for key in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"):
            value, is_for_tags = getattr(ref, key), key == "max_ref_age_ms"
            if value is not None and (value <= 0 or (ref.type is RefType.TAG and not is_for_tags)):
                yield table.breach(f"refs/{name}/{key.replace('_', '-')}", str(value), f"of a {ref.type.value}")


@rule("ICE-112", Severity.ERROR, Reads.TABLE, "iceberg 1.35")
def snapshot_schemas(table: CheckedIceberg) -> Iterator[Breach]:
    """A snapshot's schema is one of the table's schemas.

    Hurts: Time travel: the read fails, or uses the current schema instead of the former one.
    Mends: metadata file: schemas, schema-id of the snapshot
    """
    schemas = table.metadata.schemas
    for snapshot in table.metadata.snapshots.values():
        if snapshot.schema_id is not None and snapshot.schema_id not in schemas:
            actual = f"there are {', '.join(map(str, schemas))}"
            yield table.breach("schema-id", str(snapshot.schema_id), actual, snapshot.id)


@rule("ICE-114", Severity.ERROR, Reads.TABLE, "iceberg 2.11")
def row_ids(table: CheckedIceberg) -> Iterator[Breach]:
    """The row ids of snapshots do not overlap, and next-row-id is above them.

    Hurts: Readers of row lineage: two rows have the same id.
    Mends: metadata file: next-row-id, first-row-id and added-rows of the snapshot
    """
    snapshots, last = table.metadata.snapshots.values(), table.metadata.next_row_id
    ranges_ = ((s.first_row_id, s.added_rows or 0, s.id) for s in snapshots if s.first_row_id is not None)
    ranges = [(first, first + rows, id_) for first, rows, id_ in sorted(ranges_)]
    for (_, end, before), (first, _, id_) in pairwise(ranges):
        if first < end:
            yield table.breach("first-row-id", str(first), f"snapshot {before} has ids up to {end - 1}", id_)
    highest = max((end for _, end, _ in ranges), default=0)
    if last is not None and last < highest:
        yield table.breach("next-row-id", str(last), f"at least {highest}")


@rule("ICE-115", Severity.NOTE, Reads.TABLE, "iceberg 1.8", "iceberg 1.18", "iceberg 1.29")
def undecodable_parts(table: CheckedIceberg) -> Iterator[Breach]:
    """Parts of the metadata that reads do not need can also be decoded.

    Hurts: Strict readers, which refuse the table.
    Mends: metadata file: the part in the finding
    """
    for sentence in table.metadata.ignored:
        yield Breach(Place(file=table.metadata.file), detail=sentence)


@rule("ICE-116", Severity.WARNING, Reads.TABLE, "iceberg 1.19", "iceberg 1.23")
def partition_ids(table: CheckedIceberg) -> Iterator[Breach]:
    """A partition field has a unique name in its spec and a unique id in all specs.

    Hurts: Readers of the partitions and files metadata tables: they confuse the values of two partition fields, or
    fail.
    Mends: metadata file: partition-specs
    """
    meanings: dict[int, tuple[object, ...]] = {}
    for spec in table.metadata.specs.values():
        names: set[str] = set()
        for field in spec.fields:
            place = f"partition-specs/{spec.id}/{field.field_id}"
            if field.name in names:
                yield table.breach(place, f"name {field.name}", "another field of the spec has it")
            names.add(field.name)
            # Specs of version 1 number their fields from the start, and an upgrade does not change that.
            meaning = (field.source_ids, str(field.transform))
            first = meanings.setdefault(field.field_id, meaning)
            is_void = "void" in (first[1], meaning[1])
            if first != meaning and not is_void and table.metadata.format_version > 1:
                actual = f"id {field.field_id} is of {first[1]} of source {first[0]} too"
                yield table.breach(place, f"{meaning[1]} of source {meaning[0]}", actual)


@rule("ICE-117", Severity.NOTE, Reads.TABLE, "iceberg 1.23", "iceberg 5.12")
def column_ids(table: CheckedIceberg) -> Iterator[Breach]:
    """A column id keeps its type in all schemas, except for promotions, unless the table was replaced.

    Hurts: Readers of older snapshots that do not use the schema of that time: they return other values, or fail.
    Mends: metadata file: schemas; a new column takes a new id
    """
    columns: dict[int, Field] = {}
    for schema in table.metadata.schemas.values():
        for path, field in schema.walk():
            before = columns.setdefault(field.id, field)
            if not is_compatible_type(before.type, field.type):
                place = Place(file=table.metadata.file, field=f"/schemas/{schema.id}/{field.id}", column=".".join(path))
                yield Breach(place, str(field.type), f"id {field.id} had type {before.type}")


@rule("ICE-118", Severity.WARNING, Reads.TABLE, "iceberg 5.20")
def identifiers(table: CheckedIceberg) -> Iterator[Breach]:
    """Identifier fields are required columns of the schema and not floats.

    Hurts: Engines that update rows by these columns: they fail, or confuse several rows.
    Mends: metadata file: identifier-field-ids of the schema
    """
    for schema in table.metadata.schemas.values():
        columns = schema.by_id()
        for id_ in schema.identifier_field_ids:
            _, field = columns.get(id_, ((), None))
            if field is None or not field.required or isinstance(field.type, FloatType):
                actual = "no column" if field is None else f"{'' if field.required else 'optional '}{field.type}"
                yield table.breach(f"schemas/{schema.id}/identifier-field-ids", str(id_), actual)


@rule("ICE-120", Severity.WARNING, Reads.TABLE, "iceberg 5.7")
def name_mapping(table: CheckedIceberg) -> Iterator[Breach]:
    """The name mapping maps each column's name to its own id, and includes the fields of nested columns.

    Hurts: Readers of files without field ids: a column shows another column's values, or nulls.
    Mends: metadata file: properties/schema.name-mapping.default
    """
    text = table.metadata.properties.get(NAME_MAPPING)
    if text is None:
        return
    place = Place(file=table.metadata.file, field=f"/properties/{NAME_MAPPING}")
    try:
        mapping = parse_name_mapping(text)
    except HarnessError as error:
        yield decoding_breach(place, error)
        return
    yield from _unmapped(table.metadata.current_schema.fields, mapping.fields, (), place)


def _unmapped(
    fields: tuple[Field, ...], entries: tuple[MappedName, ...], above: tuple[str, ...], place: Place
) -> Iterator[Breach]:
    """Yield the errors in one level of a mapping and in the levels below it."""
    by_name = {name: entry for entry in entries for name in entry.names}
    by_id = {entry.field_id: entry for entry in entries}
    for field in fields:
        path = (*above, field.name)
        of_column = replace(place, column=".".join(path))
        entry_by_name = by_name.get(field.name)
        if entry_by_name is not None and entry_by_name.field_id != field.id:
            yield Breach(of_column, f"field-id {entry_by_name.field_id}", f"the column's id is {field.id}")
        inside, entry = children(field.type), by_id.get(field.id)
        if entry is None or not inside:
            continue
        if not entry.fields:
            yield Breach(of_column, "no fields", f"the column has {counted(len(inside), 'field')} inside")
        else:
            yield from _unmapped(inside, entry.fields, path, place)


def _low_id_breaches(table: CheckedIceberg, key: str, used: Iterator[int]) -> Iterator[Breach]:
    recorded: object = table.document.value.get(key)
    # Ids from 2147483447 on are reserved for metadata columns, which are in no schema.
    highest = max(used, default=0)
    if type(recorded) is int and recorded < highest:
        yield table.breach(key, str(recorded), f"at least {highest}")
