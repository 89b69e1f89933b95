"""Rules about the deletes of a snapshot: entries, deletion vectors, and scope (iceberg 4.1 to 4.24)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.check.iceberg import SnapshotFiles
from harness.check.rules import Breach, Reads, Severity, decoding_breach, rule
from harness.errors import HarnessError
from harness.metadata.deletes.puffin import PuffinFile, open_puffin, read_deletion_vector
from harness.metadata.iceberg.delete_scope import DeleteScope, check_entry, path_bounds, vector_of
from harness.metadata.iceberg.manifests import Content, ManifestEntry
from harness.metadata.iceberg.planned_deletes import key_columns
from harness.storage.paths import RecordedPath


@rule("ICE-301", Severity.ERROR, Reads.SNAPSHOT, "iceberg 4.16", "iceberg 4.17", "iceberg 4.23")
def complete_entries(files: SnapshotFiles) -> Iterator[Breach]:
    """The entry of a delete file has all values that its kind requires, and its keys are columns.

    Hurts: All readers: they fail, or return deleted rows.
    Mends: manifest: the entry of the delete file; or rewrite the delete
    """
    for entry in _deletes(files):
        try:
            check_entry(entry, files.table.metadata.format_version)
            if entry.file.content is Content.EQUALITY_DELETES:
                key_columns(
                    entry.file.equality_ids or (), files.table.columns_of(files.snapshot).schemas, file=entry.file.path
                )
        except HarnessError as error:
            yield _entry_decoding_breach(files, entry, error)


@rule("ICE-302", Severity.ERROR, Reads.SNAPSHOT, "iceberg 4.21")
def one_vector(files: SnapshotFiles) -> Iterator[Breach]:
    """A data file has at most one deletion vector.

    Hurts: All readers: it is undefined which rows are deleted.
    Mends: manifests: all vectors of the data file but one
    """
    vectors_: dict[str, ManifestEntry] = {}
    for entry in _vectors(files):
        target = str(entry.file.referenced_data_file)
        first = vectors_.setdefault(target, entry)
        if first is not entry:
            actual = f"{first.file.path} at {first.file.content_offset} too"
            yield files.breach(entry, "referenced_data_file", target, actual)


@rule("ICE-303", Severity.ERROR, Reads.SNAPSHOT, "iceberg 4.3", "iceberg 4.4")
def scope(files: SnapshotFiles) -> Iterator[Breach]:
    """A delete for one data file has the file's partition and is not older than the file.

    Hurts: Readers disagree: some apply the delete, some ignore it, and some fail.
    Mends: manifest: sequence_number, partition and spec of the delete's entry; or rewrite the delete
    """
    rules = DeleteScope(partition_of=lambda file: (file.spec_id, *_tuple(file.partition)), specs=files.specs)
    data = {entry.file.path: entry for entry in files.live if entry.file.content is Content.DATA}
    for entry in _deletes(files):
        target_path = entry.file.referenced_data_file
        target = None if target_path is None else data.get(target_path)
        if target is None or entry.file.content is Content.EQUALITY_DELETES:
            continue
        try:
            if entry.file.format == "puffin":
                rules.check_vector(entry, target)
            else:
                rules.check_target(entry.file, target.file)
        except HarnessError as error:
            yield _entry_decoding_breach(files, entry, error)


@rule("ICE-304", Severity.ERROR, Reads.SNAPSHOT, "iceberg 4.17", "iceberg 4.18", "iceberg 4.19", "iceberg 4.22")
def vectors(files: SnapshotFiles) -> Iterator[Breach]:
    """A deletion vector has the recorded length, checksum, and number of positions, all within its file.

    Hurts: All readers: they fail, or delete other rows if they do not verify checksums.
    Mends: Puffin file: rewrite the vector; manifest: record_count, content_offset, content_size_in_bytes
    """
    rows = {entry.file.path: entry.file.record_count for entry in files.live if entry.file.content is Content.DATA}
    opened: dict[str, PuffinFile] = {}
    for entry in _vectors(files):
        if entry.file.content_offset is None or entry.file.content_size is None:
            continue  # ICE-301
        try:
            puffin = opened.get(entry.file.path)
            if puffin is None:
                puffin = open_puffin(files.table.storage, files.table.physical(entry.file.path), file=entry.file.path)
                opened[entry.file.path] = puffin
                if entry.file.size not in (None, puffin.size):
                    recorded, actual = f"{entry.file.size:,} bytes", f"{puffin.size:,} bytes"
                    yield files.breach(entry, "file_size_in_bytes", recorded, actual)
            vector, target = vector_of(entry.file, puffin.physical), entry.file.referenced_data_file
            count = None if target is None else rows.get(target)
            read_deletion_vector(puffin, vector, target=target, data_record_count=count)
        except HarnessError as error:
            yield _entry_decoding_breach(files, entry, error)


@rule("ICE-305", Severity.NOTE, Reads.SNAPSHOT, "iceberg 4.7", "iceberg 4.8")
def dangling(files: SnapshotFiles) -> Iterator[Breach]:
    """A delete applies to a live data file.

    Hurts: No reader; reading the delete is wasted work.
    Mends: manifests: remove the delete
    """
    data = [entry for entry in files.live if entry.file.content is Content.DATA]
    paths = {entry.file.path for entry in data}
    oldest: dict[object, int] = {}
    for entry in data:
        key = (entry.file.spec_id, *_tuple(entry.file.partition))
        for each in (key, None):
            oldest[each] = min(oldest.get(each, entry.sequence_number), entry.sequence_number)
    for entry in _deletes(files):
        file, target = entry.file, entry.file.referenced_data_file
        if file.content is Content.EQUALITY_DELETES:
            spec = files.specs.get(file.spec_id)
            scope_ = None if spec and spec.is_unpartitioned else (file.spec_id, *_tuple(file.partition))
            if oldest.get(scope_, entry.sequence_number) >= entry.sequence_number:
                yield files.breach(entry, None, None, "no older data file in its partition")
            continue
        bounds = path_bounds(file)
        if target is None and bounds is not None and bounds[0] == bounds[1]:
            is_cut = any(path.startswith(bounds[0]) for path in paths)
            target = None if is_cut else RecordedPath(bounds[0])
        if target is not None and target not in paths:
            yield files.breach(entry, "referenced_data_file", target, "not live")


def _deletes(files: SnapshotFiles) -> Iterator[ManifestEntry]:
    return (entry for entry in files.live if entry.file.content is not Content.DATA)


def _vectors(files: SnapshotFiles) -> Iterator[ManifestEntry]:
    return (e for e in _deletes(files) if e.file.format == "puffin" and e.file.referenced_data_file is not None)


def _tuple(partition: Mapping[int, object]) -> tuple[object, ...]:
    return tuple(sorted(partition.items()))


def _entry_decoding_breach(files: SnapshotFiles, entry: ManifestEntry, error: HarnessError) -> Breach:
    return decoding_breach(files.place(entry, error.field), error, files.table.writer(entry.snapshot_id))
