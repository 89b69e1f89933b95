"""The checkpoint that a replay begins with: the segment's, or an older one where that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from harness.errors import CorruptFileError
from harness.metadata.delta.checkpoint_columns import Rows
from harness.metadata.delta.checkpoint_files import Statistics
from harness.metadata.delta.checkpoints import CheckpointContent, UnreadableCheckpoint, read_checkpoint
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.log_files import Checkpoint, CheckpointKind, Hint, LogFile
from harness.metadata.delta.segment import LogSegment
from harness.metadata.delta.statistics import Bounds, FileStats, Leaf, array_type
from harness.metadata.model.arrow_values import from_numpy, to_numpy
from harness.storage.decoded import Cache, Key, Memory
from harness.storage.decoded_folder import StrangeEntryError
from harness.storage.records import dataclass
from harness.storage.stores import Storage

# Statistics of checkpoints as columns, once they were read: row counts, and the bounds that filters asked for.
#
# A checkpoint is columns already, but its statistics are mostly JSON, a text a file: to parse them takes two thirds of
# the time in which a filter on a million files is planned. What was parsed is held in memory, and kept on disk where
# the # user names a directory.


MOST_STATISTICS_BYTES: Final = 128 << 20
FEWEST: Final = 10_000
"""Of fewer files the texts are parsed in less time than it takes to keep what they say."""
_COUNTS = pa.schema([pa.field("count", pa.int64())])
_ROW = pa.field("row", pa.int64())


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known of some rows of a checkpoint. rows: ascending."""

    rows: Rows
    table: pa.Table

    @property
    def size(self) -> int:
        return int(self.table.nbytes) + self.rows.nbytes


STATISTICS: Final[Memory[_Held]] = Memory(MOST_STATISTICS_BYTES)


@dataclass(frozen=True, slots=True)
class KeptStatistics:
    """What was read of the statistics of one version of a checkpoint. checkpoint: which one."""

    cache: Cache
    checkpoint: Key

    def get(self, wanted: Sequence[Leaf], rows: Rows) -> FileStats | None:
        """The statistics of rows of the checkpoint, in their order; None: not all of them are known."""
        columns: dict[int, Bounds] = {}
        for leaf in wanted:
            schema = _bounds(leaf)
            found = None if schema is None else self._get(_name(leaf), schema, rows)
            if found is None:
                return None
            columns[leaf.field.id] = Bounds(*(column.combine_chunks() for column in found.columns))
        counts = self._get("counts", _COUNTS, rows)
        return None if counts is None else FileStats(counts.column(0).combine_chunks(), columns)

    def put(self, wanted: Sequence[Leaf], parts: Sequence[tuple[Rows, FileStats]]) -> None:
        """Keeps statistics of rows of the checkpoint, all in arrays, in place of those that were known; but not few."""
        if sum(len(rows) for rows, _ in parts) < FEWEST:
            return
        rows = np.concatenate([rows for rows, _ in parts])
        order = np.argsort(rows, kind="stable")
        tables = {"counts": [pa.table([found.rows], schema=_COUNTS) for _, found in parts]}
        for leaf in wanted:
            own = [found.columns[leaf.field.id] for _, found in parts]
            tables[_name(leaf)] = [pa.table([b.lower, b.upper, b.nulls], schema=_bounds(leaf)) for b in own]
        for what, pieces in tables.items():
            if self._get(what, pieces[0].schema, rows) is None:  # else more may be known
                table = pa.concat_tables(pieces).combine_chunks()
                self._put(what, rows[order], table if (order[1:] > order[:-1]).all() else table.take(from_numpy(order)))

    def _get(self, what: str, schema: pa.Schema, rows: Rows) -> pa.Table | None:
        key = self._key(what)
        found = STATISTICS.get(key.name) or self._stored(key, schema)
        if found is None or not len(found.rows):
            return None
        places = np.minimum(np.searchsorted(found.rows, rows), len(found.rows) - 1)
        if (found.rows[places] != rows).any():
            return None
        return found.table if len(rows) == len(found.rows) else found.table.take(from_numpy(places))

    def _put(self, what: str, rows: Rows, table: pa.Table) -> None:
        key = self._key(what)
        STATISTICS.put(key.name, _Held(rows, table))
        if self.cache.folder is not None:
            self.cache.put(key, table.append_column(_ROW, from_numpy(rows)))

    def _stored(self, key: Key, schema: pa.Schema) -> _Held | None:
        entry = None if self.cache.folder is None else self.cache.get(key)
        if entry is None:
            return None
        try:
            table = entry.columns(schema.append(_ROW))
        except StrangeEntryError:
            self.cache.drop(key)
            return None
        found = _Held(to_numpy(table.column(_ROW.name)), table.drop_columns([_ROW.name]))
        STATISTICS.put(key.name, found)
        return found

    def _key(self, what: str) -> Key:
        of = self.checkpoint
        return Key(f"statistics of a checkpoint: {what}", of.path, of.size, of.token)


def _name(leaf: Leaf) -> str:
    return f"bounds of {leaf.path} as {leaf.field.type}"


def _bounds(leaf: Leaf) -> pa.Schema | None:
    type_ = array_type(leaf.field.type)
    return None if type_ is None else pa.schema([("lower", type_), ("upper", type_), ("nulls", pa.int64())])


# Checkpoints that this process has decoded: the next table that is opened on one takes it as it is.
#
# A million files take some 240 MB. So it is the last few checkpoints that are held, and none of them twice: all
# snapshots that begin with one share it.


MOST_CHECKPOINT_BYTES: Final = 512 << 20
CHECKPOINTS: Final[Memory[CheckpointContent]] = Memory(MOST_CHECKPOINT_BYTES)


@dataclass(frozen=True, slots=True)
class HeldCheckpoints:
    """What this process may remember for one table, and the storage that says which version of a file there is."""

    cache: Cache
    storage: Storage

    def get(
        self, checkpoint: Checkpoint, locator: Locator, read: Callable[[], CheckpointContent | UnreadableCheckpoint]
    ) -> CheckpointContent | UnreadableCheckpoint:
        """What the checkpoint says, as `read` gives it, or has given it for the same versions of the same files.

        One with sidecars is read each time, as its own version does not tell theirs.
        """
        key = self._key(checkpoint, locator)
        if key is None:
            return read()
        found: CheckpointContent | UnreadableCheckpoint | None = CHECKPOINTS.get(key.name)
        if found is None:
            found = read()
            if isinstance(found, UnreadableCheckpoint) or found.sidecars:
                return found
            CHECKPOINTS.put(key.name, found)
        assert isinstance(found, CheckpointContent)
        if found.statistics is None:
            return found
        # Not held with them: another table may have another directory, or none.
        return replace(found, statistics=replace(found.statistics, kept=KeptStatistics(self.cache, key)))

    def _key(self, checkpoint: Checkpoint, locator: Locator) -> Key | None:
        versions = [self.cache.version(self.storage, file.path) for file in checkpoint.files]
        if None in versions:
            return None
        # What the same bytes are made into depends on where the table is, and on what may be read at all.
        told = repr((versions, locator, self.storage.limits, checkpoint.version))
        return Key("checkpoint", "\n".join(file.path for file in checkpoint.files), len(versions), told)


def read_base(
    segment: LogSegment, storage: Storage, locator: Locator, statistics: Statistics, cache: Cache | None
) -> tuple[LogSegment, CheckpointContent | None]:
    """The checkpoint of the segment, or of the next one that can be read (delta L9, L15, L19)."""
    first: UnreadableCheckpoint | None = None
    while segment.checkpoint is not None:
        read = _read(segment.checkpoint, storage, locator, statistics, cache)
        if isinstance(read, CheckpointContent) and segment.checkpoint.kind is CheckpointKind.MULTI_PART:
            read = _refuse_parts_of_v2(read, segment.checkpoint.files[0])
        if isinstance(read, CheckpointContent):
            read = _refuse_other_counts(read, segment.hint, segment.checkpoint.files[0])
        if isinstance(read, CheckpointContent):
            return segment, read
        first = first or read
        following = segment.fallback(read.error.message)
        if following is None:
            raise first.error
        segment = following
    return segment, None


def _read(
    checkpoint: Checkpoint, storage: Storage, locator: Locator, statistics: Statistics, cache: Cache | None
) -> CheckpointContent | UnreadableCheckpoint:
    read = partial(read_checkpoint, checkpoint, storage, locator, statistics=statistics)
    if cache is None or statistics != "later":
        return read()
    return HeldCheckpoints(cache, storage).get(checkpoint, locator, read)


def _refuse_parts_of_v2(content: CheckpointContent, part: LogFile) -> CheckpointContent | UnreadableCheckpoint:
    """delta L13."""
    features = () if content.protocol is None else (content.protocol.reader_features or ())
    if "v2checkpoint" not in {name.lower() for name in features}:
        return content
    message = "Cannot use a checkpoint in parts: the table has the feature v2Checkpoint, which forbids them"
    return UnreadableCheckpoint(CorruptFileError(message, cause="LogCorrupt", file=part.path, rule="delta L13"))


def _refuse_other_counts(
    content: CheckpointContent, hint: Hint | None, file: LogFile
) -> CheckpointContent | UnreadableCheckpoint:
    """A checkpoint that lost actions still reads well, and only the counts in the hint tell.

    delta L6 and L10 do not trust them either. So they refuse nothing where another base gives the version; where there
    is none, one of the two is wrong, and which one only the user can say.
    """
    if hint is None:
        return content
    said, found, what = (
        (hint.actions, content.actions, "actions") if hint.files is None else (hint.files, content.files, "live files")
    )
    if said is None or found is None or said == found:
        return content
    message = (
        f"Cannot use the checkpoint: it holds {found} {what}, _last_checkpoint says {said}. If the checkpoint is "
        "right, delete _last_checkpoint"
    )
    return UnreadableCheckpoint(CorruptFileError(message, cause="LogCorrupt", file=file.path, rule="delta L10"))
