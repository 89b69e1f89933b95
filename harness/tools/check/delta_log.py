"""Rules about a Delta log: commits, protocol, metadata, checkpoints and the files of a version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from harness.errors import HarnessError, counted
from harness.metadata.delta.actions import Metadata, Protocol
from harness.metadata.delta.commit_times import in_commit_timestamps
from harness.metadata.delta.protocol import features, is_enabled
from harness.metadata.delta.statistics import record_counts
from harness.metadata.delta.types import ID, PHYSICAL_NAME
from harness.metadata.model.arrow_values import to_numpy
from harness.metadata.model.times import show_ms
from harness.tools.check.delta import CheckedDelta, Version, identities
from harness.tools.check.files import row_id_ranges
from harness.tools.check.rules import Found, Place, Reads, Severity, refused, rule


@rule(
    "DEL-001",
    Severity.ERROR,
    Reads.ERROR,
    breaks=("delta L19", "delta L24", "delta L25"),
    hurts="All readers: they fail, or take the damage for data.",
    mends="the file that is named; restore it, or write a checkpoint of the version before",
)
def undecodable(error: HarnessError) -> Iterator[Found]:
    """The table's log can be decoded and replayed as the specification says."""
    place = Place(file=error.file or error.table or "the table", field=error.field)
    yield refused(place, error)


@rule(
    "DEL-101",
    Severity.ERROR,
    Reads.TABLE,
    breaks="delta L21",
    hurts="Readers of the versions in the gap and, without a checkpoint after it, of the table.",
    mends="log: restore the commits, or write a checkpoint after the gap",
)
def contiguous(table: CheckedDelta) -> Iterator[Found]:
    """The log has every commit between its first and its last one."""
    for before, after in pairwise(table.log.commits):
        if after != before + 1:
            place = Place(file=table.name(after))
            missing = f"{before + 1}" if after == before + 2 else f"{before + 1} to {after - 1}"
            yield Found(place=place, recorded=f"version {after}", actual=f"there is no version {missing}")


@rule(
    "DEL-102",
    Severity.ERROR,
    Reads.TABLE,
    breaks=("delta R1", "delta R3"),
    hurts="Readers that know files by path alone: they lose the live file, with its rows.",
    mends="log: a commit that removes the file with the deletion vector that it has, or none",
)
def removes(table: CheckedDelta) -> Iterator[Found]:
    """A commit removes files that are live, each with the deletion vector that it has."""
    versions = sorted(table.commits)
    if not versions:
        return
    base = table.replayed(versions[0] - 1) if versions[0] else None
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
                same = identity.partition("\x00")[0]
                others = [each for each in live if each.partition("\x00")[0] == same]
                if others:
                    actual = "live with another deletion vector, or none"
                    place = Place(file=commit.file, entry=path, field="remove")
                    yield Found(place=place, recorded="removed", actual=actual, writer=table.writer(version))
        live.update(identities([commit.adds]))


@rule(
    "DEL-103",
    Severity.ERROR,
    Reads.TABLE,
    breaks=("delta T13", "delta T9"),
    hurts="Readers of older files: a column shows another column's values, or nulls.",
    mends="log: metaData with the ids and physical names that the columns had",
)
def stable_mapping(table: CheckedDelta) -> Iterator[Found]:
    """A column's id and physical name stay as they are through the versions."""
    known: dict[int, str] = {}
    for version, commit in sorted(table.commits.items()):
        if commit.metadata is None or commit.metadata.configuration.get(_MODE, "none") == "none":
            continue
        for path, id_, physical in _mapped(commit.metadata):
            before = known.setdefault(id_, physical)
            if before != physical:
                place = Place(file=commit.file, field="metaData.schemaString", column=path)
                actual = f"its id {id_} had the physical name {before}"
                yield Found(place=place, recorded=physical, actual=actual, writer=table.writer(version))
                known[id_] = physical


_MODE = "delta.columnMapping.mode"


def _mapped(metadata: Metadata) -> Iterator[tuple[str, int, str]]:
    """Path, id and physical name of each column in a schema with column mapping."""

    def walk(type_: Any, path: tuple[str, ...]) -> Iterator[tuple[str, int, str]]:
        for field in type_.get("fields", ()) if isinstance(type_, dict) else ():
            own, said = (*path, field["name"]), field.get("metadata", {})
            id_, physical = said.get(ID), said.get(PHYSICAL_NAME)
            if type(id_) is int and isinstance(physical, str):
                yield ".".join(own), id_, physical
            yield from walk(field["type"], own)
        if isinstance(type_, dict):
            for key in ("elementType", "keyType", "valueType"):
                yield from walk(type_.get(key), (*path, key.removesuffix("Type")))

    yield from walk(json.loads(metadata.schema_string or "{}"), ())


@rule(
    "DEL-104",
    Severity.ERROR,
    Reads.TABLE,
    breaks="delta L35",
    hurts="Reads by time: they give another version than the one of that time, or fail.",
    mends="log: commitInfo.inCommitTimestamp of the commit",
)
def commit_times(table: CheckedDelta) -> Iterator[Found]:
    """In-commit timestamps come first in each commit, and rise from version to version."""
    enabled = in_commit_timestamps(table.table.latest.state.metadata.configuration)
    if enabled is None:
        return
    before: int | None = None
    for version, commit in sorted(table.commits.items()):
        if version < enabled.version:
            continue
        info = commit.info
        place = Place(file=commit.file, field="commitInfo.inCommitTimestamp")
        if info is None or not info.is_first or info.in_commit_timestamp_ms is None:
            actual = "commitInfo must be first and have the timestamp"
            yield Found(place=place, actual=actual, writer=table.writer(version))
            continue
        now = info.in_commit_timestamp_ms
        if before is not None and now <= before:
            actual = f"the version before has {show_ms(before)}"
            yield Found(place=place, recorded=show_ms(now), actual=actual, writer=table.writer(version))
        before = now


@rule(
    "DEL-105",
    Severity.WARNING,
    Reads.TABLE,
    breaks="delta C3",
    hurts="Readers of changes: the rows of such files are in no feed.",
    mends="log: delta.enableChangeDataFeed, or a commit without cdc",
)
def change_files(table: CheckedDelta) -> Iterator[Found]:
    """A commit has files of changes only where the change data feed is on."""
    metadata: Metadata | None = None
    for version, commit in sorted(table.commits.items()):
        metadata = commit.metadata or metadata
        if commit.cdc and metadata is not None and not is_enabled(metadata.configuration, "delta.enableChangeDataFeed"):
            place = Place(file=commit.file, field="cdc", entry=commit.cdc[0].path)
            yield Found(place=place, recorded=counted(len(commit.cdc), "file"), writer=table.writer(version))


@rule(
    "DEL-106",
    Severity.WARNING,
    Reads.TABLE,
    breaks=("delta L6", "delta L10"),
    hurts="Readers that trust the hint: they fail, or read an older state.",
    mends="_last_checkpoint: delete it, or write it anew",
)
def hint(table: CheckedDelta) -> Iterator[Found]:
    """_last_checkpoint is sound, and names a checkpoint of the log with the files that it says."""
    if not table.log.hinted:
        return
    place, said = Place(file=f"{table.log.directory}/_last_checkpoint"), table.log.hint
    if said is None:
        yield Found(place=place, detail="It is no hint: not JSON, of wrong types, or with a wrong checksum")
        return
    known = [each for each in table.log.checkpoints if each.version == said.version]
    if not known:
        yield Found(place=place, recorded=f"version {said.version}", actual="no such complete checkpoint")
    elif said.files is not None and said.files != (actual := table.checkpoint(known[-1]).files):
        yield Found(place=place, recorded=f"numOfAddFiles {said.files}", actual=f"the checkpoint has {actual}")


@rule(
    "DEL-107",
    Severity.ERROR,
    Reads.TABLE,
    breaks=("delta L18", "delta L29"),
    hurts="Readers that begin at the checkpoint: they lose rows, or read rows that are gone.",
    mends="log: delete the checkpoint, or write it anew",
)
def checkpoints(table: CheckedDelta) -> Iterator[Found]:
    """A checkpoint holds what the commits up to it make."""
    for checkpoint in table.log.checkpoints:
        place = Place(file=checkpoint.files[0].path)
        try:
            content = table.checkpoint(checkpoint)
        except HarnessError as error:
            yield refused(place, error)
            continue
        state = table.replayed(checkpoint.version, without=checkpoint)
        if state is None:
            continue
        recorded: tuple[Any, ...] = (
            content.protocol,
            content.metadata,
            *_latest(content.transactions, content.domains),
        )
        actual: tuple[Any, ...] = (
            state.protocol,
            state.metadata,
            *_latest(state.transactions.values(), state.domains.values()),
        )
        yield from _file_differences(place, identities(content.adds), identities([state.files]))
        for name, said, replayed in zip(
            ("protocol", "metaData", "txn", "domainMetadata"), recorded, actual, strict=True
        ):
            if said != replayed:
                yield Found(place=_in(place, name), recorded=repr(said), actual=repr(replayed))


def _latest(transactions: Any, domains: Any) -> tuple[Mapping[str, int], Mapping[str, str]]:
    return (
        {each.app_id: each.version for each in transactions},
        {each.domain: each.configuration for each in domains if not each.removed},
    )


def _in(place: Place, field: str) -> Place:
    return Place(file=place.file, field=field)


def _file_differences(place: Place, recorded: Mapping[str, str], actual: Mapping[str, str]) -> Iterator[Found]:
    lost = [actual[identity] for identity in actual.keys() - recorded.keys()]
    extra = [recorded[identity] for identity in recorded.keys() - actual.keys()]
    for paths, what in ((lost, "the commits keep the file alive"), (extra, "the commits do not have it live")):
        for path in sorted(paths):
            there = "no add" if paths is lost else "add"
            yield Found(place=Place(file=place.file, entry=path, field="add"), recorded=there, actual=what)


@rule(
    "DEL-108",
    Severity.ERROR,
    Reads.TABLE,
    breaks="delta L27",
    hurts="Readers that take the compacted file in place of the commits: they lose rows, or read rows that are gone.",
    mends="log: delete the compacted file",
)
def compactions(table: CheckedDelta) -> Iterator[Found]:
    """A compacted log file holds what the commits that it stands for make."""
    for compaction in table.log.compactions:
        place = Place(file=compaction.file.path)
        covered = [table.commits.get(version) for version in range(compaction.first, compaction.last + 1)]
        try:
            content = table.compacted(compaction)
        except HarnessError as error:
            yield refused(place, error)
            continue
        if None in covered:
            continue
        added: dict[str, str] = {}
        removed: dict[str, str] = {}
        for commit in filter(None, covered):
            for identity, path in identities([commit.removes]).items():
                added.pop(identity, None)
                removed[identity] = path
            for identity, path in identities([commit.adds]).items():
                removed.pop(identity, None)
                added[identity] = path
        yield from _file_differences(place, identities([content.adds]), added)
        lost = removed.keys() - identities([content.removes]).keys()
        for identity in sorted(lost):
            entry = Place(file=place.file, entry=removed[identity], field="remove")
            yield Found(place=entry, recorded="no remove", actual="a commit removes the file")


@rule(
    "DEL-201",
    Severity.ERROR,
    Reads.SNAPSHOT,
    breaks=("delta P1", "delta P3"),
    hurts="Readers that do not know the feature: they take the table for a plain one and give wrong rows.",
    mends="log: a protocol action that lists the feature",
)
def used_features(version: Version) -> Iterator[Found]:
    """The protocol lists every feature that the table uses."""
    state = version.state
    listed = features(state.protocol)
    for feature, where in _used(version):
        if feature not in listed:
            place = version.place(field="protocol.readerFeatures")
            yield Found(place=place, recorded=_shown(state.protocol), actual=f"{feature} is used: {where}")


def _shown(protocol: Protocol) -> str:
    names = "" if protocol.reader_features is None else f" ({', '.join(protocol.reader_features) or 'no features'})"
    return f"reader version {protocol.min_reader_version}{names}"


def _used(version: Version) -> Iterator[tuple[str, str]]:
    state = version.state
    vectors = state.files.column("dv_storage_type")
    if vectors.null_count < len(vectors):
        yield "deletionVectors", f"{counted(len(vectors) - vectors.null_count, 'file')} with deletion vectors"
    if state.metadata.configuration.get(_MODE, "none") != "none":
        yield "columnMapping", f"{_MODE} is {state.metadata.configuration[_MODE]}"
    text = state.metadata.schema_string
    for feature, spelled in (
        ("timestampNtz", '"timestamp_ntz"'),
        ("typeWidening", '"delta.typeChanges"'),
        ("variantType", '"variant"'),
    ):
        if spelled in text.replace(" ", ""):
            yield feature, f"the schema has {spelled}"


@rule(
    "DEL-202",
    Severity.ERROR,
    Reads.SNAPSHOT,
    breaks=("delta V4", "delta V8"),
    hurts="All readers: they fail, or give null.",
    mends="log: partitionValues of the add",
)
def partition_values(version: Version) -> Iterator[Found]:
    """Partition values are values of their columns' types, and every partition column has its key."""
    try:
        _ = version.snapshot.partitions
    except HarnessError as error:
        place = version.place(entry=error.file, field="add.partitionValues", column=error.field)
        yield Found(place=place, detail=error.message)
    columns = version.snapshot.columns.partition_columns
    names = [column.physical_name or column.name for column in columns]
    maps = zip(
        version.state.files.column("path").to_pylist(),
        version.state.files.column("partition_values").to_pylist(),
        strict=True,
    )
    for path, pairs in maps if names else ():
        keys = {key for key, _ in pairs or ()}
        missing = [name for name in names if name not in keys]
        if missing:
            place = version.place(entry=path, field="add.partitionValues", column=missing[0])
            yield Found(place=place, recorded=f"keys {sorted(keys)}", actual=f"no key {missing[0]}")


@rule(
    "DEL-203",
    Severity.WARNING,
    Reads.SNAPSHOT,
    breaks="delta L28",
    hurts="Readers and writers that check themselves by it: they refuse the table, or trust wrong totals.",
    mends="log: delete the .crc file",
)
def checksum(version: Version) -> Iterator[Found]:
    """The .crc file of a version says what the log makes."""
    for warning in version.state.warnings:
        if "checksum file" in warning:
            file = version.table.log.checksums.get(version.snapshot.id)
            yield Found(place=Place(file=version.table.log.directory if file is None else file.path), detail=warning)


@rule(
    "DEL-204",
    Severity.ERROR,
    Reads.SNAPSHOT,
    breaks=("delta W2", "delta W4"),
    hurts="Readers of row ids: two rows have one id, or a row has none.",
    mends="log: baseRowId of the adds, and the domain delta.rowTracking",
)
def row_tracking(version: Version) -> Iterator[Found]:
    """Row ids of files do not overlap, and stay at most the high-water mark."""
    state = version.state
    if not is_enabled(state.metadata.configuration, "delta.enableRowTracking"):
        return
    files = state.files
    paths, bases = files.column("path").to_pylist(), files.column("base_row_id").to_pylist()
    rows = _record_counts(version)
    domain = state.domains.get("delta.rowTracking")
    mark = None if domain is None else _mark(domain.configuration)
    ranges = sorted(
        (base, path, count) for base, path, count in zip(bases, paths, rows, strict=True) if base is not None
    )
    yield from row_id_ranges(
        ((base, count, version.place(entry=path, field="add.baseRowId")) for base, path, count in ranges),
        None if mark is None else mark + 1,
        f"the high-water mark is {mark}",
    )
    for path, base in zip(paths, bases, strict=True):
        if base is None:
            yield Found(place=version.place(entry=path, field="add.baseRowId"), recorded="none")


def _record_counts(version: Version) -> list[int]:
    return [max(0, int(number)) for number in record_counts(version.state.files).tolist()]


def _mark(text: str) -> int | None:
    try:
        value = json.loads(text).get("rowIdHighWaterMark")
    except (ValueError, AttributeError):
        return None
    return value if type(value) is int else None


@rule(
    "DEL-205",
    Severity.ERROR,
    Reads.SNAPSHOT,
    breaks=("delta D9", "delta D15"),
    hurts="Readers that count by the log: they count rows that are deleted, or fail.",
    mends="log: cardinality of the deletion vector, numRecords in the statistics",
)
def vectors(version: Version) -> Iterator[Found]:
    """A deletion vector deletes at most the rows of its file, whose number the statistics say."""
    files = version.state.files
    rows, cardinalities = _record_counts(version), files.column("dv_cardinality").to_pylist()
    known = to_numpy(pc.is_valid(files.column("stats"))).tolist()
    for path, count, cardinality, has_stats in zip(
        files.column("path").to_pylist(), rows, cardinalities, known, strict=True
    ):
        if cardinality is None:
            continue
        place = version.place(entry=path, field="add.deletionVector.cardinality")
        if cardinality < 0 or (has_stats and count and cardinality > count):
            yield Found(place=place, recorded=str(cardinality), actual=f"numRecords is {count}")
