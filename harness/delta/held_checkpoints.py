"""Checkpoints that this process has decoded: the next table that is opened on one takes it as it is.

A million files take some 240 MB. So it is the last few checkpoints that are held, and none of them twice: all
snapshots that begin with one share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from harness.cache.kept import Cache
from harness.cache.keys import Key
from harness.cache.memory import Memory
from harness.delta.checkpoints import CheckpointContent, UnreadableCheckpoint
from harness.delta.commits import Locator
from harness.delta.kept_statistics import KeptStatistics
from harness.delta.log_files import Checkpoint
from harness.records import dataclass
from harness.storage.stores import Storage

MOST_BYTES: Final = 512 << 20
SHARED: Final[Memory[CheckpointContent]] = Memory(MOST_BYTES)


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
        found: CheckpointContent | UnreadableCheckpoint | None = SHARED.get(key.name)
        if found is None:
            found = read()
            if isinstance(found, UnreadableCheckpoint) or found.sidecars:
                return found
            SHARED.put(key.name, found)
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
