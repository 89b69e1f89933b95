"""Sums the memory, threads and files of a worker while it works: limits that no call of Linux sets.

Linux counts address space, a file's size and processor time by process. It counts neither all files of a directory
together, nor files that have lost their name, nor, for root, threads. So they are looked at, many times a second.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
from contextlib import suppress

from harness.contained.bounds import Bounds

EVERY_S = 0.05
LIBRARY_BYTES = 512 << 20
"""Of memory that the libraries take beside the bound."""
_MOST_FILES, _MOST_LEVELS = 10_000, 20
"""In the scratch directory. A sort of DuckDB has a few hundred files, in one level."""
_ENDLESS = 1 << 62
_SELDOM = 10
"""How many looks have one that takes longer."""
_UNIT = 512
"""Of a file's `st_blocks`, in bytes."""


class Watch:
    """Memory, threads and files of a worker, against its bounds."""

    def __init__(self, process: int, scratch: str, bounds: Bounds) -> None:
        self._proc, self._scratch, self._bounds = f"/proc/{process}", scratch, bounds
        self._in_scratch = (os.fsencode(scratch) + b"/").replace(b"\n", rb"\012")
        self._looks = itertools.count()

    def exceeded(self) -> tuple[str, str] | None:
        """The name of a bound that the worker is beyond, and how; None: it is within all of them."""
        bounds = self._bounds
        on_disk = self._on_disk()
        if on_disk > bounds.scratch_bytes:
            return "scratch_bytes", "wrote too many bytes, or files, to its directory"
        if sys.platform != "linux":
            return None
        nameless = self._nameless()
        if on_disk + nameless > bounds.scratch_bytes or (next(self._looks) % _SELDOM == 0 and self._maps_scratch()):
            return "scratch_bytes", "holds too many bytes in files"
        memory, threads = self._status()
        if memory + nameless > bounds.memory_bytes + LIBRARY_BYTES:
            return "memory_bytes", "holds too many bytes of memory"
        if threads > bounds.threads:
            return "threads", "started too many threads"
        return None

    def _on_disk(self) -> int:
        """Bytes below the scratch directory; endless: there are more files or levels than a sort takes."""
        total, waiting, files = 0, [(self._scratch, 0)], 0
        while waiting:
            directory, level = waiting.pop()
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        files += 1
                        if files > _MOST_FILES or level > _MOST_LEVELS:
                            return _ENDLESS
                        with suppress(FileNotFoundError):
                            total += entry.stat(follow_symlinks=False).st_blocks * _UNIT
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append((entry.path, level + 1))
            except FileNotFoundError:  # it went meanwhile
                continue
            except OSError:  # it was made so that nobody can look into it
                return _ENDLESS
        return total

    def _nameless(self) -> int:
        """Bytes in files that are open, or mapped, and have no name: on disk, in memory and shared memory."""
        found: dict[tuple[int, int], int] = {}
        with suppress(OSError), os.scandir(f"{self._proc}/fd") as descriptors:
            for entry in descriptors:
                with suppress(OSError):
                    at = entry.stat()
                    if stat.S_ISREG(at.st_mode) and at.st_nlink == 0:
                        found[at.st_dev, at.st_ino] = at.st_blocks * _UNIT
        return sum(found.values())

    def _maps_scratch(self) -> bool:
        """Whether files of the scratch directory are mapped, which none of its libraries does: it would hide them."""
        try:
            with open(f"{self._proc}/maps", "rb") as maps:
                return self._in_scratch in maps.read()
        except OSError:
            return False

    def _status(self) -> tuple[int, int]:
        """Memory that is the process's own or shared, in bytes, and its number of threads."""
        memory = threads = 0
        with suppress(OSError, ValueError), open(f"{self._proc}/status", "rb") as lines:
            for line in lines:
                name, _, value = line.partition(b":")
                if name in (b"RssAnon", b"RssShmem"):
                    memory += int(value.split()[0]) << 10
                elif name == b"Threads":
                    threads = int(value)
        return memory, threads
