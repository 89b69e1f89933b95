"""Replay of the log: from the files of a segment to the state of the table at its version (delta section 2).

The newest action on a logical file wins. Files are skipped by statistics or partition only after the log has been
replayed: if a newer add were skipped first, an older add could come back (delta R5). Each distinct file id gets a
number, so that reconciling takes a few passes over arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import (
    CorruptFileError,
    HarnessError,
    InvalidTableError,
    LimitError,
    MissingFileError,
    untrusted_table_error,
)
from harness.metadata.delta.action_lines import Body, ParsedActions, parse_actions
from harness.metadata.delta.actions import (
    ADDS,
    FILES_STATE,
    PARTITION_VALUES,
    DomainMetadata,
    Metadata,
    Protocol,
    State,
    Transaction,
)
from harness.metadata.delta.checkpoint_files import concat_files
from harness.metadata.delta.commits import (
    REMOVE_IDENTITY,
    Locator,
    file_actions,
    ids_of,
    read_log_files,
    refuse_repeats,
)
from harness.metadata.delta.log_files import Compaction, LogFile
from harness.metadata.delta.paths import require_readable
from harness.metadata.delta.segment import LogSegment
from harness.metadata.files.documents import check_document
from harness.metadata.model.arrow_values import array_of, first_repeated, from_numpy, scalar_of, to_numpy
from harness.storage.decoded import Cache
from harness.storage.gate import IRREGULAR
from harness.storage.limits import Limits, contained
from harness.storage.records import dataclass
from harness.storage.stores import Storage
from harness.storage.threads import phase

if TYPE_CHECKING:
    from harness.metadata.delta.checkpoint_files import StatisticsScope
    from harness.metadata.delta.checkpoint_statistics import CheckpointStatistics
    from harness.metadata.delta.checkpoints import CheckpointContent


def read_checksum(checksum: LogFile, storage: Storage) -> Mapping[str, object] | None:
    """Return the document in a checksum file, or None if it is malformed.

    Raises:
        MissingFileError: The file is missing.
    """
    data = storage.read(checksum.path)
    try:
        check_document(data, file=checksum.path, limits=storage.limits)
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError, LimitError):
        return None
    return document if isinstance(document, dict) else None


def checksum_conflicts(state: State, checksum: LogFile | None, storage: Storage) -> tuple[str, ...]:
    """Return warnings for a checksum file that contradicts the state or cannot be read (delta L28).

    Checksum files were stale or malformed in real tables, so they never override the result of replay.
    """
    if checksum is None:
        return ()
    name = checksum.name
    try:
        document = read_checksum(checksum, storage)
    except MissingFileError as error:
        if error.cause == IRREGULAR:
            raise
        return ()
    if document is None:
        return (f"The checksum file {name} is malformed and was not used",)
    document = {
        key: len(value) if key == "allFiles" and isinstance(value, list) else value for key, value in document.items()
    }
    files, vectors = state.files, state.files.column("dv_cardinality")
    facts = {
        "numFiles": files.num_rows,
        "tableSizeBytes": pc.sum(files.column("size"), min_count=0).as_py(),
        "numProtocol": 1,
        "numMetadata": 1,
        "numDeletionVectorsOpt": len(vectors) - vectors.null_count,
        "numDeletedRecordsOpt": pc.sum(vectors, min_count=0).as_py(),
        "allFiles": files.num_rows,
    }
    return tuple(
        f"The checksum file {name} records {key} {document[key]}, the log has {value}"
        for key, value in facts.items()
        if type(document.get(key)) is int and document[key] != value
    )


Ranks: TypeAlias = npt.NDArray[np.int64]

ACTIONS_AT_ONCE = 16_384  # file actions held as parsed JSON at a time


def load_state(
    segment: LogSegment,
    storage: Storage,
    locator: Locator,
    *,
    statistics: StatisticsScope = "any",
    cache: Cache | None = None,
    before: State | None = None,
) -> State:
    """Replay the log up to the version of `segment`.

    If the checkpoint cannot be read, the segment's next checkpoint is used. A compacted file that cannot be read, or
    that the checksum file contradicts, is ignored with a warning.

    Args:
        segment: The files to replay.
        storage: The storage that reads them.
        locator: Maps recorded paths to files.
        statistics: The statistics that `State.files` contains. With `deferred`, `State.statistics` contains the others.
            With `any`, there is a column `stats_parsed` only if a checkpoint has files without JSON statistics.
        cache: The cache of decoded checkpoints. None: checkpoints are not cached.
        before: The state to which the commits of the segment are added. None: the commits follow the segment's
            checkpoint, or start at version 0.

    Raises:
        CorruptFileError: A commit, or the only checkpoint, cannot be read. Rules: delta L19, L24.
        InvalidTableError: The log contradicts itself, or has no protocol or metadata. In an untrusted table, also if
            the checksum file contradicts the log. Rules: delta L14, L18, L20, L25, R3, R13.
        MissingFileError: A file of the log is missing.
        UnsupportedError: A live file is in a store that cannot be opened. Rule: delta L41.
    """
    load = partial(_load, storage=storage, locator=locator, statistics=statistics, cache=cache, before=before)
    while True:
        try:
            state = load(segment)
            break
        except (CorruptFileError, InvalidTableError, MissingFileError) as error:
            if not segment.compactions or error.cause == IRREGULAR:
                raise
            damaged_compactions = [
                compaction for compaction in segment.compactions if compaction.file.path == error.file
            ]
            segment = segment.without(damaged_compactions or segment.compactions, error.message)
    doubts = checksum_conflicts(state, segment.checksum, storage)
    if doubts and segment.compactions:
        commits_only = segment.without(segment.listing.compactions, doubts[0])
        commits_state = load(commits_only)
        commits_doubts = checksum_conflicts(commits_state, commits_only.checksum, storage)
        state, doubts = (state, doubts) if commits_doubts == doubts else (commits_state, commits_doubts)
    if doubts and storage.untrusted:
        raise untrusted_table_error(doubts[0], locator.root.path)
    return replace(state, warnings=(*state.warnings, *doubts))


def _load(
    segment: LogSegment,
    *,
    storage: Storage,
    locator: Locator,
    statistics: StatisticsScope,
    cache: Cache | None,
    before: State | None,
) -> State:
    base: CheckpointContent | None = None
    if segment.checkpoint is not None:
        from harness.metadata.delta.checkpoints import read_base

        with phase("reading the checkpoint"):
            segment, base = read_base(segment, storage, locator, statistics, cache)
    adds, removes = PendingActions(ADDS, locator, statistics != "none"), PendingActions(REMOVE_IDENTITY, locator)
    replay = _Replay(FileActions(adds, removes, storage.limits))
    if base is not None:
        replay.protocol, replay.metadata = base.protocol, base.metadata
        replay.base, replay.statistics = base.adds, base.statistics
        replay.latest(base.transactions, base.domains)
    if before is not None:
        replay.protocol, replay.metadata = before.protocol, before.metadata
        replay.base, replay.statistics = (before.files.combine_chunks(),), before.statistics
        replay.latest(before.transactions.values(), before.domains.values())
    files = [step.file if isinstance(step, Compaction) else step for step in segment.steps]
    for file, data in read_log_files(files, storage, locator):
        with contained(file=file.path):
            replay.step(data, file=file.path)
    state = replay.state(segment.version, segment.warnings, locator.root.path)
    require_readable(state.files.column("key"), locator.root, storage)
    return state


@dataclass(slots=True)
class _Replay:
    """The state of a replay: a base and the commits after it, applied in ascending order of versions."""

    actions: FileActions
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    base: tuple[pa.Table, ...] = ()
    statistics: CheckpointStatistics | None = None
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    def step(self, data: bytes, *, file: str) -> None:
        parsed = self.actions.parse(data, file=file)
        protocol, metadata = parsed.protocol, parsed.only_metadata
        self.protocol = self.protocol if protocol is None else protocol
        self.metadata = self.metadata if metadata is None else metadata
        self.latest(parsed.transactions, parsed.domains)

    def state(self, version: int, warnings: tuple[str, ...], table: str) -> State:
        if self.protocol is None or self.metadata is None:
            missing = "protocol" if self.protocol is None else "metaData"
            message = f"The log has no {missing} action up to version {version}, so the table cannot be read"
            raise InvalidTableError(message, cause="LogCorrupt", table=table, snapshot=version, rule="delta L20")
        files = self._live_files()
        vectors = files.column("dv_storage_type")
        # Without vectors, the keys are the ids, which are unique after replay.
        repeated = None if vectors.null_count == len(vectors) else first_repeated(files.column("key"))
        if repeated is not None:  # otherwise the file would be read twice
            raise two_vectors_error(repeated)
        return State(
            version=version,
            protocol=self.protocol,
            metadata=self.metadata,
            files=validate_files(files, self.metadata),
            statistics=self.statistics,
            transactions=self.transactions,
            domains={name: domain for name, domain in self.domains.items() if not domain.removed},
            warnings=warnings,
        )

    def latest(self, transactions: Iterable[Transaction], domains: Iterable[DomainMetadata]) -> None:
        self.transactions.update((transaction.app_id, transaction) for transaction in transactions)
        self.domains.update((domain.domain, domain) for domain in domains)

    def _live_files(self) -> pa.Table:
        """Return the live files: those whose newest action is an add (delta R1 to R5)."""
        actions = self.actions.finish()
        if not len(actions.ids):
            return concat_files(self.base)
        newest = _newest_indices(actions.ids, np.concatenate([actions.add_ranks, actions.remove_ranks]))
        live = actions.adds.take(from_numpy(np.sort(newest[newest < actions.adds.num_rows])))
        return concat_files((*_without_files(self.base, actions.ids), live))


@dataclass(slots=True)
class PendingActions:
    """File actions of many commits, converted to tables in large pieces.

    The rank of an action is the number of its step.
    """

    schema: pa.Schema
    locator: Locator
    with_stats: bool = True
    bodies: list[Body] = field(default_factory=list)
    body_ranks: list[int] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    ranks: list[Ranks] = field(default_factory=list)

    def extend(self, bodies: list[Body], rank: int, files: list[str]) -> None:
        """Append the actions of the commit with a number. `files` has the paths of all commits, for errors."""
        for start in range(0, len(bodies), ACTIONS_AT_ONCE):
            piece = bodies[start : start + ACTIONS_AT_ONCE]
            self.bodies += piece
            self.body_ranks += [rank] * len(piece)
            if len(self.bodies) >= ACTIONS_AT_ONCE:
                self._flush(files)

    def finish(self, files: list[str]) -> tuple[pa.Table, Ranks]:
        """Return all actions as a table, and the rank of each."""
        self._flush(files)
        table = pa.concat_tables(self.tables).combine_chunks()
        return table, np.concatenate(self.ranks)

    def _flush(self, files: list[str]) -> None:
        try:
            table = file_actions(self.bodies, self.schema, locator=self.locator, file=None)
        except HarnessError as error:
            raise self._with_commit(error, files) from error.__cause__
        if not self.with_stats:
            index = self.schema.get_field_index("stats")
            table = table.set_column(index, self.schema.field(index), pa.nulls(table.num_rows, pa.string()))
        self.tables.append(table)
        self.ranks.append(np.array(self.body_ranks, dtype=np.int64))
        self.bodies, self.body_ranks = [], []

    def _with_commit(self, error: HarnessError, files: list[str]) -> HarnessError:
        """Return an error of a conversion again, naming the commit that caused it."""
        for rank in sorted(set(self.body_ranks)):
            bodies = [body for body, body_rank in zip(self.bodies, self.body_ranks, strict=True) if body_rank == rank]
            try:
                file_actions(bodies, self.schema, locator=self.locator, file=files[rank])
            except HarnessError as placed:
                return placed
        return error


@dataclass(frozen=True, slots=True)
class RankedActions:
    """The file actions of many commits. The rank of an action is the number of its commit.

    Attributes:
        adds: The add actions, in the order of the commits.
        add_ranks: The rank of each add action.
        removes: The remove actions, in the order of the commits.
        remove_ranks: The rank of each remove action.
        ids: The ids of the logical files of all add actions, followed by those of all remove actions.
    """

    adds: pa.Table
    add_ranks: Ranks
    removes: pa.Table
    remove_ranks: Ranks
    ids: pa.Array


@dataclass(slots=True)
class FileActions:
    """The file actions of commits, collected while the commits are parsed.

    Attributes:
        adds: The add actions.
        removes: The remove actions.
        limits: The limits on the number of actions.
        files: The paths of the commits so far.
    """

    adds: PendingActions
    removes: PendingActions
    limits: Limits
    files: list[str] = field(default_factory=list)

    def parse(self, data: bytes, *, file: str) -> ParsedActions:
        """Parse the next commit, collect its file actions, and return its other actions."""
        number = len(self.files)
        self.files.append(file)

        def drain(parsed: ParsedActions) -> None:
            self.adds.extend(parsed.adds, number, self.files)
            self.removes.extend(parsed.removes, number, self.files)
            parsed.adds.clear()
            parsed.removes.clear()

        parsed = parse_actions(data, file=file, drain=drain, limits=self.limits)
        drain(parsed)
        return parsed

    def finish(self) -> RankedActions:
        """Return all file actions.

        Raises:
            InvalidTableError: A commit repeats a file (rule delta L25).
        """
        adds, add_ranks = self.adds.finish(self.files)
        removes, remove_ranks = self.removes.finish(self.files)
        ids = pa.concat_arrays([ids_of(adds), ids_of(removes)])
        if len(ids):
            refuse_repeats(ids, np.concatenate([add_ranks, remove_ranks]), len(add_ranks), files=self.files)
        return RankedActions(adds, add_ranks, removes, remove_ranks, ids)


def _newest_indices(ids: pa.Array, ranks: Ranks) -> Ranks:
    """Return, for each distinct id, the index with the greatest rank."""
    codes: Ranks = to_numpy(pc.dictionary_encode(ids).indices).astype(np.int64)
    order = np.lexsort((ranks, codes)).astype(np.int64)
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = codes[order][1:] != codes[order][:-1]
    newest: Ranks = order[last]
    return newest


def _without_files(tables: Iterable[pa.Table], ids: pa.Array) -> Iterator[pa.Table]:
    """Yield `tables` without the files that `ids` identify."""
    distinct_ids = pc.unique(ids)
    for table in tables:
        is_kept = pc.invert(pc.is_in(ids_of(table), value_set=distinct_ids))
        yield table if pc.all(is_kept).as_py() else table.filter(is_kept)


def two_vectors_error(key: str) -> InvalidTableError:
    """Return the error for a data file that is live with two deletion vectors."""
    message = (
        f"The data file {key} is live with two deletion vectors: a writer replaced one without removing "
        "its previous entry. Which rows are deleted is undefined"
    )
    return InvalidTableError(message, cause="LogCorrupt", file=key, rule="delta R3")


def validate_files(files: pa.Table, metadata: Metadata) -> pa.Table:
    """Return `files` with partition values for all of them; refuse negative sizes and missing values.

    Spec: rules delta R13, L25.
    """
    negative = files.filter(pc.less(files.column("size"), scalar_of(0, pa.int64())))
    if negative.num_rows:
        path, size = negative.column("path")[0], negative.column("size")[0]
        raise InvalidTableError(
            f"The log records a negative size for {path}: {size} bytes", cause="LogCorrupt", rule="delta R13"
        )
    values = files.column("partition_values")
    if not values.null_count:
        return files
    if metadata.partition_columns:
        path = files.filter(pc.is_null(values)).column("path")[0]
        message = f"The table is partitioned, and the log has no partition values for {path}"
        raise InvalidTableError(message, cause="LogCorrupt", rule="delta L25")
    empty = array_of([()] * files.num_rows, PARTITION_VALUES)
    index = files.schema.get_field_index("partition_values")
    return files.set_column(index, FILES_STATE.field("partition_values"), empty)
