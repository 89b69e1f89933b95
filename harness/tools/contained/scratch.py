"""The directories in which workers write: one each, which goes with its worker, or with the next one that starts.

Who waits for a worker holds a lock on its directory. The system lets go of it however that process ends, so that a
directory without a lock is nobody's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator

PREFIX = "harness-untrusted-"
_TRIES = 10


@contextlib.contextmanager
def own_directory() -> Iterator[str]:
    """An empty directory of this process alone, links resolved. Those that processes left which are no more go first.

    Raises:
        OSError: none can be made.
    """
    sweep()
    path, lock = _locked()
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            _remove(path)
        if lock is not None:
            os.close(lock)


def sweep() -> None:
    """Take away the directories of this user that no live process holds."""
    parent = tempfile.gettempdir()
    try:
        with os.scandir(parent) as entries:
            left = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for path in left:
        with contextlib.suppress(OSError):
            lock = _lock(path, wait=False)
            if lock is not None:
                try:
                    _remove(path)
                finally:
                    os.close(lock)


def _locked() -> tuple[str, int | None]:
    for _ in range(_TRIES):
        path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        try:
            lock = _lock(path, wait=True)
        except FileNotFoundError:  # swept between the two
            continue
        except OSError:  # a file system without locks; nobody can take them there, and nobody sweeps
            return path, None
        if lock is not None:
            return path, lock
    raise FileNotFoundError(f"no directory stays in {tempfile.gettempdir()}")


def _lock(path: str, *, wait: bool) -> int | None:
    """The descriptor that holds the lock on a directory; None: it is another user's, held, or not there any more.

    Raises:
        OSError: it is none, or cannot be locked.
    """
    import fcntl

    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(opened)
        if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode):
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(found, os.stat(path, follow_symlinks=False)):
                opened, kept = -1, opened
                return kept
        return None
    except BlockingIOError:
        return None
    finally:
        if opened >= 0:
            os.close(opened)


def _remove(directory: str) -> None:
    """Take away a directory and all below it, however deep: what lies two levels below comes up by one, each time.

    Paths below may be longer than the system takes, and levels more than Python's stack.

    Raises:
        OSError: something cannot be taken away.
    """
    numbers = itertools.count()
    marks = f"{directory}/.{os.getpid()}-"
    while inner := _emptied(directory):
        for path in inner:
            os.chmod(path, 0o700)  # it may have been made so that nobody can look into it
            for deeper in _emptied(path):
                os.chmod(deeper, 0o700)  # or move it
                os.rename(deeper, f"{marks}{next(numbers)}")
            os.rmdir(path)
    os.rmdir(directory)


def _emptied(directory: str) -> list[str]:
    """The directories in a directory, once nothing else is in it."""
    with os.scandir(directory) as entries:
        found = list(entries)
    for entry in found:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
    return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
