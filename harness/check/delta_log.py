"""Rules about a Delta log: commits, protocol, metadata, and the files of a version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from harness.check.delta import ChangeFile, CheckedDelta, Version, identities
from harness.check.files import FileRows, positions, row_id_ranges
from harness.check.rules import Breach, Place, Reads, Severity, decoding_breach, rule
from harness.errors import HarnessError, counted
from harness.metadata.delta.actions import Metadata, Protocol
from harness.metadata.delta.commit_times import in_commit_timestamps
from harness.metadata.delta.protocol import (
    LEGACY_WRITERS,
    MappingMode,
    feature_warnings,
    features,
    is_enabled,
    reader_features_in_use,
    writer_features_in_use,
)
from harness.metadata.delta.scan import plan_scan
from harness.metadata.delta.statistics import record_counts
from harness.metadata.delta.types import parse_schema
from harness.metadata.model.arrow_values import scalar_of
from harness.metadata.model.times import show_ms


@rule("DEL-001", Severity.ERROR, Reads.ERROR, "delta L19", "delta L24", "delta L25")
def undecodable(error: HarnessError) -> Iterator[Breach]:
    """The table's log can be decoded and replayed as the specification requires.

    Hurts: All readers: they fail, or treat the damage as data.
    Mends: the file in the finding; restore it, or write a checkpoint of the version before
    """
    yield decoding_breach(Place(file=error.file or error.table or "the table", field=error.field), error)


@rule("DEL-101", Severity.ERROR, Reads.TABLE, "delta L21")
def contiguous(table: CheckedDelta) -> Iterator[Breach]:
    """The log has every commit between its first and its last commit.

    Hurts: Readers of the versions in the gap and, if no checkpoint follows the gap, readers of all later versions.
    Mends: log: restore the commits, or write a checkpoint after the gap
    """
    for before, after in pairwise(table.log.commits):
        if after != before + 1:
            place = Place(file=table.name(after))
            missing = f"{before + 1}" if after == before + 2 else f"{before + 1} to {after - 1}"
            yield Breach(place, f"version {after}", f"there is no version {missing}")


@rule("DEL-102", Severity.ERROR, Reads.TABLE, "delta R1", "delta R3")
def removes(table: CheckedDelta) -> Iterator[Breach]:
    """A commit only removes live files, each with the file's current deletion vector.

    Hurts: Readers that identify files by path alone: they lose the live file and its rows.
    Mends: log: a commit that removes the file with its current deletion vector, or without one
    """
    versions = sorted(table.commits)
    if not versions:
        return
    base = table.replay(versions[0] - 1) if versions[0] else None
    if versions[0] and base is None:
        checkpoint = next((c for c in table.log.checkpoints if c.version >= versions[0]), None)
        if checkpoint is None:
            return
        live = dict(identities(table.checkpoint(checkpoint).adds))
        versions = [version for version in versions if version > checkpoint.version]
    else:
        live = {} if base is None else dict(identities([base.files]))
    for version in versions:
        commit = table.commits[version]
        for identity, path in identities([commit.removes]).items():
            if live.pop(identity, None) is None:
                file_path = identity.partition("\x00")[0]
                is_other = any(each.partition("\x00")[0] == file_path for each in live)
                actual = "live with another deletion vector, or none" if is_other else "not live"
                yield table.breach(commit, "remove", "removed", actual, path)
        live.update(identities([commit.adds]))


@rule("DEL-103", Severity.ERROR, Reads.TABLE, "delta T13", "delta T9")
def stable_mapping(table: CheckedDelta) -> Iterator[Breach]:
    """A column keeps its id and its physical name in all versions, and ids do not exceed the table's highest id.

    Hurts: Readers of older files: a column shows another column's values, or nulls.
    Mends: log: metaData with the previous ids and physical names of the columns
    """
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for version, commit in sorted(table.commits.items()):
        if commit.metadata is None or commit.metadata.configuration.get(_MODE, "none") == "none":
            continue
        most, place = commit.metadata.configuration.get(_HIGHEST, ""), Place(file=commit.file, field=_SCHEMA)
        try:
            schema = parse_schema(commit.metadata.schema_string, mode=MappingMode.NAME).schema
        except HarnessError as error:
            if error.rule in ("delta T12", "delta T13"):
                yield decoding_breach(place, error, table.writer(version))
            continue
        for path, field in schema.walk():
            id_, physical, place = field.id, field.physical_name, replace(place, column=".".join(path))
            if physical is None:
                continue  # inside a list or map, for which there is no rule
            before, owner = names.setdefault(id_, physical), ids.setdefault(physical, id_)
            if before != physical:
                yield Breach(place, physical, f"its id {id_} had the physical name {before}", table.writer(version))
            elif owner != id_:
                yield Breach(place, str(id_), f"its physical name {physical} had the id {owner}", table.writer(version))
            if most.isdecimal() and id_ > int(most):
                yield Breach(place, str(id_), f"{_HIGHEST} is {most}", table.writer(version))
            names[id_], ids[physical] = physical, id_


_SCHEMA = "metaData.schemaString"
_MODE, _HIGHEST = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"


@rule("DEL-104", Severity.ERROR, Reads.TABLE, "delta L35")
def commit_times(table: CheckedDelta) -> Iterator[Breach]:
    """In-commit timestamps come first in each commit and increase from version to version.

    Hurts: Reads by time: they select the wrong version, or fail.
    Mends: log: commitInfo.inCommitTimestamp of the commit
    """
    enabled = in_commit_timestamps(table.table.latest.state.metadata.configuration)
    if enabled is None:
        return
    before: int | None = None
    for version, commit in sorted(table.commits.items()):
        if version < enabled.version:
            continue
        info = commit.info
        if info is None or not info.is_first or info.in_commit_timestamp_ms is None:
            yield table.breach(commit, _TIME, None, "commitInfo must be first and have the timestamp")
            continue
        now = info.in_commit_timestamp_ms
        if version == enabled.version and enabled.time_ms not in (None, now):
            actual = f"delta.inCommitTimestampEnablementTimestamp is {show_ms(enabled.time_ms or 0)}"
            yield table.breach(commit, _TIME, show_ms(now), actual)
        if before is not None and now <= before:
            yield table.breach(commit, _TIME, show_ms(now), f"the previous version has {show_ms(before)}")
        before = now


_TIME = "commitInfo.inCommitTimestamp"


@rule("DEL-105", Severity.WARNING, Reads.TABLE, "delta C3")
def change_files(table: CheckedDelta) -> Iterator[Breach]:
    """A commit only has change data files if the change data feed is enabled.

    Hurts: Readers of changes: the rows of these files are in no feed.
    Mends: log: delta.enableChangeDataFeed, or a commit without cdc
    """
    metadata: Metadata | None = None
    for _, commit in sorted(table.commits.items()):
        metadata = commit.metadata or metadata
        if commit.cdc and metadata is not None and not is_enabled(metadata.configuration, "delta.enableChangeDataFeed"):
            yield table.breach(commit, "cdc", counted(len(commit.cdc), "file"), None, commit.cdc[0].path)


@rule("DEL-111", Severity.WARNING, Reads.TABLE, "delta R9")
def append_only(table: CheckedDelta) -> Iterator[Breach]:
    """A commit to an append-only table does not remove rows; it may only remove files if the data stays the same.

    Hurts: Readers that only read new rows and rely on existing rows to stay.
    Mends: log: delta.appendOnly; or a commit that adds the rows again
    """
    metadata: Metadata | None = None
    for _, commit in sorted(table.commits.items()):
        metadata = commit.metadata or metadata
        if metadata is None or not is_enabled(metadata.configuration, "delta.appendOnly"):
            continue
        removals = commit.removes.filter(pc.equal(commit.removes.column("data_change"), scalar_of(True, pa.bool_())))
        if removals.num_rows:
            recorded, entry = f"{counted(removals.num_rows, 'file')} removed", removals.column("path")[0].as_py()
            yield table.breach(commit, "remove", recorded, "delta.appendOnly is true", entry)


@rule("DEL-409", Severity.NOTE, Reads.CHANGES, "delta C4")
def change_file(file: ChangeFile) -> Iterator[Breach]:
    """A change data file exists and has the recorded size.

    Hurts: Readers of the version's changes, which fail. A clean-up may have deleted the files of an old version.
    Mends: the file; or read changes from a later version on
    """
    try:
        size = file.storage.size(file.action.physical)
    except HarnessError as error:
        yield decoding_breach(file.place, error)
        return
    if size != file.action.size:
        yield Breach(file.place, f"{file.action.size:,} bytes", f"{size:,} bytes")


@rule("DEL-201", Severity.ERROR, Reads.SNAPSHOT, "delta P1", "delta P3")
def used_features(version: Version) -> Iterator[Breach]:
    """The protocol lists every reader feature that the table uses.

    Hurts: Readers that do not support the feature: they do not notice it and return wrong rows.
    Mends: log: a protocol action that lists the feature
    """
    state = version.state
    listed = features(state.protocol)
    for feature, where in reader_features_in_use(state):
        if feature not in listed:
            place = version.place(field="protocol.readerFeatures")
            yield Breach(place, _protocol_text(state.protocol), f"{feature} is used: {where}")


def _protocol_text(protocol: Protocol) -> str:
    names = "" if protocol.reader_features is None else f" ({', '.join(protocol.reader_features) or 'no features'})"
    return f"reader version {protocol.min_reader_version}{names}"


@rule("DEL-206", Severity.WARNING, Reads.SNAPSHOT, "delta P1", "delta P3")
def writer_features(version: Version) -> Iterator[Breach]:
    """The protocol lists every writer feature that is used, lists reader features in both lists, and has no other list.

    Hurts: Writers that do not support the feature: they violate it. A feature that is not listed does not apply.
    Mends: log: a protocol action that lists the feature
    """
    state, protocol = version.state, version.state.protocol
    place = version.place(field="protocol.writerFeatures")
    listed = {name.removesuffix("-preview") for name in protocol.writer_features or ()}
    for feature, where in writer_features_in_use(state):
        minimum = LEGACY_WRITERS.get(feature, 7)
        if feature not in listed and (protocol.min_writer_version == 7 or protocol.min_writer_version < minimum):
            recorded = f"writer version {protocol.min_writer_version} ({', '.join(sorted(listed)) or 'no features'})"
            yield Breach(place, recorded, f"{feature} is used: {where}")
    if protocol.writer_features is not None and protocol.min_writer_version < 7:
        recorded = f"writer version {protocol.min_writer_version} with a list of writerFeatures"
        yield Breach(place, recorded, "the list belongs to writer version 7")
    for sentence in feature_warnings(protocol, has_vectors=False):
        yield Breach(place=place, detail=sentence)


@rule("DEL-208", Severity.WARNING, Reads.SNAPSHOT, "delta T1")
def case_only_names(version: Version) -> Iterator[Breach]:
    """Names of sibling columns differ in more than letter case.

    Hurts: Readers that ignore the case of names, for example Spark: they refuse the table, or confuse the columns.
    Mends: table: different column names, set by the writer
    """
    for path in version.snapshot.columns.case_conflicts:
        place = version.place(field=_SCHEMA, column=".".join(path))
        yield Breach(place, path[-1], "another column has the name in another letter case")


@rule("DEL-207", Severity.ERROR, Reads.SNAPSHOT, "delta F2", "delta F3")
def possible_statistics(version: Version) -> Iterator[Breach]:
    """Statistics of a file are JSON with possible counts: none is negative, and no more nulls than rows.

    Hurts: Readers that skip files by counts: they lose rows without an error, or fail.
    Mends: log: the statistics of the add
    """
    unchecked = [row for row in version.rows("stats") if row not in version.table.checked_statistics]
    version.table.checked_statistics.update(unchecked)
    for path, text in unchecked:
        try:
            statistics = {} if text is None else json.loads(text)
            rows, nulls = statistics.get("numRecords"), statistics.get("nullCount")
        except (ValueError, AttributeError, RecursionError):
            yield Breach(version.place(entry=path, field="add.stats"), f"{text:.60}", "not valid statistics")
            continue
        if rows is not None and (type(rows) is not int or rows < 0):
            place = version.place(entry=path, field="add.stats.numRecords")
            yield Breach(place, f"{rows!r:.40}", "not a number of rows")
            continue
        for name, number in _numbers(nulls, ()):
            if number < 0 or (rows is not None and number > rows):
                place = version.place(entry=path, field="add.stats.nullCount", column=name)
                actual = "no rows are recorded" if rows is None else f"the file has {counted(rows, 'row')}"
                yield Breach(place, str(number), actual)


def _numbers(counts: object, path: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield whole numbers in nested counts, each with the path of its column."""
    for name, value in counts.items() if isinstance(counts, dict) else ():
        if type(value) is int:
            yield ".".join((*path, name)), value
        else:
            yield from _numbers(value, (*path, name))


@rule("DEL-202", Severity.ERROR, Reads.SNAPSHOT, "delta V4", "delta V8")
def partition_values(version: Version) -> Iterator[Breach]:
    """Partition values match the types of their columns, and every partition column has a key.

    Hurts: All readers: they fail, or return null.
    Mends: log: partitionValues of the add
    """
    refused_file = None
    try:
        _ = version.snapshot.partitions
    except HarnessError as error:
        refused_file = error.file
        place = version.place(entry=error.file, field="add.partitionValues", column=error.field)
        yield Breach(place=place, detail=error.message)
    columns = version.snapshot.columns.partition_columns
    names = [column.physical_name or column.name for column in columns]
    for path, pairs in version.rows("partition_values") if names else ():
        keys = {key for key, _ in pairs or ()}
        missing = [name for name in names if name not in keys]
        if missing and path != refused_file:
            place = version.place(entry=path, field="add.partitionValues", column=missing[0])
            yield Breach(place, f"keys {sorted(keys)}", f"no key {missing[0]}")


@rule("DEL-204", Severity.ERROR, Reads.SNAPSHOT, "delta W2", "delta W4")
def row_tracking(version: Version) -> Iterator[Breach]:
    """Row ids of files do not overlap, and the log records a high-water mark that they do not exceed.

    Hurts: Readers of row ids: two rows share an id, or a row has none.
    Mends: log: baseRowId of the adds, and the domain delta.rowTracking
    """
    state = version.state
    if not is_enabled(state.metadata.configuration, "delta.enableRowTracking"):
        return
    files = list(version.rows("base_row_id", "default_row_commit_version"))
    domain = state.domains.get("delta.rowTracking")
    mark = None if domain is None else _mark(domain.configuration)
    counted_ = zip(files, _record_counts(version), strict=True)
    ranges = sorted((base, path, count) for (path, base, _), count in counted_ if base is not None)
    yield from row_id_ranges(
        ((base, count, version.place(entry=path, field="add.baseRowId")) for base, path, count in ranges),
        None if mark is None else mark + 1,
        f"the high-water mark is {mark}",
    )
    if mark is None and files:
        recorded = "none" if domain is None else domain.configuration
        yield Breach(version.place(field="domainMetadata.delta.rowTracking"), recorded)
    for path, base, commit in files:
        for name, value in (("baseRowId", base), ("defaultRowCommitVersion", commit)):
            if value is None:
                yield Breach(version.place(entry=path, field=f"add.{name}"), "none")
        if commit is not None and commit > version.snapshot.id:
            place = version.place(entry=path, field="add.defaultRowCommitVersion")
            yield Breach(place, str(commit), f"the version is {version.snapshot.id}")


def _record_counts(version: Version) -> list[int]:
    return [max(0, int(number)) for number in record_counts(version.state.files).tolist()]


def _mark(text: str) -> int | None:
    try:
        value = json.loads(text).get("rowIdHighWaterMark")
    except (ValueError, AttributeError, RecursionError):
        return None
    return value if type(value) is int else None


@rule("DEL-205", Severity.ERROR, Reads.SNAPSHOT, "delta D9", "delta D15")
def vectors(version: Version) -> Iterator[Breach]:
    """A deletion vector deletes at most as many rows as the statistics record for its file.

    Hurts: Readers that count from the log: they count deleted rows, or fail.
    Mends: log: cardinality of the deletion vector, numRecords in the statistics
    """
    for (path, cardinality, stats), count in zip(
        version.rows("dv_cardinality", "stats"), _record_counts(version), strict=True
    ):
        if cardinality is not None and (cardinality < 0 or (stats is not None and 0 < count < cardinality)):
            place = version.place(entry=path, field="add.deletionVector.cardinality")
            yield Breach(place, str(cardinality), f"numRecords is {count}")


@rule("DEL-406", Severity.ERROR, Reads.SNAPSHOT, "delta D5", "delta D9", "delta D14")
def deleted_positions(version: Version) -> Iterator[Breach]:
    """A deletion vector can be read, and its positions exist in the data file.

    Hurts: All readers: they fail, or return deleted rows if they ignore the delete.
    Mends: the deletion vector: rewrite it
    """
    vectors_ = version.state.files.column("dv_storage_type")
    if vectors_.null_count < len(vectors_):
        plan = plan_scan(version.table.table, version.snapshot, columns=None, where=None)
        yield from positions(FileRows(plan, version.statements()))
