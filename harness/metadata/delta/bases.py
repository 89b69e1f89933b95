"""The checkpoint that a replay begins with: the segment's, or an older one where that cannot be used."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import CorruptFileError
from harness.metadata.delta.checkpoint_files import Statistics
from harness.metadata.delta.checkpoint_statistics import KeptStatistics
from harness.metadata.delta.checkpoints import CheckpointContent, UnreadableCheckpoint, read_checkpoint
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.log_files import Checkpoint, CheckpointKind, Hint, LogFile
from harness.metadata.delta.segment import LogSegment
from harness.storage.decoded import DECODED, Cache, Key
from harness.storage.stores import Storage


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
    """The content of the checkpoint, decoded now or held from before: all snapshots that begin with it share it.

    A checkpoint with sidecars is read each time, as its own version does not tell theirs.
    """
    key = None if cache is None or statistics != "later" else _key(checkpoint, storage, locator, cache)
    found: CheckpointContent | UnreadableCheckpoint | None
    found = None if key is None else DECODED.get(key, CheckpointContent)
    if found is None:
        found = read_checkpoint(checkpoint, storage, locator, statistics=statistics)
        if cache is None or key is None or isinstance(found, UnreadableCheckpoint) or found.sidecars:
            return found
        DECODED.put(key, found)
    assert isinstance(found, CheckpointContent)
    if cache is None or key is None or found.statistics is None:
        return found
    # Not held with them: another table may have another directory, or none.
    return replace(found, statistics=replace(found.statistics, kept=KeptStatistics(cache, key)))


def _key(checkpoint: Checkpoint, storage: Storage, locator: Locator, cache: Cache) -> Key | None:
    versions = [cache.version(storage, file.path) for file in checkpoint.files]
    if None in versions:
        return None
    # What the same bytes are made into depends on where the table is, and on what may be read at all.
    told = repr((versions, locator, storage.limits, checkpoint.version))
    return Key("checkpoint", "\n".join(file.path for file in checkpoint.files), len(versions), told)


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
