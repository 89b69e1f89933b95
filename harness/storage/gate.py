"""The gate of every path of a table: before anything opens it, it must be a possible name, and that of a regular file.

Paths come from metadata that anyone may have written. A path of a directory makes one reader fail and another read the
files inside; a library in C opens what stands before a NUL; a pipe makes a reader wait for ever. So each path passes
here first, whoever opens the file then.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from typing import BinaryIO, TypeAlias

from harness.errors import HarnessError, MissingFileError, StorageError

Follow: TypeAlias = Callable[[str], str]
"""Resolves a link to its file. Raises HarnessError where that file may not be read."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_LINKS = (errno.ELOOP, errno.EMLINK)
"""Error numbers of opening a link that is not followed; EMLINK is FreeBSD's."""
_QUERY = re.compile(r"\?[^\s'\"<>]*|(?<=://)[^\s/@]*@")  # of a URL, and the user before its host
_SHOWN = 300  # characters
_LONGEST = 32_767
"""Characters of a path, on Windows; Linux has 4,095, object stores 1,024. What resolves links takes for ever beyond."""
ABSENT = "it does not exist"
IRREGULAR = "IrregularFile"
"""Cause of the error for what is there and is no regular file: nothing else may stand for it."""
_FAULTS = {
    errno.ENOENT: ABSENT,
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of its path is a file, not a directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "its path is a circle of links, or became a link while it was opened",
    errno.ENAMETOOLONG: "its name is longer than a file's can be",
}
_IN_THE_WAY = (errno.EISDIR, errno.ELOOP)
_KINDS = {
    FileNotFoundError: errno.ENOENT,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    PermissionError: errno.EACCES,
}
# What says of a local path that nothing is there, rather than that it cannot be looked at.
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def is_name(path: str) -> bool:
    """Tells whether a file can be called so: it is no longer than any system's, has no NUL and no half of a character.

    On Linux, what is not UTF-8 comes as halves of characters; no plan can hold such a path.
    """
    return len(path) <= _LONGEST and "\0" not in path and (path.isascii() or _is_encodable(path))


def name_fault(path: str) -> str | None:
    """Why no file can be called so; None: one can."""
    if is_name(path):
        return None
    if len(path) > _LONGEST:
        return f"its path has {len(path):,} characters, more than a file's can have"
    return f"no file that is read can have {'a NUL' if chr(0) in path else 'half a character'} in its path"


def fault(path: str, *, follow: Follow | None = None) -> str | None:
    """Why a local path is not of a file that can be opened; None: it is of a regular file. About 3 µs.

    A link counts as what it leads to. follow: says whether that may be read; None: it may.
    """
    if not is_name(path):
        return name_fault(path)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            mode = os.stat(path if follow is None else follow(path)).st_mode
    except OSError as error:
        return _FAULTS.get(error.errno or 0, f"{error.strerror}")
    return None if stat.S_ISREG(mode) else _irregular(mode)


def mode_of(path: str) -> int | None:
    """The mode at a local path, links followed, as in `os.stat_result.st_mode`; None: nothing is there.

    Raises:
        MissingFileError, StorageError: that cannot be told.
    """
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in _NOWHERE:
            return None
        raise refusal(error, path) from error


def is_there(path: str) -> bool:
    """Tells whether a regular file is at a local path, links followed; False: nothing is.

    Raises:
        MissingFileError: something else is, or a link that leads nowhere. StorageError: that cannot be told.
    """
    mode = mode_of(path)
    if mode is None and os.path.islink(path):
        raise _missing("it is a link that leads nowhere", path, IRREGULAR)
    if mode is not None and not stat.S_ISREG(mode):
        raise _missing(_irregular(mode), path, IRREGULAR)
    return mode is not None


def refuse_no_name(path: str) -> None:
    """Refuses what no file can be called, before a library takes it for something else.

    Raises:
        MissingFileError: as said.
    """
    unnamed = name_fault(path)
    if unnamed is not None:
        raise _missing(unnamed, path)


def open_regular(path: str, *, follow: Follow | None = None) -> BinaryIO:
    """A local file, open for reading; never waits for the other end of a pipe.

    follow: says where a link leads, if that may be read; what becomes a link after that is not opened. None: all links
        are followed.

    Raises:
        MissingFileError: it is not there, cannot be opened, or is no regular file.
        StorageError: the file system fails.
    """
    return os.fdopen(_opened(path, follow)[0], "rb")


def read_end(path: str, length: int, *, follow: Follow | None = None) -> bytes:
    """The last `length` bytes of a local file, or all of a shorter one, for many files: no stream is made.

    follow, and what is raised: as for `open_regular`.
    """
    opened, size = _opened(path, follow)
    try:
        length = min(length, size)  # as much memory as is asked for is taken, whatever there is
        os.lseek(opened, size - length, os.SEEK_SET)
        return os.read(opened, length)
    except OSError as error:
        raise refusal(error, path) from error
    finally:
        os.close(opened)


def _opened(path: str, follow: Follow | None) -> tuple[int, int]:
    """The descriptor of a regular file that was opened for reading, and the file's size."""
    refuse_no_name(path)
    try:
        opened = os.open(path, _FLAGS) if follow is None else _descriptor(path, follow)
    except OSError as error:
        if error.errno == errno.ENXIO:  # of a socket; also of a disk that fails
            is_there(path)
        raise refusal(error, path) from error
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise _missing(_irregular(status.st_mode), path, IRREGULAR)
    return opened, status.st_size


def _descriptor(path: str, follow: Follow) -> int:
    """The descriptor of a file, opened by its own path or, for a link, by the path of its target."""
    if not _NO_LINK and os.path.islink(path):
        path = follow(path)
    try:
        return os.open(path, _FLAGS | _NO_LINK)
    except OSError as error:
        if error.errno not in _LINKS:
            raise
    return os.open(follow(path), _FLAGS | _NO_LINK)


def refusal(error: Exception, path: str) -> HarnessError:
    """The error that names the file: that there is no such file, if `error` says so, or that its storage failed."""
    # An error that is not the operating system's has no number, and says by its class what it means.
    number = next((known for kind, known in _KINDS.items() if isinstance(error, kind)), getattr(error, "errno", None))
    if number not in _FAULTS:
        return failure(error, path)
    return _missing(_FAULTS[number], path, IRREGULAR if number in _IN_THE_WAY else None)


def failure(error: Exception, path: str) -> StorageError:
    """The error for storage that failed, without what a client's message may hold of secrets: what is behind a `?`."""
    told = _QUERY.sub("", f"{error}")[:_SHOWN]
    return StorageError(f"Cannot read file: its storage failed: {type(error).__name__}: {told}", file=path)


def _is_encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeError:
        return False
    return True


def _irregular(mode: int) -> str:
    return "it is a directory" if stat.S_ISDIR(mode) else "it is no regular file"


def _missing(reason: str, path: str, cause: str | None = None) -> MissingFileError:
    shown = path if len(path) <= _LONGEST else f"{path[:_SHOWN]}…"
    return MissingFileError(f"Cannot read file: {reason}", cause=cause, file=shown)
