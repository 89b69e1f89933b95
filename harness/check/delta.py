"""A Delta table as the rules of `harness check` see it: commits, versions, and checkpoints.

They are decoded by the same code that reads use.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from harness.check.files import Statements
from harness.check.rules import Breach, Place, Reads, Subject
from harness.errors import CorruptFileError, HarnessError
from harness.metadata.delta.actions import DELETION_VECTOR, AddCdc, Commit, DeletionVectorDescriptor, State
from harness.metadata.delta.checkpoints import CheckpointContent, read_checkpoint
from harness.metadata.delta.commits import ids_of, parse_commit, read_log_file
from harness.metadata.delta.log_files import Checkpoint, Compaction, LogFile, LogListing
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.scan import DeltaSnapshot, vector_path
from harness.metadata.delta.segment import choose_segment
from harness.metadata.delta.table import DeltaTable
from harness.metadata.delta.types import constraints, materialized_columns
from harness.storage.limits import contained
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import cached_property


@dataclass(frozen=True, slots=True)
class Version:
    """A version to check, with its live files."""

    table: CheckedDelta
    snapshot: DeltaSnapshot

    @property
    def state(self) -> State:
        """The replayed state of the log."""
        return self.snapshot.state

    def rows(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the path and the given columns of each live file."""
        files = self.state.files
        return zip(*(files.column(name).to_pylist() for name in ("path", *columns)), strict=True)

    def statements(self) -> Statements:
        """Return the log's statements about files. A checkpoint may contain files whose commits are gone."""
        metadata = self.state.metadata
        return Statements(
            named_by=self.table.added_by(self.snapshot.id),
            stats={path: text for path, text in self.rows("stats") if text is not None},
            constraints=constraints(metadata),
            materialized=materialized_columns(metadata.configuration),
        )

    def place(self, entry: str | None = None, field: str | None = None, column: str | None = None) -> Place:
        """Return a place in the log: the commit that adds the file `entry`, or the last commit with a protocol.

        This is the commit that adds the file `entry` or, without a file, the last commit with a protocol.
        """
        file = self.table.added_by(self.snapshot.id).get(entry or "")
        if file is None and (field or "").startswith("protocol."):
            version = self.snapshot.id
            file = next((each.file for each in self.table.protocols if each.version <= version), None)
        return Place(file=file or self.table.name(self.snapshot.id), entry=entry, field=field, column=column)


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A change data file that a commit names."""

    action: AddCdc
    storage: Storage
    place: Place


@dataclass(frozen=True, slots=True)
class CheckedCheckpoint:
    """A checkpoint to check.

    Attributes:
        table: The table.
        place: The place of the checkpoint.
        content: The content, or None if it cannot be read.
        fault: The reason why it cannot be read, or None.
        state: The state replayed from the commits alone, or None if the log has too few commits.
    """

    table: CheckedDelta
    place: Place
    content: CheckpointContent | None
    fault: HarnessError | None
    state: State | None


class CheckedDelta:
    """A table, and the versions of it that are checked, in ascending order."""

    def __init__(self, table: DeltaTable, versions: Sequence[int]) -> None:
        self.table, self.versions = table, tuple(versions)
        self.commits: dict[int, Commit] = {}
        self._named: dict[str, str] = {}
        self._in_checkpoints: dict[str, str] = {}
        self._named_to = -1
        self.checked_statistics: set[tuple[str, str | None]] = set()
        """Paths and statistics of files that were checked in an earlier version."""

    @property
    def log(self) -> LogListing:
        """The files of the log."""
        return self.table.log

    @cached_property
    def protocols(self) -> Sequence[Commit]:
        """Protocol-changing commits, newest first."""
        commits = (commit for commit in self.commits.values() if commit.protocol is not None)
        return sorted(commits, key=lambda commit: commit.version, reverse=True)

    def name(self, version: int) -> str:
        """Return the path of a commit, even if the log no longer has it."""
        file = self.log.commits.get(version)
        return f"{self.log.directory}/{version:020}.json" if file is None else file.path

    def added_by(self, version: int) -> Mapping[str, str]:
        """Return the commits or checkpoints that add files, by the path of the file, up to a version.

        A checkpoint only counts for files whose commits are no longer in the log. The mapping is kept and extended for
        the next version, so each commit is processed once.
        """
        if version < self._named_to:
            self._named, self._named_to = {}, -1
        for number in range(self._named_to + 1, version + 1):
            if (commit := self.commits.get(number)) is not None:
                self._named.update(dict.fromkeys(commit.adds.column("path").to_pylist(), commit.file))
        self._named_to = version
        return ChainMap(self._named, self._in_checkpoints)

    def breach(
        self, commit: Commit, field: str, recorded: str | None, actual: str | None, entry: str | None = None
    ) -> Breach:
        """Return a breach for a wrong statement in a commit."""
        return Breach(Place(file=commit.file, field=field, entry=entry), recorded, actual, self.writer(commit.version))

    def writer(self, version: int) -> str | None:
        """Return the program that wrote a commit, according to its commitInfo, or None."""
        commit = self.commits.get(version)
        values = {} if commit is None or commit.info is None else commit.info.values
        engine = values.get("engineInfo") or values.get("clientVersion")
        return engine if isinstance(engine, str) else None

    def subjects(self) -> Iterator[Subject]:
        """Yield the subjects of rules in order: the log with its commits, then its checkpoints, then the versions."""
        for version, file in self.log.commits.items():
            try:
                self.commits[version] = self._commit(file)
            except HarnessError as error:
                yield Reads.ERROR, error, version
        yield Reads.TABLE, self, None
        for checkpoint in self.log.checkpoints:
            yield Reads.CHECKPOINT, self._checked(checkpoint), checkpoint.version
        before: DeltaSnapshot | HarnessError | None = None
        for last, version in zip((None, *self.versions), self.versions, strict=False):
            is_next = last == version - 1 and self.table.is_next_commit(version)
            before = self._read(version, before if is_next else None)
            if isinstance(before, HarnessError):
                yield Reads.ERROR, before, version
            else:
                yield Reads.SNAPSHOT, Version(self, before), version
            commit = self.commits.get(version)
            for action in () if commit is None else commit.cdc:
                place = Place(file=self.name(version), field="cdc", entry=action.path)
                yield Reads.CHANGES, ChangeFile(action, self.table.storage, place), version

    def _read(self, version: int, before: DeltaSnapshot | HarnessError | None) -> DeltaSnapshot | HarnessError:
        """Return the snapshot of a version, or the error that occurred when it was read.

        `before` is the result for the previous version, from which the replay can continue. It is None if the two
        versions do not start with the same files.
        """
        if isinstance(before, CorruptFileError):
            return before
        try:
            if isinstance(before, DeltaSnapshot):
                return self.table.next_snapshot(before)
            return self.table.select(version).snapshot
        except HarnessError as error:
            return error

    def referenced_files(self) -> tuple[str, str, frozenset[str]]:
        """Return the table's root, the directory of its log, and the files in the log.

        The files are data files, change data files, and files of deletion vectors.

        Raises:
            HarnessError: A commit cannot be read, so the files that it names are unknown.
        """
        referenced = set[str]()
        commits = [self.commits.get(v) or self.table.commits.read_commit(file) for v, file in self.log.commits.items()]
        files = [self.table.latest.state.files, *(each for commit in commits for each in (commit.adds, commit.removes))]
        for table in files:
            referenced.update(self.table.locator.physical(table.column("key")).to_pylist())
            for row in table.select([f.name for f in DELETION_VECTOR]).to_pylist():
                vector = DeletionVectorDescriptor.from_row(row)
                if vector is not None:
                    path = vector_path(vector.storage_type, vector.path_or_inline, self.table.root)
                    referenced.update(() if path is None else (path,))
        referenced.update(each.physical for commit in commits for each in commit.cdc)
        return self.table.root.path, self.log.directory, frozenset(referenced)

    def _checked(self, checkpoint: Checkpoint) -> CheckedCheckpoint:
        content, fault = None, None
        try:
            content = self.checkpoint(checkpoint)
            for adds in content.adds:
                self._in_checkpoints.update(dict.fromkeys(adds.column("path").to_pylist(), checkpoint.files[0].path))
        except HarnessError as error:
            fault = error
        try:
            state = None if content is None else self.replay(checkpoint.version, without=checkpoint)
        except HarnessError:
            state = None  # a separate finding reports the damaged commit
        return CheckedCheckpoint(self, Place(file=checkpoint.files[0].path), content, fault, state)

    def _commit(self, file: LogFile | Compaction) -> Commit:
        at = file.file if isinstance(file, Compaction) else file
        version = file.last if isinstance(file, Compaction) else file.version
        storage = self.table.storage
        data = read_log_file(at, storage)
        with contained(file=at.path):
            return parse_commit(data, file=at.path, version=version, locator=self.table.locator, limits=storage.limits)

    def compacted(self, compaction: Compaction) -> Commit:
        """Return the content of a compacted log file. Raises the same errors as `CommitReader.read_commit`."""
        return self._commit(compaction)

    def checkpoint(self, checkpoint: Checkpoint) -> CheckpointContent:
        """Return the content of a checkpoint. Raises the same errors as `read_checkpoint`."""
        with contained(file=checkpoint.files[0].path):
            return read_checkpoint(checkpoint, self.table.storage, self.table.locator)

    def replay(self, version: int, *, without: Checkpoint | None = None) -> State | None:
        """Return the state at a version from commits and, if possible, an older checkpoint.

        Raises the same errors as `load_state`.

        The result is None if the log has too few commits. The checkpoint `without` is not used.
        """
        checkpoints = tuple(c for c in self.log.checkpoints if c != without and c.version < version)
        listing = replace(self.log, checkpoints=checkpoints, compactions=(), checksums={}, hint=None, has_hint=False)
        first = checkpoints[-1].version + 1 if checkpoints else 0
        if any(each not in listing.commits for each in range(first, version + 1)):
            return None
        return load_state(choose_segment(listing, version), self.table.storage, self.table.locator)


def identities(tables: Sequence[pa.Table]) -> Mapping[str, str]:
    """Return the logical files (delta R1) in tables of file actions, as recorded paths by identity."""
    paths_by_identity: dict[str, str] = {}
    for table in tables:
        if table.num_rows:
            paths = table.column("path").to_pylist()
            paths_by_identity.update(zip(ids_of(table).to_pylist(), paths, strict=True))
    return paths_by_identity
