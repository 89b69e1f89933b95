"""Rules about files that repeat a Delta table's state: hint, checkpoints, compacted logs, and checksums.

Each rule compares one of these records with the replayed commits. The rules cover delta L6 to L29.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.check.delta import CheckedCheckpoint, CheckedDelta, Version, identities
from harness.check.rules import Breach, Place, Reads, Severity, decoding_breach, rule
from harness.errors import HarnessError, InvalidTableError
from harness.metadata.delta.action_lines import Body
from harness.metadata.delta.actions import Commit, DomainMetadata, Metadata, Protocol, State, Transaction
from harness.metadata.delta.checkpoint_statistics import FilesStatistics
from harness.metadata.delta.checkpoints import CheckpointContent
from harness.metadata.delta.commits import ids_of, parse_commit
from harness.metadata.delta.replay import checksum_conflicts, read_checksum
from harness.metadata.delta.statistics import statistics_columns
from harness.metadata.delta.types import table_schema
from harness.metadata.model.arrow_values import to_list, to_numpy
from harness.metadata.model.schema import value_text
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a state, from a record or from commits. `actions` are keyed by their names in the log."""

    actions: Mapping[str, Body | None]
    files: Sequence[pa.Table]

    @staticmethod
    def from_actions(from_actions: CheckpointContent | Commit | State, files: Sequence[pa.Table]) -> _Content:
        """Return the content of a checkpoint, a compacted log file, or a replayed state."""
        domains = from_actions.domains.values() if isinstance(from_actions, State) else from_actions.domains
        transactions = (
            from_actions.transactions.values() if isinstance(from_actions, State) else from_actions.transactions
        )
        return _Content(_actions(from_actions.protocol, from_actions.metadata, transactions, domains), files)

    def differences(self, actual: _Content, place: Place, *, is_whole: bool = False) -> Iterator[Breach]:
        """Yield the differences between this record and the replayed commits (`actual`).

        If `is_whole`, the record must have a protocol and metadata if the commits have them.
        """
        for name, recorded in self.actions.items():
            expected = actual.actions[name] or {}
            if recorded is not None and recorded != expected:
                yield Breach(
                    replace(place, field=name),
                    _differing_parts(recorded, expected),
                    _differing_parts(expected, recorded),
                )
            elif recorded is None and expected and is_whole:
                yield Breach(replace(place, field=name), "no action", "the commits have it")
        yield from _file_differences(place, self.files, actual.files)


def _actions(
    protocol: Protocol | None,
    metadata: Metadata | None,
    transactions: Iterable[Transaction],
    domains: Iterable[DomainMetadata],
) -> dict[str, Body | None]:
    """Return actions in a canonical form: sorted feature names, and a schema without white space."""
    rules, about = ({} if action is None else asdict(action) for action in (protocol, metadata))
    for name in ("reader_features", "writer_features"):
        rules |= {name: sorted(rules[name])} if rules.get(name) is not None else {}
    if metadata is not None:
        about["schema_string"] = _canonical_schema(metadata.schema_string or "{}")
    return {
        "protocol": rules or None,
        "metaData": about or None,
        "txn": {each.app_id: each.version for each in transactions},
        "domainMetadata": {each.domain: None if each.removed else each.configuration for each in domains},
    }


def _canonical_schema(schema: str) -> str:
    """Return the JSON of a schema in canonical form: without white space and with sorted keys.

    A text that is not JSON is returned unchanged.
    """
    try:
        return json.dumps(json.loads(schema), sort_keys=True)
    except (ValueError, RecursionError):
        return schema


def _differing_parts(body: Body, other: Body) -> str:
    """Return those parts of a body that differ from another body, as text."""
    return ", ".join(f"{key} {part!r:.200}" for key, part in body.items() if other.get(key, other) != part) or "none"


_COMPARED = ("size", "base_row_id", "default_row_commit_version", "dv_size", "dv_cardinality", "partition_values")


def _file_differences(place: Place, recorded: Sequence[pa.Table], actual: Sequence[pa.Table]) -> Iterator[Breach]:
    """Yield the files that a record lacks, has in addition, or describes differently than the commits."""
    recorded_files, actual_files = identities(recorded), identities(actual)
    missing = [actual_files[identity] for identity in actual_files.keys() - recorded_files.keys()]
    extra = [recorded_files[identity] for identity in recorded_files.keys() - actual_files.keys()]
    for paths, recorded_action, explanation in (
        (missing, "no add", "the file is live after the commits"),
        (extra, "add", "the file is not live after the commits"),
    ):
        for path in sorted(paths):
            yield Breach(replace(place, entry=path, field="add"), recorded_action, explanation)
    common_identities = recorded_files.keys() & actual_files.keys()
    recorded_columns, actual_columns = (
        _by_identity(recorded, common_identities),
        _by_identity(actual, common_identities),
    )
    for name in _COMPARED:
        if common_identities and not recorded_columns.column(name).equals(actual_columns.column(name)):
            values = (table.column(name).to_pylist() for table in (recorded_columns, actual_columns))
            for path, recorded_value, actual_value in zip(
                recorded_columns.column("path").to_pylist(), *values, strict=True
            ):
                if (
                    (sorted(recorded_value or ()) != sorted(actual_value or ()))
                    if name == "partition_values"
                    else recorded_value != actual_value
                ):
                    yield Breach(
                        replace(place, entry=path, field=f"add.{name}"),
                        str(recorded_value),
                        f"the commit has {actual_value}",
                    )


def _by_identity(tables: Sequence[pa.Table], identities_: Iterable[str]) -> pa.Table:
    """Return the files with the given identities, sorted by identity."""
    wanted_ids = pa.array(identities_, pa.string())
    parts = [
        table.select(["path", *_COMPARED]).append_column("id", ids_of(table)) for table in tables if table.num_rows
    ]
    if not parts:
        return pa.table({name: pa.nulls(0) for name in ("path", *_COMPARED)})
    whole = pa.concat_tables(parts)
    whole = whole.filter(pc.is_in(whole.column("id"), wanted_ids))
    return whole.take(pc.sort_indices(whole.column("id"))).combine_chunks()


@rule("DEL-106", Severity.WARNING, Reads.TABLE, "delta L6", "delta L10")
def hint(table: CheckedDelta) -> Iterator[Breach]:
    """_last_checkpoint is valid and names an existing checkpoint with the correct numbers of files and actions.

    Hurts: Readers that trust the hint: they fail, or read an older state.
    Mends: _last_checkpoint: delete it, or write it again
    """
    if not table.log.has_hint:
        return
    place, hint_ = Place(file=f"{table.log.directory}/_last_checkpoint"), table.log.hint
    if hint_ is None:
        yield Breach(
            place=place, detail="It is not a valid hint: it is not JSON, has wrong types, or has a wrong checksum"
        )
        return
    matching = [each for each in table.log.checkpoints if each.version == hint_.version]
    if not matching:
        yield Breach(place, f"version {hint_.version}", "there is no complete checkpoint of that version")
        return
    content = table.checkpoint(matching[-1])
    for name, recorded, actual in (
        ("numOfAddFiles", hint_.files, content.files),
        ("size", hint_.actions, content.actions),
    ):
        if None not in (recorded, actual) and recorded != actual:
            yield Breach(place, f"{name} {recorded}", f"the checkpoint has {actual}")


@rule("DEL-107", Severity.ERROR, Reads.CHECKPOINT, "delta L18", "delta L29")
def checkpoints(checkpoint: CheckedCheckpoint) -> Iterator[Breach]:
    """A checkpoint has the same content as the replayed commits up to it.

    Hurts: Readers that begin at the checkpoint: they lose rows, or read rows that are gone.
    Mends: log: delete the checkpoint, or write it again
    """
    if checkpoint.fault is not None:
        yield decoding_breach(checkpoint.place, checkpoint.fault)
    if checkpoint.content is None or checkpoint.state is None:
        return
    content, state = checkpoint.content, checkpoint.state
    live = [domain for domain in content.domains if not domain.removed]
    recorded = _Content(_actions(content.protocol, content.metadata, content.transactions, live), content.adds)
    yield from recorded.differences(_Content.from_actions(state, [state.files]), checkpoint.place, is_whole=True)


@rule("DEL-108", Severity.ERROR, Reads.TABLE, "delta L27")
def compactions(table: CheckedDelta) -> Iterator[Breach]:
    """A compacted log file has the same content as the commits that it replaces.

    Hurts: Readers that use the compacted file instead of the commits: they lose rows, or read rows that are gone.
    Mends: log: delete the compacted file
    """
    for compaction in table.log.compactions:
        place = Place(file=compaction.file.path)
        covered = [table.commits.get(version) for version in range(compaction.first, compaction.last + 1)]
        try:
            content = table.compacted(compaction)
        except HarnessError as error:
            yield decoding_breach(place, error)
            continue
        commits = [commit for commit in covered if commit is not None]
        if len(commits) < len(covered):
            continue
        added: dict[str, tuple[pa.Table, int]] = {}
        removed: dict[str, str] = {}
        for commit in commits:
            for identity, path in identities([commit.removes]).items():
                added.pop(identity, None)
                removed[identity] = path
            for row, identity in enumerate(ids_of(commit.adds).to_pylist() if commit.adds.num_rows else ()):
                removed.pop(identity, None)
                added[identity] = (commit.adds, row)
        protocol = next((c.protocol for c in reversed(commits) if c.protocol is not None), None)
        metadata = next((c.metadata for c in reversed(commits) if c.metadata is not None), None)
        transactions = [each for commit in commits for each in commit.transactions]
        domains = [each for commit in commits for each in commit.domains]
        files = [adds.slice(row, 1) for adds, row in added.values()]
        expected = _Content(_actions(protocol, metadata, transactions, domains), files)
        yield from _Content.from_actions(content, [content.adds]).differences(expected, place, is_whole=True)
        for identity in sorted(removed.keys() - identities([content.removes]).keys()):
            yield Breach(
                replace(place, entry=removed[identity], field="remove"), "no remove", "a commit removes the file"
            )


@rule("DEL-109", Severity.ERROR, Reads.CHECKPOINT, "delta F2", "delta F7")
def checkpoint_statistics(checkpoint: CheckedCheckpoint) -> Iterator[Breach]:
    """A checkpoint has the same statistics for its files as the commits, or wider ones.

    Hurts: Readers that begin at the checkpoint: they skip files by it, and lose their rows without an error.
    Mends: log: delete the checkpoint, or write it again with the statistics of the commits
    """
    content, state = checkpoint.content, checkpoint.state
    if content is None or state is None:
        return
    schema = table_schema(state.protocol, state.metadata).schema
    leaves_, location = (
        statistics_columns(schema, (field.id for _, field in schema.walk())),
        checkpoint.table.table.location,
    )
    for adds in content.adds:
        if not adds.num_rows or not state.files.num_rows:
            continue
        at = pc.index_in(ids_of(adds), value_set=ids_of(state.files))
        recorded = FilesStatistics(adds.filter(pc.is_valid(at)), content.statistics, location)
        committed = FilesStatistics(state.files.take(at.drop_null()), state.statistics, location)
        places = np.arange(committed.files.num_rows)
        counts = (each.record_counts(places).tolist() for each in (recorded, committed))
        bounds = [each.bounds(leaves_, places) for each in (recorded, committed)]
        columns = [("numRecords", None, *counts)]
        for leaf in leaves_ if all(bounds) else ():
            recorded_bounds, committed_bounds = (by_id[leaf.field.id] for by_id in bounds)
            columns.append(("minValues", leaf, to_list(recorded_bounds.lower), to_list(committed_bounds.lower)))
            columns.append(("maxValues", leaf, to_list(recorded_bounds.upper), to_list(committed_bounds.upper)))
        paths = recorded.files.column("path").to_pylist()
        for name, bound_leaf, ours, commits in columns:
            for path, mine, theirs in zip(paths, ours, commits, strict=True) if ours != commits else ():
                if _is_same_or_wider(name, mine, theirs):
                    continue
                column = None if bound_leaf is None else ".".join(bound_leaf.path)
                words = [
                    value_text(value, None if bound_leaf is None else bound_leaf.field.type) for value in (mine, theirs)
                ]
                where = replace(checkpoint.place, entry=path, field=f"add.{name}", column=column)
                yield Breach(where, words[0], f"the commit has {words[1]}")


def _is_same_or_wider(name: str, recorded: Any, committed: object) -> bool:
    """Return whether a statistic equals the commit's or is wider. Unknown statistics count as equal."""
    if name == "numRecords":
        return recorded == committed or -1 in (recorded, committed)
    return None in (recorded, committed) or (recorded <= committed if name == "minValues" else recorded >= committed)


@rule("DEL-203", Severity.WARNING, Reads.SNAPSHOT, "delta L28")
def checksum(version: Version) -> Iterator[Breach]:
    """The .crc file of a version matches the replayed log.

    Hurts: Readers and writers that compare the log with it: they refuse the table, or trust wrong totals.
    Mends: log: delete the .crc file
    """
    file, storage = version.table.log.checksums.get(version.snapshot.id), version.table.table.storage
    if file is None:
        return
    place = Place(file=file.path)
    for sentence in checksum_conflicts(version.state, file, storage):
        yield Breach(place=place, detail=sentence)
    record = read_checksum(file, storage)
    if record is None:
        return
    try:
        content = _checksum_content(version, record, file.path)
    except (HarnessError, TypeError) as error:
        error = error if isinstance(error, HarnessError) else InvalidTableError("It has no actions", cause="LogCorrupt")
        yield decoding_breach(place, error)
        return
    yield from content.differences(_Content.from_actions(version.state, [version.state.files]), place)
    yield from _histogram(version, record, place)
    commit = version.table.commits.get(version.snapshot.id)
    recorded = record.get("inCommitTimestampOpt")
    actual = None if commit is None or commit.info is None else commit.info.in_commit_timestamp_ms
    if None not in (recorded, actual) and recorded != actual:
        yield Breach(replace(place, field="inCommitTimestampOpt"), str(recorded), f"the commit has {actual}")


_IN_CHECKSUM = {
    "protocol": "protocol",
    "metadata": "metaData",
    "setTransactions": "txn",
    "domainMetadata": "domainMetadata",
    "allFiles": "add",
}


def _checksum_content(version: Version, record: Mapping[str, Any], file: str) -> _Content:
    """Return the actions in a checksum file. Raises the same errors as `parse_commit`.

    Actions that the file does not contain are None.
    """
    lines = []
    for key, action in _IN_CHECKSUM.items():
        bodies = record.get(key) or ()
        lines += [json.dumps({action: body}) for body in ([bodies] if isinstance(bodies, dict) else bodies)]
    data = "\n".join(lines).encode()
    commit = parse_commit(data, file=file, version=version.snapshot.id, locator=version.table.table.locator)
    content = _Content.from_actions(commit, [commit.adds if "allFiles" in record else version.state.files])
    absent = {action: None for key, action in _IN_CHECKSUM.items() if key not in record}
    return replace(content, actions={name: absent.get(name, words) for name, words in content.actions.items()})


def _histogram(version: Version, record: Mapping[str, object], place: Place) -> Iterator[Breach]:
    """Yield histograms of file sizes that do not match the live files."""
    for key in ("fileSizeHistogram", "histogramOpt"):
        histogram = record.get(key)
        if not isinstance(histogram, dict):
            continue
        sizes = to_numpy(version.state.files.column("size"))
        bounds, counts, totals = (histogram.get(name) for name in ("sortedBinBoundaries", "fileCounts", "totalBytes"))
        try:
            bins = np.searchsorted(np.array(bounds, dtype=np.int64), sizes, side="right") - 1
            number = len(bounds or ())
            actual = np.bincount(bins, minlength=number).tolist(), np.bincount(bins, sizes, number).astype(int).tolist()
        except (ValueError, TypeError, OverflowError):
            actual = ([], [])
        if (counts, totals) != actual:
            recorded = f"files {counts}, bytes {totals}"
            yield Breach(replace(place, field=key), recorded, f"files {actual[0]}, bytes {actual[1]}")
