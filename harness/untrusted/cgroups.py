"""A control group for a worker, if the user may create one, and a watch on the worker's resources.

In a control group, Linux limits the memory and threads of the worker. Only version 2 is supported. A group can be
created beside or inside the group of this process, if its directory and controllers are delegated to the user: root may
do it, and systemd delegates groups to a user's services (`systemd-run --user --scope`). Everywhere else, only
`ResourceWatch` and the limits that the process sets for itself apply.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.untrusted.bounds import SPARE_THREADS, Bounds

EVERY_S = 0.05
LIBRARY_BYTES = 512 << 20
"""The memory that libraries use in addition to the bound."""
_MOST_FILES, _MOST_LEVELS = 10_000, 20
"""The most files and levels in the scratch directory. A sort of DuckDB has a few hundred files in one level."""
_ENDLESS = 1 << 62
_SELDOM = 10
"""The number of checks after which one slower check is made."""
_UNIT = 512
"""The unit of a file's `st_blocks`, in bytes."""


class ResourceWatch:
    """A check of a worker's memory, threads, and files against its bounds, repeated while the worker runs.

    Linux limits address space, file sizes, and processor time per process. It does not limit the total size of a
    directory, the size of files without a name, or the threads of root.
    """

    def __init__(self, process: int, scratch: str, bounds: Bounds) -> None:
        self._proc, self._scratch, self._bounds = f"/proc/{process}", scratch, bounds
        self._in_scratch = (os.fsencode(scratch) + b"/").replace(b"\n", rb"\012")
        self._looks = itertools.count()

    def exceeded(self) -> tuple[str, str] | None:
        """Return the name of the bound that the worker exceeds, and how, or None if it is within all bounds."""
        bounds = self._bounds
        on_disk = self._scratch_bytes()
        if on_disk > bounds.scratch_bytes:
            return "scratch_bytes", "wrote too many bytes or files to its directory"
        if sys.platform != "linux":
            return None
        nameless = self._unlinked_bytes()
        if on_disk + nameless > bounds.scratch_bytes or (next(self._looks) % _SELDOM == 0 and self._maps_scratch()):
            return "scratch_bytes", "holds too many bytes in files"
        memory, threads = self._memory_and_threads()
        if memory + nameless > bounds.memory_bytes + LIBRARY_BYTES:
            return "memory_bytes", "holds too many bytes of memory"
        if threads > bounds.threads:
            return "threads", "started too many threads"
        return None

    def _scratch_bytes(self) -> int:
        """Return the size of the scratch directory, or `_ENDLESS` if it has too many files or levels."""
        total, waiting, files = 0, [(self._scratch, 0)], 0
        while waiting:
            directory, level = waiting.pop()
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        files += 1
                        if files > _MOST_FILES or level > _MOST_LEVELS:
                            return _ENDLESS
                        with contextlib.suppress(FileNotFoundError):
                            total += entry.stat(follow_symlinks=False).st_blocks * _UNIT
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append((entry.path, level + 1))
            except FileNotFoundError:  # deleted in the meantime
                continue
            except OSError:  # made unreadable by the worker
                return _ENDLESS
        return total

    def _unlinked_bytes(self) -> int:
        """Return the size of open or mapped files without a name, on disk, in memory, and in shared memory."""
        result: dict[tuple[int, int], int] = {}
        with contextlib.suppress(OSError), os.scandir(f"{self._proc}/fd") as descriptors:
            for entry in descriptors:
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                        result[status.st_dev, status.st_ino] = status.st_blocks * _UNIT
        return sum(result.values())

    def _maps_scratch(self) -> bool:
        """Return whether the worker has mapped a file of the scratch directory, whose size could then be hidden.

        No library of harness maps these files.
        """
        try:
            with open(f"{self._proc}/maps", "rb") as maps:
                return self._in_scratch in maps.read()
        except OSError:
            return False

    def _memory_and_threads(self) -> tuple[int, int]:
        """Return the process's private and shared memory in bytes, and its number of threads."""
        memory = threads = 0
        with contextlib.suppress(OSError, ValueError), open(f"{self._proc}/status", "rb") as lines:
            for line in lines:
                name, _, value = line.partition(b":")
                if name in (b"RssAnon", b"RssShmem"):
                    memory += int(value.split()[0]) << 10
                elif name == b"Threads":
                    threads = int(value)
        return memory, threads


_PREFIX = "harness-untrusted-"
_CONTROLLERS = {"memory", "pids"}
_GONE_S = 1.0


class ControlGroup:
    """A control group for one worker. Without a path, there is no group and all methods do nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def add_process(self, process: int) -> None:
        """Add a process before it runs any code. If the system refuses, no group is used."""
        if self._path is not None:
            try:
                (self._path / "cgroup.procs").write_text(str(process))
            except OSError:
                self.end()

    def ran_out_of_memory(self) -> bool:
        """Return whether the system ended the worker because it ran out of memory."""
        if self._path is None:
            return False
        with contextlib.suppress(OSError, ValueError):
            counts = dict(line.split() for line in (self._path / "memory.events").read_text().splitlines())
            return int(counts.get("oom_kill", 0)) > 0
        return False

    def end(self) -> None:
        """Kill the worker and remove the group."""
        path, self._path = self._path, None
        if path is None:
            return
        with contextlib.suppress(OSError):
            if (path / "cgroup.kill").exists():  # since Linux 5.14; the worker is one process
                (path / "cgroup.kill").write_text("1")
        until = time.monotonic() + _GONE_S
        while True:
            try:
                path.rmdir()
                return
            except OSError:
                if not path.exists() or time.monotonic() > until:
                    return
                time.sleep(0.005)  # killed processes leave the group a moment later


@contextlib.contextmanager
def worker_group(bounds: Bounds, scratch: str, *, system: Path = Path("/")) -> Iterator[ControlGroup]:
    """Create a control group with these bounds while the block runs, or an empty one if none can be created.

    Args:
        bounds: The bounds.
        scratch: The worker's scratch directory.
        system: The root of the file system.
    """
    group = ControlGroup(_make_group(bounds, scratch, system))
    try:
        yield group
    finally:
        group.end()


def _make_group(bounds: Bounds, scratch: str, system: Path) -> Path | None:
    try:
        mounts = [line.split(" - ", 1) for line in (system / "proc/self/mountinfo").read_text().splitlines()]
        groups = dict(line.split(":", 2)[::2] for line in (system / "proc/self/cgroup").read_text().splitlines())
        kinds = {left.split()[4]: right.split()[0] for left, right in mounts}
    except (OSError, ValueError, IndexError):
        return None
    roots = [where for where, kind in kinds.items() if kind == "cgroup2"]
    if "0" not in groups or not roots:
        return None
    top = system / roots[0].lstrip("/")
    process_group = top / groups["0"].lstrip("/")
    # The memory of a memory file system counts for the group.
    mount = next((str(above) for above in (Path(scratch), *Path(scratch).parents) if str(above) in kinds), "")
    in_memory = bounds.scratch_bytes if kinds.get(mount) in ("tmpfs", "ramfs") else 0
    limits = {
        "memory.max": str(bounds.memory_bytes + LIBRARY_BYTES + in_memory),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": str(bounds.threads + SPARE_THREADS),
    }
    for parent in (process_group.parent, process_group) if process_group != top else (process_group,):
        group = _make_group_in(parent, limits)
        if group is not None:
            return group
    return None


def _make_group_in(parent: Path, limits: Mapping[str, str]) -> Path | None:
    group = parent / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    try:
        if not set((parent / "cgroup.subtree_control").read_text().split()) >= _CONTROLLERS:
            return None
        for leftover in parent.glob(f"{_PREFIX}*"):  # left behind by killed processes
            if not os.path.exists(f"/proc/{leftover.name.removeprefix(_PREFIX).partition('-')[0]}"):
                with contextlib.suppress(OSError):
                    leftover.rmdir()
        group.mkdir()
    except OSError:
        return None
    try:
        for name, value in limits.items():
            if name != "memory.swap.max" or (group / name).exists():  # kernels without swap do not have this file
                (group / name).write_text(value)
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None
    return group
